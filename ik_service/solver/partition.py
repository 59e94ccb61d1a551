"""How the problems of a solve fall into islands: one partition for all where no weight differs, else one each.

Weights decide, and most solves give all problems the same: then the islands are found once on the host and kept with
what has been compiled and recorded for them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.linear_solve import find_islands
from ik_service.solver.problems import row_scale
from ik_service.solver.targets import Target
from objectives import IKObjective


@dataclass(frozen=True)
class Partition:
    """Islands of the problems of a solve, on host and device.

    Attributes:
        nisland: Number of islands, int32 [1 or n].
        tree_island: Island of every tree, -1 for none, int32 [1 or n, trees].
        row_island: Island of every row, -1 for none, int32 [1 or n, rows].
        device_nisland: The first of these on the device.
        device_tree_island: The second on the device.
        device_row_island: The last on the device.
        lightest2: Square of the least weight of any row of an island, device array [1 or problems, trees].
        heaviest2: Square of the largest.
    """

    nisland: NDArray[np.int32]
    tree_island: NDArray[np.int32]
    row_island: NDArray[np.int32]
    device_nisland: wp.array[Any]
    device_tree_island: wp.array[Any]
    device_row_island: wp.array[Any]
    lightest2: wp.array[Any]
    heaviest2: wp.array[Any]


def target_weights(targets: Sequence[Target]) -> list[NDArray[np.float32]] | None:
    """Return the weights of every target's rows where all problems have the same, else None."""
    found = []
    for target in targets:
        weights = np.ones(6) if target.row_weights is None else np.asarray(target.row_weights)
        if weights.ndim == 2 and len(weights) > 1:
            return None
        found.append(weights.reshape(6).astype(np.float32))
    return found


def other_weights(objectives: Sequence[IKObjective]) -> list[NDArray[np.float32]] | None:
    """Return the weights of the rows of further objectives where all problems have the same, else None."""
    found = []
    for objective in objectives:
        row_weights = getattr(objective, "row_weights", None)
        array = None if row_weights is None else row_weights()
        if array is None:
            found.append(np.ones(objective.residual_dim(), np.float32))
        elif array.shape[0] == 1:
            found.append(array.numpy()[0] * np.float32(row_scale(objective)))
        else:
            return None
    return found


def common_partition(
    weights: Sequence[NDArray[np.float32]], incidence: NDArray[np.bool_], device: wp.Device, *, join: bool
) -> Partition:
    """Return the partition of problems that have the same weights.

    Args:
        weights: Of every objective's rows, as they were meant: 1 is 1/m or 1/rad.
        incidence: Whether the support of a row holds DOFs of a tree, bool [rows, trees].
        device: Where it is needed.
        join: Whether all touched trees are one island.
    """
    flat = np.concatenate(weights)
    on = flat > 0.0
    bridge = incidence[on].any(axis=0) & join  # with `join`, one more row over all that is touched
    nisland, tree_island, row_island, _ = find_islands(np.vstack([incidence, bridge]), np.append(on, join))
    row_island = row_island[:-1]
    lightest2, heaviest2 = np.zeros((2, 1, incidence.shape[1]), np.float32)
    for island in range(nisland):
        own = flat[row_island == island] ** 2
        lightest2[0, island], heaviest2[0, island] = own.min(), own.max()

    def on_device(values: NDArray[Any]) -> wp.array[Any]:
        return wp.array(values, dtype=wp.dtype_from_numpy(values.dtype), device=device)

    counts, of_rows = np.array([nisland], np.int32), row_island.astype(np.int32)[None]
    of_trees = tree_island.astype(np.int32)[None]
    return Partition(
        counts,
        of_trees,
        of_rows,
        on_device(counts),
        on_device(of_trees),
        on_device(of_rows),
        on_device(lightest2),
        on_device(heaviest2),
    )


def discovered_partition(problems: Any, problem_count: int) -> Partition:
    """Return the partition that `problems.discover` has found.

    Args:
        problems: The `Problems`.
        problem_count: Problems of the solve.
    """
    islands = problems.islands
    nisland, tree_island, row_island = (
        array.numpy()[:problem_count].copy() for array in (islands.nisland, islands.tree_island, islands.row_island)
    )
    return Partition(
        nisland,
        tree_island,
        row_island,
        islands.nisland,
        islands.tree_island,
        islands.row_island,
        problems.lightest2,
        problems.heaviest2,
    )


def groups(partition: Partition, problem_count: int) -> list[NDArray[np.intp]]:
    """Return the problems that have the same partition, group by group."""
    if len(partition.nisland) == 1:
        return [np.arange(problem_count)]
    lines = np.hstack([partition.tree_island, partition.row_island])
    inverse = np.unique(lines, axis=0, return_inverse=True)[1].reshape(-1)
    return [np.flatnonzero(inverse == group) for group in range(int(inverse.max()) + 1)]
