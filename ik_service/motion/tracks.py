"""Tracks: several configurations of one group of joints, carried along a path within the speed limits.

All tracks move in one batch, in strides of waypoints: each solve has the last configuration as its start, and as limits
the room of the joints within this time. A stride without a solution is halved; a track ends where one waypoint has
none.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.mechanism.transforms import Float64Array
from ik_service.motion.clip_limits import ClipLimits
from ik_service.motion.metric import CHANGE_ROUNDING, JointMetric
from ik_service.motion.result import FAR_STEP, FASTER
from ik_service.motion.turns import centred
from ik_service.motion.waypoints import Group, Waypoints
from ik_service.solver.given.requested_limits import RequestedLimits

Places = NDArray[np.intp]
FIRST_STRIDE, STRIDE = 4, 64  # waypoints: at first, at most
WAY = 0.15  # of a joint in a stride [rad or m]
ROWS_MAX = 4096  # waypoints in one solve
OPEN_STEP = 0.5  # largest step from waypoint to waypoint of a joint without a speed limit [rad or m]


@dataclass(frozen=True, eq=False)
class Piece:
    """Configurations at some places, ascending."""

    place: Places  # [nodes]
    joint_q: Float64Array  # [nodes, coordinates]


class GroupSolver:
    """Solves waypoints of one group of joints; the other joints keep their configurations.

    A place is an index into the waypoints with a solution for the group.
    """

    def __init__(
        self,
        waypoints: Waypoints,
        group: Group,
        layers: Places,  # waypoints with a solution for the group, ascending
        rest: Float64Array,  # configurations of the other joints, [waypoints, coordinates]
        limits: ClipLimits,  # of all active DOFs with a coordinate
    ) -> None:
        robot = waypoints.robot
        self.group, self.layers, self._rest, self._waypoints = group, layers, rest, waypoints
        own = np.isin(limits.columns, self.group.coordinates)
        self._active = np.flatnonzero(robot.dof_coordinate[robot.active_dof] >= 0)[own]
        self.columns, self._lower, self._upper = limits.columns[own], limits.lower[own], limits.upper[own]
        self.step = np.where(np.isfinite(limits.step[own]), limits.step[own] / CHANGE_ROUNDING, OPEN_STEP)
        self.faster = np.maximum(FASTER * self.step, FAR_STEP)
        self.metric = JointMetric(robot, robot.active_dof[self._active].tolist())
        self._ends = robot.active_limit_lower, robot.active_limit_upper

    def solved(
        self,
        place: Places,
        start: Float64Array,  # [rows, coordinates]
        room: tuple[Float64Array, Float64Array] | None = None,  # limits of `columns`; None for the robot's limits
        *,
        finish: bool = False,  # in the precision of the finish
    ) -> tuple[Float64Array, NDArray[np.bool_]]:
        """Return configurations and whether the group meets the waypoints there, within the room."""
        if len(place) > ROWS_MAX:  # for the memory
            parts = [slice(first, first + ROWS_MAX) for first in range(0, len(place), ROWS_MAX)]
            rooms = [None if room is None else (room[0][part], room[1][part]) for part in parts]
            solved = [self.solved(place[p], start[p], r, finish=finish) for p, r in zip(parts, rooms, strict=True)]
            return np.concatenate([one for one, _ in solved]), np.concatenate([one for _, one in solved])
        robot, at = self._waypoints.robot, self.layers[place]
        first = self._rest[at].copy()
        own = self.group.coordinates
        first[:, own] = start[:, own]
        turned = centred(robot, self.group.metric, first)
        asked = None
        if room is not None:
            shift = (turned - first)[:, self.columns]
            lower, upper = np.maximum(self._lower, room[0] + shift), np.minimum(self._upper, room[1] + shift)
            ends = [lower, np.maximum(lower, upper)]
            if len(self._active) < len(self._ends[0]):
                ends = [np.tile(end, (len(at), 1)) for end in self._ends]
                ends[0][:, self._active], ends[1][:, self._active] = lower, np.maximum(lower, upper)
            asked = RequestedLimits(ends[0], ends[1], np.zeros(ends[0].shape, dtype=bool))
        result = self._waypoints.solve_from(at, turned, asked, finish=finish)
        found, met = result.joint_q.astype(np.float64), self._waypoints.successes(result, self.group)
        if room is not None:
            values = found[:, self.columns]
            inside = np.minimum(np.maximum(values, lower), np.maximum(lower, upper))  # float32 rounds beyond limits
            met &= (np.abs(values - inside) < 1e-5).all(axis=1) & (lower <= upper + 1e-9).all(axis=1)
            found[:, self.columns] = inside
        return found, met

    def change(self, start: Float64Array, end: Float64Array) -> Float64Array:
        """Return the changes of the joints with a coordinate [rad or m], [..., columns]."""
        return np.asarray(self.metric.change(start, end), np.float64)

    def between(self, start: Float64Array, end: Float64Array, share: Any) -> Float64Array:
        """Return configurations a share of the way from start to end, [..., coordinates]."""
        metric = self.group.metric
        return np.asarray(metric.moved(start, share * metric.change(start, end)), np.float64)

    def time(self, first: Any, last: Any) -> Float64Array:
        """Return the number of time steps between places, [..., 1]."""
        return np.asarray(np.abs(self.layers[last] - self.layers[first])[..., None], np.float64)


class Tracks:
    """Configurations carried from one place, in one direction."""

    def __init__(self, solver: GroupSolver, at: int, joint_q: Float64Array, way: int) -> None:
        self._solver, self._way, self.begins = solver, way, joint_q
        self.place = np.full(len(joint_q), at, np.intp)  # the place reached by each track
        self.joint_q, self.cost = joint_q.copy(), np.zeros(len(joint_q))  # cost: squared changes per time step
        self.moved = np.zeros(len(joint_q))  # largest change of a joint in the last stride [rad or m]
        self._log = [(np.arange(len(joint_q)), self.place.copy(), joint_q.copy())]

    def carry(self, last: int, most: int = STRIDE) -> None:
        """Carry all tracks towards a place, each as far as it gets within the speed limits, in strides of `most`."""
        stride, going = np.full(len(self.place), min(most, FIRST_STRIDE)), self.place != last
        while going.any():
            tracks = np.flatnonzero(going)
            step = np.minimum(stride[tracks], np.abs(last - self.place[tracks]))
            met = self._step(tracks, step, self._solver.step)
            going[tracks[~met & (step == 1)]] = False
            going &= self.place != last
            longer = np.clip(step * WAY / np.maximum(self.moved[tracks], 1e-9), step // 2, 2 * step).astype(np.intp)
            stride[tracks] = np.clip(np.where(met, longer, step // 2), 1, most)

    def go_faster(self, last: int) -> bool:
        """Move all tracks by one waypoint beyond their speed limits; return whether one has moved."""
        tracks = np.flatnonzero(self.place != last)
        return len(tracks) > 0 and bool(self._step(tracks, np.ones(len(tracks), np.intp), self._solver.faster).any())

    @property
    def farthest(self) -> int:
        """The farthest place reached by a track."""
        return int(self._way * (self._way * self.place).max())

    def best(self) -> NDArray[np.intp]:
        """Return the tracks by the place reached, farthest first, then by cost."""
        return np.lexsort((self.cost, -self._way * self.place))

    def nodes(self) -> list[Piece]:
        """Return the nodes of each track."""
        tracks, place, joint_q = (np.concatenate(column) for column in zip(*self._log, strict=True))
        own = (np.flatnonzero(tracks == track)[:: self._way] for track in range(len(self.place)))
        return [Piece(place[nodes], joint_q[nodes]) for nodes in own]

    def along(self, place: Places) -> list[tuple[Places, Float64Array]]:
        """Return the configurations of each track at some places, straight between its nodes, with the places."""
        found = []
        for nodes in self.nodes():
            inside = place[(place >= nodes.place[0]) & (place <= nodes.place[-1])]
            if len(nodes.place) > 1 and len(inside):
                after = np.maximum(np.searchsorted(nodes.place, inside), 1)
                left, right = nodes.joint_q[after - 1], nodes.joint_q[after]
                share = (inside - nodes.place[after - 1]) / (nodes.place[after] - nodes.place[after - 1])
                found.append((inside, self._solver.between(left, right, share[:, None])))
        return found

    def _step(self, tracks: NDArray[np.intp], step: Places, most: Float64Array) -> NDArray[np.bool_]:
        """Move tracks by numbers of waypoints, each joint by `most` per time step; return the mask of moved tracks."""
        solver, start = self._solver, self.joint_q[tracks]
        place = self.place[tracks] + self._way * step
        time = solver.time(self.place[tracks], place)
        at = start[:, solver.columns]
        found, met = solver.solved(place, start, (at - time * most, at + time * most))
        change = solver.change(start[met], found[met])
        moved = tracks[met]
        self.joint_q[moved], self.place[moved] = found[met], place[met]
        self.moved[moved] = np.abs(change).max(axis=1, initial=0.0)
        self.cost[moved] += (change**2 / time[met]).sum(axis=1)
        self._log.append((moved, place[met], found[met]))
        return met
