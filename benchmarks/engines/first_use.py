"""First use of a robot in a fresh process: seconds from imports to the first answer, by what the cache holds."""

import os
import tempfile
from itertools import product
from pathlib import Path

import numpy as np

from benchmarks.problems.compared_robots import LINKS
from benchmarks.report import Report
from benchmarks.run import benchmark, fresh
from ik_service.compiler import cpu_target

CASES = {
    **{name: LINKS[name] for name in ("panda", "ur5e", "dual_panda")},
    "humanoid": ["left_sole", "right_sole", "left_grasp", "right_grasp", "head_camera"],
}
OTHER = ("iiwa14", "read", LINKS["iiwa14"])
CHECKS = {"off": "ignore", "checked": "read"}
FRESH = """
import json, sys, time
import numpy as np
import warp as wp
wp.config.log_level = wp.LOG_ERROR
import ik_service.solver
name, collision, *links = sys.argv[1:]
wall, cpu = time.perf_counter(), time.process_time()
robot = ik_service.load_robot(name, collision=collision)
poses = robot.forward_kinematics(robot.mid_joint_q[None], links)
solver = ik_service.IKSolver(robot, links, device="cpu")
result = solver.solve(poses.positions, poses.orientations_xyzw)
print(json.dumps([time.perf_counter() - wall, time.process_time() - cpu, bool(result.success.all())]))
"""


def first_use(name: str, collision: str, links: list[str], cache: str) -> list[float]:
    """Return wall and CPU seconds of a first use in a fresh process."""
    *seconds, solved = fresh(FRESH, name, collision, *links, cache=cache)
    assert solved
    return seconds


def show(report: Report, *, repeats: int) -> None:
    """Measure and print the table."""
    report.table("robot", "targets", "collision", "empty cache", "another robot", "filled cache", "code [kB]")
    for (name, links), (said, collision) in product(CASES.items(), CHECKS.items()):
        cold, other, warm, size = [], [], [], 0
        for _ in range(repeats):
            with tempfile.TemporaryDirectory() as cache:
                cold.append(first_use(name, collision, links, cache))
                warm.append(first_use(name, collision, links, cache))
                size = sum(file.stat().st_size for file in Path(cache).rglob("*.o"))
            with tempfile.TemporaryDirectory() as cache:
                first_use(*OTHER, cache)
                other.append(first_use(name, collision, links, cache))
        cells = [" / ".join(f"{value:.2f}" for value in np.median(times, axis=0)) for times in (cold, other, warm)]
        report.row(name, len(links), said, *cells, f"{size / 1e3:.0f}")


if __name__ == "__main__":
    benchmark(
        "First use of a robot",
        show,
        f"Seconds from the end of imports to the first answer of a fresh process: reading the robot, making the solver "
        f"and one solve, without the check for collision and with it, as by default. Wall time / CPU time, medians of "
        f"the repeats; {cpu_target().name}, {len(os.sched_getaffinity(0))} cores. Another robot: the cache holds what "
        f"a first use of {OTHER[0]} has left, with a precompiled header and what no robot changes. Code: objects in "
        "the cache.",
        sizes={"repeats": 5},
        core=None,
    )
