"""Values of solved candidates by each criterion, and the order in which candidates stay in the race."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.mechanism.transforms import Float64Array
from ik_service.mechanism.trees import joints_to
from ik_service.robots import RobotModel
from ik_service.solver.candidates import Criterion
from ik_service.solver.given.batch import Batch
from ik_service.solver.given.requested_limits import RequestedLimits
from ik_service.solver.given.targets import Target
from ik_service.solver.lm.status import IKStatus
from ik_service.solver.result import IKResult, manipulability_of

FAR_FROM_BEST = 1.35  # times the best value: a worse first answer is assumed to stay worse
BEFORE_OTHERS = 1e3  # difference of places: no value or cost is as large
UNSOLVED_STAGES = 2  # stages after which candidates without an answer leave the race

Rows = NDArray[np.intp]


@dataclass(frozen=True)
class CandidateValues:
    """The values of one criterion; lower is better."""

    robot: RobotModel
    targets: tuple[Target, ...]
    batch: Batch
    criterion: Criterion

    @property
    def are_positive(self) -> bool:
        """Return whether no value is below 0, so that the cost of a candidate bounds its value."""
        return self.criterion in ("first", "nearest")

    @property
    def narrows_limits(self) -> bool:
        """Return whether a better answer has its joints in narrower limits."""
        return self.criterion in ("nearest", "limit_margin")

    def narrowed(self, rows: Rows, most: Float64Array) -> tuple[Rows, Batch]:
        """Return the candidates with room for values below `most` [n], and their problems within this room."""
        limits = limits_of(self.robot, self.batch.limits, rows)
        start = self.starts(rows)
        if self.criterion == "nearest":
            limits, is_open = limits_near(self.robot, limits, start, most)
            rows = rows[is_open]
            return rows, self.batch.part(rows)._replace(limits=limits)
        limits, is_open = limits_inside(limits, self._moving, -most)
        rows, columns = rows[is_open], self.robot.dof_coordinate[self.robot.active_dof[self._moving]]
        middle = start[is_open].astype(np.float64)
        middle[:, columns] = self.robot.mid_joint_q[columns]
        return rows, self.batch.part(rows)._replace(start=middle, limits=limits)

    @cached_property
    def _moving(self) -> NDArray[np.bool_]:
        """Mask of the active DOFs with a coordinate on the way to a target; all of these without targets."""
        robot = self.robot
        links = {link for target in self.targets for link in (target.link, target.reference_link) if link is not None}
        dofs = np.zeros(robot.joint_dof_count, bool)
        for link in links:
            for joint in joints_to(robot, robot.link_frame(link)[0]):
                dofs[robot.joint_qd_start[joint] : robot.joint_qd_start[joint + 1]] = True
        found = np.zeros(robot.active_dof_count, bool)
        active = robot.dof_active[dofs] if links else np.arange(robot.active_dof_count)
        found[active[active >= 0]] = True
        return np.asarray(found & (robot.dof_coordinate[robot.active_dof] >= 0))

    def starts(self, rows: Rows) -> NDArray[Any]:
        """Return the starts of candidates, [n, coordinates]: as given, or the middle of the ranges."""
        start = self.robot.mid_joint_q if self.batch.start is None else self.batch.start
        return np.broadcast_to(start, (len(rows), start.shape[-1])) if start.ndim == 1 else start[rows]

    def of(self, rows: Rows, result: IKResult, wanted: NDArray[np.bool_]) -> tuple[NDArray[Any], Float64Array]:
        """Return configurations [n, coordinates] and values [n]: of several solutions the best; without cost.

        Values of lines not `wanted` may be infinite.
        """
        joint_q = result.joint_q[:, None] if result.solutions is None else result.solutions
        if self.criterion == "first":
            value = np.zeros(joint_q.shape[:2])
        elif self.criterion == "nearest":
            value = largest_change(self.robot, self.starts(rows)[:, None], joint_q)
        elif self.criterion == "clearance":
            assert result.clearance is not None  # the criterion has been checked
            value = -result.clearance[:, None]
        elif self.criterion == "limit_margin":
            value = -self._limit_margins(rows, joint_q)
        else:
            lines, place = np.nonzero(np.isfinite(joint_q).all(axis=2) & wanted[:, None])
            value = np.full(joint_q.shape[:2], np.inf)
            value[lines, place] = -manipulability_of(result, self.targets, joint_q[lines, place], lines, rows[lines])
        value = np.where(np.isnan(value), np.inf, value)
        lines, best = np.arange(len(rows)), value.argmin(axis=1)
        return joint_q[lines, best], value[lines, best]

    def places(
        self, result: IKResult, value: Float64Array, best: Float64Array, cost: Float64Array, stage: int
    ) -> Float64Array:
        """Return the order in which candidates stay in the race, [n]; -infinity to stay in any case, infinity to go.

        Args:
            result: Answers of the stage.
            value: Values with cost, infinity without success.
            best: The best value of each candidate's group.
            cost: Costs of the candidates.
            stage: Index of the stage.
        """
        blocked = result.status == IKStatus.BLOCKED_BY_COLLISION
        if self.criterion == "nearest" and stage == 0:
            return np.where(result.success & (value > FAR_FROM_BEST * best), value, -np.inf)
        if self.narrows_limits and stage > 0:  # answers by value, then blocked ones, then by how nearly targets are met
            met = result.success | blocked
            off = np.nan_to_num(result.cost, nan=np.inf) - BEFORE_OTHERS * blocked
            off = np.where(result.success, value - BEFORE_OTHERS**2, off)
            return np.where(met & (stage < UNSOLVED_STAGES), -np.inf, off)
        place = np.where(result.success, value, -np.inf if stage < UNSOLVED_STAGES else np.inf)
        if self.criterion == "clearance" and result.clearance is not None:
            place = np.where(blocked, cost - result.clearance, place)
        return place

    def _limit_margins(self, rows: Rows, joint_q: NDArray[Any]) -> Float64Array:
        """Return least distances of moving joints from their limits [rad or m], [n, solutions]; 0 without limits."""
        limits = limits_of(self.robot, self.batch.limits, rows)
        columns = self.robot.dof_coordinate[self.robot.active_dof]
        q = joint_q[..., np.maximum(columns, 0)].astype(np.float64)
        room = np.minimum(q - limits.lower[:, None], limits.upper[:, None] - q)
        counts = self._moving & (limits.lower < limits.upper)[:, None]
        least = np.where(counts, room, np.inf).min(axis=-1, initial=np.inf)
        return np.asarray(np.where(np.isposinf(least), 0.0, least))


def largest_change(robot: RobotModel, start: NDArray[Any], joint_q: NDArray[Any]) -> Float64Array:
    """Return the largest change of a joint [m or rad], whole turns counted, of configurations [..., coordinates]."""
    columns = robot.dof_coordinate[robot.dof_active >= 0]  # mimic joints, too
    columns = columns[columns >= 0]
    found = np.abs(joint_q[..., columns].astype(np.float64) - start[..., columns]).max(axis=-1, initial=0.0)
    for first in robot.quaternion_starts.values():
        own = slice(first, first + 4)
        dot = np.abs((joint_q[..., own].astype(np.float64) * start[..., own]).sum(axis=-1))
        found = np.maximum(found, 2.0 * np.arccos(np.minimum(dot, 1.0)))
    return np.asarray(found)


def limits_of(robot: RobotModel, limits: RequestedLimits | None, rows: Rows) -> RequestedLimits:
    """Return the limits of some candidates; `limits` are those of all candidates, None for the robot's."""
    if limits is not None:
        return limits.part(rows)
    frozen = np.zeros((1, robot.active_dof_count), bool)
    return RequestedLimits(robot.active_limit_lower[None], robot.active_limit_upper[None], frozen)


def limits_near(
    robot: RobotModel, limits: RequestedLimits, start: NDArray[Any], most: Float64Array
) -> tuple[RequestedLimits, NDArray[np.bool_]]:
    """Return limits within changes `most` [n] of starts [n, coordinates], and the mask of lines with room between.

    The limits returned are of the lines with room alone.
    """
    columns = robot.dof_coordinate[robot.active_dof]
    start = start[:, np.maximum(columns, 0)].astype(np.float64)
    factor = np.ones(robot.active_dof_count)  # mimic joints may move further than their leaders
    own = robot.dof_active >= 0
    np.maximum.at(factor, robot.dof_active[own], np.abs(robot.dof_multiplier[own]))
    change = np.where(columns >= 0, most[:, None] / factor, np.inf)  # rotations have no limits
    return _with_room(limits, np.maximum(limits.lower, start - change), np.minimum(limits.upper, start + change))


def limits_inside(
    limits: RequestedLimits, moving: NDArray[np.bool_], least: Float64Array
) -> tuple[RequestedLimits, NDArray[np.bool_]]:
    """Return limits at least `least` [n] inside the limits of moving joints, and the mask of lines with room."""
    inside = np.where(moving & (limits.lower < limits.upper), np.maximum(least, 0.0)[:, None], 0.0)
    return _with_room(limits, limits.lower + inside, limits.upper - inside)


def _with_room(
    limits: RequestedLimits, lower: Float64Array, upper: Float64Array
) -> tuple[RequestedLimits, NDArray[np.bool_]]:
    is_open: NDArray[np.bool_] = np.asarray((lower <= upper).all(axis=1))
    frozen = np.broadcast_to(limits.frozen, lower.shape)[is_open]
    return RequestedLimits(lower[is_open], upper[is_open], frozen), is_open
