"""Islands beside the dense path of the staged engine: up to 16 arms on one base; time, scaling and robustness.

python -m benchmarks.islands.islands [--quick]

Writes islands.md and islands.svg beside this file; --quick measures little and writes nothing.
"""

import argparse
import os
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import ik_service
from benchmarks.islands.robustness import SEEDS, TOLERANCE, show_robustness
from benchmarks.islands.stages import SLOTS, STAGES, RecordedDiscovery, RecordedStages, measure_together
from benchmarks.peers import environments
from benchmarks.problems.many_arms import HandProblems, many_arms
from benchmarks.report import Report, machine, microseconds
from objectives import IKObjective

ARMS = (1, 2, 4, 8, 16)
LINEAR_SLACK = 1.3
EQUAL_SLACK = 1.05
MIXED_GAIN = 3.0
DISCOVERY_SHARE = 0.01
BLOCKS = ("normal equations", "factor and solve")  # gather + J'J, then factor + solve
BLOCKS_NAME = "gather, J'J, factor, solve"
CALLS = 10
MANY = 256  # problems of a whole solve
FEW = {1: 256, 2: 256, 4: 64, 8: 16, 16: 4}  # the same where the dense path is to bear it
Times = dict[str, NDArray[np.float64]]


def record_both(
    problems: HandProblems, pairs: list[tuple[int, int]] | None = None, share: int = 1
) -> list[RecordedStages]:
    """Return the stages with islands and dense.

    Args:
        problems: SLOTS problems.
        pairs: Links that relative poses couple.
        share: One problem in `share` is coupled.
    """
    switched_on = np.arange(len(problems.positions)) % share == 0
    return [
        RecordedStages(problems, islands=islands, objectives=problems.couplings(pairs or [], switched_on))
        for islands in (True, False)
    ]


def stage_times(recorded: list[RecordedStages], repeats: int) -> list[Times]:
    """Return the times of all stages, and of the two together that work on islands."""
    measured = measure_together(recorded, repeats)
    return [{**times, BLOCKS_NAME: times[BLOCKS[0]] + times[BLOCKS[1]]} for times in measured]


def show_stages(report: Report, repeats: int) -> dict[int, list[Times]]:
    """Report the stages of an iteration against the number of arms."""
    report.section(
        "One iteration",
        f"CPU time per problem and iteration, µs, median (range) of {repeats}, all taken in turns; {SLOTS} problems "
        "side by side, all islands running, launches recorded. 'Kinematics' is residuals and Jacobian; 'iteration' is "
        "all of it. Ratios are medians over the turns.",
    )
    recorded = [
        stages for count in ARMS for stages in record_both(HandProblems.random(*many_arms(count), SLOTS, random_seed=0))
    ]
    times = stage_times(recorded, repeats)
    measured = {count: times[2 * k : 2 * k + 2] for k, count in enumerate(ARMS)}
    shown = (*STAGES[:-1], BLOCKS_NAME, "iteration")
    report.table("arms", "path", *shown)
    for count, both in measured.items():
        for path, of_path in zip(("islands", "dense"), both, strict=True):
            report.row(count, path, *(microseconds(of_path[name]) for name in shown))
    report.line("")
    growth = ratio(measured[16][0][BLOCKS_NAME], measured[4][0][BLOCKS_NAME])
    bound = LINEAR_SLACK * 16 / 4
    report.claim(f"{BLOCKS_NAME}: 16 arms over 4 arms", f"{growth:.2f}", f"at most {bound:.1f}", growth <= bound)
    gain = ratio(measured[16][1]["iteration"], measured[16][0]["iteration"])
    report.line(f"- With 16 arms an iteration takes the dense path {gain:.0f} times as long.")
    return measured


def ratio(these: NDArray[np.float64], those: NDArray[np.float64]) -> float:
    """Return the median of the ratios of times that were taken in turns."""
    return float(np.median(these / those))


def show_solves(report: Report, arms: tuple[int, ...], repeats: int) -> None:
    """Report whole solves: time per problem and success."""
    report.section(
        "Whole solves",
        f"Public call, {SEEDS} seeds, CPU time per problem in µs, median (range) of {repeats}, and problems of which "
        f"every arm is solved ({TOLERANCE[0]:g} m, {TOLERANCE[1]:g} rad). The dense path, which wants all arms solved "
        "by one seed and soon runs out of them, gets fewer problems, which the islands get too; once from 8 arms on.",
    )
    report.table("arms", "path", "problems", "µs per problem", "solved", "arms solved")
    for count in arms:
        robot, links = many_arms(count)
        problems = HandProblems.random(robot, links, MANY, random_seed=1)
        for islands, n in sorted({(True, MANY), (True, FEW[count]), (False, FEW[count])}, reverse=True):
            times = []
            solver = _solver(robot, links, islands)
            _solve(solver, problems.first(n), seeds=1)
            for _ in range(repeats if islands or count < 8 else 1):
                start = time.process_time()
                answers = _solve(solver, problems.first(n))
                times.append((time.process_time() - start) / n)
            solved = problems.first(n).judge(answers.joint_q, *TOLERANCE)
            path = "islands" if islands else "dense"
            whole, each = f"{solved.all(axis=1).mean():.1%}", f"{solved.mean():.1%}"
            report.row(count, path, n, microseconds(np.array(times)), whole, each)


def show_one_island(report: Report, repeats: int) -> None:
    """Report systems of a single island, where there is nothing to gain."""
    report.section(
        "A single island",
        "Islands over dense, taken in turns. Where all is one island the dense path runs the same kernels, so this "
        "shows that `islands=True` adds nothing, not how good those kernels are.",
    )
    alone = HandProblems.random(*many_arms(1), SLOTS, random_seed=0)
    one_arm = stage_times(record_both(alone), 3 * repeats)
    many = HandProblems.random(*many_arms(16), SLOTS, random_seed=0)
    chain = [(arm, arm + 1) for arm in range(15)]
    chained = stage_times(record_both(many, chain), max(3, repeats // 3))
    bound = f"at most {EQUAL_SLACK:g}"
    for what, times in (("one arm", one_arm), ("16 arms chained by relative poses", chained)):
        for stage in (BLOCKS_NAME, "iteration"):
            value = ratio(times[0][stage], times[1][stage])
            figure = f"{value:.3f} ({microseconds(times[0][stage])} over {microseconds(times[1][stage])} µs)"
            report.claim(f"{what}, {stage}", figure, bound, value <= EQUAL_SLACK)


def show_mixed(report: Report, repeats: int) -> None:
    """Report a batch with two partitions."""
    report.section(
        "Mixed partitions",
        "16 arms; in every other problem of a batch relative poses couple arms 0-1, 2-3 and so on to eight islands.",
    )
    robot, links = many_arms(16)
    pairs = [(arm, arm + 1) for arm in range(0, 16, 2)]
    problems = HandProblems.random(robot, links, SLOTS, random_seed=0)
    mixed = stage_times(record_both(problems, pairs, share=2), max(3, repeats // 3))
    few = problems.first(FEW[16])
    whole = []
    for islands in (True, False):
        switched_on = np.arange(FEW[16]) % 2 == 0
        solver = _solver(robot, links, islands, few.couplings(pairs, switched_on))
        _solve(solver, few, seeds=1)
        start = time.process_time()
        answers = _solve(solver, few)
        whole.append((time.process_time() - start, few.judge(answers.joint_q, *TOLERANCE).all(axis=1).mean()))
    bound = f"at least {MIXED_GAIN:g}"
    for stage in (BLOCKS_NAME, "iteration"):
        gain = ratio(mixed[1][stage], mixed[0][stage])
        figure = f"dense takes {gain:.1f} times as long ({microseconds(mixed[0][stage])} µs with islands)"
        report.claim(f"mixed batch, {stage}", figure, bound, gain >= MIXED_GAIN)
    gain = whole[1][0] / whole[0][0]
    figure = f"dense takes {gain:.0f} times as long, solved {whole[0][1]:.0%} and {whole[1][1]:.0%}"
    report.claim(f"mixed batch, whole solve of {FEW[16]} problems", figure, bound, gain >= MIXED_GAIN)


def show_discovery(report: Report, repeats: int) -> None:
    """Report the share of the discovery in the solve of one arm."""
    report.section(
        "Discovery",
        "Share of the CPU time of a whole solve of one arm: its recorded launches, and the call from Python, which "
        "also looks at the weights and launches one kernel at a time.",
    )
    for count in (1, 1000):
        problems = HandProblems.random(*many_arms(1), count, random_seed=2)
        solver = _solver(problems.robot, problems.links, islands=True)
        _solve(solver, problems)
        recorded = RecordedDiscovery(solver, count)
        shares, calls = [], []
        for _ in range(repeats):
            start = time.process_time()
            _solve(solver, problems)
            whole = time.process_time() - start
            shares.append(recorded.measure() / whole)
            start = time.process_time()
            for _ in range(CALLS):  # one takes a few microseconds, no more than to read the clock
                solver._core.work.discover(count, join=False)
            calls.append((time.process_time() - start) / CALLS / whole)
        for what, values in (("launches", shares), ("call from Python", calls)):
            share = float(np.median(values))
            name = f"discovery, {count} problem{'s'[: count > 1]}, {what}"
            report.claim(name, f"{share:.2%}", f"under {DISCOVERY_SHARE:.0%}", share < DISCOVERY_SHARE)


def _solver(
    robot: ik_service.RobotModel, links: list[str], islands: bool, objectives: tuple[IKObjective, ...] = ()
) -> ik_service.IKSolver:
    options = ik_service.SolverOptions(seeds=SEEDS)
    return ik_service.IKSolver(
        robot, links, objectives=objectives, device="cpu", engine="staged", islands=islands, options=options
    )


def _solve(solver: ik_service.IKSolver, problems: HandProblems, seeds: int = SEEDS) -> ik_service.IKResult:
    return solver.solve(problems.positions, problems.orientations_xyzw, options={"seeds": seeds})


def draw(measured: dict[int, list[Times]], path: Path) -> None:
    """Draw the time per iteration against the number of arms."""
    values: dict[str, object] = {"arms": np.array(ARMS)}
    for k, engine in enumerate(("islands", "dense")):
        for stage in (BLOCKS_NAME, "iteration"):
            values[f"{engine}/{stage}"] = np.array([np.median(measured[count][k][stage]) for count in ARMS])
    environments.draw("draw_scaling.py", [path], **values)


def main() -> None:
    """Measure, report and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent)
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[-1]})
    repeats = 3 if arguments.quick else arguments.repeats
    report = Report("Islands beside the dense path")
    report.line("")
    report.line(
        f"Made by `python -m benchmarks.islands.islands`; one pinned core of {machine()}. 'Dense' is `islands=False`: "
        "all arms are one system then, whose factors leave out what the trees keep zero."
    )
    measured = show_stages(report, repeats)
    if not arguments.quick:
        report.line("")
        report.line("![Time per iteration against the number of arms](islands.svg)")
    show_one_island(report, repeats)
    show_mixed(report, repeats)
    show_discovery(report, repeats)
    show_solves(report, ARMS[:3] if arguments.quick else ARMS, min(repeats, 5))
    show_robustness(report, *((30, 10) if arguments.quick else (300, 100)))
    report.line("")
    report.line(f"Missed bounds: {len(report.missed)}." + "".join(f"\n- {what}" for what in report.missed))
    if not arguments.quick:
        report.save(arguments.output / "islands.md")
        draw(measured, arguments.output / "islands.svg")


if __name__ == "__main__":
    main()
