"""Islands: trees coupled by rows, found per problem on the device by flood fill.

An enabled row joins all trees of its support. Islands are numbered by their lowest tree; a tree without rows is in no
island. Only the sparsity pattern counts: an entry that vanishes at some configuration still couples. Runs once per
solve.
"""

import typing
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


@wp.struct
class Islands:
    """The islands of every problem, one line per problem.

    A pair of arrays `badr`, `b` lists the b of every island, increasing; offsets past the last island repeat.
    """

    nisland: wp.array[wp.int32]  # [problems]: number of islands
    tree_island: wp.array2d[wp.int32]  # [problems, trees]: island of each tree, -1 for a tree without rows
    row_island: wp.array2d[wp.int32]  # [problems, rows]: island of each row, -1: row disabled, or support empty
    dofadr: wp.array2d[wp.int32]  # [problems, trees + 1]
    dof: wp.array2d[wp.int32]  # [problems, dofs]: DOFs of the system
    rowadr: wp.array2d[wp.int32]  # [problems, trees + 1]
    row: wp.array2d[wp.int32]  # [problems, rows]
    coordadr: wp.array2d[wp.int32]  # [problems, trees + 1]
    coord: wp.array2d[wp.int32]  # [problems, coordinates]: coordinates moved by the island
    hessian_adr: wp.array2d[wp.int32]  # [problems, trees + 1]: first entry of the island's DOFs x DOFs block in storage
    jacobian_adr: wp.array2d[wp.int32]  # [problems, trees + 1]: first entry of the island's rows x DOFs block
    stack: wp.array2d[wp.int32]  # [problems, trees]: scratch of the flood fill; each tree is pushed once
    smallest: int  # DOFs of the smallest possible island: the smallest tree
    largest: int  # DOFs of the largest possible island: all DOFs


def allocate_islands(structure: Any, problem_count: int) -> Any:
    """Return `Islands` with room for `problem_count` problems."""
    trees, rows = structure.tree_count, structure.row_count
    widths = {"tree_island": trees, "row_island": rows, "row": rows, "stack": trees}
    widths |= {"dof": structure.dof_tree.shape[0], "coord": structure.coordinate_tree.shape[0]}
    shapes: dict[str, int | tuple[int, ...]] = {name: (problem_count, width) for name, width in widths.items()}
    shapes["nisland"] = problem_count
    islands = zeroed(Islands, structure.row_tree.device, (problem_count, trees + 1), **shapes)
    islands.smallest, islands.largest = structure.smallest, structure.largest
    return islands


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def _flood_fill(
    one_island: int,
    structure: RowStructure,
    row_on: wp.array2d[wp.int32],  # [problems, rows]
    islands_out: Islands,
):
    p = wp.tid()
    trees = islands_out.tree_island.shape[1]
    for tree in range(trees):
        islands_out.tree_island[p, tree] = -1
    for row in range(islands_out.row_island.shape[1]):
        islands_out.row_island[p, row] = -1
    count = int(0)
    for first in range(trees):
        depth = int(0)
        if islands_out.tree_island[p, first] < 0:
            for m in range(structure.tree_rowadr[first], structure.tree_rowadr[first + 1]):
                if row_on[p, structure.tree_row[m]] != 0:
                    depth = 1
        if depth == 1:
            island = count
            if one_island == 1:
                island = 0
            islands_out.stack[p, 0] = first
            islands_out.tree_island[p, first] = island
            while depth > 0:
                depth -= 1
                tree = islands_out.stack[p, depth]
                for m in range(structure.tree_rowadr[tree], structure.tree_rowadr[tree + 1]):
                    row = structure.tree_row[m]
                    if row_on[p, row] != 0 and islands_out.row_island[p, row] < 0:
                        islands_out.row_island[p, row] = island
                        for k in range(structure.row_treeadr[row], structure.row_treeadr[row + 1]):
                            other = structure.row_tree[k]
                            if islands_out.tree_island[p, other] < 0:
                                islands_out.tree_island[p, other] = island
                                islands_out.stack[p, depth] = other
                                depth += 1
            count = island + 1
    islands_out.nisland[p] = count


@wp.func
@typing.no_type_check
def grouped(
    p: int,
    trees: wp.array[wp.int32],
    tree_island: wp.array2d[wp.int32],
    island_adr: wp.array2d[wp.int32],
    island_item: wp.array2d[wp.int32],
):
    """List the items (DOFs or coordinates) of every island in increasing order, by counting sort."""
    count = tree_island.shape[1]
    for island in range(count + 1):
        island_adr[p, island] = 0
    for item in range(trees.shape[0]):
        if trees[item] >= 0:
            island = tree_island[p, trees[item]]
            if island >= 0:
                island_adr[p, island + 1] = island_adr[p, island + 1] + 1
    for island in range(count):
        island_adr[p, island + 1] = island_adr[p, island + 1] + island_adr[p, island]
    for item in range(trees.shape[0]):
        if trees[item] >= 0:
            island = tree_island[p, trees[item]]
            if island >= 0:
                island_item[p, island_adr[p, island]] = item
                island_adr[p, island] = island_adr[p, island] + 1
    for reverse in range(count):  # the loop above moved every offset one place on
        island = count - reverse
        island_adr[p, island] = island_adr[p, island - 1]
    island_adr[p, 0] = 0


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def _list_members(structure: RowStructure, islands_out: Islands):
    p = wp.tid()
    grouped(p, structure.dof_tree, islands_out.tree_island, islands_out.dofadr, islands_out.dof)
    grouped(p, structure.coordinate_tree, islands_out.tree_island, islands_out.coordadr, islands_out.coord)
    count = islands_out.tree_island.shape[1]
    next_row = int(0)
    hessian = int(0)
    jacobian = int(0)
    for island in range(count):
        islands_out.rowadr[p, island] = next_row
        islands_out.hessian_adr[p, island] = hessian
        islands_out.jacobian_adr[p, island] = jacobian
        dofs = islands_out.dofadr[p, island + 1] - islands_out.dofadr[p, island]
        if dofs > 0:
            for row in range(islands_out.row_island.shape[1]):
                if islands_out.row_island[p, row] == island:
                    islands_out.row[p, next_row] = row
                    next_row += 1
        hessian += dofs * dofs
        jacobian += dofs * (next_row - islands_out.rowadr[p, island])
    islands_out.rowadr[p, count] = next_row
    islands_out.hessian_adr[p, count] = hessian
    islands_out.jacobian_adr[p, count] = jacobian


def record_discovery(
    structure: RowStructure, row_on: wp.array[Any], islands: Islands, *, join: bool
) -> list[wp.Launch]:
    """Record the launches that find the islands of every problem; with `join` all trees with rows form one island.

    The launches write every entry of the islands. The enabled rows, int32 [problems, rows], and the islands must
    outlive the launches.
    """
    problems, device = row_on.shape[0], row_on.device
    inputs = [int(join), structure, row_on, islands]
    fill = wp.launch(_flood_fill, problems, inputs, device=device, record_cmd=True)
    return [fill, wp.launch(_list_members, problems, [structure, islands], device=device, record_cmd=True)]


Int32Array = NDArray[np.int32]


def find_islands(
    incidence: NDArray[np.bool_], row_on: NDArray[np.bool_], *, join: bool = False
) -> tuple[int, Int32Array, Int32Array]:
    """Find the islands of one problem on the host: number of islands; island of each tree and of each row, -1: none.

    `incidence` [rows, trees] tells whether the support of a row contains DOFs of a tree, `row_on` [rows] whether the
    row is enabled; with `join` all trees with rows form one island.
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
