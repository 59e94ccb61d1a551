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
from ik_service.solver.linearisation.link_poses import LinkChains

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
PEER, REQUIREMENTS = "torch_kinematics", ("torch==2.13.0", "pytorch-kinematics==0.10.1")


def microseconds(work: Callable[[], object], count: int = COUNT) -> tuple[float, float, float]:
    """Return least, median and largest CPU time of something, for each of so many [us]."""
    times = []
    for _ in range(REPEATS):
        begun = time.process_time_ns()
        work()
        times.append((time.process_time_ns() - begun) / 1e3 / count)
    return min(times), float(np.median(times)), max(times)


def _cell(times: tuple[float, float, float]) -> str:
    return f"{times[1]:.2f} ({times[0]:.2f} to {times[2]:.2f})"


def show(report: Report) -> None:
    """Measure all robots."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    report.section(
        "Many at once",
        f"Answers to {COUNT} random poses of links, derived by `solver.linearise` and pulled back by `vjp`; poses of "
        f"the links with `LinkChains`, and gradients by them pulled back. One core, {machine()}; microseconds for each, "
        f"median of {REPEATS} and range. Solving them is not counted.",
    )
    report.table("robot", "links", "with derivatives", "answer: derived, pulled back", "poses", "pulled back")
    totals = {}
    for name, links in CASES.items():
        robot = ik_service.load_robot(name, collision="ignore")
        rng = np.random.default_rng(SEED)
        joint_q = robot.random_joint_q(rng, COUNT)
        chains = LinkChains(robot, links)
        poses = chains.poses(joint_q)
        solver = ik_service.IKSolver(robot, list(links), device="cpu")
        targets = [poses[:, 0, :3], poses[:, 0, 3:]] if len(links) == 1 else [poses[..., :3], poses[..., 3:]]
        result = solver.solve(*targets)
        by_q, by_poses = rng.normal(size=(COUNT, robot.joint_dof_count)), rng.normal(size=poses.shape)
        found = solver.linearise(result, *targets)
        answer = microseconds(lambda: solver.linearise(result, *targets).vjp(by_q))
        forth = microseconds(lambda: chains.poses(joint_q))
        back = microseconds(lambda: chains.pull_back(joint_q, by_poses))
        totals[name] = answer[1], forth[1] + back[1]
        share = f"{100 * found.is_differentiable.mean():.2f} %"
        report.row(name, len(links), share, *map(_cell, (answer, forth, back)))
    report.line("")
    answer_us, poses_us = totals["panda"]
    report.claim(
        "a Panda's answer, derived and pulled back",
        f"{answer_us:.2f} us",
        f"{SOLVE_BOUND:g} us",
        answer_us <= SOLVE_BOUND,
    )
    report.claim("a Panda's poses, with gradient", f"{poses_us:.2f} us", f"{POSE_BOUND:g} us", poses_us <= POSE_BOUND)
    _show_peer(report)


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
