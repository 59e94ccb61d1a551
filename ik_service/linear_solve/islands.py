"""Islands: trees coupled by rows, found on the host once for each pattern of enabled rows.

An enabled row joins all trees of its support. Islands are numbered by their lowest tree; a tree without rows is in no
island. Only the sparsity pattern counts: an entry that vanishes at some configuration still couples. Runs when other
rows are enabled than in the last solve.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

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


Int32Array = NDArray[np.int32]


class RowStructure(NamedTuple):
    """Trees of rows, DOFs and coordinates of a system."""

    incidence: NDArray[np.bool_]  # whether the support of a row contains DOFs of a tree, [rows, trees]
    dof_tree: Int32Array  # tree of each DOF of the system, [dofs]
    coordinate_tree: Int32Array  # tree of each coordinate, -1 for none, [coordinates]


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
    smallest: int  # DOFs of the smallest possible island: the smallest tree
    largest: int  # DOFs of the largest possible island: all DOFs


def allocate_islands(structure: RowStructure, problem_count: int, device: wp.Device) -> Any:
    """Return `Islands` with room for `problem_count` problems."""
    (rows, trees), dofs = structure.incidence.shape, len(structure.dof_tree)
    widths = {"tree_island": trees, "row_island": rows, "row": rows}
    widths |= {"dof": dofs, "coord": len(structure.coordinate_tree)}
    shapes: dict[str, int | tuple[int, ...]] = {name: (problem_count, width) for name, width in widths.items()}
    islands = zeroed(Islands, device, (problem_count, trees + 1), **shapes, nisland=problem_count)
    islands.smallest, islands.largest = int(np.bincount(structure.dof_tree, minlength=trees).min()), dofs
    return islands


def island_lines(structure: RowStructure, row_on: NDArray[np.bool_], *, join: bool) -> dict[str, Int32Array]:
    """Return the lines of `Islands` by name, of problems with these enabled rows, [problems, rows]."""
    _, first, inverse = np.unique(np.packbits(row_on, axis=1), axis=0, return_index=True, return_inverse=True)
    found = [_islands_of(structure, row_on[k], join=join) for k in first]
    return {name: np.array([one[name] for one in found], np.int32)[inverse.reshape(-1)] for name in found[0]}


def _islands_of(structure: RowStructure, row_on: NDArray[np.bool_], *, join: bool) -> dict[str, Any]:
    count, tree_island, row_island = find_islands(structure.incidence, row_on, join=join)
    found: dict[str, Any] = {"nisland": count, "tree_island": tree_island, "row_island": row_island}
    padded = np.append(tree_island, np.int32(-1))  # for coordinates without a tree, -1
    of_dofs, of_coordinates = padded[structure.dof_tree], padded[structure.coordinate_tree]
    for name, own in (("dof", of_dofs), ("row", row_island), ("coord", of_coordinates)):
        listed = np.argsort(own, kind="stable")[(own < 0).sum() :]
        found[name] = np.pad(listed, (0, len(own) - len(listed)))
        found[f"{name}adr"] = np.cumsum([0, *np.bincount(own[listed], minlength=len(tree_island))])
    dofs, rows = np.diff(found["dofadr"]), np.diff(found["rowadr"])
    return found | {"hessian_adr": np.cumsum([0, *dofs * dofs]), "jacobian_adr": np.cumsum([0, *dofs * rows])}


def find_islands(
    incidence: NDArray[np.bool_], row_on: NDArray[np.bool_], *, join: bool = False
) -> tuple[int, Int32Array, Int32Array]:
    """Find the islands of one problem on the host: number of islands; island of each tree and of each row, -1: none.

    `incidence` [rows, trees] tells whether the support of a row contains DOFs of a tree, `row_on` [rows] whether the
    row is enabled; with `join` all trees with rows form one island.
    """
    trees, touched = incidence.shape[1], incidence[row_on].any(axis=0)
    lowest = np.arange(trees)  # of the trees known to be coupled
    for line in {one.tobytes(): one for one in np.vstack([incidence[row_on], touched & join])}.values():
        is_coupled = np.zeros(trees, dtype=bool)
        is_coupled[lowest[line]] = True
        lowest[is_coupled[lowest]] = lowest[line].min(initial=trees)
    tree_island = np.full(trees, -1, np.int32)
    roots, tree_island[touched] = np.unique(lowest[touched], return_inverse=True)
    row_island = np.where(incidence & row_on[:, None], tree_island, np.int32(-1)).max(axis=1, initial=-1)
    return len(roots), tree_island, row_island
