"""Objectives of a solve request as JSON schema, discriminated by `type`; their fields are those of the Python classes.

Each column is one row for all problems or one row per problem. A new objective over HTTP is a class here, in the union
at the end: its `objective_class`, its fields with their checks in the annotations, and its number of rows.
"""

from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

import objectives
from ik_service.robots import RobotModel
from ik_service.service.schema import limits
from ik_service.service.schema.fields import (
    Envelope,
    Name,
    NumericColumn,
    Offset,
    Whole,
    nullable,
    numeric_columns,
    required,
    row_or_rows,
)
from objectives.expression.expression_objective import ExpressionObjective

Points = Annotated[Any, required(*row_or_rows(3)), NumericColumn("vector", 3)]
Directions = Annotated[Any, required(*row_or_rows(3)), NumericColumn("direction", 3)]
Orientations = Annotated[Any, required(*row_or_rows(4)), NumericColumn("quaternion", 4)]
Configurations = Annotated[Any, required(*row_or_rows(None)), NumericColumn("configuration")]
OptionalConfigurations = Annotated[Any, nullable(*row_or_rows(None)), NumericColumn("configuration")]
OptionalDofValues = Annotated[Any, nullable(*row_or_rows(None)), NumericColumn("dof_values")]
OneWeight = Annotated[Any, nullable(*row_or_rows(1, 0.0)), NumericColumn("weights", 1)]
TwoWeights = Annotated[Any, nullable(*row_or_rows(2, 0.0)), NumericColumn("weights", 2)]
ThreeWeights = Annotated[Any, nullable(*row_or_rows(3, 0.0)), NumericColumn("weights", 3)]
SixWeights = Annotated[Any, nullable(*row_or_rows(6, 0.0)), NumericColumn("weights", 6)]
JointWeights = Annotated[Any, nullable(*row_or_rows(None, 0.0)), NumericColumn("weights")]

_WEIGHTS = "Weights of the rows, one row or one per problem; 0 switches a row off. null: all 1."
_DIRECTION = "Any length but 0."


class WeightedObjective(Envelope):
    """Fields of all objectives."""

    objective_class: ClassVar[type[ExpressionObjective]]
    needs_masses: ClassVar[bool] = False

    weight: float = Field(
        default=1.0,
        ge=limits.MIN_WEIGHT,
        le=limits.MAX_VALUE,
        allow_inf_nan=False,
        description="Factor of all rows, in the residual: the cost grows with its square.",
    )
    priority: Whole = Field(
        default=1,
        ge=0,
        le=1,
        description="Beside targets, rows of priority 1 change only what targets and rows of priority 0 do not fix, "
        "whatever the weights. Among rows of one priority weights decide.",
    )

    def row_count(self, robot: RobotModel) -> int:
        """Return the number of rows; only an objective about joints needs the robot for it."""
        return numeric_columns(type(self))["row_weights"].width or 0


class LinkObjective(WeightedObjective):
    """An objective about a frame on a link."""

    link: Name = Field(description="Name of the link.")
    offset: Offset | None = Field(default=None, description="Tool frame on the link; null is the link frame itself.")


class ReferencedObjective(LinkObjective):
    """An objective about a frame on a link, given in the world frame or in that of another link."""

    reference_link: Name | None = Field(
        default=None, description="Link in whose frame the numbers are given; null is the world."
    )


class PositionObjective(ReferencedObjective):
    """Bring a frame's origin to a position. 3 rows: p - p_target [m]."""

    objective_class = objectives.IKObjectivePosition

    type: Literal["position"]
    target_positions: Points = Field(description="Positions [m].")
    row_weights: ThreeWeights = Field(default=None, description=_WEIGHTS)


class RotationObjective(ReferencedObjective):
    """Bring a frame to an orientation. 3 rows: about the rotation vector from target to frame [rad]."""

    objective_class = objectives.IKObjectiveRotation

    type: Literal["rotation"]
    target_orientations_xyzw: Orientations = Field(description="Unit quaternions.")
    row_weights: ThreeWeights = Field(default=None, description=_WEIGHTS)


class RelativePoseObjective(LinkObjective):
    """Bring a frame to a pose relative to another link, such as hand to hand. 6 rows: as position and rotation."""

    objective_class = objectives.IKObjectiveRelativePose

    type: Literal["relative_pose"]
    reference_link: Name = Field(description="Link in whose frame the pose is given.")
    target_positions: Points = Field(description="Positions [m].")
    target_orientations_xyzw: Orientations = Field(description="Unit quaternions.")
    row_weights: SixWeights = Field(default=None, description=_WEIGHTS)


class LookAtObjective(LinkObjective):
    """Point an axis of a frame at a point, like a camera. 3 rows: R axis - direction to the point [about rad]."""

    objective_class = objectives.IKObjectiveLookAt

    type: Literal["look_at"]
    target_points: Points = Field(description="Points in the world frame [m].")
    axis: Directions = Field(default=(0.0, 0.0, 1.0), description=f"Axis in the frame. {_DIRECTION}")
    row_weights: ThreeWeights = Field(default=None, description=_WEIGHTS)


class AxisAlignObjective(ReferencedObjective):
    """Turn an axis of a frame into a direction, such as straight down. 3 rows: R axis - direction [about rad]."""

    objective_class = objectives.IKObjectiveAxisAlign

    type: Literal["axis_align"]
    axis: Directions = Field(description=f"Axis in the frame. {_DIRECTION}")
    target_axis: Directions = Field(description=f"Wanted direction. {_DIRECTION}")
    row_weights: ThreeWeights = Field(default=None, description=_WEIGHTS)


class PlaneObjective(ReferencedObjective):
    """Keep a frame's origin in a plane. 1 row: n . (p - p0) [m]."""

    objective_class = objectives.IKObjectivePlane

    type: Literal["plane"]
    points: Points = Field(description="A point of the plane [m].")
    normals: Directions = Field(description=f"Its normal. {_DIRECTION}")
    row_weights: OneWeight = Field(default=None, description=_WEIGHTS)


class LineObjective(ReferencedObjective):
    """Keep a frame's origin on a line. 2 rows, across it: their norm is the distance [m]."""

    objective_class = objectives.IKObjectiveLine

    type: Literal["line"]
    points: Points = Field(description="A point of the line [m].")
    directions: Directions = Field(description=f"Its direction. {_DIRECTION}")
    row_weights: TwoWeights = Field(default=None, description=_WEIGHTS)


class JointObjective(WeightedObjective):
    """An objective about joints. One row per DOF of the joints, in the robot's order [rad or m]."""

    joints: list[Name] | None = Field(
        default=None, min_length=1, max_length=4096, description="Names of the joints that have rows; null: all."
    )
    row_weights: JointWeights = Field(default=None, description=_WEIGHTS)

    def row_count(self, robot: RobotModel) -> int:
        """Return the number of rows: one for each DOF of the joints."""
        return self.count(robot, np.ones(robot.joint_dof_count, bool))

    def count(self, robot: RobotModel, has_row: NDArray[np.bool_]) -> int:
        """Return the number of rows: one for each DOF of the joints that has a row, bool [joint_dof_count]."""
        chosen = frozenset(robot.joint_names if self.joints is None else self.joints)
        of_joints = np.array([name in chosen for name in robot.joint_names], bool)
        return int(has_row[np.repeat(of_joints, np.diff(robot.joint_qd_start))].sum())


class PostureObjective(JointObjective):
    """Keep joints near a reference configuration: row q - q_reference."""

    objective_class = objectives.IKObjectivePosture

    type: Literal["posture"]
    joint_q_reference: Configurations = Field(
        description="Configuration of the whole robot, in the order of `coordinate_names` [rad or m]."
    )


class DampingObjective(JointObjective):
    """Keep joints near where they were: row q - q_previous."""

    objective_class = objectives.IKObjectiveDamping

    type: Literal["damping"]
    joint_q_reference: OptionalConfigurations = Field(
        default=None, description="The configuration before; null: that of `initial_joint_q`."
    )


class JointLimitObjective(JointObjective):
    """Keep joints inside a range that is narrower than their limits: row max(q - upper, 0) - max(lower - q, 0)."""

    objective_class = objectives.IKObjectiveJointLimit

    type: Literal["joint_limit"]
    joint_limit_lower: OptionalDofValues = Field(
        default=None, description="Lower ends of the ranges [rad or m], in the order of `dof_names`; null: the limits."
    )
    joint_limit_upper: OptionalDofValues = Field(
        default=None, description="Upper ends of the ranges [rad or m], in the order of `dof_names`; null: the limits."
    )

    def row_count(self, robot: RobotModel) -> int:
        """Return the number of rows: one for each DOF of the joints that has a limit."""
        limited = np.isfinite(robot.joint_limit_lower) | np.isfinite(robot.joint_limit_upper)
        return self.count(robot, limited & (robot.dof_coordinate >= 0))


class JointCenteringObjective(JointObjective):
    """Draw joints to the middle of their ranges: row (q - middle) / half of the range, for DOFs with two limits."""

    objective_class = objectives.IKObjectiveJointCentering

    type: Literal["joint_centering"]

    def row_count(self, robot: RobotModel) -> int:
        """Return the number of rows: one for each DOF of the joints that has two limits."""
        width = robot.joint_limit_upper - robot.joint_limit_lower
        return self.count(robot, np.isfinite(width) & (width > 0.0) & (robot.dof_coordinate >= 0))


class ManipulabilityObjective(LinkObjective):
    """Keep a frame able to move in all directions. 3 or 6 rows; half their square is a constant less log(w)."""

    objective_class = objectives.IKObjectiveManipulability

    type: Literal["manipulability"]
    motion: Literal["pose", "position", "orientation"] = Field(
        default="pose", description="Which motions count. With fewer joints than rows it is refused."
    )
    joints: list[Name] | None = Field(
        default=None,
        min_length=1,
        max_length=4096,
        description="Names of the joints that count, of those of one DOF on the way to the link; null: all of these.",
    )
    row_weights: JointWeights = Field(default=None, description=_WEIGHTS)

    def row_count(self, robot: RobotModel) -> int:
        """Return the number of rows."""
        return 6 if self.motion == "pose" else 3


class CenterOfMassObjective(WeightedObjective):
    """Bring the centre of mass of the whole robot to a point. 3 rows: c - c_target [m]."""

    objective_class = objectives.IKObjectiveCenterOfMass
    needs_masses = True

    type: Literal["center_of_mass"]
    target_positions: Points = Field(description="Positions in the world frame [m].")
    row_weights: ThreeWeights = Field(default=None, description=_WEIGHTS)


Objective = Annotated[
    PositionObjective
    | RotationObjective
    | RelativePoseObjective
    | LookAtObjective
    | AxisAlignObjective
    | PlaneObjective
    | LineObjective
    | PostureObjective
    | DampingObjective
    | JointCenteringObjective
    | JointLimitObjective
    | ManipulabilityObjective
    | CenterOfMassObjective,
    Field(discriminator="type"),
]
"""An objective of any type."""
