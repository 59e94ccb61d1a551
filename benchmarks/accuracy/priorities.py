"""Objectives that yield to targets: what they cost, whether targets are met, and how near they come to their minimum.

python -m benchmarks.accuracy.priorities [--write benchmarks/accuracy/priorities.md]

Success is judged by kinematics of the host in float64. The minimum is that of SciPy's SLSQP from each answer on.
"""

import time

import numpy as np

import ik_service
from benchmarks.engines.step_spaces import ARMS, BODIES, robot_of
from benchmarks.peers.environments import run_peer
from benchmarks.problems.many_arms import HandProblems, solved
from benchmarks.report import Report, machine, measured
from objectives import IKObjective, IKObjectiveCenterOfMass, IKObjectivePosture

TOLERANCE, REPEATS, SEED = (1e-3, 1e-2), 7, 5
WEIGHTS = (0.001, 0.03, 1.0)
ARM_BOUND_US, BODY_BOUND_US, NEAR, COMPARED = 4.0, 50.0, 1.01, 200
SCIPY = "scipy==1.16.*"


def measure(
    problems: HandProblems, objectives: list[IKObjective]
) -> tuple[ik_service.IKResult, float, np.ndarray, list[str]]:
    """Return the answers, CPU time per problem [us], which targets are met, and cells for these."""
    solver = ik_service.IKSolver(problems.robot, list(problems.links), objectives=objectives, device="cpu")
    times = []
    for _ in range(REPEATS + 1):
        begin = time.process_time()
        result = solver.solve(problems.positions, problems.orientations_xyzw)
        times.append((time.process_time() - begin) / len(result.success) * 1e6)
    good = solved(problems, result.joint_q, TOLERANCE)
    if (result.success & ~good).any():
        raise SystemExit("a success is none")
    own = sorted(times[1:])
    spread = f"{own[0]:.2f} to {own[-1]:.2f}"
    return result, own[REPEATS // 2], good, [f"{own[REPEATS // 2]:.2f}", spread, f"{100 * good.mean():.2f}"]


def compare(problems: HandProblems, result: ik_service.IKResult, reference: np.ndarray) -> list[str]:
    """Return cells: shares of answers within 1 % and 10 % of SciPy's minimum [%], and the worst ratio."""
    robot, n = problems.robot, COMPARED
    chain, body = [], robot.link_frame(problems.links[0])[0]
    while body >= 0:
        chain.insert(0, body)
        body = int(robot.joint_parent[body])
    dofs = [int(robot.joint_qd_start[joint]) for joint in chain]
    found = run_peer(
        "scipy",
        ("numpy", SCIPY),
        "scipy_posture.py",
        frames=robot.joint_X_p[chain],
        axes=robot.joint_axis[dofs],
        tool=robot.link_frame(problems.links[0])[1],
        lower=robot.joint_limit_lower[dofs],
        upper=robot.joint_limit_upper[dofs],
        reference=reference[dofs],
        starts=result.joint_q[:n, dofs].astype(np.float64),
        positions=problems.positions[:n, 0],
        orientations=problems.orientations_xyzw[:n, 0],
    )
    own = 0.5 * ((result.joint_q[:n, dofs] - reference[dofs]) ** 2).sum(axis=1)
    usable = (found["missed"] < 1e-6) & (found["costs"] > 1e-9)
    ratio = own[usable] / found["costs"][usable]
    shares = [f"{100 * (ratio <= bound).mean():.1f}" for bound in (NEAR, 1.1)]
    return [f"{usable.sum()}", *shares, f"{ratio.max():.3f}"]


def show(report: Report) -> None:
    """Measure and add the tables."""
    report.line("")
    report.line(
        f"{machine()}, one core. CPU time per problem, median and range of {REPEATS} solves; targets met within 1 mm "
        "and 0.01 rad. Weights are those of the posture; the answers to weights that are a power of two apart are the "
        "same to the bit."
    )
    report.section(
        "Arms",
        f"4000 reachable poses and a posture drawn at random. Bounds: {ARM_BOUND_US} us and 99.9 % on the Panda. Then "
        f"the costs of the first {COMPARED} beside the minima that SLSQP finds from these answers on, where it meets "
        "its equations within 1e-6.",
    )
    report.table(
        "robot", "posture", "target [us]", "range", "met [%]", "compared", "within 1 % [%]", "within 10 % [%]", "worst"
    )
    for name, (package, ending, link) in ARMS.items():
        problems = HandProblems.random(robot_of(package, ending), [link], 4000, SEED)
        reference = problems.robot.random_joint_q(np.random.default_rng(6), 1)[0]
        report.row(name, "none", *measure(problems, [])[3], *4 * ["-"])
        for weight in WEIGHTS:
            result, median, good, cells = measure(problems, [IKObjectivePosture(reference, weight=weight)])
            report.row(name, f"{weight:g}", *cells, *compare(problems, result, reference))
            if name.startswith("Panda"):
                report.missed += [f"{name}, {weight:g}"] if median > ARM_BOUND_US or good.mean() < 0.999 else []
    report.section(
        "Whole bodies",
        "Hands and feet with a floating base; 500 reachable poses, a posture of weight 0.1 and the centre of mass of "
        f"the drawn configuration. Bound: {BODY_BOUND_US:g} us.",
    )
    report.table("robot", "rows besides", "problem [us]", "range", "met [%]")
    for name, (package, ending, links) in BODIES.items():
        robot = robot_of(package, ending, floating=package is not None)
        joint_q = robot.random_joint_q(np.random.default_rng(SEED), 500)
        problems = HandProblems.random(robot, list(links), 500, SEED)
        centre = robot.center_of_mass(joint_q)
        for label, make in (
            ("none", lambda robot=robot, centre=centre: []),
            ("posture", lambda robot=robot, centre=centre: [IKObjectivePosture(robot.mid_joint_q, weight=0.1)]),
            (
                "posture and centre of mass",
                lambda robot=robot, centre=centre: [
                    IKObjectivePosture(robot.mid_joint_q, weight=0.1),
                    IKObjectiveCenterOfMass(centre),
                ],
            ),
        ):
            _, median, _, cells = measure(problems, make())
            report.row(name, label, *cells)
            report.missed += [f"{name}, {label}"] if median > BODY_BOUND_US else []


if __name__ == "__main__":
    measured("Objectives that yield to targets", __doc__, show)
