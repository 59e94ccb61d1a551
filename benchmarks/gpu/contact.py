"""What all steps of a first contact with a GPU are given: solvers on the device and on the CPU, targets, the judge."""

from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import numpy as np
import warp as wp
from numpy.typing import NDArray

import ik_service
from benchmarks.problems.compared_robots import LINKS
from benchmarks.problems.pose_problems import PoseProblems
from benchmarks.report import Report
from ik_service.solver.compiled import island_launches

SEED = 7


@dataclass(frozen=True)
class Contact:
    """What all steps are given."""

    report: Report  # where figures go
    device: wp.Device
    count: int  # problems of each robot
    seconds: float  # time for the calls of each rate [s]
    robots: tuple[str, ...] = tuple(LINKS)  # names of robots

    def solver(self, name: str, device: str | None = None) -> ik_service.IKSolver:
        """Return a solver of a built-in robot by the compiled engine, where it can hold the robot."""
        return self.make(ik_service.load_robot(name, collision="ignore"), LINKS[name], device)

    def make(self, robot: ik_service.RobotModel, targets: Any, device: str | None = None) -> ik_service.IKSolver:
        """Return a solver of any robot on the device, or on another."""
        with ExitStack() as stack:
            if device is None and self.device.is_cpu:
                stack.enter_context(patch.object(island_launches, "in_threads", lambda _: True))
            return ik_service.IKSolver(robot, targets, device=device or str(self.device))


def reachable(robot: ik_service.RobotModel, links: list[str], count: int) -> PoseProblems:
    """Return poses that random configurations reach, in float32."""
    return in_float32(PoseProblems.random(robot, links, count, SEED))


def in_float32(problems: PoseProblems) -> PoseProblems:
    """Return targets rounded to float32."""
    positions, orientations = (values.astype(np.float32) for values in problems.given)
    return replace(problems, positions=positions, orientations_xyzw=orientations)


def circle(robot: ik_service.RobotModel, ticks: int) -> NDArray[np.float64]:
    """Return poses of a Panda's hand on a circle of 0.1 m, [ticks, 7]."""
    pose = robot.forward_kinematics(robot.mid_joint_q, LINKS["panda"])
    poses = np.tile(np.concatenate([pose.positions[0, 0], pose.orientations_xyzw[0, 0]]), (ticks, 1))
    angle = 2.0 * np.pi * np.arange(ticks) / ticks
    poses[:, :2] += 0.1 * np.stack([np.cos(angle) - 1.0, np.sin(angle)], axis=1)
    return poses
