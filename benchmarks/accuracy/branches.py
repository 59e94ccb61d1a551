"""All solutions of arms with six joints: what ours and EAIK miss, whether complete sets are complete, and time.

The xArm6, whose last joint is searched, is compared with ssik.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import ik_service
from benchmarks.peers.environments import PeerMissingError, run_peer
from benchmarks.problems import six_joint_arms
from benchmarks.problems.pose_problems import transforms
from benchmarks.problems.six_joint_arms import FOUND, LIMIT_SLACK, NEAR_LIMIT, NEAR_SINGULAR, Floats, SixJoints, Targets
from benchmarks.report import Report
from benchmarks.run import Times, benchmark, timed

EAIK, SSIK = ("eaik==1.2.2", "numpy"), ("ssik==8.2.0", "numpy")
ALL = {"solutions": "all", "solution_difference": 0.01, "collision": "off"}
CHUNK = 10_000  # poses of a solve
EXACT_PEER, EXACT_OURS = 1e-6, 1e-8  # [m, rad] of a solution; ours is refined before
OPPOSITE = -1.0 + 1e-6  # product of two directions
CASES = 3  # misses printed for each chunk of an arm
INTRO = (
    "The peer is EAIK 1.2.2, of the xArm6 ssik 8.2.0; each gets the axes of the arm in float64, ours gets the robot "
    "and solves in float32. Poses of joints drawn uniformly within limits; solutions count modulo whole turns and "
    f"within limits, with a slack of {LIMIT_SLACK:g} rad."
)
SOLUTIONS = (
    f"Solutions of the peer: exact to {EXACT_PEER:g} m and rad by float64 forward kinematics, without those that EAIK "
    f"itself calls approximate. Ours misses such a solution if no answer is within {FOUND:g} rad of it in every joint. "
    f"Solutions of ours: exact to {EXACT_OURS:g} after Newton's method in float64 that moves no joint by more than "
    f"{FOUND:g} rad; solutions nearer to each other than {ALL['solution_difference']} rad count once. The peer misses "
    f"such a solution if none of its answers, approximate ones included, is within {FOUND:g} rad. Hard: nearer than "
    f"{NEAR_LIMIT:g} rad to a limit, or the least singular value of the Jacobian, with positions as shares of the "
    f"arm's length, is below {NEAR_SINGULAR:g}. Led to: Newton's method from an answer of ours ends there."
)
OF_SOLUTIONS = {
    "theirs": "of the peer",
    "missed": "ours misses, not hard",
    "missed, hard": "ours misses, hard",
    "missed, led to": "of both led to",
    "missed in complete": "of both in complete sets",
    "ours": "of ours",
    "they miss": "the peer misses, not hard",
    "they miss, hard": "the peer misses, hard",
    "not exact": "answers of ours not exact",
    "not exact, hard": "of these hard",
}
CLAIMS = {
    "missed": "solutions that ours misses, not hard, all arms but the xArm6",
    "missed in complete": "solutions missed in complete sets",
    "missed in complete, not led to": "solutions missed in complete sets that Newton's method does not lead to",
    "own missed in complete": "configurations of poses missed in complete sets",
}
TIME = (
    "Complete: share of poses whose set is said to be complete. A pose's own configuration, which made it, is a "
    "solution that no solver had to find. Times: CPU time of a pose [us], median (least-largest) of calls with "
    f"{CHUNK} poses or all; of EAIK without turning its answers into arrays."
)
OF_OWN = {"own missed": "own missed, ours", "own they miss": "own missed, peer"}


@dataclass(frozen=True, eq=False)
class PeerAnswers:
    """All answers of another solver."""

    joint_q: Floats  # answers that it takes for solutions, shape [poses, most, 6]
    every: Floats  # all its answers, also approximate ones, of the same shape
    times: Times  # its times for a pose


def solve_with_eaik(one: SixJoints, joint_q: Floats, targets: Targets, repeats: int) -> PeerAnswers:
    """Return the answers of EAIK.

    The link of EAIK is not turned at zero configuration. EAIK takes opposite axes for equal ones, and then gives wrong
    angles: here all parallel axes point in one direction, and angles of reversed axes change sign.
    """
    arm, axes, sign = one.limited.arm, one.limited.arm.axes.copy(), np.ones(6)
    for k in range(1, 6):
        sign[k] = -1.0 if (axes[:k] @ axes[k]).min() < OPPOSITE else 1.0
        axes[k] *= sign[k]
    offsets = np.diff([np.zeros(3), *arm.points, arm.T_world_link[:3]], axis=0)
    unturned = Targets(targets.positions, targets.rotations @ one.limited.zero_rotation.T)
    given = {
        "axes": axes,
        "offsets": offsets,
        "transforms": transforms(unturned.positions, unturned.rotations),
        "repeats": repeats,
    }
    saved = run_peer("eaik", EAIK, "branches_eaik.py", **given)
    every = saved["joint_q"] * sign
    solutions = np.where(saved["is_least_squares"][..., None], np.nan, every)
    return PeerAnswers(solutions, every, Times(1e6 * saved["times"] / len(joint_q)))


def solve_with_ssik(one: SixJoints, joint_q: Floats, targets: Targets, repeats: int) -> PeerAnswers:
    """Return the answers of ssik for the xArm6, timed once; refined, because ssik's model rounds right angles."""
    zero, _ = one.limited.forward(np.zeros((1, 6)))
    given = {"joint_q": joint_q, "transforms": transforms(targets.positions, targets.rotations)}
    given["T_world_link_at_zero"] = transforms(zero.positions, zero.rotations)[0]
    saved = run_peer("ssik", SSIK, "branches_ssik.py", **given)
    found = saved["joint_q"]
    is_given = np.isfinite(found[..., 0])
    found[is_given] = one.limited.refined(found[is_given], targets[np.nonzero(is_given)[0]])
    return PeerAnswers(found, found, Times(1e6 * saved["times"] / len(joint_q)))


def compare(one: SixJoints, joint_q: Floats, targets: Targets, ours: Any, theirs: PeerAnswers) -> Counter[str]:
    """Return counts of solutions, and of those that one solver misses, of poses that configurations make."""
    limited, own = one.limited, joint_q[:, None]
    raw = ours.solutions[:, :, one.coordinates].astype(np.float64)
    given = np.isfinite(raw[..., 0])
    refined = raw.copy()
    refined[given] = limited.refined(raw[given], targets[np.nonzero(given)[0]])
    stays = given & (six_joint_arms.apart(refined, raw) < FOUND)
    not_exact = given & ~stays
    not_exact[stays] = limited.error_size(refined[stays], targets[np.nonzero(stays)[0]]) > EXACT_OURS
    kept = limited.kept(np.where(stays[..., None], refined, np.nan), targets, EXACT_OURS)
    exact = limited.kept(theirs.joint_q, targets, EXACT_PEER)
    missed = exact & ~six_joint_arms.is_found(theirs.joint_q, raw)
    led_to = missed & six_joint_arms.is_found(theirs.joint_q, refined, six_joint_arms.SAME)
    in_complete = missed & ours.complete[:, None]
    hard = limited.hard(theirs.joint_q, missed)
    they_miss = kept & ~six_joint_arms.is_found(refined, theirs.every)
    they_miss_hard = limited.hard(refined, they_miss)
    own_missed = ~six_joint_arms.is_found(own, raw)[:, 0]
    show_misses(one, joint_q, theirs.joint_q, in_complete | (missed & ~hard), ours.complete)
    figures = {
        "theirs": exact,
        "missed": missed & ~hard,
        "missed, hard": hard,
        "missed, led to": led_to,
        "missed in complete": in_complete,
        "missed in complete, not led to": in_complete & ~led_to,
        "ours": kept,
        "they miss": they_miss & ~they_miss_hard,
        "they miss, hard": they_miss_hard,
        "not exact": not_exact,
        "not exact, hard": limited.hard(raw, not_exact),
        "complete": ours.complete,
        "own missed": own_missed,
        "own missed in complete": own_missed & ours.complete,
        "own they miss": ~six_joint_arms.is_found(own, theirs.every),
    }
    return Counter({"poses": len(joint_q)} | {name: int(np.count_nonzero(of)) for name, of in figures.items()})


def show_misses(
    one: SixJoints, joint_q: Floats, solutions: Floats, missed: six_joint_arms.Flags, complete: six_joint_arms.Flags
) -> None:
    """Print some solutions that ours misses: hard ones only in complete sets."""
    for pose, number in np.argwhere(missed)[:CASES]:
        made, missing = joint_q[pose].tolist(), solutions[pose, number]
        least = one.limited.least_singular_values(missing[None])[0]
        print(f"{one.name}, complete {complete[pose]}, singular value {least:.1e}: {made} misses {missing.tolist()}")


def measure(
    one: SixJoints, poses: int, repeats: int, peer: Callable[..., PeerAnswers] = solve_with_eaik
) -> tuple[Counter[str], Times, Times]:
    """Return the counts of an arm, and the times of ours and of the peer for a pose."""
    rng, count, times = np.random.default_rng(0), Counter[str](), []
    solver = ik_service.IKSolver(one.robot, [one.link], device="cpu", threads=1)
    for first in range(0, poses, CHUNK):
        joint_q = one.random_joint_q(min(CHUNK, poses - first), rng)
        given = one.poses(joint_q)
        targets = Targets.of(*given)
        if (worst := one.limited.error_size(joint_q, targets).max()) > EXACT_OURS:
            raise SystemExit(f"{one.name}: axes and forward kinematics differ by {worst:.1e}")
        runs = repeats if first == 0 else 1
        solve = partial(solver.solve, *given, options=ALL)
        ours, our_times = timed(solve, runs, warm_up=3 if first == 0 else 0)
        theirs = peer(one, joint_q, targets, runs)
        times.append((our_times, theirs.times))
        count += compare(one, joint_q, targets, ours, theirs)
    return count, *times[0]


def show(report: Report, *, poses: int, xarm6_poses: int, repeats: int) -> None:
    """Measure and print the tables."""
    total: Counter[str] = Counter()
    rows = {one: measure(one, poses, repeats) for one in six_joint_arms.arms_with_branches()}
    try:
        searched = six_joint_arms.xarm6()
        rows[searched] = measure(searched, xarm6_poses, repeats, solve_with_ssik)
    except PeerMissingError as error:
        report.line(f"xArm6: {error}.")
    report.section("Solutions", SOLUTIONS, "arm", "class", "poses", *OF_SOLUTIONS.values())
    for one, (count, *_) in rows.items():
        report.row(one.name, one.kind, count["poses"], *(count[name] for name in OF_SOLUTIONS))
        total += count if one.kind != "searched" else Counter()
    for name, what in CLAIMS.items():
        report.claim(what, total[name], 0, total[name] == 0)
    report.section("Complete sets and time", TIME, "arm", "complete", *OF_OWN.values(), "us, ours", "us, peer")
    for one, (count, *times) in rows.items():
        share = f"{100 * count['complete'] / count['poses']:.2f} %"
        report.row(one.name, share, *(count[name] for name in OF_OWN), *times)


if __name__ == "__main__":
    sizes = {"poses": (10_000, 100_000), "xarm6_poses": (1_000, 10_000), "repeats": (5, 9)}
    benchmark("All solutions of arms with six joints", show, INTRO, sizes=sizes)
