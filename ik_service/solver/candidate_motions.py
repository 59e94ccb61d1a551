"""Samples of the self-motions of candidates: their values are known before contact is looked for.

all candidates -> free samples -> their candidates, more finely -> free samples -> windows around the best, twice
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ik_service.kinematics.manipulability import lever_length
from ik_service.mechanism.transforms import Float64Array
from ik_service.solver.candidate_values import CandidateValues, Rows, limits_of
from ik_service.solver.compiled.self_motion_samples import PROBLEMS_MAX
from ik_service.solver.given.batch import Batch

UNLIMITED = 1e3  # limit of a joint without one [rad]
SAMPLES_OF_GROUP = 1024  # best samples of a group in use


class MotionLevel(NamedTuple):
    """A level of the search."""

    leaders: int  # candidates of a group, or windows of these
    slack: float  # by which values may be worse than the best of the group, as a share
    window: float  # as a share of the range of the last joint
    checked: int  # samples of a group checked for contact at once


MOTION_LEVELS = (
    MotionLevel(0, 0.3, 1.0, 128),
    MotionLevel(96, 0.3, 1 / 4, 256),
    MotionLevel(32, 0.06, 1 / 64, 128),
    MotionLevel(8, 0.01, 1 / 1024, 64),
)
WHOLE = 1 / 4  # windows of this share are laid side by side over the range


class CandidateMotions:
    """The self-motions of the candidates of a batch."""

    def __init__(
        self,
        sample: Callable[[Batch], tuple[NDArray[Any], ...] | None],  # gives the numbers of `SelfMotionSamples.of`
        last: int,  # active DOF of the last joint of the arm
        values: CandidateValues,
        group: Rows,
        cost: Float64Array,
    ) -> None:
        self._sample, self._last, self._values, self._group, self._cost = sample, last, values, group, cost
        self._column = int(values.robot.dof_coordinate[values.robot.active_dof[last]])
        is_volume = values.criterion == "manipulability"
        self._scale = lever_length(values.robot, values.targets[0].link) ** -3 if is_volume else 0.0
        self._free: list[tuple[Rows, Float64Array, NDArray[Any]]] = []  # answers: candidates, values, configurations

    def add(self, rows: Rows, value: Float64Array, joint_q: NDArray[Any]) -> None:
        """Note free answers of candidates; values are infinite for others."""
        own = np.isfinite(value)
        self._free.append((rows[own], value[own], joint_q[own]))

    def samples(
        self, rows: Rows, level: MotionLevel, best: Float64Array
    ) -> tuple[Rows, Float64Array, NDArray[Any]] | None:
        """Return candidates, values and configurations of samples, best first in each group; None without.

        `rows` are the candidates in the race, `best` the values of the groups.
        """
        most = (best + level.slack * np.abs(best))[self._group]
        rows, batch = self._windows(level, most) if level.leaders else (rows, self._values.batch.part(rows))
        parts = []
        for begin in range(0, len(rows), PROBLEMS_MAX):
            place = np.arange(begin, min(begin + PROBLEMS_MAX, len(rows)))
            found = self._sample(batch.part(place))
            if found is None:
                return None
            problem, numbers, lines, joint_q = found
            own = rows[begin + problem]
            value = self._value_of(own, *numbers.T) + self._cost[own]
            near = np.flatnonzero(value < most[own])
            parts.append((own[near], value[near], joint_q[lines[near]]))
        if not parts:
            return None
        rows, value, joint_q = (np.concatenate(each) for each in zip(*parts, strict=True))
        ordered = np.lexsort((rows, value, self._group[rows]))
        ordered = ordered[place_in_group(self._group[rows[ordered]]) < SAMPLES_OF_GROUP]
        return rows[ordered], value[ordered], joint_q[ordered]

    def _value_of(self, rows: Rows, margin: NDArray[Any], volume: NDArray[Any], last: NDArray[Any]) -> Float64Array:
        if self._scale:
            return np.asarray(-self._scale * volume)
        limits = limits_of(self._values.robot, self._values.batch.limits, rows)
        room = np.minimum(last - limits.lower[:, self._last], limits.upper[:, self._last] - last)
        return np.asarray(-np.minimum(room, margin))

    def _windows(self, level: MotionLevel, most: Float64Array) -> tuple[Rows, Batch]:
        """Return the candidates of the best free answers, and their problems in windows of the last joint."""
        rows, value, joint_q = (np.concatenate(each) for each in zip(*self._free, strict=True))
        angle = joint_q[:, self._column] * (level.window < WHOLE)
        near = np.flatnonzero(value <= most[rows])
        near = near[np.lexsort((angle[near], rows[near], value[near], self._group[rows[near]]))]
        _, first = np.unique(np.column_stack([rows[near], angle[near]]), axis=0, return_index=True)
        near = near[np.sort(first)]
        near = near[place_in_group(self._group[rows[near]]) < level.leaders]
        rows, centre = rows[near], angle[near].astype(np.float64)
        if level.window == WHOLE:
            rows = rows.repeat(round(1 / WHOLE))
        limits = limits_of(self._values.robot, self._values.batch.limits, rows)
        lower, upper = (np.broadcast_to(end, (len(rows), end.shape[1])).copy() for end in (limits.lower, limits.upper))
        ends = [np.clip(end[:, self._last], -UNLIMITED, UNLIMITED) for end in (lower, upper)]
        half = np.minimum(0.5 * (ends[1] - ends[0]), np.pi)
        if level.window == WHOLE:
            centre = 0.5 * (ends[0] + ends[1]) + half * np.tile(np.arange(WHOLE - 1.0, 1.0, 2.0 * WHOLE), len(near))
        lower[:, self._last] = np.clip(centre - level.window * half, *ends)
        upper[:, self._last] = np.clip(centre + level.window * half, *ends)
        frozen = np.broadcast_to(limits.frozen, lower.shape)
        return rows, self._values.batch.part(rows)._replace(
            limits=limits._replace(lower=lower, upper=upper, frozen=frozen)
        )


def place_in_group(group: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the place of each line within the group of the line; lines are sorted by group."""
    return np.arange(len(group)) - np.searchsorted(group, group)
