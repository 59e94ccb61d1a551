"""How a tick follows where it starts, how fast that is, and its targets: differences of other ticks, in float64.

start, speeds, targets -> each moved a little both ways, a tick from each -> central differences -> where both sides
agree, derivatives
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ik_service.robots import RobotModel
from ik_service.robots.transforms import Float64Array, quaternion_exp, quaternion_multiply

APART = 1e-5
"""By how much a tick's start and targets are moved [m, rad, or that per s]."""
KINK = 1e-2
"""Difference of the two sides, by the largest derivative or 1, from which on a tick is at a kink."""
TWIST = 6


@dataclass(frozen=True, eq=False)
class TickDerivatives:
    """First derivatives of what a tick answers.

    Starts move along tangents, a number for each DOF [m or rad]: those of ball and floating joints are rotation vectors
    as in `RobotModel.integrate`. Where limits cut a joint's way short, it follows its start and speed, not the targets.

    Attributes:
        joint_q: Where the tick goes, shape [robots, coordinates].
        joint_qd: How fast, shape [robots, DOFs].
        joint_q_by_start: Change of each coordinate with each DOF of the start, shape [robots, coordinates, DOFs].
        joint_q_by_speed: With each DOF's speed before, alike.
        joint_q_by_targets: With the position and the rotation vector of each target, about the axes of the frame that
            it is given in, shape [robots, coordinates, targets, 6].
        joint_qd_by_start: The same of the speeds, shape [robots, DOFs, DOFs].
        joint_qd_by_speed: Alike.
        joint_qd_by_targets: Shape [robots, DOFs, targets, 6].
        is_differentiable: Whether a tick has derivatives, bool [robots]: it has none at a kink, such as where a limit
            just begins to hold; then those are means of both sides.
    """

    joint_q: Float64Array
    joint_qd: Float64Array
    joint_q_by_start: Float64Array
    joint_q_by_speed: Float64Array
    joint_q_by_targets: Float64Array
    joint_qd_by_start: Float64Array
    joint_qd_by_speed: Float64Array
    joint_qd_by_targets: Float64Array
    is_differentiable: NDArray[np.bool_]


Tick = Callable[[Float64Array, Float64Array, Float64Array], tuple[Float64Array, Float64Array]]
"""From configurations and speeds of the whole robot and poses of targets, a line for each robot, to what a tick answers
by the caller's columns: configurations and speeds."""


def tick_derivatives(
    tick: Tick,
    robot: RobotModel,
    dofs: NDArray[np.intp],
    joint_q: Float64Array,
    joint_qd: Float64Array,
    targets: Float64Array,
) -> TickDerivatives:
    """Derive a tick.

    Args:
        tick: Makes ticks.
        robot: The robot.
        dofs: DOFs by which it is derived, the caller's columns.
        joint_q: Where it starts, shape [robots, joint_coord_count].
        joint_qd: How fast, shape [robots, joint_dof_count].
        targets: Poses, shape [robots, targets, 7].
    """
    base = tick(joint_q, joint_qd, targets)
    sides = list[tuple[tuple[Float64Array, Float64Array], ...]]()
    for moved in _moves(robot, dofs, joint_q, joint_qd, targets):
        sides.append(tuple(tick(*moved(by)) for by in (APART, -APART)))
    count, several = len(dofs), targets.shape[1]
    found = list[Float64Array]()
    is_smooth = np.ones(len(joint_q), dtype=bool)
    for part, middle in enumerate(base):
        shape = (len(joint_q), middle.shape[1], 0)
        columns = [(after[part] - before[part]) / (2.0 * APART) for after, before in sides]
        bent = [(after[part] - 2.0 * middle + before[part]) / APART for after, before in sides]
        by, bend = (np.stack(one, axis=-1) if one else np.zeros(shape) for one in (columns, bent))
        largest = np.maximum(np.abs(by).max(axis=(1, 2), initial=0.0), 1.0)
        is_smooth &= np.abs(bend).max(axis=(1, 2), initial=0.0) <= KINK * largest
        by_start, by_speed, by_targets = np.split(by, [count, 2 * count], axis=-1)
        found += [by_start, by_speed, by_targets.reshape(*by.shape[:2], several, TWIST)]
    names = [field.name for field in fields(TickDerivatives)]
    return TickDerivatives(**dict(zip(names, (*base, *found, is_smooth), strict=True)))


def _moves(
    robot: RobotModel,
    dofs: NDArray[np.intp],
    joint_q: Float64Array,
    joint_qd: Float64Array,
    targets: Float64Array,
) -> Iterator[Callable[[float], tuple[Float64Array, Float64Array, Float64Array]]]:
    """Give what moves the inputs of a tick by so much, one way after the other."""

    def started(axis: Float64Array, by: float) -> tuple[Float64Array, Float64Array, Float64Array]:
        return robot.integrate(joint_q, np.tile(by * axis, (len(joint_q), 1))), joint_qd, targets

    def sped(axis: Float64Array, by: float) -> tuple[Float64Array, Float64Array, Float64Array]:
        return joint_q, joint_qd + by * axis, targets

    def aimed(target: int, axis: int, by: float) -> tuple[Float64Array, Float64Array, Float64Array]:
        return joint_q, joint_qd, _moved(targets, target, axis, by)

    axes = np.eye(robot.joint_dof_count)[dofs]
    for moved in (started, sped):
        yield from (partial(moved, axis) for axis in axes)
    yield from (partial(aimed, target, axis) for target in range(targets.shape[1]) for axis in range(TWIST))


def _moved(targets: Float64Array, target: int, axis: int, by: float) -> Float64Array:
    """Give poses of which one has moved, or turned about an axis of the frame that it is given in."""
    found, change = targets.copy(), by * np.eye(3)[axis % 3]
    if axis < 3:
        found[:, target, :3] += change
    else:
        turn = np.broadcast_to(quaternion_exp(change[None]), (len(targets), 4))
        found[:, target, 3:] = quaternion_multiply(turn, targets[:, target, 3:])
    return found
