"""Targets per second of the compiled engine on GPUs, by a model of the machine code of its kernels; no card is needed.

python -m benchmarks.gpu_model.gpu_model [--robots panda ...] [--figures FILE] [--before FILE] [--write]

It compiles the kernels for the cards, reads their instructions, simulates how a multiprocessor issues them, and counts
what a solve launches and copies. How many iterations attempts take is measured by the CPU engine in the same run.
--figures keeps the figures of the code, which --before of a later version compares with. --write also writes
gpu_model.md beside this file.
"""

import argparse
import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import warp as wp

import ik_service
from benchmarks.gpu_model import cards
from benchmarks.gpu_model.attempts import Attempts, measured
from benchmarks.gpu_model.cards import CARDS, GUIDE, H100, H200, LOADS, RESULTS, Card
from benchmarks.gpu_model.kernels import COPIES_SEEN, IslandCode, SolvePlan, island_code, solve_plan
from benchmarks.gpu_model.prediction import CALL_S, NODE_S, TURN_S, RoundCost, Times, predicted
from benchmarks.problems.compared_robots import ARMS, ComparedRobot
from benchmarks.report import Report
from ik_service.solver.compiled.kernels.thread_kernel import ROUND

BATCHES = (1, 1000, 10_000, 100_000, 1_000_000)
ROUNDS = (4, 8, 12, 16)
PROBLEMS = 1000  # whose attempts are measured
TIPS = tuple(f"link_{k}.0_tip" for k in (3, 7, 11, 15))
HANDS = ("left_panda_hand", "right_panda_hand")
REFILL_MAX = 3.0  # iterations that a refill may take
MEASURED = Path(__file__).parents[1] / "gpu.md"
RATE_MIN = 100e6  # targets/s asked of an H200 with 100 000 targets of the Panda, from its memory to its memory


@dataclass(frozen=True)
class Modelled:
    """A robot with what its solves are made of.

    Attributes:
        name: In the tables.
        plan: What a solve does.
        attempts: Of each island.
        codes: Code of each island, by architecture.
    """

    name: str
    plan: SolvePlan
    attempts: list[Attempts]
    codes: dict[int, list[IslandCode]]
    _costs: dict[tuple[str, int], list[RoundCost]] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, robot: ComparedRobot, *, islands: bool) -> "Modelled":
        """Compile, and measure attempts."""
        plan = solve_plan(robot.problems(max(COPIES_SEEN), 0), islands=islands)
        attempts = measured(robot.problems(PROBLEMS, 0), len(plan.islands), islands=islands)
        by_card = {card.architecture: card for card in CARDS}
        return cls(
            name, plan, attempts, {a: [island_code(k, card) for k in plan.islands] for a, card in by_card.items()}
        )

    def costs(self, card: Card, steps: int = int(ROUND)) -> list[RoundCost]:
        """Return what rounds of each island cost."""
        key = card.name, steps
        if key not in self._costs:
            self._costs[key] = [RoundCost(code, card, steps) for code in self.codes[card.architecture]]
        return self._costs[key]

    def times(self, card: Card, problems: int, steps: int = int(ROUND)) -> Times:
        """Return how long a solve takes."""
        seeds = ik_service.SolverOptions().search_seeds
        return predicted(card, self.plan, self.costs(card, steps), self.attempts, problems, seeds)

    def figures(self, card: Card) -> dict[str, float]:
        """Return the figures of the code of its first island, by which versions are compared."""
        code = self.codes[card.architecture][0]
        cost = self.costs(card)[0]
        issue, latency, _ = cost.of(code.warps)
        times = self.times(card, 100_000)
        iteration = (issue + latency) / (int(ROUND) * code.warps)
        return {
            "registers": code.registers,
            "iteration": len(code.parts.iteration),
            "refill": len(code.parts.refill),
            "loads": sum(one.name in LOADS for one in code.parts.refill),
            "iteration_cycles": iteration,
            "refill_cycles": cost.refill(code.warps),
            "targets_per_s": 100_000 / (times.total - times.copies),
            "copies": len(self.plan.copied(1)),
            "one_target_us": 1e6 * self.times(card, 1).total,
        }


ROBOTS = {
    **{arm.name: (arm, True) for arm in ARMS if arm.name in ("ur5e", "panda", "iiwa14")},
    "dual_panda as one island": (ComparedRobot("dual_panda", "dual_panda", HANDS), False),
    "allegro, four fingers": (ComparedRobot("allegro", "allegro", TIPS), True),
    "allegro as one island": (ComparedRobot("allegro", "allegro", TIPS), False),
}


def main() -> None:
    """Model and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--robots", nargs="+", choices=ROBOTS, default=list(ROBOTS))
    parser.add_argument("--figures", type=Path, help="keep the figures of the code in this file")
    parser.add_argument("--before", type=Path, help="figures of another version, to compare with")
    parser.add_argument("--write", action="store_true", help="write gpu_model.md")
    arguments = parser.parse_args()
    wp.config.log_level = wp.LOG_ERROR
    robots = []
    for name in arguments.robots:
        robot, islands = ROBOTS[name]
        robots.append(Modelled.of(name, robot, islands=islands))
    report = Report("The compiled engine on GPUs, by a model of its machine code")
    report.line("")
    report.line(
        f"Warp {wp.__version__}, ik-service {ik_service.__version__}. These are predictions, made by "
        "`python -m benchmarks.gpu_model.gpu_model` without a card. What is assumed stands in the last table; what a "
        "card has measured stands beside it in the table before."
    )
    show_code(report, robots)
    show_rounds(report, robots)
    show_rates(report, robots)
    found = {one.name: {card.name: one.figures(card) for card in CARDS} for one in robots}
    if arguments.before:
        before = json.loads(arguments.before.read_text())
        show_before(report, before["commit"], before["robots"], found)
    show_claims(report, found)
    show_measured(report, robots)
    show_assumptions(report)
    if arguments.figures:
        commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
        kept = {"commit": commit.stdout.strip(), "robots": found}
        arguments.figures.write_text(json.dumps(kept, indent=1) + "\n")
    if arguments.write:
        report.save(Path(__file__).with_name("gpu_model.md"))


def show_code(report: Report, robots: Sequence[Modelled]) -> None:
    """Report the code of each kernel on each architecture."""
    report.section(
        "Code",
        "Of the first island of each robot. A refill takes a thread from one attempt to the next: it judges and stores "
        "the one, and draws and loads the other. Spilled: numbers of a thread that found no register. Cycles are those "
        "of one warp by itself, and of each of the warps that a quarter of a multiprocessor holds at once, where all "
        "of them do the same; iterations of other warps hide a part of a refill.",
    )
    heads = ("iteration", "refill", "loads in it", "registers", "spilled", "warps")
    report.table("robot", "DOFs", "card", *heads, "cycles of an iteration", "of a refill")
    for one in robots:
        for card in (H200, cards.RTX_4090):
            code = one.codes[card.architecture][0]
            parts = code.parts
            cost = one.costs(card)[0]
            cycles = []
            for warps in (1, code.warps):
                issue, latency, _ = cost.of(warps)
                cycles.append(((issue + latency) / (int(ROUND) * warps), cost.refill(warps)))
            report.row(
                *(one.name, code.dofs, card.name, len(parts.iteration), len(parts.refill)),
                sum(k.name in LOADS for k in parts.refill),
                *(code.registers, code.spilled, code.warps),
                *(" / ".join(f"{each[k]:,.0f}" for each in cycles) for k in (0, 1)),
            )
    report.line("")
    report.line(
        "Attempts and iterations per target, one seed after the other, by the CPU engine: "
        + "; ".join(f"{one.name} {_per_target(one.attempts)}" for one in robots)
        + "."
    )


def _per_target(attempts: Sequence[Attempts]) -> str:
    return " and ".join(f"{made:.2f}, {steps:.1f}" for made, steps in (one.per_target() for one in attempts[:1]))


def show_rounds(report: Report, robots: Sequence[Modelled]) -> None:
    """Report how long the islands take by the iterations between refills."""
    report.section(
        "Iterations from refill to refill",
        f"Time of the islands' kernels on an H200 [µs]; threads that have ended wait for the refill. The kernels have "
        f"{int(ROUND)}.",
    )
    batches = (1000, 100_000)
    report.table("robot", *(f"{batch:,} targets, {steps}" for batch in batches for steps in ROUNDS))
    for one in robots:
        times = [one.times(H200, batch, steps) for batch in batches for steps in ROUNDS]
        report.row(one.name, *(f"{1e6 * (each.issue + each.latency + each.refill):,.0f}" for each in times))


def show_rates(report: Report, robots: Sequence[Modelled]) -> None:
    """Report targets per second."""
    report.section(
        "Targets per second",
        "On the card: from its memory to its memory. With copies: to and from page-locked memory of the host, without "
        "what Python does. Shares of the time with copies: instructions of iterations at one a cycle; what iterations "
        "wait for; refills; launches, with what other kernels read and write; copies.",
    )
    heads = [one.name for one in fields(Times)]
    report.table("robot", "card", "targets", "on the card", "with copies", "µs", *heads)
    for one in robots:
        for card in CARDS:
            for batch in BATCHES:
                times = one.times(card, batch)
                rates = [batch / seconds for seconds in (times.total - times.copies, times.total)]
                shares = (f"{getattr(times, name) / times.total:.0%}" for name in heads)
                report.row(
                    *(
                        one.name,
                        card.name,
                        f"{batch:,}",
                        *(f"{rate:,.3g}" if rate < 1e4 else f"{rate / 1e6:,.3g} M" for rate in rates),
                    ),
                    f"{1e6 * times.total:,.0f}",
                    *shares,
                )


def show_before(report: Report, commit: str, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Report figures of another version beside those of this one."""
    report.section(
        "Before and after",
        f"Commit {commit}, by the same program; an arrow leads from its figure to that of this version. The rate is "
        "that of 100 000 targets on the card. Copies are those of a solve of one target, which takes so many µs.",
    )
    names = {"refill": "refill", "loads": "loads in it", "refill_cycles": "its cycles", "iteration": "iteration"}
    report.table("robot", "card", *names.values(), "refill in iterations", "targets/s", "copies", "µs")
    for robot, of_card in now.items():
        for card, new in of_card.items():
            old = before.get(robot, {}).get(card)
            if old is None:
                continue
            pairs = [f"{old[name]:,.0f} → {new[name]:,.0f}" for name in names]
            pairs.append(" → ".join(f"{_in_iterations(each):.1f}" for each in (old, new)))
            pairs.append(" → ".join(f"{each['targets_per_s'] / 1e6:,.3g} M" for each in (old, new)))
            pairs += [f"{old[name]:,.0f} → {new[name]:,.0f}" for name in ("copies", "one_target_us")]
            report.row(robot, card, *pairs)


def _in_iterations(figures: dict[str, float]) -> float:
    return figures["refill_cycles"] / figures["iteration_cycles"]


def show_claims(report: Report, found: dict[str, Any]) -> None:
    """Report what was asked of the Panda on an H200."""
    report.line("")
    if "panda" in found:
        panda = found["panda"][H200.name]
        rate, iterations = panda["targets_per_s"], _in_iterations(panda)
        report.claim(
            "a refill of the Panda on an H200, in iterations",
            f"{iterations:.1f}",
            f"{REFILL_MAX:g}",
            iterations <= REFILL_MAX,
        )
        report.claim(
            "100 000 targets of the Panda on an H200, on the card",
            f"{rate / 1e6:.0f} M targets/s",
            f"{RATE_MIN / 1e6:g} M",
            rate >= RATE_MIN,
        )


def show_measured(report: Report, robots: Sequence[Modelled]) -> None:
    """Report what the first contact with an H100 has measured beside what the model says."""
    lines = MEASURED.read_text(encoding="utf-8").splitlines()
    head = next((k for k, line in enumerate(lines) if line.startswith("| iterations | threads |")), None)
    if head is None or not any("NVIDIA H100" in line for line in lines):
        return
    heads, figures = ([cell.strip() for cell in lines[k].strip("|").split("|")] for k in (head, head + 2))
    report.section(
        "Beside a card",
        "The Panda on an H100, arrays that stay there, a graph [µs]; measured by `benchmarks.first_contact` "
        "([gpu.md](../gpu.md), launches as solvers have them).",
    )
    report.table("targets", "model", "measured", "measured / model")
    for panda in (one for one in robots if one.name == "panda"):
        for targets, figure in zip(heads, figures, strict=True):
            if not targets.endswith(("target", "targets")):
                continue
            times = panda.times(H100, int(targets.split()[0].replace(",", "")))
            model = 1e6 * (times.total - times.copies)
            report.row(targets, f"{model:,.0f}", figure, f"{float(figure) / model:.2f}")


def show_assumptions(report: Report) -> None:
    """Report what the model takes from elsewhere."""
    report.section("What is assumed", "Cycles are those of a multiprocessor; bus and memory rates are one way.")
    report.table("what", "figure", "source")
    for card in CARDS:
        report.row(
            card.name,
            f"{card.multiprocessors} multiprocessors at {card.clock / 1e9:g} GHz, memory {card.memory_rate / 1e12:g} "
            f"TB/s, bus {card.copy_rate / 1e9:g} GB/s",
            card.source,
        )
        report.row(
            f"{card.name}: cycles until a load stands",
            f"first cache {card.near}, shared memory {card.shared}, second cache {card.far}",
            cards.HOPPER,
        )
        report.row(
            f"{card.name}: results in a cycle, float64 and its conversions",
            " and ".join(map(str, card.float64_results)),
            GUIDE,
        )
    for kind, results in RESULTS.items():
        report.row(f"results in a cycle: {kind}", results, GUIDE if kind in cards.IN_GUIDE else cards.ASSUMED)
    times = {
        "special functions": cards.SPECIAL,
        "conversions": cards.CONVERSION,
        "votes, exchanges, numbers of threads": cards.VOTE,
        "constants": cards.CONSTANT,
        "atomic operations": cards.ATOMIC,
        "float64": cards.FLOAT64,
        "operands of a store": cards.STORE_READ,
    }
    for kind, cycles in times.items():
        report.row(f"cycles: {kind}", cycles, cards.ASSUMED)
    report.row("stalls and barriers of each instruction", "read from the code", "control bits, arXiv 1804.06826")
    report.row("a node of a graph", f"{1e6 * NODE_S:g} µs", cards.ASSUMED)
    report.row("a turn of a loop in a graph", f"{1e6 * TURN_S:g} µs", "seen on an H100")
    report.row("launch of a graph, and waiting for it", f"{1e6 * CALL_S:g} µs", cards.ASSUMED)
    report.row("loads that the first cache does not have", "what belongs to one problem", cards.ASSUMED)


if __name__ == "__main__":
    main()
