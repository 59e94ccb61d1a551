"""Answers that meet targets, for problems whose further rows lead all attempts past them or into contact.

    problems not solved -> targets alone, joints that these do not move as they are -> answers, where there are any

Attempts that lower a posture beside a target all end at its few minima. The target alone leaves a robot with joints to
spare where each attempt finds it, so that some end free of contact. The further rows are not at their minimum then.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ik_service.solver.given.batch import Batch
from ik_service.solver.given.options import SolverOptions
from ik_service.solver.given.targets import Target
from ik_service.solver.lm.status import IKStatus
from ik_service.solver.result import IKResult
from ik_service.solver.rows.binding import RowKind
from ik_service.solver.solve import SolverCore

TimeLeft: TypeAlias = Callable[[], SolverOptions]
"""Gives the options of a solve that begins now: its deadline is what is left of the caller's."""
FoundAnswers: TypeAlias = tuple[NDArray[Any], NDArray[np.bool_]]
"""Configurations [problems, joint_coord_count], and for which problems one has been found."""


class SecondTry(Protocol):
    """A search for answers of one solver's problems. The solver judges what it finds."""

    statuses: tuple[IKStatus, ...]  # how the problems have ended that it is for

    def can_help(self, result: IKResult, batch: Batch) -> NDArray[np.bool_]:
        """Return for which problems of a solve there is something to search for, whatever their status."""

    def search(self, batch: Batch, time_left: TimeLeft, joint_q: NDArray[Any]) -> FoundAnswers:
        """Return answers of problems whose solve ended at `joint_q`."""
        # `time_left` gives the options of that solve, its deadline what is left of it

    def judging(self, batch: Batch, chosen: NDArray[Any], options: SolverOptions) -> tuple[Batch, SolverOptions]:
        """Return the solve that judges chosen configurations, under the options of the solve without its deadline."""
        # It is a whole solve, whose own answers are left aside; what it tells of its course is of its own attempts


class TargetSolve(Protocol):
    """Solver of targets without further rows, in the robot's own order of coordinates."""

    def __call__(self, targets: tuple[Target, ...], batch: Batch, options: SolverOptions) -> IKResult | None:
        """Return answers to targets, of the data that these have; None where a number is faulty."""


class TargetsAlone:
    """Finds such answers for one solver, all of whose further rows yield to its targets."""

    statuses: tuple[IKStatus, ...] = (
        IKStatus.STALLED,
        IKStatus.MAX_ITERATIONS,
        IKStatus.BLOCKED_BY_LIMITS,
        IKStatus.LOOP_OPEN,
        IKStatus.BLOCKED_BY_COLLISION,
    )

    def __init__(self, core: SolverCore, make: Callable[[Sequence[Target]], TargetSolve]) -> None:
        self._core, self._make = core, make
        self._solve: TargetSolve | None = None

    def can_help(self, result: IKResult, batch: Batch) -> NDArray[np.bool_]:
        """Return all problems."""
        return np.ones(len(result), dtype=bool)

    def search(self, batch: Batch, time_left: TimeLeft, joint_q: NDArray[Any]) -> FoundAnswers:
        """Return answers of the targets; joints that no target moves stay as they are."""
        core = self._core
        if self._solve is None:
            self._solve = self._make(core.targets.all)
        start = core.robot.mid_joint_q if batch.start is None else batch.start
        moved = core.layout.coordinates_of(RowKind.TARGET, RowKind.CONSTRAINT)
        near = batch._replace(start=np.where(moved, start, joint_q))
        result = self._solve(core.targets.all, near, replace(time_left(), repair=False))
        assert result is not None  # the same numbers were sound before
        return result.joint_q, result.success

    def judging(self, batch: Batch, chosen: NDArray[Any], options: SolverOptions) -> tuple[Batch, SolverOptions]:
        """Return the solve that judges them, from where they are: they are turned towards the start already."""
        return batch._replace(start=chosen), replace(options, seeds=1, best_of=None)
