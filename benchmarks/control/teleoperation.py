"""Teleoperation: noise and lag of filtered targets, limits in every tick of jumps, twists and clutches, time of a tick.

Limits are judged from the commands alone, by differences in float64; errors by the robot's own forward kinematics.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.problems.pose_problems import link_poses
from benchmarks.problems.tick_paths import HOME, LINK
from benchmarks.report import Report
from benchmarks.run import benchmark, in_turns
from ik_service import load_robot
from ik_service.control import ControlLimits, IKController, OneEuroFilter, SecondOrderFilter, TeleopTarget
from ik_service.mechanism.transforms import quaternion_conjugate, quaternion_exp, quaternion_multiply, rotation_vector
from ik_service.robots import RobotModel

Array = NDArray[np.float64]
TICK, RATE = 0.002, 60.0  # of a tick [s], of targets [Hz]
NOISE = 0.002  # [m], standard deviation along each axis
ACCELERATION = 10.0  # of joints [rad/s^2]
FILTERS: dict[str, Any] = {"none": None, "one euro": OneEuroFilter(), "second order": SecondOrderFilter()}
JERK = 300.0  # [rad/s^3]
SHARE = 1.0 / 3.0  # most of the rms acceleration that a filter may leave
TIP = {"linear_speed": 0.5, "angular_speed": 1.5, "linear_acceleration": 4.0, "angular_acceleration": 12.0}
ROBOTS = {"panda": (LINK, HOME), "ur5e": ("tool0", np.array([0.0, -1.2, 1.6, -0.4, 1.2, 0.0]))}
BLOCK = 20_000  # ticks that are judged together
JERK_ROUNDING = 1e-7  # relative, of third differences of positions
ROUNDING = 1e-9  # relative, and of accelerations from differences of positions [per s^2]
TICK_US = 6.0


def show(report: Report, seconds: float, ticks: int, rounds: int) -> None:
    """Measure noise, limits and times."""
    panda = load_robot("panda", collision="ignore")
    _show_noise(report, panda, seconds)
    _show_limits(report, ticks)
    _show_times(report, panda, rounds)


def _show_noise(report: Report, robot: RobotModel, seconds: float) -> None:
    report.section(
        "Noise",
        f"Panda, targets at {RATE:g} Hz with {1e3 * NOISE:g} mm of noise along each axis, ticks at {1.0 / TICK:g} Hz, "
        f"joint accelerations at most {ACCELERATION:g} rad/s^2, {seconds:g} s. Rms: of all joint accelerations "
        "[rad/s^2]. Lag: the time by which the hand's motion without noise has to be moved to be nearest the tip. Tip: "
        "rms distance of the tip from the hand's motion without noise [mm], and from that motion moved by the lag.",
        *("hand", "filter", "rms", "share of none", "lag [ms]", "tip [mm]", "moved by the lag"),
    )
    further: dict[str, Any] = {f"second order, {speed:g} rad/s": SecondOrderFilter(speed) for speed in (30.0, 40.0)}
    further |= {f"one euro, {cutoff:g} Hz at any speed": OneEuroFilter(cutoff, 0.0) for cutoff in (0.3, 1.0)}
    for hand, amplitude in (("still", 0.0), ("circle of 10 cm in 4 s", 0.1)):
        plain = 0.0
        for name, of in (FILTERS | further).items():
            rms, lag, tip, moved = _noise(robot, of, amplitude, seconds)
            plain = plain or rms
            report.row(hand, name, f"{rms:.2f}", f"{rms / plain:.2f}", lag, f"{tip:.2f}", f"{moved:.2f}")
            if name in FILTERS and of is not None:
                report.claim(f"rms, {hand}, {name}", f"{rms / plain:.2f} of none", f"{SHARE:.2f}", rms <= SHARE * plain)
    report.line(
        "- A one-euro filter is of first order: each new target of a moving hand changes the speed at once, and the "
        "joints need their largest acceleration to follow. Only a low cutoff at all speeds meets the bound on the "
        "circle, with a lag that no operator accepts."
    )


def _noise(robot: RobotModel, of: Any, amplitude: float, seconds: float) -> tuple[float, str, float, float]:
    """Return rms acceleration, lag, and rms distances of the tip with and without the lag [mm]."""
    rng, count = np.random.default_rng(0), int(seconds / TICK)
    home = link_poses(robot, HOME[None], LINK)[0]

    def hand(times: Array) -> Array:
        turn = 0.5 * np.pi * times
        circle = np.column_stack([np.cos(turn) - 1.0, np.sin(turn), np.zeros(len(times))])
        return np.asarray(home[:3] + amplitude * circle)

    times, target, sent = TICK * np.arange(count), home.copy(), -1
    controller = _controller(robot, LINK, HOME, of, ControlLimits(acceleration=ACCELERATION))
    joint_q = np.empty((count, len(HOME)))
    for k in range(count):
        new = int(times[k] * RATE) != sent
        if new:
            sent = int(times[k] * RATE)
            target[:3] = hand(times[k : k + 1])[0] + rng.normal(0.0, NOISE, 3)
        joint_q[k] = controller.step(target if new else None, dt=TICK).joint_q[0]
    tips = robot.forward_kinematics(joint_q, links=[LINK]).positions[:, 0]
    later = times > 1.0  # without the beginning
    rms = float(np.sqrt(np.mean(np.diff(joint_q, n=2, axis=0) ** 2))) / TICK**2
    lags = 1e-3 * np.arange(0.0, 1000.0)
    found = [1e3 * float(np.sqrt(np.mean(np.sum((tips - hand(times - lag))[later] ** 2, axis=1)))) for lag in lags]
    best = int(np.argmin(found))
    return rms, f"{best}" if amplitude else "-", found[0], found[best]


def _controller(robot: RobotModel, link: str, start: Array, of: Any, limits: ControlLimits) -> IKController:
    controller = IKController(robot, [link], target_filter=of, limits=limits)
    controller.reset(start)
    return controller


def _show_limits(report: Report, ticks: int) -> None:
    report.section(
        "Limits",
        f"{ticks} ticks in all: hand devices with clutches, lost tracking and changing scales, twists in both frames, "
        f"and targets that jump by up to a metre. Joint accelerations at most {ACCELERATION:g} rad/s^2, jerks at most "
        f"{JERK:g} rad/s^3; commanded "
        f"targets: {', '.join(f'{name} {value:g}' for name, value in TIP.items())} (SI). Each column counts the ticks "
        "in which a limit was broken by more than rounding. False: ticks of success whose tip is farther than the "
        "tolerances from the target that was given.",
        *(
            "robot",
            "filter",
            "ticks",
            "position",
            "speed",
            "acceleration",
            "jerk",
            "target speed",
            "target acceleration",
        ),
        *("false", "success", "statuses"),
    )
    broken: Counter[str] = Counter()
    each = -(-ticks // (len(ROBOTS) * len(FILTERS)))
    for name, (link, start) in ROBOTS.items():
        robot = load_robot(name, collision="ignore")
        for kind, of in FILTERS.items():
            found, met, statuses = _limits(robot, link, start, of, each)
            broken.update(found)
            said = ", ".join(f"{word} {count / each:.0%}" for word, count in statuses.most_common())
            report.row(name, kind, each, *(found[column] for column in COLUMNS), f"{met / each:.0%}", said)
    for column in COLUMNS:
        report.claim(f"broken: {column}", broken[column], 0, broken[column] == 0)


COLUMNS = ("position", "speed", "acceleration", "jerk", "target speed", "target acceleration", "false")


def _limits(robot: RobotModel, link: str, start: Array, of: Any, ticks: int) -> tuple[Counter[str], int, Counter[str]]:
    """Return broken limits by column, successes, and statuses."""
    controller = _controller(robot, link, start, of, ControlLimits(acceleration=ACCELERATION, jerk=JERK, **TIP))
    given = _operator(np.random.default_rng(1), link_poses(robot, start[None], link)[0])
    broken: Counter[str] = Counter(dict.fromkeys(COLUMNS, 0))
    statuses: Counter[str] = Counter()
    met, done, joint_q, commanded = 0, 0, [start] * 3, [link_poses(robot, start[None], link)[0]] * 3
    while done < ticks:
        count = min(BLOCK, ticks - done)
        targets, success = np.empty((count, 7)), np.empty(count, dtype=bool)
        for k in range(count):
            targets[k] = next(given)
            result = controller.step(targets[k], dt=TICK)
            joint_q.append(result.joint_q[0].copy())
            commanded.append(controller.commanded_targets[0, 0].copy())
            success[k] = result.success[0]
            statuses[result.status_names[0]] += 1
        _judge(robot, np.array(joint_q), np.array(commanded), broken)
        broken["false"] += int((success & ~_is_met(robot, link, np.array(joint_q[3:]), targets)).sum())
        met, done, joint_q, commanded = met + int(success.sum()), done + count, joint_q[-3:], commanded[-3:]
    return broken, met, statuses


def _judge(robot: RobotModel, joint_q: Array, poses: Array, broken: Counter[str]) -> None:
    """Count broken limits of ticks that begin with the three before them."""
    speeds = np.diff(joint_q, axis=0) / TICK
    accelerations = np.diff(speeds, axis=0) / TICK
    outside = (joint_q < robot.joint_limit_lower) | (joint_q > robot.joint_limit_upper)
    broken["position"] += int(outside[3:].any(axis=1).sum())
    fastest = robot.joint_velocity_limit * (1.0 + ROUNDING)
    broken["speed"] += int((np.abs(speeds[2:]) > fastest).any(axis=1).sum())
    hardest = ACCELERATION * (1.0 + ROUNDING) + ROUNDING
    broken["acceleration"] += int((np.abs(accelerations[1:]) > hardest).any(axis=1).sum())
    jerks = np.abs(np.diff(accelerations, axis=0)) / TICK
    broken["jerk"] += int((jerks > JERK * (1.0 + JERK_ROUNDING)).any(axis=1).sum())
    turns = rotation_vector(quaternion_multiply(poses[1:, 3:], quaternion_conjugate(poses[:-1, 3:])))
    for kind, steps in (("linear", np.diff(poses[:, :3], axis=0)), ("angular", turns)):
        speeds = steps / TICK
        changes = np.linalg.norm(np.diff(speeds[1:], axis=0), axis=1) / TICK
        too_fast = np.linalg.norm(speeds[2:], axis=1) > TIP[f"{kind}_speed"] * (1.0 + ROUNDING)
        too_hard = changes > TIP[f"{kind}_acceleration"] * (1.0 + ROUNDING) + ROUNDING
        broken["target speed"] += int(too_fast.sum())
        broken["target acceleration"] += int(too_hard.sum())


def _is_met(robot: RobotModel, link: str, joint_q: Array, targets: Array) -> NDArray[np.bool_]:
    poses = robot.forward_kinematics(joint_q, links=[link])
    turns = rotation_vector(quaternion_multiply(targets[:, 3:], quaternion_conjugate(poses.orientations_xyzw[:, 0])))
    distances = np.linalg.norm(poses.positions[:, 0] - targets[:, :3], axis=1)
    return np.asarray(
        (distances <= 1e-4 * (1.0 + ROUNDING)) & (np.linalg.norm(turns, axis=1) <= 1e-3 * (1.0 + ROUNDING))
    )


def _operator(rng: np.random.Generator, home: Array) -> Iterator[Array]:
    """Give a target for every tick, without end: what an operator may do, and what may go wrong."""
    target, device = TeleopTarget(home), np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
    while True:
        kind, count = rng.integers(4), int(rng.integers(1, 1500))
        if kind == 0:  # a jump, sometimes back to where the arm began
            target.pose[:3] = home[:3] + rng.integers(2) * rng.uniform(-0.58, 0.58, 3)
            turn = quaternion_exp(rng.integers(2) * rng.normal(0.0, 1.0, 3))
            target.pose[3:] = quaternion_multiply(turn, home[3:])
        twist, in_tool_frame = rng.normal(0.0, 0.4, 6), bool(rng.integers(2))
        target.scale, turn = float(rng.uniform(0.2, 3.0)), quaternion_exp(rng.normal(0.0, 0.002, 3))
        step, engaged = rng.normal(0.0, 0.001, 3), True
        for _ in range(count):
            if kind == 1:
                target.move(twist, TICK, in_tool_frame=in_tool_frame)
            elif kind == 2:
                engaged = engaged != (rng.random() < 0.01)
                device[:3] += step + rng.normal(0.0, 0.0005, 3)
                device[3:] = quaternion_multiply(turn, device[3:])
                device[3:] /= np.linalg.norm(device[3:])
                lost = rng.random() < 0.002
                target.follow(np.full(7, np.nan) if lost else device, engaged)
            yield target.pose


def _show_times(report: Report, robot: RobotModel, rounds: int) -> None:
    report.section(
        "Time",
        f"CPU time of the process of a tick of a Panda on a circle [us], from Python, over 2000 ticks; all kinds take "
        f"turns in {rounds} rounds. Median, the least of the rounds, and the median of the differences within a round.",
        *("kind", "median", "least", "more than without a filter"),
    )
    calls: dict[str, Callable[[], float]] = {}
    for limits, joints in (
        ("", {}),
        (", joint accelerations", {"acceleration": ACCELERATION}),
        (", joint accelerations, jerks", {"acceleration": ACCELERATION, "jerk": JERK}),
    ):
        for name, of in FILTERS.items():
            calls[f"filter: {name}{limits}"] = _clocked(robot, of, ControlLimits(**joints))
        calls[f"second order, limits of targets{limits}"] = _clocked(
            robot, FILTERS["second order"], ControlLimits(**joints, **TIP)
        )
    target, device, twist = TeleopTarget([0.0] * 6 + [1.0]), np.array([0.1] * 3 + [0.0] * 3 + [1.0]), np.full(6, 1e-3)
    calls["TeleopTarget.follow"] = lambda: _cpu_us(lambda _: target.follow(device), 2000)
    calls["TeleopTarget.move"] = lambda: _cpu_us(lambda _: target.move(twist, TICK), 2000)
    found = in_turns(calls, rounds)
    for name, times in found.items():
        at = name.find(", joint")
        alone = found["filter: none" + (name[at:] if at >= 0 else "")]
        more = "-" if name.startswith("Teleop") else f"{np.median(np.subtract(times, alone)):.2f}"
        report.row(name, f"{np.median(times):.2f}", f"{np.min(times):.2f}", more)
    for name in ("filter: one euro", "filter: second order"):
        own, plain = np.median(found[name]), np.median(found["filter: none"])
        report.claim(f"a tick, {name} [us]", f"{own:.2f} (none: {plain:.2f})", TICK_US, own <= TICK_US)


def _clocked(robot: RobotModel, of: Any, limits: ControlLimits) -> Callable[[], float]:
    """Return a function that runs 2000 ticks and gives the time of one."""
    controller = _controller(robot, LINK, HOME, of, limits)
    controller.warmup()
    turn = np.linspace(0.0, 2.0 * np.pi, 2000)
    path = np.tile(link_poses(robot, HOME[None], LINK), (2000, 1))
    path[:, 0] += 0.1 * (np.cos(turn) - 1.0)
    path[:, 1] += 0.1 * np.sin(turn)
    return lambda: _cpu_us(lambda k: controller.step(path[k], dt=TICK), len(path))


def _cpu_us(call: Callable[[int], Any], count: int) -> float:
    begun = time.process_time_ns()
    for k in range(count):
        call(k)
    return 1e-3 * (time.process_time_ns() - begun) / count


if __name__ == "__main__":
    benchmark(
        "Teleoperation",
        show,
        sizes={"seconds": (5.0, 30.0), "ticks": (12_000, 1_000_000), "rounds": (5, 25)},
    )
