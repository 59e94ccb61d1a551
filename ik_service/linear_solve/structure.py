"""Incidence of rows and trees on the device, constant per robot and set of rows, as structs of arrays."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray


def zeroed(struct: Any, device: wp.Device, other: int | tuple[int, ...], **shapes: int | tuple[int, ...]) -> Any:
    """Return a Warp struct with zeroed arrays: named arrays get their shape, all others the shape `other`.

    Members without arrays are left to the caller. TypeError for the name of no array.
    """
    arrays = struct()
    members: Mapping[str, Any] = struct.vars
    dtypes = {name: member.type.dtype for name, member in members.items() if wp.types.is_array(member.type)}
    if unknown := shapes.keys() - dtypes.keys():
        raise TypeError(f"{struct.key} has no arrays {sorted(unknown)}.")
    for name, dtype in dtypes.items():
        setattr(arrays, name, wp.zeros(shapes.get(name, other), dtype=dtype, device=device))
    return arrays


@wp.struct
class RowStructure:
    """Trees of each row's support, and rows, DOFs and coordinates of each tree.

    A pair of arrays `a_badr`, `a_b` lists the b of every a: `a_b[a_badr[a] : a_badr[a + 1]]`.
    """

    row_treeadr: wp.array[wp.int32]  # [rows + 1]
    row_tree: wp.array[wp.int32]  # trees in the support of each row, increasing
    tree_rowadr: wp.array[wp.int32]  # [trees + 1]
    tree_row: wp.array[wp.int32]  # rows whose support contains DOFs of each tree, increasing
    dof_tree: wp.array[wp.int32]  # [dofs]: tree of each DOF of the system
    coordinate_tree: wp.array[wp.int32]  # [coordinates]: tree of each coordinate, -1: no tree moves the coordinate
    smallest: int  # DOFs of the smallest tree
    largest: int  # DOFs of all trees

    @property
    def row_count(self) -> int:
        """Number of rows."""
        return int(self.row_treeadr.shape[0]) - 1

    @property
    def tree_count(self) -> int:
        """Number of trees."""
        return int(self.tree_rowadr.shape[0]) - 1


def row_structure(
    incidence: NDArray[np.bool_],
    dof_tree: NDArray[np.int32],
    coordinate_tree: NDArray[np.int32],
    device: wp.Device | str,
) -> Any:
    """Return the `RowStructure` of a system on a device.

    `incidence` says whether the support of a row contains DOFs of a tree, shape [rows, trees]; `dof_tree` [dofs] and
    `coordinate_tree` [coordinates] give trees, -1 for none.
    """
    structure: Any = RowStructure()
    names = ("row_treeadr", "row_tree", "tree_rowadr", "tree_row", "dof_tree", "coordinate_tree")
    lists = (*_lists(incidence), *_lists(incidence.T), dof_tree, coordinate_tree)
    for name, values in zip(names, lists, strict=True):
        setattr(structure, name, wp.array(values.astype(np.int32), dtype=wp.int32, device=device))
    sizes = np.bincount(dof_tree, minlength=incidence.shape[1])
    structure.smallest, structure.largest = int(sizes.min()), int(sizes.sum())
    return structure


def _lists(incidence: NDArray[np.bool_]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Give offsets and column numbers of the true entries, row by row (CSR)."""
    offsets = np.concatenate([[0], np.cumsum(incidence.sum(axis=1))])
    return offsets, np.nonzero(incidence)[1]
