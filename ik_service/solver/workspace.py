"""Arrays of a solver for so many problems, and the recorded launches over them.

staged engine:    intake | discovery, slots at work | outcome
compiled engine:  intake, kernels, outcome in one go and part by part, where all problems share one partition;
else the intake and the islands of each problem come first
"""

import typing
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.linear_solve import RowStructure
from ik_service.robots import DeviceModel
from ik_service.solver.compiled.engine import CompiledEngine
from ik_service.solver.compiled.solutions import Choice
from ik_service.solver.inputs.targets import Target
from ik_service.solver.launches.kernel_loading import LAUNCH_BLOCK, load_kernels, load_kernels_alone
from ik_service.solver.launches.recording import PartLaunches, Recording, per_problem
from ik_service.solver.options import SolverOptions
from ik_service.solver.problems.arrays import Problems
from ik_service.solver.problems.host_device_array import Mirror, wait
from ik_service.solver.problems.input_kernels import SOLVE_EXTRAS, SOLVE_IO, Intake
from ik_service.solver.problems.nearest_turn import find_turns
from ik_service.solver.problems.partition import Partition, common_partition, discovered_partition
from ik_service.solver.problems.parts import first_problem
from ik_service.solver.problems.rows.blocks import Rows
from ik_service.solver.problems.rows.weights import IslandScales, RowWeights, TargetWeights
from ik_service.solver.recorded_launches import RecordedLaunches, record_solve
from ik_service.solver.results.verification import Outcome

PLANS_MAX = 16  # partitions that are kept with their launches
_Record = Callable[[int, int], PartLaunches]  # launches of a part, given the part and the number of parts


@dataclass(frozen=True)
class Wishes:
    """Size of a solve, and what is to be done besides the first success.

    Attributes:
        problem_count: Problems.
        seeds: Seeds per problem.
        best_of: None for the first success; "cost" or "nearest" for the best of all seeds.
        solutions: Distinct solutions per problem.
        solution_difference: Largest joint difference above which two solutions are distinct [m or rad].
        polished: Whether to finish in float64.
    """

    problem_count: int
    seeds: int
    best_of: str | None
    solutions: int
    solution_difference: float
    polished: bool

    @classmethod
    def of(cls, problem_count: int, seeds: int, options: SolverOptions) -> "Wishes":
        """Return what options ask for."""
        return cls(
            problem_count,
            seeds,
            options.best_of,
            options.solutions,
            options.solution_difference,
            polished=options.precision == "float64",
        )

    @property
    def choosing(self) -> bool:
        """Whether all seeds are run."""
        return self.best_of is not None or self.solutions > 1


@dataclass
class Plan:
    """What has been recorded for problems in which the same rows are on.

    Attributes:
        partition: Their islands.
        recording: The launches.
        stamp: Weights that the scales of the islands are of, where all problems have the same.
    """

    partition: Partition
    recording: Recording
    stamp: bytes


class Workspace:
    """Arrays and recorded launches of one solver.

    Args:
        model: The robot on the device.
        targets: Declared targets.
        touches: Which trees each target touches, bool [targets, trees].
        capacity: Problems there is room for.
        hard_limits: Whether starts and answers keep the limits.
        threads: Most threads to use.
    """

    def __init__(
        self,
        model: DeviceModel,
        targets: Sequence[Target],
        touches: NDArray[np.bool_],
        capacity: int,
        *,
        hard_limits: bool,
        threads: int,
    ) -> None:
        self._model, self._targets, self._threads, self._hard_limits = model, targets, threads, hard_limits
        self._weights = TargetWeights(targets)
        self.problems = Problems(model, targets, touches.shape[1], capacity)
        self.intake = Intake(model, targets, touches, capacity, hard_limits=hard_limits, parts=threads)
        self.outcome = Outcome(model, targets, touches.shape[1], capacity, hard_limits=hard_limits)
        self._scales = IslandScales(capacity, touches.shape[1], model.device)  # of islands found on the device
        self.forget()

    def forget(self) -> None:
        """Drop what has been recorded: arrays of the problems have been replaced."""
        self._plans: OrderedDict[tuple[object, ...], Plan] = OrderedDict()
        self._reading = Recording(self._model.device, self._reads)
        self._choice: Choice | None = None
        self._polished: Mirror | None = None
        self._wide: wp.array[Any] | None = None  # where this solve is polished

    def use_rows(self, structure: RowStructure, coordinates_read: NDArray[np.bool_]) -> None:
        """Make room for rows and trees that are related like this, and drop what has been recorded.

        Args:
            structure: Rows and trees.
            coordinates_read: DOFs whose coordinates a row reads by themselves, bool [joint_dof_count].
        """
        self.problems.use_structure(structure)
        self._turns = find_turns(self._model, coordinates_read, hard_limits=self._hard_limits)
        self.outcome.use_turns(self._turns)
        self.forget()

    def use_targets(self, targets: Sequence[Target]) -> bool:
        """Take other tool frames and weights of the same targets; return whether an array was exchanged."""
        self._targets, self._weights = targets, TargetWeights(targets)
        exchanged = [part.use_targets(targets) for part in (self.intake, self.outcome)]
        return any(exchanged)

    # ------------------------------------------------------------------ steps, one by one
    def read(self, count: int) -> None:
        """Check what the caller gives and bring it into the problems' arrays."""
        load_kernels_alone(SOLVE_IO, self._model.device)
        self._reading.prepare(count)
        self._reading.run(count)

    def discovered(self, rows: Rows, count: int, *, join: bool) -> Partition:
        """Return the islands of every problem, found on the device."""
        self.problems.discover(rows, count, join=join)
        return discovered_partition(self.problems, count, self._scales)

    def judge(self, partition: Partition, count: int) -> None:
        """Judge the winners as they stand."""
        self._judges(partition, 0, 1).run(count)
        wait(self._model.device)

    def judge_given(self, joint_q: NDArray[Any], partition: Partition) -> None:
        """Judge configurations [problems, joint_coord_count] in place of the winners of the solve just done."""
        count = len(joint_q)
        if self._wide is not None and self._polished is not None:
            self._polished.host[:count] = joint_q
            self._polished.push(count)
        else:
            given: wp.array[Any] = wp.array(joint_q.astype(np.float32), device=self._model.device)
            wp.copy(self.problems.winners.joint_q[:count], given)
        self.judge(partition, count)

    # ------------------------------------------------------------------ the compiled engine
    def compiled(
        self, engine: CompiledEngine, rows: Rows, incidence: NDArray[np.bool_], wishes: Wishes, *, join: bool
    ) -> tuple[Partition, Callable[[ThreadPoolExecutor | None], None]]:
        """Prepare a solve by the compiled engine, with the device to oneself.

        Args:
            engine: The engine.
            rows: Layout of the objectives.
            incidence: Whether the support of a row holds DOFs of a tree, bool [rows, trees].
            wishes: Size of the solve, and what is to be done besides the first success.
            join: Whether all touched trees are one island.

        Returns:
            The partition of the problems, and what runs the solve.
        """
        given, count = self.intake.given.host[1:].tobytes(), wishes.problem_count
        weights = self._weights.with_objectives(given, rows.objectives[len(self._targets) :], count)
        self._make_room(wishes)
        if weights.pattern is None:
            return self._solve_in_steps(engine, rows, wishes, weights, join=join)
        size = engine.launches.size(count, wishes.seeds)
        variant = (join, wishes.choosing, wishes.polished, size)
        key = (variant, given, engine.data_key(), weights.is_common, weights.pattern)
        if key not in self._plans:
            lines = 1 if weights.is_common else self.problems.capacity
            partition = common_partition(weights, incidence, self._model.device, join=join, lines=lines)
            solves = self._solves(engine, partition, wishes)
            record = _joined([self._reads, *solves, partial(self._judges, partition)])
            self._plans[key] = Plan(partition, Recording(self._model.device, record, self._threads), weights.stamp)
            if len(self._plans) > PLANS_MAX:
                self._plans.popitem(last=False)
        self._plans.move_to_end(key)
        plan = self._plans[key]
        if weights.stamp != plan.stamp:
            plan.partition.scales.write(weights, plan.partition.row_island)
            plan.stamp = weights.stamp
        plan.recording.prepare(count)
        return plan.partition, lambda executor: plan.recording.run(count, executor)

    def recorded(
        self,
        engine: CompiledEngine,
        rows: Rows,
        incidence: NDArray[np.bool_],
        count: int,
        *,
        orientations: bool,
        join: bool,
        polished: bool = False,
    ) -> RecordedLaunches:
        """Return the launches of a solve, one by one; no target has weights per problem.

        Args:
            engine: The engine, of targets alone.
            rows: Layout of the objectives.
            incidence: Whether the support of a row holds DOFs of a tree, bool [rows, trees].
            count: Problems of the solve.
            orientations: Whether targets have orientations, or are positions alone.
            join: Whether all touched trees are one island.
            polished: Whether the answers are taken on in float64.
        """
        load_kernels_alone(SOLVE_IO, self._model.device)
        self.intake.given.host[1::2], self.intake.given.host[2::2] = 1, orientations
        weights = self._weights.with_objectives(self.intake.given.host[1:].tobytes(), [], count)
        partition = common_partition(weights, incidence, self._model.device, join=join)
        shape = (self.problems.capacity, self._model.joint_coord_count)
        wide = wp.zeros(shape, dtype=wp.float64, device=self._model.device) if polished else None
        return record_solve(self.problems, self.intake, self.outcome, engine, rows.objectives, partition, count, wide)

    def _solve_in_steps(
        self, engine: CompiledEngine, rows: Rows, wishes: Wishes, weights: RowWeights, *, join: bool
    ) -> tuple[Partition, Callable[[ThreadPoolExecutor | None], None]]:
        count = wishes.problem_count
        self.read(count)
        partition = self.discovered(rows, count, join=join)
        partition.scales.write(weights, partition.row_island)
        record = _joined([*self._solves(engine, partition, wishes), partial(self._judges, partition)])
        recording = Recording(self._model.device, record, self._threads)
        recording.prepare(count)

        def run(executor: ThreadPoolExecutor | None) -> None:
            if not self.intake.is_faulty():  # no part but the first sees the mark of a reading in one part
                recording.run(count, executor)

        return partition, run

    def _make_room(self, wishes: Wishes) -> None:
        """Allocate what a wish needs, and drop recordings that hold what it replaces."""
        choice, capacity = self._choice, self.problems.capacity
        if wishes.choosing:
            if choice is None or (choice.seeds, choice.solutions) != (wishes.seeds, wishes.solutions):
                self.forget()
                self._choice = choice = Choice(self._model, capacity, wishes.seeds, wishes.solutions, self._turns)
            choice.wish(wishes.best_of, wishes.solution_difference)
        if wishes.polished and self._polished is None:
            self._polished = Mirror((capacity, self._model.joint_coord_count), wp.float64, self._model.device)
        self._wide = self._polished.device if wishes.polished and self._polished is not None else None

    def _solves(self, engine: CompiledEngine, partition: Partition, wishes: Wishes) -> list[_Record]:
        """What makes attempts, and what then chooses among them and polishes."""
        count = wishes.problem_count
        of_problems = (self.problems, self.intake, partition, count)
        record = partial(engine.launches.record, engine.launches.size(count, wishes.seeds))
        answers = self._choice.attempts if wishes.choosing and self._choice is not None else self.problems.winners
        work = engine.tasks(*of_problems, answers)
        polish = [] if self._wide is None else engine.polish_tasks(*of_problems, self._wide)
        kernels = dict(block for one, _ in (*work, *polish) for block in one.blocks().items())
        extras = [SOLVE_EXTRAS] if wishes.choosing or wishes.polished else []
        load_kernels(kernels | dict.fromkeys([SOLVE_IO, *extras], LAUNCH_BLOCK), self._model.device)
        steps: list[_Record] = [partial(record, work)]
        if wishes.choosing:
            steps = [self._begins, *steps, partial(self._chooses, partition)]
        if self._wide is not None:
            steps += [partial(self._widens, self._wide), partial(record, polish)]
        return steps

    def use_solutions(self, number: NDArray[np.int32], partition: Partition) -> None:
        """Judge a solution of every problem in place of its winner; which, [problems], counts from 0."""
        assert self._choice is not None  # several solutions have been asked for
        self._choice.use_solutions(self.problems, partition, number)
        self.judge(partition, len(number))

    @property
    def solution_count(self) -> Mirror:
        """How many distinct solutions each problem has."""
        assert self._choice is not None
        return self._choice.solution_count

    def _reads(self, part: int, parts: int) -> PartLaunches:
        inputs = [*self.problems.inputs, self.outcome.tolerances, *self.intake.inputs]
        pushes = [mirror.push for mirror in inputs]
        launches = [per_problem(launch) for launch in self.intake.launches(self.problems, part, parts)]
        return PartLaunches([*pushes, *launches, self.intake.fault.fetch])

    def _judges(self, partition: Partition, part: int, parts: int) -> PartLaunches:
        launches = self.outcome.launches(self.problems, self.intake, partition, part, parts, self._wide)
        fetches = [mirror.fetch for mirror in self.outcome.results(wide=self._wide is not None)]
        return PartLaunches([*map(per_problem, launches), *fetches], [partition])

    def _begins(self, part: int, parts: int) -> PartLaunches:
        assert self._choice is not None  # several solutions, or the best one, have been asked for
        return PartLaunches(list(map(per_problem, self._choice.begins(self.problems, part, parts))))

    def _chooses(self, partition: Partition, part: int, parts: int) -> PartLaunches:
        assert self._choice is not None  # several solutions, or the best one, have been asked for
        pushes = [mirror.push for mirror in self._choice.inputs]
        launches = map(per_problem, self._choice.launches(self.problems, partition, part, parts))
        return PartLaunches([*pushes, *launches, self._choice.solution_count.fetch])

    def _widens(self, wide: wp.array[Any], part: int, parts: int) -> PartLaunches:
        inputs = [self.problems.settings, part, parts, self.problems.winners.joint_q, wide]
        return PartLaunches([per_problem(wp.launch(_widen, 1, inputs, device=self._model.device, record_cmd=True))])


@wp.kernel(module=SOLVE_EXTRAS, enable_backward=False)
@typing.no_type_check
def _widen(
    settings: wp.array[wp.int32],
    part: int,
    parts: int,
    joint_q: wp.array2d[float],  # [problem_capacity, joint_coord_count]
    joint_q_out: wp.array2d[wp.float64],  # [problem_capacity, joint_coord_count]
):
    p = first_problem(settings, part, parts) + wp.tid()
    for c in range(joint_q.shape[1]):
        joint_q_out[p, c] = wp.float64(joint_q[p, c])


def _joined(records: Sequence[_Record]) -> _Record:
    """One after the other."""
    return lambda part, parts: PartLaunches.joined([record(part, parts) for record in records])
