"""Error packing: six rows per loop, from the end of its closing joint to the frame that it should meet.

Position [m] and rotation vector [rad], in the frame at that end. Columns are the DOFs of the tree, then those of the
closing joints. The *gradient* is the derivative of the rows; the *Jacobian* gives the relative twist. They differ by
the derivative of the rotation vector, and agree where a loop is closed.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ik_service.robots.constraint_kinematics.rows.closing_joints import closing_coordinates, with_closing_joints
from ik_service.robots.constraint_kinematics.rows.frame_pairs import FramePairs, frame_pairs
from ik_service.robots.constraint_kinematics.rows.linear_algebra import applied, coupling_matrix, least_change
from ik_service.robots.constraints.loops import LoopConstraint
from ik_service.robots.host_kinematics.tangent import BodyMotion, body_motion, motion_subspace_rate
from ik_service.robots.kinematic_robot import KinematicRobot
from ik_service.robots.structure.configuration import checked_joint_q, checked_tangent
from ik_service.robots.transforms import (
    Float64Array,
    quaternion_conjugate,
    quaternion_rotate,
    rotation_vector,
    transform_inverse,
    transform_multiply,
)

ERROR_COMPONENTS = ("px", "py", "pz", "rx", "ry", "rz")
SERIES_ANGLE = 1e-4
"""Below this angle [rad] its series says more digits than the formula, which cancels."""


@dataclass(frozen=True, eq=False)
class ErrorRows:
    """Loops of a robot with their closing joints.

    Attributes:
        loops: The loops as the robot has them.
        tree_frames: Their frames and reference frames on the robot.
        whole: The robot with its closing joints as last joints; each of its loops is a weld.
        frames: Frames and ends of the closing joints on it.
        tree_coordinates: Number of coordinates of the tree.
        tree_dofs: Number of DOFs of the tree.
    """

    loops: tuple[LoopConstraint, ...]
    tree_frames: FramePairs
    whole: KinematicRobot
    frames: FramePairs
    tree_coordinates: int
    tree_dofs: int

    @classmethod
    def of(cls, robot: KinematicRobot) -> "ErrorRows":
        """Add the closing joints of a robot's loops."""
        whole = with_closing_joints(robot)
        pairs = frame_pairs(robot, robot.loops), frame_pairs(whole, whole.loops)
        return cls(robot.loops, pairs[0], whole, pairs[1], robot.joint_coord_count, robot.joint_dof_count)

    @property
    def count(self) -> int:
        """Number of rows."""
        return len(ERROR_COMPONENTS) * len(self.loops)

    def configurations(self, robot: KinematicRobot, joint_q: ArrayLike) -> Float64Array:
        """Read configurations of all joints, or of the tree: closing joints are then where they come nearest."""
        if np.shape(joint_q)[-1:] == (self.whole.joint_coord_count,):
            return checked_joint_q(self.whole, joint_q)
        tree_q = checked_joint_q(robot, joint_q)
        frame, reference = self.tree_frames.poses(robot.body_poses(tree_q))
        closing = closing_coordinates(self.loops, transform_multiply(transform_inverse(reference), frame))
        return np.concatenate([tree_q, closing], axis=1)

    def velocities(self, robot: KinematicRobot, whole_q: Float64Array, joint_qd: ArrayLike) -> Float64Array:
        """Read velocities of all joints, or of the tree: those of closing joints are then what closes best."""
        if np.shape(joint_qd)[-1:] == (self.whole.joint_dof_count,):
            return checked_tangent(self.whole, joint_qd)
        tree_qd = checked_tangent(robot, joint_qd)
        jacobian = self.jacobian(body_motion(self.whole, whole_q))
        return self._with_closing(jacobian, tree_qd, applied(jacobian[:, :, : self.tree_dofs], tree_qd))

    def accelerations(
        self, robot: KinematicRobot, whole_q: Float64Array, whole_qd: Float64Array, joint_qdd: ArrayLike
    ) -> Float64Array:
        """Read accelerations of all joints, or of the tree: those of closing joints are then what closes best."""
        if np.shape(joint_qdd)[-1:] == (self.whole.joint_dof_count,):
            return checked_tangent(self.whole, joint_qdd)
        tree_qdd = checked_tangent(robot, joint_qdd)
        motion = body_motion(self.whole, whole_q)
        jacobian = self.jacobian(motion)
        rows = applied(jacobian[:, :, : self.tree_dofs], tree_qdd)
        return self._with_closing(jacobian, tree_qdd, rows + self.drift(motion, whole_qd))

    def _with_closing(self, jacobian: Float64Array, tree: Float64Array, rows: Float64Array) -> Float64Array:
        """Add rates of closing joints that bring rows nearest to zero."""
        spread = coupling_matrix(self.whole)[self.tree_dofs :]
        own = spread.any(axis=0)
        columns = jacobian[:, :, self.tree_dofs :] @ spread[:, own]
        rates = least_change(columns, rows)
        return np.concatenate([np.broadcast_to(tree, (len(rows), self.tree_dofs)), rates @ spread[:, own].T], axis=1)

    def error(self, T_world_body: Float64Array) -> Float64Array:
        """Give the rows, shape [n, rows]."""
        frame, end = self.frames.poses(T_world_body)
        seen = transform_multiply(transform_inverse(end), frame)
        return np.concatenate([seen[..., :3], rotation_vector(seen[..., 3:])], axis=-1).reshape(len(seen), self.count)

    def jacobian(self, motion: BodyMotion) -> Float64Array:
        """Give the derivatives of the relative twists by all DOFs, shape [n, rows, all DOFs]."""
        frame, end = self.frames.poses(motion.T_world_body)
        return self._blocks(_seen_from(end, self._relative_twists(frame[..., :3], motion.S)))

    def jacobian_dot(self, motion: BodyMotion, whole_qd: Float64Array) -> Float64Array:
        """Give the time derivative of the Jacobian, shape [n, rows, all DOFs]."""
        frame, end = self.frames.poses(motion.T_world_body)
        at, S = frame[..., :3], motion.S
        twists = np.einsum("sld,nd,ndk->snlk", self.frames.moved, whole_qd, S)
        velocity = twists[0, ..., :3] + np.cross(twists[0, ..., 3:], at)
        rate = self._relative_twists(at, motion_subspace_rate(self.whole, motion, whole_qd))
        columns = self._moves()[:, :, np.newaxis] * S[:, np.newaxis]
        rate[..., :3] += np.cross(columns[..., 3:], velocity[:, :, np.newaxis])
        relative, turn = self._relative_twists(at, S), twists[1, :, :, np.newaxis, 3:]
        for part in (slice(0, 3), slice(3, 6)):
            rate[..., part] -= np.cross(turn, relative[..., part])
        return self._blocks(_seen_from(end, rate))

    def drift(self, motion: BodyMotion, whole_qd: Float64Array) -> Float64Array:
        """Give the accelerations of the rows at constant joint velocities, shape [n, rows]."""
        return applied(self.jacobian_dot(motion, whole_qd), whole_qd)

    def gradient(self, motion: BodyMotion) -> Float64Array:
        """Give the derivatives of the rows by all DOFs, shape [n, rows, all DOFs]."""
        turns = self.error(motion.T_world_body).reshape(-1, len(self.loops), len(ERROR_COMPONENTS))[..., 3:]
        rows = self.jacobian(motion).reshape(*turns.shape[:2], len(ERROR_COMPONENTS), -1).copy()
        rows[:, :, 3:] = _rotation_vector_rates(turns) @ rows[:, :, 3:]
        return np.asarray(rows.reshape(len(turns), self.count, -1))

    def _moves(self) -> Float64Array:
        """Give 1 where a DOF moves the frame alone, -1 where it moves the end alone, shape [loops, all DOFs]."""
        return np.asarray(self.frames.moved[0].astype(float) - self.frames.moved[1])

    def _relative_twists(self, at: Float64Array, S: Float64Array) -> Float64Array:
        """Give twists at points [n, loops, 3] of frames less those of ends, world axes, [n, loops, all DOFs, 6]."""
        columns = self._moves()[:, :, np.newaxis] * S[:, np.newaxis]
        columns[..., :3] += np.cross(columns[..., 3:], at[:, :, np.newaxis])
        return np.asarray(columns)

    def _blocks(self, columns: Float64Array) -> Float64Array:
        return np.asarray(np.swapaxes(columns, 2, 3).reshape(len(columns), self.count, self.whole.joint_dof_count))


def _seen_from(frame: Float64Array, columns: Float64Array) -> Float64Array:
    """Turn columns [n, loops, DOFs, 6] from world axes into those of frames [n, loops, 7]."""
    back = quaternion_conjugate(frame[:, :, np.newaxis, 3:])
    return np.concatenate([quaternion_rotate(back, columns[..., part]) for part in (slice(0, 3), slice(3, 6))], axis=-1)


def _rotation_vector_rates(turns: Float64Array) -> Float64Array:
    """Give the derivatives of rotation vectors [..., 3] by angular velocities, shape [..., 3, 3]."""
    x, y, z = np.moveaxis(turns, -1, 0)
    zero = np.zeros_like(x)
    cross = np.stack([zero, -z, y, z, zero, -x, -y, x, zero], axis=-1).reshape(*turns.shape, 3)
    angle = np.linalg.norm(turns, axis=-1)[..., np.newaxis, np.newaxis]
    safe = np.where(angle < SERIES_ANGLE, 1.0, angle)
    factor = np.where(angle < SERIES_ANGLE, 1.0 / 12.0, (1.0 - 0.5 * safe / np.tan(0.5 * safe)) / safe**2)
    return np.asarray(np.eye(3) - 0.5 * cross + factor * (cross @ cross))
