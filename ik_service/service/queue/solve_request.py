"""Requests to a solver, independent of any wire format, and requests in the queue, with their observers.

Values are not checked here: readers of documents check shapes, finite numbers and unit quaternions, and the solver
checks the same again before any launch.
"""

import logging
import math
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, ParamSpec, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ik_service.collision.world import AttachedObject, World
from ik_service.motion.clip_result import ClipResult
from ik_service.motion.result import PathResult
from ik_service.robots import RobotModel
from ik_service.service.queue.errors import CompilingError, ExpiredError, RefusalReason
from ik_service.service.queue.fair_cap import Owner
from ik_service.service.queue.objective_data import ROW_WEIGHTS, ObjectiveData, patterns_on
from ik_service.solver.candidate_solving import SAMPLED
from ik_service.solver.candidates import CandidateResult, Choice
from ik_service.solver.given.batch import Batch
from ik_service.solver.given.options import SolverOptions
from ik_service.solver.given.targets import DATA, Target, part_of, rows_of
from ik_service.solver.result import IKResult, join_results
from ik_service.solver.trace import SolveTrace

if TYPE_CHECKING:
    from typing import Self  # Python 3.11

Float64Array = NDArray[np.float64]
Engine = Literal["auto", "compiled", "staged"]
Answers: TypeAlias = IKResult | CandidateResult | ClipResult | PathResult  # of a batch: problems, a choice, a motion
_GIVEN_ROWS = {given: np.repeat(given, 3)[None] for given in product((False, True), repeat=2)}
"""Given rows of a target, bool [1, 6], by whether positions and orientations are given."""
_ALL_ENABLED = np.ones((1, 0), bool)
"""Stands for the patterns of constraints that are enabled, [patterns, constraints], where all are."""
COMPILED_DOFS = 200
"""DOFs of the longest chain that the compiled engine takes on a CPU; the staged engine is far slower."""
PATTERNS_MOST = 8
"""Patterns of active rows in a fast request: each has its own kernels, which take some 20 ms to load."""
USUAL_EFFORT = 100_000
"""DOFs times seeds times iterations of a problem that is fast in the compiled engine."""
RETRY_MOST_S = 60
"""Longest time after which a caller is asked to try again [s]."""
MOTION_MOST_S, SAMPLE_FRAMES = 10.0, 64
"""Longest CPU time of the solver for one motion [s], while others wait; frames that are moved to compile kernels."""

Progress = Callable[[int], None]
"""Called with the number of problems that have just been solved."""
Arguments = ParamSpec("Arguments")

_logger = logging.getLogger(__name__)


class MotionCall(NamedTuple):
    """A motion through all problems of a request, which are its frames or waypoints."""

    call: Literal["fit_clip", "follow"]  # method of `IKSolver`
    arguments: Mapping[str, Any]  # arguments of the method, without targets, surroundings and options


@dataclass(frozen=True, eq=False)
class SolveRequest:
    """Batch of problems for one robot."""

    targets: tuple[Target, ...]  # the targets; at least one target or one objective is required
    batch: Batch  # the problems, without worlds; either each problem has its own start, or no problem has a start
    options: SolverOptions = field(default_factory=SolverOptions)  # options of the solve
    objectives: tuple[ObjectiveData, ...] = ()  # objectives besides the targets
    world: World | None = None  # obstacles around the robot; None: no obstacles
    # enabled objects of the world, bool [objects] or [problem_count, objects]; None: all
    object_enabled: NDArray[np.bool_] | None = None
    attached: Mapping[str, AttachedObject] = field(default_factory=dict)  # objects attached to links, by name
    engine: Engine = "auto"  # engine of the solve, as for `IKSolver`
    islands: bool = True  # whether trees without common rows are solved independently
    choice: Choice | None = None  # choice among the problems, which are candidates then; None solves each
    motion: MotionCall | None = None  # motion through the problems; None solves each
    traces: bool = False  # whether the one problem is traced

    @property
    def is_alone(self) -> bool:
        """Return whether all problems are solved by one call, without other requests."""
        return self.choice is not None or self.motion is not None or self.traces

    @property
    def problem_count(self) -> int:
        """Number of problems."""
        return self.batch.problem_count

    @cached_property
    def structure(self) -> tuple[object, ...]:
        """Structure of the request: requests of equal structure can share a solver."""
        targets = [
            (target.link, target.reference_link, target.frame, *(getattr(target, name) is None for name in DATA))
            for target in self.targets
        ]
        objectives = [objective.structure for objective in self.objectives]
        return (*targets, *objectives, self.engine, self.islands, self.options.candidates)

    @cached_property
    def _rows_on(self) -> list[NDArray[np.bool_]]:
        """Active rows (given, with a weight above 0) of each target and objective, bool [patterns, rows].

        Enabled constraints come last.
        """
        batch, found = self.batch, []
        for target, position, turn in zip(self.targets, batch.positions, batch.orientations_xyzw, strict=True):
            rows = _GIVEN_ROWS[position is not None, turn is not None]
            is_plain = target.row_weights is None and target.tolerance is None
            found.append(rows if is_plain else patterns_on(target.weights() * rows[0]))
        enabled = _ALL_ENABLED if batch.enabled is None else patterns_on(batch.enabled)
        return [*found, *(objective.rows_on for objective in self.objectives), enabled]

    @property
    def pattern_count(self) -> int:
        """Largest number of patterns of active rows among the problems."""
        return math.prod(map(len, self._rows_on))

    @cached_property
    def batch_key(self) -> Hashable | None:
        """Batch key: requests with the same key can share a batch; None if this request must be solved alone.

        Requests with the same key use one solver, have the same active rows in all problems and have equal options.
        Choices among candidates share a key for the time of their problems, but no batch; likewise motions.
        """
        if math.prod(map(len, self._rows_on)) > 1:
            return None
        on = tuple(patterns.tobytes() for patterns in self._rows_on)
        batch = self.batch
        arrays = (*batch.positions, *batch.orientations_xyzw, batch.start, batch.limits, self.world)
        given = tuple(one is not None for one in arrays)
        held = tuple((name, one.content) for name, one in self.attached.items())
        chosen = None if self.choice is None else (self.choice.criterion, self.choice.via is None)
        return (self.structure, on, given, self.options, held, chosen, self.motion and self.motion.call, self.traces)

    @property
    def code_key(self) -> Hashable:
        """Kernel key: requests with the same key need the same kernels on one robot."""
        if self.choice is not None:
            return tuple(one.code_key if one.choice is None else "samples" for one in self.solves)
        if self.motion is not None:
            return (self.motion.call, replace(self, motion=None).code_key)
        further = tuple((objective.structure, objective.rows_on.tobytes()) for objective in self.objectives)
        options, extras = self.options, "none"
        if options.precision == "float64":
            extras = "float64"  # includes the choice among seeds
        elif options.runs_all_seeds or self.traces:
            extras = "choice"
        collision = (options.collision, self.world is None, options.repair)  # the first two decide about the check
        derived = options.sensitivity
        own = tuple(
            (target.link, target.reference_link, target.frame, target.offset is None, on.tobytes())
            for target, on in zip(self.targets, self._rows_on[: len(self.targets)], strict=True)
        )
        made_with = (self.engine, self.islands, options.candidates)
        return (own, further, self._rows_on[-1].tobytes(), extras, collision, derived, made_with)

    @property
    def solves(self) -> "list[Self]":
        """Requests with all kernels of this request: the request alone; of a choice kinds of solves, and samples."""
        if self.choice is None:
            return [self]
        plain, criterion, via = replace(self, choice=None), self.choice.criterion, self.choice.via
        found, several = [plain], dict[str, Any](solutions=2, seeds=None, precision="float32", repair=False)
        if criterion in ("nearest", "clearance"):
            several = {"best_of": criterion}
        if criterion != "first":
            found.append(replace(plain, options=replace(plain.options, **several)))
        if via is not None:
            second = via.batch.part(slice(self.problem_count))  # a sample has fewer problems
            poses = second.positions, second.orientations_xyzw
            found.append(replace(plain, batch=self.batch._replace(positions=poses[0], orientations_xyzw=poses[1])))
        return [*found, self] if criterion in SAMPLED else found

    def collision_names(self, robot: RobotModel) -> tuple[str, ...]:
        """Return the names for the indices in column `closest`.

        Order: links with collision spheres, attached objects, objects of the world.
        """
        links = () if robot.body_spheres is None else robot.body_spheres.links
        return (*links, *self.attached, *(() if self.world is None else self.world.names))

    def sample(self) -> "Self":
        """Return the smallest request with all kernels of this request: one attempt of one iteration, few problems.

        The sample has one problem per pattern of active rows, because each pattern may have its own islands. Of a
        motion it has the first frames, too.
        """
        weights: list[Any] = [target.weights() for target in self.targets]
        weights += [objective.data[ROW_WEIGHTS] for objective in self.objectives]
        weights.append(self.batch.enabled)
        count, first = self.problem_count, np.zeros(1, np.intp)
        lines = [array for array in weights if array is not None and array.ndim == 2 and len(array) == count]
        on = np.hstack([np.zeros((count, 1), bool), *(array.astype(np.float32) > 0.0 for array in lines)])
        if not (on == on[0]).all():
            first = np.sort(np.unique(on, axis=0, return_index=True)[1])  # problem of each pattern
        if self.motion is not None:
            frames = self._taken(np.union1d(first, np.arange(min(count, SAMPLE_FRAMES))))
            return replace(frames, motion=MotionCall(self.motion.call, {"dt": self.motion.arguments["dt"]}))
        options = replace(self.options, seeds=1, max_iterations=1, solutions=min(2, self.options.solution_count))
        return replace(self._taken(first), options=options)

    def part(self, rows: slice) -> "Self":
        """Return some of the problems as a request."""
        if rows.start == 0 and rows.stop >= self.batch.problem_count:
            return self
        return self._taken(rows)

    def _taken(self, problems: slice | NDArray[np.intp]) -> "Self":
        return replace(
            self,
            targets=tuple(part_of(target, problems) for target in self.targets),
            batch=self.batch.part(problems)._replace(lines=None),  # lines index the uncut data
            objectives=tuple(objective.part(problems) for objective in self.objectives),
            object_enabled=rows_of(self.object_enabled, problems),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class TracedResult(IKResult):
    """The answer to one problem, with its trace."""

    trace: SolveTrace


class TimedResult(NamedTuple):
    """Result of a request, with times."""

    result: Any  # IKResult in the order of the problems, or the result of a choice or motion
    queue_ms: float  # waiting time before the request's first batch [ms]
    solve_ms: float  # time from the start of the request's first batch to the end of its last batch [ms]


class Expected(NamedTuple):
    """Expected request, before its body has been read."""

    key: Hashable  # batch key: requests with the same key can share a batch; None: unknown, with an estimated wait of 0
    problem_count: int  # number of problems
    owner: Owner = None


class QueuedRequest:
    """Request from `submit` to its answer. The future can be cancelled until the answer is set.

    Times are on the monotonic clock [s]; after `deadline`, the answer is useless. `label` is the name of the robot in
    metrics; robots of equal content may have several names. Owners share the solver.
    """

    def __init__(
        self,
        robot: RobotModel,
        request: SolveRequest,
        queued_at: float,
        deadline: float,
        *,
        label: str | None = None,
        owner: Owner = None,
    ) -> None:
        self.robot, self.request, self.queued_at, self.deadline = robot, request, queued_at, deadline
        self.label, self.owner = label, owner
        own = request.batch_key
        # requests with the same key can share a batch
        self.key: Hashable = (robot.content_hash, id(self) if own is None else own)
        self.future: Future[TimedResult] = Future()  # receives the answer, or the error
        self.problem_count = request.batch.problem_count
        self.remaining = self.problem_count  # problems not yet in a batch; batches take problems from the first one on
        self.is_small = True  # whether the whole request fits into a batch
        self.is_compiled = False  # whether the kernels for the request are known to be compiled
        self._started_at = queued_at
        self._parts: list[tuple[Any, slice]] = []

    @cached_property
    def code_key(self) -> Hashable:
        """Kernel key: requests with the same key need the same kernels; read only for the first request of a group."""
        return (self.robot.content_hash, self.request.code_key)

    @property
    def may_be_slow(self) -> bool:
        """Return whether a problem may be slow, judged by DOFs, kernels, engine, seeds, iterations and derivatives."""
        options, dofs, is_staged = self.request.options, self.robot.active_dof_count, self.request.engine == "staged"
        if self.request.pattern_count > PATTERNS_MOST or options.sensitivity is not None or is_staged:
            return True
        return dofs > COMPILED_DOFS or dofs * options.seed_count * options.max_iterations > USUAL_EFFORT

    def is_stale(self, now: float) -> bool:
        """Return whether the request is cancelled or past its deadline."""
        return self.future.cancelled() or self.deadline <= now

    def expired_error(self, now: float, compile_s: float) -> ExpiredError:
        """Return the error for an expired request; all kernels for its owner are there in `compile_s` [s]."""
        waited = now - self.queued_at
        if self.is_compiled:
            return ExpiredError(
                f"The deadline passed after {waited:.3g} s in the queue. Nothing was solved; try again later."
            )
        retry_s = max(1, min(RETRY_MOST_S, math.ceil(compile_s)))
        return CompilingError(
            f"Code for requests of this kind is being compiled, which happens once, and it was not there after "
            f"{waited:.3g} s. Ask again in some {retry_s} s, or wait longer.",
            retry_s,
        )

    def keep(self, result: Answers, rows: slice, started_at: float, ended_at: float) -> None:
        """Keep the results of the last share, some rows of a batch; after the last problem, set the answer."""
        if not self._parts:
            self._started_at = started_at
        self._parts.append((result, rows))
        if self.remaining == 0:
            queue_ms, solve_ms = 1e3 * (self._started_at - self.queued_at), 1e3 * (ended_at - self._started_at)
            is_alone = self.request.is_alone or rows == slice(0, len(result.status))
            is_whole = len(self._parts) == 1 and is_alone  # the batch is this request
            answer = TimedResult(result if is_whole else join_results(self._parts), queue_ms, solve_ms)
            if not self.future.done() and self.future.set_running_or_notify_cancel():
                self.future.set_result(answer)
            self._parts = []

    def require_time(self, started: float) -> None:
        """Raise ExpiredError for a motion that nobody waits for any more, or that takes the solver for too long.

        `started` is the CPU time of this thread at the start [s]: code that is compiled meanwhile does not count.
        """
        is_over = time.thread_time() > started + MOTION_MOST_S
        if self.request.motion is not None and (is_over or self.is_stale(time.monotonic())):
            limit = f"The deadline passed, or the {MOTION_MOST_S:g} s that the solver has for one motion."
            raise ExpiredError(f"{limit} Send fewer frames at once.")

    def fail(self, error: BaseException) -> None:
        """Set an error and put no further problems into batches."""
        self.remaining = 0
        if not self.future.done() and self.future.set_running_or_notify_cancel():
            self.future.set_exception(error)


@dataclass(frozen=True, slots=True)
class BatchShare:
    """Problems of one request in a batch."""

    queued: QueuedRequest
    rows: slice  # problems of the request in this batch
    count: int  # number of these problems


class PoolObserver:
    """Observer of a pool, called in the pool's threads; the methods of this base class are empty."""

    def solved(self, robot: RobotModel, shares: Sequence[BatchShare], result: Answers, seconds: float) -> None:
        """A batch is solved."""

    def compiled(self, queued: QueuedRequest, seconds: float) -> None:
        """Kernels for a request are compiled, or were found in the cache."""

    def dropped(self, queued_requests: Sequence[QueuedRequest]) -> None:
        """Requests are dropped unsolved: cancelled, or past their deadline."""

    def refused(self, reason: RefusalReason) -> None:
        """`submit` refuses a request; called in the thread of its caller."""


def notify(method: Callable[Arguments, None], /, *arguments: Arguments.args, **options: Arguments.kwargs) -> None:
    """Call a method of an observer and log its errors, so that no error ends a thread or a request."""
    try:
        method(*arguments, **options)
    except Exception:  # any error of an observer would end the thread
        _logger.exception("An observer of the solver pool has failed.")
