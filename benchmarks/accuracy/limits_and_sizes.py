"""Minima at joint limits, float64 at exact limits, and robots of other sizes: what counts as solved, and whether it is.

python -m benchmarks.accuracy.limits_and_sizes [--quick]

Writes limits_and_sizes.md. Minima are judged by a descent in float64 within the limits, from the answer on.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import warp as wp

import ik_service
from benchmarks.problems.compared_robots import ALLEGRO_TIPS, ARMS, BUILTIN, PANDA, WHOLE_BODY, ComparedRobot
from benchmarks.problems.scaled_robots import scaled_urdf
from benchmarks.problems.weighted_poses import WeightedPoses
from benchmarks.report import Report, machine
from ik_service.robots import load_urdf

NEAR = 1e-4  # of the cost: as far above the minimum next to it is an answer at that minimum
EXACT = 1e-9  # m and rad
LIMIT_SHARE = 0.3  # of the joints that stand at a limit
SIZES = (1e-3, 1e-2, 0.02, 1.0, 50.0, 1e2, 1e3)
REPEATS = 5
GRIPPER = ComparedRobot("panda_gripper", "panda_gripper", ("panda_leftfinger",))
MINIMA = (
    (PANDA, 0.2),
    (ComparedRobot("ur5e", "ur5e", ("tool0",)), 0.2),
    (ComparedRobot("dual_panda", "dual_panda", ("left_panda_hand", "right_panda_hand")), 0.2),
    (ComparedRobot("allegro", "allegro", ALLEGRO_TIPS), 0.02),
    (WHOLE_BODY, 0.2),
)
"""Robots, and how far their targets are moved away at random [m]."""


def main() -> None:
    """Measure everything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few problems, and no file")
    quick = parser.parse_args().quick
    wp.config.log_level = wp.LOG_ERROR
    report = Report("Limits and sizes")
    report.line(f"\n{machine()}; made by `python -m benchmarks.accuracy.limits_and_sizes`.")
    show_minima(report, 40 if quick else 200)
    show_exact_limits(report, 200 if quick else 2000)
    show_sizes(report, 200 if quick else 4000)
    if not quick:
        report.save(Path(__file__).with_suffix(".md"))


def show_minima(report: Report, count: int) -> None:
    """Report how many minima within the limits are called a success, and how many successes are none."""
    report.section(
        "Objectives alone",
        "Poses of all links, moved away at random, and a posture of weight 0.03, without targets: how many answers lie "
        f"within {NEAR:g} of the cost of the minimum next to them, how many of these are a success, and how many "
        "successes lie farther.",
    )
    heads = ("at a minimum", "of these a success", "successes at none", "blocked_by_limits", "max_iterations")
    report.table("robot", "precision", "count", *heads)
    for case, away in MINIMA:
        problems = WeightedPoses.draw(case.robot, case.links, count, 1, away=away, weight=0.03)
        solver = ik_service.IKSolver(case.robot, objectives=problems.objectives(), device="cpu")
        for precision in ("float32", "float64"):
            result = solver.solve(problem_count=count, options={"precision": precision})
            cost, least = problems.costs(result.joint_q), problems.least_costs(result.joint_q)
            near, names = cost - least <= NEAR * cost, np.array(result.status_names)
            shares = [near.mean(), result.success[near].mean()]
            statuses = [(names == name).mean() for name in ("blocked_by_limits", "max_iterations")]
            false = int((result.success & ~near).sum())
            report.row(case.name, precision, count, *map(percent, shares), false, *map(percent, statuses))


def show_exact_limits(report: Report, count: int) -> None:
    """Report how many poses at exact limits float64 meets."""
    report.section(
        "float64 at exact limits",
        f"Poses of configurations in which each joint stands at an end of its range with probability {LIMIT_SHARE:g}, "
        f'`precision="float64"`: how many are met within {EXACT:g} m and rad.',
    )
    report.table("robot", "count", "success", "within 1e-9", "inside the limits")
    for case in (*ARMS, GRIPPER):
        robot, rng = case.robot, np.random.default_rng(1)
        joint_q = robot.random_joint_q(rng, count)
        own = robot.dof_coordinate[robot.active_dof]
        ends = np.where(rng.random((count, len(own))) < 0.5, robot.active_limit_lower, robot.active_limit_upper)
        held = (rng.random(ends.shape) < LIMIT_SHARE) & np.isfinite(ends)
        joint_q[:, own] = np.where(held, ends, joint_q[:, own])
        poses = robot.forward_kinematics(robot.complete_joint_q(joint_q), list(case.links))
        solver = ik_service.IKSolver(robot, list(case.links), device="cpu")
        result = solver.solve(poses.positions, poses.orientations_xyzw, options={"precision": "float64"})
        worst = np.maximum(result.position_error, result.orientation_error).max(axis=1)
        inside = bool((np.nan_to_num(result.limit_margin) >= 0.0).all())
        report.row(case.name, count, percent(result.success.mean()), percent((worst <= EXACT).mean()), inside)


def show_sizes(report: Report, count: int) -> None:
    """Report success and time of a robot that is enlarged."""
    report.section(
        "Robots of other sizes",
        "The Panda with all lengths multiplied, and position tolerances with them: 1 mm times the size, 0.01 rad. CPU "
        f"time of a batch, the least of {REPEATS}.",
    )
    report.table("size", "length unit, m", "count", "success", "µs per target", "median error / size, m")
    for size in SIZES:
        robot = load_urdf(scaled_urdf((BUILTIN / "panda.urdf").read_text(), size))
        link = list(PANDA.links)
        poses = robot.forward_kinematics(robot.random_joint_q(np.random.default_rng(0), count), link)
        options = ik_service.SolverOptions(position_tolerance=1e-3 * size)
        solver = ik_service.IKSolver(robot, link, device="cpu", options=options)
        times = []
        for _ in range(REPEATS + 1):
            begun = time.process_time()
            result = solver.solve(poses.positions, poses.orientations_xyzw)
            times.append(time.process_time() - begun)
        error = np.median(result.position_error) / size
        row = (f"{size:g}", f"{robot.length_unit:g}", count, percent(result.success.mean()))
        report.row(*row, f"{1e6 * min(times[1:]) / count:.2f}", f"{error:.1e}")


def percent(share: float) -> str:
    """Return a share in percent."""
    return f"{100.0 * share:.2f}%"


if __name__ == "__main__":
    main()
