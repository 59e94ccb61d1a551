"""Joint types: names and numbers of coordinates and DOFs.

The tangent frame of every type is the joint-parent frame ``T_world_parent * joint_X_p``; ``docs/conventions.md`` has
the formulas.
"""

from enum import IntEnum


class JointType(IntEnum):
    """Type of a joint, an entry of ``RobotModel.joint_type``."""

    REVOLUTE = 0
    CONTINUOUS = 1
    PRISMATIC = 2
    PLANAR = 3
    FLOATING = 4
    BALL = 5
    FIXED = 6

    @property
    def coordinate_components(self) -> tuple[str, ...]:
        """Names of the coordinates within the joint; a scalar joint has one coordinate, with an empty name."""
        return _COORDINATES.get(self, ("",))

    @property
    def dof_components(self) -> tuple[str, ...]:
        """Names of the DOFs within the joint; a scalar joint has one DOF, with an empty name."""
        return _DOFS.get(self, ("",))

    @property
    def linear_dof_count(self) -> int:
        """Number of translational DOFs; translational DOFs stand before rotational DOFs."""
        return _LINEAR.get(self, 0)

    @property
    def is_scalar(self) -> bool:
        """True for a joint with exactly one coordinate."""
        return self in (JointType.REVOLUTE, JointType.CONTINUOUS, JointType.PRISMATIC)

    @property
    def repeats_each_turn(self) -> bool:
        """True if the last coordinate is an angle: a whole turn does not change the pose."""
        return self in (JointType.REVOLUTE, JointType.CONTINUOUS, JointType.PLANAR)

    @property
    def quaternion_offset(self) -> int | None:
        """Index of the quaternion's first number among the joint's coordinates; None without quaternion."""
        return {JointType.FLOATING: 3, JointType.BALL: 0}.get(self)


_COORDINATES = {
    JointType.PLANAR: ("x", "y", "angle"),
    JointType.FLOATING: ("px", "py", "pz", "qx", "qy", "qz", "qw"),
    JointType.BALL: ("qx", "qy", "qz", "qw"),
    JointType.FIXED: (),
}
_DOFS = {
    JointType.PLANAR: ("x", "y", "angle"),
    JointType.FLOATING: ("vx", "vy", "vz", "wx", "wy", "wz"),
    JointType.BALL: ("wx", "wy", "wz"),
    JointType.FIXED: (),
}
_LINEAR = {JointType.PRISMATIC: 1, JointType.PLANAR: 2, JointType.FLOATING: 3}
