"""Derivatives of answers with rows of targets alone, all of them met.

rows, islands -> problems of equal islands -> configurations move onto their targets, within their limits -> derivatives

Second derivatives have no effect there. Nearly singular problems, and problems not at rest, are left to the general
method.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ik_service.mechanism.transforms import Float64Array, identity_transform
from ik_service.solver.derivatives.answers import AnswerIslands
from ik_service.solver.derivatives.host_rows import Data
from ik_service.solver.derivatives.linearisation import TWIST, By, DofState, Linearisation
from ik_service.solver.derivatives.solver_rows import HostRows
from ik_service.solver.derivatives.target_motion import TargetIsland, TargetMotion
from ik_service.solver.given.asked_limits import AskedLimits
from ik_service.solver.given.targets import Target
from ik_service.solver.rows.binding import RowKind
from objectives.tasks.frame_objective import OFFSET
from objectives.tasks.pose import ORIENTATION, POSITION

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
    limits: AskedLimits | None,  # limits of their solve; None for the robot's
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
    limits: AskedLimits | None,
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
