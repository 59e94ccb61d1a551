"""The judgement of answers: errors in float64 on exactly the configurations that are returned.

Shares nothing with the float32 kernels: host forward kinematics, and the errors straight from their definition.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ik_service.robots import RobotModel
from ik_service.robots.transforms import quaternion_conjugate, quaternion_multiply, quaternion_rotate
from ik_service.solver.targets import Target, TargetArrays

Float64 = NDArray[np.float64]


@dataclass(frozen=True)
class Judgement:
    """Errors of every problem and target.

    Attributes:
        position_error: [m], shape [problem_count, targets]; NaN where positions are unconstrained.
        orientation_error: [rad], shape [problem_count, targets]; NaN where orientations are unconstrained.
    """

    position_error: Float64
    orientation_error: Float64

    def met(self, position_tolerance: float, orientation_tolerance: float) -> NDArray[np.bool_]:
        """Return whether each target is within both tolerances, shape [problem_count, targets]."""
        position = np.isnan(self.position_error) | (self.position_error <= position_tolerance)
        orientation = np.isnan(self.orientation_error) | (self.orientation_error <= orientation_tolerance)
        return np.asarray(position & orientation)


def judge(
    robot: RobotModel, targets: Sequence[Target], arrays: TargetArrays, joint_q: NDArray[np.float32]
) -> Judgement:
    """Return the errors of configurations.

    The position error is the distance from target to tool over the weighted axes. The orientation error is the angle
    of the rotation between them, or, where only some axes are weighted, the length of its rotation vector over those.

    Args:
        robot: The robot.
        targets: Declared targets.
        arrays: Target values.
        joint_q: Configurations, float32 [problem_count, joint_coord_count].
    """
    count = arrays.problem_count
    position_error = np.full((count, len(targets)), np.nan)
    orientation_error = np.full((count, len(targets)), np.nan)
    links = sorted({t.link for t in targets} | {t.reference_link for t in targets if t.reference_link})
    if links:
        poses = robot.forward_kinematics(joint_q, links)
        frames = {link: (poses.positions[:, k], poses.orientations_xyzw[:, k]) for k, link in enumerate(links)}
    for k, target in enumerate(targets):
        position, rotation = tool_pose(target, frames)
        weighted = axis_weights(target, arrays, k) > 0.0
        goal_position, goal_rotation = arrays.positions[k], arrays.orientations_xyzw[k]
        if goal_position is not None:
            error = np.linalg.norm(np.where(weighted[:, :3], position - goal_position, 0.0), axis=1)
            position_error[:, k] = np.where(weighted[:, :3].any(axis=1), error, np.nan)
        if goal_rotation is not None:
            turn = np.where(weighted[:, 3:], _rotation_vector(rotation, goal_rotation), 0.0)
            error = np.linalg.norm(turn, axis=1)
            orientation_error[:, k] = np.where(weighted[:, 3:].any(axis=1), error, np.nan)
    return Judgement(position_error, orientation_error)


def tool_pose(target: Target, frames: dict[str, tuple[Float64, Float64]]) -> tuple[Float64, Float64]:
    """Return the tool's position and orientation xyzw in the target's reference frame."""
    position, rotation = frames[target.link]
    if target.offset is not None:
        offset = np.atleast_2d(np.asarray(target.offset, np.float64))
        position = position + quaternion_rotate(rotation, offset[:, :3])
        rotation = quaternion_multiply(rotation, offset[:, 3:])
    if target.reference_link is not None:
        origin, turn = frames[target.reference_link]
        inverse = quaternion_conjugate(turn)
        position, rotation = quaternion_rotate(inverse, position - origin), quaternion_multiply(inverse, rotation)
    return position, rotation


def axis_weights(target: Target, arrays: TargetArrays, index: int) -> Float64:
    """Return the weights of a target's six rows in every problem, zero where it has no value, [problem_count, 6]."""
    given = np.ones(6) if target.row_weights is None else np.asarray(target.row_weights, np.float64)
    weights = np.broadcast_to(given, (arrays.problem_count, 6)).copy()
    if arrays.positions[index] is None:
        weights[:, :3] = 0.0
    if arrays.orientations_xyzw[index] is None:
        weights[:, 3:] = 0.0
    return weights


def _rotation_vector(q: Float64, goal: Float64) -> Float64:
    """Rotation vector from goal to q [rad], shape [n, 3]; the angle is at most pi."""
    error = quaternion_multiply(q, quaternion_conjugate(goal))
    error = np.where(error[:, 3:] < 0.0, -error, error)
    sine = np.linalg.norm(error[:, :3], axis=1, keepdims=True)
    angle = 2.0 * np.arctan2(sine, error[:, 3:])
    return np.asarray(error[:, :3] * np.where(sine > 1e-300, angle / np.maximum(sine, 1e-300), 2.0))
