"""Rows of a solver and their data, in float64 on the host, with their derivatives by the active DOFs."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ik_service.errors import EngineError
from ik_service.kinematics.bound_rows import NO_RATES, BoundRows, Data, RowValues
from ik_service.kinematics.host_tangent import BodyMotion, body_rate
from ik_service.mechanism.caller_order import CallerOrder
from ik_service.mechanism.coupling import coupling_matrix, mapped_limits
from ik_service.mechanism.transforms import Float64Array
from ik_service.robots import RobotModel
from ik_service.solver.derivatives.linearisation import Further
from ik_service.solver.given.batch import Batch
from ik_service.solver.given.requested_limits import RequestedLimits
from ik_service.solver.given.targets import Target
from ik_service.solver.rows.binding import HAVE_TO_BE_MET, is_constraint, is_robot_constraint
from ik_service.solver.rows.blocks import Rows
from objectives.errors import InputError, UnknownNameError
from objectives.expression.expression_objective import ExpressionObjective
from objectives.expression.rows import ROW_WEIGHTS
from objectives.tasks.frame_objective import OFFSET
from objectives.tasks.pose import ORIENTATION, POSITION

AT_LIMIT = 1e-6
"""Distance from a limit at which a DOF counts as at it [m or rad]: float32 answers are no nearer."""


class LimitDistances(NamedTuple):
    """Distances of active DOFs from their limits, shape [n, active DOFs] each."""

    at_lower: NDArray[np.bool_]  # at the lower one
    at_upper: NDArray[np.bool_]  # at the upper one
    way: Float64Array  # distance to the active limit of a DOF [m or rad], 0 for others


class LimitOwners(NamedTuple):
    """DOFs whose limits bound the active DOFs at one end, shape [active DOFs] each."""

    dof: NDArray[np.int32]  # the DOF of the robot
    rate: Float64Array  # d active DOF / d limit


class HostRows:
    """The rows of a solver on the host.

    Raises EngineError if an objective does not state its rows, or a joint that closes a loop has limits.
    """

    def __init__(self, robot: RobotModel, rows: Rows, *, hard_limits: bool) -> None:
        self.robot, self.columns, self.hard_limits = robot, coupling_matrix(robot), hard_limits
        self.order = CallerOrder(robot, None)
        self.objectives = list[ExpressionObjective]()
        self._blocks = list[BoundRows]()
        for objective, size in zip(rows.objectives, rows.sizes, strict=True):
            if not isinstance(objective, ExpressionObjective):
                raise EngineError(f"{type(objective).__name__} does not state its rows: answers have no derivatives.")
            tables = tuple(objective.element_tables(rows.model))
            if is_constraint(objective) and any(table.group.shifts for table in tables):
                raise EngineError("Answers have no derivatives where joints that close loops have limits.")
            self.objectives.append(objective)
            self._blocks.append(BoundRows(tables, size, objective.weight))
        self.kind, self.yields = rows.row_kind, rows.row_secondary
        smooth = [
            kind in HAVE_TO_BE_MET or not block.has_kinks for kind, block in zip(rows.kinds, self._blocks, strict=True)
        ]
        self.has_kinks = np.repeat(~np.array(smooth, dtype=bool), rows.sizes)
        self.factor = np.repeat([block.weight for block in self._blocks], rows.sizes)
        self.dof_tree = self.robot.trees.active_treeid

    def data(
        self, targets: Sequence[Target], given: Batch, enabled: NDArray[np.bool_] | None
    ) -> list[dict[str, Float64Array]]:
        """Return the numbers of all fields; targets as given by the caller, not rounded."""
        # `enabled`: enabled constraints of the robot, [1 or n, constraints]; None for all
        found, constraints = list[dict[str, Float64Array]](), 0
        for k, objective in enumerate(self.objectives):
            own = {
                name: objective.data(name).numpy()[:lines].astype(np.float64)
                for name, lines in objective.data_rows().items()
            }
            if k < len(targets):
                own |= _of_target(targets[k], given.positions[k], given.orientations_xyzw[k], self.robot.length_unit)
            elif is_robot_constraint(objective):
                on = np.ones((1, 1)) if enabled is None else enabled[:, constraints, None].astype(np.float64)
                own[ROW_WEIGHTS] = np.repeat(on, objective.residual_dim(), axis=1)
                constraints += 1
            found.append({name: lines[: given.problem_count] for name, lines in own.items()})
        return found

    def further(self, wanted: Sequence[tuple[object, str]], *, limits: bool) -> Further:
        """Return the fields of objectives, and the choice of limits, by which answers are derived beside targets."""
        # Raises InputError for no pairs or an objective of another solver, UnknownNameError for an unknown field
        places, columns = list[tuple[int, str]](), list[int]()
        try:
            pairs = [(objective, name) for objective, name in wanted]
        except (TypeError, ValueError):
            raise InputError(f"data is {wanted!r}. Allowed: pairs of an objective and the name of a field.") from None
        for objective, name in pairs:
            place = next((k for k, own in enumerate(self.objectives) if own is objective), None)
            if place is None:
                raise InputError(f"{type(objective).__name__} is no objective of this solver.")
            known = self.objectives[place].data_rows()
            if name not in known:
                raise UnknownNameError(f"{type(objective).__name__} has no field '{name}'. Fields: {', '.join(known)}.")
            places.append((place, name))
            columns.append(int(self.objectives[place].data(name).shape[-1]))
        return Further(tuple(places), tuple(columns), limits)

    def limit_owners(self) -> tuple["LimitOwners", "LimitOwners"]:
        """Return the owner of each active DOF's lower and upper limit: the DOF itself, or one of its followers."""
        robot = self.robot
        found = [LimitOwners(robot.active_dof.copy(), np.ones(robot.active_dof_count)) for _ in range(2)]
        nearest = [robot.joint_limit_lower[robot.active_dof].copy(), -robot.joint_limit_upper[robot.active_dof]]
        for dof in robot.follower_dofs[robot.dof_active[robot.follower_dofs] >= 0]:
            multiplier, leader = float(robot.dof_multiplier[dof]), int(robot.dof_active[dof])
            if multiplier == 0.0:
                continue
            bounds = mapped_limits(robot, int(dof), robot.joint_limit_lower[dof], robot.joint_limit_upper[dof])
            for own, least, bound in zip(found, nearest, (bounds[0], -bounds[1]), strict=True):
                if bound > least[leader]:
                    least[leader], own.dof[leader], own.rate[leader] = bound, dof, 1.0 / multiplier
        return found[0], found[1]

    def is_narrower(self, limits: RequestedLimits | None) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return the limits of a solve, lower and upper, narrower than the robot's, [1 or n, active DOFs]."""
        robot = self.robot
        lower, upper = self.kept_limits(limits)
        return np.atleast_2d(lower > robot.active_limit_lower), np.atleast_2d(upper < robot.active_limit_upper)

    def weights(self, data: Sequence[Data], n: int) -> Float64Array:
        """Return the weights of all rows, shape [n, rows]."""
        return np.concatenate([np.broadcast_to(own[ROW_WEIGHTS], (n, own[ROW_WEIGHTS].shape[1])) for own in data], 1)

    def beside_limits(self, joint_q: Float64Array, limits: RequestedLimits | None) -> LimitDistances:
        """Return the active DOFs at limits kept by answers: limits of their solve, or the robot's."""
        coordinate = self.robot.dof_coordinate[self.robot.active_dof]
        place = np.where(coordinate >= 0, joint_q[:, np.maximum(coordinate, 0)], np.nan)
        lower, upper = self.kept_limits(limits)
        at_lower, at_upper = place <= lower + AT_LIMIT, place >= upper - AT_LIMIT
        return LimitDistances(
            at_lower, at_upper, np.where(at_lower, lower - place, np.where(at_upper, upper - place, 0.0))
        )

    def moved(self, joint_q: Float64Array, step: Float64Array, limits: RequestedLimits | None) -> Float64Array:
        """Move configurations by steps of the active DOFs, within the limits kept by answers."""
        robot = self.robot
        joint_q = robot.integrate(joint_q, step @ self.columns.T)
        if limits is not None:
            coordinate = robot.dof_coordinate[robot.active_dof]
            own = coordinate >= 0
            joint_q[:, coordinate[own]] = np.clip(
                joint_q[:, coordinate[own]], limits.lower[:, own], limits.upper[:, own]
            )
        return robot.clamp_joint_q(joint_q) if self.hard_limits else joint_q

    def kept_limits(self, limits: RequestedLimits | None) -> tuple[Float64Array, Float64Array]:
        """Return lower and upper limits kept by answers, [active DOFs] or [1 or n, active DOFs]; infinite for none."""
        robot = self.robot
        if not self.hard_limits:
            return np.full(robot.active_dof_count, -np.inf), np.full(robot.active_dof_count, np.inf)
        return (robot.active_limit_lower, robot.active_limit_upper) if limits is None else (limits.lower, limits.upper)

    def values(self, motion: BodyMotion, data: Sequence[Data]) -> RowValues:
        """Evaluate all rows, with their derivatives by the active DOFs."""
        return self._joined([block.values(motion, own) for block, own in zip(self._blocks, data, strict=True)])

    def rates(
        self,
        motion: BodyMotion,
        data: Sequence[Data],
        change: Float64Array,  # velocities of the active DOFs, shape [n, active DOFs]
        data_rates: Mapping[int, Data] = MappingProxyType({}),  # rates of the fields of some blocks, by number
    ) -> RowValues:
        """Evaluate the rates of all rows and of their derivatives, in a motion of the robot and of data."""
        along = body_rate(self.robot, motion, change @ self.columns.T)
        blocks = enumerate(zip(self._blocks, data, strict=True))
        return self._joined([one.rates(motion, own, along, data_rates.get(k, NO_RATES)) for k, (one, own) in blocks])

    def _joined(self, found: Sequence[RowValues]) -> RowValues:
        rows, jacobian = (np.concatenate(parts, axis=1) for parts in zip(*found, strict=True))
        return RowValues(rows, jacobian @ self.columns)


def _of_target(
    target: Target, position: NDArray[np.floating] | None, orientation: NDArray[np.floating] | None, length_unit: float
) -> Data:
    on = np.repeat([position is not None, orientation is not None], 3)
    found = {ROW_WEIGHTS: np.atleast_2d(target.weights_in_metres(length_unit)) * on}
    if position is not None:
        found[POSITION] = np.asarray(position, np.float64)
    if orientation is not None:
        found[ORIENTATION] = np.asarray(orientation, np.float64)
    if target.offset is not None:
        found[OFFSET] = np.atleast_2d(np.asarray(target.offset, np.float64))
    return found
