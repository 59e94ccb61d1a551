"""Answers that are free of contact: what they cost, and for how many targets there is one.

Targets are poses of random configurations that are free. Answers are judged by NumPy on the host, sphere by sphere.
"""

from functools import partial
from typing import NamedTuple

import numpy as np

import ik_service
from benchmarks.problems.compared_robots import LINKS
from benchmarks.report import Report
from benchmarks.run import Times, benchmark, in_turns, timed
from ik_service.robots import Box, RobotModel, World
from objectives import IKObjectivePosture

SEED = 0
NO_BUDGET = 4096  # seeds that say whether there is a free answer at all
Poses = tuple[np.ndarray, np.ndarray]
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


class Case(NamedTuple):
    """A robot with links that get targets, in a world."""

    name: str
    robot: RobotModel
    links: list[str]
    world: World | None = None

    def free_poses(self, count: int) -> Poses:
        """Return poses of the links in configurations that are free."""
        drawn = self.robot.random_joint_q(np.random.default_rng(SEED), 20 * count)
        free = [part[self.robot.collision(part, self.world).is_free] for part in np.array_split(drawn, 20)]
        poses = self.robot.forward_kinematics(np.concatenate(free)[:count], self.links)
        return poses.positions, poses.orientations_xyzw


def in_contact(robot: RobotModel, result: ik_service.IKResult, world: World | None) -> int:
    """Return how many successes touch something, by the host in float64."""
    return int((result.success & ~robot.collision(result.joint_q.astype(float), world).is_free).sum())


def show(report: Report, *, count: int, repeats: int) -> None:
    """Measure all cases."""
    report.section(
        f"{count} targets, one core",
        f"CPU time per target of the public call; median and range of {repeats}. The share of free "
        f"answers is of targets for which {NO_BUDGET} seeds find one; without a check it is how many answers are free.",
        *("case", "us per target", "range", "us without a check", "free answers", "free without a check"),
        "successes in contact",
    )
    one, two = ik_service.load_robot("panda"), ik_service.load_robot("dual_panda")
    alone = Case("Panda, itself", one, ["panda_hand"])
    among_boxes = Case("Panda, itself and 20 boxes", one, ["panda_hand"], cluttered())
    both = Case("two Pandas, themselves and each other", two, LINKS["dual_panda"])
    above_a_table = Case("Panda, itself and a table", one, ["panda_hand"], World({"table": TABLE}))
    for case, bound_us in ((alone, 1.5), (above_a_table, 2.0), (among_boxes, None), (both, 15.0)):
        _show_case(report, case, case.free_poses(count), repeats, bound_us)
    report.section(
        "Beside a posture",
        "The same with a posture of priority 1, the middle of all ranges. Free answers are of targets that have one "
        "without the posture; at first, without what follows where all attempts end in contact: combinations of the "
        "arms' solutions, and solves of the targets alone.",
        *("case", "weight", "us per target", "range", "free at first", "free answers", "successes in contact"),
    )
    arm = ik_service.load_robot("iiwa14")
    for case in (alone, among_boxes, Case("iiwa14, itself and 20 boxes", arm, [arm.link_names[-1]], cluttered()), both):
        _show_postures(report, case, case.free_poses(count), repeats)


def _show_postures(report: Report, case: Case, given: Poses, repeats: int) -> None:
    name, robot, links, world = case.name, case.robot, case.links, case.world
    alone = ik_service.IKSolver(robot, links).solve(*given, world=world).success
    for weight in (0.001, 0.01, 1.0):
        posture = IKObjectivePosture(robot.mid_joint_q, weight=weight)
        solver = ik_service.IKSolver(robot, links, objectives=[posture])
        first = solver.solve_as_recorded(*given, world=world).success
        result, times = timed(partial(solver.solve, *given, world=world), repeats)
        wrong, lost = in_contact(robot, result, world), int((alone & ~result.success).sum())
        shares = [f"{100 * own[alone].mean():.2f} %" for own in (first, result.success)]
        report.row(name, weight, f"{times.median:.2f}", times.range(), *shares, wrong)
        report.claim(f"{name}, {weight}", f"{lost} lost, {wrong} in contact", "none", lost == 0 and wrong == 0)


def _show_case(report: Report, case: Case, given: Poses, repeats: int, bound_us: float | None) -> None:
    name, robot, world = case.name, case.robot, case.world
    solver = ik_service.IKSolver(robot, case.links)
    calls = {"checked": {"world": world}, "unchecked": {"options": {"collision": "off"}}}
    runs = {what: partial(timed, partial(solver.solve, *given, **more), 1) for what, more in calls.items()}
    found = in_turns(runs, repeats)
    (result, _), (unchecked, _) = (rounds[-1] for rounds in found.values())
    checked_us, unchecked_us = (Times(np.array([one.median for _, one in rounds])) for rounds in found.values())
    was_free = robot.collision(unchecked.joint_q.astype(float), world).is_free & unchecked.success
    left = np.flatnonzero(~result.success)
    possible = len(given[0]) - len(left)
    if len(left):
        last = solver.solve(*(values[left] for values in given), world=world, options={"seeds": NO_BUDGET})
        possible += int(last.success.sum())
    share = result.success.sum() / possible
    figures = f"{checked_us.median:.2f}", checked_us.range(), f"{unchecked_us.median:.2f}", f"{100 * share:.2f} %"
    report.row(name, *figures, f"{100 * was_free.mean():.1f} %", in_contact(robot, result, world))
    if bound_us is not None:
        figure = f"{checked_us.median:.2f} us, {100 * share:.2f} %"
        passed = checked_us.median <= bound_us and share >= 0.999
        report.claim(name, figure, f"{bound_us:g} us, 99.9 %", passed)


if __name__ == "__main__":
    benchmark("Answers free of contact", show, sizes={"count": 10_000, "repeats": 9})
