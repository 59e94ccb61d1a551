"""A controller through a cluttered cell: clearance and limits in every tick, time of a tick, beside mink.

Targets are poses of random configurations, in contact or not, a new one after every 400 ticks. Clearance is judged by
NumPy on the host, sphere by sphere, in float64.
"""

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ik_service
from benchmarks.collision.free_answers import cluttered
from benchmarks.peers.environments import PeerMissingError, run_peer
from benchmarks.problems.compared_robots import LINKS, PANDA
from benchmarks.problems.pose_problems import link_poses
from benchmarks.report import Report
from benchmarks.run import benchmark
from ik_service.control import ControlLimits, IKController
from ik_service.robots import RobotModel, World

LINK, DT, MARGIN, EACH, SEED = "panda_hand", 1e-3, 0.01, 400, 0
MOST = 4000  # ticks of a way
ROBOTS = ("panda", "iiwa14", "ur5e", "dual_panda")
MEDIAN_BOUND = 12.0  # [us] of a tick with limits of speed
MINK = ("mink", ("mink==1.3.0", "daqp", "numpy"))
LIMITS = {"speed": {}, "speed and acceleration": {"acceleration": 10.0}}
Array = NDArray[np.float64]


def targets_in(robot: RobotModel, count: int) -> Array:
    """Return poses of the hand in random configurations, [count, 7]."""
    return link_poses(robot, robot.random_joint_q(np.random.default_rng(SEED), count), LINK)


def run(robot: RobotModel, world: World | None, ticks: int, start: Array, more: dict[str, Any]) -> tuple[Array, Array]:
    """Return the commands of a controller and CPU times of its ticks [us]; without clearance if there is no world."""
    limits = ControlLimits(clearance=None if world is None else MARGIN, **more)
    controller = IKController(robot, [LINK], limits=limits, world=world)
    controller.reset(start)
    controller.warmup()
    targets = targets_in(robot, -(-ticks // EACH))
    joint_q, times = np.empty((ticks, len(start))), np.empty(ticks)
    for k in range(ticks):
        begun = time.thread_time_ns()
        result = controller.step(targets[k // EACH], dt=DT)
        times[k] = 1e-3 * (time.thread_time_ns() - begun)
        joint_q[k] = result.joint_q[0]
    return joint_q, times - clock_cost()


def clock_cost() -> float:
    """Return the CPU time that asking for it takes [us]."""
    asked = [time.thread_time_ns() for _ in range(10_000)]
    return 1e-3 * float(np.median(np.diff(asked)))


def broken_limits(robot: RobotModel, joint_q: Array, start: Array, acceleration: float = np.inf) -> int:
    """Return in how many ticks a limit of position, speed or acceleration is broken, but for rounding."""
    speeds = np.diff(joint_q, axis=0, prepend=start[None]) / DT
    changes = np.diff(speeds, axis=0, prepend=np.zeros((1, speeds.shape[1]))) / DT
    broken = (joint_q < robot.joint_limit_lower - 1e-9) | (joint_q > robot.joint_limit_upper + 1e-9)
    broken |= np.abs(speeds) > robot.joint_velocity_limit * (1.0 + 1e-9)
    broken |= np.abs(changes) > acceleration * (1.0 + 1e-6)
    return int(broken.any(axis=1).sum())


def show(report: Report, *, ticks: int, peer_ticks: int, pairs: int) -> None:
    """Measure and report."""
    robot, world = ik_service.load_robot("panda"), cluttered()
    drawn = robot.random_free_joint_q(np.random.default_rng(SEED), 100, world)
    start = drawn[np.argmax(robot.collision(drawn, world).clearance)]
    report.section(
        "Ticks",
        f"Panda among {len(world.objects)} boxes, which it and its own links are to keep off by {1e3 * MARGIN:g} mm; "
        f"{ticks} ticks of 1 ms, CPU time in us, without the {clock_cost():.1f} us "
        "that asking for it takes. 'Near': ticks that end within 3 mm of that clearance.",
        *("limits", "least clearance [mm]", "broken limits", "near", "median", "p99", "near: median", "unchecked"),
    )
    misses, medians = [], []
    for name, more in LIMITS.items():
        joint_q, times = run(robot, world, ticks, start, more)
        _, plain = run(robot, None, min(ticks, 20_000), start, more)
        clearance = robot.collision(joint_q, world).clearance
        near, broken = clearance < MARGIN + 0.003, broken_limits(robot, joint_q, start, **more)
        cells = (f"{1e3 * clearance.min():.3f}", broken, f"{100 * near.mean():.1f} %", f"{np.median(times):.1f}")
        cells += (f"{np.percentile(times, 99):.1f}", f"{np.median(times[near]):.1f}", f"{np.median(plain):.1f}")
        report.row(name, *cells)
        misses += [clearance.min() < MARGIN, broken > 0]
        medians.append(np.median(times))
    report.claim("clearance under the margin, or a limit broken", str(sum(misses)), "0", not any(misses))
    median, bound = medians[0], MEDIAN_BOUND
    report.claim("tick with limits of speed, median", f"{median:.1f} us", f"{bound:g} us", median <= bound)
    _show_reached(report, pairs)
    _show_peer(report, robot, world, start, peer_ticks)


def _show_reached(report: Report, pairs: int) -> None:
    report.section(
        "Targets that are reached",
        f"{pairs} ways from one random free configuration to the pose of the next, without obstacles, at most "
        f"{MOST} ticks of 1 ms, accelerations of 20 rad/s^2. A controller tries no other branch: limits of joints end "
        "many ways. 'In contact': of the targets that it says are met.",
        *("robot", "reached without the limit", "in contact", "with a clearance of 0", "in contact"),
    )
    wrong = 0
    for name in ROBOTS:
        links = LINKS[name]
        robot, cells = ik_service.load_robot(name), []
        joint_q = robot.random_free_joint_q(np.random.default_rng(SEED), pairs + 1)
        poses = robot.forward_kinematics(joint_q, links)
        targets = np.concatenate(poses, axis=-1)
        for clearance in (None, 0.0):
            ends = reached(robot, links, clearance, joint_q, targets)
            contact = int((robot.collision(ends).clearance <= 0.0).sum()) if len(ends) else 0
            cells += [f"{len(ends)} of {pairs}", contact]
            wrong += contact * (clearance is not None)
        report.row(name, *cells)
    report.claim("targets met in contact with the limit", str(wrong), "0", wrong == 0)


def reached(robot: RobotModel, links: list[str], clearance: float | None, joint_q: Array, targets: Array) -> Array:
    """Return the configurations at the ends of the ways on which the target is met."""
    limits = ControlLimits(clearance=clearance, acceleration=20.0)
    controller, found = IKController(robot, links, limits=limits), []
    for start, target in zip(joint_q, targets[1:], strict=False):
        controller.reset(start)
        for tick in range(1, MOST + 1):
            result = controller.step(target, dt=DT)
            if tick % 50 == 0 and result.success[0]:
                found.append(result.joint_q[0].copy())
                break
    return np.array(found).reshape(-1, joint_q.shape[1])


def _show_peer(report: Report, robot: RobotModel, world: World, start: Array, ticks: int) -> None:
    report.section(
        "Beside mink",
        f"The same spheres, boxes, pairs, start and targets, {ticks} ticks of 1 ms with limits of position and speed; "
        "mink with its `CollisionAvoidanceLimit`, the same clearance, and 0.1 m more from which it looks at pairs.",
        *("controller", "least clearance [mm]", "ticks under it", "of them in contact", "median of a tick [us]"),
    )
    joint_q, times = run(robot, world, ticks, start, {})
    rows = [("ours", joint_q, times)]
    try:
        rows.append(("mink 1.3.0", *run_mink(robot, world, start, ticks)))
    except PeerMissingError as error:
        report.row(error)
    for name, joint_q, times in rows:
        clearance = robot.collision(joint_q, world).clearance
        under = f"{100 * (clearance < MARGIN).mean():.1f} %"
        contact = f"{100 * (clearance <= 0.0).mean():.1f} %"
        report.row(name, f"{1e3 * clearance.min():.2f}", under, contact, f"{np.median(times):.1f}")


def run_mink(robot: RobotModel, world: World, start: Array, ticks: int) -> tuple[Array, Array]:
    """Return mink's commands and CPU times of its ticks [us]."""
    model, links = robot.collision_model, list(robot.collision_model.spheres)
    boxes = [(*shape.pose, *shape.size) for shape in world.objects.values()]
    answers = run_peer(
        *MINK,
        "mink_clearance.py",
        urdf=str(PANDA.path),
        link=LINK,
        links=links,
        spheres=np.concatenate(list(model.spheres.values())),
        counts=[len(own) for own in model.spheres.values()],
        pairs=[(links.index(a), links.index(b)) for a, b in model.pairs],
        moved=[body >= 0 for body in robot.body_spheres.link_body],
        boxes=np.array(boxes),
        joint_names=list(robot.dof_names),
        velocity=robot.joint_velocity_limit,
        joint_q=start,
        targets=targets_in(robot, -(-ticks // EACH)),
        each=EACH,
        ticks=ticks,
        dt=DT,
        margin=MARGIN,
    )
    return answers["joint_q"], 1e-3 * answers["cpu"]


if __name__ == "__main__":
    sizes = {"ticks": 100_000, "peer_ticks": 2000, "pairs": 80}
    benchmark("A controller that keeps clear", show, sizes=sizes, is_strict=True, collects=False)
