"""Independent and dependent DOFs of a mechanism, and redundant or conflicting rows."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ik_service.constraints.linear_algebra import (
    RANK_TOLERANCE,
    ZERO_SINGULAR,
    BoolArray,
    named_dofs,
    ranks,
)
from ik_service.constraints.results import DofPartition, RowMap
from ik_service.mechanism.coupling import coupling_matrix
from ik_service.mechanism.kinematic_robot import KinematicRobot
from ik_service.mechanism.transforms import Float64Array
from objectives.errors import InputError

CONFLICT_MIN = 1e-8
"""Smallest residual of a redundant row [m or rad] that counts as a conflict: closed rows are within 1e-10."""
GOOD_ENOUGH = 0.1  # pivot threshold: the last column with at least this share of the largest norm becomes dependent


def partitioned(
    robot: KinematicRobot,
    values: Float64Array,
    jacobian: Float64Array,
    on: BoolArray,
    row_map: RowMap,
    independent: Sequence[str] | None = None,
) -> DofPartition:
    """Divide the active DOFs, from rows [n, rows] and their Jacobian [n, rows, joint_dof_count].

    See `ConstraintSet.partition` for arguments and errors; `on` is a mask of enabled rows, shape [n, rows].
    """
    spread = coupling_matrix(robot)
    rows = (jacobian @ spread) * on[..., np.newaxis]
    rank = ranks(rows)
    if not len(rows):
        raise InputError("There is no configuration to choose independent DOFs in. Allowed: one and more.")
    if independent is None:
        dependent = dependent_columns(rows[0], int(rank[0]))
    else:
        dependent = _rest_of(robot, rows, rank, independent)
    columns = rows[:, :, dependent]
    map_of_active = np.zeros((len(rows), robot.active_dof_count, int((~dependent).sum())))
    map_of_active[:, ~dependent] = np.eye(map_of_active.shape[2])
    map_of_active[:, dependent] = -np.linalg.pinv(columns, rcond=RANK_TOLERANCE) @ rows[:, :, ~dependent]
    redundant, conflicting = verdicts(rows, values * on)
    names = [robot.dof_names[dof] for dof in robot.active_dof]
    return DofPartition(
        independent=tuple(name for name, follows in zip(names, dependent, strict=True) if not follows),
        dependent=tuple(name for name, follows in zip(names, dependent, strict=True) if follows),
        rank=rank,
        condition=_conditions(columns),
        reduced_map=spread @ map_of_active,
        redundant=redundant & on,
        conflicting=conflicting & on,
        row_map=row_map,
    )


def dependent_columns(rows: Float64Array, rank: int) -> BoolArray:
    """Choose `rank` linearly independent columns of a matrix [rows, columns], late columns if well conditioned."""
    rest = rows.copy()
    chosen = np.zeros(rows.shape[1], dtype=bool)
    for _ in range(rank):
        sizes = np.where(chosen, 0.0, np.linalg.norm(rest, axis=0))
        column = int(np.flatnonzero(sizes >= GOOD_ENOUGH * sizes.max())[-1])
        chosen[column] = True
        direction = rest[:, column] / sizes[column]
        for _again in range(2):  # two passes of Gram-Schmidt remove the rounding of one
            rest -= np.outer(direction, direction @ rest)
    return chosen


def _rest_of(
    robot: KinematicRobot, rows: Float64Array, rank: NDArray[np.intp], independent: Sequence[str]
) -> BoolArray:
    """Give a mask of the dependent DOFs for chosen independent DOFs; InputError for a wrong choice."""
    active = robot.dof_active[named_dofs(robot, independent, "independent")]
    dependent = np.ones(robot.active_dof_count, dtype=bool)
    dependent[active[active >= 0]] = False
    count, freedoms = int((~dependent).sum()), robot.active_dof_count - int(rank[0])
    if count != freedoms:
        raise InputError(
            f"independent names {count} DOFs that can move. Allowed: {freedoms}, since the rows have rank {rank[0]} "
            f"over {robot.active_dof_count} active DOFs."
        )
    own = ranks(rows[:, :, dependent])
    if (own < dependent.sum()).any():
        k = int(np.flatnonzero(own < dependent.sum())[0])
        raise InputError(
            f"independent is {', '.join(independent)}: in configuration {k} the rows have rank {own[k]} over the other "
            f"{dependent.sum()} DOFs, so these do not all follow. Choose others, or leave the choice out."
        )
    return dependent


def _conditions(columns: Float64Array) -> Float64Array:
    """Give condition numbers of columns [n, rows, dependent], inf for singular columns."""
    if columns.shape[2] == 0:
        return np.ones(len(columns))
    sizes = np.linalg.svd(columns, compute_uv=False)
    smallest = sizes[:, -1]
    is_full = smallest > np.maximum(RANK_TOLERANCE * sizes[:, 0], ZERO_SINGULAR)
    return np.where(is_full, sizes[:, 0] / np.where(is_full, smallest, 1.0), np.inf)


def verdicts(
    rows: Float64Array, values: Float64Array, share: float = RANK_TOLERANCE, size: float = 0.0
) -> tuple[BoolArray, BoolArray]:
    """Find redundant rows (linearly dependent on earlier rows), and redundant rows whose values conflict.

    A row of [n, rows, columns] is redundant if its part orthogonal to earlier rows is below a share of the norm of all
    rows, at least `size`.
    """
    n, count, _ = rows.shape
    least = np.maximum(share * np.maximum(np.linalg.norm(rows, axis=(1, 2)), size), ZERO_SINGULAR)
    directions, goals = np.zeros_like(rows), np.zeros((n, count))
    redundant, conflicting = np.zeros((n, count), dtype=bool), np.zeros((n, count), dtype=bool)
    for r in range(count):
        row, value = rows[:, r].copy(), values[:, r].copy()
        for _again in range(2):
            parts = np.einsum("nrc,nc->nr", directions[:, :r], row)
            row -= np.einsum("nr,nrc->nc", parts, directions[:, :r])
            value -= np.einsum("nr,nr->n", parts, goals[:, :r])
        length = np.linalg.norm(row, axis=1)
        redundant[:, r] = length <= least
        conflicting[:, r] = redundant[:, r] & (np.abs(value) > CONFLICT_MIN)
        scale = np.where(redundant[:, r], 0.0, 1.0 / np.where(redundant[:, r], 1.0, length))
        directions[:, r], goals[:, r] = row * scale[:, np.newaxis], value * scale
    return redundant, conflicting
