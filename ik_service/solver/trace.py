"""Traces: the attempts of one problem, iteration by iteration.

    a solved problem -> all attempts, ended after 0, 1, 2, ... iterations by the solver's own kernels
    -> configurations -> errors and joints at limits by the verdict, norms of rows in float64 -> table

No iteration is written a second time: an attempt ended after k iterations holds the state of a longer attempt then.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.compiler import IterationSource
from ik_service.errors import EngineError
from ik_service.kinematics.host_tangent import body_motion
from ik_service.mechanism.transforms import Float64Array
from ik_service.solver.arrays.branch_starts import BRANCHES_MAX, COUNT_BITS, FIRST_AT
from ik_service.solver.arrays.partition import Partition
from ik_service.solver.compiled.engine import CompiledEngine
from ik_service.solver.compiled.solutions import SolutionSelection
from ik_service.solver.derivatives.host_rows import HostRows
from ik_service.solver.given.batch import Batch
from ik_service.solver.lm.ranking import FAILED, IN_CONTACT
from ik_service.solver.lm.status import STATUS_WORDS
from ik_service.solver.result import IKResult, ResultHead
from ik_service.solver.second_tries.second_tries import SecondTries
from ik_service.solver.solve import SolverCore
from ik_service.solver.verdict.explanation import AskedSolve
from ik_service.solver.workspace import Workspace
from objectives import InputError

FIRST_SEEDS = 8
"""First attempts of a trace, before the attempt of the answer."""
END_WORDS = (*STATUS_WORDS, "minimum")
"""Words of the ends of attempts, by code; at a minimum no step lowers the error."""
OF_ATTEMPTS = "joint_q", "cost", "iterations", "status", "rank"  # arrays read by a trace


@dataclass(frozen=True, eq=False)
class SolveTrace:
    """Attempts of one problem, iteration by iteration; `print` shows the attempt of the answer.

    Entry t of an array tells of the best configuration of each attempt so far, after `steps[t]` iterations; entry 0 is
    the start. An ended attempt keeps its last values. With lower-priority rows or closed loops there is one
    entry, the end: their attempts share their iterations out among stages.
    """

    problem: int  # index in its batch
    coordinate_names: tuple[str, ...]
    dof_names: tuple[str, ...]
    links: tuple[str, ...]  # of the targets
    labels: tuple[str, ...]  # of targets and objectives, with a priority other than 0
    seeds: tuple[int, ...]  # number of each attempt
    starts: tuple[tuple[str, ...], ...]  # of each attempt in each island: initial_joint_q, mid-range, branch or drawn
    ends: tuple[tuple[str, ...], ...]  # word for the end of each attempt in each island
    # seed of the answer of each island; -1 if its start was found in the search, which no trace repeats
    answer_seeds: tuple[int, ...]
    iterations: NDArray[np.int32]  # of whole attempts, shape [attempts, islands]
    steps: NDArray[np.int32]  # iterations so far, shape [entries, attempts, islands]
    joint_q: Float64Array  # configurations [rad or m], shape [entries, attempts, coordinates]
    cost: Float64Array  # 1/2 |r|^2 of an island as its kernel counts, shape [entries, attempts, islands]
    damping_factor: Float64Array  # of the next step; NaN with priorities, shape [entries, attempts, islands]
    norms: Float64Array  # |r| of weighted rows in float64, shape [entries, attempts, labels]
    position_error: Float64Array  # by the verdict [m], NaN if free, shape [entries, attempts, targets]
    orientation_error: Float64Array  # [rad], in the same form
    active_limits: NDArray[np.bool_]  # DOFs at a limit, shape [entries, attempts, DOFs]

    def table(self, seed: int, island: int = 0) -> str:
        """Return the iterations of one attempt as text.

        Raises:
            InputError: There is no such seed or island in the trace.
        """
        if seed not in self.seeds or not 0 <= island < self.iterations.shape[1]:
            raise InputError(f"Seed {seed} of island {island} is not in the trace. Seeds: {list(self.seeds)}.")
        k = self.seeds.index(seed)
        names = [f"{link} {unit}" for link in self.links for unit in ("mm", "deg")]
        lines = [["iteration", "|r|", "damping", *names, *(f"|{label}|" for label in self.labels), "at a limit"]]
        for t, count in enumerate(self.steps[:, k, island]):
            if t > 0 and count == self.steps[t - 1, k, island]:
                break
            errors = np.transpose([1e3 * self.position_error[t, k], np.degrees(self.orientation_error[t, k])])
            numbers = [np.sqrt(2.0 * self.cost[t, k, island]), self.damping_factor[t, k, island]]
            held = ", ".join(np.array(self.dof_names)[self.active_limits[t, k]])
            lines.append([str(count), *(f"{x:.3g}" for x in (*numbers, *errors.ravel(), *self.norms[t, k])), held])
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        rows = ("  ".join(text.rjust(w) for text, w in zip(line, widths, strict=True)).rstrip() for line in lines)
        return "\n".join([self._summary(k), *rows])

    def __str__(self) -> str:
        """Return the ends of the attempts, and the iterations of the answer's attempt of each island."""
        answers = list(enumerate(self.answer_seeds))
        lines = [f"problem {self.problem}", *map(self._summary, range(len(self.seeds)))]
        lines += ["The start of the answer was found in the search: not traced."] if -1 in self.answer_seeds else []
        return "\n".join(lines + [self.table(seed, island) for island, seed in answers if seed >= 0])

    def _summary(self, k: int) -> str:
        """Return start and end of an attempt in words."""
        parts = zip(self.starts[k], self.ends[k], self.iterations[k], self.cost[-1, k], strict=True)
        told = (f"{start}, {end} after {count}, |r| {np.sqrt(2.0 * cost):.3g}" for start, end, count, cost in parts)
        return f"seed {self.seeds[k]}: {'; '.join(told)}"

    def as_data(self) -> dict[str, Any]:
        """Return the trace as lists, numbers and texts, for JSON."""
        return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in vars(self).items()}


class Tracing:
    """The part of a solver that traces attempts."""

    _solves: SecondTries
    _head: ResultHead

    def trace(self, result: IKResult, problem: int = 0, *, seeds: int | None = None) -> SolveTrace:
        """Return the attempts at one problem of a result, iteration by iteration; `print` shows why they ended.

        The solver's own kernels make each attempt again, ended after 0, 1, 2, ... iterations. The finish in float64 and
        second tries, such as `repair`, are left out. Arrays given to the solve, and data of targets and objectives,
        have to be as they were.

        Args:
            result: Answers of this solver.
            problem: Index of the problem.
            seeds: First attempts to trace, None for 8; the attempt of the answer comes with them.

        Raises:
            InputError: There is no such problem, or the result is of another solver or a recorded solve.
            EngineError: The solver is staged.
        """
        core, count = self._solves.core, FIRST_SEEDS if seeds is None else seeds
        if not isinstance(core.engine, CompiledEngine):
            raise EngineError("Only the compiled engine traces its attempts; this solver is staged.")
        if not isinstance(result, IKResult) or result.asked is None or not _is_own(core, self._head, result):
            raise InputError("result is no result of a solve of this solver.")
        if isinstance(problem, bool) or not isinstance(problem, Integral) or not 0 <= problem < len(result):
            raise InputError(f"problem is {problem!r}. Allowed: 0 to {len(result) - 1}.")
        if isinstance(count, bool) or not isinstance(count, Integral) or count < 1:
            raise InputError(f"seeds is {seeds!r}. Allowed: a whole number of at least 1, or None.")
        return _traced(self._solves, core.engine, self._head, result, result.asked, int(problem), int(count))


def _is_own(core: SolverCore, head: ResultHead, result: IKResult) -> bool:
    """Return whether a result has the robot, order of joints, links and number of rows of a solver."""
    links = [[target.link for target in one] for one in (result.targets, core.targets.all)]
    robots = result.islands.robot.content_hash, core.robot.content_hash
    names = result.coordinate_names, head.order.coordinate_names
    rows = len(result.islands.row_labels), len(core.row_labels())
    return all(one == other for one, other in (links, robots, names, rows))


def _traced(
    solves: SecondTries,
    engine: CompiledEngine,
    head: ResultHead,
    result: IKResult,
    asked_solve: AskedSolve,
    problem: int,
    first_seeds: int,
) -> SolveTrace:
    core, (asked, whole) = solves.core, asked_solve
    batch = whole.part(np.array([problem]))
    answer_seeds = result.islands.seed_index[problem, : result.islands.nisland[problem]]
    wanted, of_branches = min(first_seeds, asked.search_seeds), 1 + int(BRANCHES_MAX)
    options = replace(
        asked,
        seeds=max(wanted, int(answer_seeds.max(initial=0)) + 1, min(of_branches, asked.search_seeds)),
        best_of=asked.best_of or "cost",  # makes all attempts, and keeps each
        solutions=1,
        deadline_s=None,
        repair=False,
        sensitivity=None,
    )
    guess = solves.opened_starts(batch, options)
    with core.data_of(batch), solves.using_targets(batch.targets):
        own, entries = batch._replace(targets=None, lines=None), list[dict[str, NDArray[Any]]]()
        for count in (None, *range(asked.max_iterations + 1)):  # first whole attempts
            done = core.run(own, options, guess=guess, verdict=False, iterations=count)
            if done is None:
                raise InputError("The arrays given to the solve hold other numbers now.")
            selection, partition = done[0].selection, done[0].partition
            assert isinstance(selection, SolutionSelection)  # all attempts are kept
            entries.append(selection.first_attempts(OF_ATTEMPTS))
            if count is None:
                sources, tree_island = _sources(engine, core.work, partition), partition.tree_island[0]
                if any(one.program.level_norms2 for one in sources):
                    break  # the stages of an attempt depend on the largest number of iterations
            elif np.array_equal(entries[-1]["iterations"], entries[0]["iterations"]):
                break
        entries = [*entries[1:-1], entries[0]]
        has_start, branches = own.start is not None, core.work.problems.searches.branches.numpy()[0, : len(sources)]
    origins = [_starts(options.search_seeds, int(state), has_start=has_start) for state in branches]
    moved, own_q = _island_coordinates(core, tree_island), head.order.coordinates_of(entries[-1]["joint_q"])
    gaps = np.abs((own_q - result.joint_q[problem] + np.pi) % (2.0 * np.pi) - np.pi)  # modulo turns
    of_islands = (gaps[:, head.order.coordinates_of(one[None])[0]].max(axis=1, initial=0.0) for one in moved)
    chosen = tuple(map(_answer, answer_seeds, origins, of_islands))
    kept = sorted({*range(min(wanted, len(entries[-1]["rank"]))), *(seed for seed in chosen if seed >= 0)})
    found = {name: np.stack([one[name][kept] for one in entries]) for name in OF_ATTEMPTS}
    shape, lines = found["joint_q"].shape, found["joint_q"].reshape(-1, found["joint_q"].shape[2])
    many = batch.part(np.zeros(len(lines), np.intp))
    with core.data_of(many), solves.using_targets(many.targets):
        judging = replace(options, best_of=None, seeds=1, max_iterations=1)
        verdict = core.solve(head, many._replace(targets=None, lines=None), judging, judged=lines)
        norms = _norms(core, many, lines.astype(np.float64))
    assert verdict is not None
    costs, steps, rank, status = (
        found[name][:, :, : len(sources)] for name in ("cost", "iterations", "rank", "status")
    )
    ends = np.array(END_WORDS)[status[-1]]
    ends = np.select([rank[-1] < IN_CONTACT, rank[-1] < FAILED], ["converged", "in_contact"], ends)
    factors = [_damping_factors(costs[:, :, k], steps[:, :, k], one) for k, one in enumerate(sources)]

    def of_entries(values: NDArray[Any]) -> NDArray[Any]:
        return values.reshape(*shape[:2], -1)

    return SolveTrace(
        problem,
        head.order.coordinate_names,
        head.order.dof_names,
        tuple(target.link for target in result.targets),
        _labels(core, result.islands.row_labels),
        tuple(kept),
        tuple(tuple(one[seed] for one in origins) for seed in kept),
        tuple(map(tuple, ends.tolist())),
        chosen,
        steps[-1],
        steps,
        of_entries(head.order.coordinates_of(lines).astype(np.float64)),
        costs.astype(np.float64),
        np.stack(factors, axis=2),
        of_entries(norms),
        of_entries(verdict.position_error),
        of_entries(verdict.orientation_error),
        of_entries(verdict.active_limits),
    )


def _island_coordinates(core: SolverCore, tree_island: NDArray[np.integer]) -> list[NDArray[np.bool_]]:
    """Return the mask of each island's coordinates, from the island of each tree."""
    island = np.append(tree_island, -1)[core.robot.trees.coordinate_treeid]  # -1: of no tree
    return [island == k for k in range(int(tree_island.max(initial=-1)) + 1)]


def _answer(seed: int, starts: tuple[str, ...], gap: Float64Array) -> int:
    """Return the seed of an island's answer; for -1 the branch whose attempt is nearest, -1 without any."""
    branches = np.flatnonzero(np.array(starts[: len(gap)]) == "branch")
    if seed >= 0 or not len(branches):
        return int(seed)
    return int(branches[gap[branches].argmin()])


def _sources(engine: CompiledEngine, work: Workspace, partition: Partition) -> list[IterationSource]:
    """Return the iteration of each island of the problem last solved."""
    given = work.problems, work.inputs, partition, 1, work.problems.best
    return [one.source for one, _ in engine.kernels.tasks(*given)]


def _starts(seeds: int, state: int, *, has_start: bool) -> tuple[str, ...]:
    """Return the origin of each seed, from the branches of an arm as `arrays.branch_starts` keeps them."""
    first, count = state >> int(FIRST_AT), state & int(COUNT_BITS)
    found = [*["initial_joint_q"] * has_start, "mid-range", *["drawn"] * seeds]
    found[first : first + count] = ["branch"] * count
    return tuple(found[:seeds])


def _damping_factors(cost: NDArray[np.floating], steps: NDArray[np.integer], source: IterationSource) -> Float64Array:
    """Return the damping factor after each entry, from costs and steps, all of shape [entries, attempts]."""
    found, damping = np.full(cost.shape, np.nan), source.damping
    if source.program.level_norms2:
        return found
    factor, before = np.ones(cost.shape[1]), np.full(cost.shape[1], np.inf)
    for t, own in enumerate(cost):
        is_progress = own < before * (1.0 - damping.progress)
        factor = np.where(is_progress, np.maximum(factor * damping.down, 1.0), factor * damping.up)
        goes_on = steps[min(t + 1, len(cost) - 1)] > steps[t]
        factor[(factor > damping.factor_max) & goes_on] = 1.0  # a step aside from a saddle
        found[t], before = factor, own
    return found


def _labels(core: SolverCore, labels: Sequence[str]) -> tuple[str, ...]:
    """Return a label for each target and objective, with a priority other than 0."""
    rows = core.layout.rows
    of_blocks = enumerate(zip(rows.start, rows.sizes, strict=True))
    return tuple(labels[first] + " (priority 1)" * (k in rows.secondary) for k, (first, size) in of_blocks if size)


def _norms(core: SolverCore, batch: Batch, joint_q: Float64Array) -> Float64Array:
    """Return |r| of each target and objective in configurations, in float64, shape [n, labels]."""
    of_solver = core.layout.rows
    rows = HostRows(core.robot, of_solver, hard_limits=False)
    data = rows.data(core.targets.all, batch, batch.enabled)
    values = rows.values(body_motion(core.robot, joint_q), data).rows
    of_blocks = zip(of_solver.start, of_solver.sizes, strict=True)
    norms = [np.linalg.norm(values[:, first : first + size], axis=1) for first, size in of_blocks if size]
    return np.stack(norms, axis=1) if norms else np.zeros((len(joint_q), 0))
