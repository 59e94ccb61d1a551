"""Error packing: six rows per loop, from the end of the closing joint to the frame.

Position [m] and rotation vector [rad] are in the frame at the end of the closing joint. Columns are the DOFs of the
tree, then of the closing joints. The *gradient* is the derivative of the rows; the *Jacobian* gives the relative twist.
Gradient and Jacobian differ by the derivative of the rotation vector, and agree for a closed loop.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from ik_service.constraints.closing_joints import coordinate_groups, with_closing_joints
from ik_service.constraints.linear_algebra import applied, least_change
from ik_service.constraints.residual_rows import BoundConstraints, loop_frames, stated_groups
from ik_service.kinematics.bound_rows import frame_poses
from ik_service.mechanism.configuration import checked_joint_q, checked_tangent
from ik_service.mechanism.kinematic_robot import KinematicRobot
from ik_service.mechanism.transforms import Float64Array
from ik_service.mechanism.trees import constraints_of
from objectives.expression import Scalar, atan2, sign, sqrt, where
from objectives.expression.element_table import Element
from objectives.expression.frame_algebra import Frame, add, conjugate, cross, rotate, vector
from objectives.expression.rows import RowGroup, RowInputs
from objectives.tasks.closing_joint import FRAME, REFERENCE_FRAME, relative_group
from objectives.tasks.velocity import TWIST


def _state_twist(inputs: RowInputs) -> Sequence[Scalar]:
    """State the twist of a frame in another frame, at the origin of the first: linear, then angular."""
    frame, reference, twist = inputs.frames[FRAME], inputs.frames[REFERENCE_FRAME], inputs.data[TWIST]
    velocity = add(vector(twist[:3]), cross(vector(twist[3:]), frame.position))
    back = conjugate(reference.orientation_xyzw)
    return [*rotate(back, velocity), *rotate(back, vector(twist[3:]))]


def _state_error(frame: Frame, _size: Scalar) -> Sequence[Scalar]:
    """State position and shortest rotation vector."""
    x, y, z, w = frame.orientation_xyzw
    square = x * x + y * y + z * z
    length = sqrt(where(square > SMALL_TURN, square, 1.0))
    scale = where(square > SMALL_TURN, 2.0 * atan2(length, sign(w) * w) / length, 2.0) * sign(w)
    return [*frame.position, scale * x, scale * y, scale * z]


SMALL_TURN = 1e-16  # squared sine of half the angle below which the rotation vector is twice the quaternion's vector
POSE_ERROR = relative_group("pose_error", 6, _state_error)
PAIR = FRAME, REFERENCE_FRAME
RELATIVE_TWIST = RowGroup("relative_twist", 6, _state_twist, frames=PAIR, data=((TWIST, 6),), twist=TWIST)
ERROR_COMPONENTS = ("px", "py", "pz", "rx", "ry", "rz")


class ErrorRows:
    """Loops of a robot with their closing joints.

    *All* coordinates and DOFs: of the tree, then of the closing joints, without the translation of a screw, which
    follows the angle. The *whole* is the robot with the closing joints as last joints; all its loops are welds.
    """

    def __init__(self, robot: KinematicRobot) -> None:
        self.robot, self.whole = robot, with_closing_joints(robot)
        whole = self.whole
        self._following = whole.follower_dofs[whole.follower_dofs >= robot.joint_dof_count]
        self._frames = loop_frames(whole)
        others = [groups[0] for groups in stated_groups(whole, constraints_of(whole)[len(robot.loops) :])]
        errors, twists = ([Element(pair, data_columns=own) for pair in self._frames] for own in ((), (0,)))
        self._errors = BoundConstraints(whole, [(POSE_ERROR, errors), *others])
        self._rates = BoundConstraints(whole, [(RELATIVE_TWIST, twists), *others])
        self._closing = BoundConstraints(robot, coordinate_groups(robot))  # coordinates of the closing joints
        coordinates = np.arange(whole.joint_coord_count, dtype=np.int32)
        # all coordinates and all DOFs, as indices of the whole's; and the map of changes of all DOFs to changes of the
        # whole's, shape [DOFs of the whole, all DOFs]
        self.coordinates = np.setdiff1d(coordinates, whole.dof_coordinate[self._following])
        self.dofs = np.setdiff1d(np.arange(whole.joint_dof_count, dtype=np.int32), self._following)
        spread = np.eye(whole.joint_dof_count)
        spread[self._following, whole.dof_leader[self._following]] = whole.dof_multiplier[self._following]
        self.spread: Float64Array = spread[:, self.dofs]

    @property
    def loop_rows(self) -> int:
        """Number of rows of loops."""
        return len(ERROR_COMPONENTS) * len(self.robot.loops)

    def configurations(self, joint_q: ArrayLike) -> Float64Array:
        """Read configurations of the whole; closing joints without given coordinates are nearest to loop closure."""
        columns = np.shape(joint_q)[-1:]
        if columns == (len(self.coordinates),) != (self.robot.joint_coord_count,):
            given = np.atleast_2d(np.asarray(joint_q, np.float64))
            whole_q = np.zeros((len(given), self.whole.joint_coord_count))
            whole_q[:, self.coordinates] = given
            own, leader = self.whole.dof_coordinate[self._following], self.whole.dof_leader[self._following]
            whole_q[:, own] = self.whole.dof_multiplier[self._following] * whole_q[:, self.whole.dof_coordinate[leader]]
            return checked_joint_q(self.whole, whole_q)
        tree_q = checked_joint_q(self.robot, joint_q)
        return np.concatenate([tree_q, self._closing.rows(tree_q)], axis=1)

    def rates(self, whole_q: Float64Array, rates: ArrayLike, qd: Float64Array | None = None) -> Float64Array:
        """Read velocities of all DOFs, or accelerations at velocities `qd`.

        Closing joints without given rates get the rates nearest to loop closure.
        """
        if np.shape(rates)[-1:] == (len(self.dofs),):
            whole = checked_tangent(self.whole, np.asarray(rates, np.float64) @ self.spread.T)
            return np.asarray(whole[:, self.dofs])
        tree, count = checked_tangent(self.robot, rates), self.robot.joint_dof_count
        if len(self.dofs) == count:
            return np.array(np.broadcast_to(tree, (len(whole_q), count)))
        jacobian, drift = self.jacobian(whole_q), 0.0 if qd is None else applied(self.jacobian_dot(whole_q, qd), qd)
        rows = applied(jacobian[:, :, :count], np.broadcast_to(tree, (len(jacobian), count))) + drift
        loops = slice(self.loop_rows)  # other rows do not depend on closing joints
        closing = least_change(jacobian[:, loops, count:], rows[:, loops])
        return np.concatenate([np.broadcast_to(tree, (len(rows), count)), closing], axis=1)

    def frame_poses(self, whole_q: Float64Array) -> Float64Array:
        """Give the frames of loops and the ends of the closing joints in the world, shape [2, n, loops, 7]."""
        poses = self.whole.body_poses(whole_q)
        sides = [[pair[side] for pair in self._frames] for side in range(2)]
        return np.stack(
            [frame_poses(poses, [one.body for one in side], [one.T_body_frame for one in side]) for side in sides]
        )

    def error(self, whole_q: Float64Array) -> Float64Array:
        """Give the rows, shape [n, rows]."""
        return self._errors.rows(whole_q)

    def jacobian(self, whole_q: Float64Array) -> Float64Array:
        """Give the derivatives of the relative twists by all DOFs, shape [n, rows, all DOFs]."""
        return self._by_all(self._rates.values(whole_q).jacobian)

    def jacobian_dot(self, whole_q: Float64Array, qd: Float64Array) -> Float64Array:
        """Give the time derivative of the Jacobian, shape [n, rows, all DOFs]."""
        return self._by_all(self._rates.jacobian_dot(whole_q, qd @ self.spread.T))

    def gradient(self, whole_q: Float64Array) -> Float64Array:
        """Give the derivatives of the rows by all DOFs, shape [n, rows, all DOFs]."""
        rows = self._by_all(self._errors.values(whole_q).jacobian)
        rows[:, self.loop_rows : self.loop_rows + len(self.robot.velocity_constraints)] = 0.0
        return rows

    def _by_all(self, jacobian: Float64Array) -> Float64Array:
        return np.asarray(jacobian @ self.spread) if len(self._following) else jacobian
