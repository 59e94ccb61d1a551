"""Tracks: configurations along the path, each solved from the configuration at the neighbouring waypoint.

Tracks begin at a few anchors, with several solutions each, and run in both directions until they fail. A step from a
near configuration is a least-squares move of the joints, so a track of a redundant arm is smooth. All steps of a sweep
form one batch.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ik_service.motion.metric import FloatArray
from ik_service.motion.turns import centred
from ik_service.motion.waypoints import Group, Waypoints

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
