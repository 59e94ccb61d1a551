"""View of one browser: robot, panel, and the notice of pending answers.

A worker thread of the page runs the actions of the visitor. While the worker waits for an answer, and between actions,
another thread may show the waiting time, and remove the color of the previous result.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import viser

from ik_service.page import actions, words
from ik_service.page.actions import ActionQueue
from ik_service.page.drawn_path import DrawnPath
from ik_service.page.geometry import Color
from ik_service.page.local_solving import LocalSolving
from ik_service.page.panel import Panel
from ik_service.page.posed_robot import PosedRobot
from ik_service.page.questions import Question
from ik_service.page.request_texts import request_html
from ik_service.page.stage import Stage

OFF = {"collision": "off"}
DRAG_STEP_S = 1.0 / 60.0  # time between two solves on the way to where a gizmo has been dragged [s]
BETWEEN_S = 5.0 * DRAG_STEP_S
"""Longest time of the steps between two messages [s]: a browser sends the pose of a gizmo every 50 to 100 ms."""


class View:
    """A view of a robot; `wake` is called with the view when an action is added.

    The page is dark where the visitor's system is, and always with `is_dark`.
    """

    is_gone = False  # whether the browser has left
    trouble = ""  # reason why there is no answer; empty otherwise
    question: Question | None = None  # the last question; None before the first

    def __init__(
        self,
        client: viser.ClientHandle,
        solving: LocalSolving,
        wake: Callable[[Any], None],
        *,
        is_dark: bool = False,
    ) -> None:
        self.client, self._solving = client, solving
        self._actions = ActionQueue(lambda: wake(self), self._tell)
        self.enqueue = self._actions.add  # on any thread
        self._names, self._is_dark, self._stays_dark = list(solving.robots), is_dark, is_dark
        self._working = threading.Lock()
        self._drawing = threading.Lock()  # held while scene and panel change, free while an answer is awaited
        self._heard_at, self._arrives_at = 0.0, 0.0
        self._painted, self._is_told = words.BY_HAND, False  # the status tells of an awaited answer

    def _show(self, name: str) -> None:
        """Show a robot from the beginning: its scene and the panel."""
        with self._asking():
            robot = self._solving.robot(name)
        self.posed, self.question, self._path = PosedRobot(name, robot), None, DrawnPath()
        with self.client.atomic():
            self.client.gui.reset()
            self.client.gui.add_html(words.page_html(self.client.client_id))
            status = self.client.gui.add_html(words.waiting_html(self.posed, 0.0))
            self._is_told = True
            self.client.gui.main_panel.dock_right()
            self.stage = Stage(self.client, self.posed, self._solving.bodies[name], self.dragged)
            self._dress()
            self.panel = Panel(self.client.gui, self._names, self.posed, self.enqueue, status)
            self.panel.show_posed(self.posed)
            self._paint(words.BY_HAND)
        self.client.flush()

    def _dress(self) -> None:
        """Set the theme of the page, without links to other hosts."""
        self.client.gui.configure_theme(
            dark_mode=self._is_dark, control_width="large", show_logo=False, show_share_button=False
        )
        self.stage.dress(is_dark=self._is_dark)

    def dragged(self, phase: str = "update") -> None:
        """Queue the phase of a drag; the phases of viser are start, update and end."""
        if phase == "start":
            self.enqueue("grab")
        elif phase == "update":
            now = time.perf_counter()
            self._arrives_at = now + min(max(now - self._heard_at - DRAG_STEP_S, 0.0), BETWEEN_S)
            self._heard_at = now
            self.enqueue("drag")

    def _tell(self) -> bool:
        """Show for how long answers have been awaited, and nothing of earlier answers; return whether to go on."""
        with self._drawing, contextlib.suppress(RuntimeError):  # viser's, where the browser has just gone
            seconds = self._actions.waited_s()
            if seconds >= actions.SLOW_S and not self.is_gone:
                self._is_told = True
                self._paint(words.BY_HAND)
                self.panel.status.content = words.waiting_html(self.posed, seconds, self._solving.compiling)
                self.client.flush()
        return not self.is_gone

    @contextlib.contextmanager
    def _asking(self) -> Iterator[None]:
        """Wait for an answer in this context: meanwhile the worker thread does not touch the scene."""
        self._drawing.release()
        try:
            yield
        finally:
            self._drawing.acquire()

    def _end_wait(self) -> bool:
        """End the wait for the taken actions; return whether a notice was visible until now."""
        self._actions.finish()
        was_told = self._is_told
        self._is_told = was_told and self._actions.waited_s() > 0.0
        return was_told and not self._is_told

    def _draw(self) -> None:
        """Draw the robot in the color of its status."""
        self._paint(words.heading(self.posed, self.trouble, self._watched())[1], moves=True)

    def _paint(self, color: Color, *, moves: bool = False) -> None:
        if moves or color != self._painted:
            met = words.GOOD if color in (words.FAR_COLOR, words.HELD) else None
            self.stage.draw(self.posed, color, met_color=met)
        self._painted = color

    def _refresh(self) -> None:
        """Bring the panel up to date."""
        if not self._is_told:
            self.panel.status.content = words.status_html(
                self.posed, self.trouble, keeps_branch=not self.panel.any_branch.value, objects=self._watched()
            )
        self.panel.path.content = words.path_html(self._path)
        self.panel.show_posed(self.posed)
        self.panel.show_size(self.stage.last_obstacle)
        if self.question is not None:
            self.panel.request.content = request_html(self.question, self._solving)
        self.client.flush()

    def _given(self) -> dict[str, Any]:
        """Return the options of the panel, and the obstacles."""
        objects = self._watched()
        return {"options": OFF if objects is None else {}, "objects": objects or {}}

    def _watched(self) -> dict[str, Any] | None:
        """Return the obstacles; None where contact does not matter."""
        watches = self.panel.collision is None or bool(self.panel.collision.value)
        return self.stage.objects() if watches else None
