"""Which joints an objective speaks of, and where their DOFs and coordinates are."""

import difflib
from collections.abc import Iterable, Sequence

import numpy as np

from objectives.errors import InputError, UnknownNameError
from objectives.model import IKModel


def select_joints(model: IKModel, names: Sequence[str] | None, objective: str) -> list[int]:
    """Give the indices of joints in the order of the robot; None selects all.

    Raises:
        UnknownNameError: The robot has no joint of one of the names.
        InputError: The names are one string instead of several.
    """
    if names is None:
        return list(range(model.joint_count))
    if isinstance(names, str):
        raise InputError(f"{objective}: joints is the string '{names}'; allowed: a sequence of joint names.")
    for name in names:
        if name not in model.joint_names:
            close = difflib.get_close_matches(name, model.joint_names, n=1)
            hint = f"Did you mean '{close[0]}'? " if close else ""
            raise UnknownNameError(
                f"{objective}: joint '{name}' is not in the robot. {hint}Joints: {', '.join(model.joint_names)}."
            )
    return [joint for joint, name in enumerate(model.joint_names) if name in names]


def scalar_dofs(model: IKModel, joints: Iterable[int]) -> list[int]:
    """Give the DOFs of some joints that have a coordinate of their own."""
    starts, coordinate = model.joint_qd_start.numpy(), model.dof_coordinate.numpy()
    return [dof for joint in joints for dof in range(starts[joint], starts[joint + 1]) if coordinate[dof] >= 0]


def quaternion_joints(model: IKModel, joints: Iterable[int]) -> list[int]:
    """Give those of some joints that have a quaternion."""
    coordinates, dofs = np.diff(model.joint_q_start.numpy()), np.diff(model.joint_qd_start.numpy())
    return [joint for joint in joints if coordinates[joint] > dofs[joint]]
