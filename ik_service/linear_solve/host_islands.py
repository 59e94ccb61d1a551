"""Islands on the host, by union-find: the witness of the device's flood fill, and what diagnostics print."""

import numpy as np
from numpy.typing import NDArray

Int32Array = NDArray[np.int32]


def find_islands(
    incidence: NDArray[np.bool_], row_on: NDArray[np.bool_], *, join: bool = False
) -> tuple[int, Int32Array, Int32Array]:
    """Return the islands of one problem.

    Args:
        incidence: Whether the support of a row holds DOFs of a tree, shape [rows, trees].
        row_on: Whether a row is switched on, shape [rows].
        join: Whether all touched trees are one island.

    Returns:
        Number of islands; island of each tree and of each row, -1 for none.
    """
    trees = incidence.shape[1]
    parent = list(range(trees))

    def find(tree: int) -> int:
        while parent[tree] != tree:
            parent[tree] = parent[parent[tree]]
            tree = parent[tree]
        return tree

    touched = incidence[row_on].any(axis=0)
    for members in (np.flatnonzero(row) for row in (*incidence[row_on], touched & join)):
        for tree in members[1:]:
            low, high = sorted((find(int(members[0])), find(int(tree))))
            parent[high] = low
    roots = sorted({find(int(tree)) for tree in np.flatnonzero(touched)})
    tree_island = np.full(trees, -1, dtype=np.int32)
    for tree in np.flatnonzero(touched):
        tree_island[tree] = roots.index(find(int(tree)))
    row_island = np.full(len(incidence), -1, dtype=np.int32)
    for row in np.flatnonzero(row_on & incidence.any(axis=1)):
        row_island[row] = tree_island[int(np.argmax(incidence[row]))]
    return len(roots), tree_island, row_island
