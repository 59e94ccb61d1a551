"""Solvers that are compared: each gets the same targets and gives back answers with the CPU time of every run.

A peer runs in an environment of its own; where that cannot be made, `peers.environments.PeerMissingError` says why.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ik_service
from benchmarks.peers.environments import NEWTON, NEWTON_ITERATIONS, run_peer
from benchmarks.problems.compared_robots import ComparedRobot
from benchmarks.problems.pose_problems import SOLVED, PoseProblems, rotations, transforms
from benchmarks.run import Times, timed
from ik_service.cli.pose_problems import TOLERANCES

PINOCCHIO = ("libpinocchio==4.1.0", "cmeel-eigen==3.4.1", "cmeel-urdfdom-headers==3.0.0", "numpy")
OPTIK = ("optik-py==0.5.0", "numpy")
NEWTON_SEEDS, PINOCCHIO_SEEDS, PINOCCHIO_ITERATIONS = 16, 200, 60
TIGHT = TOLERANCES[2]  # where the loop on Pinocchio stops [m, rad]
OPTIK_TIME = 0.1  # [s] for one target
PROBE = 32  # problems that tell how long one takes


@dataclass(frozen=True)
class Answers:
    """What a solver gave back."""

    who: str  # name and version
    joint_q: NDArray[np.floating]  # answers in our coordinates, shape [n, joint_coord_count]
    times: Times  # CPU time of each run
    per_target: NDArray[np.float64] | None = None  # median of the runs [us]; None where solved together
    result: ik_service.IKResult | None = None  # our own result
    tolerance: tuple[float, float] = SOLVED  # tolerances that our solver was given [m, rad]
    slack: float = 0.0  # what joints may pass their limits by [rad]

    def share(self, problems: PoseProblems, tolerance: tuple[float, float] = SOLVED) -> float:
        """Return the share of problems that are solved, by the judge."""
        return float(problems.met(self.joint_q, tolerance, self.slack).mean())

    def per_solved(self, problems: PoseProblems) -> float:
        """Return the time per target solved at 1 mm and 0.01 rad [us]."""
        return self.times.median / max(self.share(problems), 1e-9)


def make_solver(
    case: ComparedRobot, *, engine: str = "compiled", threads: int | None = None, **options: Any
) -> ik_service.IKSolver:
    """Return our solver on the CPU; the staged engine where the compiled one does not cover the problem."""
    given = {"device": "cpu", "threads": threads, "options": ik_service.SolverOptions(**options)}
    try:
        solver = ik_service.IKSolver(case.robot, list(case.links), engine=engine, **given)
        solver.solve(*case.problems(1, random_seed=0).given)
    except ik_service.EngineError:
        if engine == "staged" or threads is not None:
            raise
        return make_solver(case, engine="staged", **options)
    return solver


def solve_with_ours(
    case: ComparedRobot,
    problems: PoseProblems,
    repeats: int,
    *,
    engine: str = "compiled",
    threads: int | None = None,
    clock: Callable[[], float] = time.process_time,
    has_orientation: bool = True,
    **options: float,
) -> Answers:
    """Return the answers of the public call, NumPy arrays in and out, checks and judgement included."""
    solver = make_solver(case, engine=engine, threads=threads, **options)
    given = problems.given if has_orientation else (problems.positions, None)
    result, times = timed(partial(solver.solve, *given), repeats, clock=clock)
    tolerance = solver.options.position_tolerance, solver.options.orientation_tolerance
    return Answers(f"ours, {result.engine}", result.joint_q, times, result=result, tolerance=tolerance)


def affordable(case: ComparedRobot, problems: PoseProblems, seconds: float) -> PoseProblems:
    """Return as many of the problems as our solver works through in about that time."""
    solver, probe = make_solver(case), problems.first(PROBE)
    _, times = timed(partial(solver.solve, *probe.given), 1)
    return problems.first(int(np.clip(1e6 * seconds / times.median, PROBE, len(problems))))


def newton_problems(case: ComparedRobot, problems: PoseProblems) -> dict[str, Any]:
    """Return what newton.ik is given for one link."""
    return {
        "urdf": case.path.read_text(encoding="utf-8"),
        "link": case.links[0],
        "positions": problems.positions[:, 0].astype(np.float32),
        "orientations_xyzw": problems.orientations_xyzw[:, 0].astype(np.float32),
        "seeds": NEWTON_SEEDS,
        "iterations": NEWTON_ITERATIONS,
    }


def solve_with_newton(case: ComparedRobot, problems: PoseProblems, repeats: int) -> Answers:
    """Return the answers of newton.ik for one link; its limits are soft."""
    saved = run_peer("newton", (NEWTON,), "newton_ik.py", **newton_problems(case, problems), repeats=repeats)
    return Answers(f"newton.ik {NEWTON.split('=')[-1]}", saved["joint_q"], Times(1e6 * saved["times"] / len(problems)))


def pinocchio_problems(problems: PoseProblems, seeds: int, tolerance: tuple[float, float]) -> dict[str, Any]:
    """Return what the loop on Pinocchio is given."""
    return {
        "positions": problems.positions,
        "orientations_xyzw": problems.orientations_xyzw,
        "links": list(problems.links),
        "seeds": seeds,
        "iterations": PINOCCHIO_ITERATIONS,
        "position_tolerance": tolerance[0],
        "orientation_tolerance": tolerance[1],
    }


def solve_with_pinocchio(
    case: ComparedRobot, problems: PoseProblems, repeats: int, *, seeds: int = PINOCCHIO_SEEDS
) -> Answers:
    """Return the answers of the C++ loop on Pinocchio, over all joints that move a link."""
    given = pinocchio_problems(problems, seeds, TIGHT)
    saved = run_peer("pinocchio", PINOCCHIO, "pinocchio_lm.py", urdf=str(case.path), repeats=repeats, **given)
    joint_q = np.repeat(case.robot.mid_joint_q[None], len(problems), axis=0)
    joint_q[:, [case.robot.coordinate_names.index(name) for name in saved["joint_names"]]] = saved["joint_q"]
    return _one_by_one(f"Pinocchio {saved['version']} LM, C++", joint_q, saved["times"])


def solve_with_optik(case: ComparedRobot, problems: PoseProblems, repeats: int, tolerance: float) -> Answers:
    """Return the answers of OptIK for one link, which stops at a length of the pose error's logarithm [m and rad]."""
    given = {
        "base_link": case.robot.link_names[0],
        "link": case.links[0],
        "transforms": transforms(problems.positions[:, 0], rotations(problems.orientations_xyzw[:, 0])),
        "start": case.robot.mid_joint_q,
        "max_time": OPTIK_TIME,
        "tolerance": tolerance,
    }
    saved = run_peer("optik", OPTIK, "optik_ik.py", urdf=str(case.path), repeats=repeats, **given)
    return _one_by_one(f"OptIK {saved['version']}, {tolerance:g}", saved["joint_q"], saved["times"])


def _one_by_one(who: str, joint_q: NDArray[np.float64], seconds: NDArray[np.float64]) -> Answers:
    return Answers(who, joint_q, Times(1e6 * seconds.mean(axis=1)), 1e6 * np.median(seconds, axis=0))
