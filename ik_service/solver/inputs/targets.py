"""Pose targets of a solver, as they are declared."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.errors import in_a_line
from ik_service.robots import RobotModel
from ik_service.solver.inputs.target_arrays import host_array, unit_quaternions
from objectives import InputError

ROTATION_LENGTH = 0.4  # units of length that weigh as much as a radian in the cost of pose targets


@dataclass(frozen=True, eq=False)
class Target:
    """A link that is to reach a pose.

    Attributes:
        link: Name of the link.
        offset: Tool frame in the link frame, `T_link_tool`: position [m] and orientation xyzw, shape [7], or
            [problem_count, 7]. None is the link frame itself.
        reference_link: Link in whose frame targets are given and errors are expressed; None is the world.
        row_weights: Weights of the six rows, shape [6] or [problem_count, 6]: three of position, three of
            orientation. 0 leaves an axis free, in the solve and in the judgement. All others are judged, even if no
            joint can move them.
    """

    link: str
    offset: Sequence[float] | NDArray[Any] | None = None
    reference_link: str | None = None
    row_weights: Sequence[float] | NDArray[Any] | None = None

    def weights(self) -> NDArray[np.float64]:
        """Return the weights of the six rows, [6] or [problem_count, 6]."""
        return np.ones(6) if self.row_weights is None else np.asarray(self.row_weights, np.float64)

    def weights_in_metres(self, length_unit: float) -> NDArray[np.float64]:
        """Return the same as the cost has them: a radian weighs as much as a part of the robot's unit of length."""
        return np.asarray(self.weights() * np.repeat([1.0, ROTATION_LENGTH * length_unit], 3))


def as_target(target: "Target | str", robot: RobotModel) -> Target:
    """Return a target whose links are known to exist and whose arrays are checked.

    Raises:
        UnknownNameError: A link is not in the robot.
        InputError: The entry is neither a link name nor a Target, or its offset or weights are not allowed.
    """
    if isinstance(target, str):
        target = Target(target)
    if not isinstance(target, Target):
        raise InputError(f"A target is {in_a_line(target)}. Allowed: a link name or an ik_service.Target.")
    robot.link_frame(target.link)
    if target.reference_link is not None:
        robot.link_frame(target.reference_link)
    offset, row_weights = target.offset, target.row_weights
    if offset is not None:
        offset = _one_or_many(target, "offset", offset, 7)
        lines = np.atleast_2d(offset)
        unit = unit_quaternions(f"Target '{target.link}': offset", lines[:, 3:])
        offset = np.hstack([lines[:, :3], unit]).reshape(offset.shape)
    if row_weights is not None:
        row_weights = _one_or_many(target, "row_weights", row_weights, 6)
        if (row_weights < 0.0).any():
            raise InputError(f"Target '{target.link}': row_weights hold {row_weights.min():g}. Allowed: 0 and above.")
    return replace(target, offset=offset, row_weights=row_weights)


def replaced(
    targets: tuple[Target, ...], number: int, offset: Any, row_weights: Any, robot: RobotModel
) -> tuple[Target, ...]:
    """Return targets of which one has other data, None for what it has.

    Raises:
        InputError: There is no such target, it has no offset and is given one, or a value is not allowed.
    """
    whole = isinstance(number, Integral) and not isinstance(number, bool)
    if not (whole and 0 <= number < len(targets)):
        raise InputError(f"target is {number!r}. Allowed: 0 to {len(targets) - 1}.")
    old = targets[number]
    if offset is not None and old.offset is None:
        raise InputError(f"Target '{old.link}' was declared without an offset. Declare one, of any value.")
    new = Target(
        old.link,
        old.offset if offset is None else offset,
        old.reference_link,
        old.row_weights if row_weights is None else row_weights,
    )
    return (*targets[:number], as_target(new, robot), *targets[number + 1 :])


def _one_or_many(target: Target, name: str, value: object, width: int) -> NDArray[np.float64]:
    array = host_array(f"Target '{target.link}': {name}", value)
    if array.ndim not in (1, 2) or array.shape[-1] != width or not len(array):
        shape = list(array.shape)
        raise InputError(f"Target '{target.link}': {name} has shape {shape}. Allowed: [{width}] or [n, {width}].")
    return array


def touched_trees(robot: RobotModel, targets: Sequence[Target]) -> NDArray[np.bool_]:
    """Return which trees each target touches, bool [targets, trees]."""
    touches = np.zeros((len(targets), robot.trees.ntree), dtype=bool)
    for k, target in enumerate(targets):
        for link in (target.link, target.reference_link):
            body = robot.link_frame(link)[0] if link is not None else -1
            if body >= 0 and robot.trees.body_treeid[body] >= 0:
                touches[k, robot.trees.body_treeid[body]] = True
    return touches
