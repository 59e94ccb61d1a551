"""One visitor: what a browser asks for, and doing it.

Callbacks run on viser's event loop: they note what is wished for and return. A thread of the page does it in `work`,
always with the newest targets, so that a slow solve drops targets instead of falling behind.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import viser

from ik_service.page.panel import HERE, Panel
from ik_service.page.posed_robot import SOLUTIONS, PosedRobot
from ik_service.page.solving.questions import Float64Array, PageError, Question, Solving
from ik_service.page.stage import Stage, theme
from ik_service.page.words import (
    BY_HAND,
    COMPILING,
    HIT,
    curl_text,
    heading,
    python_text,
    random_html,
    request_html,
    status_html,
)

REFRESH_S = 0.1
"""Least time between two refreshes of the panel [s]; the robot is drawn after every solve."""
AGAIN_S = 1.0
"""Time after which a question is asked again that may be answered later [s]."""
APART = 0.05
"""Solutions are others where some coordinate differs by more [rad or m]."""
LATENCIES_MOST = 5000
SOLVE_WISHES = frozenset(("again", "branch", "collision", "drag", "first", "obstacle", "pick"))
"""Wishes that a solve of the targets fulfils."""
TOUCH_WISHES = frozenset(("again", "branch", "collision", "obstacle"))
"""Those after which no arm is frozen."""

_logger = logging.getLogger(__name__)


class Visitor:
    """A visitor.

    Args:
        client: The browser.
        solving: Who solves.
        name: Name of the first robot.
        wake: Called with the visitor when there is something to do.
        is_dark: Whether the page begins dark.

    Attributes:
        posed: The robot and its targets.
        stage: The scene.
        panel: The panel.
        solves: Solves of targets so far.
        latencies: Times from a gizmo's update to the drawn pose [s], the last thousands.
        refresh_at: Time at which the panel is to be refreshed; None where it is up to date.
        trouble: Why there is no answer; empty where there is one.
        is_gone: Whether the browser has left.
    """

    posed: PosedRobot
    stage: Stage
    panel: Panel

    def __init__(
        self,
        client: viser.ClientHandle,
        solving: Solving,
        name: str,
        wake: Callable[["Visitor"], None],
        *,
        is_dark: bool = False,
    ) -> None:
        self._client, self._solving, self._wake = client, solving, wake
        self._lock, self._working = threading.Lock(), threading.Lock()
        self._wishes = dict[str, Any]()
        self._dragged_at: float | None = None
        self._refreshed_at, self._random_seed = 0.0, 0
        self._question: Question | None = None
        self._others: Float64Array = np.empty((0, 0))
        self._kinds = set[tuple[object, ...]]()
        self.solves, self.latencies = 0, list[float]()
        self.refresh_at: float | None = None
        self.is_gone, self.trouble = False, ""
        self._show(name, is_dark=is_dark)

    # what callbacks call, on the event loop

    def robot_chosen(self, name: str) -> None:
        """Show another robot."""
        self._wish("robot", name)

    def target_changed(self, link: str, **values: Any) -> None:
        """Give a target another `position` [m] or `free` axes, or switch it on or off (`is_on`)."""
        self._wish(f"target {link}", values)

    def joint_changed(self, coordinate: int, value: float) -> None:
        """Give a coordinate a value [rad or m]."""
        self._wish(f"joint {coordinate}", value)

    def asked(self, wish: str) -> None:
        """Note that something is to be done."""
        self._wish(wish, None)

    def leave(self) -> None:
        """Do nothing more: the browser has gone, and its scene with it."""
        self.is_gone = True

    def _dragged(self) -> None:
        if self._dragged_at is None:
            self._dragged_at = time.perf_counter()
        self._wish("drag", None)

    def _wish(self, wish: str, value: Any) -> None:
        with self._lock:
            old = self._wishes.get(wish)
            self._wishes[wish] = {**old, **value} if isinstance(old, dict) and isinstance(value, dict) else value
        self._wake(self)

    # what a thread of the page calls

    def work(self) -> None:
        """Do what is wished for."""
        with self._working:
            with self._lock:
                wishes, self._wishes = self._wishes, {}
                dragged_at, self._dragged_at = self._dragged_at, None
            if self.is_gone or not wishes:
                return
            self._try(wishes)
            if self.is_gone:
                return
            self._client.flush()
            if dragged_at is not None:
                self.latencies = [*self.latencies[-LATENCIES_MOST:], time.perf_counter() - dragged_at]
            if self.refresh_at is None:
                self.refresh_at = self._refreshed_at + REFRESH_S

    def refresh(self) -> None:
        """Bring the panel up to date."""
        with self._working:
            self.refresh_at, self._refreshed_at = None, time.monotonic()
            if self.is_gone:
                return
            self.panel.status.content = status_html(self.posed, self.trouble)
            self.panel.show_posed(self.posed)
            if self._question is not None:
                address, is_remote = self._solving.address, self._solving.workers > 1
                program = python_text(self._question, address, is_remote=is_remote)
                self.panel.request.content = request_html(program, curl_text(self._question, address))
            self._client.flush()

    def _try(self, wishes: dict[str, Any]) -> None:
        """Do what is wished for; where that fails the visitor is told why, and asks again where that may help."""
        try:
            self._do(wishes)
            self.trouble = ""
        except PageError as error:
            self.trouble = str(error)
            self.stage.drawing.paint(HIT)
            if error.may_pass:
                timer = threading.Timer(AGAIN_S, self.asked, ["again"])
                timer.daemon = True
                timer.start()
        except Exception as error:
            if not self.is_gone:
                _logger.exception("A visitor's wish failed: %s", ", ".join(wishes))
                self.trouble = f"Something went wrong here: {error}"

    def _do(self, wishes: dict[str, Any]) -> None:
        if "dark" in wishes:
            self._client.gui.configure_theme(**theme(is_dark=self.panel.dark.value))
        if "robot" in wishes:
            self._show(wishes["robot"], is_dark=self.panel.dark.value)
            return
        self._pose_by_hand(wishes)
        targets = {link: wishes[f"target {link}"] for link in self.posed.targets if f"target {link}" in wishes}
        for link, values in targets.items():
            self._change(link, **values)
        if "obstacle" in wishes:
            self.stage.put_obstacle(self.posed, self.panel.obstacle.value, 1e-3 * self.panel.obstacle_size.value)
        if wishes.keys() & TOUCH_WISHES:
            self.posed.touch()
        if targets or wishes.keys() & SOLVE_WISHES:
            self._solve()
        if "spheres" in wishes:
            self.stage.show_spheres(self.posed, visible=self.panel.spheres.value)
        if "solutions" in wishes:
            self._look_for_solutions()
        if "random" in wishes:
            self._random_seed += 1
            question = self.posed.random_question(self._random_seed, self._options(), self._objects())
            self.panel.random.content = random_html(self._solving.solve(question))

    def _pose_by_hand(self, wishes: dict[str, Any]) -> None:
        """Pose the robot without a solve: by sliders, a ghost that is taken, or from the beginning."""
        joints = {int(wish.split()[1]): value for wish, value in wishes.items() if wish.startswith("joint ")}
        if "restart" in wishes:
            self.posed = PosedRobot(self.posed.name, self.posed.robot)
        elif joints:
            joint_q = np.array(self.posed.joint_q, np.float64)
            joint_q[list(joints)] = list(joints.values())
            self.posed.stand(joint_q)
        elif "pick" in wishes and self.panel.solution.value != HERE:
            self.posed.stand(self._others[int(self.panel.solution.value.split()[1]) - 1])
        else:
            return
        self._clear_ghosts()
        self.stage.place_gizmos(self.posed)
        self.stage.draw(self.posed, BY_HAND)

    def _change(self, link: str, **values: Any) -> None:
        """Change a target as the panel says."""
        position = values.pop("position", None)
        if position is not None:
            self.stage.gizmos[link].position = position
        if values:
            self.posed.change(link, **values)
        if "is_on" in values:
            self.stage.gizmos[link].visible = values["is_on"]

    def _solve(self) -> None:
        """Solve for the targets as they are now, and draw the answer."""
        for link, pose in self.stage.read_gizmos().items():
            self.posed.change(link, pose=pose)
        if not self.posed.asked:
            return
        question = self.posed.question(
            any_branch=self.panel.any_branch.value, options=self._options(), objects=self._objects()
        )
        kind = (question.robot, *((target.link, target.free) for target in question.targets))
        if kind not in self._kinds:
            self.panel.status.content = status_html(self.posed, COMPILING)
            self._client.flush()
        self._question = question
        answer = self._solving.solve(question)
        self._kinds.add(kind)
        self.posed.take(answer)
        self._clear_ghosts()
        self.stage.draw(self.posed, heading(answer)[1])
        self.solves += 1

    def _look_for_solutions(self) -> None:
        """Show other solutions for the targets as ghosts."""
        options = {"solutions": SOLUTIONS, **self._options()}
        question = self.posed.question(any_branch=True, options=options, objects=self._objects(), alone=False)
        found = np.asarray(self._solving.solve(question).solutions, np.float64)
        distance = np.abs(found - np.asarray(self.posed.joint_q, np.float64)).max(axis=1, initial=0.0)
        self._others = found[distance > APART]
        self.stage.show_ghosts(self.posed, self._others)
        self.panel.show_solutions(len(self._others))

    def _clear_ghosts(self) -> None:
        if len(self._others):
            self._others = self._others[:0]
            self.stage.show_ghosts(self.posed, self._others)
            self.panel.show_solutions(0)

    @property
    def _keeps_clear(self) -> bool:
        return self.panel.collision is None or bool(self.panel.collision.value)

    def _options(self) -> dict[str, Any]:
        """Return the options that the panel chooses."""
        return {} if self._keeps_clear else {"collision": "off"}

    def _objects(self) -> dict[str, Any]:
        """Return what the robot is kept off."""
        return self.stage.objects() if self._keeps_clear else {}

    def _show(self, name: str, *, is_dark: bool) -> None:
        """Show a robot, from the beginning."""
        posed, client = PosedRobot(name, self._solving.robot(name)), self._client
        with client.atomic():
            client.gui.reset()
            client.gui.configure_theme(**theme(is_dark=is_dark))
            client.gui.main_panel.dock_right()
            self._question, self._others = None, self._others[:0]
            self.posed = posed
            self.stage = Stage(client, posed, self._dragged)
            self.stage.draw(posed, BY_HAND)
            self.panel = Panel(client.gui, self._solving.robots, posed, self, is_dark=is_dark)
        client.flush()
        self._wish("first", None)
