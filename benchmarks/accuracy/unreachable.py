"""Targets out of reach: how many are proven so, what a target costs, and whether a proof was ever wrong."""

from functools import partial
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

import ik_service
from benchmarks.problems.compared_robots import ARMS, MORE_ARMS, ComparedRobot
from benchmarks.report import Report
from benchmarks.run import benchmark, timed
from ik_service.compiler import Lanes
from ik_service.linear_solve.islands import zeroed
from ik_service.mechanism.transforms import quaternion_exp, quaternion_multiply
from ik_service.solver.arrays.problem_arrays import BRANCH_NUMBERS, BestAttempts, Searches
from ik_service.solver.compiled.proof_kernel import ProofKernel, proof_kernel_of, proof_task
from ik_service.solver.lm.codes import PROBLEM_COUNT, SEEDS, SETTINGS_COUNT
from ik_service.solver.lm.ranking import FAILED
from ik_service.solver.lm.status import IKStatus

POSITION, ORIENTATION = 1e-3, 1e-2  # tolerances [m], [rad]
CHUNK = 100_000  # poses of a launch
PROOFS = ("shell", "intervals", "search")
PROVEN_IN_BOX = {6: 0.99, 7: 0.965}  # of targets that are not solved, by the number of joints
Poses = tuple[NDArray[np.float64], NDArray[np.float64]]


def limits(robot: ik_service.RobotModel) -> Poses:
    """Return lower and upper limits of the active DOFs, +-pi where there are none."""
    lower, upper = robot.active_limit_lower, robot.active_limit_upper
    return np.where(np.isfinite(lower), lower, -np.pi), np.where(np.isfinite(upper), upper, np.pi)


def poses_of(one: ComparedRobot, active: NDArray[np.float64]) -> Poses:
    """Return the poses of the link in configurations of the active joints."""
    robot = one.robot
    joint_q = np.tile(robot.mid_joint_q, (len(active), 1))
    joint_q[:, robot.dof_coordinate[robot.active_dof]] = active
    poses = robot.forward_kinematics(joint_q, list(one.links))
    return poses.positions[:, 0], poses.orientations_xyzw[:, 0]


def directions(rng: np.random.Generator, count: int, width: int = 3) -> NDArray[np.float64]:
    """Return random unit vectors."""
    drawn = rng.normal(size=(count, width))
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def turned(orientations_xyzw: NDArray[np.float64], angle: NDArray[np.float64], rng: np.random.Generator) -> Any:
    """Return orientations turned by angles about random axes."""
    return quaternion_multiply(quaternion_exp(angle[:, None] * directions(rng, len(angle))), orientations_xyzw)


def at_the_ends_of_tolerances(one: ComparedRobot, count: int, rng: np.random.Generator) -> Poses:
    """Return targets within the tolerances of reachable poses, many at limits and at the very end of a tolerance."""
    lower, upper = limits(one.robot)
    active = rng.uniform(lower, upper, (count, len(lower)))
    at_limit = rng.random(active.shape) < np.where(rng.random(count) < 0.3, 0.8, 0.2)[:, None]
    active = np.where(at_limit, np.where(rng.random(active.shape) < 0.5, lower, upper), active)
    noise = rng.normal(size=active.shape) * 10.0 ** rng.uniform(-7.0, -2.0, (count, 1))
    right = np.clip(np.round(active / (np.pi / 2)) * (np.pi / 2) + noise, lower, upper)
    active = np.where(rng.random((count, 1)) < 0.2, right, active)
    positions, orientations_xyzw = poses_of(one, active)
    shift = directions(rng, count)
    shares = np.where(rng.random((2, count)) < 0.6, 0.99999, rng.random((2, count)))
    return positions + POSITION * shares[0, :, None] * shift, turned(orientations_xyzw, ORIENTATION * shares[1], rng)


def box(one: ComparedRobot, count: int, rng: np.random.Generator) -> Poses:
    """Return positions in the box around the reach, with random orientations."""
    reached = poses_of(one, rng.uniform(*limits(one.robot), (20_000, one.robot.active_dof_count)))[0]
    low, high = reached.min(axis=0), reached.max(axis=0)
    orientations_xyzw = directions(rng, count, 4)
    margin = 0.05 * (high - low)
    return rng.uniform(low - margin, high + margin, (count, 3)), orientations_xyzw


def near(one: ComparedRobot, count: int, rng: np.random.Generator) -> Poses:
    """Return reachable poses, joints often at limits, pushed outwards by 1 to 10 cm or turned by 10 to 40 degrees."""
    lower, upper = limits(one.robot)
    active = rng.uniform(lower, upper, (count, len(lower)))
    ends = np.where(rng.random(active.shape) < 0.5, lower, upper)
    positions, orientations_xyzw = poses_of(one, np.where(rng.random(active.shape) < 0.3, ends, active))
    is_pushed = rng.random(count) < 0.5
    outwards = positions / np.linalg.norm(positions, axis=1, keepdims=True)
    positions = positions + np.where(is_pushed, rng.uniform(0.01, 0.1, count), 0.0)[:, None] * outwards
    angle = np.where(is_pushed, 0.0, np.radians(rng.uniform(10.0, 40.0, count)))
    return positions, turned(orientations_xyzw, angle, rng)


def proofs_alone(kernel: ProofKernel, robot: ik_service.RobotModel, targets: Poses) -> NDArray[np.int32]:
    """Return the proofs of targets whose search has not begun, 0 for none, without a solve."""
    device, count = wp.get_device("cpu"), len(targets[0])
    settings = np.zeros(SETTINGS_COUNT, np.int32)
    settings[int(PROBLEM_COUNT)], settings[int(SEEDS)] = count, 2**15
    task: Any = proof_task(kernel, robot, device)
    task.fault = wp.zeros(1, dtype=wp.int32, device=device)
    task.settings = task.count = wp.array(settings, dtype=wp.int32, device=device)
    task.problem = wp.array(np.arange(count), dtype=wp.int32, device=device)
    task.tolerances = wp.array([POSITION, ORIENTATION], dtype=wp.float64, device=device)
    task.positions = wp.array(targets[0], dtype=wp.float32, device=device)
    task.orientations_xyzw = wp.array(targets[1], dtype=wp.float32, device=device)
    task.tool = wp.array([[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]], dtype=wp.transformd, device=device)
    ends = robot.active_limit_lower, robot.active_limit_upper
    task.limit_lower, task.limit_upper = (wp.array(end[None], dtype=wp.float64, device=device) for end in ends)
    task.searches = zeroed(Searches, device, (count, 1), branch_joint_q=(count, 1, BRANCH_NUMBERS))
    task.best = zeroed(BestAttempts, device, (count, 1))
    task.best.rank.fill_(int(FAILED))
    for phase in (0, 1):
        wp.launch(kernel.kernel, 1, [task, phase, 0, 1], device=device)
    found: NDArray[np.int32] = task.searches.proof.numpy()[:, 0]
    return found


def show(report: Report, *, poses: int, targets: int, seeds: int) -> None:
    """Measure and print the table."""
    report.line(
        f"Wrong proofs: {poses} targets at the ends of tolerances of reachable poses, half of them at joint limits or "
        f"near right angles; and all proven targets of both sets, each tried again with {seeds} other seeds."
    )
    columns = ("not solved", "proven", *PROOFS, "us a target", "us a proven one")
    report.table("arm", "set", *columns)
    wrong, tried = 0, 0
    for one in (*ARMS, *MORE_ARMS):
        kernel = proof_kernel_of(one.robot, one.links[0], Lanes.on_cpu())
        if kernel is None:  # the arm has no closed form
            continue
        rng = np.random.default_rng(0)
        for first in range(0, poses, CHUNK):
            reachable = at_the_ends_of_tolerances(one, min(CHUNK, poses - first), rng)
            wrong += np.count_nonzero(proofs_alone(kernel, one.robot, reachable))
        solver = ik_service.IKSolver(one.robot, list(one.links), device="cpu", threads=1)
        for name, make in (("box", box), ("near", near)):
            given = make(one, targets, rng)
            result, times = timed(partial(solver.solve, *given), 3)
            proven = result.status == IKStatus.UNREACHABLE
            of_proven = tuple(array[proven] for array in given)
            kinds = np.bincount(proofs_alone(kernel, one.robot, of_proven), minlength=4)[1:]
            only = timed(partial(solver.solve, *of_proven), 3)[1]
            again = {"random_seed": 77, "seeds": seeds, "best_of": "cost"}
            some = tuple(array[: targets // 10] for array in of_proven)
            wrong += np.count_nonzero(solver.solve(*some, options=again).success)
            tried += len(some[0])
            left = np.count_nonzero(~result.success)
            share = proven.sum() / left
            if name == "box":
                what, bound = f"{one.name}: proven in the box", PROVEN_IN_BOX[len(kernel.arm.dofs)]
                report.claim(what, f"{100 * share:.2f} %", f"{100 * bound:g} %", share >= bound)
            each = [f"{100 * kind / left:.1f} %" for kind in kinds]
            report.row(one.name, name, left, f"{100 * share:.2f} %", *each, f"{times.least:.2f}", f"{only.least:.2f}")
    report.claim("wrong proofs", f"{wrong} of {poses} poses of each arm and {tried} proven targets", "0", wrong == 0)


if __name__ == "__main__":
    sizes = {"poses": (100_000, 1_000_000), "targets": (5_000, 20_000), "seeds": 256}
    benchmark("Targets out of reach", show, sizes=sizes)
