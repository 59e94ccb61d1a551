"""Turns of joints: angles that differ by full turns are equal in pose, within the range of a joint."""

import numpy as np
from numpy.typing import NDArray

from ik_service.mechanism.transforms import Float64Array
from ik_service.motion.metric import FULL_TURN, FloatArray, JointMetric
from ik_service.robots import RobotModel

ANGLE_SLACK = 1e-6  # [rad]
TURN_COST = 1e-9  # of a start one turn away from the middle of the range: decides between equal starts
BACK_COST = 1e6  # of turning back, beside the squared change: fewest times first


def centred(robot: RobotModel, metric: JointMetric, joint_q: FloatArray) -> FloatArray:
    """Return configurations [..., coordinates] with limited angles nearest to mid-range, half a turn before a limit."""
    centred_q = joint_q.copy()
    for dof in metric.dofs[metric.turning]:
        lower, upper = robot.joint_limit_lower[dof], robot.joint_limit_upper[dof]
        if np.isfinite(lower) and np.isfinite(upper):
            c = robot.dof_coordinate[dof]
            turns = np.round((centred_q[..., c] - 0.5 * (lower + upper)) / FULL_TURN)
            centred_q[..., c] = np.clip(centred_q[..., c] - FULL_TURN * turns, lower, upper)
    return centred_q


def unwound(robot: RobotModel, metric: JointMetric, joint_q: FloatArray, start: FloatArray | None) -> FloatArray:
    """Return a path [waypoints, coordinates] with every angle on the turn nearest to the previous waypoint's.

    If the range of a limited joint cannot hold the path, the joint turns back as few times as possible.
    """
    path = joint_q.copy()
    for dof in metric.dofs[metric.turning]:
        c = robot.dof_coordinate[dof]
        lower, upper = robot.joint_limit_lower[dof], robot.joint_limit_upper[dof]
        angle = path[:, c] if start is None else np.concatenate([start[c : c + 1], path[:, c]])
        if not (np.isfinite(lower) and np.isfinite(upper)):
            angle = np.unwrap(angle)
        else:
            angle = _within(angle, float(lower), float(upper), has_start=start is not None)
        path[:, c] = angle if start is None else angle[1:]
    return path


def _within(angle: FloatArray, lower: float, upper: float, *, has_start: bool) -> FloatArray:
    """Give angles inside the limits, equal to the given angles up to full turns."""
    most = int(np.ceil((upper - lower) / FULL_TURN))
    unwrapped = np.unwrap(angle)
    beside = float(np.mean(unwrapped)) - 0.5 * (lower + upper)
    for turns in [0] if has_start else sorted(range(-most, most + 1), key=lambda k: abs(beside + FULL_TURN * k)):
        moved = unwrapped + FULL_TURN * turns
        if (moved >= lower - ANGLE_SLACK).all() and (moved <= upper + ANGLE_SLACK).all():
            clipped: FloatArray = np.clip(moved, lower, upper)
            return clipped
    return _turning_back(angle, lower, upper, has_start=has_start)


def _turning_back(angle: FloatArray, lower: float, upper: float, *, has_start: bool) -> FloatArray:
    """Choose a turn per waypoint, for paths beyond the range of every single turn: a shortest path."""
    unwrapped = np.unwrap(angle)
    first = int(np.floor((lower - unwrapped.max()) / FULL_TURN))
    last = int(np.ceil((upper - unwrapped.min()) / FULL_TURN))
    values = unwrapped[:, None] + FULL_TURN * np.arange(first, last + 1)
    outside = (values < lower - ANGLE_SLACK) | (values > upper + ANGLE_SLACK)
    if has_start:
        outside[0] = np.arange(first, last + 1) != 0
    total: Float64Array = np.where(outside[0], np.inf, TURN_COST * np.abs(values[0] - 0.5 * (lower + upper)))
    before: NDArray[np.intp] = np.zeros(values.shape, np.intp)
    for k in range(1, len(values)):
        change = np.abs(values[k] - values[k - 1][:, None])
        sums = total[:, None] + change**2 + BACK_COST * (change > 0.5 * FULL_TURN)
        before[k] = sums.argmin(axis=0)
        total = np.where(outside[k], np.inf, sums.min(axis=0))
    chosen = [int(total.argmin())]
    for k in range(len(values) - 1, 0, -1):
        chosen.append(int(before[k, chosen[-1]]))
    clipped: FloatArray = np.clip(values[np.arange(len(values)), chosen[::-1]], lower, upper)
    return clipped
