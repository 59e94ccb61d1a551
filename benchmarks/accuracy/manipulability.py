"""Manipulability beside pose targets: is a target lost, does it rise, and how near is it to the most there is nearby?

python -m benchmarks.accuracy.manipulability [--write benchmarks/accuracy/manipulability.md]

Targets are judged by kinematics of the host in float64, the manipulability by NumPy's determinant of the host's
Jacobians.
"""

import time

import numpy as np
from numpy.typing import NDArray

from benchmarks.arms.planner_calls import met
from benchmarks.report import Report, machine, measured
from ik_service import IKSolver, RobotModel, load_robot
from objectives import IKObjectiveManipulability

Array = NDArray[np.float64]
COUNT, SEED, REPEATS = 1000, 11, 5
WEIGHTS = (1e-3, 1e-2, 0.1, 1.0, 10.0)
ARMS = (("panda", "panda_hand"), ("iiwa14", "iiwa_link_ee"))


def manipulability(robot: RobotModel, link: str, joint_q: Array) -> Array:
    """Return sqrt(det(J J^T)) with velocities in m/s and rad/s."""
    jacobian = np.asarray(robot.jacobian(joint_q, [link])).reshape(len(joint_q), 6, -1)
    return np.sqrt(np.maximum(np.linalg.det(jacobian @ jacobian.transpose(0, 2, 1)), 0.0))


def show(report: Report) -> None:
    """Print the table."""
    report.line(f"\n{machine()}.")
    report.section(
        "Weights from 0.001 to 10",
        f"{COUNT} poses of random configurations of each arm, one thread. Lost: targets met without the objective and "
        "not with it. Gain: of the manipulability over the answer without, the median of the ratio. Lower: answers "
        "whose manipulability is lower, for another branch was found.",
    )
    report.table("robot", "weight", "met", "lost", "gain", "lower", "us a target")
    lost_of_all, least = 0, np.inf
    for name, link in ARMS:
        robot = load_robot(name, collision="ignore")
        poses = robot.forward_kinematics(robot.random_joint_q(np.random.default_rng(SEED), COUNT), [link])
        given = poses.positions[:, 0], poses.orientations_xyzw[:, 0]
        plain = np.empty(0)
        was_met = np.zeros(COUNT, dtype=bool)
        for weight in (0.0, *WEIGHTS):
            objectives = [IKObjectiveManipulability(link, weight=weight)] if weight else []
            solver = IKSolver(robot, [link], objectives=objectives, device="cpu")
            times = []
            for _ in range(REPEATS):
                began = time.process_time()
                result = solver.solve(*given)
                times.append(time.process_time() - began)
            joint_q = result.joint_q.astype(np.float64)
            is_met, measure = met(robot, link, joint_q, *given), manipulability(robot, link, joint_q)
            if not weight:
                plain, was_met = measure, is_met
            lost, gain = int((was_met & ~is_met).sum()), float(np.median(measure / plain))
            lost_of_all, least = lost_of_all + lost, min(least, gain) if weight else least
            report.row(
                name,
                f"{weight:g}" if weight else "none",
                f"{100 * is_met.mean():.1f} %",
                lost,
                f"{gain:.3f}",
                f"{100 * (measure < plain * (1.0 - 1e-6)).mean():.1f} %",
                f"{1e6 * min(times) / COUNT:.1f}",
            )
    report.line("")
    report.claim("targets lost", f"{lost_of_all}", "0", lost_of_all == 0)
    report.claim("least median gain", f"{least:.3f}", "above 1", least > 1.0)


if __name__ == "__main__":
    measured("Manipulability", __doc__, show)
