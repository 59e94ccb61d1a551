"""Closed loops: two arms that hold one object, and four-bar linkages; whether they stay closed, and at what price.

python -m benchmarks.islands.closed_loops [--write benchmarks/islands/closed_loops.md]

Closure and success are judged by kinematics of the host in float64.
"""

import time
from collections.abc import Callable
from functools import partial

import numpy as np

import ik_service
from benchmarks.report import Report, machine, measured
from ik_service.mechanism.transforms import transform_inverse, transform_multiply
from ik_service.robots import LoopConstraint
from ik_service.robots.readers.catalog import load_urdf
from objectives import IKObjectivePosture

COUNT, PULLED, REPEATS, SEED = 2000, 200, 5, 4
LEFT, RIGHT = "left_panda_hand", "right_panda_hand"
HELD = (0.0, 0.0, 0.3, 1.0, 0.0, 0.0, 0.0)
APART = 0.2  # [m] by which targets disagree with the object
CLOSED, NEAR = 1e-6, (1e-3, 1e-2)
BOUND_US = 12.0
CRANK, COUPLER, ROCKER, GROUND = 0.2, 0.5, 0.4, 0.5
FOUR_BAR = f"""<robot name="four_bar">
  <link name="ground"/><link name="crank"/><link name="coupler"/><link name="rocker"/>
  <joint name="drive" type="continuous"><parent link="ground"/><child link="crank"/><axis xyz="0 0 1"/></joint>
  <joint name="elbow" type="continuous"><parent link="crank"/><child link="coupler"/><origin xyz="{CRANK} 0 0"/>
    <axis xyz="0 0 1"/></joint>
  <joint name="swing" type="continuous"><parent link="ground"/><child link="rocker"/><origin xyz="{GROUND} 0 0"/>
    <axis xyz="0 0 1"/></joint>
</robot>"""


def timed(solve: Callable[[], ik_service.IKResult]) -> tuple[ik_service.IKResult, float, str]:
    """Return an answer, and the CPU time of its problems [us]: median and range."""
    times = []
    for _ in range(REPEATS + 1):
        begin = time.process_time()
        result = solve()
        times.append((time.process_time() - begin) / len(result.success) * 1e6)
    own = sorted(times[1:])
    return result, own[REPEATS // 2], f"{own[0]:.1f} to {own[-1]:.1f}"


def poses(robot: ik_service.RobotModel, joint_q: np.ndarray, link: str) -> np.ndarray:
    """Return poses of a link, [n, 7]."""
    found = robot.forward_kinematics(joint_q, [link])
    return np.concatenate([found.positions[:, 0], found.orientations_xyzw[:, 0]], axis=1)


def errors(seen: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return distances [m] and angles [rad] between poses."""
    difference = transform_multiply(transform_inverse(seen), wanted)
    sine = np.linalg.norm(difference[:, 3:6], axis=1)
    return np.linalg.norm(difference[:, :3], axis=1), 2.0 * np.arctan2(sine, np.abs(difference[:, 6]))


def object_gaps(robot: ik_service.RobotModel, joint_q: np.ndarray) -> np.ndarray:
    """Return the larger gap of the object, in m or rad, [n]."""
    left, right = (poses(robot, joint_q, link) for link in (LEFT, RIGHT))
    held = transform_multiply(left, np.tile(HELD, (len(left), 1)))
    return np.max(errors(right, held), axis=0)


def show_object(report: Report) -> None:
    """Two arms that hold one object, with targets that they can reach and with some that pull them apart."""
    arms = ik_service.load_robot("dual_panda", collision="ignore")
    robot = arms.with_loops([LoopConstraint("object", "weld", RIGHT, LEFT, reference_offset=HELD)])
    starts = arms.random_joint_q(np.random.default_rng(SEED), COUNT)
    hand = ik_service.IKSolver(arms, [ik_service.Target(RIGHT, reference_link=LEFT)], device="cpu")
    held = hand.solve(np.tile(HELD[:3], (COUNT, 1, 1)), np.tile(HELD[3:], (COUNT, 1, 1)), initial_joint_q=starts)
    found = arms.forward_kinematics(held.joint_q, [LEFT, RIGHT])
    positions, turns = found.positions[held.success], found.orientations_xyzw[held.success]
    report.section(
        "Two arms, one object",
        f"Two Pandas on one base hold an object between their hands. {len(positions)} targets of the left hand, or of "
        f"both, from random configurations in which they hold it; {PULLED} in which the right hand's is {APART} m "
        f"further on. Bound: {BOUND_US:.0f} us with one target, gaps of at most {CLOSED:.0e} m and rad.",
    )
    report.table(
        "targets",
        "posture",
        "us",
        "range",
        "success [%]",
        "met [%]",
        "open",
        "largest gap of others",
        "farther target [mm]",
    )
    for name, links, shift in (("left", [LEFT], 0.0), ("both", [LEFT, RIGHT], 0.0), ("pulled", [LEFT, RIGHT], APART)):
        k, n = len(links), len(positions) if shift == 0.0 else PULLED
        wanted = positions[:n, :k].copy()
        wanted[:, k - 1, 0] += shift
        for weight in (None, 0.03):
            soft = [] if weight is None else [IKObjectivePosture(arms.mid_joint_q, weight=weight)]
            solver = ik_service.IKSolver(robot, links, objectives=soft, device="cpu")
            result, us, spread = timed(partial(solver.solve, wanted, turns[:n, :k]))
            each = [
                errors(poses(arms, result.joint_q, link), np.concatenate([wanted[:, m], turns[:n, m]], axis=1))
                for m, link in enumerate(links)
            ]
            met = np.all([(distance <= NEAR[0]) & (angle <= NEAR[1]) for distance, angle in each], axis=0)
            if (result.success & ~met).any():
                raise SystemExit("a success is none")
            is_open = result.status == ik_service.IKStatus.LOOP_OPEN
            gap = object_gaps(arms, result.joint_q)[~is_open].max()
            farther = 1e3 * np.median(np.max([distance for distance, _ in each], axis=0))
            cells = [f"{100 * part.mean():.2f}" for part in (result.success, met)]
            report.row(
                name,
                "-" if weight is None else f"{weight}",
                f"{us:.1f}",
                spread,
                *cells,
                is_open.sum(),
                f"{gap:.1e}",
                f"{farther:.3g}",
            )
            if gap > CLOSED or (name == "left" and weight is None and us > BOUND_US):
                report.missed.append(f"{name} {weight}: {us:.1f} us, gap {gap:.1e}")


def show_four_bar(report: Report) -> None:
    """A four-bar linkage driven by its crank, from random starts."""
    pins = [(length, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0) for length in (COUPLER, ROCKER)]
    robot = load_urdf(FOUR_BAR).with_loops([LoopConstraint("pin", "revolute", "coupler", "rocker", *pins)])
    starts = robot.random_joint_q(np.random.default_rng(SEED), COUNT)
    turns = poses(robot, starts, "crank")[:, np.newaxis, 3:]
    target = ik_service.Target("crank", row_weights=[0, 0, 0, 0, 0, 1])
    solver = ik_service.IKSolver(robot, [target], device="cpu")
    result, us, spread = timed(partial(solver.solve, orientations_xyzw=turns, initial_joint_q=starts))
    ends = [
        transform_multiply(poses(robot, result.joint_q, link), np.tile(pin, (COUNT, 1)))
        for link, pin in zip(("coupler", "rocker"), pins, strict=True)
    ]
    gap = errors(*ends)[0].max()
    pin = CRANK * np.column_stack([np.cos(starts[:, 0]), np.sin(starts[:, 0])])
    arm = pin - [GROUND, 0.0]
    reach = np.linalg.norm(arm, axis=1)
    bend = np.arccos((ROCKER**2 + reach**2 - COUPLER**2) / (2.0 * ROCKER * reach))
    swing = result.joint_q[:, robot.coordinate_names.index("swing")] - np.arctan2(arm[:, 1], arm[:, 0])
    off = np.abs([np.angle(np.exp(1j * (swing - way * bend))) for way in (1, -1)])
    report.section(
        "A four-bar linkage",
        f"Its crank is a target, {COUNT} random starts; the rocker's angle is compared with the closed form.",
    )
    report.table("us", "range", "success [%]", "largest gap [m]", "off the closed form [rad]", "in the first mode [%]")
    report.row(
        f"{us:.1f}",
        spread,
        f"{100 * result.success.mean():.2f}",
        f"{gap:.1e}",
        f"{off.min(axis=0).max():.1e}",
        f"{100 * (off.argmin(axis=0) == 0).mean():.1f}",
    )
    if gap > CLOSED or result.success.mean() < 0.995:
        report.missed.append(f"four-bar: {100 * result.success.mean():.2f} %, gap {gap:.1e}")


def show(report: Report) -> None:
    """Measure and add the tables."""
    report.line("")
    report.line(f"{machine()}, one core. CPU time per problem, median and range of {REPEATS} solves.")
    show_object(report)
    show_four_bar(report)


if __name__ == "__main__":
    measured("Closed loops", __doc__, show)
