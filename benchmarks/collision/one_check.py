"""Checks of configurations for contact: one at a time and in a batch, on the host in NumPy and compiled."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ik_service
from benchmarks.collision.free_answers import cluttered
from benchmarks.problems.compared_robots import G1
from benchmarks.report import Report
from benchmarks.run import benchmark, timed

Array = NDArray[Any]
SEED, BOUND, ROUNDING = 0, 100.0, 1e-9  # [us] of one configuration; [m]


def show(report: Report, *, configurations: int) -> None:
    """Time both checks of the same random configurations."""
    report.section(
        f"{configurations} random configurations",
        "`robot.collision`, in NumPy, and `CollisionChecker`, compiled, both in float64. CPU time of a "
        "configuration [us]; the world has 20 boxes.",
        *("robot", "spheres", "pairs", "world", "NumPy, one", "compiled, one", "NumPy, all", "compiled, all"),
    )
    slowest = furthest = 0.0
    fitted = ik_service.load_robot(G1.path, collision="spheres")
    for robot in (ik_service.load_robot("panda"), ik_service.load_robot("dual_panda"), fitted):
        joint_q = robot.random_joint_q(np.random.default_rng(SEED), configurations)
        for world in (None, cluttered()):
            checker, model = ik_service.CollisionChecker(robot, world), robot.collision_model
            host = partial(robot.collision, world=world)
            one = {call: timed(partial(_each, call, joint_q), 3)[1].median for call in (host, checker.check)}
            (here, host_us), (there, checker_us) = (
                timed(partial(call, joint_q), 3, configurations) for call in (host, checker.check)
            )
            slowest = max(slowest, one[checker.check])
            furthest = max(furthest, float(np.abs(here.clearance - there.clearance).max()))
            times = (one[host], one[checker.check], host_us.median, checker_us.median)
            own = (model.sphere_count, len(model.pairs), "none" if world is None else "boxes")
            report.row(robot.name, *own, *(f"{time:.1f}" for time in times))
    report.claim("one configuration, slowest", f"{slowest:.1f} us", f"{BOUND:g} us", slowest <= BOUND)
    report.claim("largest difference", f"{furthest:.1e} m", f"{ROUNDING:g} m", furthest <= ROUNDING)


def _each(call: Callable[[Array], object], joint_q: Array) -> list[object]:
    return [call(one) for one in joint_q]


if __name__ == "__main__":
    benchmark("One check for contact", show, sizes={"configurations": (200, 2000)})
