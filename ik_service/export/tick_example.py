"""The example program of an exported controller, and its path."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import warp as wp

from ik_service.control import IKController

CIRCLE_RADIUS = 0.05  # of the circles [m]
CIRCLES = 2
EXAMPLE_DT = 1e-3


def example_ticks(controller: IKController, numbers: Mapping[str, "wp.array[Any]"], count: int) -> bytes:
    """Return circles of all targets with the controller's commands, and restore its varying arrays `numbers`."""
    robot, robots = controller.robot, controller.robots
    start = np.tile(robot.mid_joint_q, (robots, 1))
    targets = np.tile(_circles(controller, count)[:, None], (1, robots, 1, 1))
    with _restored(numbers):
        controller.reset(start)
        commands = [controller.step(line if line.size else None, dt=EXAMPLE_DT).joint_q.copy() for line in targets]
    head = np.array([count, robots, targets.shape[2], robot.joint_coord_count], np.int32)
    return b"".join(np.ascontiguousarray(array).tobytes() for array in (head, start, targets, np.array(commands)))


def _circles(controller: IKController, count: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Give circles that begin and end at rest at the mid-range configuration, [count, targets, 7]."""
    robot = controller.robot
    links = [target.link for target in controller.targets]
    s = np.linspace(0.0, 1.0, count)
    turn = 2.0 * np.pi * CIRCLES * s**3 * (10.0 - 15.0 * s + 6.0 * s**2)
    poses = np.zeros((count, len(links), 7))
    if links:
        middle = robot.forward_kinematics(robot.mid_joint_q[None], links)
        poses[..., :3], poses[..., 3:] = middle.positions[0], middle.orientations_xyzw[0]
        poses[..., 0] += CIRCLE_RADIUS * (np.cos(turn) - 1.0)[:, None]
        poses[..., 1] += CIRCLE_RADIUS * np.sin(turn)[:, None]
    return poses


@contextmanager
def _restored(numbers: Mapping[str, "wp.array[Any]"]) -> Iterator[None]:
    """Restore the contents of arrays on a CPU."""
    before = {label: array.numpy().copy() for label, array in numbers.items()}
    try:
        yield
    finally:
        for label, values in before.items():
            numbers[label].numpy()[...] = values
