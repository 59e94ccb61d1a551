"""A controller of an arm on a cart: whether its wheels slip, within which limits, and at what price.

python -m benchmarks.control.rolling [--write] [--ticks 10000] [--rounds 5]

Slip and errors are judged by constraint kinematics of the host in float64. --write also writes rolling.md.
"""

import argparse
import gc
import os
from pathlib import Path
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

import ik_service
from benchmarks.control.ticks import timed
from benchmarks.islands.closed_loops import poses
from benchmarks.report import Report, machine
from ik_service.control import ControlLimits, IKController
from ik_service.mechanism.transforms import quaternion_multiply
from ik_service.robots import RobotModel, VelocityConstraint, builtin_urdf, load_urdf
from objectives import IKObjectivePosture

HAND, RADIUS, TRACK = "panda_hand", 0.15, 0.25  # [m]
WHEELS = {"left_wheel": 10.0, "right_wheel": 10.0}  # [rad/s]
LIMITS = {
    "speed": ControlLimits(velocity=WHEELS),
    "speed and acceleration": ControlLimits(velocity=WHEELS, acceleration=30.0),
}
LENGTH, TURN = 3.0, 2.0  # of the hand's way: along a bend [m], and how far it turns [rad]
SLIP, DT = 1e-6, 1e-3  # [m/s and rad/s], [s]
JOINT = """<link name="{name}"/><joint name="{name}_wheel" type="continuous"><parent link="cart"/><child link="{name}"/>
<origin xyz="0 {y} {z}"/><axis xyz="0 1 0"/></joint>"""
CART = """<link name="floor"/><link name="cart"/><joint name="drive" type="planar"><parent link="floor"/>
<child link="cart"/><axis xyz="0 0 1"/></joint><joint name="mount" type="fixed"><parent link="cart"/>
<child link="panda_link0"/><origin xyz="0 0 0.3"/></joint>"""
AXLE = (0.0, 0.0, 0.0, -(0.5**0.5), 0.0, 0.0, 0.5**0.5)
Array = NDArray[np.float64]


def arm_on_a_cart() -> RobotModel:
    """Return a Panda on a cart with two driven wheels, which roll and do not slip sideways."""
    wheels = "".join(JOINT.format(name=name, y=y, z=RADIUS) for name, y in (("left", TRACK), ("right", -TRACK)))
    robot = load_urdf(builtin_urdf("panda").decode().replace("</robot>", f"{CART}{wheels}</robot>"))
    rows = (("rolling", "left"), ("rolling", "right"), ("no_sideslip", "left"))
    return robot.with_velocity_constraints(
        [VelocityConstraint(f"{kind} {wheel}", kind, wheel, None, AXLE, radius=RADIUS) for kind, wheel in rows]
    )


def controller_of(robot: RobotModel, start: Array, limits: ControlLimits) -> IKController:
    """Return a controller of the hand that keeps the arm in front of the cart: a posture decides who moves."""
    joints = [name for name in robot.joint_names if name.startswith("panda_joint")]
    return IKController(robot, [HAND], objectives=[IKObjectivePosture(start, joints=joints)], limits=limits)


def bend(robot: RobotModel, start: Array, ticks: int) -> Array:
    """Return targets of the hand on a bend, from rest to rest, [ticks, 7]."""
    s = np.linspace(0.0, 1.0, ticks)
    way = s**3 * (10.0 - 15.0 * s + 6.0 * s**2)
    targets = np.tile(poses(robot, start[None], HAND)[0], (ticks, 1))
    radius = LENGTH / TURN
    targets[:, 0] += radius * np.sin(TURN * way)
    targets[:, 1] += radius * (1.0 - np.cos(TURN * way))
    turn = np.column_stack([np.zeros((ticks, 2)), np.sin(0.5 * TURN * way), np.cos(0.5 * TURN * way)])
    targets[:, 3:] = quaternion_multiply(turn, targets[:, 3:])
    return targets


def slips(robot: RobotModel, start: Array, joint_q: Array, joint_qd: Array) -> Array:
    """Return the rates of the constraints in the middle of every tick [m/s], [ticks, constraints]."""
    middle = robot.integrate(np.concatenate([start[None], joint_q[:-1]]), 0.5 * DT * joint_qd)
    return np.abs(robot.constraints.error_velocity(middle, joint_qd))


def show_bend(report: Report, robot: RobotModel, start: Array, ticks: int) -> None:
    """Report a way of the hand that the arm alone could not go."""
    report.section(
        "Along a bend",
        f"{ticks} ticks of 1 ms; the hand goes along a bend and turns with it, {LENGTH} m and {TURN} rad, from rest to "
        "rest. 'Slip': largest rate at which a wheel slides, in the middle of any tick. 'Wheels' and 'acceleration': "
        "largest share of a wheel's limit and of any joint's. Statuses count ticks. Bound: no slip above "
        f"{SLIP:.0e} m/s, no limit broken.",
    )
    report.table("limits", "slip, m/s", "wheels", "acceleration", "error: mean, µm", "largest", "statuses")
    targets = bend(robot, start, ticks)
    for kind, limits in LIMITS.items():
        controller = controller_of(robot, start, limits)
        controller.reset(start)
        found = [controller.step(target, dt=DT).copy() for target in targets]
        joint_q, joint_qd = (np.concatenate([getattr(one, name) for one in found]) for name in ("joint_q", "joint_qd"))
        slip = float(slips(robot, start, joint_q, joint_qd).max())
        wheels = float(np.abs(joint_qd[:, -2:]).max() / 10.0)
        changes = np.diff(joint_qd, axis=0, prepend=np.zeros((1, joint_qd.shape[1]))) / DT
        share = float(np.abs(changes).max() / 30.0)
        away = 1e6 * np.linalg.norm(poses(robot, joint_q, HAND)[:, :3] - targets[:, :3], axis=1)
        counts = zip(*np.unique([one.status[0] for one in found], return_counts=True), strict=True)
        statuses = ", ".join(f"{ik_service.IKStatus(int(code)).word} {count}" for code, count in counts)
        braked = f"{share:.3f}" if limits.acceleration is not None else "-"
        report.row(kind, f"{slip:.1e}", f"{wheels:.3f}", braked, f"{away.mean():.3g}", f"{away.max():.3g}", statuses)
        if slip > SLIP or wheels > 1.0 + 1e-6 or (braked != "-" and share > 1.0 + 1e-6):
            report.missed.append(f"{kind}: slip {slip:.1e} m/s, limits {wheels:.3f}, {braked}")


def show_times(report: Report, robot: RobotModel, start: Array, ticks: int, rounds: int) -> None:
    """Report the time of a tick beside that of a cart that may slip."""
    report.section(
        "Time",
        f"CPU time of a tick on the bend, µs: median of {rounds} rounds' medians, and their range; both take turns. "
        "'Slipping': the same robot without its constraints.",
    )
    report.table("limits", "rolling", "range", "slipping", "range")
    targets = bend(robot, start, ticks)[:, None, None]
    for kind, limits in LIMITS.items():
        models = robot, robot.with_velocity_constraints([])
        controllers = [controller_of(model, start, limits) for model in models]
        found: list[list[float]] = [[] for _ in models]
        for _ in range(rounds):
            for times, controller in zip(found, controllers, strict=True):
                controller.reset(start)
                controller.warmup()
                times.append(float(np.median(timed(controller, targets)[1])))
        cells: list[Any] = []
        for times in found:
            cells += [f"{np.median(times):.1f}", f"{min(times):.1f}-{max(times):.1f}"]
        report.row(kind, *cells)


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write rolling.md")
    parser.add_argument("--ticks", type=int, default=10_000, help="ticks of a run")
    parser.add_argument("--rounds", type=int, default=5, help="rounds that are timed")
    arguments = parser.parse_args()
    wp.config.log_level = wp.LOG_ERROR
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[-1]})
    gc.disable()
    robot = arm_on_a_cart()
    start = robot.mid_joint_q
    report = Report("Rolling wheels in a controller")
    report.line("")
    command = f"python -m benchmarks.control.rolling --ticks {arguments.ticks} --rounds {arguments.rounds}"
    report.line(
        f"Made by `{command}`; one pinned core of {machine()}, ik-service {ik_service.__version__}. A Panda stands on "
        "a cart with two driven wheels: 12 DOFs, and three constraints on velocities. A posture, which yields to the "
        "target, keeps the arm in front of the cart. Slip is judged by constraint kinematics of the host in float64."
    )
    show_bend(report, robot, start, arguments.ticks)
    show_times(report, robot, start, arguments.ticks // 5, arguments.rounds)
    report.line("")
    report.line(f"Bounds missed: {', '.join(report.missed) or 'none'}.")
    if arguments.write:
        report.save(Path(__file__).with_name("rolling.md"))


if __name__ == "__main__":
    main()
