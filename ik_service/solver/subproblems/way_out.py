"""What looks for answers without contact, for problems whose answers are in contact."""

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ik_service.solver.options import SolverOptions
from ik_service.solver.problem_batch import ProblemBatch
from ik_service.solver.result import IKResult

TimeLeft: TypeAlias = Callable[[], SolverOptions]
"""Gives the options of a solve that begins now: its deadline is what is left of the caller's."""
FreeAnswers: TypeAlias = tuple[NDArray[Any], NDArray[np.bool_]]
"""Configurations [problems, joint_coord_count], and which of them have been found without contact."""


class WayOut(Protocol):
    """A search for answers of one solver's problems that are free of contact. The solver judges what it finds."""

    def can_help(self, result: IKResult) -> NDArray[np.bool_]:
        """Return for which problems of a result there is something to search for."""

    def search(self, batch: ProblemBatch, time_left: TimeLeft, joint_q: NDArray[Any]) -> FreeAnswers:
        """Return answers of problems.

        Args:
            batch: The problems.
            time_left: Gives the options of the solve that led into contact, its deadline what is left of it.
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
            options: Options of the solve that led into contact, without its deadline.
        """
