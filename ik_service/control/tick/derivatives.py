"""Derivatives of a tick by its start, speeds and targets: differences of other ticks, in float64.

start, speeds, targets -> each moved by two steps both ways, a tick from each -> central differences of both, which give
one of fourth order -> where they agree, derivatives
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ik_service.mechanism.transforms import Float64Array, quaternion_exp, quaternion_multiply
from ik_service.robots import RobotModel

MOVED = 1e-6
"""By how much a tick's start and targets are moved, and speeds times its length, then by twice that [m or rad]."""
TICK_STEPS = MOVED * np.array([1.0, -1.0, 2.0, -2.0])
KINK, LEAST = 1e-3, 0.1
"""Share of the largest derivative of a row by which slopes beside each other differ at a kink, and what counts at least
for the largest: a share of how a joint follows its start that keeps its place, or of 1/m."""
TWIST = 6


@dataclass(frozen=True, eq=False)
class TickDerivatives:
    """First derivatives of what a tick answers.

    Starts move along tangents, a number for each DOF [m or rad]: those of ball and floating joints are rotation vectors
    as in `RobotModel.integrate`. Where limits cut a joint's way short, it follows its start and speed, not the targets.
    DOFs that follow others start where their leaders say: by them all derivatives are zero.

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
            just begins to hold, where it jumps, or where its status is INVALID or LOOP_OPEN; then these are differences
            and no more. A change of slope by less than 1e-3 of the largest derivative of its row, or 1e-4 of those of a
            joint that keeps its place, is none.
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


class TickAnswer(NamedTuple):
    """Answer of a tick, a line for each robot: configurations and speeds by the caller's columns, and if sound."""

    joint_q: Float64Array
    joint_qd: Float64Array
    is_sound: NDArray[np.bool_]


Tick = Callable[[Float64Array, Float64Array, Float64Array], TickAnswer]
"""From configurations and speeds of the whole robot and poses of targets, a line for each robot."""


def tick_derivatives(
    tick: Tick,  # makes ticks
    robot: RobotModel,
    dofs: NDArray[np.intp],  # DOFs by which it is derived, the caller's columns
    joint_q: Float64Array,  # where it starts, shape [robots, joint_coord_count]
    joint_qd: Float64Array,  # how fast, shape [robots, joint_dof_count]
    targets: Float64Array,  # poses, shape [robots, targets, 7]
    dt: float,  # how long it takes [s]
) -> TickDerivatives:
    """Derive a tick."""

    def started(axis: Float64Array, by: float) -> TickAnswer:
        return tick(robot.integrate(joint_q, np.tile(by * axis, (len(joint_q), 1))), joint_qd, targets)

    def sped(axis: Float64Array, by: float) -> TickAnswer:
        return tick(joint_q, joint_qd + by / dt * axis, targets)

    def aimed(target: int, axis: int, by: float) -> TickAnswer:
        return tick(joint_q, joint_qd, _moved(targets, target, axis, by))

    axes = np.eye(robot.joint_dof_count)[dofs]
    ways = [partial(way, axis) for way in (started, sped) for axis in axes]
    ways += [partial(aimed, target, axis) for target in range(targets.shape[1]) for axis in range(TWIST)]
    base = tick(joint_q, joint_qd, targets)
    answers = [[way(by) for by in TICK_STEPS] for way in ways]
    count, several = len(dofs), targets.shape[1]
    found, is_smooth = dict[str, Float64Array](), base.is_sound.copy()
    for part, unit in (("joint_q", 1.0), ("joint_qd", 1.0 / dt)):
        middle: Float64Array = getattr(base, part)
        sides = np.array([[getattr(one[k], part) for one in answers] for k in range(len(TICK_STEPS))])
        sides = np.moveaxis(sides.reshape(len(TICK_STEPS), len(answers), *middle.shape), 1, -1)
        blocks = [np.split(one, [count, 2 * count], axis=-1) for one in _slopes(middle[..., None], sides)]
        for by, off in zip(*blocks, strict=True):
            largest = np.maximum(np.abs(by).max(axis=-1, initial=0.0), LEAST * unit)
            is_smooth &= (off.max(axis=-1, initial=0.0) <= KINK * largest).all(axis=1)
        found[f"{part}_by_start"], by_speed, by_targets = blocks[0]
        found[f"{part}_by_speed"] = dt * by_speed
        found[f"{part}_by_targets"] = by_targets.reshape(*middle.shape, several, TWIST)
    return TickDerivatives(base.joint_q, base.joint_qd, is_differentiable=is_smooth, **found)


def _slopes(middle: Float64Array, sides: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Give derivatives, and by how much slopes beside each other differ; of smooth numbers next to nothing."""
    # `middle` [robots, columns, 1] are numbers of the tick, `sides` [steps, robots, columns, ways] those after each of
    # TICK_STEPS
    near, far = (sides[0] - sides[1]) / (2.0 * MOVED), (sides[2] - sides[3]) / (4.0 * MOVED)
    bends = (sides[0] - 2.0 * middle + sides[1]) / MOVED, (sides[2] - 2.0 * middle + sides[3]) / (2.0 * MOVED)
    # Curvature bends twice as much over twice the way, a kink as much.
    return (4.0 * near - far) / 3.0, np.maximum(np.abs(near - far), np.abs(2.0 * bends[0] - bends[1]))


def _moved(targets: Float64Array, target: int, axis: int, by: float) -> Float64Array:
    """Give poses of which one has moved, or turned about an axis of the frame that it is given in."""
    found, change = targets.copy(), by * np.eye(3)[axis % 3]
    if axis < 3:
        found[:, target, :3] += change
    else:
        turn = np.broadcast_to(quaternion_exp(change[None]), (len(targets), 4))
        found[:, target, 3:] = quaternion_multiply(turn, targets[:, target, 3:])
    return found
