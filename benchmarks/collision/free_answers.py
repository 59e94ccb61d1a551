"""Answers that are free of contact: what they cost, and for how many targets there is one.

python -m benchmarks.collision.free_answers [--write benchmarks/collision/free_answers.md]

Targets are poses of random configurations that are free. Answers are judged by NumPy on the host, sphere by sphere.
"""

import time

import numpy as np

import ik_service
from benchmarks.report import Report, machine, measured
from ik_service.robots import Box, RobotModel, World
from objectives import IKObjectivePosture

COUNT, REPEATS, SEED = 10_000, 9, 0
NO_BUDGET = 4096  # seeds that say whether there is a free answer at all
TABLE = Box((4.0, 4.0, 0.2), (0.0, 0.0, -0.2, 0.0, 0.0, 0.0, 1.0))


def cluttered() -> World:
    """Return a table with 19 boxes around the robot."""
    rng = np.random.default_rng(SEED)
    boxes = {"table": TABLE}
    for k, angle in enumerate(rng.uniform(-np.pi, np.pi, 19)):
        place = rng.uniform(0.45, 0.8) * np.array([np.cos(angle), np.sin(angle)])
        pose = (*place, rng.uniform(0.1, 0.8), 0.0, 0.0, 0.0, 1.0)
        boxes[f"box {k}"] = Box(tuple(rng.uniform(0.05, 0.2, 3)), pose)
    return World(boxes)


def show(report: Report) -> None:
    """Measure all cases."""
    report.section(
        f"{COUNT} targets, one core",
        f"CPU time per target of the public call, {machine()}; median and range of {REPEATS}. The share of free "
        f"answers is of targets for which {NO_BUDGET} seeds find one; without a check it is how many answers are free.",
    )
    heads = ("us per target", "range", "us without a check", "free answers", "free without a check")
    report.table("case", *heads, "successes in contact")
    one, two = ik_service.load_robot("panda"), ik_service.load_robot("dual_panda")
    hands = ["left_panda_hand", "right_panda_hand"]
    for name, robot, links, world, bound_us in (
        ("Panda, itself", one, ["panda_hand"], None, 1.5),
        ("Panda, itself and a table", one, ["panda_hand"], World({"table": TABLE}), 2.0),
        ("Panda, itself and 20 boxes", one, ["panda_hand"], cluttered(), None),
        ("two Pandas, themselves and each other", two, hands, None, 15.0),
    ):
        show_case(report, name, robot, links, world, bound_us)

    report.section(
        "Beside a posture",
        "The same with a posture of priority 1, the middle of all ranges. Free answers are of targets that have one "
        "without the posture; at first, without what follows where all attempts end in contact: combinations of the "
        "arms' solutions, and solves of the targets alone.",
    )
    report.table("case", "weight", "us per target", "range", "free at first", "free answers", "successes in contact")
    arm = ik_service.load_robot("iiwa14")
    for name, robot, links, world in (
        ("Panda, itself", one, ["panda_hand"], None),
        ("Panda, itself and 20 boxes", one, ["panda_hand"], cluttered()),
        ("iiwa14, itself and 20 boxes", arm, [arm.link_names[-1]], cluttered()),
        ("two Pandas, themselves and each other", two, hands, None),
    ):
        show_postures(report, name, robot, links, world)


def free_poses(robot: RobotModel, links: list[str], world: World | None) -> tuple[np.ndarray, np.ndarray]:
    """Return poses of links in configurations that are free."""
    joint_q = robot.random_joint_q(np.random.default_rng(SEED), 20 * COUNT)
    free = np.concatenate([part[robot.collision(part, world).is_free] for part in np.array_split(joint_q, 20)])[:COUNT]
    poses = robot.forward_kinematics(free, links)
    return poses.positions, poses.orientations_xyzw


def show_postures(report: Report, name: str, robot: RobotModel, links: list[str], world: World | None) -> None:
    """Measure postures of several weights beside the targets of one robot in one world."""
    given = free_poses(robot, links, world)
    alone = ik_service.IKSolver(robot, links).solve(*given, world=world).success
    for weight in (0.001, 0.01, 1.0):
        posture = IKObjectivePosture(robot.mid_joint_q, weight=weight)
        solver, times = ik_service.IKSolver(robot, links, objectives=[posture]), []
        first = solver.solve_as_recorded(*given, world=world).success
        result = solver.solve(*given, world=world)
        for _ in range(REPEATS):
            begin = time.process_time()
            result = solver.solve(*given, world=world)
            times.append((time.process_time() - begin) / len(alone) * 1e6)
        wrong = int((result.success & ~robot.collision(result.joint_q.astype(float), world).is_free).sum())
        shares = [f"{100 * own[alone].mean():.2f} %" for own in (first, result.success)]
        spread = f"{min(times):.2f} to {max(times):.2f}"
        report.row(name, weight, f"{np.median(times):.2f}", spread, *shares, wrong)
        lost = int((alone & ~result.success).sum())
        report.claim(f"{name}, {weight}", f"{lost} lost, {wrong} in contact", "none", lost == 0 and wrong == 0)


def show_case(
    report: Report, name: str, robot: RobotModel, links: list[str], world: World | None, bound_us: float | None
) -> None:
    """Measure one robot in one world."""
    solver, given = ik_service.IKSolver(robot, links), free_poses(robot, links, world)
    result = solver.solve(*given, world=world)
    times, unchecked_times = [], []
    for _ in range(REPEATS):
        begin = time.process_time()
        result = solver.solve(*given, world=world)
        middle = time.process_time()
        unchecked = solver.solve(*given, options={"collision": "off"})
        unchecked_times.append((time.process_time() - middle) / len(given[0]) * 1e6)
        times.append((middle - begin) / len(given[0]) * 1e6)
    is_free = robot.collision(result.joint_q.astype(float), world).is_free
    was_free = robot.collision(unchecked.joint_q.astype(float), world).is_free & unchecked.success
    left = np.flatnonzero(~result.success)
    possible = len(given[0]) - len(left)
    if len(left):
        last = solver.solve(*(values[left] for values in given), world=world, options={"seeds": NO_BUDGET})
        possible += int(last.success.sum())
    share, wrong = result.success.sum() / possible, int((result.success & ~is_free).sum())
    spread = f"{min(times):.2f} to {max(times):.2f}"
    figures = (f"{np.median(times):.2f}", spread, f"{np.median(unchecked_times):.2f}")
    report.row(name, *figures, f"{100 * share:.2f} %", f"{100 * was_free.mean():.1f} %", wrong)
    if bound_us is not None:
        figure = f"{np.median(times):.2f} us, {100 * share:.2f} %"
        report.claim(name, figure, f"{bound_us:g} us, 99.9 %", np.median(times) <= bound_us and share >= 0.999)


if __name__ == "__main__":
    measured("Answers free of contact", __doc__, show)
