"""A batch of problems: the one form of a request, from Python, HTTP, second tries and paths."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ik_service.solver.given.requested_limits import RequestedLimits
from ik_service.solver.given.targets import Target, part_of
from ik_service.solver.given.worlds import CheckedWorlds

FloatArray = NDArray[np.floating[Any]]
Problems = slice | NDArray[np.intp]
"""Which problems of a batch."""


class Batch(NamedTuple):
    """Problems of one solver, checked; arrays of the host, coordinates in the robot's own order."""

    # target positions [m], [problem_count, 3] per target; None where a target leaves positions free
    positions: tuple[FloatArray | None, ...]
    # target orientations, unit quaternions [problem_count, 4] per target; None where free
    orientations_xyzw: tuple[FloatArray | None, ...]
    problem_count: int
    # configurations of seed 0, [joint_coord_count] or [problem_count, joint_coord_count]; None for none
    start: FloatArray | None = None
    # enabled constraints, bool [1 or problem_count, constraints]; None for all
    enabled: NDArray[np.bool_] | None = None
    worlds: CheckedWorlds | None = None  # obstacles and attached objects of the collision check; None for no check
    limits: RequestedLimits | None = None  # joint limits of these problems; None for the robot's
    # lines of these problems in the data of targets and objectives, [problem_count]; None where problem k has line k
    lines: NDArray[np.intp] | None = None
    targets: tuple[Target, ...] | None = None  # targets with data of these problems alone; None for the solver's own

    @classmethod
    def of(cls, positions: Sequence[Any], orientations_xyzw: Sequence[Any] | None = None) -> "Batch":
        """Return a batch of checked target arrays, an array or None per target; None leaves all orientations free."""
        orientations = (None,) * len(positions) if orientations_xyzw is None else tuple(orientations_xyzw)
        count = next((len(array) for array in (*positions, *orientations) if array is not None), 0)
        return cls(tuple(positions), orientations, count)

    @classmethod
    def joined(cls, batches: "Sequence[Batch]") -> "Batch":
        """Return the problems of several batches without worlds and data of targets, one after the other.

        Starts and limits are given in all or in none; the same constraints are enabled in all.
        """
        first = batches[0]
        counts, targets = [one.problem_count for one in batches], range(len(first.positions))
        limits = [one.limits for one in batches if one.limits is not None]
        return Batch(
            tuple(_joined([one.positions[k] for one in batches]) for k in targets),
            tuple(_joined([one.orientations_xyzw[k] for one in batches]) for k in targets),
            sum(counts),
            _joined([one.start for one in batches]),
            first.enabled,
            limits=RequestedLimits.joined(limits, counts) if limits else None,
        )

    def part(self, problems: Problems) -> "Batch":
        """Return some of the problems."""
        positions, orientations = (
            tuple(None if array is None else array[problems] for array in arrays)
            for arrays in (self.positions, self.orientations_xyzw)
        )
        enabled = self.enabled
        return Batch(
            positions,
            orientations,
            len(range(self.problem_count)[problems]) if isinstance(problems, slice) else len(problems),
            self.start if self.start is None or self.start.ndim == 1 else self.start[problems],
            enabled if enabled is None or len(enabled) == 1 else enabled[problems],
            None if self.worlds is None else self.worlds.part(problems),
            None if self.limits is None else self.limits.part(problems),
            np.arange(self.problem_count)[problems] if self.lines is None else self.lines[problems],
            None if self.targets is None else tuple(part_of(target, problems) for target in self.targets),
        )


def _joined(arrays: Sequence[FloatArray | None]) -> FloatArray | None:
    present = [array for array in arrays if array is not None]
    return np.concatenate(present) if present else None
