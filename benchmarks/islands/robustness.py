"""Two-armed robots with one target out of reach, and with both in reach: what the islands change."""

import numpy as np
from numpy.typing import NDArray

import ik_service
from benchmarks.problems.compared_robots import FOREIGN, installed
from benchmarks.problems.many_arms import HandProblems
from benchmarks.report import Report

BAXTER = "baxter_description/urdf/baxter.urdf"
OUT_OF_REACH = 3.0  # [m] upwards
SEEDS = 16
TOLERANCE = (1e-3, 1e-2)
REACHABLE_MIN = 0.99
BOTH_MIN = 0.995


def two_armed_robots() -> list[tuple[ik_service.RobotModel, list[str]]]:
    """Return the robots and the links of their hands; Baxter comes with the package example-robot-data."""
    dual = (ik_service.load_robot("dual_panda", collision="ignore"), ["left_panda_hand", "right_panda_hand"])
    return [dual, (ik_service.load_robot(installed(FOREIGN, BAXTER)), ["left_gripper", "right_gripper"])]


def show_robustness(report: Report, count: int, dense_count: int) -> None:
    """Solve and report.

    Args:
        report: Where to.
        count: Problems per robot and case.
        dense_count: How many of them the dense path gets.
    """
    report.section(
        "One target out of reach",
        f"{count} random problems per robot and arm, {SEEDS} seeds. The other arm's target is moved {OUT_OF_REACH:g} m "
        "up. 'Alone' is a solver of the same robot with only the reachable arm's target. The dense path gets the first "
        f"{dense_count} problems.",
    )
    robots = two_armed_robots()
    for robot, links in robots:
        problems = HandProblems.random(robot, links, count, random_seed=3)
        for reachable in (0, 1):
            _show_one_out_of_reach(report, problems, reachable, dense_count)
    report.section("Both targets in reach", f"{count} random problems per robot, {SEEDS} seeds.")
    for robot, links in robots:
        problems = HandProblems.random(robot, links, count, random_seed=4)
        shares = []
        for islands, n in ((True, count), (False, dense_count)):
            answers = _solver(robot, links, islands).solve(problems.positions[:n], problems.orientations_xyzw[:n])
            shares.append(problems.first(n).judge(answers.joint_q, *TOLERANCE).all(axis=1).mean())
        figure = f"{shares[0]:.1%} (dense {shares[1]:.1%})"
        report.claim(f"{robot.name}, both arms", figure, f"at least {BOTH_MIN:.1%}", shares[0] >= BOTH_MIN)


def _show_one_out_of_reach(report: Report, problems: HandProblems, reachable: int, dense_count: int) -> None:
    robot, links = problems.robot, problems.links
    positions, orientations = problems.positions, problems.orientations_xyzw
    positions[:, 1 - reachable, 2] += OUT_OF_REACH
    with_both = _solver(robot, links, islands=True).solve(positions, orientations).joint_q
    alone = _solver(robot, [links[reachable]], islands=True)
    by_itself = alone.solve(positions[:, reachable], orientations[:, reachable]).joint_q
    dense = _solver(robot, links, islands=False).solve(positions[:dense_count], orientations[:dense_count]).joint_q
    solved = problems.judge(with_both, *TOLERANCE)[:, reachable]
    solved_dense = problems.first(dense_count).judge(dense, *TOLERANCE)[:, reachable]
    own = _coordinates_of(robot, links[reachable])
    assert own.sum() >= 7, "an arm has coordinates to compare"
    equal = (with_both[:, own] == by_itself[:, own]).all(axis=1)
    share, what = solved.mean(), f"{robot.name}, {links[reachable]}"
    dense_share = f"{solved_dense.sum()} of {dense_count}"
    figure = f"{solved.sum()} of {len(solved)} solved (dense {dense_share})"
    report.claim(what, figure, f"at least {REACHABLE_MIN:.0%}", share >= REACHABLE_MIN)
    report.claim(f"{what}, same bytes as alone", f"{equal.sum()} of {len(equal)}", "all", equal.all())


def _solver(robot: ik_service.RobotModel, links: list[str], islands: bool) -> ik_service.IKSolver:
    options = ik_service.SolverOptions(seeds=SEEDS)
    return ik_service.IKSolver(robot, links, device="cpu", engine="staged", islands=islands, options=options)


def _coordinates_of(robot: ik_service.RobotModel, link: str) -> NDArray[np.bool_]:
    """Coordinates of the tree that moves a link, bool [joint_coord_count]."""
    tree = robot.trees.body_treeid[robot.link_frame(link)[0]]
    return np.asarray(robot.trees.coordinate_treeid == tree)
