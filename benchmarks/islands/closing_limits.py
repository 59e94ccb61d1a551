"""Limits of joints that close loops: solves of both engines, and a controller whose circle leads beyond a limit.

python -m benchmarks.islands.closing_limits [--write benchmarks/islands/closing_limits.md]

The mechanism is the built-in four-bar, its pin a revolute joint with limits. Its angle and what loops are open by are
judged by float64 kinematics of the host without limits; the least distance is that of a fine cloud of its curve.
"""

import time
from functools import partial

import numpy as np

import ik_service
from benchmarks.islands.mechanisms import timed
from benchmarks.problems.mechanisms import Floats
from benchmarks.report import Report, machine, measured
from ik_service.control import ControlLimits, IKController
from ik_service.mechanism.transforms import transform_inverse, transform_multiply
from ik_service.robots import LoopConstraint

LIMITS = 0.8, 1.3  # [rad] of the pin
POINT, CRANK = "coupler_point", "crank_joint"
COUNT, STAGED_COUNT, REPEATS, SEED = 2000, 300, 7, 4
CLOUD = 4000  # angles of the crank
CLOSED, BEYOND = 1e-6, 1e-6  # [m and rad], [rad]
SLACK = 2e-4  # [m] beside 1 %: the cloud is as fine
TICKS, TURN, DT, RADIUS, SPEED = 4000, 1000, 2e-3, 0.15, 2.0  # ticks, of a circle, [s], [m], [rad/s]


def four_bar(limits: tuple[float, float] | None) -> ik_service.RobotModel:
    """Return the four-bar with its pin as a revolute joint."""
    robot = ik_service.load_robot("four_bar")
    (pin,) = robot.loops
    ends = pin.link, pin.reference_link, pin.offset, pin.reference_offset
    return robot.with_loops([LoopConstraint("pin", "revolute", *ends, limits=limits)])


def pin_angle(robot: ik_service.RobotModel, joint_q: Floats) -> Floats:
    """Return the angle of the pin [rad], [n], and by how much it is open [m or rad], [n]."""
    (pin,), ends = robot.loops, []
    for link, offset in ((pin.link, pin.offset), (pin.reference_link, pin.reference_offset)):
        found = robot.forward_kinematics(joint_q, [link])
        pose = np.concatenate([found.positions[:, 0], found.orientations_xyzw[:, 0]], axis=1)
        ends.append(transform_multiply(pose, np.tile(offset, (len(joint_q), 1))))
    seen = transform_multiply(transform_inverse(ends[1]), ends[0])
    turned = 2.0 * np.arctan2(seen[:, 5], seen[:, 6])
    gap = np.abs(np.concatenate([seen[:, :3], 2.0 * seen[:, 3:5]], axis=1)).max(axis=1)
    return np.stack([(turned + np.pi) % (2.0 * np.pi) - np.pi, gap])


def curve(robot: ik_service.RobotModel) -> tuple[Floats, Floats]:
    """Return points that the coupler reaches with the loop closed [n, 3], and the pin's angle at each [n]."""
    starts = np.tile(robot.mid_joint_q, (CLOUD, 1))
    starts[:, robot.coordinate_names.index(CRANK)] = np.linspace(-np.pi, np.pi, CLOUD, endpoint=False)
    modes = robot.constraints.close(starts, frozen=[CRANK], solutions=2).solutions.reshape(-1, starts.shape[1])
    joint_q = modes[np.isfinite(modes).all(axis=1)]
    return robot.forward_kinematics(joint_q, [POINT]).positions[:, 0], pin_angle(robot, joint_q)[0]


def beyond(angle: Floats) -> Floats:
    """Return by how much angles are beyond the limits [rad], negative within."""
    return np.maximum(angle - LIMITS[1], LIMITS[0] - angle)


def show_solves(report: Report, robot: ik_service.RobotModel, free: ik_service.RobotModel) -> None:
    """Targets that the limits allow, and others."""
    points, angle = curve(free)
    within = beyond(angle) <= 0.0
    report.section(
        "Solves",
        f"Targets of a point on the coupler, of its curve with the pin within {LIMITS[0]} to {LIMITS[1]} rad, and of "
        f"the rest of the curve. 'As near as can be': within 1 % and {1e3 * SLACK:g} mm of the least distance to the "
        f"curve within the limits, {within.sum()} points. Bounds: all targets within met, 99 % of the others as near "
        f"as can be, the pin beyond its limits by {BEYOND:g} rad and the loop open by {CLOSED:g} at most.",
    )
    heads = "us", "range", "success [%]", "as near as can be [%]", "pin beyond by [rad]", "loop open by"
    report.table("targets", "engine", *heads)
    for engine, count in (("compiled", COUNT), ("staged", STAGED_COUNT)):
        solver = ik_service.IKSolver(robot, [POINT], engine=engine, device="cpu", threads=1)
        for name, which in (("within", within), ("beyond", ~within)):
            rng = np.random.default_rng(SEED)
            targets = points[rng.choice(np.flatnonzero(which), count)]
            result, us = timed(partial(solver.solve, targets), REPEATS if engine == "compiled" else 1)
            joint_q = result.joint_q.astype(float)
            off = np.linalg.norm(free.forward_kinematics(joint_q, [POINT]).positions[:, 0] - targets, axis=1)
            if (result.success & (off > 1e-3)).any():
                raise SystemExit("a success is none")
            least = np.array([np.linalg.norm(points[within] - target, axis=1).min() for target in targets])
            near = 100.0 * (off <= 1.01 * least + SLACK).mean()
            turned, gap = pin_angle(free, joint_q)
            passed, success = beyond(turned).max(), 100.0 * result.success.mean()
            cells = f"{us[len(us) // 2]:.1f}", f"{us[0]:.1f} to {us[-1]:.1f}", f"{success:.2f}", f"{near:.2f}"
            report.row(name, engine, *cells, f"{max(passed, 0.0):.1e}", f"{gap.max():.1e}")
            if passed > BEYOND or gap.max() > CLOSED or near < 99.0 or (name == "within" and success < 100.0):
                report.missed.append(f"{name}, {engine}: {success:.2f} % met, {near:.2f} % near, {passed:.1e} beyond")


def show_ticks(report: Report, robot: ik_service.RobotModel, free: ik_service.RobotModel) -> None:
    """A circle that the limits do not allow."""
    starts = free.random_joint_q(np.random.default_rng(SEED), 500)
    closed = free.constraints.close(starts)
    inside = np.flatnonzero((closed.status == 0) & (beyond(pin_angle(free, closed.joint_q)[0]) < -0.05))
    start = closed.joint_q[inside[0]]
    middle = free.forward_kinematics(start, [POINT]).positions[0, 0]
    target = ik_service.Target(POINT, row_weights=[1, 1, 1, 0, 0, 0])
    controller = IKController(robot, [target], limits=ControlLimits(velocity=SPEED), device="cpu")
    controller.reset(start)
    commands, us = [start], []
    for tick in range(TICKS):
        angle = 2.0 * np.pi * tick / TURN
        wanted = middle + RADIUS * np.array([np.sin(angle), 1.0 - np.cos(angle), 0.0])
        begin = time.process_time()
        result = controller.step(np.concatenate([wanted, [0.0, 0.0, 0.0, 1.0]]), dt=DT)
        us.append(1e6 * (time.process_time() - begin))
        commands.append(result.joint_q[0].astype(float))
    joint_q = np.array(commands)
    turned, gap = pin_angle(free, joint_q)
    passed, speed = beyond(turned).max(), np.abs(np.diff(joint_q, axis=0)).max() / DT
    report.section(
        "Ticks",
        f"{TICKS} ticks of {1e3 * DT:g} ms; the target goes round a circle of {RADIUS} m, which leads beyond the "
        f"limits of the pin. Limit of speed {SPEED} rad/s. 'Held': ticks in which the pin is at a limit.",
    )
    report.table("us, median", "p99", "held [%]", "pin beyond by [rad]", "loop open by", "largest speed [rad/s]")
    held = 100.0 * (np.abs(beyond(turned)) < 1e-6).mean()
    times = f"{np.median(us):.1f}", f"{np.percentile(us, 99):.1f}"
    report.row(*times, f"{held:.0f}", f"{max(passed, 0.0):.1e}", f"{gap.max():.1e}", f"{speed:.4f}")
    if passed > BEYOND or gap.max() > CLOSED or speed > SPEED * (1.0 + 1e-6) or held == 0.0:
        report.missed.append(f"ticks: {passed:.1e} rad beyond, open by {gap.max():.1e}, {speed:.4f} rad/s")


def show(report: Report) -> None:
    """Measure and add the tables."""
    report.line("")
    report.line(f"{machine()}, one core. CPU time per problem, median and range of {REPEATS} solves.")
    robot, free = four_bar(LIMITS), four_bar(None)
    show_solves(report, robot, free)
    show_ticks(report, robot, free)


if __name__ == "__main__":
    measured("Limits of joints that close loops", __doc__, show)
