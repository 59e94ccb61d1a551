"""The problems of a solve: what is given for each of them, checked."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ik_service.solver.arrays.pose_targets import PoseTargets
from ik_service.solver.given.asked_limits import AskedLimits
from ik_service.solver.given.reading import has_lines_per_problem, part_of
from ik_service.solver.given.target_arrays import TargetArrays
from ik_service.solver.given.worlds import CheckedWorlds
from objectives import IKObjective
from objectives.expression.expression_objective import ExpressionObjective

_AS_IT_IS = nullcontext()


class ProblemBatch(NamedTuple):
    """Problems in the robot's own order of coordinates."""

    given: TargetArrays  # values of the targets
    # configurations of seed 0, [joint_coord_count] or [problems, joint_coord_count]; None for none
    start: NDArray[Any] | None = None
    # which constraints are to be met, [1 or problems, constraints]; None for all
    enabled: NDArray[np.bool_] | None = None
    # what is checked for collision beside the robot itself; None for no check at all
    worlds: CheckedWorlds | None = None
    limits: AskedLimits | None = None  # joint limits of these problems; None for the robot's
    # which lines of the data of targets and objectives these problems have; None where line k is problem k's
    lines: NDArray[np.intp] | None = None

    @property
    def size(self) -> int:
        """Number of problems."""
        return self.given.problem_count

    def part(self, problems: NDArray[np.intp]) -> "ProblemBatch":
        """Return some of the problems."""
        start, enabled = self.start, self.enabled
        return ProblemBatch(
            self.given.part(problems),
            start if start is None or start.ndim == 1 else start[problems],
            enabled if enabled is None or len(enabled) == 1 else enabled[problems],
            None if self.worlds is None else self.worlds.part(problems),
            None if self.limits is None else self.limits.part(problems),
            problems if self.lines is None else self.lines[problems],
        )

    def data_of(self, targets: PoseTargets, objectives: Sequence[IKObjective]) -> AbstractContextManager[None]:
        """Let targets and objectives have the data of these problems alone, for a block."""
        return _AS_IT_IS if self.lines is None else _narrowed(self.lines, targets, objectives)


@contextmanager
def _narrowed(lines: NDArray[np.intp], targets: PoseTargets, objectives: Sequence[IKObjective]) -> Iterator[None]:
    whole = targets.all
    with ExitStack() as undo:
        for objective in objectives:
            if isinstance(objective, ExpressionObjective):
                undo.callback(objective.use_lines, None)
                objective.use_lines(lines)
        if targets.with_lines:
            undo.callback(targets.take, whole)
            targets.take(tuple(part_of(target, lines) for target in whole))
        yield


def can_be_parted(objective: IKObjective) -> bool:
    """Return whether its data can be narrowed to some of the problems."""
    return isinstance(objective, ExpressionObjective) or not has_lines_per_problem(objective)
