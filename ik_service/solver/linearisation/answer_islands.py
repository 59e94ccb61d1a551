"""Which island each tree and each row of an answer is in, and whether answers are those of a solver."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ik_service.solver.inputs.target_arrays import TargetArrays
from ik_service.solver.result import IKResult, ResultHead
from objectives.errors import InputError


class AnswerIslands(NamedTuple):
    """Islands of problems.

    Attributes:
        number: How many each problem has, shape [n].
        tree: Island of each tree, -1 for none, shape [n, trees].
        row: Island of each row, -1 for none, shape [n, rows].
        success: Whether the targets of each are met, shape [n, trees].
    """

    number: NDArray[np.integer]
    tree: NDArray[np.integer]
    row: NDArray[np.integer]
    success: NDArray[np.bool_]

    def part(self, problems: slice | NDArray[np.intp]) -> "AnswerIslands":
        """Give those of some of the problems."""
        return AnswerIslands(self.number[problems], self.tree[problems], self.row[problems], self.success[problems])

    def of(
        self, p: int, is_hard: NDArray[np.bool_], dof_tree: NDArray[np.integer]
    ) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Give the hard rows and the active DOFs of each island of a problem.

        Args:
            p: The problem.
            is_hard: Which rows are hard, shape [rows].
            dof_tree: Tree of each active DOF.
        """
        for island in range(int(self.number[p])):
            yield np.flatnonzero(is_hard & (self.row[p] == island)), np.flatnonzero(self.tree[p, dof_tree] == island)


def check_answers(result: IKResult, head: ResultHead, given: TargetArrays, is_moved: NDArray[np.bool_]) -> None:
    """Check that answers are those of a solver to such targets.

    Args:
        result: The answers.
        head: What is the same in all results of the solver.
        given: The targets.
        is_moved: Whether trees move a row, shape [rows].

    Raises:
        InputError: The robot, the rows or the order of joints are others, or other parts of targets were given.
    """
    own, solved = head.fields, result.islands
    differing = {
        "robot": solved.robot.content_hash != head.robot.content_hash,
        "rows": solved.row_labels != head.row_labels,
        "order of joints": result.coordinate_names != own["coordinate_names"] or result.dof_names != own["dof_names"],
    }
    if any(differing.values()):
        what = " and ".join(name for name, differs in differing.items() if differs)
        raise InputError(f"The result is of another solver: its {what} differ. Give results of this solver.")
    is_on = (solved.row_island >= 0).any(axis=0)
    for part, (name, values) in enumerate(
        {"positions": given.positions, "orientations": given.orientations_xyzw}.items()
    ):
        for k, value in enumerate(values):
            rows = slice(6 * k + 3 * part, 6 * k + 3 * part + 3)
            was_given, can_be = bool(is_on[rows].any()), bool(is_moved[rows].any())
            if value is None and was_given:
                raise InputError(f"Target {k} was solved for with {name}, which are not given. Give them.")
            if value is not None and can_be and not was_given:
                raise InputError(f"Target {k} is given with {name}, without which it was solved for. Leave them out.")
