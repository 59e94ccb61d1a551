"""One visitor: the actions of a browser, and their execution.

Callbacks run on viser's event loop: they queue actions and return. A thread of the page runs the actions in `work`,
always with the newest targets, so a slow solve drops targets instead of falling behind.
"""

import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.ik_solver import IKSolver
from ik_service.mechanism.transforms import Float64Array
from ik_service.page import actions, words
from ik_service.page.drawn_path import RAMP_S, WAYPOINT_S, DrawnPath
from ik_service.page.panel import NO_SLICE
from ik_service.page.posed_robot import TargetState
from ik_service.page.questions import Answer, PageError
from ik_service.page.stage import pose_of
from ik_service.page.view import DRAG_STEP_S, View

OTHER_SOLUTION = 0.05  # solutions are others where some coordinate differs by more [rad or m]
UNDO_MOST = 50

_logger = logging.getLogger(__name__)


class Visitor(View):
    """A visitor: a view that acts."""

    others: Float64Array = np.empty((0, 0))  # other solutions, drawn as ghosts, shape [n, joint_coord_count]
    solves = 0  # of targets so far
    _random_seed = 0

    def enter(self, name: str) -> None:
        """Show the first robot, by its name."""
        with self._drawing:
            self._begin(name)
        self.enqueue("again")

    def leave(self) -> None:
        """Stop all work: the browser and its scene are gone."""
        self.is_gone = True

    def work(self) -> None:
        """Run the pending actions; called by a thread of the page."""
        with self._working, self._drawing:
            pending = self._actions.take()
            if pending.keys() - {"refresh"} and not self.is_gone:
                self._try(pending)
            was_told = self._end_wait()
            if not self.is_gone and (pending or was_told):
                self.client.flush()
                if "refresh" in pending or was_told:
                    self._refresh()
                else:
                    self._actions.add_later(actions.REFRESH_S, "refresh")

    def _try(self, pending: dict[str, Any]) -> None:
        """Run the pending actions; show the reason of a failure, and retry where a retry may help."""
        try:
            self._do(pending)
            if pending.keys() - actions.QUIET_ACTIONS:
                self.trouble = ""
            self._draw()
            if pending.keys() - {"slice"} and self.panel.plane.value != NO_SLICE:
                self._actions.add_later(actions.SLICE_S, "slice")
        except PageError as error:
            self.trouble = str(error)
            self._draw()
            if error.may_pass:
                for action in ("again", *(pending.keys() & actions.QUESTION_ACTIONS)):
                    self._actions.add_later(actions.AGAIN_S, action)
        except Exception as error:
            if not self.is_gone:
                _logger.exception("A visitor's action failed: %s", ", ".join(pending))
                self.trouble = f"Something went wrong here: {error}"
                with contextlib.suppress(Exception):  # perhaps the drawing is at fault
                    self._draw()

    def _do(self, pending: dict[str, Any]) -> None:
        if pending.get("scheme", self._is_dark) != self._is_dark and not self._stays_dark:
            self._is_dark = pending["scheme"]
            self._dress()
        self._do_robot(pending)
        if "robot" not in pending:
            self._do_targets(pending)
            self._do_aside(pending)

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
            self.panel.status.content, self._is_told = words.waiting_html(self.posed, 0.0), True
            self._paint(words.BY_HAND)
            self.client.flush()
            self._begin(pending["robot"])
            self._solve()

    def _begin(self, name: str) -> None:
        """Show a robot without anything of the one before."""
        self._show(name)
        self.others = self.others[:0]
        self._earlier = deque[tuple[NDArray[Any], dict[str, TargetState]]](maxlen=UNDO_MOST)

    def _do_targets(self, pending: dict[str, Any]) -> None:
        """Change targets, configuration and obstacles, and solve."""
        targets = {link: pending[f"target {link}"] for link in self.posed.targets if f"target {link}" in pending}
        is_solved = bool(targets or pending.keys() & actions.SOLVE_ACTIONS)
        if targets or pending.keys() & {"grab", "pick", "try"}:
            self._earlier.append((self.posed.joint_q, dict(self.posed.targets)))
        if "undo" in pending and self._earlier:
            self.posed.joint_q, targets_before = self._earlier.pop()
            self.posed.targets.update(targets_before)
            self.stage.place_gizmos(self.posed)
        if self._pose_by_hand(pending) or is_solved:
            self._path.at = None
        for link, values in targets.items():
            self._change(link, **values)
        if "click" in pending:
            self.stage.show_target(self.posed.pick(pending["click"]))
        for kind in pending.keys() & {"box", "ball"}:
            self.stage.add_obstacle(self.posed, kind)
        if "size" in pending:
            self.stage.size_obstacle(pending["size"])
        if "remove" in pending:
            self.stage.remove_obstacle()
        if is_solved:
            self._solve()

    def _do_aside(self, pending: dict[str, Any]) -> None:
        if "picks" in pending:
            self.stage.drawing.tell_clicks((lambda link: self.enqueue("click", link)) if pending["picks"] else None)
        if "spheres" in pending:
            self.stage.show_spheres(self.posed, visible=pending["spheres"])
        if "solutions" in pending:
            self._look_for_solutions()
        if "try" in pending:
            self._try_directions()
        if pending.keys() & {"clear", "fit", "follow", "play", "plot", "time"}:
            self._do_path(pending)
        if "save" in pending and self._path.followed is not None:
            self.client.send_file_download("path.csv", self._path.csv)
        if "slice" in pending:
            self._show_slice()
        if "random" in pending:
            self.panel.random.content = ""
            self._random_seed += 1
            question = self.posed.random_question(self._random_seed, **self._given())
            self.panel.random.content = words.random_html(self._ask(self._solving.solve, question))

    def _do_path(self, pending: dict[str, Any]) -> None:
        """Follow the drawn path or fit a clip, show the next waypoint or one of the time line, or delete the path."""
        path, robot = DrawnPath() if "clear" in pending else self._path, self.posed.robot
        fastest = np.minimum(robot.joint_acceleration_limit, robot.joint_velocity_limit / RAMP_S)
        calls: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
            "follow": (IKSolver.follow, {"start_joint_q": self.posed.joint_q}),
            "fit": (IKSolver.fit_clip, {"acceleration": fastest}),
        }
        self._path = path
        for action in calls.keys() & pending.keys():
            path.followed, self.panel.path.content = None, ""
            if len(path):
                question, (method, own) = path.question(self.posed, **self._given()), calls[action]
                path.followed = self._ask(self._solving.call, method, question, dt=WAYPOINT_S, **own)
                path.at = 0
        if pending.keys() & {"clear", "fit", "follow", "plot"}:
            self.panel.show_motion(self.posed, path.followed)
        plays = "time" not in pending
        path.at = path.at if plays else min(round(pending["time"] / WAYPOINT_S), len(path) - 1)
        if path.followed is not None and path.at is not None:
            self.posed.stand(path.followed.joint_q[path.at], path.poses(path.at))
            self.posed.waypoint_met = bool(path.met[path.at])
            self.stage.place_gizmos(self.posed)
            self.panel.time.value = WAYPOINT_S * path.at
            path.at = path.at + 1 if plays and path.at + 1 < len(path) else None
            if path.at is not None:
                self._actions.add_later(WAYPOINT_S, "play")
        self.stage.show_path(path.lines)

    def _show_slice(self) -> None:
        """Show a slice of the workspace through the first target, or remove the slice."""
        plane = self.panel.plane.value
        if plane == NO_SLICE or not self.posed.asked:
            self.stage.show_slice(np.empty((0, 3)), np.empty((0, 3), np.uint8), 0.0)
            return
        question, apart = self.posed.slice_question(plane, **self._given())
        answer: Answer = self._ask(self._solving.solve, question)
        touches = np.array(answer.status) == "blocked_by_collision"
        colors = np.where(touches[:, None], words.HIT, words.GOOD).astype(np.uint8)
        is_shown = answer.success | touches
        self.stage.show_slice(question.poses[0][0][is_shown], colors[is_shown], apart)

    def _pose_by_hand(self, pending: dict[str, Any]) -> bool:
        """Pose the robot without a solve, by sliders or by a chosen ghost; return whether there was such an action."""
        joints = {int(action.split()[1]): value for action, value in pending.items() if action.startswith("joint ")}
        if joints:
            joint_q = np.array(self.posed.joint_q, np.float64)
            joint_q[list(joints)] = list(joints.values())
            self.posed.stand(joint_q)
        elif pending.get("pick") in self.panel.solution.options[1:]:
            place = self.panel.solution.options.index(pending["pick"]) - 1
            self.posed.stand(self.others[place])
        else:
            return False
        self._forget_others()
        self.stage.place_gizmos(self.posed)
        return True

    def _change(self, link: str, **values: Any) -> None:
        pose = pose_of(self.stage.gizmos[link])
        parts = values.pop("position", pose[:3]), values.pop("orientation_xyzw", pose[3:])
        self.posed.change(link, pose=np.concatenate(parts), **values)
        self.stage.show_target(self.posed.targets[link])

    def _solve(self) -> None:
        left = max(self._arrives_at - time.perf_counter(), 0.0)
        gizmos = self.stage.read_gizmos()
        for link, pose in gizmos.items():
            self.posed.move(link, pose, share=DRAG_STEP_S / (DRAG_STEP_S + left))
        if any((self.posed.targets[link].pose != pose).any() for link, pose in gizmos.items()):
            self._actions.add_later(DRAG_STEP_S, "step")
        self.question = self.posed.question(any_branch=self.panel.any_branch.value, **self._given())
        self._forget_others()
        self.posed.take(self._ask(self._solving.solve, self.question))
        self.solves += 1
        if self.panel.record.value:
            self._path.add(self.posed)
            self.stage.show_path(self._path.lines)

    def _ask(self, ask: Callable[..., Any], *asked: Any, **given: Any) -> Any:
        with self._asking():
            return ask(*asked, **given)

    def _look_for_solutions(self) -> None:
        given = self._given()
        given["options"] = {"solutions": self.posed.wanted_solutions(), **given["options"]}
        question = self.posed.question(any_branch=True, **given)
        self._forget_others()
        answer: Answer = self._ask(self._solving.solve, question)
        found = np.asarray(answer.solutions, np.float64)
        distance = np.abs(found - np.asarray(self.posed.joint_q, np.float64)).max(axis=1, initial=0.0)
        is_other = distance > OTHER_SOLUTION
        self._show_others(found[is_other], answer.branches[is_other].tolist(), is_complete=answer.is_complete)

    def _try_directions(self) -> None:
        """Try the first target in other directions; the robot stands where the best answer is."""
        question = self.posed.direction_question(**self._given())
        asked, criterion = question.targets[0], self.panel.criterion.value
        self._forget_others()
        given = {"initial_joint_q": question.initial_joint_q, "criterion": criterion}
        choice = self._ask(self._solving.call, IKSolver.solve_any, question, **given)
        poses, fates = np.concatenate([asked.positions, asked.orientations_xyzw], axis=1), choice.fate
        for best in choice.candidate[choice.success]:
            fates[best], self._path.at = len(words.FATES) - 1, None
            self.posed.change(asked.link, pose=poses[best])
            self.posed.joint_q = choice.joint_q[0]
            self.stage.place_gizmos(self.posed)
            self._solve()
        self.stage.show_forks([(color, poses[fates == fate]) for fate, (_, color) in enumerate(words.FATES)])
        self.panel.found.content = words.choice_html(fates)

    def _forget_others(self) -> None:
        if self.panel.found.content:
            self.stage.hide("forks")
            self._show_others(self.others[:0], [])

    def _show_others(self, others: Float64Array, branches: list[int], *, is_complete: bool | None = None) -> None:
        self.others, names = others, [words.ghost_name(k, branch) for k, branch in enumerate(branches)]
        self.stage.show_ghosts(self.posed, self.others)
        self.panel.show_solutions(names, is_complete=is_complete)
