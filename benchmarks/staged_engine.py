"""The staged engine beside newton.ik: CPU time per solved target, same targets, same number of seeds, one run.

python benchmarks/staged_engine.py [--robot panda] [--link panda_hand] [--targets 1000] [--seeds 16]
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from problems import PoseProblems

import ik_service

HERE = Path(__file__).parent
NEWTON = "newton==1.8.0"
NEWTON_ITERATIONS = 24
SLACK = 1e-4  # [rad] allowed to newton.ik, whose limits are soft: without it a fifth of its answers would fail
TOLERANCES = ((5e-3, 5e-2), (1e-3, 1e-2), (1e-5, 1e-4))


def run_staged(problems: PoseProblems, seeds: int, repeats: int) -> tuple[NDArray[np.float32], list[float]]:
    """Return answers and the CPU time of every run of the public call, checks and judgement included."""
    options = ik_service.SolverOptions(seeds=seeds)
    solver = ik_service.IKSolver(problems.robot, [problems.link], device="cpu", engine="staged", options=options)
    solver.solve(problems.positions, problems.orientations_xyzw)
    times = []
    for _ in range(repeats):
        start = time.process_time()
        result = solver.solve(problems.positions, problems.orientations_xyzw)
        times.append(time.process_time() - start)
    return result.joint_q, times


def run_newton(problems: PoseProblems, urdf: str, seeds: int, repeats: int) -> tuple[NDArray[np.float32], list[float]]:
    """Return answers and the CPU time of every run of newton.ik, from its own environment."""
    python = peer_environment("newton", NEWTON)
    with tempfile.TemporaryDirectory() as folder:
        given, answers = Path(folder, "problems.npz"), Path(folder, "answers.npz")
        np.savez(
            given,
            urdf=urdf,
            link=problems.link,
            positions=problems.positions.astype(np.float32),
            orientations_xyzw=problems.orientations_xyzw.astype(np.float32),
            seeds=seeds,
            iterations=NEWTON_ITERATIONS,
            repeats=repeats,
        )
        subprocess.run([python, HERE / "peers" / "newton_ik.py", given, answers], check=True)
        with np.load(answers) as saved:
            return saved["joint_q"], list(saved["times"])


def peer_environment(name: str, *requirements: str) -> Path:
    """Return the Python of an environment with a peer in it, made on first use."""
    folder = HERE / ".environments" / name
    if not folder.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([folder / "bin" / "pip", "install", "-q", *requirements], check=True)
    return folder / "bin" / "python"


def report(
    who: str, problems: PoseProblems, joint_q: NDArray[np.float32], times: list[float], limit_slack: float = 0.0
) -> float:
    """Print a line and return the microseconds per target solved at 1 mm and 0.01 rad."""
    shares = [problems.judge(joint_q, *tolerance, limit_slack).mean() for tolerance in TOLERANCES]
    per_target = 1e6 * np.array(times) / len(joint_q)
    per_solved = float(np.median(per_target) / max(shares[1], 1e-9))
    successes = "  ".join(f"{share:7.2%}" for share in shares)
    spread = f"{per_target.min():.1f}-{per_target.max():.1f}"
    print(f"{who:28s} {np.median(per_target):9.1f} us  ({spread:>15s})  {successes}  {per_solved:9.1f} us/solved")
    return per_solved


def main() -> None:
    """Run both and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--robot", default="panda")
    parser.add_argument("--link", default="panda_hand")
    parser.add_argument("--targets", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--random-seed", type=int, default=0)
    parser.add_argument("--skip-peer", action="store_true")
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[0]})
    robot = ik_service.load_robot(arguments.robot)
    problems = PoseProblems.random(robot, arguments.link, arguments.targets, arguments.random_seed)
    print(f"{arguments.robot}, {arguments.targets} random reachable targets, {arguments.seeds} seeds, one pinned core")
    heads = "  ".join(f"{position:g}/{orientation:g}" for position, orientation in TOLERANCES)
    print(f"{'':28s} CPU time per target, median (range)   solved within m/rad: {heads}")
    ours = report("staged engine", problems, *run_staged(problems, arguments.seeds, arguments.repeats))
    if not arguments.skip_peer:
        urdf = Path(ik_service.__file__).with_name("robots").joinpath("builtin", f"{arguments.robot}.urdf").read_text()
        peer = run_newton(problems, urdf, arguments.seeds, arguments.repeats)
        report("newton.ik, exact limits", problems, *peer)
        generous = report(f"newton.ik, limits + {SLACK:g}", problems, *peer, SLACK)
        print(f"newton.ik takes {generous / ours:.1f} times as long per solved target (its limits taken with slack)")


if __name__ == "__main__":
    main()
