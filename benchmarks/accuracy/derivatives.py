"""Derivatives of answers by their targets: beside differences of answers that are solved again, and what they cost.

Differences are of fourth order, in float64, of minima that other code solves for; those of robots with loops are of
answers that are solved again, in float64 too.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

import ik_service
from benchmarks.accuracy.minima import APART, Minima, differences, moved_target
from benchmarks.report import Report
from benchmarks.run import benchmark, timed
from ik_service.robots import RobotModel
from ik_service.solver.derivatives.linearisation import DofState, Linearisation
from objectives import IKObjectivePosture

SEED, REPEATS = 3, 5
MEDIAN, MOST = 1e-6, 1e-3
POSTURE = 0.05
PRECISE = ik_service.SolverOptions(precision="float64")


@dataclass(frozen=True)
class Case:
    """What is derived."""

    name: str  # in the table
    robot: str
    links: tuple[str, ...]  # links with targets
    count: int  # problems
    has_posture: bool = True  # whether a posture beside the targets settles what they leave open
    shift: float = 0.0  # how far targets are moved away [m]: out of reach


CASES = (
    Case("ur5e", "ur5e", ("tool0",), 100, has_posture=False),
    Case("panda, posture", "panda", ("panda_hand",), 100),
    Case("dual_panda, two hands, posture", "dual_panda", ("left_panda_hand", "right_panda_hand"), 20),
    Case("humanoid, two hands, posture", "humanoid", ("left_grasp", "right_grasp"), 10),
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

    def again(self, start: NDArray[np.float64], target: int, axis: int, by: NDArray[np.float64]) -> NDArray[np.float64]:
        """Solve again with a target moved: answers that no rows beside targets and loops pull at are minima."""
        positions, orientations = moved_target(self.positions, self.orientations_xyzw, target, axis, by)
        return np.asarray(self.solver.solve(positions, orientations, initial_joint_q=start).joint_q, np.float64)

    def expected(self, found: Linearisation, derived: NDArray[np.bool_], case: Case) -> NDArray[np.float64]:
        """Give how coordinates follow targets, shape [derived, coordinates, targets, 6]."""
        robot, turns = self.solver.robot, self.orientations_xyzw
        apart = APART / np.maximum(np.abs(found.by_targets).max(axis=(1, 2, 3)), 1.0)
        if robot.loops:
            targets = range(self.positions.shape[1])
            axes = [differences(partial(self.again, found.joint_q, k), range(3), apart) for k in targets]
            return np.pad(np.stack(axes, axis=2), [*3 * [(0, 0)], (0, 3)])[derived]
        reference = robot.mid_joint_q if case.has_posture else None
        minima = Minima(robot, case.links, reference, is_met=not case.shift)
        given = self.positions[derived], None if turns is None else turns[derived], found.joint_q[derived]
        return minima.derivatives(*given, (found.dof_state == DofState.FREE)[derived], apart[derived])

    def errors(self, found: Linearisation, case: Case) -> tuple[NDArray[np.float64], int]:
        """Return how far derivatives are from differences, and how many numbers no minimum was found for.

        An error is that of the DOF that is farthest, by the largest derivative by the same number of a target.
        """
        robot, axes = self.solver.robot, 3 if self.orientations_xyzw is None else 6
        scalar, derived = robot.dof_coordinate >= 0, found.is_differentiable
        expected = self.expected(found, derived, case)[:, robot.dof_coordinate[scalar], :, :axes]
        off = np.abs(found.by_targets[derived][:, scalar, :, :axes] - expected).max(axis=1)
        errors = (off / np.abs(expected).max(axis=1)).ravel()
        return errors[np.isfinite(errors)], int((~np.isfinite(errors)).sum())


def show(report: Report) -> None:
    """Measure all cases."""
    report.section(
        "Beside differences",
        "Random poses of the links. An error is the largest of the DOFs, by the largest derivative by the "
        "same number of a target; medians and 99th percentiles over problems and numbers. DOFs that "
        "a limit holds are held where minima are solved for anew; left out are those for which that fails. CPU time of "
        f"`solver.linearise` per answer, least of {REPEATS}, for all problems in a call and for one.",
        *("case", "answers", "with derivatives", "numbers", "left out", "median", "99 %"),
        *("ms per answer", "ms for one"),
    )
    missed = []
    for case in CASES:
        robot = ik_service.load_robot(case.robot, collision="ignore")
        problems = Problems.of(case, robot)
        targets = problems.positions, problems.orientations_xyzw
        result = problems.solver.solve(*targets)
        found = problems.solver.linearise(result, *targets)
        errors, others = problems.errors(found, case)
        median, most = np.median(errors), np.quantile(errors, 0.99)
        many, one = (_milliseconds(problems, count) for count in (len(result), 1))
        cells = (f"{median:.1e}", f"{most:.1e}", f"{many:.2f}", f"{one:.1f}")
        report.row(case.name, len(result), int(found.is_differentiable.sum()), len(errors) + others, others, *cells)
        if median > MEDIAN or most > MOST:
            missed.append(case.name)
    report.claim("cases above the bounds", ", ".join(missed) or "none", f"median {MEDIAN:g}, 99 % {MOST:g}", not missed)


def _milliseconds(problems: Problems, count: int) -> float:
    turns = problems.orientations_xyzw
    targets = problems.positions[:count], None if turns is None else turns[:count]
    result = problems.solver.solve(*targets)
    return 1e-3 * timed(lambda: problems.solver.linearise(result, *targets), REPEATS, count, warm_up=0)[1].least


if __name__ == "__main__":
    benchmark("Derivatives of answers", show)
