"""Objectives for joints: inside limits, in the middle of limits, and near a reference configuration."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from objectives.data_field import DataField
from objectives.expression import Scalar, maximum
from objectives.expression.element_table import Element
from objectives.expression.expression_objective import ExpressionObjective
from objectives.expression.frame_algebra import quaternion, rotation_difference
from objectives.expression.rows import RowGroup, RowInputs
from objectives.model import IKModel, RobotIndices


def _limit_rows(inputs: RowInputs) -> Sequence[Scalar]:
    q = inputs.coordinates["q"]
    (lower,), (upper,) = inputs.data["joint_limit_lower"], inputs.data["joint_limit_upper"]
    return [maximum(q - upper, 0.0) - maximum(lower - q, 0.0)]


_LIMIT = RowGroup(
    "joint_limit", 1, _limit_rows, coordinates=("q",), data=(("joint_limit_lower", 1), ("joint_limit_upper", 1))
)


class IKObjectiveJointLimit(ExpressionObjective):
    """Pull joints back inside their limits.

    residual = weight row_weights (max(q - upper, 0) - max(lower - q, 0)), one row for every DOF with a limit, in the
    order of the DOFs; 0 inside the limits and at the limits.

    The limits are the robot's limits or the requested limits. Once the objective is bound,
    `set_data("joint_limit_lower", ...)` and `"joint_limit_upper"` replace the limits, with the shapes below.

    Args:
        weight: Factor of all rows [1/m or 1/rad].
        joint_limit_lower: Lower limits [rad or m], shape [joint_dof_count] or [problem_count, joint_dof_count]; None
            for the robot's limits. A DOF without limits in the robot has no row.
        joint_limit_upper: Upper limits [rad or m], shape [joint_dof_count] or [problem_count, joint_dof_count]; None
            for the robot's limits.
        joints: Names of the joints; None for all.
        row_weights: Weights of the rows, shape [row_count] or [problem_count, row_count]; 0 disables a row.
    """

    def __init__(
        self,
        weight: float = 1.0,
        *,
        joint_limit_lower: Any = None,
        joint_limit_upper: Any = None,
        joints: Sequence[str] | None = None,
        row_weights: Any = None,
    ) -> None:
        owner = type(self).__name__
        given = {"joint_limit_lower": joint_limit_lower, "joint_limit_upper": joint_limit_upper}
        self._given_limits = frozenset(name for name, limits in given.items() if limits is not None)
        unknown = [np.inf]  # placeholder until the robot is known
        fields = [
            DataField(owner, name, None, unknown if limits is None else limits, finite=False)
            for name, limits in given.items()
        ]
        super().__init__(fields, row_count=None, row_weights=row_weights, weight=weight)
        self._joints = joints

    def bind_model(self, model: IKModel) -> None:
        """Take the robot's limits if none are requested; InputError if limits or row weights do not fit the robot."""
        own, count = type(self).__name__, model.joint_dof_count
        for name, limits in (
            ("joint_limit_lower", model.joint_limit_lower),
            ("joint_limit_upper", model.joint_limit_upper),
        ):
            if name in self._given_limits:
                self._fields[name].set_columns(count)
            else:
                self._fields[name] = DataField(own, name, count, limits.numpy(), finite=False)
        super().bind_model(model)

    def stated_elements(self, model: IKModel) -> Sequence[tuple[RowGroup, Sequence[Element]]]:
        """State one row for every limited DOF."""
        lower, upper = model.joint_limit_lower.numpy(), model.joint_limit_upper.numpy()
        limited = np.isfinite(lower) | np.isfinite(upper)
        robot = RobotIndices(model)
        joints = robot.select_joints(self._joints, type(self).__name__)
        dofs = [dof for dof in robot.scalar_dofs(joints) if limited[dof]]
        return [(_LIMIT, [Element(coordinate_dofs=(dof,), data_columns=(dof, dof)) for dof in dofs])]


def _centering_row(inputs: RowInputs) -> Sequence[Scalar]:
    return [inputs.constants["per_half_range"] * (inputs.coordinates["q"] - inputs.constants["middle"])]


_CENTERING = RowGroup("joint_centering", 1, _centering_row, coordinates=("q",), constants=("middle", "per_half_range"))


class IKObjectiveJointCentering(ExpressionObjective):
    """Pull joints to the middle of their limits.

    residual = weight row_weights (q - (lower + upper) / 2) / ((upper - lower) / 2), one row for every DOF with two
    limits, in the order of the DOFs: 0 in the middle, 1 and -1 at the limits, times weight.

    Args:
        weight: Factor of all rows.
        joints: Names of the joints; None for all.
        row_weights: Weights of the rows, shape [row_count] or [problem_count, row_count]; 0 disables a row.
    """

    def __init__(self, weight: float = 1.0, *, joints: Sequence[str] | None = None, row_weights: Any = None) -> None:
        super().__init__([], row_count=None, row_weights=row_weights, weight=weight)
        self._joints = joints

    def stated_elements(self, model: IKModel) -> Sequence[tuple[RowGroup, Sequence[Element]]]:
        """State one row for every DOF with two different limits; UnknownNameError for an unknown joint."""
        limits = model.joint_limit_lower, model.joint_limit_upper
        lower, upper = (array.numpy().astype(np.float64) for array in limits)
        robot = RobotIndices(model)
        joints = robot.select_joints(self._joints, type(self).__name__)
        dofs = [
            dof for dof in robot.scalar_dofs(joints) if np.isfinite(upper[dof] - lower[dof]) and lower[dof] < upper[dof]
        ]
        constants = {dof: (float(lower[dof] + upper[dof]) / 2.0, 2.0 / float(upper[dof] - lower[dof])) for dof in dofs}
        return [(_CENTERING, [Element(coordinate_dofs=(dof,), constants=constants[dof]) for dof in dofs])]


JOINT_Q_REFERENCE = "joint_q_reference"


def _coordinate_rows(inputs: RowInputs) -> Sequence[Scalar]:
    return [inputs.coordinates["q"] - inputs.data[JOINT_Q_REFERENCE][0]]


def _quaternion_rows(inputs: RowInputs) -> Sequence[Scalar]:
    return rotation_difference(inputs.quaternions_xyzw["q"], quaternion(inputs.data[JOINT_Q_REFERENCE]))


_COORDINATE = RowGroup("posture", 1, _coordinate_rows, coordinates=("q",), data=((JOINT_Q_REFERENCE, 1),))
_QUATERNION = RowGroup("posture_quaternion", 3, _quaternion_rows, quaternions=("q",), data=((JOINT_Q_REFERENCE, 4),))


class IKObjectivePosture(ExpressionObjective):
    """Keep joints near a reference configuration.

    One row for every DOF, in the order of the DOFs. residual = weight row_weights (q - q_reference) for a DOF with a
    coordinate; for the three angular DOFs of a ball or floating joint weight row_weights 2 sign(w) vec(e), with
    e = q q_reference^-1, in the joint's parent frame.

    Args:
        joint_q_reference: Coordinates of the whole robot [m or rad, quaternions xyzw], shape [joint_coord_count] or
            [problem_count, joint_coord_count]; Warp arrays are used in place.
        weight: Factor of all rows [1/m or 1/rad].
        row_weights: Weights of the rows, shape [row_count] or [problem_count, row_count]; 0 disables a row.
        joints: Names of the joints with rows; None for all.
    """

    def __init__(
        self,
        joint_q_reference: Any,
        *,
        weight: float = 1.0,
        row_weights: Any = None,
        joints: Sequence[str] | None = None,
    ) -> None:
        fields = [DataField(type(self).__name__, JOINT_Q_REFERENCE, None, joint_q_reference)]
        super().__init__(fields, row_count=None, row_weights=row_weights, weight=weight)
        self._joints = joints

    def set_reference(self, joint_q_reference: Any) -> None:
        """Replace the reference, shape [joint_coord_count] or [problem_count, joint_coord_count]; see `set_data`."""
        self.set_data(JOINT_Q_REFERENCE, joint_q_reference)

    def bind_model(self, model: IKModel) -> None:
        """Check the reference; InputError for a wrong number of coordinates, or a quaternion not of unit length."""
        robot = RobotIndices(model)
        joints = [joint for joint in range(model.joint_count) if robot.has_quaternion(joint)]
        quaternions = tuple(robot.first_quaternion_coordinate(joint) for joint in joints)
        self._fields[JOINT_Q_REFERENCE].set_columns(model.joint_coord_count, quaternions)
        super().bind_model(model)

    def stated_elements(self, model: IKModel) -> Sequence[tuple[RowGroup, Sequence[Element]]]:
        """State one row for every DOF of the joints."""
        robot = RobotIndices(model)
        joints = robot.select_joints(self._joints, type(self).__name__)
        row_of = {dof: row for row, dof in enumerate(dof for joint in joints for dof in robot.dofs(joint))}
        scalars = [
            Element(coordinate_dofs=(dof,), data_columns=(int(robot.dof_coordinate[dof]),), row=row_of[dof])
            for dof in robot.scalar_dofs(joints)
        ]
        turns = [
            Element(
                quaternion_joints=(joint,),
                data_columns=(robot.first_quaternion_coordinate(joint),),
                row=row_of[robot.first_angular_dof(joint)],
            )
            for joint in joints
            if robot.has_quaternion(joint)
        ]
        return [(_COORDINATE, scalars), (_QUATERNION, turns)]


class IKObjectiveDamping(IKObjectivePosture):
    """Damp the joints' velocities in a control loop: a posture with the configuration of the last tick as reference.

    One row for every DOF, in the order of the DOFs. residual = weight row_weights (q - q_previous), and for ball and
    floating joints as in `IKObjectivePosture`: over a tick of `dt` seconds this is weight dt qd, with qd the velocity
    [m/s or rad/s] from q_previous to q. `weight` is in 1/m or 1/rad; for a weight `c` of velocities [s/m or s/rad]
    independent of the tick, use c / dt. Rows of a distant target are larger than rows of a short step, so damping slows
    a robot down, but does not stop the robot before the target.

    Call `set_reference(q_previous)` before every tick; or give a Warp array as `joint_q_reference`, for example the
    solver's `initial_joint_q`, and write into this array.
    """
