"""From the rows of a solver and its answers to derivatives by the targets.

targets, answers -> problems with all rows of targets met (`met_targets`), others:
-> rows met, rows with a cost -> active limits -> Newton to the minimum -> derivatives

All derivatives of rows are exact, of all problems at once.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ik_service.constraints.linear_algebra import applied
from ik_service.kinematics.bound_rows import Data, RowValues, lines_of
from ik_service.kinematics.host_tangent import body_motion
from ik_service.mechanism.transforms import Float64Array
from ik_service.solver.derivatives.answers import (
    LINES_AT_ONCE,
    SINGULAR,
    AnswerIslands,
    Answers,
    IslandRows,
    MetRows,
    row_lengths,
)
from ik_service.solver.derivatives.host_rows import HostRows
from ik_service.solver.derivatives.linearisation import NOTHING_FURTHER, TWIST, By, DofState, Further, Linearisation
from ik_service.solver.derivatives.target_motion import linearise_met
from ik_service.solver.given.batch import Batch
from ik_service.solver.given.requested_limits import RequestedLimits
from ik_service.solver.given.targets import Target
from ik_service.solver.rows.binding import HAVE_TO_BE_MET, RowKind
from objectives.tasks.frame_objective import OFFSET

ANSWERS_AT_ONCE = 256
"""Answers that are derived together."""
PRESSED = 1e-6
"""How far beyond a limit the minimum without it is [m or rad], from which on the limit presses."""
MET = 1e-7
"""Errors [m or rad, by what the DOFs do to a row] up to which rows are met: float32 targets are no more exact."""
AT_KINK, KINK = 1e-6, 1e-3
"""Distance from a kink [m or rad] at which an answer is at it, and share of a weight by which the slope changes."""
SLOPE_TURNS = 1e-4
"""Second derivatives of a sum of rows, each by its length, from which on its slope does not stay zero."""
AT_LIMITS = (DofState.AT_LOWER, DofState.AT_UPPER)
NEWTON_STEPS = 10
NEWTON_LONGEST, NEWTON_SETTLED = 0.5, 1e-9
"""Steps of Newton's method from an answer to its minimum: the longest of an answer at one, and where it is reached."""


def linearise(
    rows: HostRows,  # the rows of the solver
    targets: Sequence[Target],
    given: Batch,  # their values
    joint_q: NDArray[np.floating],  # the answers, shape [n, joint_coord_count]
    islands: AnswerIslands,
    # enabled constraints of the robot, shape [1 or n, constraints]; None for all
    enabled: NDArray[np.bool_] | None,
    further: Further = NOTHING_FURTHER,  # further requested inputs; all answers are then derived row by row
    limits: RequestedLimits | None = None,  # limits of the solve; None for the robot's
) -> Linearisation:
    """Return the derivatives of answers by their targets, and by further requested inputs."""
    data = rows.data(targets, given, enabled)
    # the given numbers of the position and the rotation vector of each target
    parts = zip(given.positions, given.orientations_xyzw, strict=True)
    axes = [np.flatnonzero(np.repeat([part is not None for part in pair], 3)) for pair in parts]
    tools = [own if OFFSET in data[k] else own[:0] for k, own in enumerate(axes)]
    axes += tools if any(OFFSET in own for own in data[: len(targets)]) else []
    answers = np.asarray(joint_q, np.float64)
    if further:
        poses = len(targets), len(axes) - len(targets)
        found = Linearisation.nothing(rows.robot, rows.order, answers, *poses, further)
        is_done = np.zeros(len(answers), dtype=bool)
    else:
        is_done, found = linearise_met(rows, targets, data, answers, islands, limits)
    left = np.flatnonzero(~is_done)
    for first in range(0, len(left), ANSWERS_AT_ONCE):
        part = left[first : first + ANSWERS_AT_ONCE]
        given_to = partial(_of_part, rows, len(targets), axes, further)
        within = None if limits is None else limits.part(part)
        of_part, unmet = given_to([lines_of(one, part) for one in data], answers[part], islands.part(part), within)
        found.put(part, of_part)
        again = part[unmet.any(axis=1)]
        if len(again):  # within their tolerances, but out of reach: their cost is minimised
            own = islands.part(again)
            own = own._replace(success=own.success & ~unmet[unmet.any(axis=1)])
            within = None if limits is None else limits.part(again)
            found.put(again, given_to([lines_of(one, again) for one in data], answers[again], own, within)[0])
    return found


def _of_part(
    rows: HostRows,
    targets: int,
    axes: Sequence[NDArray[np.intp]],
    further: Further,
    data: Sequence[Data],
    joint_q: Float64Array,
    islands: AnswerIslands,
    within: RequestedLimits | None,
) -> tuple[Linearisation, NDArray[np.bool_]]:
    """Return the derivatives of some answers by poses of all targets, tool frames, fields and limits, in this order."""
    # Also returns the islands with targets counted as met but out of reach, shape [n, trees]
    robot, n, poses = rows.robot, len(joint_q), len(axes)
    answers, is_mixed = _sorted(rows, data, joint_q, islands, within)
    answers, held, settled = _at_minimum(answers, islands)
    motion = body_motion(robot, answers.joint_q)
    values, weights = rows.values(motion, answers.data), answers.weights
    unmet = _unmet(answers, values, islands)
    is_same = (_sorted(rows, data, answers.joint_q, islands, within)[0].is_hard == answers.is_hard).all(axis=1)
    is_differentiable = settled & ~is_mixed & is_same & ~unmet.any(axis=1) & ~_at_kinks(answers, values, held)
    bend = answers.bend(answers.factors(values))
    nothing = np.zeros((n, values.rows.shape[1] + robot.active_dof_count, 0))
    moved = [(k, own) for k, own in enumerate(axes) if own.size]
    by_poses = (answers.by_pose(k % targets, own, motion, of_tool=k >= targets) for k, own in moved)
    by_fields = (answers.by_field(block, name, motion) for block, name in further.fields)
    changes = np.concatenate([nothing, *by_poses, *by_fields], axis=-1)
    by_rows, by_slope = np.split(changes, [values.rows.shape[1]], axis=1)
    numbers, limits = poses * TWIST, poses * TWIST + sum(further.columns)  # first columns
    dofs, rank = robot.active_dof_count, np.zeros(n, np.int32)
    found = np.zeros((n, dofs, limits + (dofs if further.limits else 0)))
    places = np.concatenate([np.zeros(0, np.intp), *(TWIST * k + own for k, own in enumerate(axes))])
    is_pressed = held.is_pressed.copy()
    for p in np.flatnonzero(is_differentiable).tolist():
        free = held.state[p] == DofState.FREE
        for own in islands.of(p, answers.is_hard[p], answers.is_soft[p], rows.dof_tree):
            minimum = own.minimum(values.jacobian[p], weights[p], bend[p], free)
            met = minimum.met
            by_own = by_rows[p, own.hard], by_rows[p, own.soft], by_slope[p, own.dofs]
            shift = minimum.shift(*(one[:, : len(places)] for one in by_own))
            found[p][np.ix_(own.dofs, places)] = shift.change
            if further.columns:  # separately: derivatives by targets keep the same bytes with and without fields
                found[p, own.dofs, numbers:limits] = minimum.shift(*(one[:, len(places) :] for one in by_own)).change
            if further.limits:
                at_limit, change = minimum.by_limits(np.isin(held.state[p, own.dofs], AT_LIMITS))
                found[p][np.ix_(own.dofs, limits + own.dofs[at_limit])] = change
            rank[p] += met.rank
            is_differentiable[p] &= shift.is_clear and not _is_singular(
                answers.part(p), values.jacobian[p], own, met, free
            )
            leaves = (np.abs(met.idle.T @ minimum.hard) > SINGULAR).any(axis=0)  # rows press on the limit
            is_pressed[p, own.dofs] &= ~leaves | held.is_shut[p, own.dofs]
    found[~is_differentiable], rank[~is_differentiable] = 0.0, 0
    found = rows.columns @ found
    by_pose = found[:, :, :numbers].reshape(n, robot.joint_dof_count, poses, TWIST)
    by_limits = np.zeros((n, robot.joint_dof_count, robot.joint_dof_count if further.limits else 0))
    if further.limits:
        for state, owners, asked in zip(AT_LIMITS, rows.limit_owners(), rows.is_narrower(within), strict=True):
            holds = found[:, :, limits:] * (held.state == state)[:, None]
            by_limits[:, :, owners.dof] += holds * np.where(asked, 0.0, owners.rate)[:, None]
            by_limits[:, :, robot.active_dof] += holds * asked[:, None]
    by = By(by_pose[:, :, :targets], by_pose[:, :, targets:], found[:, :, numbers:limits], by_limits)
    of_dofs = is_differentiable, held.state, is_pressed
    return Linearisation.of(robot, rows.order, answers.joint_q, by, further.columns, *of_dofs, rank), unmet


def _unmet(answers: Answers, values: RowValues, islands: AnswerIslands) -> NDArray[np.bool_]:
    """Return the islands with hard target rows not met, shape [n, trees]."""
    length = np.maximum(np.linalg.norm(values.jacobian, axis=2), answers.weights)
    is_off = answers.is_hard & (answers.rows.kind == RowKind.TARGET) & (np.abs(values.rows) > MET * length)
    each = np.arange(islands.success.shape[1])
    return np.asarray((is_off[:, :, None] & (islands.row[:, :, None] == each)).any(axis=1))


def _at_kinks(answers: Answers, values: RowValues, held: "_Held") -> NDArray[np.bool_]:
    """Return the answers with a kink of a row within reach of a free direction, shape [n]."""
    n, kinked, free = len(answers.joint_q), answers.rows.has_kinks, held.state == DofState.FREE
    found = np.zeros(n, dtype=bool)
    if not kinked.any():
        return found
    steps, each = AT_KINK * np.eye(free.shape[1]), max(LINES_AT_ONCE // n, 1)
    least, here = KINK * answers.weights[:, kinked, None], values.jacobian[:, kinked]
    counts = (answers.is_soft | answers.is_hard)[:, kinked, None] & free[:, None]
    for ways in (steps, -steps):
        for tangents in (ways[first : first + each] for first in range(0, len(ways), each)):
            moved = answers.moved(tangents).jacobian[:, kinked].reshape(len(tangents), *here.shape)
            found |= ((np.abs(moved - here) > least) & counts).any(axis=(0, 2, 3))
    return found


def _is_singular(
    answer: Answers, jacobian: Float64Array, own: IslandRows, met: MetRows, free: NDArray[np.bool_]
) -> bool:
    """Return whether met rows are dependent at an answer, but independent next to the answer."""
    # For a sum of rows constant in all directions, second derivatives show whether the sum changes after a step that
    # keeps loops closed
    if not (met.idle.shape[1] and met.still.shape[1]):
        return False
    own_free = own.dofs[free[own.dofs]]
    closed = own.hard[answer.rows.kind[own.hard] == RowKind.CONSTRAINT]
    ways = MetRows.of(jacobian[np.ix_(closed, own_free)], answer.weights[0, closed]).still
    for idle in met.idle.T:
        factors = np.zeros_like(answer.multipliers)
        factors[0, own.hard] = idle
        bend = answer.bend(factors)[0][np.ix_(own_free, own_free)]
        if np.abs(ways.T @ bend @ met.still).max() > SLOPE_TURNS:
            return True
    return False


def _sorted(
    rows: HostRows, data: Sequence[Data], joint_q: Float64Array, islands: AnswerIslands, limits: RequestedLimits | None
) -> tuple[Answers, NDArray[np.bool_]]:
    """Sort rows into met rows and rows with a cost, island by island."""
    # Targets count as met unless rows of priority 0 act against them. If not met, and with lower-priority rows,
    # there are two costs, one before the other: the second result marks such answers, [n].
    values = rows.values(body_motion(rows.robot, joint_q), data)
    on = (rows.weights(data, len(joint_q)) > 0.0) & (islands.row >= 0)
    acts = (values.rows != 0.0) | values.jacobian.any(axis=2)  # inactive joint-limit rows do not act
    against, is_target = (
        on & acts & ~np.isin(rows.kind, HAVE_TO_BE_MET) & ~rows.yields,
        on & (rows.kind == RowKind.TARGET),
    )
    is_hard, is_mixed = on & (rows.kind == RowKind.CONSTRAINT), np.zeros(len(joint_q), dtype=bool)
    for island in range(int(islands.number.max(initial=0))):
        own = islands.row == island
        holds = islands.success[:, island] & ~(against & own).any(axis=1)
        is_hard |= is_target & own & holds[:, None]
        has_target, yields = (is_target & own).any(axis=1), (on & rows.yields & own).any(axis=1)
        is_mixed |= has_target & ~holds & yields
    return Answers(rows, joint_q, data, is_hard, on & ~is_hard, np.zeros(on.shape), limits), is_mixed


class _Held(NamedTuple):
    """Active limits of the active DOFs of answers, shape [n, active DOFs] each."""

    state: NDArray[np.int8]  # `DofState`
    is_pressed: NDArray[np.bool_]  # whether a DOF presses against its active limit, or cannot leave
    is_shut: NDArray[np.bool_]  # whether lower and upper limit are equal
    way: Float64Array  # distance to this limit [m or rad], 0 for others


def _at_minimum(answers: Answers, islands: AnswerIslands) -> tuple[Answers, _Held, NDArray[np.bool_]]:
    """Go to minima by Newton's method; return the answers there, their active limits, and whether each settled."""
    rows, robot, weights = answers.rows, answers.rows.robot, answers.weights
    n = len(answers.joint_q)
    last, alive = np.full(n, np.inf), np.ones(n, dtype=bool)
    for _ in range(NEWTON_STEPS):
        values = rows.values(body_motion(robot, answers.joint_q), answers.data)
        answers, held = _with_limits(answers, values)
        factors = answers.factors(values)
        bend, step, goes_on = answers.bend(factors), held.way.copy(), alive & (last > NEWTON_SETTLED)
        for p in np.flatnonzero(goes_on).tolist():
            last[p], free = np.abs(held.way[p]).max(initial=0.0), held.state[p] == DofState.FREE
            for own in islands.of(p, answers.is_hard[p], answers.is_soft[p], rows.dof_tree):
                minimum, residual = own.minimum(values.jacobian[p], weights[p], bend[p], free), values.rows[p]
                by_multipliers = minimum.hard.T @ factors[p, own.hard, None]
                shift = minimum.shift(residual[own.hard, None], residual[own.soft, None], by_multipliers)
                step[p, own.dofs] += shift.change[:, 0]
                last[p] = max(last[p], np.abs(shift.change).max(initial=0.0) if shift.is_least else np.inf)
        alive &= last <= NEWTON_LONGEST
        goes_on &= alive  # settled answers stay, as in a batch of one
        joint_q = np.where(goes_on[:, None], rows.moved(answers.joint_q, step, answers.limits), answers.joint_q)
        answers = replace(answers, joint_q=joint_q)
        if not (alive & (last > NEWTON_SETTLED)).any():
            break
    values = rows.values(body_motion(robot, answers.joint_q), answers.data)
    answers, held = _with_limits(answers, values, rests=True)
    return answers, held, alive & (last <= NEWTON_SETTLED)


def _with_limits(answers: Answers, values: RowValues, *, rests: bool = False) -> tuple[Answers, _Held]:
    """Find the active limits of the DOFs, and the Lagrange multipliers of the hard rows."""
    # With `rests` answers have settled: DOFs free to leave a limit, but still there, are at the limit
    soft = np.where(answers.is_soft[..., None], values.jacobian, 0.0)
    gradient = applied(soft.swapaxes(1, 2), values.rows)
    at_lower, at_upper, way = answers.rows.beside_limits(answers.joint_q, answers.limits)
    counted = (answers.is_hard | answers.is_soft)[..., None] & (values.jacobian != 0.0)
    touched, weights = counted.any(axis=1), answers.weights
    found = np.zeros(answers.is_hard.shape)
    for p in np.flatnonzero(answers.is_soft.any(axis=1)).tolist():  # without cost the multipliers are zero
        hard, free = answers.is_hard[p], touched[p] & ~(at_lower[p] | at_upper[p])
        own = values.jacobian[p, hard][:, free]
        length = row_lengths(own, weights[p, hard])
        found[p, hard] = np.linalg.pinv((own / length[:, None]).T, rcond=SINGULAR) @ -gradient[p, free] / length
    answers = replace(answers, multipliers=found)
    slope = gradient + applied(values.jacobian.swapaxes(1, 2), np.where(answers.is_soft, 0.0, found))
    least = PRESSED * (soft * soft).sum(axis=1).max(axis=1, initial=0.0)[:, None]
    leaves, is_shut = np.where(at_lower, slope < -least, slope > least), at_lower & at_upper
    held = (at_lower | at_upper) & (~leaves | is_shut | rests)
    state = np.where(held, np.where(at_lower, DofState.AT_LOWER, DofState.AT_UPPER), DofState.FREE)
    state = np.where(touched, state, DofState.FIXED).astype(np.int8)
    is_pressed = held & ((np.abs(slope) > least) & ~leaves | is_shut)
    return answers, _Held(state, is_pressed, is_shut, np.where(held & touched, way, 0.0))
