"""Motion of DOFs with the targets met, and derivatives of answers: in float64, on SIMD packets, on the host's CPU.

configurations, targets -> errors and Jacobian J along the chains -> N = J'(J J')^-1 of the free DOFs
-> the shortest step onto the targets, and the derivative of each DOF by each of their numbers

Answers have rows of targets alone, all of them met: second derivatives have no effect there. Answers of equal islands
move onto their targets, within their limits. Nearly singular problems, and problems not at rest, are left to the
general method.
"""

import typing
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.compiler import cpu_target
from ik_service.kernels import typed_warp
from ik_service.kinematics.bound_rows import Data
from ik_service.mechanism.kinematic_robot import KinematicRobot
from ik_service.mechanism.transforms import Float64Array, identity_transform
from ik_service.robots.model import RobotModel
from ik_service.solver.derivatives.answers import AnswerIslands
from ik_service.solver.derivatives.host_rows import HostRows
from ik_service.solver.derivatives.linearisation import TWIST, By, DofState, Linearisation
from ik_service.solver.derivatives.link_poses import TEMPLATES, launch, load, shown
from ik_service.solver.given.requested_limits import RequestedLimits
from ik_service.solver.given.targets import Target
from ik_service.solver.rows.binding import RowKind
from ik_service.solver.verdict.float64_kinematics import Kinematics, KinematicsRef, float64_kinematics, packet_function
from objectives.tasks.frame_objective import OFFSET
from objectives.tasks.pose import ORIENTATION, POSITION

LEAST_SHARE = 1e-9
"""Square of the sine of the angle between a row and those before it from which two rows count as different."""


@wp.struct
class IslandMotion:
    """An island, and the map from its DOFs to the robot's."""

    target: wp.array[wp.int32]  # [targets of the island]
    has_reference: wp.array[wp.int32]  # [targets]
    has_tool: wp.array[wp.int32]  # [targets]
    place: wp.array[wp.int32]  # [joint_dof_count]: DOF of the island for each DOF, -1 for none
    multiplier: wp.array[wp.float64]  # [joint_dof_count]: factor to this DOF
    dof: wp.array[wp.int32]  # [DOFs of the island]: number of the active DOF


@wp.struct
class MotionArrays:
    """Targets of problems, and the motion of their DOFs."""

    tools: wp.array3d[wp.float64]  # [n, targets, 7]: T_link_tool
    positions: wp.array3d[wp.float64]  # [n, targets, 3]
    orientations_xyzw: wp.array3d[wp.float64]  # [n, targets, 4]
    row_counts: wp.array3d[wp.float64]  # [1, targets, 6]: 1 for rows of the island, 0 for others
    free_dofs: wp.array2d[wp.float64]  # [n, active DOFs]: 0 at an active limit
    # out
    step: wp.array2d[wp.float64]  # [n, active DOFs]
    touched: wp.array2d[wp.float64]  # [n, active DOFs]: 1 if a row depends on the DOF
    regular: wp.array[wp.float64]  # [n]: lowered to the least independent share of a row
    by_targets: wp.array3d[wp.float64]  # [n, joint_dof_count, 6 targets]
    by_offsets: wp.array3d[wp.float64]  # the same, or empty if no target has a tool


@cache
@typing.no_type_check
def motion_kernel(targets: int, dofs: int, path: int) -> wp.Kernel:
    """Return the kernel for islands of this many targets and DOFs, with at most `path` joints below a link."""
    Island: Any = typed_warp.reference_to(IslandMotion)
    Arrays: Any = typed_warp.reference_to(MotionArrays)

    @typed_warp.func_native(
        packet_function("chain", "target_motion", folder=TEMPLATES, targets=targets, dofs=dofs, path=path)
    )
    def write_motion(
        p: int,
        place: int,
        left: int,
        robot: KinematicsRef,
        joint_q: wp.array2d[wp.float64],
        island: Island,
        arrays: Arrays,
    ): ...

    @wp.kernel(module="unique", enable_backward=False, module_options={"cpu_compiler_flags": cpu_target().flags})
    def target_motion(
        count: wp.array[wp.int32],  # [1]
        robot: Kinematics,  # with paths to each target's link, then to each reference link
        joint_q: wp.array2d[wp.float64],  # [n, joint_coord_count]
        island: IslandMotion,
        arrays: MotionArrays,
    ):
        p = wp.tid()
        write_motion(p, p, count[0] - p, robot, joint_q, island, arrays)

    return target_motion


class TargetIsland(NamedTuple):
    """An island with rows of targets alone."""

    dofs: NDArray[np.intp]  # its active DOFs
    rows: NDArray[np.bool_]  # rows of the island, of all targets, shape [targets, 6]


class Motion(NamedTuple):
    """Steps and derivatives of DOFs in configurations."""

    step: Float64Array  # the shortest step of the active DOFs onto the targets, shape [n, active DOFs]
    touches: NDArray[np.bool_]  # whether a row depends on an active DOF, shape [n, active DOFs]
    is_regular: NDArray[np.bool_]  # whether the rows are independent, shape [n]
    by_targets: Float64Array  # d DOF / d target, shape [n, joint_dof_count, targets, 6]
    by_offsets: Float64Array  # by tool frames, shape [n, joint_dof_count, targets, 6]; of 0 targets if none has a tool


class TargetMotion:
    """Computes motion with targets, on the host's CPU."""

    def __init__(
        self,
        robot: RobotModel,
        targets: Sequence[Target],
        tools: Float64Array,  # tool frames of the targets T_link_tool, shape [n, targets, 7]
        positions: Float64Array,  # target positions, shape [n, targets, 3]; any value if free
        orientations_xyzw: Float64Array,  # unit quaternions, shape [n, targets, 4]
    ) -> None:
        self._robot, self._given = robot, (tools, positions, orientations_xyzw)
        model, links = robot.on_device("cpu"), [target.link for target in targets]
        self._kinematics = float64_kinematics(model, [*links, *(target.reference_link for target in targets)])
        starts = self._kinematics.path_start.numpy()
        self._longest = max(int(np.diff(starts).max()), 1)
        self._has_reference = np.array([target.reference_link is not None for target in targets], np.int32)
        self._has_tool = np.array([target.offset is not None for target in targets], np.int32)

    def load(self, islands: Sequence[TargetIsland]) -> None:
        """Load the kernels for some islands; KernelCacheError if kernels can be neither read nor kept."""
        for island in islands:
            load(self._kernel(island))

    def at(
        self,
        joint_q: Float64Array,  # configurations, shape [n, joint_coord_count]
        problems: NDArray[np.intp],  # problems with their targets, shape [n]
        free: NDArray[np.bool_],  # active DOFs without an active limit, shape [n, active DOFs]
        islands: Sequence[TargetIsland],  # the islands, the same in all problems
    ) -> Motion:
        """Return the motion of the DOFs of all islands."""
        robot, n, targets = self._robot, len(joint_q), len(self._has_reference)
        step, touched, least = np.zeros(free.shape), np.zeros(free.shape), np.ones(n)
        tools = targets if self._has_tool.any() else 0
        by_targets, by_offsets = (np.zeros((n, robot.joint_dof_count, count * TWIST)) for count in (targets, tools))
        arrays: Any = MotionArrays()
        given = (one[problems] for one in self._given)
        arrays.tools, arrays.positions, arrays.orientations_xyzw = map(shown, given)
        arrays.free_dofs, arrays.step, arrays.touched = map(shown, (free.astype(np.float64), step, touched))
        arrays.regular, arrays.by_targets, arrays.by_offsets = map(shown, (least, by_targets, by_offsets))
        configurations, count = shown(joint_q), shown(np.array([n], np.int32))
        for island in islands:
            arrays.row_counts = shown(island.rows[None].astype(np.float64))
            own = island_motion(robot, island, self._has_reference, self._has_tool)
            launch(self._kernel(island), n, [count, self._kinematics, configurations, own, arrays])
        by = [one.reshape(n, robot.joint_dof_count, -1, TWIST) for one in (by_targets, by_offsets)]
        return Motion(step, touched > 0.0, least > LEAST_SHARE, *by)

    def _kernel(self, island: TargetIsland) -> wp.Kernel:
        kernel: wp.Kernel = motion_kernel(int(island.rows.any(axis=1).sum()), len(island.dofs), self._longest)
        return kernel


def island_motion(
    robot: KinematicRobot,
    island: TargetIsland,
    has_reference: NDArray[np.integer],  # whether each target has a reference link, shape [targets]
    has_tool: NDArray[np.integer],  # whether to derive by each tool frame, shape [targets]
    device: wp.Device | str = "cpu",  # device of the kernels
) -> Any:
    """Return an island in the form read by kernels on a device."""
    found, place_of = IslandMotion(), np.full(robot.active_dof_count + 1, -1, np.int32)
    place_of[island.dofs] = np.arange(len(island.dofs))
    numbers = {
        "target": np.flatnonzero(island.rows.any(axis=1)),
        "has_reference": has_reference,
        "has_tool": has_tool,
        "place": place_of[robot.dof_active],
        "dof": island.dofs,
    }
    for name, values in numbers.items():
        setattr(found, name, wp.array(values.astype(np.int32), device=device))
    found.multiplier = wp.array(robot.dof_multiplier.astype(np.float64), device=device)
    return found


STEPS, LONGEST, SETTLED = 5, 0.5, 1e-9
"""Steps onto targets: how many at most, and lengths [m or rad] of one that leads elsewhere, and of the last."""
MOST_ROWS, MOST_DOFS = 48, 96
"""Of an island that the code for packets is made for: its arrays stand on the stack."""

FIELDS = OFFSET, POSITION, ORIENTATION


def linearise_met(
    rows: HostRows,  # the rows of the solver
    targets: Sequence[Target],
    data: Sequence[Data],  # numbers of the fields
    joint_q: Float64Array,  # the answers, shape [n, joint_coord_count]
    islands: AnswerIslands,
    limits: RequestedLimits | None,  # limits of their solve; None for the robot's
) -> tuple[NDArray[np.bool_], Linearisation]:
    """Return the derived answers, as a mask of shape [n], and the derivatives."""
    n, is_target = len(joint_q), rows.kind == RowKind.TARGET
    tools = len(targets) if any(OFFSET in one for one in data[: len(targets)]) else 0
    found = Linearisation.nothing(rows.robot, rows.order, joint_q, len(targets), tools)
    is_done = np.zeros(n, dtype=bool)
    on = (rows.weights(data, n) > 0.0) & (islands.row >= 0)
    has_island = np.arange(islands.success.shape[1]) < islands.number[:, None]
    is_met = np.asarray((islands.success | ~has_island).all(axis=1))
    fits = ~on[:, ~is_target].any(axis=1) & bool(targets)
    row_island = np.where(on, islands.row, -1)[:, is_target]
    for own in _alike(np.flatnonzero(fits), np.hstack([islands.tree, row_island])):
        tree, place = islands.tree[own[0]], row_island[own[0]].reshape(-1, TWIST)
        parts = target_islands(tree, place, int(islands.number[own[0]]), rows.dof_tree)
        if any(one.rows.sum() > MOST_ROWS or len(one.dofs) > MOST_DOFS for one in parts):
            continue
        met = own[is_met[own]]
        motion = TargetMotion(rows.robot, targets, *(_values(data[: len(targets)], name, met) for name in FIELDS))
        motion.load(parts)  # even if none is met: later similar solves need them
        if len(met):
            is_done[met] = _follow(rows, motion, parts, met, found, None if limits is None else limits.part(met))
    return is_done, found


def target_islands(
    tree: NDArray[np.integer], place: NDArray[np.integer], number: int, dof_tree: NDArray[np.integer]
) -> list[TargetIsland]:
    """Return the islands of a problem with rows: island of each tree [trees] and row [targets, 6], -1 for none."""
    found = [TargetIsland(np.flatnonzero(tree[dof_tree] == k), place == k) for k in range(number)]
    return [one for one in found if one.rows.any()]


def _alike(problems: NDArray[np.intp], lines: NDArray[np.integer]) -> Iterator[NDArray[np.intp]]:
    while len(problems):
        same = (lines[problems] == lines[problems[0]]).all(axis=1)
        yield problems[same]
        problems = problems[~same]


def _values(data: Sequence[Data], name: str, own: NDArray[np.intp]) -> Float64Array:
    lines = [one[name] if name in one else identity_transform()[None] for one in data]
    return np.stack([np.broadcast_to(one[own] if len(one) > 1 else one, (len(own), one.shape[1])) for one in lines], 1)


def _follow(
    rows: HostRows,
    motion: TargetMotion,
    islands: Sequence[TargetIsland],
    own: NDArray[np.intp],
    found: Linearisation,
    limits: RequestedLimits | None,
) -> NDArray[np.bool_]:
    """Derive answers of equal islands that come to rest; return these as a mask."""
    left, rank = np.arange(len(own)), sum(int(island.rows.sum()) for island in islands)
    joint_q, is_done = found.joint_q[own], np.zeros(len(own), dtype=bool)
    for _ in range(STEPS):
        within = None if limits is None else limits.part(left)
        beside = rows.beside_limits(joint_q[left], within)
        held = beside.at_lower | beside.at_upper
        along = motion.at(joint_q[left], left, ~held, islands)
        step = along.step + np.where(held & along.touches, beside.way, 0.0)
        length = np.abs(step).max(axis=1, initial=0.0)
        goes_on = along.is_regular & (length <= LONGEST)
        joint_q[left] = rows.moved(joint_q[left], np.where(goes_on[:, None], step, 0.0), within)
        rests = goes_on & (length <= SETTLED)
        state = np.where(held, np.where(beside.at_lower, DofState.AT_LOWER, DofState.AT_UPPER), DofState.FREE)
        state = np.where(along.touches, state, DofState.FIXED).astype(np.int8)
        nothing = np.zeros((*along.by_targets.shape[:2], 0))
        of_all = (
            By(along.by_targets, along.by_offsets, nothing, nothing),
            (),
            rests,
            state,
            beside.at_lower & beside.at_upper,
            np.full(len(left), rank, np.int32),
        )
        found.put(own[left[rests]], Linearisation.of(rows.robot, rows.order, joint_q[left], *of_all).part(rests))
        is_done[left[rests]] = True
        left = left[goes_on & ~rests]
        if not len(left):
            break
    return is_done
