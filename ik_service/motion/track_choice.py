"""Choice of a track for each waypoint, group by group; turns of limited joints are distinguished if necessary."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ik_service.motion.choice import Edges, choose
from ik_service.motion.metric import FULL_TURN, FloatArray, JointMetric
from ik_service.motion.tracks import MERGED, Tracks
from ik_service.motion.turns import ANGLE_SLACK, unwound
from ik_service.motion.waypoints import Group
from ik_service.robots import RobotModel

EDGES_MAX = 2**24  # edges in memory


def choose_tracks(
    robot: RobotModel,
    tracks: Tracks,
    number: int,  # of the group of joints
    group: Group,
    largest_step: FloatArray,  # largest changes per step within the speed limits, [dofs of the group]
    start: FloatArray | None,  # configuration before the first waypoint, [coordinates], or None
) -> NDArray[np.intp]:
    """Return the track of every waypoint, [waypoints], -1 without a solution.

    Angles take the short way at first. If the range of a joint cannot hold the path, its turns are distinguished, and
    another branch within the range may be chosen.
    """
    chosen = np.full(len(tracks.alive), -1)
    layers = np.flatnonzero(tracks.alive[:, :, number].any(axis=1))
    if not layers.size:
        return chosen
    candidates, valid, columns = _compressed(tracks.joint_q[layers], tracks.alive[layers][:, :, number])
    if start is not None:
        if layers[0] == 0:
            meets = np.abs(group.metric.change(start, candidates[0])).max(axis=1) < MERGED
            valid[0] &= meets | ~(meets & valid[0]).any()
        candidates = np.concatenate([np.broadcast_to(start.astype(np.float32), candidates[:1].shape), candidates])
        valid = np.concatenate([np.arange(valid.shape[1])[None] == 0, valid])
        columns = np.concatenate([columns[:1], columns])
    steps = np.diff(layers if start is None else np.concatenate([[-1], layers]))
    with_turns: list[int] = []
    while True:
        wide, possible, origin = _with_turns(robot, with_turns, candidates, valid, has_start=start is not None)
        if with_turns and wide.shape[1] ** 2 * len(wide) > EDGES_MAX:
            break
        metric = JointMetric(robot, group.metric.dofs.tolist(), one_turn=with_turns)
        picked = choose(Edges.between(metric, wide, possible, steps, largest_step), possible)
        picked = np.take_along_axis(origin, picked[:, None], axis=1)[:, 0]
        taken = columns[np.arange(len(columns)), picked]
        path = candidates[np.arange(len(candidates)), picked].astype(np.float64)
        turning_back = _turning_back(robot, group, path, largest_step, has_start=start is not None)
        back = [dof for dof in turning_back if dof not in with_turns]
        if not back:
            break
        with_turns += back[:1]
    chosen[layers] = taken if start is None else taken[1:]
    return chosen


def _compressed(
    joint_q: FloatArray, alive: NDArray[np.bool_]
) -> tuple[FloatArray, NDArray[np.bool_], NDArray[np.intp]]:
    """Give the existing candidates of every layer side by side, their mask, and their columns."""
    columns = np.argsort(~alive, axis=1, kind="stable")[:, : int(alive.sum(axis=1).max())]
    return np.take_along_axis(joint_q, columns[..., None], axis=1), np.take_along_axis(alive, columns, axis=1), columns


def _with_turns(
    robot: RobotModel, dofs: Sequence[int], candidates: FloatArray, valid: NDArray[np.bool_], *, has_start: bool
) -> tuple[FloatArray, NDArray[np.bool_], NDArray[np.intp]]:
    """Give candidates on all turns of some joints within limits, and the column of origin of each."""
    origin = np.broadcast_to(np.arange(valid.shape[1]), valid.shape)
    for dof in dofs:
        c, lower, upper = robot.dof_coordinate[dof], robot.joint_limit_lower[dof], robot.joint_limit_upper[dof]
        most = int(np.ceil((upper - lower) / FULL_TURN))
        turns = np.repeat(np.arange(-most, most + 1), valid.shape[1])
        candidates, valid, origin = (
            np.concatenate([array] * (2 * most + 1), axis=1) for array in (candidates, valid, origin)
        )
        candidates[:, :, c] += FULL_TURN * turns
        valid &= (candidates[:, :, c] >= lower - ANGLE_SLACK) & (candidates[:, :, c] <= upper + ANGLE_SLACK)
        if has_start:
            valid[0] &= turns == 0
        candidates, valid, columns = _compressed(candidates, valid)
        origin = np.take_along_axis(origin, columns, axis=1)
    return candidates, valid, origin


def _turning_back(
    robot: RobotModel, group: Group, path: FloatArray, largest_step: FloatArray, *, has_start: bool
) -> list[int]:
    """Give the joints that turn back on a path because their range cannot hold the path."""
    rest, start = (path[1:], path[0]) if has_start else (path, None)
    final = unwound(robot, group.metric, rest, largest_step, start)
    if has_start:
        final = np.concatenate([path[:1], final])
    change = np.abs(group.metric.straight(final[:-1], final[1:]))
    return [int(dof) for dof in group.metric.dofs[(change > 0.5 * FULL_TURN).any(axis=0) & group.metric.turning]]
