"""Linear rows over DOFs: masks of free DOFs, least-norm solutions, and rank."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ik_service.mechanism.coupling import coupling_matrix
from ik_service.mechanism.kinematic_robot import KinematicRobot
from ik_service.mechanism.names import unknown_name
from ik_service.mechanism.transforms import Float64Array
from objectives.errors import InputError, UnknownNameError

BoolArray = NDArray[np.bool_]
RANK_TOLERANCE = 1e-8
"""Singular values below this share of the largest count as zero: configurations are closed to 1e-10."""
ZERO_SINGULAR = 1e-12  # singular values below this [m or rad per unit] always count as zero


def by_active(robot: KinematicRobot, jacobian: Float64Array) -> Float64Array:
    """Turn derivatives by all DOFs into derivatives by active DOFs, shape [n, rows, active]."""
    if (robot.dof_active >= 0).sum() > robot.active_dof_count:  # mimic joints
        return np.asarray(jacobian @ coupling_matrix(robot))
    # no matrix product: with hundreds of joints the product waits for threads of BLAS
    every = robot.active_dof_count == robot.joint_dof_count
    return jacobian if every else np.ascontiguousarray(jacobian[..., robot.active_dof])


def named_dofs(robot: KinematicRobot, names: Sequence[str], what: str) -> list[int]:
    """Find DOFs by names of joints or DOFs.

    UnknownNameError for a name of no joint and no DOF, InputError for a text instead of a list; both name `what`.
    """
    if isinstance(names, str):
        raise InputError(f"{what} must be a list of names, got the text {names!r}.")
    found: list[int] = []
    for name in names:
        if name in robot.joint_names:
            joint = robot.joint_names.index(name)
            found += range(int(robot.joint_qd_start[joint]), int(robot.joint_qd_start[joint + 1]))
        elif name in robot.dof_names:
            found.append(robot.dof_names.index(name))
        else:
            opening = f"{what}: joint '{name}' is not in robot '{robot.name}'."
            raise UnknownNameError(unknown_name(opening, "Joint", robot.joint_names, name))
    return found


def free_dofs(robot: KinematicRobot, frozen: Sequence[str]) -> BoolArray:
    """Give a mask of the free active DOFs, shape [active_dof_count]; freezing a follower freezes the leader."""
    free = np.ones(robot.active_dof_count, dtype=bool)
    active = robot.dof_active[named_dofs(robot, frozen, "frozen")]
    free[active[active >= 0]] = False
    return free


def applied(matrices: Float64Array, vectors: Float64Array) -> Float64Array:
    """Multiply matrices [n, rows, columns] and vectors [n, columns], shape [n, rows]."""
    return np.asarray((matrices @ vectors[..., np.newaxis])[..., 0])


def least_change(rows: Float64Array, rest: Float64Array) -> Float64Array:
    """Give the least-norm change [n, columns] that minimises |rest + rows change|, rest [n, rows]; any rank."""
    return -applied(np.asarray(np.linalg.pinv(rows, rcond=RANK_TOLERANCE), np.float64), rest)


def ranks(rows: Float64Array) -> NDArray[np.intp]:
    """Count the independent rows of matrices [n, rows, columns], shape [n]."""
    if 0 in rows.shape:
        return np.zeros(len(rows), dtype=np.intp)
    sizes = np.linalg.svd(rows, compute_uv=False)
    return np.asarray((sizes > np.maximum(RANK_TOLERANCE * sizes[:, :1], ZERO_SINGULAR)).sum(axis=1))
