"""View of one browser: robot, panel, and the notice of pending answers.

A worker thread of the page runs the actions of the visitor. During a solve and between actions, another thread may show
the waiting time, and remove the color of the previous result.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import viser

from ik_service.page import actions, words
from ik_service.page.actions import ActionQueue
from ik_service.page.geometry import Color
from ik_service.page.panel import NO_SLICE, Panel
from ik_service.page.posed_robot import PosedRobot
from ik_service.page.questions import Solving
from ik_service.page.stage import Stage

OFF = {"collision": "off"}


class View:
    """A view of a robot; `wake` is called when an action is added."""

    posed: PosedRobot
    stage: Stage
    panel: Panel  # missing until the robot is drawn (`is_complete`)
    is_complete = is_gone = False  # whether all is drawn, and whether the browser has left
    trouble = ""  # reason why there is no answer; empty otherwise
    _status: viser.GuiHtmlHandle

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
                why = self.trouble if self.trouble and "again" in awaited else why
                self._is_told = True
                if self._is_still:
                    self._take_away()
                self._status.content = words.waiting_html(self.posed, seconds, [why])
                self.client.flush()
        return not self.is_gone

    def _take_away(self) -> None:
        """Remove earlier results, and disable the buttons of pending actions."""
        self._paint(words.BY_HAND)
        if self.is_complete:
            self.panel.show_awaited(self._actions.awaited())
        self.client.flush()

    @contextlib.contextmanager
    def _asking(self) -> Iterator[None]:
        """Wait for an answer in this context: meanwhile the worker thread does not touch the scene."""
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
        """End the wait for the taken actions; return whether a wait notice was visible until now."""
        with self._telling, contextlib.suppress(RuntimeError):
            self._actions.finish()
            was_told, self._is_still = self._is_told, True
            self._is_told = was_told and bool(self._actions.awaited())
            if was_told and self.is_complete and not self._is_told:
                self.panel.show_awaited(())
                self._paint(self._color)
        return was_told and not self._is_told

    def _draw(self, color: Color = words.BY_HAND) -> None:
        """Draw the robot in a color, and schedule the matching slice."""
        self._color = color
        self._paint(color)
        if self.is_complete and self.panel.plane.value != NO_SLICE:
            self._actions.add_once(actions.SLICE_S, "slice")

    def _paint(self, color: Color) -> None:
        met = words.GOOD if color in (words.FAR_COLOR, words.HELD) else None
        self.stage.draw(self.posed, color, met_color=met)

    def _given(self) -> dict[str, Any]:
        """Return the options of the panel, and the obstacles."""
        objects = self._watched()
        return {"options": {}, "objects": objects} if objects is not None else {"options": OFF, "objects": {}}

    def _watched(self) -> dict[str, Any] | None:
        """Return the obstacles; None where contact does not matter."""
        watches = self.panel.collision is None or bool(self.panel.collision.value)
        return self.stage.objects() if watches else None
