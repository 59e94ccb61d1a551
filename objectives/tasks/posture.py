"""Objectives for a robot near a reference configuration: a chosen one, or the one of the last tick."""

from collections.abc import Sequence
from typing import Any

from objectives.data_field import DataField
from objectives.expression import Scalar
from objectives.expression.element_table import Element
from objectives.expression.expression_objective import ExpressionObjective
from objectives.expression.frame_algebra import quaternion, rotation_difference
from objectives.expression.rows import RowGroup, RowInputs
from objectives.model import IKModel
from objectives.robot_indices import RobotIndices

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
