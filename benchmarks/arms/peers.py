"""Ours beside newton.ik, OptIK and a C++ loop on Pinocchio: same targets, same judge, one pinned core, one run.

--write keeps RESULTS.md and its plots beside this file.
"""

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import ik_service
from benchmarks.arms import contenders
from benchmarks.arms.contenders import TIGHT, Answers, make_solver, solve_with_ours, solve_with_pinocchio
from benchmarks.peers.environments import NEWTON_ITERATIONS, SLACK, PeerMissingError, draw
from benchmarks.problems import hard_problems
from benchmarks.problems.compared_robots import ARMS, MANY_LIMBS, PANDA, WHOLE_BODY
from benchmarks.problems.hard_problems import FAR, LIMIT_SHARE, NEARLY, HardArm
from benchmarks.problems.pose_problems import SOLVED, PoseProblems
from benchmarks.report import Report
from benchmarks.run import Times, benchmark, timed
from ik_service.cli.pose_problems import TOLERANCES
from ik_service.solver.given.targets import ROTATION_LENGTH

HERE = Path(__file__).parent
SIZES = {  # without --full and with it
    "targets": (10_000, 10_000),  # of our compiled engine
    "staged_targets": (500, 2000),
    "peer_targets": (200, 1000),  # of newton.ik and OptIK, which take the longest
    "pinocchio_targets": (1000, 2000),
    "hard_targets": (500, 20_000),  # of each kind
    "limb_targets": (500, 1000),  # at most
    "repeats": (3, 5),
    "latency_calls": (300, 2000),
    "arms": (3, 5),  # that are measured
    "robots": (2, 6),  # with many limbs
    "seconds": (1.0, 2.0),  # that a run of ours may take on a robot with many limbs
}
THREAD_REPEATS = 5  # times as many runs on two threads: something else wants one of the cores now and then
PANDA_BOUND_US, OTHER_ARMS_BOUND, THREADS_BOUND = 3.0, 1.5, 1.8
SUCCESS_BOUNDS = ((SOLVED, 0.9998), (TIGHT, 0.9995))
PEER_BOUNDS = {"pinocchio": 15.0, "optik": 80.0, "newton": 400.0}
ARM = HardArm(PANDA, "panda_link2")
REFERENCE_TARGETS, REFERENCE_SEEDS = 20, 100
FEW_SEEDS = 64  # of the loop on Pinocchio where there is no solution to stop it
BATCHES, SEEDS = (1, 8, 64, 512, 4096, 10_000), (1, 2, 4, 8, 16, 32, 64)
LEAST_CALLS, LEAST_TIME, WARM_UP = 5, 0.2, 50  # [s] of calls with one batch size; calls with one target
CORES = os.sched_getaffinity(0)  # before anything is pinned
HEADS = [f"{position * 1e3:g} mm, {orientation:g} rad" for position, orientation in TOLERANCES]
Contender = tuple[str, str, PoseProblems, Callable[[], Answers]]
"""Key, label of the row, targets, and what solves them."""
Kept = dict[str, tuple[PoseProblems, Answers]]


def compare(report: Report, compared: Iterable[Contender], cells: Callable[..., Iterable[object]]) -> Kept:
    """Add a row for each contender, also where one cannot run; claim that our `success` is what the judge says."""
    kept: Kept = {}
    for key, label, problems, run in compared:
        try:
            answers = run()
        except (PeerMissingError, ik_service.EngineError) as error:
            report.row(label, f"not measured: {error}")
            continue
        kept[key] = problems, answers
        report.row(label, answers.who, *cells(problems, answers))
    wrong = count = 0
    for problems, answers in kept.values():
        if answers.result is not None:
            wrong += int((answers.result.success != problems.met(answers.joint_q, answers.tolerance)).sum())
            count += len(problems)
    report.claim("`success` of ours differs from the judge's", f"{wrong} of {count}", "none", wrong == 0 < count)
    return kept


def describe(problems: PoseProblems, answers: Answers) -> list[str]:
    """Return the cells of a row."""
    shares = [f"{answers.share(problems, tolerance):.2%}" for tolerance in TOLERANCES]
    return [str(len(problems)), str(answers.times), *shares, f"{answers.per_solved(problems):.2f}"]


def _show_single_arms(report: Report, sizes: Any) -> Kept:
    report.section(
        "One arm, one target",
        "Random reachable targets. CPU time per target of one pinned core, median (range) of "
        f"{sizes.repeats} runs; success at three tolerances. Ours with default options, NumPy arrays in and out; "
        f"'tight' asks for {TIGHT[0]:g} m and {TIGHT[1]:g} rad. The loop on Pinocchio is written for this comparison "
        "(`peers/pinocchio_lm.cpp`): Levenberg-Marquardt, joints clamped and held at their limits, up to "
        f"{contenders.PINOCCHIO_SEEDS} seeds until {TIGHT[0]:g} m and {TIGHT[1]:g} rad are met. The figure behind "
        "OptIK is the length of the pose error's logarithm at which it stops. newton.ik runs "
        f"{contenders.NEWTON_SEEDS} seeds x {NEWTON_ITERATIONS} iterations.",
        *("robot", "solver", "targets", "µs per target", *HEADS, "µs per target solved at 1 mm"),
    )
    problems, repeats = PANDA.problems(sizes.targets, 0), sizes.repeats
    staged, peers, few = map(problems.first, (sizes.staged_targets, sizes.peer_targets, sizes.pinocchio_targets))
    newton = cache(lambda: contenders.solve_with_newton(PANDA, peers, repeats))

    def ours(suffix: str, given: PoseProblems = problems, **options: Any) -> Callable[[], Answers]:
        def run() -> Answers:
            answers = solve_with_ours(PANDA, given, options.pop("repeats", repeats), **options)
            return replace(answers, who=answers.who + suffix)

        return run

    def soft() -> Answers:
        return replace(newton(), slack=SLACK, who=f"{newton().who}, limits + {SLACK:g} rad")

    tight = ours(", tight", position_tolerance=TIGHT[0], orientation_tolerance=TIGHT[1])
    on_two = ours(", 2 threads, wall time", repeats=THREAD_REPEATS * repeats, threads=2, clock=time.perf_counter)
    compared: list[Contender] = [
        ("ours", PANDA.name, problems, ours("")),
        ("tight", PANDA.name, problems, tight),
        ("threads", PANDA.name, problems, partial(_on_all_cores, on_two)),
        ("staged", PANDA.name, staged, ours("", staged, engine="staged")),
        ("pinocchio", PANDA.name, few, lambda: solve_with_pinocchio(PANDA, few, repeats)),
        ("optik", PANDA.name, peers, lambda: contenders.solve_with_optik(PANDA, peers, repeats, 1e-3)),
        ("optik tight", PANDA.name, peers, lambda: contenders.solve_with_optik(PANDA, peers, repeats, 1e-5)),
        ("newton, exact limits", PANDA.name, peers, lambda: replace(newton(), who=f"{newton().who}, exact limits")),
        ("newton", PANDA.name, peers, soft),
    ]
    for case in ARMS[1 : sizes.arms]:
        own = case.problems(sizes.targets, 0)
        some = own.first(sizes.pinocchio_targets)
        compared.append((case.name, case.name, own, partial(solve_with_ours, case, own, repeats)))
        compared.append((f"{case.name} peer", case.name, some, partial(solve_with_pinocchio, case, some, repeats)))
    kept = compare(report, compared, describe)
    _claim_speed(report, kept)
    return kept


def _on_all_cores(run: Callable[[], Answers]) -> Answers:
    """Run while the process may use all its cores."""
    if len(CORES) < 2:
        raise PeerMissingError("there is one core only")
    pinned = os.sched_getaffinity(0)
    os.sched_setaffinity(0, CORES)
    try:
        return run()
    finally:
        os.sched_setaffinity(0, pinned)


def _claim_speed(report: Report, kept: Kept) -> None:
    """Claim what our engine is meant to reach on the Panda, beside other arms and beside other solvers."""
    per_solved = {name: answers.per_solved(problems) for name, (problems, answers) in kept.items()}
    ours = per_solved["ours"]
    report.claim("µs per solved Panda target", f"{ours:.2f}", f"{PANDA_BOUND_US:g}", ours <= PANDA_BOUND_US)
    problems, answers = kept["ours"]
    for tolerance, bound in SUCCESS_BOUNDS:
        share = answers.share(problems, tolerance)
        report.claim(f"solved to {1e3 * tolerance[0]:g} mm", f"{share:.2%}", f"{bound:.2%}", share >= bound)
    for name in [case.name for case in ARMS[1:] if case.name in kept]:
        factor = per_solved[name] / ours
        report.claim(f"{name}: times the Panda's", f"{factor:.2f}", f"{OTHER_ARMS_BOUND:g}", factor <= OTHER_ARMS_BOUND)
    if "threads" in kept:
        gain = answers.times.median / kept["threads"][1].times.median
        report.claim("rate of two threads over one", f"{gain:.2f}", f"{THREADS_BOUND:g}", gain >= THREADS_BOUND)
    for name, bound in [(name, bound) for name, bound in PEER_BOUNDS.items() if name in kept]:
        factor = per_solved[name] / ours
        report.claim(f"times faster than {kept[name][1].who}", f"{factor:.0f}", f"{bound:g}", factor >= bound)


def _show_hard_targets(report: Report, sizes: Any) -> None:
    limits, held = ARM.at_limits(sizes.hard_targets)
    singular, values = ARM.near_singularities(sizes.hard_targets)
    report.section(
        "Hard targets of the Panda",
        f"'At limits': each joint stands at its lower or upper limit with probability {LIMIT_SHARE:g}, at least one "
        f"does ({held.mean():.1f} on average). 'Near singularities': random steps have shrunk the smallest singular "
        f"value of the Jacobian to {np.median(values):.1g} m in the middle and to at most "
        f"{np.percentile(values, 90):.1g} m in nine of ten (a radian weighs as much as {ROTATION_LENGTH:g} m, as in "
        "our solver).",
        *("targets", "solver", "count", "µs per target", *HEADS, "µs per target solved at 1 mm"),
    )
    compared: list[Contender] = []
    for name, problems in (("at limits", limits), ("near singularities", singular)):
        staged, peers = problems.first(sizes.staged_targets), problems.first(sizes.peer_targets)
        runs = (
            (problems, partial(solve_with_ours, PANDA, problems, sizes.repeats)),
            (staged, partial(solve_with_ours, PANDA, staged, sizes.repeats, engine="staged")),
            (problems, partial(solve_with_pinocchio, PANDA, problems, sizes.repeats)),
            (peers, partial(contenders.solve_with_optik, PANDA, peers, sizes.repeats, 1e-3)),
        )
        compared += [(f"{name} {k}", name, given, run) for k, (given, run) in enumerate(runs)]
    compare(report, compared, describe)


def _show_out_of_reach(report: Report, sizes: Any) -> None:
    report.section(
        "Targets out of reach",
        "Random poses of the Panda, moved away from the shoulder beyond the largest distance that the hand can have "
        f"from it: nearly ({NEARLY[0] * 1e3:g}-{NEARLY[1] * 1e3:g} mm beyond) and far ({FAR[0]:g}-{FAR[1]:g} m). The "
        f"loop on Pinocchio gives up after {FEW_SEEDS} seeds. 'Above the least': by how much cost and distance of the "
        f"hand are above those of a float64 descent from {REFERENCE_SEEDS} seeds, on {REFERENCE_TARGETS} of the "
        "targets; median and worst. A negative distance is bought with a larger error of the orientation. The loop on "
        "Pinocchio weighs rotation otherwise and is not compared in this.",
        *("targets", "solver", "count", "µs per target", "statuses"),
        *("cost above the least", "distance above the least, mm"),
    )
    for name, beyond in (("nearly", NEARLY), ("far", FAR)):
        problems, _ = ARM.out_of_reach(sizes.hard_targets, beyond)
        for what, has_orientation in (("pose", True), ("position alone", False)):
            ours = solve_with_ours(PANDA, problems, sizes.repeats, has_orientation=has_orientation)
            counts = Counter(ours.result.status_names).most_common()
            statuses = ", ".join(f"{status} {count / len(problems):.1%}" for status, count in counts)
            above = _above_the_least(problems.first(REFERENCE_TARGETS), ours.joint_q, has_orientation)
            report.row(f"{name}, {what}", ours.who, len(problems), ours.times, statuses, *above)
            if has_orientation:
                few = problems.first(sizes.peer_targets)
                try:
                    peer = solve_with_pinocchio(PANDA, few, 1, seeds=FEW_SEEDS)
                    report.row(f"{name}, {what}", peer.who, len(few), peer.times, "", "", "")
                except PeerMissingError as error:
                    report.row(f"{name}, {what}", f"not measured: {error}")


def _above_the_least(problems: PoseProblems, joint_q: Any, has_orientation: bool) -> list[str]:
    """Return median and worst of cost and distance [mm] above those of a descent."""
    best, least = hard_problems.least_costs(problems, REFERENCE_SEEDS, 0, has_orientation)
    few = joint_q[: len(problems)]
    cost = hard_problems.pose_costs(problems, few, has_orientation) / least - 1.0
    own, reference = (
        np.linalg.norm(PoseProblems.of(problems.robot, problems.links, q).positions - problems.positions, axis=2)[:, 0]
        for q in (few, best)
    )
    distance = 1e3 * (own - reference)
    return [f"{np.median(cost):.2%}, {cost.max():.2%}", f"{np.median(distance):.3f}, {distance.max():.3f}"]


def _show_many_limbs(report: Report, sizes: Any) -> None:
    report.section(
        "Many limbs",
        "Poses that the links take together in random configurations; the base is fixed but for the last robot. "
        "Solved means all links. 'Factor' is the time of ours per target solved at 1 mm over that of one Panda; the "
        "loop on Pinocchio takes all joints that move a link as one system. Fewer targets where one run would take "
        f"more than {sizes.seconds:g} s. Answers judged as above.",
        *("robot and links", "solver", "joints of the islands", "targets", "µs per target", *HEADS[1:]),
        *("µs per target solved at 1 mm", "factor"),
    )
    one_arm: list[float] = []

    def cells(problems: PoseProblems, answers: Answers) -> list[str]:
        per_solved, is_ours = answers.per_solved(problems), answers.result is not None
        one_arm.append(per_solved)
        islands = " + ".join(str(len(one.joints)) for one in answers.result.islands[0]) if is_ours else ""
        count, times, _, *shares = describe(problems, answers)
        return [islands, count, times, *shares, f"{per_solved / one_arm[0]:.2f}" if is_ours else ""]

    compared: list[Contender] = []
    for case in (PANDA, *MANY_LIMBS[: sizes.robots], WHOLE_BODY):
        problems = contenders.affordable(case, case.problems(sizes.limb_targets, 2), sizes.seconds)
        compared.append((case.name, case.name, problems, partial(solve_with_ours, case, problems, sizes.repeats)))
        if case is WHOLE_BODY:
            few = problems.first(sizes.pinocchio_targets // 10)
            other: Any = partial(solve_with_ours, case, few, 1, engine="staged")
        else:
            few = problems.first(sizes.pinocchio_targets)
            other = partial(solve_with_pinocchio, case, few, sizes.repeats)
        compared.append((f"{case.name} other", case.name, few, other))
    compare(report, compared, cells)


def _show_batches(report: Report, sizes: Any) -> dict[str, Any]:
    report.section(
        "Batch size",
        "Panda, public call, NumPy arrays in and out, every call with other targets. CPU time per target of one "
        "pinned core, median (range) of the calls, µs.",
        *("batch", "calls", "µs per target"),
    )
    problems, solver = PANDA.problems(sizes.targets, 3), make_solver(PANDA)
    batches = [batch for batch in BATCHES if batch <= sizes.targets]
    medians = []
    for batch in batches:
        parts = [problems[first : first + batch].given for first in range(0, len(problems) - batch + 1, batch)]
        times: list[float] = []
        solver.solve(*parts[0])
        while len(times) < LEAST_CALLS or sum(times) < LEAST_TIME:
            begun = time.process_time()
            solver.solve(*parts[len(times) % len(parts)])
            times.append(time.process_time() - begun)
        each = Times(1e6 * np.array(times) / batch)
        report.row(batch, len(times), each)
        medians.append(each.median)
    return {"batches": batches, "batch_times": medians}


def _show_latency(report: Report, sizes: Any, kept: Kept) -> None:
    report.section(
        "One target",
        "Panda, a random reachable target per call, without knowledge of the last answer, µs. Ours is the wall "
        "time of the public call, NumPy arrays in and out; OptIK's is the CPU time of its call from Python; "
        "the loop on Pinocchio is timed inside its C++ program.",
        *("solver", "calls", "p50", "p99"),
    )
    problems = PANDA.problems(sizes.latency_calls + WARM_UP, 3)
    own = {}
    for engine in ("compiled", "staged"):
        solver, times = make_solver(PANDA, engine=engine), []
        for k in range(len(problems)):
            one = problems.positions[k : k + 1, 0], problems.orientations_xyzw[k : k + 1, 0]
            begun = time.perf_counter()
            solver.solve(*one)
            times.append(1e6 * (time.perf_counter() - begun))
        own[f"ours, {solver.engine}"] = times[WARM_UP:]
    peers = {who.who: who.per_target for name in ("pinocchio", "optik") if name in kept for who in [kept[name][1]]}
    for who, spent in (own | peers).items():
        report.row(who, len(spent), *(f"{np.percentile(spent, share):.1f}" for share in (50, 99)))


def _show_seeds(report: Report, sizes: Any) -> dict[str, Any]:
    report.section(
        "Seeds",
        "Panda, success at 1 mm and 0.01 rad and CPU time per target against the largest number of seeds.",
        *("seeds", "ours: µs per target", "solved", "Pinocchio: µs per target", "solved"),
    )
    problems, solver = PANDA.problems(sizes.targets, 3), make_solver(PANDA)
    few = problems.first(sizes.pinocchio_targets)
    curves: dict[str, Any] = {"seeds": SEEDS} | {f"{who}_{what}": [] for who in ("our", "their") for what in "tf"}
    for seeds in SEEDS:
        result, times = timed(partial(solver.solve, *problems.given, options={"seeds": seeds}), sizes.repeats)
        solved = [("our", times, float(problems.met(result.joint_q).mean()))]
        cells: list[object] = []
        try:
            peer = solve_with_pinocchio(PANDA, few, sizes.repeats, seeds=seeds)
            solved.append(("their", peer.times, peer.share(few)))
        except PeerMissingError as error:
            cells = [error, ""]
        for who, spent, share in solved:
            curves[f"{who}_t"].append(spent.median)
            curves[f"{who}_f"].append(1.0 - share)
        report.row(seeds, *(cell for _, spent, share in solved for cell in (spent, f"{share:.2%}")), *cells)
    return curves


def show(report: Report, **chosen: Any) -> None:
    """Run all comparisons."""
    sizes = SimpleNamespace(**chosen)
    kept = _show_single_arms(report, sizes)
    _show_hard_targets(report, sizes)
    _show_out_of_reach(report, sizes)
    _show_many_limbs(report, sizes)
    curves = _show_batches(report, sizes)
    report.line("![Time per target against the batch size](batch_size.svg)")
    _show_latency(report, sizes, kept)
    curves |= _show_seeds(report, sizes)
    report.line("![Targets not solved against time, for 1 to 64 seeds](seed_budget.svg)")
    if "--write" in sys.argv:
        levels = {kept[name][1].who: kept[name][1].times.median for name in PEER_BOUNDS if name in kept}
        plots = [HERE / "batch_size.svg", HERE / "seed_budget.svg"]
        draw("draw_results.py", plots, level_names=list(levels), level_times=list(levels.values()), **curves)


if __name__ == "__main__":
    benchmark(
        "Results beside other solvers",
        show,
        "Every solver gets the same targets in the same run. Solved means: the answer, put through float64 forward "
        "kinematics, is within the tolerance and inside the joint limits to the last bit, whatever the solver says of "
        "itself.",
        sizes=SIZES,
        file=HERE / "RESULTS.md",
    )
