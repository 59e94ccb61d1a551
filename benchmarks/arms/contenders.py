"""Solvers that are compared: each gets the same targets and gives back answers with the CPU time of every run.

A peer runs in an environment of its own; where that cannot be made, `peers.environments.PeerMissingError` says why.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import ik_service
from benchmarks.peers.environments import NEWTON, run_newton, run_peer
from benchmarks.problems.compared_robots import ComparedRobot
from benchmarks.problems.many_arms import HandProblems
from ik_service.mechanism.transforms import quaternion_rotate

PINOCCHIO = ("libpinocchio==4.1.0", "cmeel-eigen==3.4.1", "cmeel-urdfdom-headers==3.0.0", "numpy")
OPTIK = ("optik-py==0.5.0", "numpy")
NEWTON_SEEDS = 16
PINOCCHIO_SEEDS = 200
PINOCCHIO_ITERATIONS = 60
TIGHT = (1e-5, 1e-4)  # [m], [rad]: where the Pinocchio loop stops
OPTIK_TIME = 0.1  # [s] for one target
PROBE = 32  # problems that tell how long one takes


@dataclass(frozen=True)
class Answers:
    """What a solver gave back.

    Attributes:
        who: Name and version.
        joint_q: Answers in our coordinates, shape [n, joint_coord_count].
        times: CPU time of each run over all targets [s], shape [repeats].
        per_target: CPU time of each target [s], median of the runs, shape [n]; None where targets are solved together.
        result: Our own result.
        tolerance: Tolerances that our solver was given [m, rad].
    """

    who: str
    joint_q: NDArray[np.floating]
    times: NDArray[np.float64]
    per_target: NDArray[np.float64] | None = None
    result: ik_service.IKResult | None = None
    tolerance: tuple[float, float] = (1e-3, 1e-2)

    @property
    def seconds(self) -> NDArray[np.float64]:
        """CPU time per target of each run [s], shape [repeats]."""
        return self.times / len(self.joint_q)


def make_solver(
    case: ComparedRobot, *, engine: str = "compiled", threads: int | None = None, **options: float
) -> ik_service.IKSolver:
    """Return our solver on the CPU; the staged engine where the compiled one does not cover the problem."""
    given = {"device": "cpu", "threads": threads, "options": ik_service.SolverOptions(**options)}
    try:
        solver = ik_service.IKSolver(case.robot, list(case.links), engine=engine, **given)
        solve(solver, case.problems(1, random_seed=0))
    except ik_service.EngineError:
        if engine == "staged" or threads is not None:
            raise
        return make_solver(case, engine="staged", **options)
    return solver


def solve(solver: ik_service.IKSolver, problems: HandProblems, **options: object) -> ik_service.IKResult:
    """Solve through the public call."""
    return solver.solve(problems.positions, problems.orientations_xyzw, options=options or None)


def solve_with_ours(
    case: ComparedRobot,
    problems: HandProblems,
    repeats: int,
    *,
    engine: str = "compiled",
    threads: int | None = None,
    clock: Callable[[], float] = time.process_time,
    **options: float,
) -> Answers:
    """Return the answers of the public call, NumPy arrays in and out, checks and judgement included."""
    solver = make_solver(case, engine=engine, threads=threads, **options)
    positions, orientations = problems.positions, problems.orientations_xyzw
    solver.solve(positions, orientations)
    times = []
    for _ in range(repeats):
        start = clock()
        result = solver.solve(positions, orientations)
        times.append(clock() - start)
    tolerance = solver.options.position_tolerance, solver.options.orientation_tolerance
    return Answers(f"ours, {result.engine}", result.joint_q, np.array(times), result=result, tolerance=tolerance)


def affordable(case: ComparedRobot, problems: HandProblems, seconds: float) -> HandProblems:
    """Return as many of the problems as our solver works through in about that time."""
    solver, probe = make_solver(case), problems.first(PROBE)
    solve(solver, probe)
    start = time.process_time()
    solve(solver, probe)
    each = (time.process_time() - start) / len(probe.positions)
    return problems.first(int(np.clip(seconds / each, PROBE, len(problems.positions))))


def solve_with_newton(case: ComparedRobot, problems: HandProblems, repeats: int) -> Answers:
    """Return the answers of newton.ik for one link; its limits are soft."""
    joint_q, times = run_newton(problems.per_link[0], case.path.read_text(encoding="utf-8"), NEWTON_SEEDS, repeats)
    return Answers(f"newton.ik {NEWTON.split('=')[-1]}", joint_q, times)


def solve_with_pinocchio(
    case: ComparedRobot, problems: HandProblems, repeats: int, *, seeds: int = PINOCCHIO_SEEDS
) -> Answers:
    """Return the answers of the C++ loop on Pinocchio, over all joints that move a link."""
    given = {
        "positions": problems.positions,
        "orientations_xyzw": problems.orientations_xyzw,
        "links": list(case.links),
        "seeds": seeds,
        "iterations": PINOCCHIO_ITERATIONS,
        "position_tolerance": TIGHT[0],
        "orientation_tolerance": TIGHT[1],
    }
    saved = run_peer("pinocchio", PINOCCHIO, "pinocchio_lm.py", urdf=str(case.path), repeats=repeats, **given)
    joint_q = np.repeat(case.robot.mid_joint_q[None], len(problems.positions), axis=0)
    joint_q[:, [case.robot.coordinate_names.index(name) for name in saved["joint_names"]]] = saved["joint_q"]
    return _timed(f"Pinocchio {saved['version']} LM, C++", joint_q, saved["times"])


def solve_with_optik(case: ComparedRobot, problems: HandProblems, repeats: int, tolerance: float) -> Answers:
    """Return the answers of OptIK for one link.

    Args:
        case: The robot.
        problems: The targets.
        repeats: Number of runs.
        tolerance: Length of the logarithm of the pose error at which it stops [m and rad].
    """
    targets = problems.per_link[0]
    transforms = np.tile(np.eye(4), (len(targets.positions), 1, 1))
    transforms[:, :3, 3] = targets.positions
    for column, axis in enumerate(np.eye(3)):
        transforms[:, :3, column] = quaternion_rotate(targets.orientations_xyzw, axis)
    given = {
        "base_link": case.robot.link_names[0],
        "link": case.links[0],
        "transforms": transforms,
        "start": case.robot.mid_joint_q,
        "max_time": OPTIK_TIME,
        "tolerance": tolerance,
    }
    saved = run_peer("optik", OPTIK, "optik_ik.py", urdf=str(case.path), repeats=repeats, **given)
    return _timed(f"OptIK {saved['version']}, {tolerance:g}", saved["joint_q"], saved["times"])


def _timed(who: object, joint_q: NDArray[np.float64], times: NDArray[np.float64]) -> Answers:
    return Answers(str(who), joint_q, times.sum(axis=1), np.median(times, axis=0))
