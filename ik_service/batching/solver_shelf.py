"""The solvers that one thread keeps at hand, least recently used first to go.

Building a solver allocates its arrays and records its launches, so requests of equal structure share one. Large
requests are solved in parts, which bounds their memory; the parts do not change the answers.
"""

import time
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from ik_service.batching.answer import SolveAnswer
from ik_service.batching.request import FloatArray, Progress, SolveRequest
from ik_service.robots import RobotModel
from ik_service.solver import IKResult, IKSolver

PART_SIZE = 4096
"""Problems that are handed to a solver at once."""


class SolverShelf:
    """Solvers by robot and target structure, on one device. Not thread-safe: it belongs to one thread."""

    def __init__(self, device: str = "auto", *, capacity: int = 8, threads: int | None = None) -> None:
        """Start with an empty shelf.

        Args:
            device: "auto", "cpu", "cuda" or a CUDA device such as "cuda:1".
            capacity: Solvers kept at most.
            threads: Threads of each solver on a CPU; None is one.
        """
        self.device = device
        self._capacity, self._threads = capacity, threads
        self._solvers: OrderedDict[tuple[str, tuple[object, ...]], IKSolver] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of solvers kept."""
        return len(self._solvers)

    def solve(self, robot: RobotModel, request: SolveRequest, progress: Progress | None = None) -> SolveAnswer:
        """Solve all problems of a request, in parts.

        Args:
            robot: The robot.
            request: At least one problem.
            progress: Called after every part.

        Raises:
            InputError: The solver refuses a value.
            EngineError: No engine can run this problem.
        """
        started = time.perf_counter()
        parts = []
        for begin in range(0, request.problem_count, PART_SIZE):
            rows = slice(begin, min(begin + PART_SIZE, request.problem_count))
            count = rows.stop - rows.start
            parts.append((self.solve_together(robot, [request.part(rows)]), slice(0, count)))
            if progress is not None:
                progress(count)
        return SolveAnswer.joined(parts, 0.0, 1e3 * (time.perf_counter() - started))

    def solve_together(self, robot: RobotModel, requests: Sequence[SolveRequest]) -> IKResult:
        """Solve requests of equal keys in one batch, their problems one after the other.

        Args:
            robot: The robot.
            requests: One, or several with the same `joint_key`.

        Raises:
            InputError: The solver refuses a value.
            EngineError: No engine can run this problem.
        """
        first = requests[0]
        count = len(first.targets)
        return self._solver(robot, first).solve(
            [_column([request.targets[k].positions for request in requests]) for k in range(count)],
            [_column([request.targets[k].orientations_xyzw for request in requests]) for k in range(count)],
            initial_joint_q=_column([request.initial_joint_q for request in requests]),
            options=first.options,
        )

    def _solver(self, robot: RobotModel, request: SolveRequest) -> IKSolver:
        structure = request.structure
        if structure is None:
            return self._build(robot, request)
        key = (robot.content_hash, structure)
        solver = self._solvers.pop(key, None) or self._build(robot, request)
        self._solvers[key] = solver
        while len(self._solvers) > self._capacity:
            self._solvers.popitem(last=False)
        return solver

    def _build(self, robot: RobotModel, request: SolveRequest) -> IKSolver:
        targets = [target.declaration() for target in request.targets]
        return IKSolver(robot, targets=targets, device=self.device, threads=self._threads)


def _column(arrays: Sequence[FloatArray | None]) -> FloatArray | None:
    """The rows of several arrays one after the other; None where there are none."""
    if len(arrays) == 1:
        return arrays[0]
    present = [array for array in arrays if array is not None]
    return np.concatenate(present) if present else None
