"""Speed of the service on its machine for the first page: measured on request, at most once a minute, in idle times.

The solver's thread solves as for every caller: one target at a time, and a batch of random reachable targets.
"""

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass
from statistics import median

import numpy as np

from ik_service.mechanism.names import leaf_links
from ik_service.robots import RobotModel
from ik_service.service.pool.solver_pool import SolverPool
from ik_service.service.queue.solve_request import SolveRequest, TimedResult
from ik_service.solver.collision_checker import CollisionChecker
from ik_service.solver.given.batch import Batch
from ik_service.solver.given.targets import Target
from objectives.errors import IKError, InputError

BATCH, SINGLES, BATCHES = 1000, 9, 5  # targets of the batch; solves of one target, and of the batch: medians count
FRESH_S = 60.0  # time after which the speed is measured again [s]
PAUSE_S = 0.5  # time before a measurement, in which a browser draws the page [s]
DRAWS = 100  # most draws of as many configurations as the batch has
MEASURE_S = 10.0  # longest time of one solve [s]


@dataclass(frozen=True)
class Speed:
    """A measured speed."""

    robot: str
    solve_us: float  # median time of a solve of one target [µs]
    targets_per_s: float  # targets of the batch per second
    solved: float  # solved share of the batch
    device: str
    measured_at: float  # on the monotonic clock [s]


class SpeedMeter:
    """Measures the speed of a pool, and keeps the newest one."""

    def __init__(self, pool: SolverPool) -> None:
        self._pool, self._newest = pool, dict[str, Speed]()
        self._measuring: asyncio.Task[None] | None = None

    def speed(self, name: str, robot: RobotModel) -> Speed | None:
        """Return the newest speed for a robot, None where there is none yet; have an old one measured again.

        Called on the event loop.
        """
        speed, is_idle = self._newest.get(name), not self._pool.waiting_requests and not self._pool.solving_s
        is_old = speed is None or time.monotonic() - speed.measured_at > FRESH_S
        if is_old and is_idle and (self._measuring is None or self._measuring.done()):
            self._measuring = asyncio.create_task(asyncio.to_thread(self._measure, name, robot))
        return speed

    def _measure(self, name: str, robot: RobotModel) -> None:
        with suppress(IKError, TimeoutError):  # the page has no number then
            time.sleep(PAUSE_S)
            batch = reachable(robot)
            singles = [self._solve(name, robot, batch, slice(k, k + 1)) for k in range(SINGLES)]
            wholes = [self._solve(name, robot, batch, slice(None)) for _ in range(BATCHES)]
            per_s, result = 1e3 * BATCH / median(one.solve_ms for one in wholes), wholes[0].result
            solve_us, solved = 1e3 * median(one.solve_ms for one in singles), float(result.success.mean())
            self._newest = {name: Speed(name, solve_us, per_s, solved, result.device, time.monotonic())}

    def _solve(self, name: str, robot: RobotModel, batch: Batch, rows: slice) -> TimedResult:
        request = SolveRequest((Target(_link(robot)),), batch.part(rows))
        return self._pool.submit(robot, request, timeout_s=MEASURE_S, label=name).result(MEASURE_S)


def _link(robot: RobotModel) -> str:
    return leaf_links(robot)[-1]


def reachable(robot: RobotModel) -> Batch:
    """Return whole poses of the last leaf link at random configurations, free of contact with collision checks."""
    rng = np.random.default_rng(0)
    joint_q = robot.random_joint_q(rng, BATCH)
    if robot.collision_model is not None:
        checker, free = CollisionChecker(robot), joint_q[:0]
        for _ in range(DRAWS):
            free = np.concatenate([free, joint_q[checker.check(joint_q).is_free]])
            if len(free) >= BATCH:
                break
            joint_q = robot.random_joint_q(rng, BATCH)
        if not len(free):
            raise InputError(f"{DRAWS * BATCH} random configurations of '{robot.name}' are in contact.")
        joint_q = np.resize(free, (BATCH, robot.joint_coord_count))
    poses = robot.forward_kinematics(joint_q, [_link(robot)])
    return Batch.of([poses.positions[:, 0]], [poses.orientations_xyzw[:, 0]])
