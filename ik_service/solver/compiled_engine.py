"""The compiled engine: every island of every problem solved by one generated kernel, straight through.

    islands of all problems -> groups of problems with the same partition
    each island of a group -> its program (trees and rows it has) -> its kernel, made once and cached
    one launch per island and group: lanes work through the group's problems and write `Winners`

What a kernel is made from is code: the robot, its active DOFs, the island's trees and rows. Targets, weights, offsets,
limits, tolerances and budgets are data: changing them compiles nothing.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.compiler import build_program, packet_functions, uncovered
from ik_service.errors import EngineError
from ik_service.linear_solve.small_block import PIVOT_MIN
from ik_service.robots import DeviceModel
from ik_service.solver import assessment, attempts, seeds, slots, tolerances, trial_steps
from ik_service.solver.coordinates import Coordinates
from ik_service.solver.island_kernel import IDLE_LANE, SolveSource
from ik_service.solver.options import SolverOptions
from ik_service.solver.problems import Problems
from ik_service.solver.rows import Rows
from ik_service.solver.slots import UNRANKED
from ik_service.solver.support import Support

WIDTH = 8  # lanes of an AVX2 register of floats
DOFS_MAX = 16  # longer islands run out of straight line and registers
SHARED = (assessment, attempts, seeds, slots, tolerances, trial_steps)


@dataclass(frozen=True)
class _Compiled:
    """A kernel and the data arrays that it takes: objective and field of each."""

    kernel: wp.Kernel
    arrays: tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class Prepared:
    """Recorded launches, and the arrays that they hold by address only."""

    launches: list[wp.Launch]
    kept: list[wp.array[Any]]

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
        reason = uncovered(model.robot, rows.objectives, range(model.active_dof_count))
        if reason is not None:
            raise EngineError(f"The compiled engine does not cover this problem: {reason}. Use engine='staged'.")
        self._model, self._rows, self._target_count = model, rows, target_count
        self._ranges = seeds.SeedRanges.build(model, support.active_dofs)
        self._coordinates = Coordinates.build(model, hard_limits=options.joint_limits == "hard")
        self._kernels: dict[tuple[tuple[int, ...], tuple[int, ...]], _Compiled] = {}
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
                compiled = self._compiled(trees, np.flatnonzero(row_island[first] == island))
                self._record(compiled, problems, members, island, prepared)
        return prepared

    def _compiled(self, trees: NDArray[np.intp], rows: NDArray[np.intp]) -> _Compiled:
        """The kernel of an island that has these trees and rows."""
        key = (tuple(map(int, trees)), tuple(map(int, rows)))
        if key not in self._kernels:
            robot = self._model.robot
            dofs = [int(a) for a in np.flatnonzero(np.isin(robot.trees.active_treeid, trees))]
            if len(dofs) > DOFS_MAX:
                raise EngineError(
                    f"An island has {len(dofs)} DOFs; the compiled engine holds {DOFS_MAX}. Use engine='staged'."
                )
            objectives: Any = self._rows.objectives
            program = build_program(robot, self._model, objectives, self._rows.start, dofs, key[1], self._target_count)
            arrays = tuple(dict.fromkeys((one.objective, one.field) for one in program.inputs))
            text = SolveSource(program, robot, WIDTH, arrays).text("solve_island")
            self._kernels[key] = _Compiled(_kernel(text, WIDTH), arrays)
        return self._kernels[key]

    def _record(
        self, compiled: _Compiled, problems: Problems, members: NDArray[np.intp], island: int, prepared: "Prepared"
    ) -> None:
        model, ranges, winners = self._model, self._ranges, problems.winners
        count = len(members)
        listed: wp.array[Any] = wp.array(members.astype(np.int32), dtype=wp.int32, device=model.device)
        islands = wp.full(count, island, dtype=wp.int32, device=model.device)
        objectives: Any = self._rows.objectives
        prepared.kept.extend((listed, islands))
        launch = wp.launch(
            compiled.kernel,
            dim=1,
            inputs=[
                count,
                count,
                listed,
                islands,
                problems.settings,
                problems.tolerances,
                problems.lightest2,
                problems.heaviest2,
                self._coordinates.limit_lower,
                self._coordinates.limit_upper,
                model.joint_limit_lower,
                model.joint_limit_upper,
                model.mid_joint_q,
                problems.start_joint_q,
                ranges.lower,
                ranges.upper,
                ranges.drawn,
                ranges.increment,
                ranges.tree,
                ranges.place,
                problems.tree_hash,
                *(objectives[k].data(field) for k, field in compiled.arrays),
                winners.joint_q,
                winners.rank,
                winners.cost,
                winners.seed,
                winners.iterations,
                winners.status,
                winners.met,
            ],
            device=model.device,
            record_cmd=True,
        )
        prepared.launches.append(launch)


def _groups(partitions: NDArray[np.int32]) -> Iterator[NDArray[np.intp]]:
    """Problems that have the same partition, group by group."""
    if (partitions == partitions[0]).all():
        yield np.arange(len(partitions))
        return
    inverse = np.unique(partitions, axis=0, return_inverse=True)[1].reshape(-1)
    for group in range(int(inverse.max()) + 1):
        yield np.flatnonzero(inverse == group)


def _kernel(text: str, width: int) -> wp.Kernel:
    """A kernel from generated source, in a module named by the source's hash so that Warp's cache knows it again."""
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    namespace: dict[str, Any] = {"wp": wp, "IDLE_LANE": IDLE_LANE, "PIVOT_MIN": PIVOT_MIN, **packet_functions(width)}
    for module in SHARED:
        namespace |= {name: value for name, value in vars(module).items() if not name.startswith("_")}
    exec(compile(text, f"<island {digest}>", "exec"), namespace)
    own = wp.get_module(f"ik_service_island_{digest}")
    wp.set_module_options({"enable_backward": False, "block_dim": 1}, own)
    return wp.Kernel(namespace["solve_island"], key="solve_island", module=own, source=text)
