"""Bounds on the numbers of a robot: what is computed from them stays within the range of float32.

The check runs whenever a model is made, from a file or from another model. What a coupling multiplies up along a chain
of followers is bounded in ``coupling``, where chains are resolved.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ik_service.robots.files.description import MAX_NUMBER, UNBOUNDED
from ik_service.robots.transforms import Float64Array
from objectives.errors import InputError

if TYPE_CHECKING:
    from ik_service.robots.arrays import RobotArrays

MAX_POSITION = 1e9
"""Largest coordinate of a frame in its body [m], all fixed joints and added frames on the way summed up."""


def check_numbers(robot: "RobotArrays") -> None:
    """Check that no number of a robot is not finite or too large.

    Raises:
        InputError: One is; the message names the joint or link, the number and the bound.
    """
    joints, links = robot.joint_names, robot.link_names
    dof_joints = [name for name, n in zip(joints, np.diff(robot.joint_qd_start), strict=True) for _ in range(n)]
    _check("Joint", joints, "frame in its parent body", robot.joint_X_p, MAX_POSITION)
    _check("Link", links, "frame in its body", robot.link_X_body, MAX_POSITION)
    _check("Link", links, "centre of mass", robot.link_com, MAX_NUMBER)
    _check("Link", links, "mass", robot.link_mass, MAX_NUMBER)
    for what, limits, unlimited in (
        ("lower limit", robot.joint_limit_lower, -np.inf),
        ("upper limit", robot.joint_limit_upper, np.inf),
    ):
        _check("Joint", dof_joints, what, np.where(limits == unlimited, 0.0, limits), UNBOUNDED)


def _check(owner: str, names: "tuple[str, ...] | list[str]", what: str, values: Float64Array, largest: float) -> None:
    """Check numbers that stand in one line per name."""
    outside: NDArray[np.bool_] = ~(np.abs(values) <= largest)
    if outside.any():
        place = tuple(int(i[0]) for i in np.nonzero(outside))
        raise InputError(
            f"{owner} '{names[place[0]]}': its {what} holds {values[place]:g}. Allowed: -{largest:g} to {largest:g}."
        )
