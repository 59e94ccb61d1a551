"""The generated kernels of the compiled engine: one for each island, made once and kept.

    islands of all problems -> groups of problems with the same partition
        each island of a group -> its program (its trees and rows) -> its kernel

A kernel is made from code: the robot, its active DOFs, the island's trees and rows. Targets, weights, offsets, limits,
tolerances and budgets are data: new values compile nothing.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.collision.collision_data import CollisionData
from ik_service.compiler import (
    FACTORS,
    FIXED,
    FLOAT32_ERROR,
    FLOAT64_ERROR,
    DataInput,
    IslandSignature,
    Lanes,
    Precision,
    StepSpace,
    uncovered,
)
from ik_service.errors import EngineError
from ik_service.linear_solve.islands import find_islands
from ik_service.solver.arrays.input_kernels import InputArrays
from ik_service.solver.arrays.limit_arrays import LimitArrays
from ik_service.solver.arrays.partition import Partition, groups
from ik_service.solver.arrays.problem_arrays import BestAttempts, Problems, allocate_attempts
from ik_service.solver.compiled.island_launches import (
    IslandKernel,
    IslandWork,
    PacketLaunches,
    ProofWork,
    ThreadLaunches,
    launches_on,
)
from ik_service.solver.compiled.island_task import IslandTask, island_constants
from ik_service.solver.compiled.proof_kernel import ProofKernel, proof_kernel_of, proof_task, provable_targets
from ik_service.solver.compiled.reach import REACH_KERNEL, reach_task
from ik_service.solver.compiled.solutions import SolutionSelection
from ik_service.solver.compiled.tool_contact import contact_kernel, contact_task
from ik_service.solver.given.options import SolverOptions
from ik_service.solver.lm.ranking import EQUAL_MINIMA, EQUAL_MINIMA_OF_MANY, PRECISE_POSITION
from ik_service.solver.lm.seeds import seed_ranges
from ik_service.solver.rows.binding import RowKind, has_row_tolerances
from ik_service.solver.rows.layout import RowLayout, active_columns, island_parts
from ik_service.solver.verdict.verification import Verification

POSITION_ROWS = 3  # of a pose target, its first
CODES_MAX = 64  # kernels of islands kept by a solver


@dataclass(frozen=True)
class IslandCode:
    """A kernel, and the constant part of its tasks."""

    kernel: IslandKernel
    inputs: tuple[DataInput, ...]  # data read by the program
    constants: dict[str, wp.array[Any]]  # device arrays of the island by their names in `IslandTask`


def why_uncovered(layout: RowLayout, options: SolverOptions, *, join: bool) -> str | None:
    """Return the reason why the compiled engine cannot solve these rows, or None if there is none."""
    if options.check_jacobians or options.candidates > 1:
        return "check_jacobians and candidates belong to the staged engine"
    reason = uncovered(layout.rows.objectives)
    if reason is not None:
        return reason
    return _why_too_large(layout, launches_on(layout.rows.model.device).step_entries_max, join=join)


def _why_too_large(layout: RowLayout, most: int, *, join: bool) -> str | None:
    """Return the reason why islands with all rows on exceed `most` step entries, or None."""
    for dofs, depends, has_target in _structures(layout, join=join):
        space = StepSpace.of(dofs, depends, in_dofs=not has_target, most=most)
        if space.entries > most:
            return _too_large(len(dofs), space.entries, most)
    return None


def _too_large(dofs: int, entries: int, most: int) -> str:
    return f"an island has {dofs} DOFs, and its steps are solved with {entries} entries; it holds {most}"


def _structures(layout: RowLayout, *, join: bool) -> list[tuple[list[int], NDArray[np.bool_], bool]]:
    """Return, per island: its DOFs, the dependence of its rows on them, and whether rows of targets are among these."""
    model, support = layout.rows.model, layout.support
    is_target = layout.rows.row_kind == RowKind.TARGET
    incidence, touched = support.trees, active_columns(model, support.dofs)
    count, tree_island, row_island = find_islands(incidence, np.ones(len(incidence), bool), join=join)
    island = tree_island[model.robot.trees.active_treeid]
    found = []
    for k in range(count):
        dofs = np.flatnonzero((island == k) & touched.any(axis=0))
        own = row_island == k
        found.append(([int(a) for a in dofs], touched[own][:, dofs], bool(is_target[own].any())))
    return found


class IslandKernels:
    """The generated kernels of one solver, and their tasks."""

    def __init__(
        self,
        layout: RowLayout,  # the rows; all objectives are stated as expressions
        launches: PacketLaunches | ThreadLaunches,  # how the kernels are launched
        *,
        hard_limits: bool,  # whether joint limits are enforced
        collision: CollisionData | None = None,  # geometry of the collision check; None without a model
    ) -> None:
        self._layout, self.launches, self._hard_limits = layout, launches, hard_limits
        self._model, self._rows, self._support = layout.rows.model, layout.rows, layout.support
        self._targets = self._rows.of_kind(RowKind.TARGET)
        self._others: Sequence[Any] = self._rows.others
        self._tolerated = [k for k, one in enumerate(self._rows.objectives) if has_row_tolerances(one)]
        self._ranges: tuple[LimitArrays, Any] | None = None  # ranges of the limits of the last solve
        self._codes: OrderedDict[tuple[object, ...], IslandCode] = OrderedDict()
        # checks_collision: whether the prepared solve checks for collision
        self.collision, self.checks_collision = collision, False

    def for_gpus(self, *, join: bool) -> "IslandKernels":
        """Return kernels for GPUs for the same problems; EngineError where an island is too large."""
        reason = _why_too_large(self._layout, ThreadLaunches.step_entries_max, join=join)
        if reason is not None:
            raise EngineError(f"The compiled engine does not cover this problem on a GPU: {reason}.")
        data = None if self.collision is None else CollisionData(self._model, Lanes(1))
        return IslandKernels(self._layout, ThreadLaunches(), hard_limits=self._hard_limits, collision=data)

    @cached_property
    def sole_arm(self) -> ProofKernel | None:
        """The kernel of the arm if the only rows are one whole pose of an arm with a closed form, on a CPU."""
        if self.launches.in_threads or len(self._rows.objectives) != 1:
            return None
        if not provable_targets(self._rows, range(self._rows.count)):
            return None
        target: Any = self._rows.objectives[0]
        return proof_kernel_of(self._model.robot, target.link, Lanes.on_cpu())

    def data_key(self) -> tuple[object, ...]:
        """Return the array addresses held by recorded launches; a change requires a new recording."""
        arrays = [objective.data(name) for objective in self._others for name in objective.data_rows()]
        return tuple((array.ptr, array.shape, array.strides) for array in arrays)

    def tasks(
        self, problems: Problems, inputs: InputArrays, partition: Partition, problem_count: int, answers: Any
    ) -> list[IslandWork]:
        """Return kernels and tasks to solve all islands of the problems."""
        # A partition common to all problems serves any number of problems. Attempts go to `answers`, `BestAttempts`:
        # either of the problems, or with room for every attempt.
        found = self._all_tasks(problems, inputs, partition, problem_count, "float32")
        for _, task in found:
            task.best, task.searches = answers, problems.searches
        return found

    def settle_tasks(
        self, problems: Problems, inputs: InputArrays, partition: Partition, problem_count: int
    ) -> list[IslandWork]:
        """Return kernels and tasks to continue the best attempts of objectives alone."""
        tasks = self._all_tasks(problems, inputs, partition, problem_count, "float32")
        found = [(one, task) for one, task in tasks if not one.source.program.errors and not one.waves]
        scratch = allocate_attempts(problems.capacity, 1, problems.best.rank.shape[1], self._model.device)
        best: Any = BestAttempts()
        for name in BestAttempts.__annotations__:
            setattr(best, name, getattr(problems.best, name))
        best.seed, best.iterations = scratch.seed, scratch.iterations
        for _, task in found:
            task.settings, task.start_joint_q = problems.finish_settings, problems.best.joint_q
            task.best, task.searches = best, problems.searches
        return found

    def finish_tasks(
        self,
        problems: Problems,  # their arrays
        inputs: InputArrays,  # holds the caller's numbers in float64
        partition: Partition,
        problem_count: int,
        joint_q_float64: wp.array[Any],  # output; holds the best attempts before
        *,
        is_verdict: bool = True,  # whether its status becomes the answer's, without targets
    ) -> list[IslandWork]:
        """Return kernels and tasks of the float64 finish: one attempt each, from the best attempt."""
        found = self._all_tasks(problems, inputs, partition, problem_count, "float64")
        scratch = allocate_attempts(problems.capacity, 1, problems.best.rank.shape[1], self._model.device)
        scratch.joint_q = problems.unused_joint_q
        for one, task in found:
            task.settings = problems.finish_settings
            task.start_joint_q, task.best_joint_q_float64 = problems.best.joint_q, joint_q_float64
            # Without targets, this status says whether the answer is a minimum.
            task.best, task.searches = scratch, problems.searches
            if one.source.with_hessian and is_verdict:
                task.best.status = problems.best.status
        return found

    def proof_tasks(
        self,
        problems: Problems,
        inputs: InputArrays,
        verification: Verification,
        partition: Partition,
        problem_count: int,
        choice: SolutionSelection | None = None,  # where several solutions are wanted
    ) -> list[ProofWork]:
        """Return kernels and tasks to prove pose targets out of reach, or blocked by objects."""
        lanes, found = Lanes(1) if self.launches.in_threads else Lanes.on_cpu(), list[ProofWork]()
        robot, device, collision = self._model.robot, self._model.device, self.collision
        for island, listed, _, rows in self._islands(problems, partition, problem_count):
            whole = provable_targets(self._rows, rows.tolist())
            for k in provable_targets(self._rows, rows.tolist(), POSITION_ROWS):
                objective: Any = self._rows.objectives[k]
                kernel = proof_kernel_of(robot, objective.link, lanes) if k in whole else None
                own = list[ProofWork]()
                if kernel is None or kernel.arm.held:
                    task = reach_task(robot, objective.link, device, hard_limits=self._hard_limits)
                    if task is not None:
                        task.in_threads = int(self.launches.in_threads)
                        own.append((REACH_KERNEL, task))
                if kernel is not None:
                    task = proof_task(kernel, robot, device)
                    task.limit_lower, task.limit_upper = problems.limits.float64
                    task.start_joint_q = problems.start_joint_q
                    # other rows move the solutions away from the branches
                    task.starts = int(len(rows) == self._rows.sizes[k])
                    own.append((kernel, task))
                    if choice is not None and choice.only_branches and kernel.of_solutions is not None:
                        choice.describe(task)
                        own.append((kernel.of_solutions, task))
                if k in whole and collision is not None and self.checks_collision and collision.has_objects:
                    task = contact_task(collision, robot, objective.link)
                    own += [] if task is None else [(contact_kernel(collision.size), task)]
                for _, task in own:
                    task.problem, task.count = listed
                    task.fault, task.island, task.settings = inputs.fault.device, island, problems.settings
                    task.positions, task.orientations_xyzw = problems.positions[k], problems.orientations_xyzw[k]
                    task.tolerances, task.tool = verification.tolerances.device, verification.tools[k]
                    task.searches, task.best = problems.searches, problems.best
                found += own
        return found

    def _islands(
        self, problems: Problems, partition: Partition, problem_count: int
    ) -> Iterator[tuple[int, tuple[wp.array[Any], wp.array[Any]], NDArray[np.intp], NDArray[np.intp]]]:
        """Give each island of problems with the same rows: number, problems and their count, trees, rows."""
        common, device = len(partition.nisland) == 1, self._model.device
        for members in groups(partition, problem_count):
            line = 0 if common else members[0]
            if common:
                listed = problems.every, problems.settings
            else:
                of_members: wp.array[Any] = wp.array(members.astype(np.int32), dtype=wp.int32, device=device)
                count: wp.array[Any] = wp.array([len(members)], dtype=wp.int32, device=device)
                listed = of_members, count
            for island in range(int(partition.nisland[line])):
                trees, rows = partition.tree_island[line] == island, partition.row_island[line] == island
                yield island, listed, np.flatnonzero(trees), np.flatnonzero(rows)

    def _all_tasks(
        self, problems: Problems, inputs: InputArrays, partition: Partition, problem_count: int, precision: Precision
    ) -> list[IslandWork]:
        """Return kernels and tasks of all islands, without their outputs."""
        found = []
        for island, listed, trees, rows in self._islands(problems, partition, problem_count):
            code = self._code(trees, rows, precision)
            task = self._task(code, problems, partition, precision)
            if self.collision is not None and self.checks_collision and precision == "float32":
                task.spheres, task.worlds = self.collision.spheres(trees.tolist()), self.collision.worlds
                task.clearance = self.collision.clearance
            exact = inputs if precision == "float64" else None
            factors = zip(FACTORS, partition.scales.factors, strict=True)
            scales = {field: factor.device[:, island] for field, factor in factors}
            for name, array in self._sources(code.inputs, problems, scales, exact).items():
                setattr(task, name, array)
            task.problem, task.count = listed
            task.fault, task.island = inputs.fault.device, island
            found.append((code.kernel, task))
        return found

    def _code(self, trees: NDArray[np.intp], rows: NDArray[np.intp], precision: Precision) -> IslandCode:
        key = (tuple(map(int, trees)), tuple(map(int, rows)), precision, self.checks_collision)
        if key not in self._codes:
            signature = IslandSignature.of(
                *island_parts(self._rows, self._support, trees, rows),
                half_angle_error=FLOAT32_ERROR if precision == "float32" else FLOAT64_ERROR,
                tolerated=self._tolerated,
                constraints=self._rows.of_kind(RowKind.CONSTRAINT),
                secondary=self._rows.secondary,
            )
            size = self.collision.size if self.collision is not None and self.checks_collision else None
            kernel = self.launches.kernel(signature, precision, size)
            program, limited = kernel.source.program, self._hard_limits
            entries, most = kernel.source.space.entries, self.launches.step_entries_max
            if entries > most:  # rows of targets are switched off, or there are loops
                raise EngineError(
                    f"The compiled engine cannot solve this problem: {_too_large(len(program.dofs), entries, most)}."
                )
            constants = island_constants(program, self._model, precision=precision, hard_limits=limited)
            self._codes[key] = IslandCode(kernel, program.inputs, constants)
            if len(self._codes) > CODES_MAX:
                self._codes.popitem(last=False)
        self._codes.move_to_end(key)
        return self._codes[key]

    def _task(self, code: IslandCode, problems: Problems, partition: Partition, precision: Precision) -> Any:
        task: Any = IslandTask()
        task.settings, task.tolerances = problems.settings, problems.tolerances
        task.lightest2, task.heaviest2 = partition.scales.lightest2.device, partition.scales.heaviest2.device
        has_many = len(code.kernel.source.program.errors) > 1
        task.length_stride = int(len(code.kernel.source.step.lengths2()) > 1)
        task.equal_minima = EQUAL_MINIMA_OF_MANY if has_many else EQUAL_MINIMA
        task.precise_position = float(PRECISE_POSITION) * self._model.robot.length_unit
        for name, array in code.constants.items():
            setattr(task, name, array)
        limits = problems.limits
        task.limit_lower, task.limit_upper = limits.float32 if precision == "float32" else limits.float64
        task.mid_joint_q, task.start_joint_q = self._model.mid_joint_q, problems.start_joint_q
        if self._ranges is None or self._ranges[0] is not limits:
            self._ranges = (limits, seed_ranges(self._model, self._support.active_dofs, limits.draws))
        task.ranges = self._ranges[1]
        task.tree_hash = problems.tree_hash
        return task

    def _sources(
        self,
        needed: Sequence[DataInput],
        problems: Problems,
        scales: Mapping[str, wp.array[Any]],
        exact: InputArrays | None,
    ) -> dict[str, wp.array[Any]]:
        """Return addresses of starts and data of the objectives; targets in float64 if input arrays are given."""
        objectives: Any = self._rows.objectives
        lines: list[tuple[int, int, int, int]] = []
        for one in needed:
            staged = None if exact is None or one.objective not in self._targets else exact.float64_targets(one.field)
            if one.field == FIXED:
                array = problems.start_joint_q
            elif one.field in scales:
                array = scales[one.field]
            else:
                array = objectives[one.objective].data(one.field) if staged is None else staged
            size = wp.types.type_size_in_bytes(array.dtype)
            first = 0 if staged is None else self._targets.index(one.objective) * array.shape[2]
            address = array.ptr + size * (first + one.column)
            lines.append((address, array.shape[0], array.strides[0] // size, int(staged is not None)))
        names = ("source", "source_lines", "source_stride", "source_is_float64")
        types = (wp.uint64, wp.int32, wp.int32, wp.int32)
        columns = zip(*lines, strict=True) if lines else [(), (), (), ()]
        device = self._model.device
        return {
            name: wp.array(list(values), dtype=dtype, device=device)
            for name, dtype, values in zip(names, types, columns, strict=True)
        }
