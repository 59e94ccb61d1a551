"""Queue of a visitor's pending actions, one entry per kind, with their waiting times."""

import threading
import time
from collections.abc import Callable
from typing import Any

REFRESH_S = 0.1  # least time between two refreshes of the panel [s]; the robot is drawn after every solve
AGAIN_S = 1.0  # time after which a question is asked again that may be answered later [s]
SLOW_S, LOOK_S = 0.15, 0.05
"""Time after which an action that is not done yet is said to be awaited, and from look to look [s]."""
PANEL_S = 3.0  # time after which the panel is sent at the latest [s]
UPLOAD_S = 0.5  # time for a browser to say that a file has come, before the button is made anew [s]
SLICE_S = 0.2  # least time from a solve to the next slice [s]
OBSTACLE_ACTIONS = frozenset(("ball", "box", "remove", "size"))
SOLVE_ACTIONS = OBSTACLE_ACTIONS | {
    "again",
    "branch",
    "click",
    "collision",
    "drag",
    "loops",
    "pick",
    "rest",
    "step",
    "undo",
}
"""Actions that a solve of the targets completes."""
START_ACTIONS = frozenset(("grab", "pick"))  # those that begin a drag or a change that can be undone
TOUCH_ACTIONS = SOLVE_ACTIONS - {"click", "drag", "pick", "rest", "step"}  # those after which no arm is frozen
PATH_ACTIONS = frozenset(("clear", "follow", "play"))
ASIDE_ACTIONS = PATH_ACTIONS | {"click", "file", "held", "random", "slice", "solutions"}
"""Those that leave the robot as it is where they fail."""
QUESTION_ACTIONS = frozenset(("follow", "random", "solutions"))  # questions besides the solve of the targets
VIEW_ACTIONS = frozenset(("dark", "grab", "picks", "refresh", "scheme", "spheres", "upload"))
"""Those that change what is seen alone."""
QUIET_ACTIONS = frozenset(("grab", "held", "play", "refresh", "slice"))
"""Those after which it is still said why there was no answer."""


class ActionQueue:
    """Pending actions, each with its newest value.

    `wake` is called when an action is added; `tell` every `LOOK_S` in a separate thread while actions are pending, and
    returns whether to continue.
    """

    def __init__(self, wake: Callable[[], None], tell: Callable[[], bool]) -> None:
        self._wake, self._tell, self._lock = wake, tell, threading.Lock()
        self._pending, self._held, self._ordered = dict[str, Any](), dict[str, Any](), set[str]()  # held: asked again
        self._added, self._taken = dict[str, float](), dict[str, float]()  # times at which the actions were added
        self._is_watched = False

    def add(self, action: str, value: Any = None) -> None:
        """Queue an action, on any thread; a dictionary value is merged with the pending value of the action."""
        with self._lock:
            old = self._pending.get(action)
            self._pending[action] = {**old, **value} if isinstance(old, dict) and isinstance(value, dict) else value
            if action not in VIEW_ACTIONS:
                self._added.setdefault(action, time.monotonic())
                if not self._is_watched:
                    self._is_watched = True
                    threading.Thread(target=self._watch, name="ik-page-wait", daemon=True).start()
        self._wake()

    def add_later(self, seconds: float, action: str, value: Any = None) -> None:
        """Queue an action after a delay [s]."""
        timer = threading.Timer(seconds, self.add, [action, value])
        timer.daemon = True
        timer.start()

    def add_once(self, seconds: float, action: str) -> None:
        """Queue an action after a delay [s], unless the action is already scheduled."""
        if not self.is_ordered(action):
            self._ordered.add(action)
            self.add_later(seconds, action)

    def is_ordered(self, action: str) -> bool:
        """Return whether an action is to come by `add_once`."""
        return action in self._ordered

    def take(self) -> dict[str, Any]:
        """Return all pending actions; they count as awaited until `finish`."""
        with self._lock:
            pending, self._pending = self._pending, {}
            if pending.keys() - VIEW_ACTIONS:
                pending, self._held = {**self._held, **pending}, {}
            self._taken = {a: self._added.pop(a, time.monotonic()) for a in pending.keys() - VIEW_ACTIONS}
        self._ordered -= pending.keys()
        return pending

    def retry(self, *, is_awaited: bool) -> None:
        """Repeat taken questions with the next action, at most `AGAIN_S` later; `is_awaited`: the wait goes on."""
        with self._lock:
            self._held = {"again": None, **dict.fromkeys(self._taken.keys() & QUESTION_ACTIONS)}
            if is_awaited:
                first = min(self._taken.values(), default=time.monotonic())
                self._added = {**dict.fromkeys(self._held, first), **self._added}
        self.add_later(AGAIN_S, "held")

    def finish(self) -> None:
        """End the wait for all taken actions."""
        with self._lock:
            self._taken = {}

    def awaited(self) -> dict[str, float]:
        """Return the waiting time of each action [s], without actions that change only the view."""
        with self._lock:
            return {action: time.monotonic() - at for action, at in {**self._added, **self._taken}.items()}

    def _watch(self) -> None:
        goes_on = True
        while goes_on:
            time.sleep(LOOK_S)
            is_there = self._tell()
            with self._lock:
                goes_on = self._is_watched = is_there and bool(self._added or self._taken)
