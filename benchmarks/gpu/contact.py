"""What all steps of a first contact with a GPU are given: solvers on the device and on the CPU, targets, the judge."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import numpy as np
import warp as wp
from numpy.typing import NDArray

import ik_service
from benchmarks.problems.compared_robots import LINKS
from benchmarks.problems.pose_problems import PoseProblems, link_poses
from benchmarks.report import Report
from ik_service.control import ControlLimits, IKController
from ik_service.solver.compiled import island_launches

SEED = 7
WARM_UP = 3  # calls: launches, a recording, and its first replay
CALLS_MIN = 5


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

    def make(
        self, robot: ik_service.RobotModel, targets: Any, device: str | None = None, **settings: Any
    ) -> ik_service.IKSolver:
        """Return a solver of any robot on the device, or on another."""
        with ExitStack() as stack:
            if device is None and self.device.is_cpu:
                stack.enter_context(patch.object(island_launches, "in_threads", lambda _: True))
            return ik_service.IKSolver(robot, targets, device=device or str(self.device), **settings)

    def wall_times(self, run: Callable[[], object]) -> NDArray[np.float64]:
        """Return the wall time of each run [s], after a few to warm up, for so long and at least a few times."""
        times: list[float] = []
        while len(times) < WARM_UP + CALLS_MIN or sum(times[WARM_UP:]) < self.seconds:
            start = time.perf_counter()
            run()
            wp.synchronize_device(self.device)
            times.append(time.perf_counter() - start)
        return np.array(times[WARM_UP:])

    def rate(self, run: Callable[[], object], count: int, decimals: int = 0) -> tuple[str, str]:
        """Return the median of the wall times [us], and problems per second, as cells of a table."""
        median = float(np.median(self.wall_times(run)))
        return f"{1e6 * median:.{decimals}f}", f"{count / median:,.0f}"


def reachable(robot: ik_service.RobotModel, links: list[str], count: int) -> PoseProblems:
    """Return poses that random configurations reach, in float32."""
    return in_float32(PoseProblems.random(robot, links, count, SEED))


def in_float32(problems: PoseProblems) -> PoseProblems:
    """Return targets rounded to float32."""
    positions, orientations = (values.astype(np.float32) for values in problems.given)
    return replace(problems, positions=positions, orientations_xyzw=orientations)


def panda_controller(robot: ik_service.RobotModel, device: wp.Device) -> IKController:
    """Return a controller of a Panda's hand with limits of acceleration, where the circle begins."""
    controller = IKController(robot, LINKS["panda"], limits=ControlLimits(acceleration=10.0), device=str(device))
    controller.reset(robot.mid_joint_q)
    return controller


def circle(robot: ik_service.RobotModel, ticks: int) -> NDArray[np.float64]:
    """Return poses of a Panda's hand on a circle of 0.1 m, [ticks, 7]."""
    poses = np.tile(link_poses(robot, robot.mid_joint_q[None], *LINKS["panda"]), (ticks, 1))
    angle = 2.0 * np.pi * np.arange(ticks) / ticks
    poses[:, :2] += 0.1 * np.stack([np.cos(angle) - 1.0, np.sin(angle)], axis=1)
    return poses
