"""Verification: answers on the nearest turn, their errors in float64, success and status.

    best attempts -> configurations to return -> kinematics in float64 on exactly these -> errors of every target
    -> missed targets of each island -> success and status of islands -> of problems

The code shares no arithmetic with the engines: kinematics runs along the joints from base to link, one by one.
"""

import math
import typing
from collections.abc import Sequence
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.collision.collision_data import CollisionData
from ik_service.kernels import typed_warp
from ik_service.kernels.host_device_array import HostColumns, HostDeviceArray, HostDeviceBlock, block_on
from ik_service.mechanism.transforms import identity_transform
from ik_service.result_column import Column
from ik_service.result_schema import DEVICE_COLUMNS, DEVICE_ISLAND_COLUMNS
from ik_service.robots import DeviceModel
from ik_service.solver.arrays.input_kernels import InputArrays, roomy_array
from ik_service.solver.arrays.limit_arrays import Turns, turn_towards_start
from ik_service.solver.arrays.partition import Partition
from ik_service.solver.arrays.parts import SOLVE_IO, first_problem
from ik_service.solver.given.options import SolverOptions
from ik_service.solver.given.targets import FRAMES, Target
from ik_service.solver.rows.binding import RowKind
from ik_service.solver.rows.blocks import Rows
from ik_service.solver.verdict.collision_verdict import CollisionVerdict
from ik_service.solver.verdict.composition import compose_islands
from ik_service.solver.verdict.float64_kinematics import (
    Kinematics,
    KinematicsRef,
    float64_kinematics,
    packet_function,
    problems_left,
)
from ik_service.solver.verdict.row_verification import ConstraintValues, RowVerification
from objectives.data_field import fitting_array
from objectives.tasks.pose import DEADBAND, DEADBAND_WIDTH

NAN = wp.constant(wp.float64(math.nan))
INFINITE = wp.constant(wp.float64(math.inf))
WARP_TYPES: dict[str, Any] = {
    "precision": wp.float32,
    "status": wp.int8,
    "bool": wp.bool,
    "int32": wp.int32,
    "float32": wp.float32,
    "float64": wp.float64,
}
"""Types of columns on the device; configurations in float64 are beside those in float32."""


@wp.kernel(module=SOLVE_IO, enable_backward=False)
@typing.no_type_check
def _final_configuration(
    settings: wp.array[wp.int32],
    part: int,
    parts: int,
    turns: Turns,
    start_joint_q: wp.array2d[float],  # [problem_capacity, joint_coord_count]
    best_joint_q: wp.array2d[float],  # [problem_capacity, joint_coord_count]
    has_float64: int,  # 1: the next array holds the answers in float64
    best_joint_q_float64: wp.array2d[wp.float64],  # [problem_capacity, joint_coord_count]
    limit_lower: wp.array2d[wp.float64],  # [1 or problems, joint_coord_count]: exact
    limit_upper: wp.array2d[wp.float64],  # [1 or problems, joint_coord_count]
    # out
    joint_q_out: wp.array2d[float],  # [problem_capacity, joint_coord_count]
    judged_q_out: wp.array2d[wp.float64],  # [problem_capacity, joint_coord_count]; exactly the returned values
):
    p = wp.max(first_problem(settings, part, parts) + wp.tid(), 0)
    if has_float64 == 0:
        c = int(0)
        while c < joint_q_out.shape[1]:
            joint_q_out[p, c] = best_joint_q[p, c]
            c += 1
        turn_towards_start(turns, settings, start_joint_q, p, joint_q_out, p)
        c = int(0)
        while c < joint_q_out.shape[1]:
            judged_q_out[p, c] = wp.float64(joint_q_out[p, c])
            c += 1
    else:
        for c in range(joint_q_out.shape[1]):
            judged_q_out[p, c] = best_joint_q_float64[p, c]
        turn_towards_start(turns, settings, start_joint_q, p, judged_q_out, p)
        line = wp.min(p, limit_lower.shape[0] - 1)
        for c in range(joint_q_out.shape[1]):
            q = judged_q_out[p, c]
            if q < limit_lower[line, c]:  # between limits without a float32 in between
                q = limit_lower[line, c]
            if q > limit_upper[line, c]:
                q = limit_upper[line, c]
            judged_q_out[p, c] = q
            joint_q_out[p, c] = float(q)


@typed_warp.func_native(packet_function("target_errors", frames=", ".join(map(str.upper, FRAMES))))
def write_target_errors(
    p: int,
    place: int,
    left: int,
    robot: KinematicsRef,
    joint_q: wp.array2d[wp.float64],
    target: int,
    targets: int,
    tool: wp.array[wp.transformd],
    has_reference: int,
    positions: wp.array3d[wp.float64],
    orientations_xyzw: wp.array3d[wp.float64],
    row_weights: wp.array2d[float],
    frame: int,
    deadband: wp.array2d[float],
    position_error_out: wp.array2d[wp.float64],
    orientation_error_out: wp.array2d[wp.float64],
) -> None:
    """Write the errors of a target."""


@wp.kernel(module=SOLVE_IO, enable_backward=False)
@typing.no_type_check
def _target_errors(
    settings: wp.array[wp.int32],
    part: int,
    parts: int,
    # robot
    robot: Kinematics,  # with paths to each target's link, then to each reference link
    joint_q: wp.array2d[wp.float64],  # [problem_capacity, joint_coord_count]
    # target
    target: int,
    targets: int,
    tool: wp.array[wp.transformd],  # [1 or problems]: T_link_tool
    has_reference: int,
    positions: wp.array3d[wp.float64],  # [problem_capacity, targets, 3]
    orientations_xyzw: wp.array3d[wp.float64],  # [problem_capacity, targets, 4]
    row_weights: wp.array2d[float],  # [problem_capacity, 6]
    frame: int,  # of the rows, by its place in FRAMES; -1: the reference frame, without deadband
    deadband: wp.array2d[float],  # [1 or problems, 7]: see IKObjectiveNearPose
    # out
    position_error_out: wp.array2d[wp.float64],  # [problem_capacity, targets]
    orientation_error_out: wp.array2d[wp.float64],  # [problem_capacity, targets]
):
    p = wp.max(first_problem(settings, part, parts) + wp.tid(), 0)
    write_target_errors(
        p,
        wp.tid(),
        problems_left(settings, part, parts, p),
        robot,
        joint_q,
        target,
        targets,
        tool,
        has_reference,
        positions,
        orientations_xyzw,
        row_weights,
        frame,
        deadband,
        position_error_out,
        orientation_error_out,
    )


@wp.kernel(module=SOLVE_IO, enable_backward=False)
@typing.no_type_check
def _compare_with_limits(
    settings: wp.array[wp.int32],
    part: int,
    parts: int,
    dof_coordinate: wp.array[wp.int32],  # [joint_dof_count]
    dof_active: wp.array[wp.int32],  # [joint_dof_count]
    lower: wp.array2d[float],  # [1 or problems, joint_dof_count]
    upper: wp.array2d[float],  # [1 or problems, joint_dof_count]
    exact_lower: wp.array2d[wp.float64],  # [1 or problems, joint_coord_count]
    exact_upper: wp.array2d[wp.float64],  # [1 or problems, joint_coord_count]
    joint_q: wp.array2d[float],  # [problem_capacity, joint_coord_count]
    judged_q: wp.array2d[wp.float64],  # [problem_capacity, joint_coord_count]
    # out
    active_limits_out: wp.array2d[wp.bool],  # [problem_capacity, joint_dof_count]
    limit_margin_out: wp.array[wp.float64],  # [problem_capacity]
):
    p = wp.max(first_problem(settings, part, parts) + wp.tid(), 0)
    q = joint_q[p]
    judged = judged_q[p]
    active_limits = active_limits_out[p]
    line = wp.min(p, lower.shape[0] - 1)
    margin = INFINITE
    d = int(0)
    while d < dof_coordinate.shape[0]:
        at_limit = bool(False)
        c = dof_coordinate[d]
        if c >= 0 and dof_active[d] >= 0:
            at_limit = q[c] <= lower[line, d] or q[c] >= upper[line, d]
            below, above = judged[c] - exact_lower[line, c], exact_upper[line, c] - judged[c]
            least = wp.where(below < above, below, above)  # unlike `wp.min`, one instruction
            margin = wp.where(least < margin, least, margin)
        active_limits[d] = at_limit
        d += 1
    limit_margin_out[p] = wp.where(margin < INFINITE, margin, NAN)


class Verification:
    """Answers of a solver, with their launches."""

    constraint_values: ConstraintValues  # values of the robot's constraints, once the rows are known
    collision: CollisionVerdict | None = None  # clearances, with a collision check

    def __init__(
        self,
        model: DeviceModel,
        targets: Sequence[Target],
        tree_count: int,
        capacity: int,  # problems with room
        block: HostDeviceBlock | None = None,  # memory shared with other inputs of the problems
    ) -> None:
        device, answers_block = model.device, block_on(model.device)
        self._model, self.targets = model, tuple(targets)  # the targets of the last solve
        extents = {"coordinates": model.joint_coord_count, "dofs": model.joint_dof_count}
        extents |= {"targets": len(targets), "trees": tree_count}

        def array_of(column: Column, dtype: Any = None) -> HostDeviceArray:
            shape = (capacity, *(extents[axis] for axis in column.axes))
            return HostDeviceArray(shape, dtype or WARP_TYPES[column.dtype], device, block=answers_block)

        answers = {column.name: array_of(column) for column in DEVICE_COLUMNS}
        of_islands = {column.name: array_of(column) for column in DEVICE_ISLAND_COLUMNS}
        # the columns of `result_schema` written by kernels, by name, with the prefix `island_` for islands; `judged_q`
        # is `joint_q` in float64
        self.columns = answers | {f"island_{name}": array for name, array in of_islands.items()}
        self._answers, self.of_islands = HostColumns(answers), HostColumns(of_islands)
        self.columns["judged_q"] = array_of(DEVICE_COLUMNS[0], wp.float64)
        self.tolerances = HostDeviceArray((2,), wp.float64, device, per_problem=False, block=block)
        self.collision_verdict: CollisionVerdict | None = None  # None without a collision model
        self._target_row: Any = None  # until the rows are known
        self._no_deadband: wp.array[Any] = wp.zeros((1, DEADBAND_WIDTH), dtype=wp.float32, device=device)
        links = [target.link for target in targets]
        self.kinematics = float64_kinematics(model, [*links, *(target.reference_link for target in targets)])
        # tool frame of each target, `T_link_tool`, [1 or problems]
        self.tools = [roomy_array(_tool(target), wp.transformd, capacity, device) for target in targets]

    def use_targets(self, targets: Sequence[Target]) -> bool:
        """Set other tool frames; return whether an array was exchanged for a larger one."""
        self.targets = tuple(targets)
        old, device = self.tools, self._model.device
        pairs = [(array, np.atleast_2d(_tool(one))) for array, one in zip(old, targets, strict=True)]
        self.tools = [fitting_array(array, tools, wp.transformd, device) for array, tools in pairs]
        return any(array is not before for array, before in zip(self.tools, old, strict=True))

    def use_rows(self, rows: Rows) -> None:
        """Set the rows of a solver; all launches have to be recorded again."""
        self._rows, target_rows = rows, [rows.start[k] for k in rows.of_kind(RowKind.TARGET)]
        self._target_row = wp.array(target_rows, dtype=wp.int32, device=self._model.device)
        capacity, trees = self.columns["island_success"].device.shape
        self._row_verification = RowVerification(self._model, rows, trees, capacity)
        self.constraint_values = ConstraintValues(self._model, rows, capacity)

    def use_collision(self, data: CollisionData) -> None:
        """Make room for the clearances of a robot with a collision model."""
        self.collision_verdict = CollisionVerdict(self._model, data, len(self.columns["success"].host))

    @property
    def collision_arrays(self) -> tuple[object, ...]:
        """The objects with the arrays of the collision check; others after an exchange of arrays."""
        return () if self.collision is None else self.collision.arrays

    def modules(self) -> list[Any]:
        """Return the Warp modules of the launches, besides `SOLVE_IO`."""
        kernels = self._row_verification.kernels() + self.constraint_values.kernels()
        if self.collision is not None:
            kernels += self.collision.kernels()
        return [kernel.module for kernel in kernels]

    def lines(self) -> dict[str, wp.array[Any]]:
        """Return the output arrays of the launches, with a line for every problem."""
        found, rows = {name: array.device for name, array in self.columns.items()}, self._row_verification
        if rows.body_q is not None:
            found |= {"row_missed": rows.missed, "row_body_q": rows.body_q}
        if self.collision is not None:
            found |= {name: array.device for name, array in self.collision.written.items()}
        return found

    def use_tolerances(self, options: SolverOptions) -> None:
        """Set the tolerances of these options for the verdict; uploaded later."""
        self.tolerances.host[:] = options.position_tolerance, options.orientation_tolerance

    def results(self, *, float64_finish: bool) -> list[HostDeviceArray]:
        """Return the arrays of a result, configurations in float64 or float32."""
        left_out, values = "joint_q" if float64_finish else "judged_q", self.constraint_values.columns
        found = [array for name, array in self.columns.items() if name != left_out]
        if self.collision is not None:
            found += self.collision.written.values()
        return found if values is None else [*found, values]

    def read(self, count: int, *, float64_finish: bool) -> dict[str, Any]:
        """Return the columns of the first problems, by name."""
        values = self._answers.read(count)
        if float64_finish:
            values["joint_q"] = self.columns["judged_q"].read(count)
        values["constraint_error"] = values["closing_joint_q"] = np.empty((count, 0))
        if self.constraint_values.columns is not None:
            values["constraint_error"], values["closing_joint_q"] = self.constraint_values.read(count)
        if self.collision is not None:
            values |= self.collision.columns.read(count)
        return values

    def launches(
        self,
        problems: Any,  # the solved `Problems`
        given: InputArrays,  # the caller's numbers
        partition: Partition,
        part: int,
        parts: int,
        joint_q_float64: "wp.array[Any] | None",  # answers in float64, with a float64 finish
        *,
        values: bool = True,  # whether to compute values of constraints, which are not judged
    ) -> list[wp.Launch]:
        """Record the launches to judge one part of the problems; their dimension is its number of problems."""
        model, best, errors = self._model, problems.best, self._errors()
        which = [problems.settings, part, parts]
        device = {name: array.device for name, array in self.columns.items()}
        place = [*which, problems.turns, problems.start_joint_q, best.joint_q, int(joint_q_float64 is not None)]
        place += [device["judged_q"] if joint_q_float64 is None else joint_q_float64, *problems.limits.returned]
        place += [device["joint_q"], device["judged_q"]]
        steps: list[tuple[Any, list[Any]]] = [(_final_configuration, place)]
        steps += [self._error_step(k, which, problems, given) for k in range(len(self.targets))]
        rows = self._row_verification
        compose = [*which, self.tolerances.device, self._target_row, *errors, rows.missed]
        compose += [partition.device_nisland, partition.device_row_island, best, problems.searches]
        compose += [device[f"island_{name}"] for name in ("success", "status", "seed_index", "iterations", "cost")]
        compose += [device[name] for name in ("success", "status", "cost", "iterations", "seed_index", "proof")]
        limits = [*which, model.dof_coordinate, model.dof_active, *problems.limits.at_limit]
        limits += [*problems.limits.told, device["joint_q"], device["judged_q"], device["active_limits"]]
        steps += rows.steps(which, device["judged_q"], partition)
        steps += self.constraint_values.steps(which, rows.body_q, device["judged_q"]) if values else []
        steps += [(compose_islands, compose), (_compare_with_limits, [*limits, device["limit_margin"]])]
        if self.collision is not None:
            steps += self.collision.steps(which, device["judged_q"], device["success"], device["status"])
        return [wp.launch(kernel, 1, inputs, device=model.device, record_cmd=True) for kernel, inputs in steps]

    def _errors(self) -> list[wp.array[Any]]:
        return [self.columns[name].device for name in ("position_error", "orientation_error")]

    def _error_step(self, k: int, which: Sequence[Any], problems: Any, given: InputArrays) -> tuple[Any, list[Any]]:
        """Return the kernel for the errors of target k, with its arguments."""
        inputs = [*which, self.kinematics, self.columns["judged_q"].device, *self.of_target(k, problems, given)]
        return _target_errors, [*inputs, *self._errors()]

    def of_target(self, k: int, problems: Any, given: InputArrays) -> list[Any]:
        """Return the arguments of `write_target_errors` that tell of target k."""
        inputs = [k, len(self.targets), self.tools[k], int(self.targets[k].reference_link is not None)]
        inputs += [given.positions.device, given.orientations_xyzw.device, problems.row_weights[k]]
        return [*inputs, *self._nearness(k)]

    def _nearness(self, target: int) -> tuple[int, wp.array[Any]]:
        """Return the frame of a target's rows, and its deadband."""
        frame = self.targets[target].frame
        if frame is None:
            return -1, self._no_deadband
        objective: Any = self._rows.objectives[target]
        return FRAMES.index(frame), objective.data(DEADBAND)


def _tool(target: Target) -> NDArray[np.float64]:
    return identity_transform() if target.offset is None else np.asarray(target.offset, np.float64)
