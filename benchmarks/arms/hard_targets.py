"""Hard targets of the Panda: at its limits, near its singularities, and out of its reach."""

import time
from collections import Counter
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from benchmarks.arms.comparison import HEADS, Sizes, claim_honesty, describe
from benchmarks.arms.contenders import (
    Answers,
    make_solver,
    solve_with_optik,
    solve_with_ours,
    solve_with_pinocchio,
)
from benchmarks.peers.environments import PeerMissingError
from benchmarks.problems import reference_descent
from benchmarks.problems.compared_robots import PANDA
from benchmarks.problems.hard_problems import FAR, LIMIT_SHARE, NEARLY, HardArm
from benchmarks.problems.many_arms import HandProblems
from benchmarks.report import Report, microseconds
from ik_service.solver.given.targets import ROTATION_LENGTH

ARM = HardArm(PANDA, "panda_link2")
REFERENCE_TARGETS = 20
REFERENCE_SEEDS = 100
SEEDS_MAX = 64  # of the loop on Pinocchio where there is no solution to stop it


def show_hard_targets(report: Report, sizes: Sizes) -> None:
    """Report reachable targets that are hard."""
    limits, held = ARM.at_limits(sizes.hard_targets)
    singular, values = ARM.near_singularities(sizes.hard_targets)
    report.section(
        "Hard targets of the Panda",
        f"'At limits': each joint stands at its lower or upper limit with probability {LIMIT_SHARE:g}, at least one "
        f"does ({held.mean():.1f} on average). 'Near singularities': random steps have shrunk the smallest singular "
        f"value of the Jacobian to {np.median(values):.1g} m in the middle and to at most "
        f"{np.percentile(values, 90):.1g} m in nine of ten (a radian weighs as much as {ROTATION_LENGTH:g} m, as in "
        "our solver).",
    )
    report.table("targets", "solver", "count", "µs per target", *HEADS, "µs per target solved at 1 mm")
    answered = []
    for name, problems in (("at limits", limits), ("near singularities", singular)):
        for run in _contenders(problems, sizes):
            try:
                answers = run()
            except PeerMissingError as error:
                report.row(name, str(error))
                continue
            answered.append((problems.first(len(answers.joint_q)), answers))
            report.row(name, answers.who, *describe(*answered[-1])[0])
    claim_honesty(report, answered)


def _contenders(problems: HandProblems, sizes: Sizes) -> list[Callable[[], Answers]]:
    staged, peers = problems.first(sizes.staged_targets), problems.first(sizes.peer_targets)
    return [
        lambda: solve_with_ours(PANDA, problems, sizes.repeats),
        lambda: solve_with_ours(PANDA, staged, sizes.repeats, engine="staged"),
        lambda: solve_with_pinocchio(PANDA, problems, sizes.repeats),
        lambda: solve_with_optik(PANDA, peers, sizes.repeats, 1e-3),
    ]


def show_out_of_reach(report: Report, sizes: Sizes) -> None:
    """Report targets that nothing can reach: what they cost and how near the answers come."""
    report.section(
        "Targets out of reach",
        "Random poses of the Panda, moved away from the shoulder beyond the largest distance that the hand can have "
        f"from it: nearly ({NEARLY[0] * 1e3:g}-{NEARLY[1] * 1e3:g} mm beyond) and far ({FAR[0]:g}-{FAR[1]:g} m). The "
        f"loop on Pinocchio gives up after {SEEDS_MAX} seeds. 'Above the least': by how much cost and distance of the "
        f"hand are above those of a float64 descent from {REFERENCE_SEEDS} seeds, on {REFERENCE_TARGETS} of the "
        "targets; median and worst. A negative distance is bought with a larger error of the orientation. The loop on "
        "Pinocchio weighs rotation otherwise and is not compared in this.",
    )
    heads = ("µs per target", "statuses", "cost above the least", "distance above the least, mm")
    report.table("targets", "solver", "count", *heads)
    for name, beyond in (("nearly", NEARLY), ("far", FAR)):
        problems, _ = ARM.out_of_reach(sizes.hard_targets, beyond)
        for with_orientation in (True, False):
            label = f"{name}, {'pose' if with_orientation else 'position alone'}"
            reference = _Reference(problems.first(REFERENCE_TARGETS), with_orientation)
            answers = _solve_ours(problems, sizes.repeats, with_orientation)
            assert answers.result is not None  # ours always brings it
            counts = Counter(answers.result.status_names).most_common()
            statuses = ", ".join(f"{status} {count / len(problems.positions):.1%}" for status, count in counts)
            _row(report, label, answers, statuses, reference)
            if with_orientation:
                few = problems.first(sizes.peer_targets)
                try:
                    peer = solve_with_pinocchio(PANDA, few, 1, seeds=SEEDS_MAX)
                except PeerMissingError as error:
                    report.row(label, str(error))
                    continue
                report.row(label, peer.who, len(peer.joint_q), microseconds(peer.seconds), "", "", "")


class _Reference:
    """The least costs of a few problems and how far answers are above them."""

    def __init__(self, problems: HandProblems, with_orientation: bool) -> None:
        self._targets, self._with_orientation = problems.per_link[0], with_orientation
        joint_q, self._costs = reference_descent.least_costs(self._targets, REFERENCE_SEEDS, 0, with_orientation)
        self._distances = self._distance(joint_q)

    def cells(self, joint_q: NDArray[np.floating]) -> list[str]:
        """Return median and worst of cost and distance [mm] above the least."""
        few = joint_q[: len(self._costs)]
        costs = reference_descent.pose_costs(self._targets, few, self._with_orientation)
        cost, distance = costs / self._costs - 1.0, 1e3 * (self._distance(few) - self._distances)
        return [
            f"{np.median(cost):.2%}, {cost.max():.2%}",
            f"{np.median(distance):.3f}, {distance.max():.3f}",
        ]

    def _distance(self, joint_q: NDArray[np.floating]) -> NDArray[np.float64]:
        poses = self._targets.robot.forward_kinematics(joint_q, [self._targets.link])
        return np.asarray(np.linalg.norm(poses.positions[:, 0] - self._targets.positions, axis=1))


def _solve_ours(problems: HandProblems, repeats: int, with_orientation: bool) -> Answers:
    if with_orientation:
        return solve_with_ours(PANDA, problems, repeats)
    solver, positions = make_solver(PANDA), problems.positions[:, 0]
    solver.solve(positions, None)
    times = []
    for _ in range(repeats):
        start = time.process_time()
        result = solver.solve(positions, None)
        times.append(time.process_time() - start)
    return Answers(f"ours, {result.engine}", result.joint_q, np.array(times), result=result)


def _row(report: Report, label: str, answers: Answers, statuses: str, reference: _Reference) -> None:
    times, cells = microseconds(answers.seconds), reference.cells(answers.joint_q)
    report.row(label, answers.who, len(answers.joint_q), times, statuses, *cells)
