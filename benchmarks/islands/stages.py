"""Stages of a solver's iteration, each recorded as a graph of its own and replayed at a fixed state.

Reaches into the solver: a batch is brought to a state in which every island of every slot runs, and the launches of a
stage are recorded many times over, so that neither Python nor the queue of attempts is in the figures.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

import ik_service
from benchmarks.problems.many_arms import HandProblems
from ik_service.linear_solve import damped_steps, discover_islands, normal_equations
from objectives import IKObjective

SLOTS = 64  # what the CPU engine uses for large batches
ITERATIONS = 4  # recorded for the figure of the whole iteration; no attempt ends within them
LEAST_TIME = 2e-3  # [s] a recording takes at least, so that the clock does not matter
MAX_COPIES = 256  # of a stage in one recording
STAGES = ("kinematics", "normal equations", "factor and solve", "iteration")


class RecordedStages:
    """Recordings of the stages of one solver.

    Args:
        problems: Targets of SLOTS problems.
        islands: Whether the solver decomposes.
        objectives: Objectives beside the targets.
    """

    def __init__(self, problems: HandProblems, *, islands: bool, objectives: tuple[IKObjective, ...] = ()) -> None:
        options = ik_service.SolverOptions(seeds=1, max_iterations=3 * ITERATIONS)
        solver = ik_service.IKSolver(
            problems.robot,
            problems.links,
            objectives=objectives,
            device="cpu",
            engine="staged",
            islands=islands,
            options=options,
        )
        solver.solve(problems.positions, problems.orientations_xyzw)
        engine: Any = solver._core.engine
        self._solver, self._batch = solver, engine.batch
        assert self._batch is not None  # solve has made it
        assert self._batch.slot_count == SLOTS == len(problems.positions)
        self._bring_to_state()
        works = dict(zip(STAGES, (self._kinematics, self._normal_equations, self._steps), strict=False))
        self._recordings = {name: _record(work) for name, work in works.items()}
        self._start = _record(self._batch._begin)
        self._whole = _record(self._some_iterations, copies=1)

    def measure(self) -> dict[str, float]:
        """Return the CPU time of each stage once, per iteration and slot [s]."""
        times = {name: _replay(recording) / SLOTS for name, recording in self._recordings.items()}
        start = _replay(self._start)
        times["iteration"] = (_replay(self._whole) - start) / (SLOTS * ITERATIONS)
        running = self._batch._slots.running.numpy().sum()
        assert running == self._solver._core.work.problems.islands.nisland.numpy()[:SLOTS].sum(), (
            "an attempt has ended early"
        )
        return times

    def _bring_to_state(self) -> None:
        """Take two steps from the starts, so that damping and held DOFs are those of a solve."""
        self._batch._begin()
        for _ in range(2):
            self._batch._iterate()

    def _kinematics(self) -> None:
        batch = self._batch
        batch._rows.compute_residuals(batch._accepted, batch._tapes)
        batch._rows.compute_jacobian(batch._accepted, batch._joint_S_s, batch._jacobian, batch._tapes)

    def _normal_equations(self) -> None:
        batch = self._batch
        rows = (batch._accepted.residuals, batch._jacobian)
        instances = (batch._slots.problem_idx, batch._slots.running)
        normal_equations(batch._active, batch._problems.islands, instances, rows, batch._equations)

    def _steps(self) -> None:
        batch = self._batch
        instances = (batch._slots.problem_idx, batch._slots.running)
        damping = (batch._slots.damping, batch._candidate_damping, batch._step_scale)
        damped_steps(batch._problems.islands, instances, damping, batch._equations)

    def _some_iterations(self) -> None:
        self._batch._begin()
        for _ in range(ITERATIONS):
            self._batch._iterate()


class RecordedDiscovery:
    """The two launches of the discovery of islands, recorded, for the problems of a solver's last solve."""

    def __init__(self, solver: ik_service.IKSolver, problem_count: int) -> None:
        problems = solver._core.work.problems
        assert problems._structure is not None  # solve has made it
        row_on, structure = problems._row_on[:problem_count], solver._core.layout.structure
        self._recording = _record(lambda: discover_islands(structure, row_on, problems.islands, join=False))

    def measure(self) -> float:
        """Return the CPU time of one discovery [s]."""
        return _replay(self._recording)


def _record(work: Callable[[], None], copies: int | None = None) -> tuple[wp.Graph, int, int]:
    """Return launches as a graph of copies, how many copies, and how often to replay it."""
    work()  # loads the kernels
    start = time.process_time()
    work()
    rough = time.process_time() - start
    if copies is None:
        copies = int(np.clip(LEAST_TIME / rough, 1, MAX_COPIES))
    with wp.ScopedCapture(device="cpu") as capture:
        for _ in range(copies):
            work()
    graph: wp.Graph = capture.graph
    return graph, copies, max(1, round(LEAST_TIME / (rough * copies)))


def _replay(recording: tuple[wp.Graph, int, int]) -> float:
    graph, copies, replays = recording
    start = time.process_time()
    for _ in range(replays):
        wp.capture_launch(graph)
    return (time.process_time() - start) / (copies * replays)


def measure_together(recorded: list[RecordedStages], repeats: int) -> list[dict[str, NDArray[np.float64]]]:
    """Return the times [s] of several solvers, shape [repeats] per stage, taken in turns against noise."""
    rounds = [[stages.measure() for stages in recorded] for _ in range(repeats + 1)][1:]  # the first one warms up
    return [{name: np.array([turn[k][name] for turn in rounds]) for name in STAGES} for k in range(len(recorded))]
