"""Controllers of a Panda along a path, and the time of their ticks."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.problems.tick_paths import ACCELERATION, LINK, TickPath
from ik_service.control import ControlLimits, IKController
from ik_service.robots import RobotModel

KINDS = {"speed limits": None, "speed and acceleration limits": ACCELERATION}
Array = NDArray[np.float64]


def make_controller(robot: RobotModel, path: TickPath, acceleration: Any, **options: Any) -> IKController:
    """Return a controller of the path's link at the start of the path."""
    controller = IKController(robot, [LINK], limits=ControlLimits(acceleration=acceleration), **options)
    controller.reset(path.joint_q)
    controller.warmup()
    return controller


def targets_of(path: TickPath, robots: int, ticks: int) -> Array:
    """Return targets of every tick, [ticks, robots, 1, 7]: each robot goes round a smaller loop than the one before.

    More ticks than the path has begin it again.
    """
    laps = -(-ticks // len(path.poses))
    poses = np.tile(path.poses, (laps, 1))[:ticks]
    targets = np.repeat(poses[:, None], robots, axis=1)
    size = np.linspace(1.0, 0.5, robots)[None, :, None]
    targets[..., :3] = path.poses[0, :3] + size * (targets[..., :3] - path.poses[0, :3])
    return np.ascontiguousarray(targets[:, :, None])


def timed_ticks(controller: IKController, targets: Array, start: Array | None = None) -> tuple[Array, Array]:
    """Return wall and CPU time of every tick [µs], from a configuration on or from where the controller is."""
    if start is not None:
        controller.reset(start)
    wall, cpu = np.zeros((2, len(targets)), dtype=np.int64)
    for k, target in enumerate(targets):
        cpu_begun = time.thread_time_ns()
        begun = time.perf_counter_ns()
        controller.step(target)
        ended = time.perf_counter_ns()
        cpu[k] = time.thread_time_ns() - cpu_begun
        wall[k] = ended - begun
    return 1e-3 * wall, 1e-3 * cpu


class Stopwatch:
    """Times calls of a function that it stands for.

    Attributes:
        times: Time of every call [ns].
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.times: list[int] = []
        self._function = function

    def __call__(self, *arguments: Any) -> Any:
        """Call the function."""
        begun = time.perf_counter_ns()
        answer = self._function(*arguments)
        self.times.append(time.perf_counter_ns() - begun)
        return answer
