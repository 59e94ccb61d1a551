"""What looks for answers elsewhere, for problems that a solve has not solved."""

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ik_service.solver.given.options import SolverOptions
from ik_service.solver.launches.result import IKResult
from ik_service.solver.lm.status import IKStatus
from ik_service.solver.problem_batch import ProblemBatch

TimeLeft: TypeAlias = Callable[[], SolverOptions]
"""Gives the options of a solve that begins now: its deadline is what is left of the caller's."""
FoundAnswers: TypeAlias = tuple[NDArray[Any], NDArray[np.bool_]]
"""Configurations [problems, joint_coord_count], and for which problems one has been found."""


class Fallback(Protocol):
    """A search for answers of one solver's problems. The solver judges what it finds.

    Attributes:
        statuses: How the problems have ended that it is for.
    """

    statuses: tuple[IKStatus, ...]

    def can_help(self, result: IKResult, batch: ProblemBatch) -> NDArray[np.bool_]:
        """Return for which problems of a solve there is something to search for, whatever their status."""

    def search(self, batch: ProblemBatch, time_left: TimeLeft, joint_q: NDArray[Any]) -> FoundAnswers:
        """Return answers of problems.

        Args:
            batch: The problems.
            time_left: Gives the options of the solve that did not solve them, its deadline what is left of it.
            joint_q: Its answers [problems, joint_coord_count].
        """

    def judging(
        self, batch: ProblemBatch, chosen: NDArray[Any], options: SolverOptions
    ) -> tuple[ProblemBatch, SolverOptions]:
        """Return the solve that judges chosen configurations.

        It is a whole solve, whose own answers are left aside; what it tells of its course is of its own attempts.

        Args:
            batch: The problems.
            chosen: The configurations.
            options: Options of the solve that did not solve them, without its deadline.
        """
