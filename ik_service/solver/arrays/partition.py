"""Islands of the problems of a solve: one partition for all if the same rows are on, else one each.

Most solves have the same rows on in all problems: then the islands are found once on the host and kept with their code
and recordings.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.linear_solve.islands import find_islands
from ik_service.solver.rows.weights import IslandScales, RowWeights


@dataclass(frozen=True)
class Partition:
    """Islands of the problems of a solve, on host and device."""

    nisland: NDArray[np.int32]  # number of islands, int32 [1 or n]
    tree_island: NDArray[np.int32]  # island of every tree, -1 for none, int32 [1 or n, trees]
    row_island: NDArray[np.int32]  # island of every row, -1 for none, int32 [1 or n, rows]
    device_nisland: wp.array[Any]  # `nisland` on the device
    device_tree_island: wp.array[Any]  # `tree_island` on the device
    device_row_island: wp.array[Any]  # `row_island` on the device
    scales: IslandScales  # least and largest weight of the rows of every island, one line or one per problem; data


def common_partition(
    weights: RowWeights, incidence: NDArray[np.bool_], device: wp.Device, *, join: bool, lines: int = 1
) -> Partition:
    """Return the partition of problems with the same rows on; with `join` all touched trees are one island."""
    # `lines`: number of problems with their own weights, 1 if all are equal
    on = weights.on
    assert on is not None  # otherwise problems have islands of their own
    return _partition_of(weights, on[None], incidence, device, join=join, lines=lines)


def host_partition(weights: RowWeights, incidence: NDArray[np.bool_], device: wp.Device) -> Partition:
    """Return the partition of a few problems, found on the host, pattern by pattern."""
    on = ~(weights.lines <= 0.0) if weights.on is None else weights.on[None]
    return _partition_of(weights, on, incidence, device, join=False, lines=len(weights.lines))


def _partition_of(
    weights: RowWeights,
    on: NDArray[np.bool_],
    incidence: NDArray[np.bool_],
    device: wp.Device,
    *,
    join: bool,
    lines: int,
) -> Partition:
    """Return the partition of problems with rows on as in one common line, or in their own lines, [1 or n, rows]."""

    def on_device(values: NDArray[Any]) -> wp.array[Any]:
        return wp.array(values, dtype=wp.dtype_from_numpy(values.dtype), device=device)

    patterns, inverse = np.unique(on, axis=0, return_inverse=True)
    found = [find_islands(incidence, pattern, join=join) for pattern in patterns]
    counts, of_trees, of_rows = (
        np.array([parts[k] for parts in found], np.int32)[inverse.reshape(-1)] for k in range(3)
    )
    scales = IslandScales(lines, incidence.shape[1], device)
    scales.write(weights, of_rows)
    return Partition(counts, of_trees, of_rows, on_device(counts), on_device(of_trees), on_device(of_rows), scales)


def own_partition(problems: Any, lines: Mapping[str, NDArray[np.int32]], scales: IslandScales) -> Partition:
    """Return the partition of problems with islands of their own, `lines`; its scales may have to be written later."""
    nisland, tree_island, row_island = (lines[name] for name in ("nisland", "tree_island", "row_island"))
    for array in (nisland, tree_island, row_island):
        array.setflags(write=False)  # results of several solves share these
    on_device = problems.islands.nisland, problems.islands.tree_island, problems.islands.row_island
    return Partition(nisland, tree_island, row_island, *on_device, scales)


def groups(partition: Partition, problem_count: int) -> list[NDArray[np.intp]]:
    """Return the problems of equal partition, group by group."""
    if len(partition.nisland) == 1:
        return [np.arange(problem_count)]
    lines = np.hstack([partition.tree_island, partition.row_island])
    inverse = np.unique(lines, axis=0, return_inverse=True)[1].reshape(-1)
    return [np.flatnonzero(inverse == group) for group in range(int(inverse.max()) + 1)]
