"""View of one browser: robot and panel, and, while answers are awaited, that they are.

A thread of the page works on them for as long as it has something to do for the visitor. While it asks, and in between,
another thread may say how long answers have been awaited, and take away the colour that says how the robot stood.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import viser

from ik_service.page import actions, words
from ik_service.page.actions import ActionQueue
from ik_service.page.drawing import Color
from ik_service.page.panel import Panel
from ik_service.page.posed_robot import PosedRobot
from ik_service.page.questions import Solving
from ik_service.page.stage import Stage

OFF = {"collision": "off"}


class View:
    """A view of a robot.

    Args:
        client: The browser.
        solving: Who solves.
        wake: Called when there is something to do.

    Attributes:
        posed: The robot and its targets.
        stage: The scene.
        panel: The panel; there is none until the robot has been drawn (`is_complete`).
        trouble: Why there is no answer; empty where there is one.
        is_gone: Whether the browser has left.
    """

    posed: PosedRobot
    stage: Stage
    panel: Panel
    is_complete = is_gone = False
    trouble = ""
    _status: viser.GuiHtmlHandle | None = None

    def __init__(self, client: viser.ClientHandle, solving: Solving, wake: Callable[[], None]) -> None:
        self.client, self._solving, self._actions = client, solving, ActionQueue(wake, self._tell)
        self._telling, self._color, self._is_first = threading.Lock(), words.BY_HAND, False
        self._is_still, self._is_told = True, False  # no thread works on the scene; the wait for answers is shown

    def _tell(self) -> bool:
        """Show for how long answers have been awaited, and nothing of earlier answers; return whether to go on."""
        with self._telling, contextlib.suppress(RuntimeError):  # viser's, where the browser has just gone
            awaited = self._actions.awaited()
            seconds = max(awaited.values(), default=0.0)
            if seconds >= actions.SLOW_S and not self.is_gone:
                why = self._solving.compiling or (words.COMPILING if self._is_first else "")
                lines = [self.trouble if "again" in awaited else "", why]
                self._is_told = True
                if self._is_still:
                    self._take_away()
                self._status = self._status or self.client.gui.add_html("")
                self._status.content = words.waiting_html(self.posed, seconds, lines)
                self.client.flush()
        return not self.is_gone

    def _take_away(self) -> None:
        """Take away what earlier answers have shown, and disable the buttons that were pressed."""
        self._paint(words.BY_HAND)
        if self.is_complete:
            self.panel.show_awaited(self._actions.awaited())

    @contextlib.contextmanager
    def _asking(self) -> Iterator[None]:
        """Wait for an answer in this context: the thread that works for the visitor does not work on the scene."""
        with self._telling:
            was_still, self._is_still = self._is_still, True
            if self._is_told:
                self._take_away()
        try:
            yield
        finally:
            with self._telling:
                self._is_still = was_still

    def _end_wait(self) -> bool:
        """Note that what was taken is done; return whether a wait was shown that is over now."""
        with self._telling, contextlib.suppress(RuntimeError):
            self._actions.finish()
            was_told, self._is_still = self._is_told, True
            self._is_told = was_told and bool(self._actions.awaited())
            if was_told and self.is_complete and not self._is_told:
                self.panel.show_awaited(())
                self._paint(self._color)
        return was_told and not self._is_told

    def _draw(self, color: Color = words.BY_HAND) -> None:
        """Show where the robot stands, in a colour, and order the slice that belongs to it."""
        self._color = color
        self._paint(color)
        if self.is_complete and self.panel.slice_view is not None:
            self._actions.add_once(actions.SLICE_S, "slice")

    def _paint(self, color: Color) -> None:
        shows_islands = self.is_complete and bool(self.panel.islands.value)
        met = words.GOOD if color in (words.FAR_COLOR, words.HELD) else None
        self.stage.draw(self.posed, color, met_color=met, shows_islands=shows_islands)

    def _given(self) -> dict[str, Any]:
        """Return the options that the panel chooses, and what the robot is kept off."""
        objects = self._watched()
        return {"options": {}, "objects": objects} if objects is not None else {"options": OFF, "objects": {}}

    def _watched(self) -> dict[str, Any] | None:
        """Return what is around the robot; None where contact does not matter."""
        watches = self.panel.collision is None or bool(self.panel.collision.value)
        return self.stage.objects() if watches else None
