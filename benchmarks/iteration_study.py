"""The iteration of the compiled engine beside others: other rules, other arithmetic, other numbers.

python benchmarks/iteration_study.py [--full] [--only NAME] [--write]

Without --full it measures the rules alone, on two robots; --write keeps what is printed in iteration_study.md.
"""

import argparse
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import warp as wp
from compared_robots import ARMS, PANDA, ComparedRobot
from iteration_rules import ARITHMETIC, BEFORE, NUMBERS, OURS, RULES, Variant
from numpy.typing import NDArray
from problems import PoseProblems
from problems_hard import LIMIT_SHARE, HardArm
from report import Report, machine

import ik_service
from ik_service.solver.compiled import engine as compiled_engine
from ik_service.solver.compiled import island_launches
from ik_service.solver.lm.slots import UNRANKED
from ik_service.solver.problems import arrays as problems
from ik_service.solver.problems import input_kernels as intake
from objectives import IKObjectivePosture

HERE = Path(__file__).parent
LOOSE, TIGHT = (1e-3, 1e-2), (1e-5, 1e-4)  # [m], [rad]
TARGET_SEED = 11
INSTANCES = 3  # of a solver: where its memory lies costs or saves a few percent
SCALES = (1.05, 1.3, 2.0)  # of the positions of reachable poses
POSTURE_WEIGHTS = (1e-3, 1e-2, 1e-1)
POSTURE_SEEDS = 8


@dataclass(frozen=True)
class Sizes:
    """How much is measured.

    Attributes:
        arms: How many of the arms.
        targets: Reachable targets of each.
        scaled: Targets of each scale from which those out of reach are taken.
        hard: Hard targets of each kind.
        rounds: Runs of each instance of a variant, in turns.
    """

    arms: int
    targets: int
    scaled: int
    hard: int
    rounds: int


QUICK = Sizes(arms=2, targets=4000, scaled=300, hard=2000, rounds=3)
FULL = Sizes(arms=5, targets=20000, scaled=1000, hard=20000, rounds=5)


# ---------------------------------------------------------------------- one variant on one robot


@contextmanager
def in_use(variant: Variant, case: ComparedRobot) -> Iterator[None]:
    """Have the solver make its kernels of a variant."""
    source = type(variant.source.__name__, (variant.source,), {"case": case})
    changes = [(island_launches, "IterationSource", source), (island_launches, "DAMPING", variant.damping)]
    changes += [(module, "ROTATION_LENGTH", variant.rotation_length) for module in (intake, problems)]
    with ExitStack() as stack:
        for module, name, value in changes:
            stack.enter_context(patch.object(module, name, value))
        yield


class Run:
    """A variant at work on targets: its answers, and the time of its kernel."""

    def __init__(self, variant: Variant, case: ComparedRobot, targets: PoseProblems) -> None:
        self.variant, self.targets, self.times = variant, targets, list[float]()
        self._work: list[compiled_engine.IslandWork] = []
        tasks = compiled_engine.CompiledEngine.tasks

        def seen(*arguments: Any) -> list[compiled_engine.IslandWork]:
            self._work = tasks(*arguments)
            return self._work

        with in_use(variant, case), patch.object(compiled_engine.CompiledEngine, "tasks", seen):
            solver = ik_service.IKSolver(case.robot, [targets.link], device="cpu", engine="compiled")
            self.result = solver.solve(targets.positions, targets.orientations_xyzw)
        ((one, task),) = self._work
        self._task, self._solver = task, solver
        self._launch = wp.launch(one.kernel, 1, [task, 0, 1], device="cpu", record_cmd=True)

    def go(self) -> None:
        """Run the kernel once more."""
        self._task.winner_rank.fill_(UNRANKED)
        start = time.thread_time()
        self._launch.launch()
        self.times.append(1e6 * (time.thread_time() - start) / len(self.targets.positions))

    @cached_property
    def attempts(self) -> float:
        """Attempts per target."""
        return float(self._task.next_seed.numpy()[: len(self.targets.positions)].sum(axis=1).mean())

    def solved(self, tolerance: tuple[float, float]) -> NDArray[np.bool_]:
        """Return which targets are met within tolerances [m, rad]."""
        return self.targets.judge(self.result.joint_q, *tolerance)

    @cached_property
    def residual(self) -> NDArray[np.float64]:
        """|r| of every answer [m]."""
        chord = 2.0 * np.sin(0.5 * self.result.orientation_error[:, 0])
        return np.hypot(self.result.position_error[:, 0], self.variant.rotation_length * chord)


def measured(variants: Sequence[Variant], case: ComparedRobot, targets: PoseProblems, rounds: int) -> dict[str, Run]:
    """Return runs of all variants on the same targets, timed in turns; several of each, as each lies elsewhere."""
    runs: dict[str, Run] = {}
    for _ in range(INSTANCES):
        before, runs = runs, {variant.name: Run(variant, case, targets) for variant in variants}
        for _ in range(rounds):
            for run in runs.values():
                run.go()
        for name, run in before.items():
            runs[name].times += run.times
    return runs


def per_solved(run: Run) -> NDArray[np.float64]:
    """Return the time of every round per target solved precisely [us]."""
    return np.array(run.times) / max(run.solved(TIGHT).mean(), 1e-9)


# ---------------------------------------------------------------------- tables


def reachable(case: ComparedRobot, count: int) -> PoseProblems:
    """Return random reachable targets of an arm."""
    return PoseProblems.random(case.robot, case.links[0], count, TARGET_SEED)


def out_of_reach(case: ComparedRobot, count: int) -> PoseProblems:
    """Return targets that the monotone iteration does not meet, near and far."""
    near = reachable(case, count)
    positions = np.concatenate([scale * near.positions for scale in SCALES])
    scaled = PoseProblems(case.robot, near.link, positions, np.tile(near.orientations_xyzw, (len(SCALES), 1)))
    missed = ~Run(BEFORE, case, scaled).solved(LOOSE)
    return PoseProblems(case.robot, near.link, positions[missed], scaled.orientations_xyzw[missed])


class Row:
    """Figures of one variant, robot by robot."""

    def __init__(self) -> None:
        self.ratios: list[float] = []
        self.cells: list[str] = []
        self.solved: list[float] = []
        self.missed_time: list[float] = []
        self.above: list[NDArray[np.float64]] = []

    def add(self, run: Run, ours: Run) -> None:
        """Add a robot with reachable targets."""
        self.ratios.append(float(np.median(per_solved(run) / per_solved(ours))))
        self.cells.append(f"{np.median(per_solved(run)):.2f} ({run.attempts:.2f})")
        self.solved.append(float(run.solved(TIGHT).mean()))

    def add_missed(self, run: Run, before: Run) -> None:
        """Add a robot with targets out of reach."""
        self.missed_time.append(float(np.median(run.times)))
        if run.variant.rotation_length == before.variant.rotation_length:
            self.above.append(run.residual / before.residual)

    def shown(self, variant: Variant) -> list[str]:
        """Return the cells of the table."""
        ratio = np.exp(np.mean(np.log(self.ratios)))
        above = [f"{np.quantile(np.concatenate(self.above), share):.3f}" for share in (0.5, 0.9)] if self.above else []
        missed = f"{np.mean(self.missed_time):.0f}"
        cells = [variant.name, f"{ratio:.2f}", *self.cells, f"{min(self.solved):.2%}", missed, *(above or ["", ""])]
        return [*cells, variant.why]


def show(report: Report, title: str, explanation: str, variants: Sequence[Variant], sizes: Sizes) -> None:
    """Report a table of variants beside the solver's iteration."""
    arms = ARMS[: sizes.arms]
    everyone = [OURS, BEFORE, *(one for one in variants if one not in (OURS, BEFORE))]
    rows = {variant.name: Row() for variant in everyone}
    for case in arms:
        runs = measured(everyone, case, reachable(case, sizes.targets), sizes.rounds)
        for name, run in runs.items():
            rows[name].add(run, runs[OURS.name])
        del runs, run
    for case in arms[:2]:
        runs = measured(everyone, case, out_of_reach(case, sizes.scaled), 1)
        for name, run in runs.items():
            rows[name].add_missed(run, runs[BEFORE.name])
        del runs, run
    report.section(title, explanation)
    heads = (
        "iteration",
        "time",
        *(case.name for case in arms),
        "solved",
        "out of reach, µs",
        r"\|r\| median",
        r"\|r\| 90 %",
        "",
    )
    report.table(*heads)
    for variant in everyone:
        report.row(*rows[variant.name].shown(variant))


def show_hard(report: Report, sizes: Sizes) -> None:
    """Report targets at limits and near singularities."""
    arm = HardArm(PANDA, "panda_link2")
    report.section(
        "Hard targets of the Panda",
        f"'At limits': {LIMIT_SHARE:.0%} of the joints stand at a limit. 'Near singularities': random steps have "
        "shrunk the smallest singular value of J.",
    )
    tolerances = [f"{position * 1e3:g} mm, {orientation:g} rad" for position, orientation in (LOOSE, TIGHT)]
    report.table("targets", "iteration", "µs per target", "attempts", *tolerances)
    kinds = {"at limits": arm.at_limits(sizes.hard)[0], "near singularities": arm.near_singularities(sizes.hard)[0]}
    for kind, hands in kinds.items():
        for name, run in measured([OURS, BEFORE], PANDA, hands.per_link[0], 2).items():
            shares = [f"{run.solved(tolerance).mean():.3%}" for tolerance in (LOOSE, TIGHT)]
            report.row(kind, name, f"{np.median(run.times):.2f}", f"{run.attempts:.2f}", *shares)


def show_posture(report: Report, sizes: Sizes) -> None:
    """Report what becomes of problems whose cost has no zero."""
    report.section(
        "A pose and a posture",
        f"The least cost of {POSTURE_SEEDS} seeds (`best_of='cost'`), divided by that of the monotone iteration; CPU "
        "time of the whole call. 'Lower' and 'higher' are shares of the problems in which it differs by more than 1 %: "
        "there one of the two has found another minimum.",
    )
    report.table("robot", "weight", "µs", "µs monotone", "median", "90 %", "lower", "higher")
    for case in ARMS[:3]:
        targets = reachable(case, sizes.scaled)
        for weight in POSTURE_WEIGHTS:
            cost, times = {}, {}
            for variant in (OURS, BEFORE):
                posture = IKObjectivePosture(case.robot.mid_joint_q, weight=weight)
                options = ik_service.SolverOptions(best_of="cost", seeds=POSTURE_SEEDS)
                with in_use(variant, case):
                    solver = ik_service.IKSolver(
                        case.robot, [targets.link], objectives=[posture], device="cpu", options=options
                    )
                    solver.solve(targets.positions, targets.orientations_xyzw)
                start = time.thread_time()
                cost[variant.name] = solver.solve(targets.positions, targets.orientations_xyzw).cost.astype(float)
                times[variant.name] = 1e6 * (time.thread_time() - start) / len(targets.positions)
            ratio = cost[OURS.name] / cost[BEFORE.name]
            quantiles = [f"{np.quantile(ratio, share):.4f}" for share in (0.5, 0.9)]
            differ = [f"{share.mean():.1%}" for share in (ratio < 0.99, ratio > 1.01)]
            spent = [f"{times[variant.name]:.1f}" for variant in (OURS, BEFORE)]
            report.row(case.name, f"{weight:g}", *spent, *quantiles, *differ)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="all variants on five robots: ten minutes")
    parser.add_argument("--only", help="one variant, on all robots")
    parser.add_argument("--write", action="store_true", help="keep it in iteration_study.md")
    arguments = parser.parse_args()
    sizes = FULL if arguments.full or arguments.only else QUICK
    wp.config.log_level = wp.LOG_ERROR
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[-1]})
    start = time.monotonic()
    report = Report("Iterations of the compiled engine")
    report.line("")
    report.line(
        f"CPU time of the kernel on one pinned core ({machine()}), 64 seeds. 'time': per target solved within "
        f"{TIGHT[0]:g} m and {TIGHT[1]:g} rad, that of the solver's iteration being 1, geometric mean over the robots. "
        f"Robots: the same in µs and, in brackets, attempts per target; {sizes.targets} random reachable targets, "
        f"median of {INSTANCES} x {sizes.rounds} runs in turns. 'solved': the least share of any robot. "
        "'out of reach': targets of the first two robots that the monotone iteration misses, poses with positions "
        f"times {', '.join(f'{scale:g}' for scale in SCALES)}; time per target, and |r| of the nearest pose found "
        "divided by that of the monotone iteration."
    )
    if arguments.only:
        found = [one for one in (*RULES, *ARITHMETIC, *NUMBERS) if one.name == arguments.only]
        if not found:
            parser.error(
                f"There is no '{arguments.only}'. Names: {[one.name for one in (*RULES, *ARITHMETIC, *NUMBERS)]}"
            )
        show(report, arguments.only, "", found, sizes)
        return
    show(report, "Rules", "Where steps start, what raises the damping, and when an attempt ends.", RULES, sizes)
    if arguments.full:
        show(report, "Arithmetic", "The same rule, computed otherwise or to second order.", ARITHMETIC, sizes)
        show(report, "Numbers", "A number is kept unless another saves 5 % at the same quality.", NUMBERS, sizes)
    show_hard(report, sizes)
    show_posture(report, sizes)
    if arguments.write:
        report.save(HERE / "iteration_study.md")
    print(f"\n{time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
