"""Objectives written as Warp kernels beside the same rows stated as expressions: CPU time of a solve with pose targets.

python -m benchmarks.engines.kernel_objectives [--write benchmarks/engines/kernel_objectives.md]
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import ik_service
from benchmarks.problems.compared_robots import MANY_LIMBS, PANDA
from benchmarks.problems.kernel_rows import KernelCenterOfMass, KernelPosture
from benchmarks.problems.many_arms import HandProblems, solved
from benchmarks.report import Report, machine, measured
from ik_service import RobotModel
from objectives import IKObjectiveCenterOfMass, IKObjectivePosture

TOLERANCE, REPEATS, WEIGHT, RANDOM_SEED = (1e-3, 1e-2), 5, 1e-2, 4
TALOS = MANY_LIMBS[3]
CASES = {TALOS: (500, 40.0), PANDA: (2000, 15.0)}  # problems, and the largest share of times


def posture(robot: RobotModel, kernel: bool) -> Any:
    """Return a posture in the middle of the joints' ranges."""
    if kernel:
        return KernelPosture(robot, robot.mid_joint_q, WEIGHT)
    joints = [np.searchsorted(robot.joint_qd_start, dof, side="right") - 1 for dof in robot.active_dof]
    return IKObjectivePosture(robot.mid_joint_q, weight=WEIGHT, joints=[robot.joint_names[j] for j in joints])


def center_of_mass(robot: RobotModel, kernel: bool, count: int) -> Any:
    """Return a centre of mass where the targets can be met."""
    points = robot.center_of_mass(robot.random_joint_q(np.random.default_rng(RANDOM_SEED), count))
    return KernelCenterOfMass(points) if kernel else IKObjectiveCenterOfMass(points)


def measure(problems: HandProblems, objective: Any, repeats: int) -> tuple[str, float, float, float]:
    """Return the engine, the least CPU time per problem [us], success by host kinematics and mean iterations."""
    solver = ik_service.IKSolver(problems.robot, problems.links, objectives=[objective], device="cpu")
    given, times = (problems.positions, problems.orientations_xyzw), []
    solver.solve(*given)
    for _ in range(repeats):
        begin = time.process_time()
        result = solver.solve(*given)
        times.append((time.process_time() - begin) / len(result.success) * 1e6)
    good = solved(problems, result.joint_q, TOLERANCE)
    if (result.success & ~good).any():
        raise SystemExit("a success is none")
    return solver.engine, min(times), float(good.mean()), float(result.iterations.mean())


def show(report: Report) -> None:
    """Measure and add the table."""
    report.line("")
    report.line(
        f"{machine()}, one core. Targets of random configurations inside the limits, rows of priority 1 beside them. "
        f"CPU time of the public call per problem, least of {REPEATS}; success within 1 mm and 0.01 rad by "
        "kinematics of the host in float64."
    )
    report.line("")
    report.table("robot", "rows", "stated as", "engine", "time [us]", "times", "bound", "success [%]", "iterations")
    for compared, (count, bound) in CASES.items():
        problems = compared.problems(count, RANDOM_SEED)
        robot = problems.robot
        makers: dict[str, Callable[[bool], Any]] = {"posture": lambda kernel, robot=robot: posture(robot, kernel)}
        if robot.body_masses:
            makers["centre of mass"] = lambda kernel, robot=robot, count=count: center_of_mass(robot, kernel, count)
        for rows, make in makers.items():
            plain = 0.0
            for kernel in (False, True):
                engine, taken, success, iterations = measure(problems, make(kernel), REPEATS)
                plain = plain or taken
                cells = [f"{taken:.1f}", f"{taken / plain:.1f}", f"{bound:g}" if kernel else ""]
                name = "kernel" if kernel else "expression"
                report.row(compared.name, rows, name, engine, *cells, f"{100 * success:.2f}", f"{iterations:.1f}")
                if taken > bound * plain:
                    report.missed.append(f"{rows} on {compared.name}")


if __name__ == "__main__":
    measured("Objectives written as kernels", __doc__, show)
