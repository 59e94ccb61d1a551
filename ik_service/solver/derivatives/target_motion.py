"""Motion of DOFs with the targets met, and derivatives of answers: in float64, on SIMD packets of a CPU, or on a GPU.

configurations, targets -> errors and Jacobian J along the chains -> N = J'(J J')^-1 of the free DOFs
-> the shortest step onto the targets, until at rest -> the derivative of each DOF by each of their numbers

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
from ik_service.mechanism.transforms import Float64Array, identity_transform
from ik_service.robots import DeviceModel
from ik_service.solver.derivatives.answers import AnswerIslands
from ik_service.solver.derivatives.host_rows import AT_LIMIT, HostRows
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
STEPS, LONGEST, SETTLED = 5, 0.5, 1e-9
"""Largest number of steps onto targets; lengths of a step to another branch, and of the last step [m or rad]."""


@wp.struct
class IslandMotion:
    """An island, and the map from its DOFs to the robot's."""

    target: wp.array[wp.int32]  # [targets of the island]
    counts: wp.array2d[wp.float64]  # [targets, 6]: 1 for rows of the island, 0 for others
    has_reference: wp.array[wp.int32]  # [targets]
    has_tool: wp.array[wp.int32]  # [targets]: whether to derive by each tool frame
    dof: wp.array[wp.int32]  # [DOFs of the island]: number of the active DOF
    leader: wp.array[wp.int32]  # [DOFs of the island]: DOF of the robot
    place: wp.array[wp.int32]  # [joint_dof_count]: DOF of the island for each DOF, -1 for none
    coordinate: wp.array[wp.int32]  # [joint_dof_count]: coordinate of each DOF, -1 for rotations with a quaternion
    multiplier: wp.array[wp.float64]  # [joint_dof_count]: factor to this DOF
    offset: wp.array[wp.float64]  # [joint_dof_count]


@wp.struct
class MotionArrays:
    """Targets of problems, and the motion of their DOFs."""

    tools: wp.array3d[wp.float64]  # [1 or n, targets, 7]: T_link_tool
    positions: wp.array3d[wp.float64]  # [n, targets, 3]
    orientations_xyzw: wp.array3d[wp.float64]  # [n, targets, 4], of any length
    lower: wp.array2d[wp.float64]  # [1 or n, active DOFs]: limits, infinite for none
    upper: wp.array2d[wp.float64]
    # in and out
    rests: wp.array[wp.bool]  # [n]: whether to follow; becomes false where rows depend on each other, or without a rest
    # out, where a problem rests
    dof_state: wp.array2d[wp.int32]  # [n, active DOFs]: `DofState`
    by_targets: wp.array3d[wp.float64]  # [n, joint_dof_count, 6 targets]
    by_offsets: wp.array3d[wp.float64]  # the same, or empty if no target has a tool


@cache
@typing.no_type_check
def motion_kernel(targets: int, dofs: int, path: int) -> wp.Kernel:
    """Return the kernel for islands of this many targets and DOFs, with at most `path` joints below a link."""
    Island: Any = typed_warp.reference_to(IslandMotion)
    Arrays: Any = typed_warp.reference_to(MotionArrays)
    sizes = {"targets": targets, "dofs": dofs, "path": path, "steps": STEPS, "longest": LONGEST, "settled": SETTLED}
    states = ", ".join(f"{one.name} = zero + {float(one)}" for one in DofState)
    words = sizes | {"states": states, "at_limit": AT_LIMIT, "least_share": LEAST_SHARE}

    @typed_warp.func_native(packet_function("chain", "target_motion", folder=TEMPLATES, **words))
    def follow_targets(
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
        count: wp.array[wp.int32],  # [1 or more]: first the number of problems
        robot: Kinematics,  # with paths to each target's link, then to each reference link
        # in and out
        joint_q: wp.array2d[wp.float64],  # [n, joint_coord_count]
        island: IslandMotion,
        arrays: MotionArrays,
    ):
        p = wp.tid()
        follow_targets(p, p, count[0] - p, robot, joint_q, island, arrays)

    return target_motion


class TargetIsland(NamedTuple):
    """An island with rows of targets alone."""

    dofs: NDArray[np.intp]  # its active DOFs
    rows: NDArray[np.bool_]  # rows of the island, of all targets, shape [targets, 6]


class TargetMotion:
    """Motion of a robot onto its targets, for problems with the same islands, on a device."""

    def __init__(
        self, model: DeviceModel, targets: Sequence[Target], islands: Sequence[TargetIsland], *, by_tools: bool
    ) -> None:
        links = [target.link for target in targets]
        self._kinematics = float64_kinematics(model, [*links, *(target.reference_link for target in targets)])
        path = max(int(np.diff(self._kinematics.path_start.numpy()).max()), 1)
        has_tool = [by_tools and target.offset is not None for target in targets]
        ends = [target.reference_link is not None for target in targets], has_tool
        # kernel and data of each island
        self.islands = [
            (motion_kernel(int(one.rows.any(axis=1).sum()), len(one.dofs), path), _island_motion(model, one, *ends))
            for one in islands
        ]

    def inputs(self, island: Any, count: Any, joint_q: Any, arrays: Any) -> list[Any]:
        """Return the arguments of an island's kernel; `count` begins with the number of problems."""
        return [count, self._kinematics, joint_q, island, arrays]


def _island_motion(
    model: DeviceModel, island: TargetIsland, has_reference: Sequence[bool], has_tool: Sequence[bool]
) -> Any:
    """Return an island in the form read by kernels."""
    robot = model.robot
    found, place_of = IslandMotion(), np.full(robot.active_dof_count + 1, -1, np.int32)
    place_of[island.dofs] = np.arange(len(island.dofs))
    numbers = {
        "target": np.flatnonzero(island.rows.any(axis=1)),
        "has_reference": has_reference,
        "has_tool": has_tool,
        "dof": island.dofs,
        "leader": robot.active_dof[island.dofs],
        "place": place_of[robot.dof_active],
        "coordinate": robot.dof_coordinate,
    }
    for name, values in numbers.items():
        setattr(found, name, wp.array(np.asarray(values, np.int32), device=model.device))
    lengths = {"counts": island.rows, "multiplier": robot.dof_multiplier, "offset": robot.dof_offset}
    for name, values in lengths.items():
        setattr(found, name, wp.array(np.asarray(values, np.float64), device=model.device))
    return found


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
        motion = TargetMotion(rows.robot.on_device("cpu"), targets, parts, by_tools=True)
        for kernel, _ in motion.islands:  # even if none is met: later similar solves need them
            load(kernel)
        if len(met):
            poses = [_values(data[: len(targets)], name, met) for name in FIELDS]
            rank, within = sum(int(one.rows.sum()) for one in parts), None if limits is None else limits.part(met)
            is_done[met] = _follow(rows, motion, poses, rank, met, found, within)
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
    poses: Sequence[Float64Array],  # tool frames, positions and orientations of the targets, [n, targets, ...] each
    rank: int,
    own: NDArray[np.intp],
    found: Linearisation,
    limits: RequestedLimits | None,
) -> NDArray[np.bool_]:
    """Derive answers of equal islands that come to rest; return these as a mask."""
    robot, n, targets = rows.robot, len(own), found.by_targets.shape[2]
    joint_q, tools = found.joint_q[own], found.by_offsets.shape[2]
    rests, state = np.ones(n, dtype=bool), np.full((n, robot.active_dof_count), DofState.FIXED, np.int32)
    by_targets, by_offsets = (np.zeros((n, robot.joint_dof_count, count * TWIST)) for count in (targets, tools))
    given = (*poses, *rows.kept_limits(limits), rests, state, by_targets, by_offsets)
    arrays: Any = MotionArrays()
    for name, values in zip(MotionArrays.__annotations__, given, strict=True):
        setattr(arrays, name, shown(np.atleast_2d(values) if name in ("lower", "upper") else values))
    configurations, count = shown(joint_q), shown(np.array([n], np.int32))
    for kernel, island in motion.islands:
        launch(kernel, n, motion.inputs(island, count, configurations, arrays))
    beside = rows.beside_limits(joint_q, limits)
    nothing = np.zeros((n, robot.joint_dof_count, 0))
    poses_by = [one.reshape(*nothing.shape[:2], -1, TWIST) for one in (by_targets, by_offsets)]
    by = By(poses_by[0], poses_by[1], nothing, nothing)
    of_dofs = state.astype(np.int8), beside.at_lower & beside.at_upper, np.full(n, rank, np.int32)
    of_all = Linearisation.of(robot, rows.order, joint_q, by, (), rests, *of_dofs)
    found.put(own[rests], of_all.part(rests))
    return rests
