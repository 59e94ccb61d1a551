"""The compiled engine: every island of every problem solved by one generated kernel, straight through.

    islands of all problems -> groups of problems with the same partition
    each island of a group -> its program (trees and rows it has) -> its kernel, made once and cached
    one launch per island and group: lanes work through the group's problems and write `Winners`

What a kernel is made from is code: the robot, its active DOFs, the island's trees and rows. Targets, weights, offsets,
limits, tolerances and budgets are data: changing them compiles nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.compiler import (
    DataInput,
    IslandProgram,
    IterationSource,
    Lanes,
    build_program,
    coordinate_names,
    uncovered,
)
from ik_service.errors import EngineError
from ik_service.robots import DeviceModel
from ik_service.solver import seeds
from ik_service.solver.coordinates import Coordinates
from ik_service.solver.island_task import IslandTask
from ik_service.solver.lane import DAMPING
from ik_service.solver.options import SolverOptions
from ik_service.solver.packet_kernel import packet_kernel
from ik_service.solver.problems import Problems
from ik_service.solver.rows import Rows
from ik_service.solver.slots import UNRANKED
from ik_service.solver.support import Support

DOFS_MAX = 16  # longer islands run out of straight line and registers


@dataclass(frozen=True)
class IslandCode:
    """A kernel, and the constant part of the tasks that it works on.

    Attributes:
        kernel: The kernel.
        inputs: Data that the program reads.
        constants: Device arrays of the island by their names in `IslandTask`.
    """

    kernel: wp.Kernel
    inputs: tuple[DataInput, ...]
    constants: dict[str, wp.array[Any]]


@dataclass(frozen=True)
class Prepared:
    """Recorded launches, and the arrays that they hold by address only."""

    launches: list[wp.Launch]
    kept: list[Any]

    def run(self) -> None:
        """Launch everything."""
        for launch in self.launches:
            launch.launch()


class CompiledEngine:
    """Runs the generated kernels of one solver.

    Args:
        model: The robot on the device, a CPU.
        rows: Layout of the objectives, all stated as expressions.
        support: Support of the rows.
        target_count: How many objectives are pose targets; they come first.
        options: The solver's options.

    Raises:
        EngineError: The problem is not covered; the message says by what.
    """

    def __init__(
        self, model: DeviceModel, rows: Rows, support: Support, target_count: int, options: SolverOptions
    ) -> None:
        if model.device.is_cuda:
            raise EngineError(f"The compiled engine runs on CPUs yet, not on '{model.device}'. Use engine='staged'.")
        reason = uncovered(rows.objectives, model)
        if reason is not None:
            raise EngineError(f"The compiled engine does not cover this problem: {reason}. Use engine='staged'.")
        self._model, self._rows, self._target_count = model, rows, target_count
        self._ranges = seeds.SeedRanges.build(model, support.active_dofs)
        self._coordinates = Coordinates.build(model, hard_limits=options.joint_limits == "hard")
        self._codes: dict[tuple[tuple[int, ...], tuple[int, ...]], IslandCode] = {}
        rows.bind(1, wp.zeros(1, dtype=wp.int32, device=model.device))

    def prepare(self, problems: Problems, problem_count: int) -> "Prepared":
        """Return the launches that solve all islands of the first `problem_count` problems into `problems.winners`.

        Raises:
            EngineError: An island has more DOFs than a straight line can hold.
        """
        problems.winners.rank.fill_(UNRANKED)
        islands, prepared = problems.islands, Prepared([], [])
        tree_island = islands.tree_island.numpy()[:problem_count]
        row_island = islands.row_island.numpy()[:problem_count]
        for members in _groups(np.hstack([tree_island, row_island])):
            first = members[0]
            for island in range(int(islands.nisland.numpy()[first])):
                trees = np.flatnonzero(tree_island[first] == island)
                code = self._code(trees, np.flatnonzero(row_island[first] == island))
                self._record(code, problems, members, island, prepared)
        return prepared

    def _code(self, trees: NDArray[np.intp], rows: NDArray[np.intp]) -> IslandCode:
        """The code of an island that has these trees and rows."""
        key = (tuple(map(int, trees)), tuple(map(int, rows)))
        if key not in self._codes:
            robot = self._model.robot
            dofs = [int(a) for a in np.flatnonzero(np.isin(robot.trees.active_treeid, trees))]
            if len(dofs) > DOFS_MAX:
                raise EngineError(
                    f"An island has {len(dofs)} DOFs; the compiled engine holds {DOFS_MAX}. Use engine='staged'."
                )
            objectives: Any = self._rows.objectives
            program = build_program(robot, self._model, objectives, self._rows.start, dofs, key[1], self._target_count)
            kernel = packet_kernel(IterationSource(program, Lanes.on_cpu(), DAMPING))
            self._codes[key] = IslandCode(kernel, program.inputs, island_constants(program, self._model))
        return self._codes[key]

    def _record(
        self, code: IslandCode, problems: Problems, members: NDArray[np.intp], island: int, prepared: "Prepared"
    ) -> None:
        model, ranges, winners = self._model, self._ranges, problems.winners
        count = len(members)
        task: Any = IslandTask()
        task.count = wp.array([count], dtype=wp.int32, device=model.device)
        task.problem = wp.array(members.astype(np.int32), dtype=wp.int32, device=model.device)
        task.island = wp.full(count, island, dtype=wp.int32, device=model.device)
        task.settings, task.tolerances = problems.settings, problems.tolerances
        task.lightest2, task.heaviest2 = problems.lightest2, problems.heaviest2
        for name, array in (code.constants | self._sources(code.inputs)).items():
            setattr(task, name, array)
        task.limit_lower = self._coordinates.limit_lower.reshape((1, -1))
        task.limit_upper = self._coordinates.limit_upper.reshape((1, -1))
        task.mid_joint_q, task.start_joint_q = model.mid_joint_q, problems.start_joint_q
        task.draw_lower, task.draw_upper, task.drawn = ranges.lower, ranges.upper, ranges.drawn
        task.increment, task.tree, task.place = ranges.increment, ranges.tree, ranges.place
        task.tree_hash = problems.tree_hash
        task.next_seed, task.winner_joint_q, task.winner_rank = winners.next_seed, winners.joint_q, winners.rank
        task.winner_cost, task.winner_seed = winners.cost, winners.seed
        task.winner_iterations, task.winner_status, task.winner_met = winners.iterations, winners.status, winners.met
        prepared.kept.append(task)
        launch = wp.launch(code.kernel, dim=1, inputs=[task, 0, 1], device=model.device, record_cmd=True)
        prepared.launches.append(launch)

    def _sources(self, inputs: Sequence[DataInput]) -> dict[str, wp.array[Any]]:
        """Where the kernel finds the data of the objectives."""
        objectives: Any = self._rows.objectives
        arrays = [objectives[one.objective].data(one.field) for one in inputs]
        columns = [one.column for one in inputs]
        address = [a.ptr + 4 * column for a, column in zip(arrays, columns, strict=True)]
        lines, strides = [a.shape[0] for a in arrays], [a.strides[0] // 4 for a in arrays]
        device = self._model.device
        return {
            "source": wp.array(address, dtype=wp.uint64, device=device),
            "source_lines": wp.array(lines, dtype=wp.int32, device=device),
            "source_stride": wp.array(strides, dtype=wp.int32, device=device),
            "source_wide": wp.zeros(len(inputs), dtype=wp.int32, device=device),
        }


def island_constants(program: IslandProgram, model: DeviceModel) -> dict[str, wp.array[Any]]:
    """Return the arrays of an IslandTask that say which DOFs and coordinates the island has."""
    robot, device = model.robot, model.device
    names = coordinate_names(program)
    place = {a: k for k, (a, component) in reversed(list(enumerate(names)))}
    columns = []
    for a, component in names:
        joint = int(np.searchsorted(robot.joint_qd_start, robot.active_dof[a], side="right")) - 1
        first = int(robot.joint_q_start[joint + 1]) - 4 + "xyzw".find(component)
        columns.append(first if component else int(robot.dof_coordinate[robot.active_dof[a]]))
    followers = [
        dof for dof, a in enumerate(robot.dof_active) if a in place and robot.active_dof[a] != dof and a in program.dofs
    ]
    lower, upper = model.joint_limit_lower.numpy(), model.joint_limit_upper.numpy()
    numbers = [[robot.dof_multiplier[d], robot.dof_offset[d], lower[d], upper[d]] for d in followers]

    def integers(values: list[int]) -> wp.array[Any]:
        return wp.array(values, dtype=wp.int32, device=device)

    return {
        "dof": integers(list(program.dofs)),
        "dof_place": integers([place.get(a, -1) for a in program.dofs]),
        "rotation": integers([int(a in program.quaternions) for a in program.dofs]),
        "coordinate": integers(columns),
        "follower": integers([int(robot.dof_coordinate[d]) for d in followers]),
        "follower_place": integers([place[int(robot.dof_active[d])] for d in followers]),
        "follower_number": wp.array(np.array(numbers, np.float32).reshape(-1, 4), dtype=wp.float32, device=device),
    }


def _groups(partitions: NDArray[np.int32]) -> Iterator[NDArray[np.intp]]:
    """Problems that have the same partition, group by group."""
    if (partitions == partitions[0]).all():
        yield np.arange(len(partitions))
        return
    inverse = np.unique(partitions, axis=0, return_inverse=True)[1].reshape(-1)
    for group in range(int(inverse.max()) + 1):
        yield np.flatnonzero(inverse == group)
