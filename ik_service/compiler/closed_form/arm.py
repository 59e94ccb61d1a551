"""A chain of six or seven revolute joints as axes at zero configuration, and the nominal arm nearest to it.

Axis k has a unit direction h_k and a point p_k in the world; E_k(q) turns about it. The tool at T_world_tool is reached
where E_1(q_1) ... E_n(q_n) = T_world_tool T0^-1, T0 the tool at zero configuration.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ik_service.mechanism.joint_type import JointType
from ik_service.mechanism.kinematic_robot import KinematicRobot
from ik_service.mechanism.transforms import (
    identity_transform,
    quaternion_from_axis_angle,
    quaternion_rotate,
    transform_multiply,
)
from ik_service.mechanism.trees import joints_to

Vectors = NDArray[np.float64]
JOINTS = (6, 7)
SNAP = 1e-9  # components of directions this near to a whole number are whole; shares of a length as small are 0
PARALLEL = 1e-9  # squared sine of directions taken as parallel by `meeting`


@dataclass(frozen=True, eq=False)
class Arm:
    """A chain of revolute joints, and of locked joints, between the world and a link.

    Attributes:
        dofs: Active DOF of each joint, from the base.
        axes: Directions at zero configuration in the world, float64 [joints, 3].
        points: A point of each axis [m], float64 [joints, 3].
        T_world_link: The link at zero configuration, position [m] and orientation xyzw, float64 [7].
        rotation_noise: Largest rotation between the link of this arm and that of the robot, in any configuration [rad].
        length_noise: Largest distance between the origins of both links [m].
        held: Columns in `joint_q` of locked joints on the way, taken at their locked values.
    """

    dofs: tuple[int, ...]
    axes: Vectors
    points: Vectors
    T_world_link: Vectors
    rotation_noise: float = 0.0
    length_noise: float = 0.0
    held: tuple[int, ...] = ()

    @property
    def length(self) -> float:
        """Sum of the distances between consecutive points, and to the link [m]."""
        ends = np.vstack([self.points, self.T_world_link[:3]])
        return float(np.linalg.norm(np.diff(ends, axis=0), axis=1).sum())

    def with_geometry(self, axes: Sequence[Vectors], points: Sequence[Vectors]) -> "Arm":
        """Return the arm with other axes; `rotation_noise` and `length_noise` bound the difference."""
        nominal = replace(self, axes=np.array(axes), points=np.array(points))
        sines = np.linalg.norm(np.cross(self.axes, nominal.axes), axis=1)
        apart = np.arctan2(sines, (self.axes * nominal.axes).sum(axis=1))
        beside = np.linalg.norm(np.cross(nominal.points - self.points, self.axes), axis=1)
        # E and E' of axes an angle apart differ by at most twice this angle, and twice the distance of the axes
        rotation = 2.0 * float(apart.sum())
        length = 2.0 * float(beside.sum()) + rotation * max(self.length, nominal.length)
        return replace(nominal, rotation_noise=rotation, length_noise=length)


def arm_of(robot: KinematicRobot, link: str | int) -> Arm | None:
    """Return the arm between the world and a link, or None if the link hangs on other joints."""
    body, T_body_link = (link, identity_transform()) if isinstance(link, int) else robot.link_frame(link)
    T_world_body, dofs, axes, points, held = identity_transform(), [], [], [], list[int]()
    for joint in joints_to(robot, body):
        T_world_body = transform_multiply(T_world_body, robot.joint_X_p[joint])
        kind = JointType(robot.joint_type[joint])
        if kind is JointType.FIXED:
            continue
        dof = int(robot.joint_qd_start[joint])
        turns = kind in (JointType.REVOLUTE, JointType.CONTINUOUS)
        if (turns or kind is JointType.PRISMATIC) and int(robot.dof_active[dof]) < 0:
            held.append(int(robot.dof_coordinate[dof]))
            q, axis = float(robot.mid_joint_q[held[-1]]), robot.joint_axis[dof]
            turn, shift = quaternion_from_axis_angle(axis, q * turns), q * (not turns) * axis
            T_world_body = transform_multiply(T_world_body, np.concatenate([shift, turn]))
            continue
        if not turns or not _moves_alone(robot, dof):
            return None
        dofs.append(int(robot.dof_active[dof]))
        axes.append(quaternion_rotate(T_world_body[3:], robot.joint_axis[dof]))
        points.append(T_world_body[:3])
    if len(dofs) not in JOINTS:
        return None
    lengths = np.linalg.norm(axes, axis=1, keepdims=True)
    link_now = transform_multiply(T_world_body, T_body_link)
    return Arm(tuple(dofs), np.array(axes) / lengths, np.array(points), link_now, held=tuple(held))


def _moves_alone(robot: KinematicRobot, dof: int) -> bool:
    """Return whether a DOF is active, and no follower of another."""
    active = int(robot.dof_active[dof])
    if active < 0 or int(robot.active_dof[active]) != dof:
        return False
    return float(robot.dof_multiplier[dof]) == 1.0 and float(robot.dof_offset[dof]) == 0.0


def snapped(values: Vectors) -> tuple[float, ...]:
    """Return a direction or quaternion without the rounding of its file."""
    return tuple(float(np.round(x)) if abs(x - np.round(x)) < SNAP else float(x) for x in values)


def across(direction: Vectors, axis: Vectors) -> Vectors:
    """Return the unit vector perpendicular to an axis that is nearest a direction."""
    rest = direction - axis * (axis @ direction)
    if np.linalg.norm(rest) < SNAP:
        rest = np.cross(axis, np.eye(3)[int(np.argmin(np.abs(axis)))])
    return np.asarray(rest / np.linalg.norm(rest))


def along(direction: Vectors, axis: Vectors) -> Vectors:
    """Return an axis, or its opposite, whichever is nearer a direction."""
    return axis if axis @ direction > 0.0 else -axis


def meeting(axes: Vectors, points: Vectors) -> Vectors | None:
    """Return the point nearest several axes; None for parallel ones."""
    across_each = np.eye(3) - axes[:, :, None] * axes[:, None, :]
    total = across_each.sum(axis=0)
    if np.linalg.det(total) < PARALLEL:
        return None
    return np.asarray(np.linalg.solve(total, (across_each @ points[:, :, None]).sum(axis=0)[:, 0]))
