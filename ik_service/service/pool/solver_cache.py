"""Cache of solvers in one thread. The owner with most solvers loses its least recently used solver first.

A new solver allocates arrays and records launches, so requests of equal structure share a solver. Large requests are
solved in parts to bound their memory; the parts do not change the answers.
"""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ik_service.collision.world import World
from ik_service.ik_solver import IKSolver
from ik_service.kernels.device_lock import is_lost
from ik_service.robots import RobotModel
from ik_service.service.queue.objective_data import joined_lines
from ik_service.service.queue.solve_request import Answers, Progress, SolveRequest, TracedResult
from ik_service.solver.candidates import Criterion
from ik_service.solver.given.batch import Batch
from ik_service.solver.given.options import SolverOptions
from ik_service.solver.given.targets import DATA
from ik_service.solver.given.worlds import CheckedWorlds, read_worlds
from ik_service.solver.result import IKResult, instance_of, join_results
from objectives.errors import InputError
from objectives.expression.expression_objective import ExpressionObjective

PART_SIZE = 4096
"""Problems that a solver gets at once at most."""
ROWS_OF_TARGET = 6
EFFORT_MOST = 1e10
"""DOFs cubed times seeds times iterations of a problem that the staged engine may take while others wait: some 6 s of a
core (`python -m benchmarks.engines.large_robots`). With default options that is 157 DOFs. It holds on GPUs too: many
seeds are tried side by side there, yet a request without a bound would hold up everybody as well."""


@dataclass(frozen=True)
class CachedSolver:
    """Solver with its objectives, targets not included."""

    solver: IKSolver
    objectives: tuple[ExpressionObjective, ...]


class SolverCache:
    """Solvers by robot and target structure, on one device. Not thread-safe: each cache belongs to one thread.

    `capacity` is the largest number of solvers kept. `threads` are the threads of each solver on a CPU; None: one
    thread. `effort_most` is the limit of DOFs cubed times seeds times iterations per problem in the staged engine.
    """

    def __init__(
        self,
        device: str = "auto",
        *,
        capacity: int = 8,
        threads: int | None = None,
        effort_most: float = math.inf,
    ) -> None:
        self.device, self._effort_most = device, effort_most
        self._threads, self._capacity = threads, capacity
        self._solvers: dict[Hashable, CachedSolver] = {}  # least recently used first
        self._owners: dict[Hashable, str | None] = {}  # last owner of each solver

    def __len__(self) -> int:
        return len(self._solvers)

    def lost_device(self) -> str | None:
        """Return the name of the solvers' device if the device has failed; None otherwise."""
        devices = (cached.solver.device for cached in self._solvers.values())
        return next((str(device) for device in devices if is_lost(device)), None)

    def solve(self, robot: RobotModel, request: SolveRequest, progress: Progress | None = None) -> IKResult:
        """Solve all problems of a request, in parts, with `progress` after each; errors as in `solve_together`."""
        parts = []
        for begin in range(0, request.problem_count, PART_SIZE):
            rows = slice(begin, min(begin + PART_SIZE, request.problem_count))
            count = rows.stop - rows.start
            result = self.solve_together(robot, [request.part(rows)])
            assert isinstance(result, IKResult)  # the request has neither choice nor motion
            parts.append((result, slice(0, count)))
            if progress is not None:
                progress(count)
        return parts[0][0] if len(parts) == 1 else join_results(parts)

    def load_choice(self, robot: RobotModel, request: SolveRequest, criterion: Criterion) -> None:
        """Load the code of a choice beside the code of solves."""
        self._cached(robot, request, None).solver.load_choice(criterion)

    def solve_together(self, robot: RobotModel, requests: Sequence[SolveRequest], owner: str | None = None) -> Answers:
        """Solve requests with equal `batch_key` in one batch, in order; or one choice, motion or trace.

        InputError if the solver refuses a value; EngineError if no engine supports this problem.
        """
        first = requests[0]
        cached = self._cached(robot, first, owner)
        if cached.solver.engine == "staged":
            self._require_bounded(robot, first.options, first.problem_count if first.is_alone else 1)
        counts = [request.batch.problem_count for request in requests]
        for k, target in enumerate(first.targets):
            if given := [name for name in DATA if getattr(target, name) is not None]:
                several = [request.targets[k] for request in requests]
                joined = {name: joined_lines([getattr(one, name) for one in several], counts) for name in given}
                own = {name: getattr(target, name) for name in given}  # one line for all frames stays one
                cached.solver.set_target_data(k, **(joined if first.motion is None else own))
        for k, objective in enumerate(cached.objectives):
            for name in first.objectives[k].data:
                columns = [request.objectives[k].data[name] for request in requests]
                objective.set_data(name, columns[0] if first.is_alone else joined_lines(columns, counts))
        if first.motion is not None:
            held = {"attached": first.attached} if first.attached else {}
            poses = [*first.batch.positions], [*first.batch.orientations_xyzw]
            call: Callable[..., Answers] = getattr(cached.solver, first.motion.call)
            return call(*poses, **first.motion.arguments, **held, world=first.world, options=first.options)
        if len(requests) == 1:
            around = None, first.object_enabled, first.attached, counts[0]
            batch, worlds = first.batch, read_worlds(robot, first.options, first.world, *around)
        else:
            batch = Batch.joined([request.batch for request in requests])
            worlds = _joined_worlds(robot, requests, counts)
        batch = batch._replace(worlds=worlds)
        if first.choice is not None:
            return cached.solver.solve_any_batch(batch, first.options, first.choice)
        result = cached.solver.solve_batch(batch, first.options)
        result = _labelled(result, first, cached) if cached.objectives else result
        if not first.traces:
            return result
        return instance_of(TracedResult, vars(result) | {"trace": cached.solver.trace(result)})

    def _require_bounded(self, robot: RobotModel, options: SolverOptions, at_once: int) -> None:
        seeds, iterations, dofs = options.seed_count, options.max_iterations, robot.active_dof_count
        if at_once * staged_effort(robot, options) > self._effort_most:
            raise InputError(
                f"Robot '{robot.name}' with {dofs} DOFs is solved without generated code. {seeds} seeds of "
                f"{iterations} iterations are {seeds * iterations} iterations per problem, which would hold up "
                f"everybody. Allowed: seeds times max_iterations up to {int(self._effort_most / dofs**3 / at_once)}."
            )

    def _cached(self, robot: RobotModel, request: SolveRequest, owner: str | None) -> CachedSolver:
        key = (robot.content_hash, request.structure)
        cached = self._solvers.pop(key, None) or self._build(robot, request)
        if len(self._solvers) >= self._capacity:
            counts = Counter([owner, *self._owners.values()])
            gone = next(other for other in self._solvers if counts[self._owners[other]] == max(counts.values()))
            del self._solvers[gone], self._owners[gone]
        self._solvers[key], self._owners[key] = cached, owner
        return cached

    def _build(self, robot: RobotModel, request: SolveRequest) -> CachedSolver:
        further = tuple(columns.objective() for columns in request.objectives)
        solver = IKSolver(
            robot,
            targets=request.targets,
            objectives=further,
            device=self.device,
            engine=request.engine,
            islands=request.islands,
            threads=self._threads,
            options=SolverOptions(candidates=request.options.candidates),
        )
        return CachedSolver(solver, further)


def staged_effort(robot: RobotModel, options: SolverOptions) -> float:
    """Return the largest effort of a problem in the staged engine: DOFs cubed times seeds times iterations."""
    return float(robot.active_dof_count**3 * options.seed_count * options.max_iterations)


def _labelled(result: IKResult, request: SolveRequest, cached: CachedSolver) -> IKResult:
    """Return the result with the request's own labels for the rows of its objectives."""
    pairs = zip(request.objectives, cached.objectives, strict=True)
    own = tuple(columns.label for columns, objective in pairs for _ in range(objective.residual_dim()))
    labels, first = result.islands.row_labels, ROWS_OF_TARGET * len(request.targets)
    labels = (*labels[:first], *own, *labels[first + len(own) :])
    return replace(result, islands=replace(result.islands, row_labels=labels))


def _joined_worlds(robot: RobotModel, requests: Sequence[SolveRequest], counts: Sequence[int]) -> CheckedWorlds | None:
    """Return the worlds of requests with equal attached objects; either all requests have a world or none has."""
    first, count = requests[0], sum(counts)
    if first.world is None:
        return read_worlds(robot, first.options, first.world, None, first.object_enabled, first.attached, count)
    numbers: dict[World, int] = {}
    index = [numbers.setdefault(request.world, len(numbers)) for request in requests if request.world is not None]
    enabled = None
    if any(request.object_enabled is not None for request in requests):
        enabled = np.ones((count, max(len(world.objects) for world in numbers)), dtype=bool)
        for request, rows in zip(requests, np.split(enabled, np.cumsum(counts)[:-1]), strict=True):
            if request.object_enabled is not None:
                rows[:, : request.object_enabled.shape[-1]] = request.object_enabled
    return read_worlds(robot, first.options, [*numbers], np.repeat(index, counts), enabled, first.attached, count)
