"""How many seeds a search takes: reachable targets, at joint limits and elsewhere, those out of reach, all solutions.

Success and costs are judged by kinematics of the host in float64.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

import ik_service
from benchmarks.problems.compared_robots import ARMS, G1, MANY_LIMBS, MORE_ARMS, PANDA, WHOLE_BODY, ComparedRobot
from benchmarks.problems.hard_problems import FAR, LIMIT_SHARE, NEARLY, HardArm, pose_costs
from benchmarks.problems.pose_problems import PoseProblems
from benchmarks.report import Report
from benchmarks.run import Times, benchmark, timed

REPEATS, SEED = 5, 2
ANYWHERE, AT_LIMITS, OUT_OF_REACH, BRANCHES = 10_000, 10_000, 1000, 1000
BETWEEN = (NEARLY[1], FAR[0])  # [m] beyond the reach
EXHAUSTIVE_SEEDS, NEAR = 1024, 1.01
EVERY = {"best_of": "cost", "seeds": EXHAUSTIVE_SEEDS}
ARMS_BOUND, LIMITS_BOUND = 0.99995, 0.999
REACH_BOUND, REACH_BOUND_US, BRANCH_BOUND, BRANCH_BOUND_US = 0.98, 20.0, 0.995, 100.0
SIX_AXES = (ARMS[1], ARMS[3])


class Timed:
    """A solver of a robot's links on one core, timed by the problem."""

    def __init__(self, case: ComparedRobot) -> None:
        self._solver = ik_service.IKSolver(case.robot, list(case.links), device="cpu", threads=1)

    def once(self, problems: PoseProblems, **options: Any) -> ik_service.IKResult:
        """Return the answers."""
        return self._solver.solve(*problems.given, options=options or None)

    def __call__(self, problems: PoseProblems, **options: Any) -> tuple[ik_service.IKResult, Times, str]:
        """Return the answers, their times, and a cell with median and range [us]."""
        result, times = timed(partial(self.once, problems, **options), REPEATS)
        return result, times, f"{times.median:.1f} ({times.us.min():.1f}-{times.us.max():.1f})"


def at_limits(case: ComparedRobot, *, up_to_half: bool) -> PoseProblems:
    """Return the poses of configurations with each joint at a limit by LIMIT_SHARE, or one to half of the joints."""
    robot, rng = case.robot, np.random.default_rng(SEED)
    joint_q = robot.random_joint_q(rng, AT_LIMITS)
    dofs = robot.active_dof[robot.dof_coordinate[robot.active_dof] >= 0]
    dofs = dofs[np.isfinite(robot.joint_limit_lower[dofs]) & np.isfinite(robot.joint_limit_upper[dofs])]
    own, shape = robot.dof_coordinate[dofs], (AT_LIMITS, len(dofs))
    ends = np.where(rng.random(shape) < 0.5, robot.joint_limit_lower[dofs], robot.joint_limit_upper[dofs])
    held = rng.random(shape) < LIMIT_SHARE
    if up_to_half:
        places = rng.random(shape).argsort(axis=1)
        held = places < rng.integers(1, len(dofs) // 2, endpoint=True, size=(AT_LIMITS, 1))
    joint_q[:, own] = np.where(held, ends, joint_q[:, own])
    return PoseProblems.of(robot, case.links, robot.complete_joint_q(joint_q))


def _show_arms(report: Report) -> None:
    report.section(
        "Arms",
        f"Poses of {ANYWHERE} random configurations of each arm, from the middle of the ranges. Within 1 mm and 0.01 "
        "rad; CPU time per target, median and range.",
        *("arm", "met", "µs", "last seed that won"),
    )
    least = 1.0
    for case in (*ARMS, *MORE_ARMS):
        problems = case.problems(ANYWHERE, SEED)
        result, _, cell = Timed(case)(problems)
        share = float(problems.checked(result).mean())
        least = min(least, share)
        report.row(case.name, f"{share:.3%}", cell, str(result.seed_index.max()))
    report.claim("arms, the least share", f"{least:.3%}", f"at least {ARMS_BOUND:.3%}", least >= ARMS_BOUND)


def _show_limits(report: Report) -> None:
    report.section(
        "Targets at joint limits",
        f"Poses of configurations in which each joint stands at a limit with probability {LIMIT_SHARE:g}, or one to "
        f"half of the joints do; {AT_LIMITS} of each robot. All links within 1 mm and 0.01 rad; CPU time per target, "
        "median and range.",
        *("robot and links", "met", "µs", "met by all of 64 seeds", "up to half: met", "µs"),
    )
    least = 1.0
    for case in (*ARMS, *MANY_LIMBS, G1, WHOLE_BODY):
        problems, half = (at_limits(case, up_to_half=up_to_half) for up_to_half in (False, True))
        solve = Timed(case)
        result, _, cell = solve(problems)
        of_half, _, half_cell = solve(half)
        every = solve.once(problems, best_of="cost", seeds=64)
        pairs = ((problems, result), (problems, every), (half, of_half))
        shares = [float(given.checked(answers).mean()) for given, answers in pairs]
        least = min(least, shares[0], shares[2])
        report.row(case.name, f"{shares[0]:.3%}", cell, f"{shares[1]:.3%}", f"{shares[2]:.3%}", half_cell)
    report.claim("at limits, the least share", f"{least:.2%}", f"at least {LIMITS_BOUND:.1%}", least >= LIMITS_BOUND)


def _show_reach(report: Report) -> None:
    report.section(
        "Targets out of reach",
        "Poses of the Panda moved beyond its reach, poses of other arms 1.3 times as far away, and positions that arms "
        f"reach with random orientations; {OUT_OF_REACH} of each, those that were met left out. Within "
        f"1 %: of the least cost of {EXHAUSTIVE_SEEDS} seeds. Seeds: the one that won, on average.",
        *("targets", "out of reach", "µs", "within 1 % of the least cost", "seed that won"),
    )
    hard = HardArm(PANDA, "panda_link2")
    groups = (("nearly", NEARLY), ("between", BETWEEN), ("far", FAR))
    sets = [(PANDA, f"panda, {name}", hard.out_of_reach(OUT_OF_REACH, beyond)[0]) for name, beyond in groups]
    for case in ARMS[1:]:
        problems = case.problems(OUT_OF_REACH, SEED)
        sets.append((case, f"{case.name}, 1.3 times", replace(problems, positions=1.3 * problems.positions)))
    bounded = len(sets)
    for case in ARMS:
        turn = np.random.default_rng(SEED).standard_normal((OUT_OF_REACH, 1, 4))
        turn /= np.linalg.norm(turn, axis=2, keepdims=True)
        sets.append((case, f"{case.name}, turned", replace(case.problems(OUT_OF_REACH, SEED), orientations_xyzw=turn)))
    for number, (case, name, problems) in enumerate(sets):
        solve = Timed(case)
        missed = ~solve.once(problems).success
        left = problems[missed]
        result, times, cell = solve(left)
        costs = [pose_costs(left, one.joint_q, True) for one in (result, solve.once(left, **EVERY))]
        near = (costs[0] <= NEAR * costs[1]).mean()
        report.row(name, f"{missed.mean():.1%}", cell, f"{near:.1%}", f"{result.seed_index.mean():.1f}")
        if number < bounded:
            passed = times.median <= REACH_BOUND_US and near >= REACH_BOUND
            bound = f"at most {REACH_BOUND_US:g} us, {REACH_BOUND:.0%}"
            report.claim(name, f"{times.median:.1f} us, {near:.1%}", bound, passed)


def _show_branches(report: Report) -> None:
    report.section(
        "Solutions",
        f"`solutions=8` for {BRANCHES} random reachable poses: how many are found of those, up to 8, that "
        f"{EXHAUSTIVE_SEEDS} seeds find.",
        *("robot", "found", "solutions per target", "µs", "found by 64 seeds", "µs"),
    )
    for case in SIX_AXES:
        problems, solve = case.problems(BRANCHES, SEED), Timed(case)
        there = solve.once(problems, solutions=8, **EVERY).solution_count.sum()
        result, times, cell = solve(problems, solutions=8)
        few, _, few_cell = solve(problems, solutions=8, seeds=64)
        share = result.solution_count.sum() / there
        shares = (f"{share:.2%}", f"{result.solution_count.mean():.2f}")
        report.row(case.name, *shares, cell, f"{few.solution_count.sum() / there:.2%}", few_cell)
        bound = f"at least {BRANCH_BOUND:.1%} at most {BRANCH_BOUND_US:g} us"
        passed = share >= BRANCH_BOUND and times.median <= BRANCH_BOUND_US
        report.claim(f"solutions of {case.name}", f"{share:.2%} at {times.median:.1f} us", bound, passed)


def show(report: Report) -> None:
    """Measure everything."""
    _show_arms(report)
    _show_limits(report)
    _show_reach(report)
    _show_branches(report)


if __name__ == "__main__":
    benchmark("Seeds", show)
