"""Several links of one robot at once: islands beside a loop on Pinocchio that takes all joints together."""

import numpy as np

from benchmarks.arms.comparison import Sizes, claim_honesty
from benchmarks.arms.contenders import (
    TIGHT,
    Answers,
    affordable,
    solve_with_ours,
    solve_with_pinocchio,
)
from benchmarks.peers.environments import PeerMissingError
from benchmarks.problems.compared_robots import MANY_LIMBS, PANDA, WHOLE_BODY
from benchmarks.problems.many_arms import HandProblems, solved
from benchmarks.report import Report, microseconds

RANDOM_SEED = 2
TOLERANCE = (1e-3, 1e-2)


def show_many_limbs(report: Report, sizes: Sizes) -> None:
    """Report robots with several targets, and what a second arm costs."""
    report.section(
        "Many limbs",
        "Poses that the links take together in random configurations; the base is fixed but for the last robot. "
        "Solved means all links. 'Factor' is the time of ours per target solved at 1 mm over that of one Panda; the "
        "loop on Pinocchio takes all joints that move a link as one system. Fewer targets where one run would take "
        f"more than {sizes.seconds:g} s. Answers judged as above.",
    )
    heads = ("1 mm, 0.01 rad", f"{TIGHT[0] * 1e3:g} mm, {TIGHT[1]:g} rad", "µs per target solved at 1 mm", "factor")
    report.table("robot and links", "solver", "joints of the islands", "targets", "µs per target", *heads)
    one_arm, answered = None, []
    for case in (PANDA, *MANY_LIMBS[: sizes.robots]):
        problems = affordable(case, case.problems(sizes.limb_targets, RANDOM_SEED), sizes.seconds)
        answers = solve_with_ours(case, problems, sizes.repeats)
        answered.append((problems, answers))
        per_solved = _per_solved(problems, answers)
        one_arm = one_arm or per_solved
        factor = f"{per_solved / one_arm:.2f}"
        report.row(case.name, answers.who, _islands(answers), *_cells(problems, answers), f"{per_solved:.2f}", factor)
        few = problems.first(sizes.pinocchio_targets)
        try:
            peer = solve_with_pinocchio(case, few, sizes.repeats)
        except PeerMissingError as error:
            report.row(case.name, str(error))
            continue
        report.row(case.name, peer.who, "", *_cells(few, peer), f"{_per_solved(few, peer):.2f}", "")
    problems = affordable(WHOLE_BODY, WHOLE_BODY.problems(sizes.limb_targets, RANDOM_SEED), sizes.seconds)
    whole = solve_with_ours(WHOLE_BODY, problems, sizes.repeats)
    answered.append((problems, whole))
    few = problems.first(sizes.pinocchio_targets // 10)
    for given, answers in ((problems, whole), (few, solve_with_ours(WHOLE_BODY, few, 1, engine="staged"))):
        cells, per_solved = _cells(given, answers), _per_solved(given, answers)
        factor = f"{per_solved / one_arm:.2f}"
        report.row(WHOLE_BODY.name, answers.who, _islands(answers), *cells, f"{per_solved:.2f}", factor)
    claim_honesty(report, answered)


def _cells(problems: HandProblems, answers: Answers) -> list[str]:
    shares = [f"{solved(problems, answers.joint_q, tolerance).mean():.2%}" for tolerance in (TOLERANCE, TIGHT)]
    return [str(len(answers.joint_q)), microseconds(answers.seconds), *shares]


def _per_solved(problems: HandProblems, answers: Answers) -> float:
    share = solved(problems, answers.joint_q, TOLERANCE).mean()
    return 1e6 * float(np.median(answers.seconds) / max(share, 1e-9))


def _islands(answers: Answers) -> str:
    """Joints of each island of the first problem."""
    assert answers.result is not None  # ours always brings it
    return " + ".join(str(len(island.joints)) for island in answers.result.islands[0])
