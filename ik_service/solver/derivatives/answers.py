"""Answers: their rows evaluated nearby, islands, checks of their origin; the minimum at an answer, and its motion.

With hard rows h = 0, soft rows of cost 1/2 |s|^2, Lagrange multipliers y of h and the free DOFs F (no active limit):

    [ L_FF  A_F' ] [ dq_F ]      [ g_p ]
    [ A_F   0    ] [ dy   ]  = - [ h_p ] dp          L = s's + sum s_i s_i'' + sum y_i h_i'',  A = h',  g = s' s + A' y

In a null space, as of a redundant arm, dq is the shortest solution.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ik_service.constraints.linear_algebra import applied
from ik_service.errors import EngineError
from ik_service.kinematics.bound_rows import Data, RowValues, lines_of, quaternion_rate
from ik_service.kinematics.host_tangent import BodyMotion, body_motion
from ik_service.mechanism.transforms import Float64Array
from ik_service.solver.derivatives.host_rows import HostRows
from ik_service.solver.derivatives.linearisation import TWIST
from ik_service.solver.given.batch import Batch
from ik_service.solver.given.requested_limits import RequestedLimits
from ik_service.solver.given.targets import Target
from ik_service.solver.result import IKResult, ResultHead
from objectives.errors import InputError
from objectives.tasks.frame_objective import OFFSET
from objectives.tasks.pose import ORIENTATION, POSITION

SINGULAR = 1e-6
"""Share of the largest singular value of normalised rows below which a singular value counts as zero.

Nearer to a singular configuration the rounding of the configuration changes derivatives by more than 1e-3.
"""
CURVATURE_SHARE, BEND_SHARE = 1e-12, 1e-9
"""Shares below which a curvature in the null space of the hard rows counts as zero: of the largest curvature from the
slopes of the soft rows, and from second derivatives, whose terms cancel."""
SMALLEST = 1e-300


def row_lengths(rows: Float64Array, weights: Float64Array) -> Float64Array:
    """Return lengths of rows [n, DOFs], shape [n]: their weights if a length is all but zero beside these."""
    length = np.linalg.norm(rows, axis=-1)
    return np.maximum(np.where(length > SINGULAR * weights, length, weights), SMALLEST)


class MetRows(NamedTuple):
    """Freedom left to the free DOFs by the rows met."""

    rank: int  # number of independent rows, relative to their lengths
    inverse: Float64Array  # shortest change by changes of the rows, shape [free DOFs, rows]
    still: Float64Array  # null space: directions without change of a row, shape [free DOFs, directions]
    idle: Float64Array  # left null space: sums of rows without change in any direction, shape [rows, sums]

    @classmethod
    def of(cls, rows: Float64Array, weights: Float64Array) -> "MetRows":
        """Decompose rows [rows, free DOFs] of these weights."""
        length = row_lengths(rows, weights)
        left, singular, right = np.linalg.svd(rows / length[:, None])
        rank = int((singular > SINGULAR * max(singular.max(initial=0.0), 1.0)).sum())
        idle = left[:, rank:] / length[:, None]
        if rank < len(rows):  # the weights decide between dependent rows
            left, singular, right = np.linalg.svd(rows)
            length = np.ones(len(rows))
        inverse = right[:rank].T @ (left[:, :rank].T / singular[:rank, None])
        return cls(rank, inverse / length, right[rank:].T, idle)


class MinimumShift(NamedTuple):
    """Motion of a minimum with some numbers."""

    change: Float64Array  # of each active DOF with each number, shape [active DOFs, numbers]
    is_least: bool  # whether no direction lowers the cost
    is_clear: bool  # whether all soft rows are distinguishable from zero beside the others


class Minimum(NamedTuple):
    """One answer."""

    hard: Float64Array  # derivatives of the rows met, shape [hard rows, active DOFs]
    weights: Float64Array  # weights of these rows, shape [hard rows]
    soft: Float64Array  # derivatives of the rows in the cost, shape [soft rows, active DOFs]
    bend: Float64Array  # l without s's, shape [active DOFs, active DOFs]
    free: NDArray[np.bool_]  # DOFs without an active limit, shape [active DOFs]

    @property
    def met(self) -> MetRows:
        """Return the freedom left to the free DOFs by the hard rows."""
        return MetRows.of(self.hard[:, self.free], self.weights)

    def by_limits(self, held: NDArray[np.bool_]) -> tuple[NDArray[np.intp], Float64Array]:
        """Return the derivative of the configuration by the active limits; each held DOF moves with its own limit."""
        # Returns the numbers of these DOFs, and the change of each active DOF with each limit, shape [active DOFs,
        # limits]
        own = np.flatnonzero(held)
        change = self.shift(self.hard[:, own], self.soft[:, own], self.bend[:, own]).change
        change[own, np.arange(len(own))] = 1.0
        return own, change

    def shift(self, hard: Float64Array, soft: Float64Array, bend: Float64Array) -> MinimumShift:
        """Return d configuration / d numbers, from derivatives of hard and soft rows and of g by the numbers."""
        # Shapes [hard rows, numbers], [soft rows, numbers], and [active DOFs, numbers] at fixed rows and multipliers
        change = np.zeros_like(bend)
        if not self.free.any():
            return MinimumShift(change, is_least=True, is_clear=True)
        met, slopes = self.met, self.soft[:, self.free]
        meeting = met.inverse @ -hard
        bent = self.bend[np.ix_(self.free, self.free)]
        along_still = slopes @ met.still
        pull = along_still.T @ (soft + slopes @ meeting) + met.still.T @ (bend[self.free] + bent @ meeting)
        inner = along_still.T @ along_still + met.still.T @ bent @ met.still
        values, vectors = np.linalg.eigh(0.5 * (inner + inner.T))
        largest = (slopes * slopes).sum(axis=0).max(initial=0.0)
        straight = CURVATURE_SHARE * largest + BEND_SHARE * np.abs(bent).max(initial=0.0)
        is_bent = values > straight
        along = vectors[:, is_bent] @ ((vectors[:, is_bent].T @ -pull) / values[is_bent, None])
        change[self.free] = meeting + met.still @ along
        left_out = np.abs(along_still @ vectors[:, ~is_bent])
        length = np.maximum(np.linalg.norm(slopes, axis=1), SMALLEST)
        is_clear = bool((left_out <= SINGULAR * length[:, None]).all())
        return MinimumShift(change, is_least=bool((values >= -straight).all()), is_clear=is_clear)


LINES_AT_ONCE = 4096
"""Configurations that are evaluated together."""


@dataclass(frozen=True, eq=False)
class Answers:
    """Answers, with their rows sorted into met rows and rows with a cost."""

    rows: HostRows
    joint_q: Float64Array  # the answers, shape [n, joint_coord_count]
    data: Sequence[Data]  # numbers of the fields
    is_hard: NDArray[np.bool_]  # rows met (equality constraints), shape [n, rows]
    is_soft: NDArray[np.bool_]  # rows in the minimised cost, shape [n, rows]
    multipliers: Float64Array  # Lagrange multipliers of the hard rows, 0 for others, shape [n, rows]
    limits: RequestedLimits | None  # limits of their solve; None for the robot's

    @property
    def weights(self) -> Float64Array:
        """Weights of the rows, shape [n, rows]."""
        return np.asarray(self.rows.weights(self.data, len(self.joint_q)) * self.rows.factor)

    def factors(self, values: RowValues) -> Float64Array:
        """Return the factors of the rows' derivatives in the gradient of the Lagrangian, shape [n, rows]."""
        return np.where(self.is_soft, values.rows, self.multipliers)

    def part(self, p: int) -> "Answers":
        """Return one of the answers."""
        own = slice(p, p + 1)
        columns = {name: getattr(self, name)[own] for name in ("joint_q", "is_hard", "is_soft", "multipliers")}
        limits = None if self.limits is None else self.limits.part(own)
        return replace(self, data=[lines_of(one, own) for one in self.data], limits=limits, **columns)

    def _repeated_data(self, times: int) -> list[Data]:
        """Repeat the numbers of the fields, one copy of all answers after the other."""
        return [
            {name: tiled(lines, times) if len(lines) > 1 else lines for name, lines in own.items()} for own in self.data
        ]

    def moved(self, tangents: Float64Array) -> RowValues:
        """Evaluate the rows at the answers moved along each of the tangents [times, active DOFs]."""
        robot, times = self.rows.robot, len(tangents)
        change = np.repeat(tangents @ self.rows.columns.T, len(self.joint_q), axis=0)
        joint_q = robot.integrate(tiled(self.joint_q, times), change)
        return self.rows.values(body_motion(robot, joint_q), self._repeated_data(times))

    def bend(self, factors: Float64Array) -> Float64Array:
        """Sum the rows' second derivatives times factors [n, rows], shape [n, active DOFs, active DOFs]."""
        count, n = self.rows.robot.active_dof_count, len(self.joint_q)
        found, motion = np.zeros((n, count, count)), body_motion(self.rows.robot, self.joint_q)
        each = max(LINES_AT_ONCE // n, 1)
        for first in range(0, count if factors.any() else 0, each):
            axes = np.eye(count)[first : first + each]
            found[:, :, first : first + each] = self._rates(axes, motion, {}, factors)[:, self.is_hard.shape[1] :]
        return found

    def by_pose(self, target: int, axes: NDArray[np.intp], motion: BodyMotion, *, of_tool: bool) -> Float64Array:
        """Return d(rows, then gradient of the Lagrangian) / d pose, [n, rows + active DOFs, axes]."""
        # Axes 0 to 2 are of the position, 3 to 5 of the rotation vector; `of_tool` selects the tool frame
        own, ways = self.data[target], np.repeat(np.eye(TWIST)[axes], len(self.joint_q), axis=0)
        turned = own[OFFSET][:, 3:] if of_tool else own[ORIENTATION]
        turn = quaternion_rate(ways[:, 3:], tiled(np.broadcast_to(turned, (len(self.joint_q), 4)), len(axes)))
        rates = {OFFSET: np.hstack([ways[:, :3], turn])} if of_tool else {POSITION: ways[:, :3], ORIENTATION: turn}
        return self._by_data(len(axes), motion, {target: rates})

    def by_field(self, block: int, name: str, motion: BodyMotion) -> Float64Array:
        """Return derivatives as in `by_pose`, by a field of a block of rows, shape [n, rows + active DOFs, columns]."""
        # Numbers normalised together have no derivative along themselves
        values = self.data[block][name]
        ways = np.repeat(np.eye(values.shape[1]), len(self.joint_q), axis=0)
        found = self._by_data(values.shape[1], motion, {block: {name: ways}})
        for own in self.rows.objectives[block].unit_columns(name):
            along = values[:, None, own] / np.linalg.norm(values[:, None, own], axis=-1, keepdims=True)
            found[..., own] -= (found[..., own] * along).sum(axis=-1, keepdims=True) * along
        return found

    def _by_data(self, count: int, motion: BodyMotion, data_rates: Mapping[int, Data]) -> Float64Array:
        """Return derivatives of rows and gradient along `count` ways of data, shape [n, rows + DOFs, ways]."""
        still = np.zeros((count, self.rows.robot.active_dof_count))
        return self._rates(still, motion, data_rates, self.factors(self.rows.values(motion, self.data)))

    def _rates(
        self, tangents: Float64Array, motion: BodyMotion, data_rates: Mapping[int, Data], factors: Float64Array
    ) -> Float64Array:
        """Return the rates of the rows, then of their derivatives times factors, shape [n, rows + DOFs, tangents]."""
        # `data_rates` are in the order of the tangents, for all answers with each
        times, n = len(tangents), len(self.joint_q)
        many, change = BodyMotion(*(tiled(one, times) for one in motion)), np.repeat(tangents, n, axis=0)
        rows, jacobian = self.rows.rates(many, self._repeated_data(times), change, data_rates)
        both = np.concatenate([rows, applied(jacobian.swapaxes(1, 2), tiled(factors, times))], axis=1)
        return both.reshape(times, n, both.shape[1]).transpose(1, 2, 0)


def tiled(array: NDArray[Any], times: int) -> NDArray[Any]:
    """Repeat lines, one copy after the other."""
    return np.tile(array, (times, *[1] * (array.ndim - 1)))


class AnswerIslands(NamedTuple):
    """Islands of problems."""

    number: NDArray[np.integer]  # number of islands of each problem, shape [n]
    tree: NDArray[np.integer]  # island of each tree, -1 for none, shape [n, trees]
    row: NDArray[np.integer]  # island of each row, -1 for none, shape [n, rows]
    success: NDArray[np.bool_]  # whether the targets of each are met, shape [n, trees]

    @classmethod
    def of_result(cls, result: IKResult) -> "AnswerIslands":
        """Return the islands of the problems of a solve."""
        found = result.islands
        return cls(found.nisland, found.tree_island, found.row_island, found.success)

    def part(self, problems: slice | NDArray[np.intp]) -> "AnswerIslands":
        """Return the islands of some problems."""
        return AnswerIslands(self.number[problems], self.tree[problems], self.row[problems], self.success[problems])

    def of(
        self, p: int, is_hard: NDArray[np.bool_], is_soft: NDArray[np.bool_], dof_tree: NDArray[np.integer]
    ) -> Iterator["IslandRows"]:
        """Yield the rows and the active DOFs of each island of problem p."""
        for island in range(int(self.number[p])):
            own = self.row[p] == island
            dofs = np.flatnonzero(self.tree[p, dof_tree] == island)
            yield IslandRows(np.flatnonzero(is_hard & own), np.flatnonzero(is_soft & own), dofs)


class IslandRows(NamedTuple):
    """Hard rows, soft rows and active DOFs of an island."""

    hard: NDArray[np.intp]
    soft: NDArray[np.intp]
    dofs: NDArray[np.intp]

    def minimum(
        self, jacobian: Float64Array, weights: Float64Array, bend: Float64Array, free: NDArray[np.bool_]
    ) -> Minimum:
        """Return the minimum of the island, from all rows and active DOFs."""
        hard, soft = (jacobian[np.ix_(rows, self.dofs)] for rows in (self.hard, self.soft))
        return Minimum(hard, weights[self.hard], soft, bend[np.ix_(self.dofs, self.dofs)], free[self.dofs])


def check_derivable(result: IKResult, targets: Sequence[Target], given: Batch) -> None:
    """Check that answers to targets have derivatives at all."""
    # Raises EngineError for a target with a frame or tolerances of its own, InputError for another number of targets
    if any(target.frame is not None for target in targets):
        raise EngineError("Answers to targets with a frame, free axes or tolerances have no derivatives.")
    if given.problem_count != len(result):
        raise InputError(f"There are targets of {given.problem_count} problems and {len(result)} answers.")


def check_answers(
    result: IKResult,  # the answers
    head: ResultHead,  # common part of all results of the solver
    targets: Sequence[Target],
    given: Batch,  # their values
    incidence: NDArray[np.bool_],  # trees of each row of the solver, shape [rows, trees]
) -> None:
    """Check that answers come from a solver with this robot, rows, order of joints and parts of targets."""
    own, solved, is_moved = head.fields, result.islands, np.asarray(incidence.any(axis=1))
    for k, target in enumerate(targets):
        is_moved[TWIST * k : TWIST * (k + 1)] &= np.atleast_2d(target.weights()).any(axis=0)
    differing = {
        "robot": solved.robot.content_hash != head.robot.content_hash,
        "rows": solved.row_labels != head.row_labels,
        "order of joints": result.coordinate_names != own["coordinate_names"] or result.dof_names != own["dof_names"],
    }
    if any(differing.values()):
        what = " and ".join(name for name, differs in differing.items() if differs)
        raise InputError(f"The result is of another solver: its {what} differ. Give results of this solver.")
    is_on = np.asarray((solved.row_island >= 0).any(axis=0))
    for part, (name, values) in enumerate(
        {"positions": given.positions, "orientations": given.orientations_xyzw}.items()
    ):
        for k, value in enumerate(values):
            rows = slice(6 * k + 3 * part, 6 * k + 3 * part + 3)
            was_given, can_be = bool(is_on[rows].any()), bool(is_moved[rows].any())
            if value is None and was_given:
                raise InputError(f"Target {k} was solved for with {name}, which are not given. Give them.")
            if value is not None and can_be and not was_given:
                raise InputError(f"Target {k} is given with {name}, without which it was solved for. Leave them out.")
