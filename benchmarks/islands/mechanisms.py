"""Mechanisms that close loops: time and success of both engines, and targets that their loops do not allow.

Closure and success are judged by kinematics of the host in float64; SciPy's SLSQP runs in an environment of its own.
"""

from functools import partial

import numpy as np

import ik_service
from benchmarks.peers.environments import SCIPY, run_peer
from benchmarks.problems import mechanisms
from benchmarks.problems.mechanisms import MECHANISMS, Floats, Mechanism
from benchmarks.report import Report
from benchmarks.run import Times, benchmark, timed
from ik_service.solver.given.targets import ROTATION_LENGTH

COUNT, STAGED_COUNT, REPEATS, SEED = 10_000, 300, 7, 4
CLOSED, NEAR, SHARE = 1e-6, 1e-3, 99.5  # [m], [m], [%]
BOUNDS_US = {("delta", "end effector"): 2.0, ("stewart", "drives"): 8.0}
CONFLICTS, APART, CLOUD, SCIPY_STARTS, WORSE = 100, 0.2, 40_000, 6, 1.01


def pose(robot: ik_service.RobotModel, joint_q: Floats, link: str | None) -> tuple[Floats, Floats]:
    """Return positions [n, 3] and orientations xyzw [n, 4] of a link."""
    found = robot.forward_kinematics(joint_q, [link])
    return found.positions[:, 0], found.orientations_xyzw[:, 0]


def gaps(robot: ik_service.RobotModel, joint_q: Floats) -> Floats:
    """Return by how much the widest loop is open [m], [n]."""
    widest = np.zeros(len(joint_q))
    for loop in robot.loops:
        ends = []
        for link, offset in ((loop.link, loop.offset), (loop.reference_link, loop.reference_offset)):
            position, orientation = pose(robot, joint_q, link)
            ends.append(position + mechanisms.matrix(orientation) @ offset[:3])
        distance = np.linalg.norm(ends[0] - ends[1], axis=1)
        widest = np.maximum(widest, np.abs(distance - (loop.distance or 0.0)))
    return widest


def errors(
    mechanism: Mechanism, robot: ik_service.RobotModel, joint_q: Floats, target: tuple[Floats, Floats]
) -> Floats:
    """Return lengths of the rows of a target [m], [n]."""
    position, orientation = pose(robot, joint_q, mechanism.link)
    square = (((position - target[0]) * mechanism.axes[:3]) ** 2).sum(axis=1)
    cosine2 = ((orientation * target[1]).sum(axis=1)) ** 2
    chord2 = 4.0 * np.maximum(1.0 - cosine2, 0.0)  # of the vectors of the quaternions between orientations
    return np.sqrt(square + (mechanism.axes[3] * ROTATION_LENGTH) ** 2 * chord2)


def target_solver(mechanism: Mechanism, robot: ik_service.RobotModel, engine: str = "compiled") -> ik_service.IKSolver:
    """Return a solver of targets of the end effector."""
    target = ik_service.Target(mechanism.link, row_weights=mechanism.axes)
    return ik_service.IKSolver(robot, [target], device="cpu", engine=engine, threads=1)


def arguments(mechanism: Mechanism, target: tuple[Floats, Floats]) -> tuple[Floats, ...]:
    """Return what a solve of targets is given."""
    return target if mechanism.axes[3] else target[:1]


def _show_speed(report: Report) -> None:
    report.section(
        "Time and success",
        f"{COUNT} random configurations of each mechanism, {STAGED_COUNT} with the staged engine. 'End effector': its "
        "pose is the target. 'Drives': the joints that have motors are locked where the start says, and the others "
        "start in the middle; met where the end effector is within 1 mm of a place that belongs to these drives. "
        f"Bounds: a delta's end effector {BOUNDS_US['delta', 'end effector']:g} us, a Stewart platform's drives "
        f"{BOUNDS_US['stewart', 'drives']:g} us; success {SHARE} %, gaps {CLOSED:.0e} m.",
        *("mechanism", "given", "engine", "us", "range", "success [%]", "met [%]", "largest gap [m]"),
    )
    for mechanism in MECHANISMS:
        robot = ik_service.load_robot(mechanism.name)
        wanted = mechanism.configurations(COUNT, np.random.default_rng(SEED))
        drives = [robot.coordinate_names.index(joint) for joint in mechanism.drives]
        starts = np.tile(robot.mid_joint_q, (COUNT, 1))
        starts[:, drives] = wanted[:, drives]
        locked = robot.lock(dict(zip(mechanism.drives, robot.mid_joint_q[drives].tolist(), strict=True)))
        target = pose(robot, wanted, mechanism.link)
        for engine, count in (("compiled", COUNT), ("staged", STAGED_COUNT)):
            given = arguments(mechanism, (target[0][:count], target[1][:count]))
            solver = target_solver(mechanism, robot, engine)
            driven = ik_service.IKSolver(locked, device="cpu", engine=engine, threads=1)
            solves = {
                "end effector": partial(solver.solve, *given),
                "drives": partial(driven.solve, problem_count=count, initial_joint_q=starts[:count]),
            }
            for what, solve in solves.items():
                result, times = timed(solve, REPEATS if engine == "compiled" else 1)
                off = from_drives(mechanism, robot, result.joint_q, drives)
                if what == "end effector":
                    off = errors(mechanism, robot, result.joint_q, (target[0][:count], target[1][:count]))
                add_speed(report, (mechanism.name, what, engine), result, times, off, gaps(robot, result.joint_q))


def from_drives(mechanism: Mechanism, robot: ik_service.RobotModel, joint_q: Floats, drives: list[int]) -> Floats:
    """Return how far the end effector is from the nearest place that belongs to the drives, in closed form [m]."""
    place, orientation = pose(robot, joint_q, mechanism.link)
    given = joint_q[:, drives]
    if mechanism.name == "stewart":
        return np.abs(mechanisms.stewart(place, orientation)[0] - given).max(axis=1)
    if mechanism.name == "delta":
        return np.linalg.norm(place - mechanisms.delta(given), axis=1)
    of_side = {"four_bar": lambda side: mechanisms.four_bar(given[:, 0], side)[1]}
    of_side["five_bar"] = partial(mechanisms.five_bar, given)
    sides = [np.linalg.norm(place[:, :2] - of_side[mechanism.name](side), axis=1) for side in (1.0, -1.0)]
    return np.fmin(*sides)


def add_speed(
    report: Report, case: tuple[str, str, str], result: ik_service.IKResult, times: Times, off: Floats, gap: Floats
) -> None:
    """Add a line, and note what misses its bound."""
    met = (off <= NEAR) & (gap <= CLOSED)
    if (result.success & ~met).any():
        raise SystemExit("a success is none")
    closed = gap[result.status != ik_service.IKStatus.LOOP_OPEN].max()
    success = 100.0 * result.success.mean()
    cells = f"{times.median:.2f}", times.range(), f"{success:.2f}", f"{100.0 * met.mean():.2f}"
    report.row(*case, *cells, f"{closed:.1e}")
    if case[2] == "compiled" and (times.median > BOUNDS_US.get(case[:2], np.inf) or success < SHARE or closed > CLOSED):
        report.missed.append(f"{' '.join(case[:2])}: {times.median:.2f} us, {success:.2f} %, {closed:.1e} m")


def _show_conflicts(report: Report) -> None:
    report.section(
        "Targets that loops do not allow",
        f"{CONFLICTS} targets of each mechanism, {APART} m from the nearest of {CLOUD} places that the end effector "
        "reaches; a Stewart platform has a random orientation besides. Compared is the length of the target's rows, a "
        f"radian counting as {ROTATION_LENGTH} m, with the least that SLSQP finds in float64 from the answer and "
        f"{SCIPY_STARTS} random closed configurations. Bounds: within {100 * (WORSE - 1):.0f} %, gaps {CLOSED:.0e} m.",
        *("mechanism", "us", "within 1 % [%]", "largest ratio", "median error [m]", "largest gap [m]"),
    )
    for mechanism in MECHANISMS:
        robot, rng = ik_service.load_robot(mechanism.name), np.random.default_rng(SEED)
        closed = mechanism.configurations(CLOUD, rng)
        reached = pose(robot, closed, mechanism.link)
        target = mechanisms.outside(reached[0], CONFLICTS, APART, rng), reached[1][:CONFLICTS]
        solver = target_solver(mechanism, robot)
        result, times = timed(partial(solver.solve, *arguments(mechanism, target)), REPEATS)
        starts = closed[rng.integers(0, CLOUD, (CONFLICTS, SCIPY_STARTS))]
        free = len(mechanism.drives) if mechanism.name == "stewart" else robot.joint_dof_count
        found = run_peer(
            *SCIPY,
            "scipy_mechanisms.py",
            starts=np.concatenate([result.joint_q[:, None], starts], axis=1),
            positions=target[0],
            orientations=target[1],
            lower=np.maximum(robot.joint_limit_lower[:free], -1e3),
            upper=np.minimum(robot.joint_limit_upper[:free], 1e3),
            closed=CLOSED,
            turn_weight=ROTATION_LENGTH,
        )
        off, gap = errors(mechanism, robot, result.joint_q, target), gaps(robot, result.joint_q).max()
        ratio = off / np.maximum(found["errors"], CLOSED)
        within = 100.0 * (ratio <= WORSE).mean()
        cells = f"{times.median:.0f}", f"{within:.0f}", f"{ratio.max():.4f}", f"{np.median(off):.3f}"
        report.row(mechanism.name, *cells, f"{gap:.1e}")
        if within < 100.0 or gap > CLOSED:
            report.missed.append(f"{mechanism.name} out of reach: {within:.0f} % within 1 %, gap {gap:.1e}")


def show(report: Report) -> None:
    """Measure and add the tables."""
    _show_speed(report)
    _show_conflicts(report)


if __name__ == "__main__":
    benchmark("Mechanisms", show, f"CPU time per problem, median and range of {REPEATS} solves.")
