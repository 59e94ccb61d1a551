"""Derivatives of a tick by its start, speeds and targets: differences of ticks, in float64.

start, speeds, targets -> each moved by two steps both ways, a tick from each -> two central differences, combined into
one of fourth order -> derivatives where both agree
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ik_service.mechanism.transforms import Float64Array, quaternion_exp, quaternion_multiply
from ik_service.robots import RobotModel

MOVED = 1e-6  # step of start, targets, and speeds times the tick's length; the second step is twice as large [m or rad]
TICK_STEPS = MOVED * np.array([1.0, -1.0, 2.0, -2.0])
KINK, LEAST = 1e-3, 0.1
"""Slope difference that counts as a kink, relative to the largest derivative of a row, and least value of this largest
derivative: relative to the derivative of a resting joint by its start, or to 1/m."""
TWIST = 6


@dataclass(frozen=True, eq=False)
class TickDerivatives:
    """First derivatives of a tick's answers.

    Starts move along tangents, one number per DOF [m or rad]: rotation vectors for ball and floating joints, as in
    `RobotModel.integrate`. If a limit cuts a joint's motion short, the joint depends on its start and speed, not on the
    targets. Mimic joints start at the values given by their leaders: derivatives by mimic joints are zero.

    Attributes:
        joint_q: Commanded configuration, shape [robots, coordinates].
        joint_qd: Commanded speeds, shape [robots, DOFs].
        joint_q_by_start: Derivative of each coordinate by each DOF of the start, shape [robots, coordinates, DOFs].
        joint_q_by_speed: By each DOF's previous speed, same shape.
        joint_q_by_targets: By position and rotation vector of each target, about the axes of the target's reference
            frame, shape [robots, coordinates, targets, 6].
        joint_qd_by_start: Derivative of the speeds, shape [robots, DOFs, DOFs].
        joint_qd_by_speed: Same shape.
        joint_qd_by_targets: Shape [robots, DOFs, targets, 6].
        is_differentiable: Mask of differentiable ticks, bool [robots]. Not differentiable are kinks (a limit just
            becomes active, for example), jumps, and ticks with status INVALID or LOOP_OPEN; their derivatives are
            plain differences. Slope changes below 1e-3 of the largest derivative of the row, or 1e-4 of the
            derivatives of a resting joint, are not detected.
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
    """Answer of a tick, a line per robot: configurations and speeds by the caller's columns, and validity."""

    joint_q: Float64Array
    joint_qd: Float64Array
    is_sound: NDArray[np.bool_]


Tick = Callable[[Float64Array, Float64Array, Float64Array], TickAnswer]
"""Function from configurations and speeds of the whole robot and target poses, a line per robot."""


def tick_derivatives(
    tick: Tick,
    robot: RobotModel,
    dofs: NDArray[np.intp],  # DOFs of the derivatives, the caller's columns
    joint_q: Float64Array,  # start, shape [robots, joint_coord_count]
    joint_qd: Float64Array,  # speeds, shape [robots, joint_dof_count]
    targets: Float64Array,  # poses, shape [robots, targets, 7]
    dt: float,  # length of the tick [s]
) -> TickDerivatives:
    """Differentiate a tick."""

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
    """Give derivatives, and differences of neighbouring slopes; near zero for smooth functions.

    `middle` [robots, columns, 1] are numbers of the tick, `sides` [steps, robots, columns, ways] the numbers after each
    of TICK_STEPS.
    """
    near, far = (sides[0] - sides[1]) / (2.0 * MOVED), (sides[2] - sides[3]) / (4.0 * MOVED)
    bends = (sides[0] - 2.0 * middle + sides[1]) / MOVED, (sides[2] - 2.0 * middle + sides[3]) / (2.0 * MOVED)
    # Over twice the step, curvature doubles the slope difference, a kink leaves the difference unchanged.
    return (4.0 * near - far) / 3.0, np.maximum(np.abs(near - far), np.abs(2.0 * bends[0] - bends[1]))


def _moved(targets: Float64Array, target: int, axis: int, by: float) -> Float64Array:
    """Give poses with one pose translated, or rotated about an axis of its reference frame."""
    found, change = targets.copy(), by * np.eye(3)[axis % 3]
    if axis < 3:
        found[:, target, :3] += change
    else:
        turn = np.broadcast_to(quaternion_exp(change[None]), (len(targets), 4))
        found[:, target, 3:] = quaternion_multiply(turn, targets[:, target, 3:])
    return found
