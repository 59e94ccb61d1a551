"""The compiled engine: every island of every problem solved by one generated kernel, straight through.

    islands of all problems -> groups of problems with the same partition
    each island of a group -> its program (trees and rows it has) -> its kernel, made once and cached
    one launch per island, group and thread: lanes work through the problems and write `Winners`

What a kernel is made from is code: the robot, its active DOFs, the island's trees and rows. Targets, weights, offsets,
limits, tolerances and budgets are data: changing them compiles nothing.
"""

from collections import OrderedDict
from collections.abc import Sequence
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
from ik_service.linear_solve import find_islands
from ik_service.robots import DeviceModel
from ik_service.solver import seeds
from ik_service.solver.coordinates import Coordinates
from ik_service.solver.intake import Intake
from ik_service.solver.island_task import IslandTask
from ik_service.solver.lane import DAMPING
from ik_service.solver.options import SolverOptions
from ik_service.solver.packet_kernel import packet_kernel
from ik_service.solver.partition import Partition, groups
from ik_service.solver.problems import Problems
from ik_service.solver.rows import Rows
from ik_service.solver.support import Support

DOFS_MAX = 16  # longer islands run out of straight line and registers
CODES_MAX = 64  # kernels of islands that a solver keeps


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


def why_uncovered(
    model: DeviceModel, rows: Rows, support: Support, options: SolverOptions, *, join: bool
) -> str | None:
    """Return why the compiled engine cannot solve for these rows, or None if it can.

    Args:
        model: The robot on the device.
        rows: Layout of the objectives.
        support: Support of the rows.
        options: The solver's options.
        join: Whether all touched trees are one island.
    """
    if options.check_jacobians or options.candidates > 1:
        return "check_jacobians and candidates belong to the staged engine"
    if model.device.is_cuda:
        return f"it runs on CPUs yet, not on '{model.device}'"
    reason = uncovered(rows.objectives, model)
    if reason is not None:
        return reason
    trees, sizes = support.trees, model.robot.trees.tree_dofnum
    largest = max((_island_sizes(trees, sizes, join=join)), default=0)
    if largest > DOFS_MAX:
        return f"an island has {largest} DOFs, and it holds {DOFS_MAX}"
    return None


def _island_sizes(incidence: NDArray[np.bool_], sizes: NDArray[Any], *, join: bool) -> list[int]:
    """Numbers of DOFs of the islands with all rows on: no weights make larger ones."""
    bridge = incidence.any(axis=0) & join
    count, tree_island, _, _ = find_islands(
        np.vstack([incidence, bridge]), np.append(np.ones(len(incidence), bool), join)
    )
    return [int(sizes[tree_island == island].sum()) for island in range(count)]


class CompiledEngine:
    """Makes and keeps the generated kernels of one solver.

    Args:
        model: The robot on the device, a CPU.
        rows: Layout of the objectives, all stated as expressions.
        support: Support of the rows.
        target_count: How many objectives are pose targets; they come first.
        hard_limits: Whether joint limits are enforced.
    """

    def __init__(
        self, model: DeviceModel, rows: Rows, support: Support, target_count: int, *, hard_limits: bool
    ) -> None:
        self._model, self._rows, self._target_count = model, rows, target_count
        self._ranges = seeds.SeedRanges.build(model, support.active_dofs)
        coordinates = Coordinates.build(model, hard_limits=hard_limits)
        self._limits = coordinates.limit_lower.reshape((1, -1)), coordinates.limit_upper.reshape((1, -1))
        self._codes: OrderedDict[tuple[tuple[int, ...], tuple[int, ...]], IslandCode] = OrderedDict()
        rows.bind_data()

    def data_key(self) -> tuple[object, ...]:
        """Return what recorded launches hold by address: they are recorded anew when it changes."""
        objectives: Any = self._rows.objectives[self._target_count :]
        return tuple(objective.data(name).ptr for objective in objectives for name in objective.data_rows())

    def tasks(
        self, problems: Problems, intake: Intake, partition: Partition, problem_count: int
    ) -> list[tuple[wp.Kernel, Any]]:
        """Return kernels and tasks that solve all islands of the problems into `problems.winners`.

        Args:
            problems: Their arrays.
            intake: Where the caller's numbers were checked.
            partition: Islands of the problems.
            problem_count: Problems of the solve; a partition common to all serves any number.
        """
        common, device = len(partition.nisland) == 1, self._model.device
        found = []
        for members in groups(partition, problem_count):
            line = 0 if common else members[0]
            if common:
                listed, count = problems.every, problems.settings
            else:
                listed = wp.array(members.astype(np.int32), dtype=wp.int32, device=device)
                count = wp.array([len(members)], dtype=wp.int32, device=device)
            for island in range(int(partition.nisland[line])):
                trees = np.flatnonzero(partition.tree_island[line] == island)
                code = self._code(trees, np.flatnonzero(partition.row_island[line] == island))
                task = self._task(code, problems, partition)
                task.fault, task.problem, task.count, task.island = intake.fault.device, listed, count, island
                found.append((code.kernel, task))
        return found

    def _code(self, trees: NDArray[np.intp], rows: NDArray[np.intp]) -> IslandCode:
        """The code of an island that has these trees and rows."""
        key = (tuple(map(int, trees)), tuple(map(int, rows)))
        if key not in self._codes:
            robot = self._model.robot
            dofs = [int(a) for a in np.flatnonzero(np.isin(robot.trees.active_treeid, trees))]
            objectives: Any = self._rows.objectives
            program = build_program(robot, self._model, objectives, self._rows.start, dofs, key[1], self._target_count)
            kernel = packet_kernel(IterationSource(program, Lanes.on_cpu(), DAMPING))
            self._codes[key] = IslandCode(kernel, program.inputs, island_constants(program, self._model))
            if len(self._codes) > CODES_MAX:
                self._codes.popitem(last=False)
        self._codes.move_to_end(key)
        return self._codes[key]

    def _task(self, code: IslandCode, problems: Problems, partition: Partition) -> Any:
        """A task but for the problems that it covers."""
        model, ranges, winners = self._model, self._ranges, problems.winners
        task: Any = IslandTask()
        task.settings, task.tolerances = problems.settings, problems.tolerances
        task.lightest2, task.heaviest2 = partition.lightest2, partition.heaviest2
        for name, array in (code.constants | self._sources(code.inputs)).items():
            setattr(task, name, array)
        task.limit_lower, task.limit_upper = self._limits
        task.mid_joint_q, task.start_joint_q = model.mid_joint_q, problems.start_joint_q
        task.draw_lower, task.draw_upper, task.drawn = ranges.lower, ranges.upper, ranges.drawn
        task.increment, task.tree, task.place = ranges.increment, ranges.tree, ranges.place
        task.tree_hash = problems.tree_hash
        task.next_seed, task.winner_joint_q, task.winner_rank = winners.next_seed, winners.joint_q, winners.rank
        task.winner_cost, task.winner_seed = winners.cost, winners.seed
        task.winner_iterations, task.winner_status, task.winner_met = winners.iterations, winners.status, winners.met
        return task

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
