"""Answers that meet targets without contact, for problems whose further rows lead all attempts into contact.

    answers in contact -> targets alone, joints that these do not move as they are -> answers, where they are free

Attempts that lower a posture beside a target all end at its few minima. The target alone leaves a robot with joints to
spare where each attempt finds it, so that some end free of contact. The further rows are not at their minimum then.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ik_service.solver.inputs.targets import Target
from ik_service.solver.options import SolverOptions
from ik_service.solver.problem_batch import ProblemBatch
from ik_service.solver.result import IKResult


class TargetSolve(Protocol):
    """What solves targets without further rows, in the robot's own order of coordinates."""

    def __call__(self, targets: tuple[Target, ...], batch: ProblemBatch, options: SolverOptions) -> IKResult | None:
        """Return answers to targets, of the data that these have; None where a number is faulty."""


class TargetsAlone:
    """Finds such answers for one solver.

    Args:
        make: Makes what solves targets of the solver's robot.
    """

    def __init__(self, make: Callable[[Sequence[Target]], TargetSolve]) -> None:
        self._make = make
        self._solve: TargetSolve | None = None

    def choose(
        self, targets: tuple[Target, ...], batch: ProblemBatch, options: SolverOptions
    ) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return an answer of each problem, and whether it meets the targets without contact.

        Args:
            targets: The targets of the solver.
            batch: The problems, with starts; joints that no target moves stay there.
            options: Options of the solve.
        """
        if self._solve is None:
            self._solve = self._make(targets)
        result = self._solve(targets, batch, options)
        assert result is not None  # the same numbers were sound before
        return result.joint_q, result.success
