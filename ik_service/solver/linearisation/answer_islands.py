"""Which island each tree and each row of an answer is in."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


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
