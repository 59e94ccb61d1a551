"""Traces: the attempts of one problem, iteration by iteration.

    a solved problem -> all attempts, ended after 0, 1, 2, ... iterations by the solver's own kernels
    -> configurations -> errors and joints at limits by the verdict, norms of rows in float64 -> table

No iteration is written a second time: an attempt that ends after k iterations holds the state of a longer attempt then.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.compiler import IterationSource
from ik_service.errors import EngineError
from ik_service.kinematics.host_tangent import body_motion
from ik_service.mechanism.transforms import Float64Array
from ik_service.solver.arrays.branch_starts import COUNT_BITS, FIRST_AT
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
from ik_service.solver.workspace import Workspace
from objectives import InputError

FIRST_SEEDS = 8
"""First attempts of a trace, before that of the answer."""
END_WORDS = (*STATUS_WORDS, "minimum")
"""Words of the ends of attempts, by code; at a minimum no step lowers the error."""
OF_ATTEMPTS = "joint_q", "cost", "iterations", "status", "rank"  # arrays that a trace reads


@dataclass(frozen=True, eq=False)
class SolveTrace:
    """Attempts of one problem, iteration by iteration; `print` shows the attempt that gave the answer.

    Entry t of an array tells of the best configuration of each attempt so far, after `steps[t]` iterations; entry 0 is
    the start. An attempt that has ended keeps its last values.
    """

    problem: int  # index in its batch
    coordinate_names: tuple[str, ...]
    dof_names: tuple[str, ...]
    links: tuple[str, ...]  # of the targets
    labels: tuple[str, ...]  # of targets and objectives, with the priority where it is not 0
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

        The solver's own kernels make each attempt again, ended after 0, 1, 2, ... iterations. Second tries, such as
        `repair`, are left out. Data of targets and objectives are those of now.

        Args:
            result: Answers of this solver.
            problem: Index of the problem.
            seeds: Attempts to trace at least; None for 8. All attempts up to that of the answer are traced.

        Raises:
            InputError: There is no such problem, or the result is of a recorded solve.
            EngineError: The solver is staged.
        """
        return _traced(self._solves, self._head, result, problem, seeds)


def _traced(solves: SecondTries, head: ResultHead, result: IKResult, problem: int, seeds: int | None) -> SolveTrace:
    """Return the trace of a problem of a result; arguments and errors as in `Tracing.trace`."""
    core, engine = solves.core, solves.core.engine
    if not isinstance(engine, CompiledEngine):
        raise EngineError("Only the compiled engine traces its attempts; this solver is staged.")
    if result.asked is None or not 0 <= problem < len(result):
        raise InputError(f"problem is {problem}. Allowed: a problem in a result of this solver.")
    asked, whole = result.asked
    batch = whole.part(np.array([problem]))
    answer_seeds = result.islands.seed_index[problem, : result.islands.nisland[problem]]
    wanted = min(FIRST_SEEDS if seeds is None else seeds, asked.search_seeds)
    options = replace(
        asked,
        seeds=max(wanted, int(answer_seeds.max(initial=0)) + 1),
        best_of=asked.best_of or "cost",  # makes all attempts, and keeps each
        solutions=1,
        deadline_s=None,
        repair=False,
        sensitivity=None,
    )
    guess = solves.opened_starts(batch, options)
    with core.data_of(batch), solves.using_targets(batch.targets):
        own, entries = batch._replace(targets=None, lines=None), list[dict[str, NDArray[Any]]]()
        for count in range(asked.max_iterations + 1):
            done = core.run(own, options, guess=guess, verdict=False, iterations=count)
            assert done is not None  # the numbers were checked in the solve
            selection, partition = done[0].selection, done[0].partition
            assert isinstance(selection, SolutionSelection)  # all attempts are kept
            entries.append(selection.first_attempts(OF_ATTEMPTS))
            if count > 0 and np.array_equal(entries[-1]["iterations"], entries[-2]["iterations"]):
                break  # every attempt ended by itself
        sources = _sources(engine, core.work, partition)
        has_start, branches = own.start is not None, core.work.problems.searches.branches.numpy()[0, : len(sources)]
        origins = [_starts(options.search_seeds, int(state), has_start=has_start) for state in branches]
        chosen = tuple(map(_answer, answer_seeds, origins, entries[-1]["rank"].T))
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
    touches = (rank[-1] >= IN_CONTACT) & (rank[-1] < FAILED)
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
        tuple(map(tuple, np.where(touches, "in_contact", np.array(END_WORDS)[status[-1]]).tolist())),
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


def _answer(seed: int, starts: tuple[str, ...], rank: NDArray[np.int64]) -> int:
    """Return the seed of an island's answer; for -1 the best branch, -1 without any."""
    branches = np.flatnonzero(np.array(starts[: len(rank)]) == "branch")
    if seed >= 0 or not len(branches):
        return int(seed)
    return int(branches[rank[branches].argmin()])


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
    """Return a label for each target and objective, with the priority where it is not 0."""
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
