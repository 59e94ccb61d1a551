"""How many seeds a search takes: reachable targets, at joint limits and elsewhere, those out of reach, all solutions.

python -m benchmarks.accuracy.seeds [--write benchmarks/accuracy/seeds.md]

Success and costs are judged by kinematics of the host in float64.
"""

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ik_service
from benchmarks.problems.compared_robots import ARMS, G1, MANY_LIMBS, MORE_ARMS, PANDA, WHOLE_BODY, ComparedRobot
from benchmarks.problems.hard_problems import FAR, LIMIT_SHARE, NEARLY, HardArm
from benchmarks.problems.many_arms import HandProblems, solved
from benchmarks.problems.pose_problems import PoseProblems
from benchmarks.problems.reference_descent import pose_costs
from benchmarks.report import Report, machine, measured

TOLERANCE, REPEATS, SEED = (1e-3, 1e-2), 5, 2
ANYWHERE, AT_LIMITS, OUT_OF_REACH, BRANCHES = 10_000, 10_000, 1000, 1000
BETWEEN = (NEARLY[1], FAR[0])  # [m] beyond the reach
EXHAUSTIVE_SEEDS, NEAR = 1024, 1.01
ARMS_BOUND, LIMITS_BOUND, REACH_BOUND, REACH_BOUND_US, BRANCH_BOUND, BRANCH_BOUND_US = (
    0.99995,
    0.999,
    0.98,
    20.0,
    0.995,
    100.0,
)
SIX_AXES = (ARMS[1], ARMS[3])


def timed(
    solver: ik_service.IKSolver, problems: HandProblems, **options: Any
) -> tuple[ik_service.IKResult, float, str]:
    """Return the answers, the median of the CPU time per problem [us], and a cell with its range."""
    times = []
    for _ in range(REPEATS + 1):
        begin = time.process_time()
        result = solver.solve(problems.positions, problems.orientations_xyzw, options=options or None)
        times.append((time.process_time() - begin) / len(result.success) * 1e6)
    own = sorted(times[1:])
    return result, own[REPEATS // 2], f"{own[REPEATS // 2]:.1f} ({own[0]:.1f}-{own[-1]:.1f})"


def solver_of(case: ComparedRobot) -> ik_service.IKSolver:
    """Return a solver for a robot and its links, on one core."""
    return ik_service.IKSolver(case.robot, list(case.links), device="cpu", threads=1)


def at_limits(case: ComparedRobot, *, up_to_half: bool) -> HandProblems:
    """Return the poses of configurations in which joints stand at their limits.

    Args:
        case: The robot and its links.
        up_to_half: Whether one to half of the joints that have limits do, else each with probability LIMIT_SHARE.
    """
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
    poses = robot.forward_kinematics(robot.complete_joint_q(joint_q), list(case.links))
    per_link = [
        PoseProblems(robot, link, poses.positions[:, k], poses.orientations_xyzw[:, k])
        for k, link in enumerate(case.links)
    ]
    return HandProblems(robot, list(case.links), per_link)


def share_met(problems: HandProblems, result: ik_service.IKResult) -> float:
    """Return the share of targets that are met."""
    good = solved(problems, result.joint_q, TOLERANCE)
    if (result.success & ~good).any():
        raise SystemExit("a success is none")
    return float(good.mean())


def show_arms(report: Report) -> None:
    """Report how many random reachable targets of arms are met."""
    report.section(
        "Arms",
        f"Poses of {ANYWHERE} random configurations of each arm, from the middle of the ranges. Within 1 mm and 0.01 "
        "rad; CPU time per target, median and range.",
    )
    report.table("arm", "met", "µs", "last seed that won")
    least = 1.0
    for case in (*ARMS, *MORE_ARMS):
        problems = case.problems(ANYWHERE, SEED)
        result, _, cell = timed(solver_of(case), problems)
        share = share_met(problems, result)
        least = min(least, share)
        report.row(case.name, f"{share:.3%}", cell, str(result.seed_index.max()))
    report.line("")
    report.claim("arms, the least share", f"{least:.3%}", f"at least {ARMS_BOUND:.3%}", least >= ARMS_BOUND)


def show_limits(report: Report) -> None:
    """Report how many targets at joint limits are met, by default and where 64 seeds are run whatever comes."""
    report.section(
        "Targets at joint limits",
        f"Poses of configurations in which each joint stands at a limit with probability {LIMIT_SHARE:g}, or one to "
        f"half of the joints do; {AT_LIMITS} of each robot. All links within 1 mm and 0.01 rad; CPU time per target, "
        "median and range.",
    )
    report.table("robot and links", "met", "µs", "met by all of 64 seeds", "up to half: met", "µs")
    least = 1.0
    for case in (*ARMS, *MANY_LIMBS, G1, WHOLE_BODY):
        problems, half = (at_limits(case, up_to_half=up_to_half) for up_to_half in (False, True))
        solver = solver_of(case)
        result, _, cell = timed(solver, problems)
        every = {"best_of": "cost", "seeds": 64}
        all_run = solver.solve(problems.positions, problems.orientations_xyzw, options=every)
        of_half, _, half_cell = timed(solver, half)
        shares = share_met(problems, result), share_met(problems, all_run), share_met(half, of_half)
        least = min(least, shares[0], shares[2])
        report.row(case.name, f"{shares[0]:.3%}", cell, f"{shares[1]:.3%}", f"{shares[2]:.3%}", half_cell)
    report.line("")
    report.claim("at limits, the least share", f"{least:.2%}", f"at least {LIMITS_BOUND:.1%}", least >= LIMITS_BOUND)


def show_reach(report: Report) -> None:
    """Report what targets out of reach cost, and how near the least cost the answers come."""
    report.section(
        "Targets out of reach",
        "Poses of the Panda moved beyond its reach, poses of other arms 1.3 times as far away, and positions that arms "
        f"reach with random orientations; {OUT_OF_REACH} of each, those that were met left out. Within "
        f"1 %: of the least cost of {EXHAUSTIVE_SEEDS} seeds. Seeds: the one that won, on average.",
    )
    report.table("targets", "out of reach", "µs", "within 1 % of the least cost", "seed that won")
    hard = HardArm(PANDA, "panda_link2")
    groups = (("nearly", NEARLY), ("between", BETWEEN), ("far", FAR))
    sets = [(PANDA, f"panda, {name}", hard.out_of_reach(OUT_OF_REACH, beyond)[0]) for name, beyond in groups]
    for case in ARMS[1:]:
        problems = case.problems(OUT_OF_REACH, SEED)
        one = problems.per_link[0]
        moved = PoseProblems(one.robot, one.link, 1.3 * one.positions, one.orientations_xyzw)
        sets.append((case, f"{case.name}, 1.3 times", HandProblems(one.robot, problems.links, [moved])))
    bounded = len(sets)
    sets += [(case, f"{case.name}, turned", turned(case)) for case in ARMS]
    claims = []
    for case, name, problems in sets:
        solver = solver_of(case)
        missed = ~solver.solve(problems.positions, problems.orientations_xyzw).success
        left = _chosen(problems, missed)
        result, median, cell = timed(solver, left)
        every = {"best_of": "cost", "seeds": EXHAUSTIVE_SEEDS}
        least = solver.solve(left.positions, left.orientations_xyzw, options=every)
        costs = [pose_costs(left.per_link[0], one.joint_q, True) for one in (result, least)]
        near = (costs[0] <= NEAR * costs[1]).mean()
        report.row(name, f"{missed.mean():.1%}", cell, f"{near:.1%}", f"{result.seed_index.mean():.1f}")
        bound = f"at most {REACH_BOUND_US:g} us, {REACH_BOUND:.0%}"
        passed = median <= REACH_BOUND_US and near >= REACH_BOUND
        claims.append((name, f"{median:.1f} us, {near:.1%}", bound, passed))
    report.line("")
    for claim in claims[:bounded]:
        report.claim(*claim)


def turned(case: ComparedRobot) -> HandProblems:
    """Return reachable positions of an arm with random orientations."""
    reachable = case.problems(OUT_OF_REACH, SEED)
    one, turn = reachable.per_link[0], np.random.default_rng(SEED).standard_normal((OUT_OF_REACH, 4))
    turn /= np.linalg.norm(turn, axis=1, keepdims=True)
    return HandProblems(one.robot, reachable.links, [PoseProblems(one.robot, one.link, one.positions, turn)])


def _chosen(problems: HandProblems, which: NDArray[np.bool_]) -> HandProblems:
    """Some of the problems of one link."""
    one = problems.per_link[0]
    some = PoseProblems(one.robot, one.link, one.positions[which], one.orientations_xyzw[which])
    return HandProblems(one.robot, problems.links, [some])


def show_branches(report: Report) -> None:
    """Report how many of the solutions of 6-axis arms are found."""
    report.section(
        "Solutions",
        f"`solutions=8` for {BRANCHES} random reachable poses: how many are found of those, up to 8, that "
        f"{EXHAUSTIVE_SEEDS} seeds find.",
    )
    report.table("robot", "found", "solutions per target", "µs", "found by 64 seeds", "µs")
    claims = []
    for case in SIX_AXES:
        problems, solver = case.problems(BRANCHES, SEED), solver_of(case)
        every = {"solutions": 8, "best_of": "cost", "seeds": EXHAUSTIVE_SEEDS}
        there = solver.solve(problems.positions, problems.orientations_xyzw, options=every).solution_count.sum()
        result, median, cell = timed(solver, problems, solutions=8)
        few, _, few_cell = timed(solver, problems, solutions=8, seeds=64)
        share = result.solution_count.sum() / there
        shares = (f"{share:.2%}", f"{result.solution_count.mean():.2f}")
        report.row(case.name, *shares, cell, f"{few.solution_count.sum() / there:.2%}", few_cell)
        bound = f"at least {BRANCH_BOUND:.1%} at most {BRANCH_BOUND_US:g} us"
        passed = share >= BRANCH_BOUND and median <= BRANCH_BOUND_US
        claims.append((f"solutions of {case.name}", f"{share:.2%} at {median:.1f} us", bound, passed))
    report.line("")
    for claim in claims:
        report.claim(*claim)


def show(report: Report) -> None:
    """Measure everything."""
    report.line(f"\n{machine()}; made by `python -m benchmarks.accuracy.seeds --write`.")
    show_arms(report)
    show_limits(report)
    show_reach(report)
    show_branches(report)


if __name__ == "__main__":
    measured("Seeds", __doc__, show)
