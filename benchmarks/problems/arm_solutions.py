"""Sets of solutions of an arm with six joints, and their judge: exact to float64, modulo turns, within limits.

Sets of many poses are arrays of shape [poses, most, 6]; rows without a solution are NaN.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.problems.pose_problems import rotations
from ik_service.compiler.closed_form import Arm

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
SAME = 1e-3  # [rad] two solutions of one set count once if no joint differs by more
FOUND = 0.02  # [rad] a solution counts as found by another solver if no joint differs by more
LIMIT_SLACK = 1e-6  # [rad]
NEAR_LIMIT = 1e-3  # [rad]
NEAR_SINGULAR = 1e-3  # of the least singular value; there an error of 1e-5, as of float32, moves joints by 0.01
STEPS, STEP_MAX = 12, 0.05  # of Newton's method; largest step of a joint [rad]
DAMPING = 1e-14  # keeps the equations solvable at singular configurations


def apart(joint_q: Floats, others: Floats) -> Floats:
    """Return the largest difference of a joint, angles taken modulo a turn [rad]."""
    difference: Floats = np.abs((joint_q - others + np.pi) % (2 * np.pi) - np.pi).max(axis=-1)
    return difference


def is_found(joint_q: Floats, among: Floats, largest: float = FOUND) -> Flags:
    """Return which solutions are in other sets of the same poses, shape [poses, most]."""
    found = np.zeros(joint_q.shape[:2], bool)
    for k in range(among.shape[1]):
        found |= apart(joint_q, among[:, k : k + 1]) < largest
    return found


def is_first(joint_q: Floats, valid: Flags) -> Flags:
    """Return which valid solutions are no repetitions of earlier ones, shape [poses, most]."""
    first = valid.copy()
    for k in range(1, joint_q.shape[1]):
        repeats = (apart(joint_q[:, :k], joint_q[:, k : k + 1]) < SAME) & first[:, :k]
        first[:, k] &= ~repeats.any(axis=1)
    return first


@dataclass(frozen=True, eq=False)
class Targets:
    """Poses of a link in the world."""

    positions: Floats  # positions [m], shape [poses, 3]
    rotations: Floats  # rotation matrices, shape [poses, 3, 3]

    @classmethod
    def of(cls, positions: Floats, orientations_xyzw: Floats) -> "Targets":
        """Return targets of positions and quaternions."""
        return cls(positions, rotations(orientations_xyzw))

    def __getitem__(self, rows: NDArray[np.int64]) -> "Targets":
        """Return some of the targets."""
        return Targets(self.positions[rows], self.rotations[rows])


@dataclass(frozen=True, eq=False)
class LimitedArm:
    """An arm and the limits of its joints."""

    arm: Arm  # its axes at zero configuration
    lower: Floats  # lower limits [rad], shape [6]; -inf for none
    upper: Floats  # upper limits [rad], shape [6]; inf for none

    @property
    def zero_rotation(self) -> Floats:
        """Rotation matrix of the link at zero configuration, shape [3, 3]."""
        return rotations(self.arm.T_world_link[3:])

    def forward(self, joint_q: Floats) -> tuple[Targets, Floats]:
        """Return the poses of the link, and the axes and points of the joints in the world, shape [n, 2, 6, 3]."""
        count = len(joint_q)
        rotation, shift = np.tile(np.eye(3), (count, 1, 1)), np.zeros((count, 3))
        joints = np.zeros((count, 2, 6, 3))
        for k, (axis, point) in enumerate(zip(self.arm.axes, self.arm.points, strict=True)):
            joints[:, 0, k], joints[:, 1, k] = rotation @ axis, rotation @ point + shift
            across = np.cross(np.eye(3), axis)  # matrix of the cross product with the axis
            sine, cosine = np.sin(joint_q[:, k, None, None]), np.cos(joint_q[:, k, None, None])
            rotation = rotation @ (np.eye(3) + sine * across + (1.0 - cosine) * (across @ across))
            shift = joints[:, 1, k] - rotation @ point
        return Targets(rotation @ self.arm.T_world_link[:3] + shift, rotation @ self.zero_rotation), joints

    def errors(self, reached: Targets, targets: Targets) -> Floats:
        """Return distances as shares of the arm's length, and rotation vectors of small turns, shape [n, 6]."""
        turn = targets.rotations @ reached.rotations.transpose(0, 2, 1)
        vector = 0.5 * np.stack([turn[:, i, j] - turn[:, j, i] for i, j in ((2, 1), (0, 2), (1, 0))], axis=-1)
        return np.concatenate([(targets.positions - reached.positions) / self.arm.length, vector], axis=1)

    def jacobian(self, reached: Targets, joints: Floats) -> Floats:
        """Return the Jacobian of `errors`' opposite, shape [n, 6, 6]."""
        axes, points = joints[:, 0], joints[:, 1]
        moved = np.cross(axes, reached.positions[:, None] - points) / self.arm.length
        return np.concatenate([moved, axes], axis=2).transpose(0, 2, 1)

    def error_size(self, joint_q: Floats, targets: Targets) -> Floats:
        """Return the larger of distance [m] and angle [rad] to the targets, shape [n]."""
        reached, _ = self.forward(joint_q)
        distance = np.linalg.norm(targets.positions - reached.positions, axis=1)
        chord = np.linalg.norm(targets.rotations - reached.rotations, axis=(1, 2)) / np.sqrt(2.0)
        return np.maximum(distance, chord)

    def refined(self, joint_q: Floats, targets: Targets) -> Floats:
        """Return configurations after Newton's method, shape [n, 6]."""
        for _ in range(STEPS):
            reached, joints = self.forward(joint_q)
            jacobian = self.jacobian(reached, joints)
            back = jacobian.transpose(0, 2, 1)
            downhill = back @ self.errors(reached, targets)[:, :, None]
            step = np.linalg.solve(back @ jacobian + DAMPING * np.eye(6), downhill)[:, :, 0]
            joint_q = joint_q + np.clip(step, -STEP_MAX, STEP_MAX)
        return joint_q

    def room(self, joint_q: Floats) -> Floats:
        """Return the least distance from a limit on the turn nearest the middle [rad], negative outside."""
        is_bounded = np.isfinite(self.lower) & np.isfinite(self.upper)
        lower, upper = (np.where(is_bounded, end, 0.0) for end in (self.lower, self.upper))
        middle, half = 0.5 * (upper + lower), 0.5 * (upper - lower)
        from_middle = np.abs((joint_q - middle + np.pi) % (2 * np.pi) - np.pi)
        least: Floats = np.where(is_bounded, half - from_middle, np.pi).min(axis=-1)
        return least

    def least_singular_values(self, joint_q: Floats) -> Floats:
        """Return the least singular value of the Jacobian, positions as shares of the arm's length, shape [n]."""
        values: Floats = np.linalg.svd(self.jacobian(*self.forward(joint_q)), compute_uv=False)[:, -1]
        return values

    def hard(self, joint_q: Floats, among: Flags) -> Flags:
        """Return which of some solutions are near a limit or a singular configuration, shape [poses, most]."""
        chosen = joint_q[among]
        hard = np.zeros(among.shape, bool)
        hard[among] = (self.room(chosen) < NEAR_LIMIT) | (self.least_singular_values(chosen) < NEAR_SINGULAR)
        return hard

    def kept(self, joint_q: Floats, targets: Targets, exact: float) -> Flags:
        """Return which solutions are exact to this [m, rad], within limits and no repetitions, [poses, most]."""
        given = np.isfinite(joint_q[..., 0])
        valid = np.zeros(given.shape, bool)
        of_pose = np.nonzero(given)[0]
        valid[given] = (self.error_size(joint_q[given], targets[of_pose]) <= exact) & (
            self.room(joint_q[given]) >= -LIMIT_SLACK
        )
        return is_first(joint_q, valid)
