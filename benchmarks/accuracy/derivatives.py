"""Derivatives of answers by their targets: beside differences of answers that are solved again, and what they cost.

python -m benchmarks.accuracy.derivatives [--write benchmarks/accuracy/derivatives.md]

Differences are of fourth order, in float64, with targets moved so far that no joint moves more than some 0.1 mrad.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import ik_service
from benchmarks.report import Report, machine, measured
from ik_service.robots import RobotModel
from ik_service.robots.transforms import quaternion_exp, quaternion_multiply
from ik_service.solver import Linearisation
from objectives import IKObjectivePosture

APART, SEED, REPEATS = 1e-4, 3, 5
MEDIAN, MOST = 1e-6, 1e-3
NEAR = 1e-2  # [rad or m]
POSTURE = 0.05
PRECISE = ik_service.SolverOptions(precision="float64")


@dataclass(frozen=True)
class Case:
    """What is derived.

    Attributes:
        name: In the table.
        robot: Its name.
        links: Links with targets.
        count: Problems.
        has_posture: Whether a posture beside the targets settles what they leave open.
        shift: How far targets are moved away [m]: out of reach.
    """

    name: str
    robot: str
    links: tuple[str, ...]
    count: int
    has_posture: bool = True
    shift: float = 0.0


CASES = (
    Case("ur5e", "ur5e", ("tool0",), 100, has_posture=False),
    Case("panda, posture", "panda", ("panda_hand",), 100),
    Case("dual_panda, two hands, posture", "dual_panda", ("left_panda_hand", "right_panda_hand"), 50),
    Case("humanoid, two hands, posture", "humanoid", ("left_grasp", "right_grasp"), 20),
    Case("delta, its platform", "delta", ("platform",), 50, has_posture=False),
    Case("ur5e, out of reach", "ur5e", ("tool0",), 50, has_posture=False, shift=1.0),
)


@dataclass(frozen=True)
class Problems:
    """Targets of a case and its solver."""

    solver: ik_service.IKSolver
    positions: NDArray[np.float64]
    orientations_xyzw: NDArray[np.float64] | None

    @classmethod
    def of(cls, case: Case, robot: RobotModel) -> "Problems":
        """Draw targets from random configurations; closed ones where the robot has loops, whose targets are points."""
        joint_q = robot.random_joint_q(np.random.default_rng(SEED), case.count)
        if robot.loops:
            joint_q = robot.constraints.close(joint_q).joint_q
        poses = robot.forward_kinematics(joint_q, case.links)
        objectives = [IKObjectivePosture(robot.mid_joint_q, weight=POSTURE)] if case.has_posture else []
        solver = ik_service.IKSolver(robot, list(case.links), objectives=objectives, device="cpu", options=PRECISE)
        return cls(solver, poses.positions + case.shift, None if robot.loops else poses.orientations_xyzw)

    def minima(self, start: NDArray[np.float64], target: int, axis: int, by: NDArray[np.float64]) -> Linearisation:
        """Solve again with a target moved or turned, in each problem by so much."""
        positions, orientations = self.positions.copy(), self.orientations_xyzw
        if axis < 3:
            positions[:, target, axis] += by
        else:
            assert orientations is not None  # only those that are given are turned
            orientations = orientations.copy()
            turn = quaternion_exp(by[:, None] * np.eye(3)[axis - 3])
            orientations[:, target] = quaternion_multiply(turn, orientations[:, target])
        result = self.solver.solve(positions, orientations, initial_joint_q=start)
        return self.solver.linearise(result, positions, orientations)

    def errors(self, found: Linearisation) -> tuple[NDArray[np.float64], int]:
        """Return how far derivatives are from differences, and for how many numbers a limit or branch changes between.

        An error is that of the DOF that is farthest, by the largest derivative by the same number of a target.
        """
        robot, axes = self.solver.robot, range(3 if self.orientations_xyzw is None else 6)
        scalar = robot.dof_coordinate >= 0
        coordinates = robot.dof_coordinate[scalar]
        apart = APART / np.maximum(np.abs(found.by_targets).max(axis=(1, 2, 3)), 1.0)
        errors, others = list[NDArray[np.float64]](), 0
        for target in range(self.positions.shape[1]):
            for axis in axes:
                ways = {by: self.minima(found.joint_q, target, axis, by * apart) for by in (1.0, -1.0, 2.0, -2.0)}
                same = found.is_differentiable & np.all([_is_near(found, one) for one in ways.values()], axis=0)
                near, far = (ways[by].joint_q - ways[-by].joint_q for by in (1.0, 2.0))
                expected = (8.0 * near - far)[:, coordinates] / (12.0 * apart[:, None])
                off = np.abs(found.by_targets[:, scalar, target, axis] - expected).max(axis=1)
                errors.append((off / np.abs(expected).max(axis=1))[same])
                others += int((found.is_differentiable & ~same).sum())
        return np.concatenate(errors), others


def _is_near(found: Linearisation, other: Linearisation) -> NDArray[np.bool_]:
    """Whether minima are of one smooth piece: held by the same limits, and not far from each other."""
    same = (found.dof_state == other.dof_state).all(axis=1) & other.is_differentiable
    return np.asarray(same & (np.abs(found.joint_q - other.joint_q).max(axis=1) < NEAR))


def show(report: Report) -> None:
    """Measure all cases."""
    report.section(
        "Beside differences",
        f"Random poses of the links, one core, {machine()}. An error is the largest of the DOFs, by the largest "
        "derivative by the same number of a target; medians and 99th percentiles over problems and numbers, without "
        "those where a limit or the branch changes between the answers that are compared; how many these are. CPU time "
        f"of `solver.linearise` per answer, least of {REPEATS}, for all problems in a call and for one.",
    )
    report.table(
        "case", "answers", "with derivatives", "numbers", "left out", "median", "99 %", "ms per answer", "ms for one"
    )
    missed: Sequence[str] = []
    for case in CASES:
        robot = ik_service.load_robot(case.robot, collision="ignore")
        problems = Problems.of(case, robot)
        result = problems.solver.solve(problems.positions, problems.orientations_xyzw)
        found = problems.solver.linearise(result, problems.positions, problems.orientations_xyzw)
        errors, others = problems.errors(found)
        median, most = np.median(errors), np.quantile(errors, 0.99)
        many, one = _milliseconds(problems, result), _milliseconds(problems, result, 1)
        cells = (f"{median:.1e}", f"{most:.1e}", f"{many:.2f}", f"{one:.1f}")
        report.row(case.name, len(result), int(found.is_differentiable.sum()), len(errors) + others, others, *cells)
        if median > MEDIAN or most > MOST:
            missed = [*missed, case.name]
    report.line("")
    figure = ", ".join(missed) or "none"
    report.claim("cases above the bounds", figure, f"median {MEDIAN:g}, 99 % {MOST:g}", not missed)


def _milliseconds(problems: Problems, result: ik_service.IKResult, count: int | None = None) -> float:
    """CPU time of a linearisation per answer [ms]."""
    n = len(result) if count is None else count
    orientations = problems.orientations_xyzw
    targets = problems.positions[:n], None if orientations is None else orientations[:n]
    some = result if count is None else problems.solver.solve(*targets)
    times = []
    for _ in range(REPEATS):
        begin = time.process_time()
        problems.solver.linearise(some, *targets)
        times.append(time.process_time() - begin)
    return 1e3 * min(times) / n


if __name__ == "__main__":
    measured("Derivatives of answers", __doc__, show)
