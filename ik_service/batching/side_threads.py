"""Work beside the event loop: what takes long goes to few threads, where API keys take turns.

    run(key, function) -> the key's own queue -> next free thread, the key that has waited longest -> back to the loop

Many threads at once would not be faster, since Python runs one of them at a time, and each of them would hold up the
event loop whenever it wants to go on. One key keeps no more than one thread busy while it is not the only one, so that
another key's work begins at once. While any of them works, Python changes threads more often and looks for no garbage:
to read the largest robot would hold up the event loop by 5 ms at each of its turns, and by up to 90 ms at once.
"""

import asyncio
import contextvars
import gc
import logging
import queue
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from ik_service.batching.queue.fair_cap import Owner

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

SHORT_TURN_S = 0.0005
"""How long a thread keeps the interpreter while another one waits for it and work is done beside the event loop."""

_log = logging.getLogger(__name__)


class ShortThreadTurns:
    """Lets other threads go on soon, as long as anybody works; of the whole process, as what it sets is."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._working = 0
        self._turn_s, self._collects = 0.0, False  # as they were before

    @contextmanager
    def working(self) -> Iterator[None]:
        """Change threads often and collect no garbage within; what Python was set to comes back with the last one."""
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


class SideThreads:
    """Threads that work for one event loop.

    Args:
        threads: How many.
        name: What they are called.
        is_shared: Whether there are several API keys.
    """

    def __init__(self, threads: int, name: str, *, is_shared: bool = False) -> None:
        self._threads, self._name = threads, name
        self._each = 1 if is_shared else threads  # threads that one owner may keep busy
        self._waiting: dict[Owner, deque[_Task]] = {}  # in the order of turns
        self._busy: dict[Owner, int] = {}
        self._started = 0
        self._jobs: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()

    def run(
        self,
        owner: Owner,
        function: Callable[Arguments, Result],
        *arguments: Arguments.args,
        **options: Arguments.kwargs,
    ) -> "asyncio.Future[Result]":
        """Call a function in a thread when its owner's turn comes; not at all where nobody waits any more.

        Args:
            owner: Whose work it is.
            function: What to call.
            arguments: Its arguments.
            options: Its named arguments.
        """
        context, loop = contextvars.copy_context(), asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        job = _Task(owner, lambda: context.run(function, *arguments, **options), future, loop)
        self._waiting.setdefault(owner, deque()).append(job)
        self._hand_out()
        return future

    def close(self) -> None:
        """End the threads, once they have done what they are at."""
        for _ in range(self._started):
            self._jobs.put(None)

    def _hand_out(self) -> None:
        while sum(self._busy.values()) < self._threads and (job := self._next()) is not None:
            if self._started < min(self._threads, 1 + sum(self._busy.values())):
                self._started += 1
                name = f"{self._name}-{self._started}"
                threading.Thread(target=self._work, name=name, daemon=True).start()
            self._busy[job.owner] = self._busy.get(job.owner, 0) + 1
            self._jobs.put(job)

    def _next(self) -> _Task | None:
        """Take the next job of the owner whose turn it is; its next turn comes after those of all others."""
        for owner, jobs in list(self._waiting.items()):
            while jobs and jobs[0].future.done():
                jobs.popleft()
            if not jobs:
                del self._waiting[owner]
            elif self._busy.get(owner, 0) < self._each:
                job = jobs.popleft()
                del self._waiting[owner]
                if jobs:
                    self._waiting[owner] = jobs
                return job
        return None

    def _work(self) -> None:
        """Run jobs, in a thread, until there are no more."""
        while (job := self._jobs.get()) is not None:
            result, error = None, None
            try:
                with _SHORT_TURNS.working():
                    result = job.call()
            except BaseException as caught:  # noqa: BLE001  # it belongs to who waits, whatever it is
                error = caught
            try:
                job.loop.call_soon_threadsafe(self._done, job, result, error)
            except RuntimeError:  # the loop has ended, and with it everybody who waits
                return
            del job, result, error

    def _done(self, job: _Task, result: Any, error: BaseException | None) -> None:
        left = self._busy.pop(job.owner) - 1
        if left:
            self._busy[job.owner] = left
        if job.future.done():
            if error is not None:
                _log.debug("What nobody waits for any more has failed: %s", error)
        elif error is None:
            job.future.set_result(result)
        else:
            job.future.set_exception(error)
        self._hand_out()
