"""One arm, one target: our engines beside newton.ik, OptIK and a loop on Pinocchio, on the same targets."""

import os
import time
from collections.abc import Callable

import numpy as np

import ik_service
from benchmarks.arms.comparison import HEADS, Sizes, claim_honesty, describe
from benchmarks.arms.contenders import (
    NEWTON_SEEDS,
    PINOCCHIO_SEEDS,
    TIGHT,
    Answers,
    solve_with_newton,
    solve_with_optik,
    solve_with_ours,
    solve_with_pinocchio,
)
from benchmarks.peers.environments import NEWTON_ITERATIONS, SLACK, PeerMissingError
from benchmarks.problems.compared_robots import ARMS, PANDA, ComparedRobot
from benchmarks.problems.many_arms import HandProblems, solved
from benchmarks.report import Report

RANDOM_SEED = 0
THREAD_REPEATS = 5  # times as many runs on two threads: something else wants one of the cores now and then
PANDA_BOUND_US = 3.0
OTHER_ARMS_BOUND, THREADS_BOUND = 1.5, 1.8
SUCCESS_BOUNDS = (((1e-3, 1e-2), 0.9998), (TIGHT, 0.9995))
PEER_BOUNDS = {"pinocchio": 15.0, "optik": 80.0, "newton": 400.0}
CORES = os.sched_getaffinity(0)  # before anything is pinned


def show_single_arms(report: Report, sizes: Sizes) -> dict[str, Answers]:
    """Report the table; return the answers on the Panda by the solver's short name."""
    report.section(
        "One arm, one target",
        "Random reachable targets. CPU time per target of one pinned core, median (range) of "
        f"{sizes.repeats} runs; success at three tolerances. Ours with default options, NumPy arrays in and out; "
        f"'tight' asks for {TIGHT[0]:g} m and {TIGHT[1]:g} rad. The loop on Pinocchio is written for this comparison "
        "(`peers/pinocchio_lm.cpp`): Levenberg-Marquardt, joints clamped and held at their limits, up to "
        f"{PINOCCHIO_SEEDS} seeds until {TIGHT[0]:g} m and {TIGHT[1]:g} rad are met. The figure behind OptIK is the "
        "length of the pose error's logarithm at which it stops. newton.ik runs "
        f"{NEWTON_SEEDS} seeds x {NEWTON_ITERATIONS} iterations.",
    )
    report.table("robot", "solver", "targets", "µs per target", *HEADS, "µs per target solved at 1 mm")
    kept, answered = _show_panda(report, sizes)
    others = {}
    for case in ARMS[1 : sizes.arms]:
        problems = case.problems(sizes.targets, RANDOM_SEED)
        ours = _row(report, case, problems, "", lambda c=case, p=problems: solve_with_ours(c, p, sizes.repeats))
        if ours is not None:
            answered.append((problems, ours))
            others[case.name] = describe(problems, ours)[1]
        few = problems.first(sizes.pinocchio_targets)
        _row(report, case, few, "", lambda c=case, p=few: solve_with_pinocchio(c, p, sizes.repeats))
    claim_honesty(report, answered)
    _claim_speed(report, sizes, kept, others)
    return kept


def _claim_speed(report: Report, sizes: Sizes, kept: dict[str, Answers], others: dict[str, float]) -> None:
    """Claim what our engine is meant to reach on the Panda, beside other arms and beside other solvers."""
    problems = PANDA.problems(sizes.targets, RANDOM_SEED)
    ours = describe(problems, kept["ours"])[1]
    report.claim("µs per solved Panda target", f"{ours:.2f}", f"{PANDA_BOUND_US:g}", ours <= PANDA_BOUND_US)
    for tolerance, bound in SUCCESS_BOUNDS:
        share = float(solved(problems, kept["ours"].joint_q, tolerance).mean())
        report.claim(f"solved to {1e3 * tolerance[0]:g} mm", f"{share:.2%}", f"{bound:.2%}", share >= bound)
    for name, per_target in others.items():
        factor = per_target / ours
        report.claim(f"{name}: times the Panda's", f"{factor:.2f}", f"{OTHER_ARMS_BOUND:g}", factor <= OTHER_ARMS_BOUND)
    if "threads" in kept:
        gain = float(np.median(kept["ours"].times) / np.median(kept["threads"].times))
        report.claim("rate of two threads over one", f"{gain:.2f}", f"{THREADS_BOUND:g}", gain >= THREADS_BOUND)
    for name, bound in PEER_BOUNDS.items():
        if name in kept:
            few = problems.first(len(kept[name].joint_q))
            factor = describe(few, kept[name], SLACK if name == "newton" else 0.0)[1] / ours
            report.claim(f"times faster than {kept[name].who}", f"{factor:.0f}", f"{bound:g}", factor >= bound)


def _show_panda(report: Report, sizes: Sizes) -> tuple[dict[str, Answers], list[tuple[HandProblems, Answers]]]:
    repeats = sizes.repeats
    problems = PANDA.problems(sizes.targets, RANDOM_SEED)
    staged, peers = problems.first(sizes.staged_targets), problems.first(sizes.peer_targets)
    few = problems.first(sizes.pinocchio_targets)
    tight = {"position_tolerance": TIGHT[0], "orientation_tolerance": TIGHT[1]}
    contenders: list[tuple[str, str, HandProblems, Callable[[], Answers]]] = [
        ("ours", "", problems, lambda: solve_with_ours(PANDA, problems, repeats)),
        ("tight", ", tight", problems, lambda: solve_with_ours(PANDA, problems, repeats, **tight)),
        ("threads", ", 2 threads, wall time", problems, lambda: _on_two_cores(problems, repeats)),
        ("staged", "", staged, lambda: solve_with_ours(PANDA, staged, repeats, engine="staged")),
        ("pinocchio", "", few, lambda: solve_with_pinocchio(PANDA, few, repeats)),
        ("optik", "", peers, lambda: solve_with_optik(PANDA, peers, repeats, 1e-3)),
        ("optik tight", "", peers, lambda: solve_with_optik(PANDA, peers, repeats, 1e-5)),
        ("newton", ", exact limits", peers, lambda: solve_with_newton(PANDA, peers, repeats)),
    ]
    kept: dict[str, Answers] = {}
    answered = []
    for name, suffix, given, run in contenders:
        answers = _row(report, PANDA, given, suffix, run)
        if answers is not None:
            kept[name] = answers
            answered.append((given, answers))
    if "newton" in kept:
        cells = describe(peers, kept["newton"], SLACK)[0]
        report.row(PANDA.name, f"{kept['newton'].who}, limits + {SLACK:g} rad", *cells)
    return kept, answered


def _row(
    report: Report, case: ComparedRobot, problems: HandProblems, suffix: str, run: Callable[[], Answers]
) -> Answers | None:
    """Add a row, also where a solver cannot run."""
    try:
        answers = run()
    except (PeerMissingError, ik_service.EngineError) as error:
        report.row(case.name, f"(not measured){suffix}", str(error), *[""] * (len(HEADS) + 2))
        return None
    report.row(case.name, answers.who + suffix, *describe(problems, answers)[0])
    return answers


def _on_two_cores(problems: HandProblems, repeats: int) -> Answers:
    """Return the answers of two threads with their wall time; the process may use all its cores meanwhile."""
    if len(CORES) < 2:
        raise PeerMissingError("there is one core only")
    pinned = os.sched_getaffinity(0)
    os.sched_setaffinity(0, CORES)
    try:
        return solve_with_ours(PANDA, problems, THREAD_REPEATS * repeats, threads=2, clock=time.perf_counter)
    finally:
        os.sched_setaffinity(0, pinned)
