"""Side threads for work that would block the event loop; API keys take turns.

    run(owner, function) -> the owner's queue -> next free thread takes the owner waiting longest -> event loop

Few threads are as fast as many, because Python runs one thread at a time and each running thread delays the event loop.
With several API keys, each key occupies at most one thread, so the work of another key begins at once. A key rests
after failed work: otherwise, refused bodies could keep Python busy without end. While a side thread works, Python
switches threads more often and collects no garbage. Otherwise, reading the largest robot would delay the event loop by
5 ms at each switch and by up to 90 ms for a collection.
"""

import asyncio
import contextvars
import gc
import logging
import queue
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from ik_service.service.queue.fair_cap import Owner

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

SHORT_TURN_S = 0.0005
"""Switch interval of Python's threads while side threads work [s]."""

REST = 20.0
"""An owner whose work has failed rests for this many times the CPU time of the work, where there are several owners."""

_logger = logging.getLogger(__name__)


class ShortThreadTurns:
    """Shortens thread turns and switches garbage collection off while any side thread of the process works."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._working = 0
        self._turn_s, self._collects = 0.0, False  # earlier settings

    @contextmanager
    def working(self) -> Iterator[None]:
        """Apply the settings within a block; the end of the last block restores the earlier settings."""
        with self._lock:
            self._working += 1
            if self._working == 1:
                self._turn_s, self._collects = sys.getswitchinterval(), gc.isenabled()
                sys.setswitchinterval(SHORT_TURN_S)
                gc.disable()
        try:
            yield
        finally:
            with self._lock:
                self._working -= 1
                if not self._working:
                    sys.setswitchinterval(self._turn_s)
                    if self._collects:
                        gc.enable()


_SHORT_TURNS = ShortThreadTurns()


@dataclass(eq=False)
class _Task:
    owner: Owner
    call: Callable[[], Any]
    future: "asyncio.Future[Any]"
    loop: asyncio.AbstractEventLoop
    took_s: float = 0.0


class SideThreads:
    """Threads for one event loop."""

    def __init__(self, threads: int, name: str, *, is_shared: bool = False) -> None:
        self._threads, self._name = threads, name
        self._each = 1 if is_shared else threads  # most threads for one owner
        self._waiting: dict[Owner, deque[_Task]] = {}  # owners in the order of their turns
        self._busy: dict[Owner, int] = {}
        self._is_shared, self._resting = is_shared, set[Owner]()
        self._started = 0
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()

    def run(
        self,
        owner: Owner,
        function: Callable[Arguments, Result],
        *arguments: Arguments.args,
        **options: Arguments.kwargs,
    ) -> "asyncio.Future[Result]":
        """Call a function in a thread at its owner's turn, unless the future is cancelled earlier."""
        context, loop = contextvars.copy_context(), asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        task = _Task(owner, lambda: context.run(function, *arguments, **options), future, loop)
        self._waiting.setdefault(owner, deque()).append(task)
        self._hand_out()
        return future

    def close(self) -> None:
        """End the threads after their current work."""
        for _ in range(self._started):
            self._tasks.put(None)

    def _hand_out(self) -> None:
        while sum(self._busy.values()) < self._threads and (task := self._next()) is not None:
            if self._started < min(self._threads, 1 + sum(self._busy.values())):
                self._started += 1
                name = f"{self._name}-{self._started}"
                threading.Thread(target=self._work, name=name, daemon=True).start()
            self._busy[task.owner] = self._busy.get(task.owner, 0) + 1
            self._tasks.put(task)

    def _next(self) -> _Task | None:
        """Return the next task by turn; its owner goes to the end of the order."""
        for owner, tasks in list(self._waiting.items()):
            while tasks and tasks[0].future.done():
                tasks.popleft()
            if not tasks:
                del self._waiting[owner]
            elif self._busy.get(owner, 0) < self._each and owner not in self._resting:
                task = tasks.popleft()
                del self._waiting[owner]
                if tasks:
                    self._waiting[owner] = tasks
                return task
        return None

    def _work(self) -> None:
        """Run tasks in a thread until `close`."""
        while (task := self._tasks.get()) is not None:
            result, error, began = None, None, time.thread_time()
            try:
                with _SHORT_TURNS.working():
                    result = task.call()
            except BaseException as caught:  # noqa: BLE001  # the future gets the error; the thread takes the next task
                error = caught
            task.took_s = time.thread_time() - began
            try:
                task.loop.call_soon_threadsafe(self._done, task, result, error)
            except RuntimeError:  # the event loop has ended
                return
            del task, result, error

    def _done(self, task: _Task, result: Any, error: BaseException | None) -> None:
        left = self._busy.pop(task.owner) - 1
        if left:
            self._busy[task.owner] = left
        if error is not None and self._is_shared:
            self._resting.add(task.owner)
            task.loop.call_later(REST * task.took_s, self._end_rest, task.owner)
        if task.future.done():
            if error is not None:
                _logger.debug("What nobody waits for any more has failed: %s", error)
        elif error is None:
            task.future.set_result(result)
        else:
            task.future.set_exception(error)
        self._hand_out()

    def _end_rest(self, owner: Owner) -> None:
        self._resting.discard(owner)
        self._hand_out()
