"""What gradients of many answers and poses cost, with PyTorch Kinematics beside them.

python -m benchmarks.accuracy.gradient_cost [--write benchmarks/accuracy/gradient_cost.md]

CPU time of one pinned core. Poses of PyTorch Kinematics are judged by ours in float64, and so are its gradients.
"""

import os
import time
from collections.abc import Callable

import numpy as np

import ik_service
from benchmarks.peers.environments import PeerMissingError, run_peer
from benchmarks.report import Report, machine, measured
from ik_service.robots import builtin_urdf
from ik_service.solver.derivatives.link_poses import LinkChains

COUNT, REPEATS, SEED = 10_000, 9, 0
SOLVE_BOUND, POSE_BOUND = 3.0, 0.3
"""Microseconds that are allowed: a Panda's answer derived and pulled back, and its poses with theirs."""
CASES = {
    "panda": ("panda_hand",),
    "ur5e": ("tool0",),
    "iiwa14": ("iiwa_link_ee",),
    "dual_panda": ("left_panda_hand", "right_panda_hand"),
    "humanoid": ("left_grasp", "right_grasp"),
}
Times = tuple[float, float, float]
PEER, REQUIREMENTS = "torch_kinematics", ("torch==2.13.0", "pytorch-kinematics==0.10.*")


def microseconds(work: Callable[[], object], count: int = COUNT) -> Times:
    """Return least, median and largest CPU time of something, for each of so many [us]."""
    times = []
    for _ in range(REPEATS):
        begun = time.process_time_ns()
        work()
        times.append((time.process_time_ns() - begun) / 1e3 / count)
    return min(times), float(np.median(times)), max(times)


def _cell(times: Times) -> str:
    return f"{times[1]:.2f} ({times[0]:.2f} to {times[2]:.2f})"


def show(report: Report) -> None:
    """Measure all robots."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    report.section(
        "Many at once",
        f"Answers to {COUNT} random poses of links, derived by `solver.linearise` and pulled back by `vjp`; poses of "
        "the links with `LinkChains`, and gradients by them pulled back. One core, "
        f"{machine()}; microseconds for each, median of {REPEATS} and range. Solving them is not counted.",
    )
    report.table("robot", "links", "with derivatives", "answer: derived, pulled back", "poses", "pulled back")
    measured_robots = {name: _of_robot(name, links) for name, links in CASES.items()}
    for name, (share, *times) in measured_robots.items():
        report.row(name, len(CASES[name]), f"{share:.2f} %", *map(_cell, times))
    report.line("")
    _, answer, forth, back = measured_robots["panda"]
    of_answer, of_poses = answer[1], forth[1] + back[1]
    report.claim("a Panda's answer", f"{of_answer:.2f} us", f"{SOLVE_BOUND:g} us", of_answer <= SOLVE_BOUND)
    report.claim("a Panda's poses and gradient", f"{of_poses:.2f} us", f"{POSE_BOUND:g} us", of_poses <= POSE_BOUND)
    _show_peer(report)


def _of_robot(name: str, links: tuple[str, ...]) -> tuple[float, Times, Times, Times]:
    """Give the share of answers with derivatives [%], and times: of answers, poses, gradients by these [us]."""
    robot, rng = ik_service.load_robot(name, collision="ignore"), np.random.default_rng(SEED)
    joint_q, chains = robot.random_joint_q(rng, COUNT), LinkChains(robot, links)
    poses = chains.poses(joint_q)
    solver = ik_service.IKSolver(robot, list(links), device="cpu")
    targets = [poses[..., :3], poses[..., 3:]] if len(links) > 1 else [poses[:, 0, :3], poses[:, 0, 3:]]
    result = solver.solve(*targets)
    by_q, by_poses = rng.normal(size=(COUNT, robot.joint_dof_count)), rng.normal(size=poses.shape)
    share = 100.0 * float(solver.linearise(result, *targets).is_differentiable.mean())
    return (
        share,
        microseconds(lambda: solver.linearise(result, *targets).vjp(by_q)),
        microseconds(lambda: chains.poses(joint_q)),
        microseconds(lambda: chains.pull_back(joint_q, by_poses)),
    )


def _show_peer(report: Report) -> None:
    robot = ik_service.load_robot("panda", collision="ignore")
    joint_q = robot.random_joint_q(np.random.default_rng(SEED), COUNT)
    (link,) = CASES["panda"]
    report.section(
        "PyTorch Kinematics",
        "The same Panda, the same configurations, one thread: poses by `Chain.forward_kinematics`, and the gradient of "
        "the sum of the entries of the link's matrix by `backward`, in float32 and float64.",
    )
    try:
        found = run_peer(
            PEER, REQUIREMENTS, f"{PEER}.py", urdf=builtin_urdf("panda"), link=link, joint_q=joint_q, repeats=REPEATS
        )
    except PeerMissingError as error:
        report.line(f"Not measured: {error}.")
        return
    ours = LinkChains(robot, [link]).poses(joint_q)[:, 0, :3]
    report.table("numbers", "poses", "poses and gradient", "largest distance from ours [m]")
    for kind in ("float32", "float64"):
        times = [1e6 * found[f"{what}_{kind}"] / COUNT for what in ("poses", "gradient")]
        cells = [_cell((one.min(), float(np.median(one)), one.max())) for one in times]
        report.row(kind, *cells, f"{np.abs(found[f'positions_{kind}'] - ours).max():.1e}")


if __name__ == "__main__":
    measured("What gradients cost", __doc__, show)
