"""Tracks: configurations along the path, each solved from the one at the neighbouring waypoint; choice of a track.

Tracks begin at a few anchors, with several solutions each, and run in both directions until they fail. A step from a
near configuration is a least-squares move of the joints, so a track of a redundant arm is smooth. All steps of a sweep
form one batch. Tracks are chosen group by group; turns of limited joints are distinguished if necessary.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ik_service.motion.choice import ANGLE_SLACK, Edges, centred, choose, unwound
from ik_service.motion.metric import FULL_TURN, FloatArray, JointMetric
from ik_service.motion.waypoints import Group, Waypoints
from ik_service.robots import RobotModel

ANCHORS = 5
ROUNDS = 4  # of anchors; later rounds serve waypoints without a track
STARTS_PER_SOLUTION = 8  # random starts at an anchor
MERGED = 1e-3  # [m or rad] distance below which tracks have met


@dataclass(frozen=True, eq=False)
class Tracks:
    """Candidates of every waypoint."""

    joint_q: FloatArray  # configurations, float32 [waypoints, tracks, coordinates]
    alive: NDArray[np.bool_]  # groups of joints with a solution, bool [waypoints, tracks, groups]


@dataclass(frozen=True, eq=False)
class _Beginnings:
    """Anchors and configurations where tracks begin."""

    anchor: NDArray[np.intp]  # [tracks]
    joint_q: FloatArray  # [tracks, coordinates]
    alive: NDArray[np.bool_]  # [tracks, groups]: successful groups


def find_tracks(
    waypoints: Waypoints,
    first: FloatArray,  # a solution of each waypoint, [waypoints, coordinates]; the last of the tracks
    success: NDArray[np.bool_],  # groups of joints solved by `first`, [waypoints, groups]
    solutions: int,  # solutions per anchor
    start: FloatArray | None,  # configuration to begin at, or None
) -> Tracks:
    """Follow the path from several solutions at several waypoints."""
    anchors, found = _anchors(success), []
    for _ in range(ROUNDS):
        found.append(_swept(waypoints, _beginnings(waypoints, anchors, first, solutions, start)))
        alone = success & ~np.any([tracks.alive.any(axis=1) for tracks in found], axis=0)
        if not alone.any():
            break
        anchors = _middles(alone)
    found.append(Tracks(first[:, None].astype(np.float32), success[:, None]))
    joint_q, alive = ([getattr(tracks, name) for tracks in found] for name in ("joint_q", "alive"))
    return Tracks(np.concatenate(joint_q, axis=1), np.concatenate(alive, axis=1))


def _middles(alone: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Give the middles of the longest stretches with a single known solution."""
    runs = []
    for lonely in alone.T:
        edges = np.flatnonzero(np.diff(np.concatenate([[0], lonely, [0]]).astype(np.int8)))
        runs += [(end - begin, (begin + end) // 2) for begin, end in zip(edges[::2], edges[1::2], strict=True)]
    return np.unique([middle for _, middle in sorted(runs, reverse=True)[:ANCHORS]])


def _anchors(success: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Give waypoints spread over the path, and both ends of reachable stretches."""
    chosen = [np.zeros(0, dtype=np.intp)]
    for solved in success.T:
        reached = np.flatnonzero(solved)
        if reached.size:
            places = np.linspace(0, reached.size - 1, ANCHORS).round().astype(np.intp)
            ends = np.flatnonzero(np.diff(reached) > 1)[: ANCHORS // 2]
            chosen += [reached[places], reached[ends], reached[ends + 1]]
    return np.unique(np.concatenate(chosen))


def _beginnings(
    waypoints: Waypoints, anchors: NDArray[np.intp], first: FloatArray, solutions: int, start: FloatArray | None
) -> _Beginnings:
    robot, rng = waypoints.robot, np.random.default_rng(waypoints.options.random_seed)
    drawn = robot.random_joint_q(rng, STARTS_PER_SOLUTION * solutions)
    found: list[tuple[NDArray[np.intp], FloatArray, NDArray[np.bool_]]] = []
    for anchor in anchors:
        starts = np.concatenate([first[anchor : anchor + 1], drawn])
        if start is not None and anchor == 0:
            starts = np.concatenate([start[None], starts])
        joint_q, good = waypoints.solved(np.full(len(starts), anchor), starts)
        lists = [
            _distinct(group, joint_q, good[:, k], solutions, waypoints.options.solution_difference)
            for k, group in enumerate(waypoints.groups)
        ]
        count = max(map(len, lists))
        together = np.tile(first[anchor].astype(np.float32), (count, 1))
        alive = np.zeros((count, len(lists)), dtype=bool)
        for k, (group, chosen) in enumerate(zip(waypoints.groups, lists, strict=True)):
            together[: len(chosen), group.coordinates] = joint_q[np.ix_(chosen, group.coordinates)]
            alive[: len(chosen), k] = True
        found.append((np.full(count, anchor), together, alive))
    return _Beginnings(*(np.concatenate(parts) for parts in zip(*found, strict=True)))


def _distinct(
    group: Group, joint_q: FloatArray, good: NDArray[np.bool_], most: int, difference: float
) -> NDArray[np.intp]:
    chosen: list[int] = []
    for k in np.flatnonzero(good):
        gaps = group.metric.change(joint_q[chosen], joint_q[k]) if chosen else np.full((1, 1), np.inf)
        if np.abs(gaps).max(axis=1).min() > difference:
            chosen.append(int(k))
            if len(chosen) == most:
                break
    return np.array(chosen, dtype=np.intp)


def _swept(waypoints: Waypoints, beginnings: _Beginnings) -> Tracks:
    """Run tracks in both directions, until they fail or meet another track at its anchor."""
    count, n = len(beginnings.anchor), len(waypoints)
    tracks = Tracks(
        np.zeros((n, count, beginnings.joint_q.shape[1]), np.float32),
        np.zeros((n, count, len(waypoints.groups)), dtype=bool),
    )
    tracks.joint_q[beginnings.anchor, np.arange(count)] = beginnings.joint_q
    tracks.alive[beginnings.anchor, np.arange(count)] = beginnings.alive
    track = np.tile(np.arange(count), 2)
    place = np.tile(beginnings.anchor, 2)
    way = np.repeat([1, -1], count)
    joint_q = np.tile(beginnings.joint_q, (2, 1))
    alive = np.tile(beginnings.alive, (2, 1))
    metrics = [group.metric for group in waypoints.groups]
    while True:
        place = place + way
        going = np.flatnonzero((place >= 0) & (place < n) & alive.any(axis=1))
        if not going.size:
            return tracks
        track, place, way, alive = track[going], place[going], way[going], alive[going]
        starts = joint_q[going]
        for metric in metrics:
            starts = centred(waypoints.robot, metric, starts)
        joint_q, good = waypoints.solved(place, starts)
        for k, group in enumerate(waypoints.groups):  # failed groups keep their configuration
            failed = np.flatnonzero(~good[:, k])
            joint_q[np.ix_(failed, group.coordinates)] = starts[np.ix_(failed, group.coordinates)]
        alive &= good
        alive &= ~_met(waypoints, beginnings, track, place, joint_q)
        tracks.joint_q[place, track] = joint_q
        tracks.alive[place, track] = alive


def _met(
    waypoints: Waypoints, beginnings: _Beginnings, track: NDArray[np.intp], place: NDArray[np.intp], joint_q: FloatArray
) -> NDArray[np.bool_]:
    """Give the groups of tracks at the beginning of another track, bool [rows, groups]."""
    met = np.zeros((len(track), len(waypoints.groups)), dtype=bool)
    for row in np.flatnonzero(np.isin(place, beginnings.anchor)):
        others = np.flatnonzero((beginnings.anchor == place[row]) & (np.arange(len(beginnings.anchor)) != track[row]))
        for k, group in enumerate(waypoints.groups):
            change = np.abs(group.metric.change(joint_q[row], beginnings.joint_q[others])).max(axis=1)
            met[row, k] = (change[beginnings.alive[others, k]] < MERGED).any()
    return met


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
