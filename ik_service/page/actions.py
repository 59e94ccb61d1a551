"""Queue of a visitor's pending actions, one entry per kind, and the waiting time of the oldest one."""

import threading
import time
from collections.abc import Callable
from typing import Any

REFRESH_S = 0.1  # time from an action to the refresh of the panel [s]; the robot is drawn after every solve
AGAIN_S = 1.0  # time after which a question is asked again that may be answered later [s]
SLOW_S, LOOK_S = 0.15, 0.05
"""Time after which an action that is not done yet is said to be awaited, and from look to look [s]."""
UPLOAD_S = 0.5  # time for a browser to say that a file has come, before the button is made anew [s]
SLICE_S = 0.2  # least time from a solve to the next slice [s]
SOLVE_ACTIONS = frozenset(
    ("again", "ball", "box", "branch", "click", "collision", "drag", "pick", "remove", "size", "step", "undo")
)
"""Actions that a solve of the targets completes."""
QUESTION_ACTIONS = frozenset(("fit", "follow", "random", "solutions", "try"))  # other questions
VIEW_ACTIONS = frozenset(("grab", "picks", "plot", "refresh", "save", "scheme", "spheres", "time", "upload"))
"""Those that change what is seen alone."""
QUIET_ACTIONS = frozenset(("grab", "play", "plot", "refresh", "save", "slice", "time"))
"""Those after which it is still said why there was no answer."""


class ActionQueue:
    """Pending actions, each with its newest value.

    `wake` is called when an action is added; `tell` every `LOOK_S` in a separate thread while actions are awaited, and
    returns whether to continue.
    """

    def __init__(self, wake: Callable[[], None], tell: Callable[[], bool]) -> None:
        self._wake, self._tell, self._lock = wake, tell, threading.Lock()
        self._pending, self._ordered = dict[str, Any](), set[str]()
        self._added: float | None = None  # time at which the oldest pending action was added
        self._taken: float | None = None  # the same of the actions under way
        self._is_watched = False

    def add(self, action: str, value: Any = None) -> None:
        """Queue an action, on any thread; a dictionary value is merged with the pending value of the action."""
        with self._lock:
            old = self._pending.get(action)
            self._pending[action] = {**old, **value} if isinstance(old, dict) and isinstance(value, dict) else value
            if action not in VIEW_ACTIONS:
                self._added = self._added or time.monotonic()
                if not self._is_watched:
                    self._is_watched = True
                    threading.Thread(target=self._watch, name="ik-page-wait", daemon=True).start()
        self._wake()

    def add_later(self, seconds: float, action: str, value: Any = None) -> None:
        """Queue an action after a delay [s], unless the action is already scheduled."""
        if action not in self._ordered:
            self._ordered.add(action)
            timer = threading.Timer(seconds, self.add, [action, value])
            timer.daemon = True
            timer.start()

    def take(self) -> dict[str, Any]:
        """Return the pending actions with their values; they are awaited until `finish`."""
        with self._lock:
            pending, self._pending = self._pending, {}
            self._taken, self._added = self._added, None
        self._ordered -= pending.keys()
        return pending

    def finish(self) -> None:
        """End the wait for the taken actions."""
        with self._lock:
            self._taken = None

    def waited_s(self) -> float:
        """Return the waiting time of the oldest action [s], 0 for none; changes of the view are not awaited."""
        with self._lock:
            since = self._taken or self._added
        return 0.0 if since is None else time.monotonic() - since

    def _watch(self) -> None:
        goes_on = True
        while goes_on:
            time.sleep(LOOK_S)
            is_there = self._tell()
            with self._lock:
                goes_on = self._is_watched = is_there and (self._added or self._taken) is not None
