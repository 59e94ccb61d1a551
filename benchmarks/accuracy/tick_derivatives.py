"""How accurate derivatives of a controller's ticks are, and of how many ticks there are some.

Beside them: derivatives of the same ticks along a random direction, by the polynomials through ticks at many distances
of which neighbours differ least (Ridders).
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from benchmarks.report import Report
from benchmarks.run import benchmark
from ik_service import RobotModel, load_robot
from ik_service.control import IKController
from ik_service.control.tick.derivatives import TickDerivatives
from ik_service.mechanism.transforms import quaternion_exp, quaternion_multiply

Array = NDArray[np.float64]
TICKS, SEED, MARGIN = 100, 3, 0.3
DISTANCES = 1e-5 / 2.0 ** np.arange(7)
MEDIAN_BOUND, LARGEST_BOUND = 1e-6, 1e-3
CASES = {  # of targets a random change of the joints [rad] away, the length of a tick [s], and whether with a posture
    "targets that are met": (3e-3, 1e-2, False),
    "joints at their speeds": (0.1, 1e-3, False),
    "a long tick": (0.1, 0.5, False),
    "targets that are met, with a posture": (3e-3, 1e-2, True),
}


def ridders(at: Callable[[float], Array]) -> Array:
    """Return derivatives by a number at 0, entry by entry those of which the differences of two orders are least."""
    before = list[Array]()
    found, least = np.zeros(0), np.zeros(0)
    for distance in DISTANCES:
        line = [(at(distance) - at(-distance)) / (2.0 * distance)]
        if not before:
            found, least = line[0].copy(), np.full(line[0].shape, np.inf)
        for order, coarse in enumerate(before, 1):
            finer = line[-1] + (line[-1] - coarse) / (4.0**order - 1.0)
            off = np.maximum(np.abs(finer - line[-1]), np.abs(finer - coarse))
            found, least = np.where(off < least, finer, found), np.minimum(off, least)
            line.append(finer)
        before = line
    return found


def errors(robot: RobotModel, link: str, far: float, dt: float, has_posture: bool) -> tuple[Array, TickDerivatives]:
    """Return the error of each tick by its start and by its target, shape [2, ticks], and what it is the error of.

    It is that of the configuration, by the largest of its changes, or by 1 where that is less.
    """
    rng = np.random.default_rng(SEED)
    low, high = (np.clip(one, -np.pi, np.pi) for one in (robot.joint_limit_lower, robot.joint_limit_upper))
    start = rng.uniform(low + MARGIN, high - MARGIN, (TICKS, len(low)))
    poses = robot.forward_kinematics(start + far * rng.normal(size=start.shape), [link])
    targets = np.concatenate(poses, axis=-1)
    controller = IKController(robot, [link], robots=TICKS, posture=robot.mid_joint_q if has_posture else None)
    found = controller.linearise(targets, start, dt)
    ways = rng.normal(size=start.shape), rng.normal(size=(TICKS, 6))
    by_start, by_target = (way / np.linalg.norm(way, axis=1)[:, None] for way in ways)

    def started(by: float) -> Array:
        controller.reset(start + by * by_start)
        return controller.step(targets, dt=dt).joint_q.copy()

    def aimed(by: float) -> Array:
        controller.reset(start)
        turned = quaternion_multiply(quaternion_exp(by * by_target[:, 3:]), targets[:, 0, 3:])
        moved = np.hstack([targets[:, 0, :3] + by * by_target[:, :3], turned])
        return controller.step(moved[:, None], dt=dt).joint_q.copy()

    own = found.joint_q_by_start, found.joint_q_by_targets[:, :, 0]
    off = []
    for tick, by, way in zip((started, aimed), own, (by_start, by_target), strict=True):
        expected = ridders(tick)
        size = np.maximum(np.abs(expected).max(axis=1), 1.0)
        off.append(np.abs(np.einsum("nqd,nd->nq", by, way) - expected).max(axis=1) / size)
    return np.array(off), found


def show(report: Report) -> None:
    """Measure everything."""
    report.section(
        "Beside differences of many distances",
        f"{TICKS} random ticks of each kind; relative errors of the change of the configuration, of ticks that have "
        "derivatives.",
        *("robot", "ticks", "have derivatives", "by", "median", "9 of 10 below", "largest"),
    )
    medians, largest = list[float](), list[float]()
    for name, link in (("ur5e", "tool0"), ("panda", "panda_hand")):
        robot = load_robot(name, collision="ignore")
        for case, given in CASES.items():
            off, found = errors(robot, link, *given)
            good = found.is_differentiable
            for what, own in zip(("start", "target"), off[:, good], strict=True):
                cells = np.quantile(own, (0.5, 0.9, 1.0)) if own.size else np.zeros(0)
                report.row(name, case, f"{good.mean():.0%}", what, *(f"{cell:.0e}" for cell in cells))
                medians += cells[:1].tolist()
                largest += cells[2:].tolist()
    for what, errors_of, bound in (("median", medians, MEDIAN_BOUND), ("of all", largest, LARGEST_BOUND)):
        report.claim(f"largest {what}", f"{max(errors_of):.0e}", f"at most {bound:.0e}", max(errors_of) <= bound)


if __name__ == "__main__":
    benchmark("Derivatives of ticks", show)
