"""The compiled engine: one generated kernel solves one island of each problem; and closing of loops in float64.

    read -> island kernels -> choice among all attempts, finish in float64 (options) -> verify

If the same rows are on in all problems, all launches are recorded once (a plan) and run part by part on threads.
Otherwise the inputs are read and the islands of each problem are found first.
"""

import typing
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import warp as wp

from ik_service.collision.collision_data import CollisionData
from ik_service.errors import EngineError
from ik_service.kernels.host_device_array import HostDeviceArray, wait
from ik_service.kernels.kernel_loading import LAUNCH_BLOCK, load_kernels, load_kernels_alone
from ik_service.solver.arrays.partition import Partition, common_partition, host_partition
from ik_service.solver.arrays.parts import SOLVE_BRANCHES, SOLVE_EXTRAS, SOLVE_IO, first_problem
from ik_service.solver.arrays.problem_arrays import (
    BestAttempts,
    Problems,
    Searches,
    SolveSettings,
    mark_deadline,
    widening_launch,
)
from ik_service.solver.compiled.island_kernels import IslandKernels
from ik_service.solver.compiled.island_launches import launches_on
from ik_service.solver.compiled.proof_kernel import ProofKernel, sole_arm
from ik_service.solver.compiled.solutions import ROUND_SEEDS, SolutionSelection
from ik_service.solver.given.options import SolverOptions
from ik_service.solver.lm.codes import BRANCHED_SAMPLERS, MAX_ITERATIONS, NO_TARGET, STOP
from ik_service.solver.recorded_launches import NOT_RECORDABLE, PreparedSolve, RecordedLaunches, RecordedStep
from ik_service.solver.recording import PartLaunches, Recording, per_problem
from ik_service.solver.rows.binding import RowKind, is_robot_constraint
from ik_service.solver.rows.layout import RowLayout
from ik_service.solver.rows.weights import RowWeights, TargetWeights
from ik_service.solver.workspace import Workspace

PLANS_MAX = 16  # partitions kept with their launches
SELECTIONS_MAX, KEPT_ATTEMPTS = 6, 2**18  # selections kept, and the largest size of an unused one
_Record = Callable[[int, int], PartLaunches]  # launches of a part, given the part and the number of parts


@dataclass
class Plan:
    """Islands and launches recorded for problems with the same rows on."""

    partition: Partition
    recording: Recording  # the launches
    stamp: bytes  # weights of the islands' scales, if equal in all problems
    attempts: Recording | None = None  # the launches of single attempts alone, once asked for


class CompiledEngine:
    """The compiled engine of one solver."""

    name: Literal["compiled"] = "compiled"
    finish: Literal["float64"] = "float64"

    def __init__(
        self,
        layout: RowLayout,  # the rows; all objectives are stated as expressions
        *,
        join: bool,  # whether all touched trees are one island
        hard_limits: bool,  # whether joint limits are enforced
        threads: int,  # most threads to use
        collision: CollisionData | None = None,  # geometry of the collision check; None without a model
    ) -> None:
        self._layout, self._join, self._threads = layout, join, threads
        self._model = layout.rows.model
        self._numbers_attempts = bool(self._model.device.is_cuda)
        self._others = layout.rows.others
        self._recent: tuple[object, Any] = None, None  # key of the last solve, and its weights
        launches = launches_on(self._model.device)
        self.kernels = IslandKernels(layout, launches, hard_limits=hard_limits, collision=collision)
        self.executor = ThreadPoolExecutor(threads, "ik-solver") if threads > 1 else None
        self.forget()

    def settings(self, problem_count: int, options: SolverOptions, *, checks_collision: bool) -> SolveSettings:
        """Return the settings of a solve; InputError for more attempts than can be numbered."""
        # Attempts are numbered if all are kept or a GPU makes them
        settings = SolveSettings.of(problem_count, options.search_seeds, options, checks_collision=checks_collision)
        if settings.runs_all_seeds or self._numbers_attempts:
            settings.require_numbers()
        return settings

    def branch_seeds(self, options: SolverOptions) -> int:
        """Return the number of attempts from the branches of an arm for several solutions; 0 for none."""
        arm, wanted = self.kernels.sole_arm, options.solution_count
        in_seed_order = options.best_of is None and options.sampler in BRANCHED_SAMPLERS
        if arm is None or not in_seed_order or options.search_seeds <= ROUND_SEEDS:
            return 0
        # some starts lead to no solution, or to one found before
        return min(wanted + max(wanted, ROUND_SEEDS), options.search_seeds) if arm.is_searched else ROUND_SEEDS

    def use_layout(self) -> None:
        """Bind the new arrays of the problems, after these have been replaced."""
        self._layout.rows.bind_data()
        self.forget()

    def bind_rows(self) -> None:
        """Do nothing: objectives hold their own weights."""

    def forget(self) -> None:
        """Drop all recordings, because their arrays have been exchanged."""
        self.plans: OrderedDict[tuple[object, ...], Plan] = OrderedDict()  # recorded plans, by their key
        self._selections: dict[tuple[int, int, bool], SolutionSelection] = {}
        self._choice: SolutionSelection | None = None
        self._joint_q_float64: HostDeviceArray | None = None
        self._finished: HostDeviceArray | None = None  # the same in solves that finish in float64

    def prepare(self, work: Workspace, settings: SolveSettings) -> PreparedSolve:
        """Record the launches of a solve, unless a plan has them; with the device lock held."""
        # Raises EngineError where an island is too large, or the active rows differ between problems and nothing may be
        # copied
        plan, weights = self._planned(work, settings)
        if plan is not None:
            replay = plan.recording.prepare(settings.problem_count)
            return PreparedSolve(plan.partition, replay, self._finished, self._choice)
        if not work.copies:
            raise EngineError("The active rows differ between problems, and only the host can tell. Use solve().")
        return self._prepare_in_steps(work, settings, weights)

    def _planned(self, work: Workspace, settings: SolveSettings) -> tuple[Plan | None, RowWeights]:
        """Return the plan of a solve, and the weights of all rows; no plan if the active rows differ."""
        given, count = work.inputs.given.host[1:].tobytes(), settings.problem_count
        if self._recent[0] != (given, count) or not self._model.device.is_capturing:  # then nothing can be read
            self._recent = (given, count), work.weights.of_rows(given, self._layout.rows, count)
        weights = self._recent[1]
        self._choice = self._selection(work, settings) if settings.runs_all_seeds else None
        if settings.float64_finish and self._joint_q_float64 is None:
            shape = (work.problems.capacity, self._model.joint_coord_count)
            self._joint_q_float64 = HostDeviceArray(shape, wp.float64, self._model.device)
        self._finished = self._joint_q_float64 if settings.float64_finish else None
        self.kernels.checks_collision = settings.checks_collision
        if weights.pattern is None:
            return None, weights
        size = self.kernels.launches.size(count, settings.seeds)
        collision = self.kernels.collision if settings.checks_collision else None
        version = (0, False) if collision is None else (collision.version, collision.has_objects)
        options, limits = settings.options, work.problems.limits
        key = (
            self._choice,
            *(
                settings.runs_all_seeds,
                options.solutions == "all",
                options.best_of is None,
                settings.float64_finish,
                options.deadline_s is None,
            ),
            *(work.copies, work.verification.collision is None),
            *(size, version, given, self.kernels.data_key() if self._others else (), limits),
            *(weights.is_common, weights.pattern),
        )
        if key not in self.plans:
            self.plans[key] = self._plan(work, settings, weights)
            if len(self.plans) > PLANS_MAX:
                self.plans.popitem(last=False)
        self.plans.move_to_end(key)
        plan = self.plans[key]
        if weights.stamp != plan.stamp:
            plan.partition.scales.write(weights, plan.partition.row_island)
            plan.stamp = weights.stamp
        return plan, weights

    def recorded(
        self,
        work: Workspace,  # arrays and launches of the solver
        count: int,
        *,
        orientations: bool,  # whether targets have orientations
        for_gpus: bool,  # whether to use the kernels for GPUs
        float64_finish: bool,  # whether answers are finished in float64
        collision: bool,  # whether attempts are checked for collision
    ) -> RecordedLaunches:
        """Return the launches of a solve one by one, for export; no target has weights per problem."""
        # Raises EngineError for rows of other kinds than targets, or too large an island
        if not all(map(is_robot_constraint, self._others)):
            raise EngineError(NOT_RECORDABLE)
        kernels = self.kernels.for_gpus(join=self._join) if for_gpus else self.kernels
        kernels.checks_collision = collision
        load_kernels_alone(SOLVE_IO, self._model.device)
        inputs, problems = work.inputs, work.problems
        inputs.given.host[1::2], inputs.given.host[2::2] = 1, orientations
        weights = work.weights.of_rows(inputs.given.host[1:].tobytes(), self._layout.rows, count)
        partition = common_partition(weights, self._layout.incidence, self._model.device, join=self._join)
        tasks = kernels.tasks(problems, inputs, partition, count, problems.best)
        proofs = kernels.proof_tasks(problems, inputs, work.verification, partition, count)
        found = [RecordedStep("solve", one.whole.kernel, (task, 0, 1), False) for one, task in tasks]
        if proofs:
            first, rest = (
                [
                    RecordedStep("solve", one.kernel, (task, phase, 0, 1), for_gpus)
                    for one, task in proofs
                    if phase == 0 or one.has_rest
                ]
                for phase in (0, 1)
            )
            is_over = for_gpus or not any(one.has_rest for one, _ in proofs)
            found = [*first, *found] if is_over else [*first, *found, *rest, *found]
        joint_q_float64, lines = None, dict[str, wp.array[Any]]()
        if float64_finish:
            shape = (problems.capacity, self._model.joint_coord_count)
            joint_q_float64 = wp.zeros(shape, dtype=wp.float64, device=self._model.device)
            if not for_gpus:
                load_kernels_alone(SOLVE_EXTRAS, self._model.device)
                widening = widening_launch(problems, joint_q_float64, 0, 1)
                found.append(RecordedStep.of_launch("finish", widening))
            tasks = kernels.finish_tasks(problems, inputs, partition, count, joint_q_float64)
            found += [RecordedStep("finish", one.whole.kernel, (task, 0, 1), False) for one, task in tasks]
            lines = {"joint_q_float64": joint_q_float64, "unused_joint_q": problems.unused_joint_q}
            for name in BestAttempts.__annotations__:
                lines[f"finish_{name}"] = getattr(tasks[0][1].best, name)
        return work.recorded(partition, found, joint_q_float64, lines, values=for_gpus)

    def _plan(self, work: Workspace, settings: SolveSettings, weights: RowWeights) -> Plan:
        device, lines = self._model.device, 1 if weights.is_common else work.problems.capacity
        partition = common_partition(weights, self._layout.incidence, device, join=self._join, lines=lines)
        solve = self._solve_launches(work, partition, settings)
        record = _joined([work.record_read, *solve, self._verify_launches(work, partition)])
        recording = Recording(device, record, self.executor, self._threads, waits=work.copies)
        return Plan(partition, recording, weights.stamp)

    def attempts(self, work: Workspace, settings: SolveSettings) -> tuple[Partition, Callable[[], None]]:
        """Return the islands of a batch that has been read, and launches of single attempts at its problems."""
        (plan, weights), count = self._planned(work, settings), settings.problem_count
        partition = work.discovered(count, join=self._join) if plan is None else plan.partition
        if plan is None:
            partition.scales.write(weights, partition.row_island)
        elif plan.attempts is not None:
            return partition, plan.attempts.prepare(count)
        tasks = self.kernels.tasks(work.problems, work.inputs, partition, count, work.problems.best)
        modules = dict.fromkeys([SOLVE_IO, *work.verification.modules()], LAUNCH_BLOCK)
        load_kernels(modules | dict(block for one, _ in tasks for block in one.blocks().items()), self._model.device)
        record = partial(self.kernels.launches.record, self.kernels.launches.size(count, settings.seeds), tasks)
        found = Recording(self._model.device, record, self.executor, self._threads)
        if plan is not None:
            plan.attempts = found
        return partition, found.prepare(count)

    def _prepare_in_steps(self, work: Workspace, settings: SolveSettings, weights: RowWeights) -> PreparedSolve:
        """Read and find the islands now, if the active rows differ between problems; record the rest."""
        count = settings.problem_count
        work.read(count)
        partition = work.discovered(count, join=self._join)
        partition.scales.write(weights, partition.row_island)
        solve = self._solve_launches(work, partition, settings)
        record = _joined([*solve, self._verify_launches(work, partition)])
        replay = Recording(self._model.device, record, self.executor, self._threads).prepare(count)

        def run() -> None:
            if not work.inputs.fault.host.any():  # only the first part sees the fault mark of a reading in one part
                replay()

        return PreparedSolve(partition, run, self._finished, self._choice)

    def _selection(self, work: Workspace, settings: SolveSettings) -> SolutionSelection:
        """Return room for all attempts, large enough: from an earlier solve, or else new."""
        problems, count, arm = work.problems, settings.problem_count, self.kernels.sole_arm is not None
        wanted = settings.seeds, settings.options.solution_count, settings.only_branches
        found = self._selections.pop(wanted, None)
        if found is None or found.capacity < count:
            capacity = min(problems.capacity, 1 << (count - 1).bit_length())
            small = [one for one in self._selections.values() if one.capacity * one.seeds <= KEPT_ATTEMPTS]
            self._selections = {key: one for key, one in self._selections.items() if one in small[1 - SELECTIONS_MAX :]}
            kept = (None, *self._selections.values())
            for key in [key for key in self.plans if key[0] not in kept]:
                del self.plans[key]
            found = SolutionSelection(self._model, problems, capacity, *wanted[:2], only_branches=wanted[2], of_arm=arm)
        self._selections[wanted] = found  # in order of last use
        found.set_order(settings.options.best_of, settings.options.solution_difference)
        if settings.options.best_of == "nearest":
            found.measure_from(work.start, count)
        return found

    def _solve_launches(self, work: Workspace, partition: Partition, settings: SolveSettings) -> list[_Record]:
        """Return the launches of attempts, then of the choice among them and the float64 finish."""
        problems, count, choice = work.problems, settings.problem_count, self._choice
        finished, of_problems = self._finished, (problems, work.inputs, partition, count)
        attempts = self.kernels.tasks(*of_problems, problems.best if choice is None else choice.attempts)
        finish = [] if finished is None else self.kernels.finish_tasks(*of_problems, finished.device)
        proofs = self.kernels.proof_tasks(problems, work.inputs, work.verification, partition, count, choice)
        modules = dict(block for one, _ in (*attempts, *finish) for block in one.blocks().items())
        modules |= {one.kernel.module: LAUNCH_BLOCK for one, _ in proofs}
        is_timed = settings.options.deadline_s is not None
        others = [SOLVE_IO, *work.verification.modules()]
        others += [] if choice is None and finished is None and not is_timed else [SOLVE_EXTRAS]
        others += [SOLVE_BRANCHES] if choice is not None and choice.of_arm and not settings.checks_collision else []
        load_kernels(modules | dict.fromkeys(others, LAUNCH_BLOCK), self._model.device)
        launches = self.kernels.launches
        record = partial(launches.record, launches.size(count, settings.seeds, is_timed=is_timed))
        found: list[_Record] = [partial(record, attempts)]
        if proofs:
            first, rest = (partial(launches.record_proofs, proofs, phase) for phase in (0, 1))
            is_over = choice is not None or launches.in_threads or not any(one.has_rest for one, _ in proofs)
            found = [first, *found] if is_over else [first, *found, rest, *found]
        if choice is not None:
            choice.use_arm(sole_arm(proofs), 0.0 if self.kernels.collision is None else self.kernels.collision.reach)
            # A GPU makes all attempts side by side, too, where solutions in the order of seeds would suffice.
            whole = settings.only_branches or settings.options.best_of is not None or bool(self._model.device.is_cuda)
            rounds = partial(choice.record_rounds, partition, found[-1], settings.seeds if whole else ROUND_SEEDS)
            found = [*found[:-1], rounds, partial(choice.record_choice, partition)]
            if choice.only_branches and settings.options.solutions == "all":
                arms = [(one, task) for one, task in proofs if isinstance(one, ProofKernel)]
                sets = [(one.of_complete_sets, task) for one, task in arms if one.of_complete_sets is not None]
                found.append(partial(launches.record_proofs, sets, 0))
        if is_timed:
            found.append(partial(_record_between, _mark_stopped, problems))
        settle = [] if choice is not None else self.kernels.settle_tasks(*of_problems)
        if settle:
            found += [partial(_record_between, _begin_settling, problems), partial(record, settle)]
        if finished is not None:
            found += [partial(record_widening, problems, finished.device), partial(record, finish)]
        return found

    def _verify_launches(self, work: Workspace, partition: Partition) -> _Record:
        finished = self._finished
        return partial(work.record_verify, partition, None if finished is None else finished.device)


def _record_between(kernel: wp.Kernel, problems: Problems, part: int, parts: int) -> PartLaunches:
    """Record the launch of a kernel on the best attempts and searches of the problems."""
    inputs: list[Any] = [problems.settings, part, parts, problems.best, problems.searches]
    launch = wp.launch(kernel, 1, inputs, device=problems.settings.device, record_cmd=True)
    return PartLaunches([per_problem(launch)])


@wp.kernel(module=SOLVE_EXTRAS, enable_backward=False)
@typing.no_type_check
def _mark_stopped(settings: wp.array[wp.int32], part: int, parts: int, best: BestAttempts, searches: Searches):
    p = wp.max(first_problem(settings, part, parts) + wp.tid(), 0)
    if settings[STOP] == 0:
        return
    for island in range(best.status.shape[1]):
        if searches.next_seed[p, island] < searches.end_seed[p, island]:
            mark_deadline(best, p, island)


@wp.kernel(module=SOLVE_IO, enable_backward=False)
@typing.no_type_check
def _begin_settling(
    settings: wp.array[wp.int32],
    part: int,
    parts: int,
    best: BestAttempts,
    searches: Searches,
):
    p = wp.max(first_problem(settings, part, parts) + wp.tid(), 0)
    for island in range(best.status.shape[1]):
        searches.next_seed[p, island] = 0
        searches.end_seed[p, island] = 0
        if best.met[p, island] == NO_TARGET and best.status[p, island] == MAX_ITERATIONS:
            searches.end_seed[p, island] = 1


def record_widening(problems: Problems, joint_q_float64: wp.array[Any], part: int, parts: int) -> PartLaunches:
    """Record the copy of the best attempts into float64."""
    return PartLaunches([per_problem(widening_launch(problems, joint_q_float64, part, parts))])


def _joined(records: Sequence[_Record]) -> _Record:
    return lambda part, parts: PartLaunches.joined([record(part, parts) for record in records])


class LoopClosing:
    """Closes the loops of answers in float64, by rows of loops alone.

    The step is the compiled engine's: the least step that lowers the rows; joints outside all loops stay.
    """

    def __init__(self, layout: RowLayout, *, hard_limits: bool) -> None:
        self._layout = layout.of_kind(RowKind.CONSTRAINT)
        self._device = layout.rows.model.device
        self._kernels = IslandKernels(self._layout, launches_on(self._device), hard_limits=hard_limits)
        self._weights = TargetWeights([], 1.0)
        self._joint_q: HostDeviceArray | None = None

    def close(self, work: Workspace, count: int) -> HostDeviceArray:
        """Return the best attempts of a solve in float64, with loops closed as far as possible from there."""
        problems, kernels = work.problems, self._kernels
        shape = problems.best.joint_q.shape
        if self._joint_q is None or self._joint_q.device.shape != shape:
            self._joint_q = HostDeviceArray(shape, wp.float64, self._device)
        weights = self._weights.of_rows(b"", self._layout.rows, count)
        partition = host_partition(weights, self._layout.incidence, self._device)
        tasks = kernels.finish_tasks(problems, work.inputs, partition, count, self._joint_q.device, is_verdict=False)
        modules = dict(block for one, _ in tasks for block in one.blocks().items())
        load_kernels(modules | {SOLVE_EXTRAS: LAUNCH_BLOCK}, self._device)
        record = partial(kernels.launches.record, kernels.launches.size(count, 1), tasks)
        launches = [record_widening(problems, self._joint_q.device, 0, 1), record(0, 1)]
        PartLaunches.joined(launches).run(count)
        wait(self._device)
        return self._joint_q
