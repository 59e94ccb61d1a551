"""What rows and trees have to do with each other: the constant part of an island problem, on the device."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray


@dataclass(frozen=True)
class RowStructure:
    """Which trees each row joins, and what each tree holds; int32 device arrays.

    A pair of arrays named `a_badr`, `a_b` lists the b of every a: those of a stand at `a_b[a_badr[a] : a_badr[a + 1]]`.

    Attributes:
        row_treeadr: Shape [rows + 1].
        row_tree: Trees in the support of each row, increasing.
        tree_rowadr: Shape [trees + 1].
        tree_row: Rows whose support holds DOFs of each tree, increasing.
        dof_tree: Tree of each DOF of the system, shape [dofs].
        coordinate_tree: Tree of each coordinate, -1 where none moves it, shape [coordinates].
        tree_sizes: Number of DOFs of each tree, on the host, shape [trees].
    """

    row_treeadr: wp.array[Any]
    row_tree: wp.array[Any]
    tree_rowadr: wp.array[Any]
    tree_row: wp.array[Any]
    dof_tree: wp.array[Any]
    coordinate_tree: wp.array[Any]
    tree_sizes: NDArray[np.int64]

    @classmethod
    def build(
        cls,
        incidence: NDArray[np.bool_],
        dof_tree: NDArray[np.int32],
        coordinate_tree: NDArray[np.int32],
        device: wp.Device | str,
    ) -> "RowStructure":
        """Return the structure of a system.

        Args:
            incidence: Whether the support of a row holds DOFs of a tree, shape [rows, trees].
            dof_tree: Tree of each DOF, shape [dofs].
            coordinate_tree: Tree of each coordinate, -1 for none, shape [coordinates].
            device: Where the arrays are to live.
        """
        lists = (*_lists(incidence), *_lists(incidence.T), dof_tree, coordinate_tree)
        fields: list[Any] = [wp.array(values.astype(np.int32), dtype=wp.int32, device=device) for values in lists]
        fields.append(np.bincount(dof_tree, minlength=incidence.shape[1]))
        return cls(*fields)

    @property
    def row_count(self) -> int:
        """Number of rows."""
        return int(self.row_treeadr.shape[0]) - 1

    @property
    def tree_count(self) -> int:
        """Number of trees."""
        return int(self.tree_rowadr.shape[0]) - 1


def _lists(incidence: NDArray[np.bool_]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Offsets and column numbers of the true entries, row by row."""
    offsets = np.concatenate([[0], np.cumsum(incidence.sum(axis=1))])
    return offsets, np.nonzero(incidence)[1]
