"""One visitor: the actions of a browser, and their execution.

Callbacks run on viser's event loop: they queue actions and return. A thread of the page runs the actions in `work`,
always with the newest targets, so a slow solve drops targets instead of falling behind.
"""

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import viser
from numpy.typing import NDArray

from ik_service.mechanism.transforms import Float64Array
from ik_service.page import actions, words
from ik_service.page.drawn_path import WAYPOINT_S, DrawnPath
from ik_service.page.panel import NO_SLICE, Panel
from ik_service.page.posed_robot import PosedRobot, TargetState
from ik_service.page.questions import Answer, PageError, Question, Solving
from ik_service.page.reach_slice import ReachSlice
from ik_service.page.request_texts import request_html
from ik_service.page.stage import Stage, pose_of
from ik_service.page.view import View

OTHER_SOLUTION = 0.05  # solutions are others where some coordinate differs by more [rad or m]
DRAG_STEP_S = 1.0 / 60.0  # time between two solves on the way to where a gizmo has been dragged [s]
BETWEEN_S = 2.0 * DRAG_STEP_S
"""Time that this takes at most [s]: a browser tells where a gizmo is every 50 ms, and the robot moves in between."""
LATENCIES_MOST, UNDO_MOST = 5000, 50

_logger = logging.getLogger(__name__)


class Visitor(View):
    """A visitor; `name` is the first robot, and `wake` is called with the visitor when an action is added."""

    question: Question | None = None  # the last question; None before the first
    _path: DrawnPath
    others: Float64Array = np.empty((0, 0))  # other solutions, drawn as ghosts, shape [n, joint_coord_count]
    branches: NDArray[Any] = np.empty(0, int)  # their branches, -1 where not known, shape [n]

    def __init__(
        self,
        client: viser.ClientHandle,
        solving: Solving,
        name: str,
        wake: Callable[["Visitor"], None],
        *,
        is_dark: bool = False,
    ) -> None:
        super().__init__(client, solving, lambda: wake(self))
        self.enqueue = self._actions.add  # on any thread
        self._working, self._names = threading.Lock(), list(solving.robots)
        self._dragged_at: float | None = None
        self._heard_at, self._arrives_at = 0.0, 0.0
        self._refreshed_at, self._random_seed = 0.0, 0
        self._kinds = set[tuple[object, ...]]()
        self.solves = 0  # of targets so far
        self.latencies = deque[float](maxlen=LATENCIES_MOST)  # times from a gizmo's update to the drawn pose [s]
        self._is_dark = self._has_chosen = is_dark
        self._show(name)

        frames = iter((self.stage.look, lambda: self.enqueue("rest")))

        async def camera_stands(_: object) -> None:
            # A frame with the robot, then a frame with the camera nearer: the first frame is no longer delayed.
            next(frames, int)()

        client.camera.on_update(camera_stands)
        self._actions.add_later(actions.PANEL_S, "rest")

    def leave(self) -> None:
        """Stop all work: the browser and its scene are gone."""
        self.is_gone = True

    def dragged(self, phase: str = "update") -> None:
        """Queue the phase of a drag; the phases of viser are start, update and end."""
        if phase != "update":
            if phase == "start":
                self.enqueue("grab")
            return
        now = time.perf_counter()
        self._dragged_at = self._dragged_at or now
        self._arrives_at = now + min(max(now - self._heard_at - DRAG_STEP_S, 0.0), BETWEEN_S)
        self._heard_at = now
        self.enqueue("drag")

    def work(self) -> None:
        """Run the pending actions; called by a thread of the page."""
        with self._working:
            pending = self._actions.take()
            dragged_at, self._dragged_at = self._dragged_at, None
            if self.is_complete:
                pending.pop("rest", None)  # already drawn
            if pending.keys() - {"refresh"} and not self.is_gone:
                with self._telling:
                    self._is_still = False
                self._try(pending)
            was_told = self._end_wait()
            if self.is_gone or not (pending or was_told):
                return
            self.client.flush()
            if dragged_at is not None:
                self.latencies.append(time.perf_counter() - dragged_at)
            if self.is_complete:
                self._refresh(is_due="refresh" in pending or was_told)

    def _refresh(self, *, is_due: bool) -> None:
        """Bring the panel up to date, now or after `actions.REFRESH_S`."""
        now = time.monotonic()
        if not is_due and (self._actions.is_ordered("refresh") or now < self._refreshed_at + actions.REFRESH_S):
            self._actions.add_once(actions.REFRESH_S, "refresh")
            return
        self._refreshed_at = now
        status = words.status_html(
            self.posed,
            self.trouble,
            keeps_branch=not self.panel.any_branch.value,
            is_first=self._is_first,
            objects=self._watched(),
        )
        with self._telling:
            self.panel.status.content = self.panel.status.content if self._is_told else status
        self.panel.path.content = words.path_html(len(self._path), self._path.followed)
        self.panel.show_posed(self.posed)
        self.panel.show_size(self.stage.last_obstacle)
        if self.question is not None:
            self.panel.request.content = request_html(self.question, self._solving)
        self.client.flush()

    def _try(self, pending: dict[str, Any]) -> None:
        """Run the pending actions; show the reason of a failure, and retry where a retry may help."""
        try:
            self._do(pending)
            if pending.keys() - actions.QUIET_ACTIONS:
                self.trouble = ""
        except PageError as error:
            self.trouble = str(error)
            if not pending.keys() & actions.ASIDE_ACTIONS:
                self._draw()
            if error.may_pass:
                self._actions.retry(is_awaited=self._is_told)
        except Exception as error:
            if not self.is_gone:
                _logger.exception("A visitor's action failed: %s", ", ".join(pending))
                self.trouble = f"Something went wrong here: {error}"
                with contextlib.suppress(Exception):  # perhaps the drawing is at fault
                    self._draw()

    def _do(self, pending: dict[str, Any]) -> None:
        self._do_looks(pending)
        if not self.is_complete:
            if not pending.keys() - {"scheme"}:
                return  # the robot is drawn first
            self._complete()
        self._do_robot(pending)
        if "robot" not in pending:
            self._do_targets(pending)
            self._do_aside(pending)

    def _do_looks(self, pending: dict[str, Any]) -> None:
        """Follow the visitor's choice of dark or light; before a choice, the setting of the system."""
        self._has_chosen = self._has_chosen or "dark" in pending
        is_dark = pending.get("dark", self._is_dark if self._has_chosen else pending.get("scheme", self._is_dark))
        if is_dark != self._is_dark:
            self._is_dark = is_dark
            self._dress()
            if self.is_complete:
                self.panel.dark.value = is_dark

    def _do_robot(self, pending: dict[str, Any]) -> None:
        """Show a chosen or uploaded robot, or the same from the beginning."""
        if "upload" in pending:
            self._actions.add_later(actions.UPLOAD_S, "file", pending["upload"])
        if "file" in pending:
            with self._asking():
                pending["robot"] = self._solving.add_robot(pending["file"].name, pending["file"].content)
            self._names = [pending["robot"], *(name for name in self._names if name != pending["robot"])]
        if "restart" in pending:
            pending["robot"] = self.posed.name
        if "robot" in pending:
            self._status.content, self._is_told = words.waiting_html(self.posed, 0.0, ()), True
            self._show(pending["robot"])
            self._complete()
            self._solve()

    def _do_targets(self, pending: dict[str, Any]) -> None:
        """Change targets, configuration and obstacles, and solve."""
        if pending.keys() - actions.ASIDE_ACTIONS - actions.VIEW_ACTIONS:
            self._path.shown = 0
        targets = {link: pending[f"target {link}"] for link in self.posed.targets if f"target {link}" in pending}
        if targets or pending.keys() & actions.START_ACTIONS:
            self._earlier.append((self.posed.joint_q, dict(self.posed.targets)))
        if "undo" in pending and self._earlier:
            self.posed.go_back(*self._earlier.pop())
            self.stage.place_gizmos(self.posed)
        self._pose_by_hand(pending)
        for link, values in targets.items():
            self._change(link, **values)
        if "click" in pending:
            self._path.shown = 0
            self.stage.show_target(self.posed.pick(pending["click"]))
        self._do_obstacles(pending)
        self.posed.keeps_loops = pending.get("loops", self.posed.keeps_loops)
        if pending.keys() & actions.TOUCH_ACTIONS:
            self.posed.touch()
        if targets or pending.keys() & actions.SOLVE_ACTIONS:
            self._solve()

    def _do_obstacles(self, pending: dict[str, Any]) -> None:
        for kind in pending.keys() & {"box", "ball"}:
            self.stage.add_obstacle(self.posed, kind)
        if "size" in pending:
            self.stage.size_obstacle(pending["size"])
        if "remove" in pending:
            self.stage.remove_obstacle()

    def _do_aside(self, pending: dict[str, Any]) -> None:
        if "picks" in pending:
            self.stage.drawing.tell_clicks((lambda link: self.enqueue("click", link)) if pending["picks"] else None)
        if "spheres" in pending:
            self.stage.show_spheres(self.posed, visible=pending["spheres"])
        if "solutions" in pending:
            self._look_for_solutions()
        if pending.keys() & actions.PATH_ACTIONS:
            self._do_path(pending)
        if "slice" in pending:
            self._show_slice()
        if "random" in pending:
            self._random_seed += 1
            question = self.posed.random_question(self._random_seed, **self._given())
            self.panel.random.content = words.random_html(self._ask(self._solving.solve, question))

    def _do_path(self, pending: dict[str, Any]) -> None:
        """Follow the drawn path, show its next waypoint, or delete the path."""
        if "clear" in pending:
            self._path = DrawnPath()
            self.panel.show_plot(self.posed, np.empty((0, 0)), WAYPOINT_S)
        path = self._path
        if "follow" in pending and len(path):
            path.followed = self._ask(self._solving.follow, path.question(self.posed, **self._given()), WAYPOINT_S)
            self.panel.show_plot(self.posed, path.followed.joint_q, WAYPOINT_S)
            self._actions.add_later(0.0, "play", (path.begin(), 0))
        run, at = pending.get("play", (0, 0))
        if path.followed is not None and run and run == path.shown:
            self.posed.stand(path.followed.joint_q[at], path.poses(at))
            self.stage.place_gizmos(self.posed)
            self._draw(words.GOOD if path.followed.success[at] else words.FAR_COLOR)
            if at + 1 < len(path):
                self._actions.add_later(WAYPOINT_S, "play", (run, at + 1))
        self.stage.show_path(path.lines)

    def _show_slice(self) -> None:
        """Show a slice of the workspace through the first target, or remove the slice."""
        plane = self.panel.plane.value
        if plane == NO_SLICE or not self.posed.asked:
            self.stage.show_slice(np.empty((0, 3)), np.empty((0, 3), np.uint8), 0.0)
            return
        shown = ReachSlice(self.posed, plane, **self._given())
        self.stage.show_slice(*shown.reached(self._ask(self._solving.solve, shown.question)), shown.apart)

    def _pose_by_hand(self, pending: dict[str, Any]) -> None:
        """Pose the robot without a solve: by sliders, or by a chosen ghost."""
        joints = {int(action.split()[1]): value for action, value in pending.items() if action.startswith("joint ")}
        if joints:
            joint_q = np.array(self.posed.joint_q, np.float64)
            joint_q[list(joints)] = list(joints.values())
            self.posed.stand(joint_q)
        elif pending.get("pick") in self.panel.solution.options[1:]:
            place = self.panel.solution.options.index(pending["pick"]) - 1
            self.posed.stand(self.others[place], branch=int(self.branches[place]))
        else:
            return
        self._forget_others()
        self.stage.place_gizmos(self.posed)
        objects = self._watched()
        is_hit = objects is not None and self.posed.closest(objects)[1] < 0.0
        self._draw(words.HIT if is_hit else words.BY_HAND)

    def _change(self, link: str, **values: Any) -> None:
        pose = pose_of(self.stage.gizmos[link])
        parts = values.pop("position", pose[:3]), values.pop("orientation_xyzw", pose[3:])
        self.stage.place_gizmo(link, np.concatenate(parts))
        if values:
            self.posed.change(link, **values)
        self.stage.gizmos[link].visible = self.posed.targets[link].is_on

    def _solve(self) -> None:
        left = max(self._arrives_at - time.perf_counter(), 0.0)
        gizmos = self.stage.read_gizmos()
        for link, pose in gizmos.items():
            self.posed.move(link, pose, share=DRAG_STEP_S / (DRAG_STEP_S + left))
        if any((self.posed.targets[link].pose != pose).any() for link, pose in gizmos.items()):
            self._actions.add_later(DRAG_STEP_S, "step")
        question = self.posed.question(any_branch=self.panel.any_branch.value, **self._given())
        self.question = question
        self._forget_others()
        answer: Answer = self._ask(self._solving.solve, question)
        self.posed.take(answer)
        self._draw(words.heading(answer)[1])
        self.solves += 1
        if self.panel.record.value:
            self._path.add(self.posed)
            self.stage.show_path(self._path.lines)

    def _ask(self, ask: Callable[..., Any], question: Question, *more: Any) -> Any:
        """Return the answer; record whether the question was the first of its kind."""
        kind = (ask.__name__, *question.kind)
        self._is_first = kind not in self._kinds
        with self._asking():
            answer = ask(question, *more)
        self._kinds.add(kind)
        return answer

    def _look_for_solutions(self) -> None:
        given = self._given()
        given["options"] = {"solutions": self.posed.wanted_solutions(), **given["options"]}
        question = self.posed.question(any_branch=True, alone=False, **given)
        self._forget_others()
        answer: Answer = self._ask(self._solving.solve, question)
        found = np.asarray(answer.solutions, np.float64)
        distance = np.abs(found - np.asarray(self.posed.joint_q, np.float64)).max(axis=1, initial=0.0)
        is_other = distance > OTHER_SOLUTION
        self.others, self.branches = found[is_other], answer.branches[is_other]
        self._show_others(is_complete=answer.is_complete)

    def _forget_others(self) -> None:
        if len(self.others) or self.panel.found.content:
            self.others, self.branches = self.others[:0], self.branches[:0]
            self._show_others()

    def _show_others(self, *, is_complete: bool | None = None) -> None:
        names = [words.ghost_name(k, branch) for k, branch in enumerate(self.branches.tolist())]
        self.stage.show_ghosts(self.posed, self.others)
        self.panel.show_solutions(names, is_complete=is_complete)

    def _show(self, name: str) -> None:
        """Show a robot, from the beginning, and nothing else yet."""
        with self._asking():
            robot = self._solving.robot(name)
        self.posed = PosedRobot(name, robot)
        self.is_complete, self.question = False, None
        self.others, self.branches = self.others[:0], self.branches[:0]
        self._path = DrawnPath()
        self._earlier = deque[tuple[NDArray[Any], dict[str, TargetState]]](maxlen=UNDO_MOST)
        with self._telling, self.client.atomic():
            self.client.gui.reset()
            self.client.gui.add_html(words.scheme_html(self.client.client_id))
            self._status = self.client.gui.add_html(words.waiting_html(self.posed, 0.0, ()))
            self._dress()
            self.client.gui.main_panel.dock_right()
            self.stage = Stage(self.client, self.posed, self._solving.bodies(name), self.dragged)
            self._draw()
        self.client.flush()

    def _complete(self) -> None:
        """Show the rest of the view: gizmos and the panel."""
        with self._telling, self.client.atomic():
            self.stage.complete(self.posed)
            gui, status = self.client.gui, self._status
            self.panel = Panel(gui, self._names, self.posed, self.enqueue, is_dark=self._is_dark, status=status)
            self.panel.show_posed(self.posed)
            self.panel.show_awaited(self._actions.awaited())
            self.is_complete = True

    def _dress(self) -> None:
        """Set the theme of the page, without links to other hosts."""
        self.client.gui.configure_theme(
            dark_mode=self._is_dark, control_width="large", show_logo=False, show_share_button=False
        )
