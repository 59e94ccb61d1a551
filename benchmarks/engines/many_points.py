"""Points on the links of an arm, as of motion capture: this solver, and both optimizers of newton.ik.

python -m benchmarks.engines.many_points [--write benchmarks/engines/many_points.md]
"""

import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import ik_service
from benchmarks.peers.environments import NEWTON, PeerMissingError, run_peer
from benchmarks.report import Report, machine, measured
from ik_service.robots import RobotModel
from objectives import IKObjectivePosition

ROBOT, COUNTS, PROBLEMS, REPEATS = "panda", (2, 10, 50), 128, 3
ITERATIONS = (10, 20, 40, 80)  # of the peer
TOLERANCE, REACH, AWAY = 1e-3, 0.1, 0.4  # [m], of points about the origins of links [m], of starts [rad]


class Points:
    """Points on links, where they are to be, and configurations near to these.

    Args:
        robot: The robot.
        count: Number of points.
    """

    def __init__(self, robot: RobotModel, count: int) -> None:
        random, links = np.random.default_rng(count), [f"panda_link{k}" for k in range(2, 8)]
        self.robot, self.links = robot, [links[k] for k in random.integers(len(links), size=count)]
        self.links[:2] = ["panda_link7", "panda_link5"]
        self.offsets = random.uniform(-REACH, REACH, (count, 3))
        joint_q = robot.random_joint_q(random, PROBLEMS)
        self.places = self.at(joint_q)
        self.start = robot.clamp_joint_q(joint_q + random.uniform(-AWAY, AWAY, joint_q.shape))

    def at(self, joint_q: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return where the points are, [problems, points, 3], by kinematics of the host in float64."""
        poses = self.robot.forward_kinematics(joint_q, self.links)
        turn = poses.orientations_xyzw
        spin = 2.0 * np.cross(turn[..., :3], self.offsets)
        return poses.positions + self.offsets + turn[..., 3:] * spin + np.cross(turn[..., :3], spin)

    def met(self, joint_q: NDArray[np.floating]) -> float:
        """Return the share of problems of which every point is in its place and every joint within its limits."""
        off = np.linalg.norm(self.at(joint_q) - self.places, axis=2).max(axis=1)
        lower, upper = self.robot.joint_limit_lower - TOLERANCE, self.robot.joint_limit_upper + TOLERANCE
        return float(((off <= TOLERANCE) & ((joint_q >= lower) & (joint_q <= upper)).all(axis=1)).mean())


def ours(points: Points) -> tuple[float, float]:
    """Return the share of problems solved, and CPU time of one [us]."""
    objectives = [
        IKObjectivePosition(link, points.places[:, k], offset=[*offset, 0.0, 0.0, 0.0, 1.0])
        for k, (link, offset) in enumerate(zip(points.links, points.offsets, strict=True))
    ]
    solver, times = ik_service.IKSolver(points.robot, objectives=objectives, device="cpu"), []
    for _ in range(REPEATS + 1):
        begin = time.process_time()
        result = solver.solve(problem_count=PROBLEMS, initial_joint_q=points.start, options={"seeds": 1})
        times.append(time.process_time() - begin)
    return points.met(result.joint_q.astype(np.float64)), float(np.median(times[1:])) / PROBLEMS * 1e6


def peer(points: Points, optimizer: str, iterations: int) -> tuple[float, float]:
    """Return the same of newton.ik.

    Raises:
        PeerMissingError: It does not run here.
    """
    urdf = Path(ik_service.__file__).with_name("robots").joinpath("builtin", f"{ROBOT}.urdf").read_text()
    saved = run_peer(
        "newton",
        (NEWTON,),
        "newton_markers.py",
        urdf=urdf,
        links=points.links,
        offsets=points.offsets,
        points=points.places,
        start=points.start,
        optimizer=optimizer,
        iterations=iterations,
        repeats=REPEATS,
    )
    return points.met(saved["joint_q"].astype(np.float64)), float(np.median(saved["times"])) / PROBLEMS * 1e6


def show(report: Report) -> None:
    """Measure all."""
    robot = ik_service.load_robot(ROBOT, collision="ignore")
    report.line("")
    report.line(
        f"{machine()}. {PROBLEMS} configurations of a Panda, told by points on its links, from starts up to {AWAY} rad "
        "away, one start each. Met: every point within 1 mm and joints within their limits (1e-3 rad beyond them for "
        "all), by kinematics of the host. CPU time of a problem [us], median of "
        f"{REPEATS} runs. newton.ik with analytic Jacobians."
    )
    report.line("")
    report.table("points", "rows", "solver", "iterations", "met [%]", "time [us]")
    for count in COUNTS:
        points = Points(robot, count)
        share, each = ours(points)
        report.row(count, 3 * count, "ours", "as needed", f"{100 * share:.1f}", f"{each:.1f}")
        for optimizer in ("lm", "lbfgs"):
            for iterations in ITERATIONS:
                try:
                    share, each = peer(points, optimizer, iterations)
                except PeerMissingError as error:
                    report.row(count, 3 * count, f"newton.ik {optimizer}", iterations, str(error), "")
                    return
                report.row(count, 3 * count, f"newton.ik {optimizer}", iterations, f"{100 * share:.1f}", f"{each:.0f}")


if __name__ == "__main__":
    measured("Points on the links", __doc__, show)
