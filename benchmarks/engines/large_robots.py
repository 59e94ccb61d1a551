"""What the staged engine holds: time and memory of one problem by the number of DOFs of a chain, on one core."""

import multiprocessing
import resource
import time
from typing import Any

import numpy as np
import warp as wp

import ik_service
from benchmarks.report import Report
from benchmarks.run import benchmark
from ik_service.robots import RobotModel, load_urdf
from ik_service.solver.given.options import DEFAULT_SEEDS

LINK_M = 0.05
REPEATS = 3


def chain(dofs: int) -> RobotModel:
    """Return a chain of revolute joints whose axes are x and y in turn."""
    links = "".join(f'<link name="l{k}"/>' for k in range(dofs + 1))
    joints = "".join(
        f'<joint name="j{k}" type="revolute"><parent link="l{k}"/><child link="l{k + 1}"/>'
        f'<origin xyz="0 0 {LINK_M}"/><axis xyz="{k % 2} {1 - k % 2} 0"/><limit lower="-1" upper="1"/></joint>'
        for k in range(dofs)
    )
    return load_urdf(f'<robot name="chain">{links}{joints}</robot>'.encode())


def measure(dofs: int, answer: Any) -> None:
    """Put what a solver costs, and one seed at a target out of reach, all of its iterations."""
    wp.config.log_level = wp.LOG_WARNING
    robot, link, iterations = chain(dofs), f"l{dofs}", ik_service.SolverOptions().max_iterations
    far = np.full((1, 3), 2 * dofs * LINK_M)

    def seconds(budget: int) -> float:
        start = time.process_time()
        solver.solve(far, options={"seeds": 1, "max_iterations": budget})
        return time.process_time() - start

    start = time.process_time()
    solver = ik_service.IKSolver(robot, [link], device="cpu", engine="staged")
    seconds(1)
    made = time.process_time() - start
    one = min(seconds(iterations) for _ in range(REPEATS))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    per_unit = f"{one / (dofs**3 * iterations):.1e}"
    answer.put((dofs, f"{made:.2f}", f"{one:.3f}", per_unit, f"{DEFAULT_SEEDS * one:.1f}", f"{memory:.0f}"))


def show(report: Report, *, dofs: list[int]) -> None:
    """Measure each size in a process of its own, after one that fills the kernel cache."""
    heads = "solver made [s]", "one seed [s]", "per DOF^3 and iteration [s]", "64 seeds [s]", "memory [MiB]"
    report.table("DOFs", *heads)
    context = multiprocessing.get_context("spawn")
    for k, size in enumerate([dofs[0], *dofs]):
        answer = context.SimpleQueue()
        process = context.Process(target=measure, args=(size, answer))
        process.start()
        cells = answer.get()
        process.join()
        if k > 0:
            report.row(*cells)


if __name__ == "__main__":
    benchmark("Large robots", show, sizes={"dofs": [60, 128, 256, 512]})
