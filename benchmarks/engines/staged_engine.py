"""Both engines beside newton.ik: CPU time per solved target, same targets, same number of seeds, one run.

python -m benchmarks.engines.staged_engine [--robot panda] [--link panda_hand] [--targets 1000] [--seeds 16]
"""

import argparse
import os
import platform
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import warp as wp
from numpy.typing import NDArray

import ik_service
from benchmarks.peers.environments import SLACK, run_newton
from benchmarks.problems.pose_problems import PoseProblems
from ik_service.cli.pose_problems import TOLERANCES


def run_engine(
    problems: PoseProblems, engine: str, seeds: int, repeats: int
) -> tuple[NDArray[np.float32], list[float]]:
    """Return answers and the CPU time of every run of the public call, checks and judgement included."""
    options = ik_service.SolverOptions(seeds=seeds)
    solver = ik_service.IKSolver(problems.robot, [problems.link], device="cpu", engine=engine, options=options)
    solver.solve(problems.positions, problems.orientations_xyzw)
    times = []
    for _ in range(repeats):
        start = time.process_time()
        result = solver.solve(problems.positions, problems.orientations_xyzw)
        times.append(time.process_time() - start)
    return result.joint_q, times


def describe(
    who: str, problems: PoseProblems, joint_q: NDArray[np.floating], times: Sequence[float], limit_slack: float = 0.0
) -> tuple[str, float]:
    """Return a line of the table and the microseconds per target solved at 1 mm and 0.01 rad."""
    shares = [problems.judge(joint_q, *tolerance, limit_slack).mean() for tolerance in TOLERANCES]
    per_target = 1e6 * np.array(times) / len(joint_q)
    per_solved = float(np.median(per_target) / max(shares[1], 1e-9))
    cells = [who, f"{np.median(per_target):.1f}", f"{per_target.min():.1f} - {per_target.max():.1f}"]
    cells += [f"{share:.2%}" for share in shares] + [f"{per_solved:.1f}"]
    return "| " + " | ".join(cells) + " |", per_solved


def processor() -> str:
    """Return the name of the processor."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


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
    parser.add_argument("--write", type=Path, help="also write the table to this file")
    arguments = parser.parse_args()
    wp.config.log_level = wp.LOG_ERROR
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[0]})
    robot = ik_service.load_robot(arguments.robot, collision="ignore")
    problems = PoseProblems.random(robot, arguments.link, arguments.targets, arguments.random_seed)
    heads = [f"{position * 1e3:g} mm, {orientation:g} rad" for position, orientation in TOLERANCES]
    columns = ["", "us per target, median", "range", *heads, "us per target solved at 1 mm"]
    lines = [
        f"{arguments.robot}: {arguments.targets} random reachable targets, {arguments.seeds} seeds, CPU time of one "
        f"pinned core ({processor()}), {arguments.repeats} runs. Solved means: judged in float64 by forward "
        "kinematics and joint limits.",
        "",
        "| " + " | ".join(columns) + " |",
        "|" + " --- |" * len(columns),
    ]
    ours = {}
    for engine in ("staged", "compiled"):
        answers = run_engine(problems, engine, arguments.seeds, arguments.repeats)
        line, ours[engine] = describe(f"{engine} engine", problems, *answers)
        lines.append(line)
    if not arguments.skip_peer:
        urdf = Path(ik_service.__file__).with_name("robots").joinpath("builtin", f"{arguments.robot}.urdf").read_text()
        peer = run_newton(problems, urdf, arguments.seeds, arguments.repeats)
        lines.append(describe("newton.ik 1.8, exact limits", problems, *peer)[0])
        line, generous = describe(f"newton.ik 1.8, limits + {SLACK:g} rad", problems, *peer, SLACK)
        factors = " and ".join(
            f"{generous / time:.0f} times as long as the {engine} engine" for engine, time in ours.items()
        )
        lines += [line, "", f"Per solved target newton.ik (with the slack) takes {factors}."]
    print("\n".join(lines))
    if arguments.write:
        arguments.write.write_text("# Engines beside newton.ik\n\n" + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
