"""A call that a motion planner makes: limits of a solve, joints that stay, the nearest answer, and what it takes.

python -m benchmarks.arms.planner_calls [--write benchmarks/arms/planner_calls.md]

Answers are judged by kinematics of the host in float64.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.report import Report, machine, measured
from ik_service import IKResult, IKSolver, RobotModel, load_robot

Array = NDArray[np.float64]
COUNT, PAIRS, SEED, REPEATS, CALLS = 2000, 1000, 5, 9, 100
ROOM, NEAR, FAR = 0.3, 0.2, 1.05
POSITION, ORIENTATION = 1e-3, 1e-2
ARMS = (("panda", "panda_hand"), ("ur5e", "tool0"), ("iiwa14", "iiwa_link_ee"))


def drawn(robot: RobotModel, link: str) -> tuple[Array, Array, Array]:
    """Return configurations, and where a link is in them: positions and orientations."""
    joint_q = robot.random_joint_q(np.random.default_rng(SEED), COUNT)
    poses = robot.forward_kinematics(joint_q, [link])
    return joint_q, poses.positions[:, 0], poses.orientations_xyzw[:, 0]


def met(robot: RobotModel, link: str, joint_q: Array, positions: Array, turns: Array) -> NDArray[np.bool_]:
    """Return which answers meet their targets."""
    poses = robot.forward_kinematics(joint_q, [link])
    distance = np.linalg.norm(poses.positions[:, 0] - positions, axis=1)
    cosine = np.abs((poses.orientations_xyzw[:, 0] * turns).sum(axis=1)).clip(0.0, 1.0)
    return np.asarray((distance <= POSITION) & (2.0 * np.arccos(cosine) <= ORIENTATION))


def show_limits(report: Report) -> None:
    """Limits of each problem, joints that stay, and largest changes."""
    report.section(
        "Limits of each problem",
        f"{COUNT} poses of random configurations each, within {ROOM} rad of them, from starts within {NEAR} rad, one "
        "joint in turn held where it starts. Met: by the judge. Outside: by float64 comparison, in the last bit.",
    )
    report.table("robot", "asked for", "met", "outside", "success that is none")
    outside = false = 0
    least = 1.0
    for name, link in ARMS:
        robot = load_robot(name, collision="ignore")
        solver = IKSolver(robot, [link], device="cpu")
        joint_q, positions, turns = drawn(robot, link)
        low, high = robot.joint_limit_lower, robot.joint_limit_upper
        rng = np.random.default_rng(SEED + 1)
        start = np.clip(joint_q + rng.uniform(-NEAR, NEAR, joint_q.shape), low, high).astype(np.float32).astype(float)
        held = np.arange(COUNT) % joint_q.shape[1]
        frozen = held[:, None] == np.arange(joint_q.shape[1])
        place = np.where(frozen, np.clip(joint_q, low, high).astype(np.float32), start)
        cases: list[tuple[str, dict[str, Any], Callable[[Array], NDArray[np.bool_]]]] = [
            (
                "joint_limits",
                {"joint_limits": (joint_q - ROOM, joint_q + ROOM)},
                lambda q, at=joint_q: (q < at - ROOM) | (q > at + ROOM),
            ),
            (
                "max_change",
                {"initial_joint_q": start, "max_change": ROOM},
                lambda q, at=start: np.abs(q - at) > ROOM,
            ),
            (
                "frozen",
                {"initial_joint_q": place, "frozen": frozen},
                lambda q, at=place, stays=frozen: stays & (q != at),
            ),
        ]
        for what, arguments, is_outside in cases:
            result: IKResult = solver.solve(positions, turns, **arguments)
            answers = result.joint_q.astype(np.float64)
            good = met(robot, link, answers, positions, turns)
            wrong, bad = int(is_outside(answers).any(axis=1).sum()), int((result.success & ~good).sum())
            report.row(name, what, f"{good.mean():.2%}", str(wrong), str(bad))
            outside, false, least = outside + wrong, false + bad, min(least, float(good.mean()))
    report.line("")
    report.claim("answers outside of their limits", str(outside), "0", outside == 0)
    report.claim("successes that are none", str(false), "0", false == 0)
    report.claim("least share met", f"{least:.2%}", "at least 99%", least >= 0.99)


def show_nearest(report: Report) -> None:
    """The nearest solution beside whole turns of it, and the nearest minimum of targets out of reach."""
    robot, link = load_robot("ur5e", collision="ignore"), "tool0"
    solver = IKSolver(robot, [link], device="cpu")
    _, positions, turns = (one[:PAIRS] for one in drawn(robot, link))
    starts = robot.random_joint_q(np.random.default_rng(SEED + 2), PAIRS)
    found = solver.solve(positions, turns, initial_joint_q=starts, options={"best_of": "nearest"})
    answers = found.joint_q.astype(np.float64)
    whole = 2.0 * np.pi * np.round((starts - answers) / (2.0 * np.pi))
    turned = answers + whole
    inside = (turned >= robot.joint_limit_lower) & (turned <= robot.joint_limit_upper)
    best = np.where(inside, turned, answers)
    beaten = int((np.abs(best - starts).max(axis=1) < np.abs(answers - starts).max(axis=1) - 1e-6).sum())
    report.section("The nearest", f"{PAIRS} pairs of a UR5e's starts and targets, all of them random.")
    report.claim("answers that whole turns of their joints bring nearer", str(beaten), "0", beaten == 0)
    report.line("")
    far = FAR * positions / np.linalg.norm(positions, axis=1)[:, None]
    report.table(
        "out of reach, 1.05 m from the base", "largest change, median", "9 of 10 below", "largest", "error [m], median"
    )
    for name in (None, "nearest"):
        missed = solver.solve(far, turns, initial_joint_q=starts, options={"approximate": name})
        change = np.abs(missed.joint_q - starts).max(axis=1)[~missed.success]
        error = missed.position_error[~missed.success, 0]
        cells = (*(f"{one:.2f} rad" for one in np.quantile(change, (0.5, 0.9, 1.0))), f"{np.median(error):.3f}")
        report.row("the least cost" if name is None else "the nearest minimum", *cells)


def show_times(report: Report) -> None:
    """CPU time of calls with one target."""
    robot = load_robot("panda", collision="ignore")
    solver = IKSolver(robot, ["panda_hand"], device="cpu")
    joint_q, positions, turns = (one[:CALLS] for one in drawn(robot, "panda_hand"))
    start = np.clip(joint_q + 0.1, robot.joint_limit_lower, robot.joint_limit_upper)
    report.section(
        "Time of a call", f"One target of a Panda; CPU time, least and largest mean of {REPEATS} times {CALLS}."
    )
    report.table("arguments", "least [us]", "largest [us]")
    cases: tuple[tuple[str, Callable[[int], dict[str, Any]]], ...] = (
        ("the target alone", lambda k: {}),
        ("and a start", lambda k: {"initial_joint_q": start[k]}),
        ("and limits of a joint", lambda k: {"joint_limits": {"panda_joint1": (-2.0, 2.0)}}),
        ("and a start, a joint that stays", lambda k: {"initial_joint_q": start[k], "frozen": ["panda_joint7"]}),
        ("and a start, largest changes", lambda k: {"initial_joint_q": start[k], "max_change": 1.0}),
        ("and a deadline", lambda k: {"options": {"deadline_s": 0.1}}),
    )
    for what, arguments in cases:
        times = []
        for _ in range(REPEATS + 1):
            begin = time.process_time()
            for k in range(CALLS):
                solver.solve(positions[k : k + 1], turns[k : k + 1], **arguments(k))
            times.append((time.process_time() - begin) / CALLS * 1e6)
        report.row(what, f"{min(times[1:]):.1f}", f"{max(times[1:]):.1f}")


def show(report: Report) -> None:
    """Measure everything."""
    report.line(f"\n{machine()}; made by `python -m benchmarks.arms.planner_calls --write`.")
    show_limits(report)
    show_nearest(report)
    show_times(report)


if __name__ == "__main__":
    measured("A planner's call", __doc__, show)
