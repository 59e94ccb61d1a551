"""Distance of configurations: the change of every DOF; unlimited rotations take the short way."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.mechanism.transforms import quaternion_exp, quaternion_multiply, rotation_between
from ik_service.robots import JointType, RobotModel
from ik_service.solver.given.arrays import consecutive

FloatArray = NDArray[np.floating[Any]]
FULL_TURN = 2.0 * math.pi
CHANGE_ROUNDING = 1.0 + 1e-6  # of changes in float32
TURN_SLACK = 1e-6  # [rad]: limits of one turn are written with six or more digits


class JointMetric:
    """Changes of `dofs` (None: all) between configurations; angles take the short way, except `one_turn` DOFs."""

    def __init__(self, robot: RobotModel, dofs: Sequence[int] | None = None, *, one_turn: Sequence[int] = ()) -> None:
        self.dofs = np.arange(robot.joint_dof_count) if dofs is None else np.asarray(dofs, dtype=np.intp)
        scalar = robot.dof_coordinate[self.dofs] >= 0
        self.turning = _turning(robot)[self.dofs] & ~np.isin(self.dofs, one_turn)
        self._scalars = consecutive(np.flatnonzero(scalar))
        self._coordinates = consecutive(robot.dof_coordinate[self.dofs[scalar]])
        self._wrapped = np.flatnonzero(self.turning[scalar])
        self._quaternions = _quaternions(robot, self.dofs)

    def change(self, start: FloatArray, end: FloatArray) -> FloatArray:
        """Return the change of every DOF [m or rad] between configurations [..., coordinates], shape [..., dofs]."""
        gap = end[..., self._coordinates] - start[..., self._coordinates]
        if len(self._wrapped):
            gap[..., self._wrapped] -= FULL_TURN * np.round(gap[..., self._wrapped] / FULL_TURN)
        return self._with_rotations(gap, start, end)

    def straight(self, start: FloatArray, end: FloatArray) -> FloatArray:
        """Return the change without the short way: the motion of a robot commanded from start to end."""
        return self._with_rotations(end[..., self._coordinates] - start[..., self._coordinates], start, end)

    def _with_rotations(self, gap: FloatArray, start: FloatArray, end: FloatArray) -> FloatArray:
        if not self._quaternions:
            return gap
        change = np.zeros((*gap.shape[:-1], len(self.dofs)), gap.dtype)
        change[..., self._scalars] = gap
        for place, first in self._quaternions:
            columns = slice(first, first + 4)
            change[..., place : place + 3] = rotation_between(start[..., columns], end[..., columns])
        return change

    def moved(self, start: FloatArray, change: FloatArray) -> FloatArray:
        """Return configurations [..., coordinates] moved by changes [..., dofs]."""
        end = start.copy()
        end[..., self._coordinates] += change[..., self._scalars]
        for place, first in self._quaternions:
            turn = quaternion_exp(np.asarray(change[..., place : place + 3], np.float64))
            turned = quaternion_multiply(turn, np.asarray(start[..., first : first + 4], np.float64))
            end[..., first : first + 4] = turned
        return end


def _turning(robot: RobotModel) -> NDArray[np.bool_]:
    """Give the mask of DOFs with the same pose one turn further, within their range."""
    turning = np.zeros(robot.joint_dof_count, dtype=bool)
    for joint, kind in enumerate(map(JointType, robot.joint_type)):
        if kind.repeats_each_turn:
            dof = int(robot.joint_qd_start[joint + 1]) - 1
            turning[dof] = robot.joint_limit_upper[dof] - robot.joint_limit_lower[dof] > FULL_TURN + TURN_SLACK
    follows = robot.follower_dofs
    turning[follows] = False  # mimic joints turn by another angle than their leaders
    turning[robot.dof_leader[follows]] = False
    return turning


def _quaternions(robot: RobotModel, dofs: NDArray[Any]) -> list[tuple[int, int]]:
    """Give, for ball and floating joints, the index of the rotation in the DOFs and the first quaternion coordinate."""
    found = []
    for joint, first in robot.quaternion_starts.items():
        places = np.flatnonzero(dofs == robot.joint_qd_start[joint + 1] - 3)
        if places.size:
            found.append((int(places[0]), first))
    return found
