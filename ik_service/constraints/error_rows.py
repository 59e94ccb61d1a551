"""Error packing: six rows per loop, from the end of its closing joint to the frame that it should meet.

Position [m] and rotation vector [rad], in the frame at that end. Columns are the DOFs of the tree, then those of the
closing joints. The *gradient* is the derivative of the rows; the *Jacobian* gives the relative twist. They differ by
the derivative of the rotation vector, and agree where a loop is closed.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ik_service.constraints.closing_joints import closing_coordinates, with_closing_joints
from ik_service.constraints.frame_pairs import FramePairs, frame_pairs
from ik_service.constraints.linear_algebra import applied, least_change
from ik_service.constraints.scalar_rows import ScalarRows
from ik_service.kinematics.host_tangent import BodyMotion, body_motion, motion_subspace_rate
from ik_service.mechanism.arrays import Int32Array
from ik_service.mechanism.configuration import checked_joint_q, checked_tangent
from ik_service.mechanism.kinematic_robot import KinematicRobot
from ik_service.mechanism.transforms import (
    Float64Array,
    cross,
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

    *All* coordinates and DOFs are those of the tree and, after them, those of the closing joints; the way of a screw,
    which follows its angle, is none of them.

    Attributes:
        robot: The robot.
        whole: The robot with its closing joints as last joints; each of its loops is a weld.
        tree_frames: Frames and reference frames of the loops on the robot.
        frames: Frames and ends of the closing joints on the whole.
        scalar: The rows behind those of loops, on the whole.
        coordinates: All coordinates among those of the whole.
        dofs: All DOFs among those of the whole.
        spread: Changes of the DOFs of the whole by those of all DOFs, shape [DOFs of the whole, all DOFs].
    """

    robot: KinematicRobot
    whole: KinematicRobot
    tree_frames: FramePairs
    frames: FramePairs
    scalar: ScalarRows
    coordinates: Int32Array
    dofs: Int32Array
    spread: Float64Array

    @classmethod
    def of(cls, robot: KinematicRobot) -> "ErrorRows":
        """Add the closing joints of a robot's loops."""
        whole = with_closing_joints(robot)
        following = whole.follower_dofs[whole.follower_dofs >= robot.joint_dof_count]
        dofs = np.setdiff1d(np.arange(whole.joint_dof_count, dtype=np.int32), following)
        coordinates = np.arange(whole.joint_coord_count, dtype=np.int32)
        spread = np.eye(whole.joint_dof_count)
        spread[following, whole.dof_leader[following]] = whole.dof_multiplier[following]
        return cls(
            robot,
            whole,
            frame_pairs(robot, robot.loops),
            frame_pairs(whole, whole.loops),
            ScalarRows.of(whole),
            np.setdiff1d(coordinates, whole.dof_coordinate[following]),
            dofs,
            spread[:, dofs],
        )

    @property
    def loop_rows(self) -> int:
        """Number of rows of loops."""
        return len(ERROR_COMPONENTS) * len(self.robot.loops)

    def configurations(self, joint_q: ArrayLike) -> Float64Array:
        """Read configurations of the whole from all coordinates, or from the tree's and what closes best."""
        columns = np.shape(joint_q)[-1:]
        if columns == (len(self.coordinates),) != (self.robot.joint_coord_count,):
            given = np.atleast_2d(np.asarray(joint_q, np.float64))
            whole_q = np.zeros((len(given), self.whole.joint_coord_count))
            whole_q[:, self.coordinates] = given
            followers = self.whole.follower_dofs[self.whole.follower_dofs >= self.robot.joint_dof_count]
            own, leader = self.whole.dof_coordinate[followers], self.whole.dof_leader[followers]
            whole_q[:, own] = self.whole.dof_multiplier[followers] * whole_q[:, self.whole.dof_coordinate[leader]]
            return checked_joint_q(self.whole, whole_q)
        tree_q = checked_joint_q(self.robot, joint_q)
        poses = self.tree_frames.poses(self.robot.body_poses(tree_q))
        return np.concatenate([tree_q, closing_coordinates(self.robot.loops, poses)], axis=1)

    def velocities(self, whole_q: Float64Array, joint_qd: ArrayLike) -> Float64Array:
        """Read velocities of all DOFs, or of the tree: those of closing joints are then what closes best."""
        given = self._rates(joint_qd)
        if given.shape[1] == len(self.dofs):
            return given
        return self._with_closing(self.jacobian(body_motion(self.whole, whole_q)), given, 0.0)

    def accelerations(self, whole_q: Float64Array, qd: Float64Array, joint_qdd: ArrayLike) -> Float64Array:
        """Read accelerations of all DOFs, or of the tree: those of closing joints are then what closes best."""
        given = self._rates(joint_qdd)
        if given.shape[1] == len(self.dofs):
            return given
        motion = body_motion(self.whole, whole_q)
        return self._with_closing(self.jacobian(motion), given, self.drift(motion, qd))

    def _rates(self, rates: ArrayLike) -> Float64Array:
        if np.shape(rates)[-1:] != (len(self.dofs),):
            return checked_tangent(self.robot, rates)
        whole = checked_tangent(self.whole, np.asarray(rates, np.float64) @ self.spread.T)
        return np.asarray(whole[:, self.dofs])

    def _with_closing(self, jacobian: Float64Array, tree: Float64Array, drift: Float64Array | float) -> Float64Array:
        """Add rates of closing joints that bring the rows' rates nearest to zero."""
        count = self.robot.joint_dof_count
        rows = applied(jacobian[:, :, :count], np.broadcast_to(tree, (len(jacobian), count))) + drift
        closing = least_change(jacobian[:, :, count:], rows)
        return np.concatenate([np.broadcast_to(tree, (len(rows), count)), closing], axis=1)

    def error(self, motion: BodyMotion) -> Float64Array:
        """Give the rows, shape [n, rows]."""
        of_loops = self._loop_errors(motion).reshape(len(motion.S), self.loop_rows)
        return np.concatenate([of_loops, self.scalar.values(motion)], axis=1)

    def _loop_errors(self, motion: BodyMotion) -> Float64Array:
        """Give the rows of loops, shape [n, loops, 6]."""
        frame, end = self.frames.poses(motion.T_world_body)
        seen = transform_multiply(transform_inverse(end), frame)
        return np.concatenate([seen[..., :3], rotation_vector(seen[..., 3:])], axis=-1)

    def jacobian(self, motion: BodyMotion) -> Float64Array:
        """Give the derivatives of the relative twists by all DOFs, shape [n, rows, all DOFs]."""
        frame, end = self.frames.poses(motion.T_world_body)
        columns = _seen_from(end, self._relative_twists(frame[..., :3], motion.S))
        return self._rows(columns, self.scalar.jacobian(motion))

    def jacobian_dot(self, motion: BodyMotion, qd: Float64Array) -> Float64Array:
        """Give the time derivative of the Jacobian, shape [n, rows, all DOFs]."""
        frame, end = self.frames.poses(motion.T_world_body)
        at, S, whole_qd = frame[..., :3], motion.S, qd @ self.spread.T
        twists = np.einsum("sld,nd,ndk->snlk", self.frames.moved, whole_qd, S)
        velocity = twists[0, ..., :3] + cross(twists[0, ..., 3:], at)
        rate = self._relative_twists(at, motion_subspace_rate(self.whole, motion, whole_qd))
        columns = self.frames.moves_apart[:, :, np.newaxis] * S[:, np.newaxis]
        rate[..., :3] += cross(columns[..., 3:], velocity[:, :, np.newaxis])
        relative, turn = self._relative_twists(at, S), twists[1, :, :, np.newaxis, 3:]
        for part in (slice(0, 3), slice(3, 6)):
            rate[..., part] -= cross(turn, relative[..., part])
        return self._rows(_seen_from(end, rate), self.scalar.jacobian_dot(motion, whole_qd))

    def drift(self, motion: BodyMotion, qd: Float64Array) -> Float64Array:
        """Give the accelerations of the rows at constant rates of all DOFs, shape [n, rows]."""
        return applied(self.jacobian_dot(motion, qd), qd)

    def gradient(self, motion: BodyMotion) -> Float64Array:
        """Give the derivatives of the rows by all DOFs, shape [n, rows, all DOFs]."""
        turns, rows = self._loop_errors(motion)[..., 3:], self.jacobian(motion)
        of_loops = rows[:, : self.loop_rows].reshape(*turns.shape[:2], len(ERROR_COMPONENTS), len(self.dofs))
        of_loops[:, :, 3:] = _rotation_vector_rates(turns) @ of_loops[:, :, 3:]
        rows[:, : self.loop_rows] = of_loops.reshape(len(turns), self.loop_rows, len(self.dofs))
        rows[:, self.loop_rows : self.loop_rows + len(self.robot.velocity_constraints)] = 0.0
        return rows

    def _relative_twists(self, at: Float64Array, S: Float64Array) -> Float64Array:
        """Give twists at points [n, loops, 3] of frames less those of ends, world axes, [n, loops, DOFs, 6]."""
        columns = self.frames.moves_apart[:, :, np.newaxis] * S[:, np.newaxis]
        columns[..., :3] += cross(columns[..., 3:], at[:, :, np.newaxis])
        return np.asarray(columns)

    def _rows(self, columns: Float64Array, scalar: Float64Array) -> Float64Array:
        """Put columns of loops [n, loops, DOFs of the whole, 6] and other rows one below the other, over all DOFs."""
        rows = np.swapaxes(columns, 2, 3).reshape(len(columns), self.loop_rows, self.whole.joint_dof_count)
        return np.asarray(np.concatenate([rows, scalar], axis=1) @ self.spread)


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
