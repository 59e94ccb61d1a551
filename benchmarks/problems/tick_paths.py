"""Paths of a Panda's hand, tick by tick: those that a controller should follow exactly, and those that no robot can."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.problems.pose_problems import link_poses
from ik_service.robots import RobotModel

LINK = "panda_hand"
HOME = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.8, 0.7])
# The maker's limits, which the URDF does not have [rad/s^2].
ACCELERATION = np.array([15.0, 7.5, 10.0, 12.5, 15.0, 20.0, 20.0])

Float64Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TickPath:
    """A path."""

    joint_q: Float64Array  # where the robot starts, [7]
    poses: Float64Array  # target of every tick, position [m] and quaternion xyzw, [ticks, 7]
    feasible: bool  # whether it can be followed within all limits
    held: tuple[str, ...] = ()  # joints to be locked, so that none is left over to go round a singularity with

    def robot(self, panda: RobotModel) -> RobotModel:
        """Return the robot that follows the path."""
        names = panda.joint_names
        return panda.lock({name: float(self.joint_q[names.index(name)]) for name in self.held})


def panda_paths(robot: RobotModel, ticks: int) -> dict[str, TickPath]:
    """Return paths of the Panda by name, from rest to rest; 10000 ticks of a millisecond suit its limits."""
    there = rest_to_rest(ticks)
    there_and_back = np.sin(np.pi * there)
    home = link_poses(robot, HOME[None], LINK)

    def moved(*offsets: Float64Array) -> Float64Array:
        poses = np.tile(home, (ticks, 1))
        poses[:, :3] += np.column_stack(offsets)
        return poses

    def swung(first: Float64Array, joint: int, last: float, *held: str) -> TickPath:
        """One joint goes somewhere and back, as the hand sees it."""
        joint_q = np.tile(first, (ticks, 1))
        joint_q[:, joint] += there_and_back * (last - first[joint])
        return TickPath(first, link_poses(robot, joint_q, LINK), True, held)

    turn, zero = 2.0 * np.pi * there, np.zeros(ticks)
    out = np.array([0.0, 0.3, 0.0, -1.6, 0.0, 1.9, 0.7])
    beyond = np.tile(link_poses(robot, out[None], LINK), (ticks, 1))
    beyond[:, :3] += np.outer(there_and_back, [0.6, 0.0, 0.2])
    near_limit = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.8, 2.0])
    turned = _turned(link_poses(robot, near_limit[None], LINK)[0], 1.6 * there_and_back)
    return {
        "circle": TickPath(HOME, moved(0.1 * (np.cos(3 * turn) - 1.0), 0.1 * np.sin(3 * turn), zero), True),
        "figure of eight": TickPath(HOME, moved(zero, 0.12 * np.sin(2 * turn), 0.06 * np.sin(4 * turn)), True),
        "through a wrist singularity": swung(np.array([0.0, -0.5, 0.0, -2.0, 0.3, 1.8, 0.7]), 5, 3.7, "panda_joint3"),
        "through a shoulder singularity": swung(np.array([0.3, -0.4, 0.2, -2.0, 0.3, 1.8, 0.7]), 1, 0.4),
        "beyond the edge and back": TickPath(out, beyond, False),
        "into a joint limit and back": TickPath(near_limit, turned, False),
    }


def rest_to_rest(ticks: int) -> Float64Array:
    """From 0 to 1 without a jump of speed or acceleration."""
    s = np.linspace(0.0, 1.0, ticks)
    return np.asarray(s**3 * (10.0 - 15.0 * s + 6.0 * s**2))


def _turned(pose: Float64Array, angles: Float64Array) -> Float64Array:
    """A pose turned about its own z axis."""
    x, y, z, w = pose[3:]
    s, c = np.sin(0.5 * angles), np.cos(0.5 * angles)
    poses = np.tile(pose, (len(angles), 1))
    poses[:, 3:] = np.column_stack([x * c + y * s, y * c - x * s, z * c + w * s, w * c - z * s])
    return poses
