"""Turns: the choice among angles that differ by full turns, equal in pose, within a joint's range."""

import numpy as np

from ik_service.motion.choice import Edges, choose
from ik_service.motion.metric import FULL_TURN, FloatArray, JointMetric
from ik_service.robots import RobotModel

ANGLE_SLACK = 1e-6  # [rad]
TURN_COST = 1e-9  # of a start one turn away from the middle of the range: decides between equal starts


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


def unwound(
    robot: RobotModel, metric: JointMetric, joint_q: FloatArray, largest_step: FloatArray, start: FloatArray | None
) -> FloatArray:
    """Return a path [waypoints, coordinates] with every angle on the turn nearest to the previous waypoint's.

    If the range of a limited joint cannot hold the path, turns are chosen like candidates: the joint turns back at the
    cheapest place. `largest_step` are the changes within the speed limits, [dofs of the metric].
    """
    path = joint_q.copy()
    for place in np.flatnonzero(metric.turning):
        dof = metric.dofs[place]
        c = robot.dof_coordinate[dof]
        lower, upper = robot.joint_limit_lower[dof], robot.joint_limit_upper[dof]
        angle = path[:, c] if start is None else np.concatenate([start[c : c + 1], path[:, c]])
        if not (np.isfinite(lower) and np.isfinite(upper)):
            angle = np.unwrap(angle)
        else:
            angle = _within(angle, float(lower), float(upper), float(largest_step[place]), has_start=start is not None)
        path[:, c] = angle if start is None else angle[1:]
    return path


def _within(angle: FloatArray, lower: float, upper: float, largest_step: float, *, has_start: bool) -> FloatArray:
    """Give angles inside the limits, equal to the given angles up to full turns."""
    most = int(np.ceil((upper - lower) / FULL_TURN))
    unwrapped = np.unwrap(angle)
    beside = float(np.mean(unwrapped)) - 0.5 * (lower + upper)
    for turns in [0] if has_start else sorted(range(-most, most + 1), key=lambda k: abs(beside + FULL_TURN * k)):
        moved = unwrapped + FULL_TURN * turns
        if (moved >= lower - ANGLE_SLACK).all() and (moved <= upper + ANGLE_SLACK).all():
            clipped: FloatArray = np.clip(moved, lower, upper)
            return clipped
    return _turning_back(angle, lower, upper, largest_step, has_start=has_start)


def _turning_back(angle: FloatArray, lower: float, upper: float, largest_step: float, *, has_start: bool) -> FloatArray:
    """Choose a turn per waypoint, for paths beyond the range of every single turn."""
    unwrapped = np.unwrap(angle)
    first = int(np.floor((lower - unwrapped.max()) / FULL_TURN))
    last = int(np.ceil((upper - unwrapped.min()) / FULL_TURN))
    values = unwrapped[:, None] + FULL_TURN * np.arange(first, last + 1)
    valid = (values >= lower - ANGLE_SLACK) & (values <= upper + ANGLE_SLACK)
    if has_start:
        valid[0] = np.arange(first, last + 1) == 0
    change = np.abs(values[1:, None, :] - values[:-1, :, None])
    change[~(valid[:-1, :, None] & valid[1:, None, :])] = np.inf
    edges = Edges(np.maximum(change / largest_step, 1.0), change, change**2)
    chosen = choose(edges, valid, TURN_COST * np.abs(values[0] - 0.5 * (lower + upper)))
    clipped: FloatArray = np.clip(values[np.arange(len(values)), chosen], lower, upper)
    return clipped
