"""What all comparisons share: how much is measured, who has solved what, and the cells of a table."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.arms.contenders import Answers
from benchmarks.problems.many_arms import HandProblems, solved
from benchmarks.report import Report, microseconds
from ik_service.cli.pose_problems import TOLERANCES

HEADS = [f"{position * 1e3:g} mm, {orientation:g} rad" for position, orientation in TOLERANCES]


@dataclass(frozen=True)
class Sizes:
    """How much is measured.

    Attributes:
        targets: Targets of our compiled engine.
        staged_targets: Targets of our staged engine.
        peer_targets: Targets of newton.ik and OptIK, which take the longest.
        pinocchio_targets: Targets of the loop on Pinocchio.
        hard_targets: Hard targets of each kind.
        limb_targets: Targets for robots with many limbs, at most.
        repeats: Runs of each solver.
        latency_calls: Calls with a single target.
        arms: How many of the arms are measured.
        robots: How many of the robots with many limbs.
        seconds: CPU time that one run of ours may take on a robot with many limbs [s].
    """

    targets: int
    staged_targets: int
    peer_targets: int
    pinocchio_targets: int
    hard_targets: int
    limb_targets: int
    repeats: int
    latency_calls: int
    arms: int
    robots: int
    seconds: float


def describe(problems: HandProblems, answers: Answers, limit_slack: float = 0.0) -> tuple[list[str], float]:
    """Return the cells of a row, and the time per target solved at 1 mm and 0.01 rad [µs]."""
    shares = [solved(problems, answers.joint_q, tolerance, limit_slack).mean() for tolerance in TOLERANCES]
    per_solved = 1e6 * float(np.median(answers.seconds) / max(shares[1], 1e-9))
    cells = [str(len(answers.joint_q)), microseconds(answers.seconds), *(f"{share:.2%}" for share in shares)]
    return [*cells, f"{per_solved:.2f}"], per_solved


def claim_honesty(report: Report, answered: Sequence[tuple[HandProblems, Answers]]) -> None:
    """Claim that our solver says success exactly where the judge does, at the tolerances that it was given."""
    wrong = count = 0
    for problems, answers in answered:
        if answers.result is not None:
            wrong += int((answers.result.success != solved(problems, answers.joint_q, answers.tolerance)).sum())
            count += len(answers.joint_q)
    report.line("")
    report.claim("`success` of ours differs from the judge's", f"{wrong} of {count}", "none", wrong == 0 < count)
