"""Islands: trees that rows couple, found per problem on the device by flood fill.

A row that is switched on joins all trees of its support. Islands are numbered by their lowest tree; a tree that no row
touches is in none. Nothing depends on values: a coupling that happens to vanish at some configuration still couples.
Runs once a solve; the partition is fixed for the whole of it.
"""

import typing
from dataclasses import dataclass

import warp as wp

from ik_service.linear_solve.structure import RowStructure


@dataclass(frozen=True)
class Islands:
    """The islands of every problem; int32 device arrays with one line per problem.

    A pair `island_badr`, `island_b` lists the b of every island, increasing; offsets past the last island repeat.

    Attributes:
        nisland: Number of islands, shape [problems].
        tree_island: Island of each tree, -1 where no row touches it, shape [problems, trees].
        row_island: Island of each row, -1 where it is off or its support is empty, shape [problems, rows].
        island_ntree: Trees in each island, 0 past the last, shape [problems, trees].
        island_dofadr: Shape [problems, trees + 1].
        island_dof: DOFs of the system, shape [problems, dofs].
        island_rowadr: Shape [problems, trees + 1].
        island_row: Shape [problems, rows].
        island_coordadr: Shape [problems, trees + 1].
        island_coord: Coordinates that move with the island, shape [problems, coordinates].
        hessian_adr: Where the square block of each island starts in storage for all, shape [problems, trees + 1].
        jacobian_adr: The same for its DOFs x rows block, shape [problems, trees + 1].
        stack: Scratch of the flood fill, shape [problems, trees]: a tree is marked when it is pushed, so none is
            pushed twice.
        smallest: DOFs of the smallest island that there can be, an int: those of the smallest tree.
        largest: DOFs of the largest, an int: all of them.
    """

    nisland: wp.array[typing.Any]
    tree_island: wp.array[typing.Any]
    row_island: wp.array[typing.Any]
    island_ntree: wp.array[typing.Any]
    island_dofadr: wp.array[typing.Any]
    island_dof: wp.array[typing.Any]
    island_rowadr: wp.array[typing.Any]
    island_row: wp.array[typing.Any]
    island_coordadr: wp.array[typing.Any]
    island_coord: wp.array[typing.Any]
    hessian_adr: wp.array[typing.Any]
    jacobian_adr: wp.array[typing.Any]
    stack: wp.array[typing.Any]
    smallest: int
    largest: int

    @classmethod
    def allocate(cls, structure: RowStructure, problem_count: int) -> "Islands":
        """Return room for the islands of `problem_count` problems."""
        trees, rows = structure.tree_count, structure.row_count
        widths = {
            "tree_island": trees,
            "row_island": rows,
            "island_ntree": trees,
            "island_dof": structure.dof_tree.shape[0],
            "island_row": rows,
            "island_coord": structure.coordinate_tree.shape[0],
            "stack": trees,
        }
        device = structure.row_tree.device
        arrays = {
            name: wp.zeros((problem_count, widths.get(name, trees + 1)), dtype=wp.int32, device=device)
            for name in cls.__annotations__
            if name not in ("nisland", "smallest", "largest")
        }
        nisland = wp.zeros(problem_count, dtype=wp.int32, device=device)
        smallest, largest = structure.tree_sizes.min(), structure.tree_sizes.sum()
        return cls(nisland=nisland, smallest=int(smallest), largest=int(largest), **arrays)


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def _flood_fill(
    # structure
    one_island: int,
    row_treeadr: wp.array[wp.int32],
    row_tree: wp.array[wp.int32],
    tree_rowadr: wp.array[wp.int32],
    tree_row: wp.array[wp.int32],
    # problem
    row_on: wp.array2d[wp.int32],  # [problems, rows]
    # out
    nisland_out: wp.array[wp.int32],  # [problems]
    tree_island_out: wp.array2d[wp.int32],  # [problems, trees]
    row_island_out: wp.array2d[wp.int32],  # [problems, rows]
    island_ntree_out: wp.array2d[wp.int32],  # [problems, trees]
    stack_out: wp.array2d[wp.int32],  # [problems, trees]
):
    p = wp.tid()
    trees = tree_island_out.shape[1]
    for tree in range(trees):
        tree_island_out[p, tree] = -1
        island_ntree_out[p, tree] = 0
    for row in range(row_island_out.shape[1]):
        row_island_out[p, row] = -1
    count = int(0)
    for first in range(trees):
        depth = int(0)
        if tree_island_out[p, first] < 0:
            for m in range(tree_rowadr[first], tree_rowadr[first + 1]):
                if row_on[p, tree_row[m]] != 0:
                    depth = 1
        if depth == 1:
            island = count
            if one_island == 1:
                island = 0
            stack_out[p, 0] = first
            tree_island_out[p, first] = island
            while depth > 0:
                depth -= 1
                tree = stack_out[p, depth]
                island_ntree_out[p, island] = island_ntree_out[p, island] + 1
                for m in range(tree_rowadr[tree], tree_rowadr[tree + 1]):
                    row = tree_row[m]
                    if row_on[p, row] != 0 and row_island_out[p, row] < 0:
                        row_island_out[p, row] = island
                        for k in range(row_treeadr[row], row_treeadr[row + 1]):
                            other = row_tree[k]
                            if tree_island_out[p, other] < 0:
                                tree_island_out[p, other] = island
                                stack_out[p, depth] = other
                                depth += 1
            count = island + 1
    nisland_out[p] = count


@wp.func
@typing.no_type_check
def grouped(
    p: int,
    trees: wp.array[wp.int32],
    tree_island: wp.array2d[wp.int32],
    island_adr: wp.array2d[wp.int32],
    island_item: wp.array2d[wp.int32],
):
    """List the items of every island in increasing order, by counting; an item's island is that of its tree."""
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
    for reverse in range(count):  # every offset has moved to the next one's place
        island = count - reverse
        island_adr[p, island] = island_adr[p, island - 1]
    island_adr[p, 0] = 0


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def _list_members(
    # structure
    dof_tree: wp.array[wp.int32],
    coordinate_tree: wp.array[wp.int32],
    # islands
    tree_island: wp.array2d[wp.int32],  # [problems, trees]
    row_island: wp.array2d[wp.int32],  # [problems, rows]
    # out
    island_dofadr_out: wp.array2d[wp.int32],
    island_dof_out: wp.array2d[wp.int32],
    island_rowadr_out: wp.array2d[wp.int32],
    island_row_out: wp.array2d[wp.int32],
    island_coordadr_out: wp.array2d[wp.int32],
    island_coord_out: wp.array2d[wp.int32],
    hessian_adr_out: wp.array2d[wp.int32],
    jacobian_adr_out: wp.array2d[wp.int32],
):
    p = wp.tid()
    grouped(p, dof_tree, tree_island, island_dofadr_out, island_dof_out)
    grouped(p, coordinate_tree, tree_island, island_coordadr_out, island_coord_out)
    count = tree_island.shape[1]
    next_row = int(0)
    hessian = int(0)
    jacobian = int(0)
    for island in range(count):
        island_rowadr_out[p, island] = next_row
        hessian_adr_out[p, island] = hessian
        jacobian_adr_out[p, island] = jacobian
        dofs = island_dofadr_out[p, island + 1] - island_dofadr_out[p, island]
        if dofs > 0:
            for row in range(row_island.shape[1]):
                if row_island[p, row] == island:
                    island_row_out[p, next_row] = row
                    next_row += 1
        hessian += dofs * dofs
        jacobian += dofs * (next_row - island_rowadr_out[p, island])
    island_rowadr_out[p, count] = next_row
    hessian_adr_out[p, count] = hessian
    jacobian_adr_out[p, count] = jacobian


def record_discovery(
    structure: RowStructure, row_on: wp.array[typing.Any], islands: Islands, *, join: bool
) -> list[wp.Launch]:
    """Return the launches that find the islands of every problem, to be repeated with little ado.

    Args:
        structure: Rows and trees.
        row_on: Rows that are switched on, int32 [problems, rows].
        islands: Out: the islands; every entry is written. It must outlive the launches, as must `row_on`.
        join: Whether to put all touched trees into one island: the dense system.
    """
    problems, device = row_on.shape[0], row_on.device
    by_row, by_tree = (structure.row_treeadr, structure.row_tree), (structure.tree_rowadr, structure.tree_row)
    fill = wp.launch(
        _flood_fill,
        dim=problems,
        inputs=[int(join), *by_row, *by_tree, row_on],
        outputs=[islands.nisland, islands.tree_island, islands.row_island, islands.island_ntree, islands.stack],
        device=device,
        record_cmd=True,
    )
    members = wp.launch(
        _list_members,
        dim=problems,
        inputs=[structure.dof_tree, structure.coordinate_tree, islands.tree_island, islands.row_island],
        outputs=[
            islands.island_dofadr,
            islands.island_dof,
            islands.island_rowadr,
            islands.island_row,
            islands.island_coordadr,
            islands.island_coord,
            islands.hessian_adr,
            islands.jacobian_adr,
        ],
        device=device,
        record_cmd=True,
    )
    return [fill, members]


def discover_islands(structure: RowStructure, row_on: wp.array[typing.Any], islands: Islands, *, join: bool) -> None:
    """Find the islands of every problem; arguments as for `record_discovery`."""
    for launch in record_discovery(structure, row_on, islands, join=join):
        launch.launch()
