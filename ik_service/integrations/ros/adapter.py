"""Answers to MoveIt's requests of kinematics: any objects with the fields of the messages in, filled responses out.

Nothing of ROS is imported: `node` passes messages; tests and other stacks pass their own objects. Requests are answered
one at a time.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ik_service.ik_solver import IKSolver
from ik_service.integrations.ros.described_robot import PlanningGroup, joints_above
from ik_service.integrations.ros.error_codes import MoveItErrorCode, RequestRefusedError, write_error_code
from ik_service.integrations.ros.poses import RobotFrames, in_frame, in_world, read_pose, write_pose
from ik_service.integrations.ros.robot_states import RobotStates
from ik_service.mechanism.transforms import Float64Array
from ik_service.robots import RobotModel, World
from ik_service.solver.deadline import TIME_LEFT_MIN_S
from ik_service.solver.given.options import SolverOptions
from ik_service.solver.lm.status import IKStatus
from ik_service.solver.result import IKResult
from objectives.errors import IKError, InputError

SOLVERS_MOST = 16  # solvers that are kept, each for a group and its tips; the one that was used longest ago goes first
KINDS_REFUSED = ("position_constraints", "orientation_constraints", "visibility_constraints")


@dataclass(frozen=True)
class AdapterSettings:
    """Settings of answers to requests."""

    position_tolerance: float = 1e-4  # largest position error of an answer [m]
    orientation_tolerance: float = 1e-3  # largest orientation error of an answer [rad]
    timeout: float = 0.0  # time of a solve without a timeout in the request [s]; 0 for no limit
    nearest: bool = True  # whether an answer is the solution nearest the seed state; otherwise the first solution
    root_frames: Collection[str] = ()  # further names of the frame in which the root link is fixed
    device: str = "cpu"  # a Warp device


@dataclass(frozen=True)
class _GroupSolver:
    """The solver of a group and its tips."""

    solver: IKSolver
    moving: frozenset[str]
    coordinates: Any = field(repr=False)  # columns of `moving` joints in a configuration


class KinematicsAdapter:
    """Answers `GetPositionIK` and `GetPositionFK` for one robot, with a collision model if requests avoid collisions.

    Without groups, any name of a group means all joints above the tips. `messages` has the types `PoseStamped` and
    `Transform` of `geometry_msgs`; `note` is called with a sentence for the log.
    """

    def __init__(
        self,
        robot: RobotModel,
        groups: Mapping[str, PlanningGroup],
        *,
        messages: Any,
        world: World | None = None,
        settings: AdapterSettings | None = None,
        note: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.robot, self.groups, self.settings = robot, dict(groups), settings or AdapterSettings()
        self.states = RobotStates(robot)
        self._frames = RobotFrames(robot, self.settings.root_frames)
        self._messages, self._world, self._note, self._is_noted = messages, world, note, False
        self._tasks: OrderedDict[tuple[str, tuple[str, ...]], _GroupSolver] = OrderedDict()
        self._lock = threading.Lock()
        self._options = SolverOptions(
            position_tolerance=self.settings.position_tolerance,
            orientation_tolerance=self.settings.orientation_tolerance,
        )
        self._ways = {avoids: self._ways_of(avoids) for avoids in (False, True)}

    def hear(self, joint_state: Any) -> None:
        """Store a `sensor_msgs/JointState`: positions of joints not named in a request."""
        with self._lock:
            self.states.hear(joint_state)

    def prepare(self, group: str) -> None:
        """Make the solver of a group's tips and run a solve, so the first request does not wait.

        RequestRefusedError if there is no such group, or its joints move no tip.
        """
        with self._lock:
            chosen = self._group(group)
            task = self._task(chosen, chosen.tips)
            poses = self.robot.forward_kinematics(self.states.current, chosen.tips)
            for options in self._ways[True]:
                task.solver.solve(*poses, initial_joint_q=self.states.current, options=options)

    def solve_position_ik(self, request: Any, response: Any) -> Any:
        """Answer `GetPositionIK`: fill a response with a state with every tip at its pose, or the error code."""
        begun = time.monotonic()
        with self._lock:
            try:
                self._solve(request.ik_request, response, begun)
            except IKError as error:
                if not isinstance(error, RequestRefusedError):
                    self._note(f"A request could not be solved: {error}")
                _write_error(error, response)
        return response

    def solve_position_fk(self, request: Any, response: Any) -> Any:
        """Answer `GetPositionFK`: fill a response with poses of links in the frame of the request's header."""
        try:
            with self._lock:
                joint_q = self.states.read(request.robot_state)
            links = [name.removeprefix("/") for name in request.fk_link_names]
            self._check_links(links)
            frame = self._frames.placed(request.header.frame_id, joint_q)
            positions, orientations = self.robot.forward_kinematics(joint_q, links)
            found = in_frame(frame, np.concatenate((positions[0], orientations[0]), axis=-1))
            for pose in found:
                stamped = self._messages.PoseStamped()
                stamped.header.stamp = request.header.stamp
                stamped.header.frame_id = request.header.frame_id or self.robot.link_names[0]
                write_pose(pose, stamped.pose.position, stamped.pose.orientation)
                response.pose_stamped.append(stamped)
            response.fk_link_names = list(request.fk_link_names)
            write_error_code(response.error_code, MoveItErrorCode.SUCCESS)
        except IKError as error:
            _write_error(error, response)
        return response

    def _solve(self, request: Any, response: Any, begun: float) -> None:
        group = self._group(request.group_name)
        tips, stamped = self._targets(request, group)
        task = self._task(group, tips)
        start = self.states.read(request.robot_state)
        frames = self._frames
        poses = np.empty((len(tips), 7))
        for line, one in enumerate(stamped):
            placed = frames.placed(one.header.frame_id, start, task.moving)
            poses[line] = in_world(placed, read_pose(one.pose))
        limits = self._joint_limits(request.constraints, start, task.moving)
        result = self._search(task, poses, start, limits, request, begun)
        status = IKStatus(int(result.status[0]))
        if not result.success[0]:
            write_error_code(response.error_code, status.moveit_error_code, status.advice)
            return
        answer = start  # joints outside the group keep every digit
        answer[task.coordinates] = result.joint_q[0, task.coordinates]
        self.states.write(answer, response.solution, self._messages)
        write_error_code(response.error_code, status.moveit_error_code)

    def _search(
        self, task: _GroupSolver, poses: Float64Array, start: Float64Array, limits: Any, request: Any, begun: float
    ) -> IKResult:
        """Solve for the nearest solution; if none is found, solve again with further starts."""
        asked = request.timeout.sec + 1e-9 * request.timeout.nanosec
        timeout = asked if asked > 0.0 else self.settings.timeout
        avoids = request.avoid_collisions and self._can_avoid_collisions()
        result = None
        for way in self._ways[avoids]:
            left = None if timeout <= 0.0 else max(begun + timeout - time.monotonic(), TIME_LEFT_MIN_S)
            result = task.solver.solve(
                poses[None, :, :3],
                poses[None, :, 3:],
                initial_joint_q=start,
                world=self._world if avoids else None,
                joint_limits=limits,
                options=way if left is None else replace(way, deadline_s=left),
            )
            if result.success[0] or result.status[0] in (IKStatus.DEADLINE, IKStatus.INVALID):
                break
        assert result is not None  # at least one attempt has run
        return result

    def _ways_of(self, avoids: bool) -> list[SolverOptions]:
        checks = avoids and self.robot.collision_model is not None
        search = self._options if checks else replace(self._options, collision="off")
        return [replace(search, best_of="nearest"), search] if self.settings.nearest else [search]

    def _can_avoid_collisions(self) -> bool:
        if self.robot.collision_model is None and not self._is_noted:
            self._is_noted = True
            self._note(
                f"Robot '{self.robot.name}' has no collision model: requests with avoid_collisions are solved without. "
                "See the parameters collision and collision_spheres."
            )
        return self.robot.collision_model is not None

    def _group(self, name: str) -> PlanningGroup:
        if name in self.groups:
            return self.groups[name]
        if self.groups:
            known = ", ".join(sorted(self.groups))
            raise RequestRefusedError(
                MoveItErrorCode.INVALID_GROUP_NAME, f"There is no group '{name}'. Groups: {known}."
            )
        return PlanningGroup("", frozenset(self.robot.joint_names))

    def _targets(self, request: Any, group: PlanningGroup) -> tuple[tuple[str, ...], Sequence[Any]]:
        if request.pose_stamped_vector:
            stamped, names = request.pose_stamped_vector, request.ik_link_names
        else:
            stamped, names = [request.pose_stamped], [request.ik_link_name] if request.ik_link_name else []
        tips = tuple(name.removeprefix("/") for name in names) or group.tips
        if not tips:
            raise RequestRefusedError(
                MoveItErrorCode.INVALID_LINK_NAME, f"The request names no link, and group '{group.name}' none."
            )
        if len(tips) != len(stamped):
            reason = f"There are {len(stamped)} poses and {len(tips)} links ({', '.join(tips)})."
            raise RequestRefusedError(MoveItErrorCode.INVALID_GOAL_CONSTRAINTS, reason)
        self._check_links(tips)
        return tips, stamped

    def _check_links(self, links: Sequence[str]) -> None:
        unknown = [link for link in links if link not in self.robot.link_names]
        if unknown or not links or len(set(links)) < len(links):
            reason = f"The robot has no link '{unknown[0]}'." if unknown else "Links must be named, each once."
            raise RequestRefusedError(
                MoveItErrorCode.INVALID_LINK_NAME, f"{reason} Links: {', '.join(self.robot.link_names)}."
            )

    def _task(self, group: PlanningGroup, tips: tuple[str, ...]) -> _GroupSolver:
        """Return the solver of a group and its tips; locks all joints except the group's joints above the tips."""
        key = group.name, tips
        task = self._tasks.get(key)
        if task is None:
            moving = group.joints & {joint for tip in tips for joint in joints_above(self.robot, tip)}
            task = self._tasks[key] = self._new_task(group, tips, frozenset(moving))
            if len(self._tasks) > SOLVERS_MOST:
                self._tasks.popitem(last=False)
        self._tasks.move_to_end(key)
        return task

    def _new_task(self, group: PlanningGroup, tips: tuple[str, ...], moving: frozenset[str]) -> _GroupSolver:
        robot = self.robot
        for tip in tips:
            if not moving.intersection(joints_above(robot, tip)):
                reason = f"No joint of group '{group.name}' moves link '{tip}'."
                raise RequestRefusedError(MoveItErrorCode.INVALID_LINK_NAME, reason)
        firsts = [int(robot.joint_qd_start[robot.joint_index(name)]) for name in moving]
        leaders = {robot.joint_names[robot.dof_joint[robot.dof_leader[dof]]] for dof in firsts}
        try:
            active = robot.activate(sorted(leaders))
            solver = IKSolver(active, tips, device=self.settings.device, options=self._options)
        except InputError as error:
            raise RequestRefusedError(MoveItErrorCode.INVALID_GROUP_NAME, str(error)) from None
        joints = set(robot.dof_joint[active.dof_active >= 0].tolist())
        columns = [np.arange(robot.joint_q_start[j], robot.joint_q_start[j + 1]) for j in sorted(joints)]
        names = frozenset(robot.joint_names[joint] for joint in joints)
        return _GroupSolver(solver, names, np.concatenate(columns))

    def _joint_limits(self, constraints: Any, start: Float64Array, moving: frozenset[str]) -> Any:
        """Return limits of moving joints, narrowed by the joint constraints of a request; None without constraints."""
        if any(getattr(constraints, kind) for kind in KINDS_REFUSED):
            reason = "Of constraints only joint_constraints are taken."
            raise RequestRefusedError(MoveItErrorCode.INVALID_GOAL_CONSTRAINTS, reason)
        limits: dict[str, tuple[float, float]] = {}
        for one in constraints.joint_constraints:
            if one.joint_name not in self.states.names:
                reason = f"A constraint names joint '{one.joint_name}'. Joints: {', '.join(self.states.names)}."
                raise RequestRefusedError(MoveItErrorCode.INVALID_GOAL_CONSTRAINTS, reason)
            dof = int(self.robot.joint_qd_start[self.robot.joint_index(one.joint_name)])
            lower, upper = limits.get(
                one.joint_name, (self.robot.joint_limit_lower[dof], self.robot.joint_limit_upper[dof])
            )
            lower = max(float(lower), one.position - one.tolerance_below)
            upper = min(float(upper), one.position + one.tolerance_above)
            held = start[self.robot.dof_coordinate[dof]]
            if not lower <= upper or (one.joint_name not in moving and not lower <= held <= upper):
                reason = f"The constraint of joint '{one.joint_name}' leaves no place for it."
                raise RequestRefusedError(MoveItErrorCode.NO_IK_SOLUTION, reason)
            if one.joint_name in moving:
                limits[one.joint_name] = lower, upper
        return limits or None


def _write_error(error: IKError, response: Any) -> None:
    code = error.code if isinstance(error, RequestRefusedError) else MoveItErrorCode.FAILURE
    write_error_code(response.error_code, code, str(error))
