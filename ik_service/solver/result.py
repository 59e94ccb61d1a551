"""Result of a solve, and its collection from the arrays."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.kernels.device_lock import DEVICE_LOCK, device_work
from ik_service.kernels.kernel_loading import KernelsFor
from ik_service.kinematics.manipulability import Motion
from ik_service.mechanism.caller_order import CallerOrder
from ik_service.result_schema import (
    DEVICE_COLUMNS,
    ISLAND_COLUMNS,
    OF_COORDINATES,
    OF_DOFS,
    RESULT_COLUMNS,
)
from ik_service.robots import RobotModel
from ik_service.solver.arrays.partition import Partition
from ik_service.solver.arrays.problem_arrays import SolveSettings
from ik_service.solver.given.reading import read_start
from ik_service.solver.given.requested_limits import RequestedLimits
from ik_service.solver.given.targets import Target, joined_targets, rows_of
from ik_service.solver.recorded_launches import PreparedSolve
from ik_service.solver.verdict.explanation import AskedSolve, ExplainedResult
from ik_service.solver.verdict.island_results import IslandResults
from ik_service.solver.workspace import Workspace

_NAMES = tuple(column.name for column in RESULT_COLUMNS)
_ISLAND_NAMES = tuple(column.name for column in ISLAND_COLUMNS)
_PARTITION_NAMES = tuple(name for name in _ISLAND_NAMES if name in Partition.__annotations__)

Instance = TypeVar("Instance")


@dataclass(frozen=True, kw_only=True, eq=False)
class IKResult(ExplainedResult):
    """Answers of a batch of problems, NumPy arrays of their own: other libraries take them by DLPack without a copy.

    Its columns are in `ResultColumns`. Coordinates, DOFs and joints are in the order of the solver's `joint_order`, or
    all in the robot's order without one.

    Attributes:
        joint_names: Names of the joints, in this order.
        coordinate_names: Names of the columns of `joint_q`.
        dof_names: Names of the columns of `active_limits`.
        constraint_names: Names of the columns of `constraint_error`.
        closing_coordinate_names: Names of the columns of `closing_joint_q`.
        engine: The engine that ran.
        device: The device of the solve.
        seeds: Seeds available to each problem.
        islands: The islands of every problem.
        targets: The targets of the solve.
        limits: Limits of the active DOFs in this solve, narrower than the robot's; None for the robot's.
        asked: Options and problems of the solve, for `advice`; None in results joined of others.
    """

    joint_names: tuple[str, ...]
    coordinate_names: tuple[str, ...]
    dof_names: tuple[str, ...]
    constraint_names: tuple[str, ...]
    closing_coordinate_names: tuple[str, ...]
    engine: str
    device: str
    seeds: int
    islands: IslandResults
    targets: tuple[Target, ...]
    limits: RequestedLimits | None = None
    asked: AskedSolve | None = None

    def __repr__(self) -> str:
        solved = f"{int(self.success.sum())} of {len(self)} problems solved"
        return f"<IKResult: {solved}, {len(self.coordinate_names)} coordinates, engine {self.engine} on {self.device}>"

    def __len__(self) -> int:
        return len(self.success)

    @property
    def manipulability(self) -> NDArray[np.float64]:
        """Least `RobotModel.manipulability` of the targets' frames in the world, computed on each access, float64 [n].

        Rows of J are those of position, of orientation, or both, as the target has them. NaN where no target has rows
        and a link that an active DOF moves.
        """
        robot, lines = self.islands.robot, np.arange(len(self))
        order = CallerOrder(robot, self.joint_names)
        joint_q = robot.complete_joint_q(read_start(robot, order, "joint_q", self.joint_q, len(self)))
        return manipulability_of(self, self.targets, joint_q, lines, lines)

    def to_warp(self) -> dict[str, wp.array[Any]]:
        """Return the columns as Warp arrays on the solver's device, by name; on a CPU they share their memory."""
        values = {column.name: getattr(self, column.name) for column in DEVICE_COLUMNS}
        with device_work(wp.get_device(self.device)):
            return {name: wp.array(column, device=self.device, copy=False) for name, column in values.items()}


MOTIONS: Mapping[int, Motion] = {1: "position", 2: "orientation", 3: "pose"}


def manipulability_of(
    result: IKResult,
    targets: Sequence[Target],
    joint_q: NDArray[Any],  # configurations, [n, joint_coord_count]
    lines: NDArray[np.intp],  # their lines in the result, [n]
    rows: NDArray[np.intp],  # their lines in data of the targets, [n]
) -> NDArray[np.float64]:
    """Return the least manipulability of the targets' frames, as `IKResult.manipulability`, [n]."""
    found = np.full(len(lines), np.nan)
    kinds = ~np.isnan(result.position_error) + 2 * ~np.isnan(result.orientation_error)
    for target, of_target in zip(targets, kinds[lines].T, strict=True):
        for kind, motion in MOTIONS.items():
            if len(own := np.flatnonzero(of_target == kind)):
                offset = rows_of(target.offset, rows[own])
                value = result.islands.robot.manipulability(joint_q[own], target.link, motion, offset)
                found[own] = np.fmin(found[own], value)
    return found


def instance_of(kind: type[Instance], fields: Mapping[str, Any]) -> Instance:
    """Return an instance of a frozen dataclass without slots and `__post_init__`, of fields by name."""
    # The dataclass constructor sets fields one by one through `object.__setattr__`: for a result this takes a tenth of
    # a solve of one target
    made = object.__new__(kind)
    vars(made).update(fields)
    return made


def join_results(parts: Sequence[tuple[IKResult, slice]]) -> IKResult:
    """Join problems of several results of one solver and the same options: some rows of each, in order."""
    first, _ = parts[0]
    islands = _joined([(result.islands, rows) for result, rows in parts], _ISLAND_NAMES)
    joined = _joined(parts, _NAMES) | {"islands": instance_of(IslandResults, vars(first.islands) | islands)}
    joined["asked"] = None
    joined["targets"] = joined_targets([(result.targets, rows) for result, rows in parts])
    given = [result.limits.part(own) for result, own in parts if result.limits is not None]
    if given:
        joined["limits"] = RequestedLimits.joined(given, [own.stop - own.start for _, own in parts])
    return instance_of(IKResult, vars(first) | joined)


def replace_by_successes(result: IKResult, problems: NDArray[np.intp], others: IKResult) -> None:
    """Replace the answers of some problems by the successful answers of another result."""
    replace_answers(result, problems, others, others.success)


def replace_answers(result: IKResult, problems: NDArray[np.intp], others: IKResult, own: Any = slice(None)) -> None:
    """Replace the answers of some problems by the answers of another result, or by its rows `own`."""
    for name in _NAMES:
        if getattr(result, name) is not None:
            getattr(result, name)[problems[own]] = getattr(others, name)[own]
    for name in _ISLAND_NAMES:
        if (values := getattr(result.islands, name)).flags.writeable:
            values[problems[own]] = getattr(others.islands, name)[own]


def _joined(parts: Sequence[tuple[object, slice]], names: Sequence[str]) -> dict[str, Any]:
    first, rows = parts[0]
    if len(parts) == 1:
        return {name: values[rows] for name in names if (values := getattr(first, name)) is not None}
    present = [name for name in names if getattr(first, name) is not None]
    return {name: np.concatenate([getattr(part, name)[rows] for part, rows in parts]) for name in present}


@dataclass(frozen=True, eq=False)
class ResultHead:
    """Names and places shared by all results of a solver."""

    robot: RobotModel
    order: CallerOrder
    row_labels: tuple[str, ...]  # names of the rows
    engine: str
    device: str

    @cached_property
    def fields(self) -> dict[str, Any]:
        """Fields of an `IKResult`, by name."""
        return {
            "joint_names": self.order.joint_names,
            "coordinate_names": self.order.coordinate_names,
            "dof_names": self.order.dof_names,
            "constraint_names": self.robot.constraint_names,
            "closing_coordinate_names": self.robot.closing_coordinate_names,
            "engine": self.engine,
            "device": self.device,
        }


def collect_result(head: ResultHead, work: Workspace, prepared: PreparedSolve, settings: SolveSettings) -> IKResult:
    """Return the result of the solve last run in a workspace."""
    verified, count, order = work.verification, settings.problem_count, head.order
    values = head.fields | verified.read(count, float64_finish=settings.float64_finish)
    if settings.options.world_clearance and verified.collision is not None:
        values["world_clearance"] = verified.collision.world_clearance.read(count)
    if not order.is_own:
        values |= {name: order.coordinates_of(values[name]) for name in OF_COORDINATES}
        values |= {name: order.dofs_of(values[name]) for name in OF_DOFS}
    values["seeds"], values["limits"] = settings.seeds, work.requested_limits
    islands = {"robot": head.robot, "row_labels": head.row_labels, **verified.of_islands.read(count)}
    for name in _PARTITION_NAMES:  # one line if all problems have the same islands
        lines = getattr(prepared.partition, name)
        islands[name] = lines if len(lines) == count else _repeated(lines, count)
    values["islands"], values["targets"] = instance_of(IslandResults, islands), verified.targets
    result = instance_of(IKResult, values)
    return result if settings.options.solutions == 1 else _with_solutions(head, work, result, prepared, settings)


def _repeated(line: NDArray[Any], count: int) -> NDArray[Any]:
    """Return a read-only view with the same line for each problem: `np.broadcast_to`, in a tenth of its time."""
    line = np.ascontiguousarray(line)
    view = np.ndarray((count, *line.shape[1:]), line.dtype, line, strides=(0, *line.strides[1:]))
    view.flags.writeable = False
    return view


def _with_solutions(
    head: ResultHead, work: Workspace, result: IKResult, prepared: PreparedSolve, settings: SolveSettings
) -> IKResult:
    """Add the solutions, each verified; if the first fails, the first that succeeds becomes the answer."""
    # The first is chosen in float32: an error near the tolerance may round to the other side
    selection, count = prepared.selection, settings.problem_count
    assert selection is not None  # several solutions have been asked for
    found = selection.solution_count.read(count)
    with DEVICE_LOCK, KernelsFor():
        if selection.of_arm and work.verification.collision is None:
            selection.keep_branches(work, prepared.partition, count)
        else:
            for k in range(max(int(found.max(initial=1)), 1)):
                if k > 0:
                    selection.take(prepared.partition, np.full(count, k, np.int32))
                    work.verify(prepared, count)
                selection.keep(work, prepared.partition, k, count)
        first = selection.first_kept.read(count)
        if first.any():
            selection.take(prepared.partition, first)
            work.verify(prepared, count)
    if first.any():
        alone = settings._replace(options=replace(settings.options, solutions=1))
        result = collect_result(head, work, prepared, alone)
    number, solutions = selection.kept.read(count), selection.kept_joint_q.read(count)
    columns: dict[str, Any] = {"solution_count": number, "branch": selection.kept_branch.read(count)}
    columns["complete"] = (selection.complete.read(count) == 1) & (number == found)
    return replace(result, solutions=head.order.coordinates_of(solutions), **columns)
