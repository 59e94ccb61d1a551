"""What steps in the space of the rows are for: long chains, rows of uneven weights, and rows that couple whole bodies.

python -m benchmarks.engines.step_spaces [--write benchmarks/engines/step_spaces.md]
"""

import time
from dataclasses import replace

import numpy as np

import ik_service
from benchmarks.problems.compared_robots import installed
from benchmarks.problems.many_arms import HandProblems, solved
from benchmarks.problems.weighted_poses import WeightedPoses
from benchmarks.report import Report, machine, measured
from ik_service.robots import RobotModel, load_urdf
from ik_service.solver.given.targets import ROTATION_LENGTH
from objectives import IKObjectiveCenterOfMass, IKObjectivePosture

TOLERANCE, REPEATS = (1e-3, 1e-2), 5
COMPROMISES, AWAY, COST_BOUND = 200, 0.5, 1.01
CHAINS = {34: 4.0, 50: 6.0, 100: 12.0, 200: 25.0}  # DOFs, and the bound [us]
UNEVEN = {
    "rotations 1:1000": [1.0, 1.0, 1.0, 1e-3, 1e-3, 1e-3],
    "positions 1:1000": [1e-3, 1e-3, 1e-3, 1.0, 1.0, 1.0],
    "two rows 1:1000": [1e-3, 1.0, 1.0, 1.0, 1e-3, 1.0],
}
ARMS = {  # package (none: built in), file, and the link that has a target
    "Panda": (None, "panda", "panda_hand"),
    "UR5e": (None, "ur5e", "tool0"),
    "xArm7": ("example-robot-data", "xarm_description/urdf/xarm7.urdf", "link_eef"),
    "Kinova": ("example-robot-data", "kinova_description/robots/kinova.urdf", "j2s6s200_end_effector"),
    "Panda of frax": ("frax", "franka_panda/panda.urdf", "panda_hand"),
}
BODIES = {  # hands, then feet
    "humanoid": (None, "humanoid", ("left_grasp", "right_grasp", "left_sole", "right_sole")),
    "Talos": (
        "example-robot-data",
        "talos_data/robots/talos_full_v2.urdf",
        ("gripper_left_base_link", "gripper_right_base_link", "left_sole_link", "right_sole_link"),
    ),
    "iCub": ("example-robot-data", "icub_description/robots/icub.urdf", ("l_hand", "r_hand", "l_sole", "r_sole")),
    "G1 of frax": (
        "frax",
        "unitree_g1/g1_29dof_rev_1_0.urdf",
        ("left_rubber_hand", "right_rubber_hand", "left_ankle_roll_link", "right_ankle_roll_link"),
    ),
}


def chain(dofs: int) -> RobotModel:
    """Return a chain of revolute joints whose axes change from joint to joint."""
    axes = ("0 0 1", "0 1 0", "1 0 0")
    joints = [
        f'<link name="link{k + 1}"/><joint name="joint{k}" type="revolute"><parent link="link{k}"/>'
        f'<child link="link{k + 1}"/><origin xyz="0 0 0.1"/><axis xyz="{axes[(2 * k + k // 3) % 3]}"/>'
        '<limit lower="-1.5" upper="1.5" effort="1" velocity="1"/></joint>'
        for k in range(dofs)
    ]
    return load_urdf(f'<robot name="chain"><link name="link0"/>{"".join(joints)}</robot>')


def robot_of(package: str | None, ending: str, *, floating: bool = False) -> RobotModel:
    """Return a built-in robot, or one of a package."""
    if package is None:
        return ik_service.load_robot(ending, collision="ignore")
    return ik_service.load_robot(installed(package, ending), floating_base=floating)


def measure(problems: HandProblems, solver: ik_service.IKSolver, cold: float, seeds: int | None = None) -> list[str]:
    """Return cells: cold [s], CPU time per problem [us], success by host kinematics [%], iterations."""
    given = problems.positions, problems.orientations_xyzw
    options = ik_service.SolverOptions(seeds=seeds)
    begin = time.process_time()
    result = solver.solve(*given, options=options)
    cold, times = cold + time.process_time() - begin, []
    for _ in range(REPEATS):
        begin = time.process_time()
        result = solver.solve(*given, options=options)
        times.append((time.process_time() - begin) / len(result.success) * 1e6)
    good = solved(problems, result.joint_q, TOLERANCE)
    if (result.success & ~good).any():
        raise SystemExit("a success is none")
    return [f"{cold:.1f}", f"{min(times):.2f}", f"{100 * good.mean():.2f}", f"{result.iterations.mean():.1f}"]


def made(robot: RobotModel, targets: list, objectives: list | None = None) -> tuple[ik_service.IKSolver, float]:
    """Return a solver, and the seconds that making it took."""
    begin = time.process_time()
    solver = ik_service.IKSolver(robot, targets, objectives=objectives or [], device="cpu")
    return solver, time.process_time() - begin


def show_chains(report: Report) -> None:
    """Chains with one target at the end."""
    report.section("Chains", "One pose target at the end; 2000 random reachable poses. Bounds: 4, 6, 12 and 25 us.")
    report.table("DOFs", "engine", "cold [s]", "target [us]", "success [%]", "iterations")
    for dofs, bound in CHAINS.items():
        problems = HandProblems.random(chain(dofs), [f"link{dofs}"], 2000, 1)
        solver, cold = made(problems.robot, problems.links)
        cells = measure(problems, solver, cold)
        report.row(dofs, solver.engine, *cells)
        report.missed += [f"chain of {dofs}"] if float(cells[1]) > bound else []


def show_uneven(report: Report) -> None:
    """Rows of one target, or targets of one body, with uneven weights."""
    report.section("Uneven weights", "Rows of one target; then hands against feet of Talos with a floating base.")
    report.table("robot", "weights", "cold [s]", "target [us]", "success [%]", "iterations")
    for name, (package, ending, link) in ARMS.items():
        problems = HandProblems.random(robot_of(package, ending), [link], 4000, 2)
        for label, row_weights in {"even": [1.0] * 6, **UNEVEN}.items():
            solver, cold = made(problems.robot, [ik_service.Target(link, row_weights=row_weights)])
            report.row(name, label, *measure(problems, solver, cold))
    package, ending, links = BODIES["Talos"]
    problems = HandProblems.random(robot_of(package, ending, floating=True), list(links), 1000, 3)
    for ratio in (1, 100, 1000):
        weights = [[1.0 / ratio] * 6] * 2 + [[1.0] * 6] * 2
        targets = [ik_service.Target(link, row_weights=own) for link, own in zip(links, weights, strict=True)]
        solver, cold = made(problems.robot, targets)
        report.row("Talos", f"hands 1:{ratio}", *measure(problems, solver, cold))


def show_compromises(report: Report) -> None:
    """What uneven weights cost where targets cannot all be met."""
    report.section(
        "Uneven weights out of reach",
        f"{COMPROMISES} poses of hands and feet of Talos with a floating base, each moved away by {AWAY:g} m (standard "
        "deviation); those that are met are left out. Cost of the answer over that of the minimum next to it, which a "
        f"descent in float64 finds. Bound of the median with hands against feet 1:1000: {COST_BOUND:g}.",
    )
    report.table("robot", "weights", "compared", "median", "90 %")
    package, ending, links = BODIES["Talos"]
    poses = WeightedPoses.draw(
        robot_of(package, ending, floating=True), links, COMPROMISES, random_seed=5, away=AWAY, weight=0.0
    )
    for ratio in (1, 100, 1000):
        weights = np.array([1.0 / ratio] * 2 + [1.0] * 2)
        targets = [ik_service.Target(link, row_weights=[own] * 6) for link, own in zip(links, weights, strict=True)]
        result = made(poses.robot, targets)[0].solve(poses.positions, poses.orientations_xyzw)
        weighed = replace(poses, link_weights=np.float32(weights)[:, None] * np.array([1.0, ROTATION_LENGTH]))
        over = (weighed.costs(result.joint_q) / weighed.least_costs(result.joint_q))[~result.success]
        shares = (f"{np.percentile(over, share):.4f}" for share in (50, 90))
        report.row("Talos", f"hands 1:{ratio}", len(over), *shares)
        if ratio == 1000 and np.median(over) > COST_BOUND:
            report.missed.append("cost of uneven weights")


def show_bodies(report: Report) -> None:
    """Hands and feet, with a centre of mass and a posture; the time of one attempt."""
    report.section(
        "Whole bodies",
        "Hands and feet with a floating base; 500 poses, one seed: an attempt. Bounds: 50 us, 10 s cold.",
    )
    report.table("robot", "rows besides", "engine", "cold [s]", "attempt [us]", "success [%]", "iterations")
    for name, (package, ending, links) in BODIES.items():
        robot = robot_of(package, ending, floating=package is not None)
        problems = HandProblems.random(robot, list(links), 500, 4)
        centre = robot.center_of_mass(robot.random_joint_q(np.random.default_rng(4), 500))
        posture = IKObjectivePosture(robot.mid_joint_q, weight=1e-3)
        for label, further in (
            ("none", []),
            ("centre of mass", [IKObjectiveCenterOfMass(centre)]),
            ("centre of mass and posture", [IKObjectiveCenterOfMass(centre), posture]),
        ):
            solver, cold = made(robot, list(links), further)
            cells = measure(problems, solver, cold, seeds=1)
            report.row(name, label, solver.engine, *cells)
            report.missed += [f"{name}, {label}"] if float(cells[1]) > 50.0 or float(cells[0]) > 10.0 else []


def show(report: Report) -> None:
    """Measure and add the tables."""
    report.line("")
    report.line(
        f"{machine()}, one core. CPU time per problem, least of {REPEATS}; success within 1 mm and 0.01 rad by "
        "kinematics of the host in float64. Cold: CPU seconds to make the solver and to solve first, with an empty "
        "kernel cache."
    )
    # What every solver needs is compiled before, so that it counts for none.
    panda = HandProblems.random(ik_service.load_robot("iiwa14", collision="ignore"), ["iiwa_link_ee"], 1, 0)
    made(panda.robot, panda.links)[0].solve(panda.positions, panda.orientations_xyzw)
    show_chains(report)
    show_uneven(report)
    show_compromises(report)
    show_bodies(report)


if __name__ == "__main__":
    measured("Steps in the space of the rows", __doc__, show)
