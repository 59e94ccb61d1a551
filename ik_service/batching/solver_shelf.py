"""The solvers that one thread keeps at hand, least recently used first to go.

Building a solver allocates its arrays and records its launches, so requests of equal structure share one. Large
requests are solved in parts, which bounds their memory; the parts do not change the answers.
"""

import time
from collections import OrderedDict

from ik_service.batching.request import Progress, SolveAnswer, SolveRequest
from ik_service.robots import RobotModel
from ik_service.solver import IKResult, IKSolver

PART_SIZE = 4096
"""Problems that are handed to a solver at once."""


class SolverShelf:
    """Solvers by robot and target structure, on one device. Not thread-safe: it belongs to one thread."""

    def __init__(self, device: str = "auto", *, capacity: int = 8) -> None:
        """Start with an empty shelf.

        Args:
            device: "auto", "cpu", "cuda" or a CUDA device such as "cuda:1".
            capacity: Solvers kept at most.
        """
        self.device = device
        self._capacity = capacity
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
        results = []
        for begin in range(0, request.problem_count, PART_SIZE):
            rows = slice(begin, min(begin + PART_SIZE, request.problem_count))
            results.append(self._solve_part(robot, request, rows))
            if progress is not None:
                progress(rows.stop - rows.start)
        return SolveAnswer.joined(results, 1e3 * (time.perf_counter() - started))

    def _solve_part(self, robot: RobotModel, request: SolveRequest, rows: slice) -> IKResult:
        solver = self._solver(robot, request, rows)
        start = request.initial_joint_q
        return solver.solve(
            [None if target.positions is None else target.positions[rows] for target in request.targets],
            [
                None if target.orientations_xyzw is None else target.orientations_xyzw[rows]
                for target in request.targets
            ],
            initial_joint_q=None if start is None else start[rows],
            options=request.options,
        )

    def _solver(self, robot: RobotModel, request: SolveRequest, rows: slice) -> IKSolver:
        structure = request.structure
        if structure is None:
            return self._build(robot, request, rows)
        key = (robot.content_hash, structure)
        solver = self._solvers.pop(key, None) or self._build(robot, request, rows)
        self._solvers[key] = solver
        while len(self._solvers) > self._capacity:
            self._solvers.popitem(last=False)
        return solver

    def _build(self, robot: RobotModel, request: SolveRequest, rows: slice) -> IKSolver:
        return IKSolver(robot, targets=[target.declaration(rows) for target in request.targets], device=self.device)
