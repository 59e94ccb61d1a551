"""Input arrays of a solve, and the kernels to check and convert them in one pass over the problems.

    positions, orientations, start configurations as given -> staging arrays (float64)
    -> kernels: numbers finite and not too large? quaternions of unit length? -> float32 targets, hashes, starts, ranks

A faulty number sets a mark, and nothing is solved; the host then finds the fault and raises an error.
"""

import typing
from collections.abc import Sequence
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.kernels.host_device_array import HostDeviceArray, HostDeviceBlock
from ik_service.kinematics.host_tangent import body_motion
from ik_service.mechanism.configuration import MIN_QUATERNION_LENGTH
from ik_service.mechanism.kinematic_robot import KinematicRobot
from ik_service.mechanism.transforms import transform_inverse, transform_multiply
from ik_service.robots import DeviceModel, JointType
from ik_service.solver.arrays.parts import SOLVE_IO, SOLVE_ON_DEVICE, first_problem
from ik_service.solver.arrays.problem_arrays import Searches, begin_search
from ik_service.solver.given.arrays import NUMBER_MAX
from ik_service.solver.given.targets import Target
from ik_service.solver.lm.coordinates import StartCoordinates, follow, start_coordinates
from ik_service.solver.lm.ranking import UNRANKED
from ik_service.solver.lm.seeds import hash_step
from objectives.data_field import UNIT_TOLERANCE, fitting_array

LARGEST = wp.constant(wp.float64(NUMBER_MAX))
SLACK = wp.constant(wp.float64(UNIT_TOLERANCE))
SHORTEST = wp.constant(wp.float64(MIN_QUATERNION_LENGTH))
# Entries of `given` for a start: nothing, one line for all problems, or one each.
NO_START, ONE_START, OWN_START = wp.constant(0), wp.constant(1), wp.constant(2)


@wp.kernel(module=SOLVE_IO, enable_backward=False)
@typing.no_type_check
def _read_target(
    # part
    settings: wp.array[wp.int32],
    part: int,
    parts: int,
    # target
    target: int,
    given: wp.array[wp.int32],  # [1 + 2 x targets]: start, then positions and orientations of each target
    staged_positions: wp.array3d[wp.float64],  # [problem_capacity, targets, 3]
    weights: wp.array2d[float],  # [1 or problems, 6]
    touches: wp.array[wp.int32],  # [trees]
    # in and out
    staged_orientations_xyzw: wp.array3d[wp.float64],  # [problem_capacity, targets, 4]; normalised on output
    tree_hash: wp.array2d[wp.uint32],  # [problem_capacity, trees]
    # out
    positions_out: wp.array2d[float],  # [problem_capacity, 3]
    orientations_xyzw_out: wp.array2d[float],  # [problem_capacity, 4]
    row_weights_out: wp.array2d[float],  # [problem_capacity, 6]
    fault_out: wp.array[wp.int32],  # [parts]
):
    p = wp.max(first_problem(settings, part, parts) + wp.tid(), 0)
    has_position = given[1 + 2 * target]
    has_orientation = given[2 + 2 * target]
    line = wp.min(p, weights.shape[0] - 1)
    for k in range(3):
        x = wp.float64(0.0)
        if has_position == 1:
            x = staged_positions[p, target, k]
            if not (wp.abs(x) <= LARGEST):
                fault_out[part] = 1
        positions_out[p, k] = float(x)
        row_weights_out[p, k] = weights[line, k] * float(has_position)
        row_weights_out[p, 3 + k] = weights[line, 3 + k] * float(has_orientation)
    q = wp.quatd(wp.float64(0.0), wp.float64(0.0), wp.float64(0.0), wp.float64(1.0))
    if has_orientation == 1:
        for k in range(4):
            q[k] = staged_orientations_xyzw[p, target, k]
        length = wp.sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3])
        if not (wp.abs(length - wp.float64(1.0)) <= SLACK):
            fault_out[part] = 1
        for k in range(4):
            q[k] = q[k] / length
    for k in range(4):
        staged_orientations_xyzw[p, target, k] = q[k]
        orientations_xyzw_out[p, k] = float(q[k])
    tree = int(0)
    while tree < touches.shape[0]:
        h = wp.uint32(0)
        if target > 0:
            h = tree_hash[p, tree]
        if touches[tree] == 1:
            for k in range(3):
                h = hash_step(h, wp.cast(positions_out[p, k], wp.uint32))
            for k in range(4):
                h = hash_step(h, wp.cast(orientations_xyzw_out[p, k], wp.uint32))
        tree_hash[p, tree] = h
        tree += 1


@wp.kernel(module=SOLVE_IO, enable_backward=False)
@typing.no_type_check
def _read_start(
    # part
    settings: wp.array[wp.int32],
    part: int,
    parts: int,
    robot: StartCoordinates,
    # start
    given: wp.array[wp.int32],
    staged: wp.array2d[wp.float64],  # [problem_capacity, joint_coord_count]
    # out
    start_out: wp.array2d[float],  # [problem_capacity, joint_coord_count]
    best_joint_q_out: wp.array2d[float],  # [problem_capacity, joint_coord_count]
    best_rank_out: wp.array2d[wp.int64],  # [problem_capacity, trees]
    searches: Searches,
    fault_out: wp.array[wp.int32],  # [parts]
):
    p = wp.max(first_problem(settings, part, parts) + wp.tid(), 0)
    mode = given[0]
    if mode == NO_START:
        c = int(0)
        while c < robot.leader.shape[0]:
            start_out[p, c] = robot.mid_joint_q[c]
            c += 1
    else:
        line = wp.where(mode == OWN_START, p, 0)
        for c in range(robot.leader.shape[0]):
            x = staged[line, c]
            if not (wp.abs(x) <= LARGEST):
                fault_out[part] = 1
            start_out[p, c] = wp.clamp(float(x), robot.follower_number[c, 2], robot.follower_number[c, 3])
        for k in range(robot.quaternion.shape[0]):
            c = robot.quaternion[k]
            length2 = wp.float64(0.0)
            for m in range(4):
                length2 += staged[line, c + m] * staged[line, c + m]
            length = wp.sqrt(length2)
            if not (length >= SHORTEST):
                fault_out[part] = 1
            for m in range(4):
                start_out[p, c + m] = float(staged[line, c + m] / length)
    c = int(0)
    while c < robot.leader.shape[0]:
        q = start_out[p, c]
        if robot.leader[c] >= 0 and (robot.fixed[c] == 0 or mode != NO_START):
            q = follow(robot.follower_number, c, start_out[p, robot.leader[c]])
            start_out[p, c] = q
        best_joint_q_out[p, c] = q  # coordinates outside all islands stay at the start
        c += 1
    tree = int(0)
    while tree < best_rank_out.shape[1]:
        best_rank_out[p, tree] = UNRANKED
        begin_search(searches, settings, p, tree)
        searches.proof[p, tree] = 0
        searches.branches[p, tree] = 0
        searches.row_starts[p, tree] = 0
        tree += 1


@wp.kernel(module=SOLVE_IO, enable_backward=False)
@typing.no_type_check
def _place_base(
    # part
    settings: wp.array[wp.int32],
    part: int,
    parts: int,
    # floating joint
    robot: StartCoordinates,
    first: int,  # its first coordinate
    T_ends: wp.array[wp.transformd],  # [2]: T_joint_world; T_link_base in the middle of the ranges
    # target on a link moved by the joint
    target: int,
    given: wp.array[wp.int32],
    positions: wp.array3d[wp.float64],  # [problem_capacity, targets, 3]
    orientations_xyzw: wp.array3d[wp.float64],  # [problem_capacity, targets, 4], normalised
    row_weights: wp.array2d[float],  # [problem_capacity, 6]
    tool: wp.array[wp.transformd],  # [1 or problems]: T_link_tool
    # out
    start_out: wp.array2d[float],  # [problem_capacity, joint_coord_count]
    best_joint_q_out: wp.array2d[float],  # [problem_capacity, joint_coord_count]
):
    p = wp.max(first_problem(settings, part, parts) + wp.tid(), 0)
    is_placed = given[0] == NO_START
    for k in range(6):
        is_placed = is_placed and row_weights[p, k] > 0.0
    if not is_placed:
        return
    T_world_tool = wp.transformd()
    for k in range(3):
        T_world_tool[k] = positions[p, target, k]
    for k in range(4):
        T_world_tool[3 + k] = orientations_xyzw[p, target, k]
    T_tool_link = wp.transform_inverse(tool[wp.min(p, tool.shape[0] - 1)])
    T_joint_base = T_ends[0] * T_world_tool * T_tool_link * T_ends[1]
    for k in range(7):
        x = wp.clamp(float(T_joint_base[k]), robot.follower_number[first + k, 2], robot.follower_number[first + k, 3])
        start_out[p, first + k] = x
        best_joint_q_out[p, first + k] = x


@wp.kernel(module=SOLVE_ON_DEVICE, enable_backward=False)
@typing.no_type_check
def _clear_fault(
    part: int,
    # out
    fault_out: wp.array[wp.int32],  # [parts]
):
    fault_out[part] = 0


class InputArrays:
    """Staging arrays of a solver, with the launches to read them."""

    def __init__(
        self,
        model: DeviceModel,
        targets: Sequence[Target],
        touches: NDArray[np.bool_],  # trees touched by each target, bool [targets, trees]
        capacity: int,  # problems with room
        *,
        hard_limits: bool,  # whether starts are clamped into the limits
        parts: int = 1,  # largest number of parts of the problems
        block: HostDeviceBlock | None = None,  # shared memory for small arrays uploaded together
    ) -> None:
        device, count = model.device, len(targets)
        self._model, self._targets = model, targets
        # positions of the targets, [capacity, targets, 3]
        self.positions = HostDeviceArray((capacity, max(count, 1), 3), wp.float64, device, block=block)
        # orientations, [capacity, targets, 4]
        self.orientations_xyzw = HostDeviceArray((capacity, max(count, 1), 4), wp.float64, device, block=block)
        # configurations of seed 0, [capacity, joint_coord_count]
        self.starts = HostDeviceArray((capacity, model.joint_coord_count), wp.float64, device)
        # presence of inputs, [1 + 2 x targets]: no start, one for all problems or one each; then for each target
        # whether there are positions, and whether there are orientations
        self.given = HostDeviceArray((1 + 2 * count,), wp.int32, device, per_problem=False, block=block)
        # marks of faulty numbers, [parts]: other than 0 if a number was not allowed, once launches have run
        self.fault = HostDeviceArray((parts,), wp.int32, device, per_problem=False, block=block)
        self._touches: list[wp.array[Any]] = [
            wp.array(row.astype(np.int32), dtype=wp.int32, device=device) for row in touches
        ]
        self._weights = [roomy_array(_row_weights(one, model), wp.float32, capacity, device) for one in targets]
        # data to complete starts, `StartCoordinates`
        self.start_coordinates = start_coordinates(model, hard_limits=hard_limits)
        self._bases: list[tuple[int, wp.array[Any], int]] = [
            (first, wp.array(T_ends, dtype=wp.transformd, device=device), k)
            for first, T_ends, k in _placed_bases(model.robot, targets)
        ]

    def use_targets(self, targets: Sequence[Target]) -> bool:
        """Set other weights of the targets' rows; return whether an array was exchanged for a larger one."""
        old, device = self._weights, self._model.device
        model = self._model
        pairs = [(array, np.atleast_2d(_row_weights(one, model))) for array, one in zip(old, targets, strict=True)]
        self._weights = [fitting_array(array, weights, wp.float32, device) for array, weights in pairs]
        return any(array is not before for array, before in zip(self._weights, old, strict=True))

    def stage(self, positions: Sequence[Any], orientations_xyzw: Sequence[Any], start: NDArray[Any] | None) -> None:
        """Copy arrays of the right shapes, unchecked; `inputs` are uploaded later."""
        # Per target [n, 3] and [n, 4] or None; starts [joint_coord_count] or [n, joint_coord_count] or None
        given = self.given.host
        given[0] = NO_START if start is None else ONE_START if start.ndim == 1 else OWN_START
        if start is not None:
            lines = 1 if start.ndim == 1 else len(start)
            self.starts.host[:lines] = start
            self.starts.push(lines)
        for k, (position, orientation) in enumerate(zip(positions, orientations_xyzw, strict=True)):
            given[1 + 2 * k], given[2 + 2 * k] = position is not None, orientation is not None
            if position is not None:
                self.positions.host[: len(position), k] = position
            if orientation is not None:
                self.orientations_xyzw.host[: len(orientation), k] = orientation
        self.fault.host[:] = 0

    @property
    def inputs(self) -> tuple[HostDeviceArray, ...]:
        """Input arrays of the launches; starts, which are rare, are on the device already."""
        return self.positions, self.orientations_xyzw, self.given, self.fault

    def record_clearing(self, part: int) -> wp.Launch:
        """Record the launch to clear the mark of a part; its dimension is 1."""
        # Problems with faulty numbers are then solved like the others, and end as `INVALID`
        inputs = [part, self.fault.device]
        launch: wp.Launch = wp.launch(_clear_fault, 1, inputs, device=self._model.device, record_cmd=True)
        return launch

    def float64_targets(self, field: str) -> "wp.array[Any] | None":
        """Return the targets' data of a field in float64, [problem_capacity, targets, columns], or None."""
        staged = {"target_positions": self.positions, "target_orientations_xyzw": self.orientations_xyzw}
        return staged[field].device if field in staged else None

    def launches(self, problems: Any, tools: Sequence[wp.array[Any]], part: int, parts: int) -> list[wp.Launch]:
        """Record the launches to read one part of the problems; their dimension is its number of problems."""
        # `tools`: tool frame of each target, `T_link_tool`, [1 or problems]
        device = self._model.device
        which = [problems.settings, part, parts]
        recorded = []
        for k, (touches, weights) in enumerate(zip(self._touches, self._weights, strict=True)):
            inputs = [*which, k, self.given.device, self.positions.device, weights, touches]
            inputs += [self.orientations_xyzw.device, problems.tree_hash, problems.positions[k]]
            inputs += [problems.orientations_xyzw[k], problems.row_weights[k], self.fault.device]
            recorded.append(wp.launch(_read_target, 1, inputs, device=device, record_cmd=True))
        inputs = [*which, self.start_coordinates, self.given.device, self.starts.device]
        inputs += [problems.start_joint_q, problems.best.joint_q, problems.best.rank, problems.searches]
        inputs += [self.fault.device]
        recorded.append(wp.launch(_read_start, 1, inputs, device=device, record_cmd=True))
        for first, T_ends, k in self._bases:
            inputs = [*which, self.start_coordinates, first, T_ends, k, self.given.device, self.positions.device]
            inputs += [self.orientations_xyzw.device, problems.row_weights[k], tools[k]]
            inputs += [problems.start_joint_q, problems.best.joint_q]
            recorded.append(wp.launch(_place_base, 1, inputs, device=device, record_cmd=True))
        return recorded


def _placed_bases(robot: KinematicRobot, targets: Sequence[Target]) -> list[tuple[int, NDArray[np.float64], int]]:
    """Find targets in the world that fix the pose of a floating joint if no start is given."""
    # Returns the first coordinate of the joint, T_joint_world and T_link_base in the middle of the ranges [2, 7], and
    # the number of the target. Of several targets for a joint the last one counts: with the fewest joints between base
    # and link.
    found = []
    for base in np.flatnonzero((robot.joint_type == JointType.FLOATING) & (robot.joint_parent < 0)):
        T_world_body = body_motion(robot, robot.mid_joint_q).T_world_body[0]
        for k, target in enumerate(targets):
            body, T_body_link = robot.link_frame(target.link)
            T_world_link = transform_multiply(T_world_body[body], T_body_link)
            steps = 0
            while body >= 0 and body != base:
                body, steps = int(robot.joint_parent[body]), steps + 1
            if body == base and target.reference_link is None and robot.dof_active[robot.joint_qd_start[base]] >= 0:
                T_link_base = transform_multiply(transform_inverse(T_world_link), T_world_body[base])
                T_ends = np.stack([transform_inverse(robot.joint_X_p[base]), T_link_base])
                found.append((-steps, -k, (int(robot.joint_q_start[base]), T_ends, k)))
    return [one for _, _, one in sorted(found, key=lambda each: each[:2])]


def _row_weights(target: Target, model: DeviceModel) -> NDArray[np.float32]:
    """Return the solver's weights of a target's rows, [6] or [n, 6]."""
    return np.asarray(target.weights_in_metres(model.robot.length_unit), np.float32)


def roomy_array(values: NDArray[Any], dtype: Any, capacity: int, device: wp.Device) -> wp.array[Any]:
    """Return values [columns] or [n, columns] on the device: one line for all, or lines with room for `capacity`."""
    lines = np.atleast_2d(values)
    if values.ndim == 2 and len(lines) < capacity:
        lines = np.concatenate([lines, np.repeat(lines[:1], capacity - len(lines), axis=0)])
    return wp.array(lines, dtype=dtype, device=device)
