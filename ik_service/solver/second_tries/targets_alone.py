"""Answers for problems whose lower-priority rows lead all attempts away from the targets or into contact.

    problems not solved -> targets alone, joints without a target held -> answers, where there are any

Attempts that lower a posture cost beside a target all end at its few minima. With the target alone, a redundant robot
stays near the start of each attempt, so some attempts end free of contact. The other rows are then not at their
minimum.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

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


TargetSolve: TypeAlias = Callable[[tuple[Target, ...], Batch, SolverOptions], IKResult | None]
"""Solves targets without further rows, in the robot's own order of coordinates; None where a number is faulty."""


class TargetsAlone:
    """Search with targets alone, for one solver; all its other rows have lower priority."""

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
        """Return answers of the targets; joints without a target keep their values."""
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
        """Return the verifying solve, started at the answers: their whole turns are chosen already."""
        return batch._replace(start=chosen), replace(options, seeds=1, best_of=None)
