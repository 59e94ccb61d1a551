"""What time buys on the Panda: batch sizes, the latency of one target, and seeds against success."""

import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import ik_service
from benchmarks.arms.comparison import Sizes
from benchmarks.arms.contenders import Answers, make_solver, solve, solve_with_pinocchio
from benchmarks.peers import environments
from benchmarks.peers.environments import PeerMissingError
from benchmarks.problems.compared_robots import PANDA
from benchmarks.problems.many_arms import solved
from benchmarks.report import Report, microseconds

BATCHES = (1, 8, 64, 512, 4096, 10_000)
SEEDS = (1, 2, 4, 8, 16, 32, 64)
TOLERANCE = (1e-3, 1e-2)
RANDOM_SEED = 3
LEAST_CALLS = 5
LEAST_TIME = 0.2  # [s] of calls with one batch size
WARM_UP = 50  # calls
PLOTS = ("batch_size.svg", "seed_budget.svg")
Curves = dict[str, NDArray[np.float64]]


def show_batches(report: Report, sizes: Sizes) -> Curves:
    """Report the time per target of every batch size; return it."""
    report.section(
        "Batch size",
        "Panda, public call, NumPy arrays in and out, every call with other targets. CPU time per target of one "
        "pinned core, median (range) of the calls, µs.",
    )
    problems = PANDA.problems(sizes.targets, RANDOM_SEED)
    solver = make_solver(PANDA)
    batches = [batch for batch in BATCHES if batch <= sizes.targets]
    report.table("batch", "calls", "µs per target")
    medians = []
    for batch in batches:
        per_target = _calls(solver, problems.positions, problems.orientations_xyzw, batch) / batch
        report.row(batch, len(per_target), microseconds(per_target))
        medians.append(1e6 * np.median(per_target))
    return {"batches": np.array(batches), "batch_times": np.array(medians)}


def _calls(
    solver: ik_service.IKSolver, positions: NDArray[np.float64], orientations: NDArray[np.float64], batch: int
) -> NDArray[np.float64]:
    """CPU time of calls with so many targets each [s]."""
    times: list[float] = []
    starts = range(0, len(positions) - batch + 1, batch)
    solver.solve(positions[:batch], orientations[:batch])
    while len(times) < LEAST_CALLS or sum(times) < LEAST_TIME:
        first = starts[len(times) % len(starts)]
        given = positions[first : first + batch], orientations[first : first + batch]
        start = time.process_time()
        solver.solve(*given)
        times.append(time.process_time() - start)
    return np.array(times)


def show_latency(report: Report, sizes: Sizes, peers: dict[str, Answers]) -> None:
    """Report how long one target takes.

    Args:
        report: Where to.
        sizes: How many calls.
        peers: Answers of solvers that were timed target by target.
    """
    report.section(
        "One target",
        "Panda, a random reachable target per call, without knowledge of the last answer, µs. Ours is the wall "
        "time of the public call, NumPy arrays in and out; OptIK's is the CPU time of its call from Python; "
        "the loop on Pinocchio is timed inside its C++ program.",
    )
    report.table("solver", "calls", "p50", "p99")
    problems = PANDA.problems(sizes.latency_calls + WARM_UP, RANDOM_SEED)
    for engine in ("compiled", "staged"):
        solver = make_solver(PANDA, engine=engine)
        times = []
        for k in range(sizes.latency_calls + WARM_UP):
            one = problems.positions[k : k + 1, 0], problems.orientations_xyzw[k : k + 1, 0]
            start = time.perf_counter()
            solver.solve(*one)
            times.append(time.perf_counter() - start)
        _latency_row(report, f"ours, {solver.engine}", np.array(times[WARM_UP:]))
    for answers in peers.values():
        if answers.per_target is not None:
            _latency_row(report, answers.who, answers.per_target)


def _latency_row(report: Report, who: str, times: NDArray[np.float64]) -> None:
    report.row(who, len(times), *(f"{1e6 * np.percentile(times, share):.1f}" for share in (50, 99)))


def show_seeds(report: Report, sizes: Sizes) -> Curves:
    """Report success and time against the number of seeds; return them."""
    report.section(
        "Seeds",
        "Panda, success at 1 mm and 0.01 rad and CPU time per target against the largest number of seeds.",
    )
    problems = PANDA.problems(sizes.targets, RANDOM_SEED)
    few = problems.first(sizes.pinocchio_targets)
    solver = make_solver(PANDA)
    solve(solver, problems)
    report.table("seeds", "ours: µs per target", "solved", "Pinocchio: µs per target", "solved")
    curves: dict[str, list[float]] = {"our_times": [], "our_success": [], "their_times": [], "their_success": []}
    for seeds in SEEDS:
        times = []
        for _ in range(sizes.repeats):
            start = time.process_time()
            result = solve(solver, problems, seeds=seeds)
            times.append((time.process_time() - start) / len(problems.positions))
        ours = solved(problems, result.joint_q, TOLERANCE).mean()
        cells = [microseconds(np.array(times)), f"{ours:.2%}"]
        curves["our_times"].append(1e6 * float(np.median(times)))
        curves["our_success"].append(float(ours))
        try:
            peer = solve_with_pinocchio(PANDA, few, sizes.repeats, seeds=seeds)
            theirs = solved(few, peer.joint_q, TOLERANCE).mean()
            cells += [microseconds(peer.seconds), f"{theirs:.2%}"]
            curves["their_times"].append(1e6 * float(np.median(peer.seconds)))
            curves["their_success"].append(float(theirs))
        except PeerMissingError as error:
            cells += [str(error), ""]
        report.row(seeds, *cells)
    return {"seeds": np.array(SEEDS), **{name: np.array(values) for name, values in curves.items()}}


def draw(curves: Curves, peers: dict[str, Answers], folder: Path) -> None:
    """Draw the plots into a folder."""
    levels = {answers.who: 1e6 * np.median(answers.seconds) for answers in peers.values()}
    plots = [folder / name for name in PLOTS]
    times = list(levels.values())
    environments.draw("draw_results.py", plots, level_names=list(levels), level_times=times, **curves)
