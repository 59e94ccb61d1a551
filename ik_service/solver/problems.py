"""Per-problem arrays on the device: starts, targets, islands and answers, sized for the largest solve so far."""

import typing
from collections.abc import Sequence
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.linear_solve import Islands, RowStructure, record_discovery
from ik_service.robots import DeviceModel
from ik_service.solver.judge import axis_weights
from ik_service.solver.options import SolverOptions
from ik_service.solver.rows import Rows
from ik_service.solver.seeds import hash_target
from ik_service.solver.slots import SETTINGS_COUNT, Winners
from ik_service.solver.targets import Target, TargetArrays
from objectives import IKObjective

ROTATION_LENGTH = 0.4  # metres that weigh as much as a radian in the cost of pose targets: about half an arm's reach


class Problems:
    """Device arrays with one line per problem.

    Args:
        model: The robot on the device.
        targets: Declared targets.
        touches: Which trees each target touches, bool [targets, tree_count].
        capacity: Problems there is room for.

    Attributes:
        islands: Islands of every problem, found by `discover`.
        start_joint_q: Configurations of seed 0, [capacity, joint_coord_count].
        positions: Target positions, one [capacity, 3] per target.
        orientations_xyzw: Target orientations, one [capacity, 4] per target.
        row_weights: Weights of the targets' rows, one [capacity, 6] per target.
        tree_hash: Hash of the targets that touch a tree, uint32 [capacity, tree_count].
        settings: Integer settings of the solve, int32.
        tolerances: Position and orientation tolerance.
        winners: Answers.
        lightest2: Square of the least weight of any row of an island, [capacity, trees]: floors scale with it.
        heaviest2: Square of the largest: the least damping scales with it.
    """

    def __init__(
        self, model: DeviceModel, targets: Sequence[Target], touches: NDArray[np.bool_], capacity: int
    ) -> None:
        def floats(width: int) -> wp.array[Any]:
            return wp.zeros((capacity, width), dtype=wp.float32, device=model.device)

        self.capacity, self._targets = capacity, tuple(targets)
        self.start_joint_q = floats(model.joint_coord_count)
        self.positions = [floats(3) for _ in targets]
        self.orientations_xyzw = [floats(4) for _ in targets]
        self.row_weights = [floats(6) for _ in targets]
        self._touches: list[wp.array[Any]] = [
            wp.array(row.astype(np.int32), dtype=wp.int32, device=model.device) for row in touches
        ]
        shape = (capacity, touches.shape[1])
        self.tree_hash = wp.zeros(shape, dtype=wp.uint32, device=model.device)
        self.settings = wp.zeros(SETTINGS_COUNT, dtype=wp.int32, device=model.device)
        self.tolerances = wp.zeros(2, dtype=wp.float32, device=model.device)
        self._structure: RowStructure | None = None
        self._model = model

    def use_structure(self, structure: RowStructure) -> None:
        """Make room for islands and answers of rows and trees that are related like this."""
        model, capacity = self._model, self.capacity
        self._structure = structure
        self._discovery: list[wp.Launch] = []
        self._discovery_key: tuple[object, ...] = ()
        self._discovery_count = 0
        self._discovery_graph: wp.Graph | None = None
        self.islands = Islands.allocate(structure, capacity)
        self._row_on = wp.zeros((capacity, structure.row_count), dtype=wp.int32, device=model.device)
        self._row_weight2 = wp.zeros((capacity, structure.row_count), dtype=wp.float32, device=model.device)
        shape = (capacity, structure.tree_count)
        self.lightest2 = wp.zeros(shape, dtype=wp.float32, device=model.device)
        self.heaviest2 = wp.zeros(shape, dtype=wp.float32, device=model.device)
        self.winners = Winners.allocate(capacity, model.joint_coord_count, structure.tree_count, model.device)

    def refresh_winners(self, problem_count: int) -> None:
        """Put the start configurations of the first `problem_count` problems into fresh answers."""
        _write(self.winners.joint_q, self.start_joint_q.numpy()[:problem_count])

    def discover(self, rows: Rows, problem_count: int, *, join: bool) -> None:
        """Find the islands of the first `problem_count` problems from the weights that stand in the arrays.

        Args:
            rows: Layout of the objectives.
            problem_count: Problems of the solve.
            join: Whether to put all touched trees into one island.
        """
        weights = [_row_weights(objective) for objective in rows.objectives]
        key = (join, *(None if array is None else (array.ptr, array.shape) for array in weights))
        if key != self._discovery_key:
            self._discovery = self._record(rows, weights, join)
            self._discovery_key, self._discovery_count = key, 0
        if problem_count != self._discovery_count:
            for launch in self._discovery:
                launch.set_dim(problem_count)
                launch.launch()
            self._discovery_count, self._discovery_graph = problem_count, None
            return
        if self._discovery_graph is None:  # the same number again: worth a recording, which costs next to nothing
            with wp.ScopedCapture(device=self._model.device) as capture:
                for launch in self._discovery:
                    launch.launch()
            self._discovery_graph = capture.graph
        wp.capture_launch(self._discovery_graph)

    def _record(self, rows: Rows, weights: list[wp.array[Any] | None], join: bool) -> list[wp.Launch]:
        """Launches that switch the rows by their weights and then find the islands."""
        assert self._structure is not None  # use_structure comes first
        self._row_on.fill_(1)
        self._row_weight2.fill_(1.0)
        launches = []
        for k, (array, start) in enumerate(zip(weights, rows.start, strict=True)):
            if array is not None:
                unit = 1.0 / ROTATION_LENGTH if k < len(self._targets) else 1.0  # what weight 1 means to the user
                scale = float(getattr(rows.objectives[k], "weight", 1.0))
                launches.append(
                    wp.launch(
                        _switch_rows,
                        dim=self.capacity,
                        inputs=[array, start, scale, unit],
                        outputs=[self._row_on, self._row_weight2],
                        device=self._model.device,
                        record_cmd=True,
                    )
                )
        launches += record_discovery(self._structure, self._row_on, self.islands, join=join)
        islands = self.islands
        inputs = [islands.nisland, islands.island_rowadr, islands.island_row, self._row_weight2]
        outputs = [self.lightest2, self.heaviest2]
        device = self._model.device
        scales = wp.launch(_weigh_islands, self.capacity, inputs, outputs, device=device, record_cmd=True)
        return [*launches, scales]

    def write(
        self,
        arrays: TargetArrays,
        start_joint_q: NDArray[np.float32],
        has_start: bool,
        options: SolverOptions,
        seeds: int,
    ) -> None:
        """Copy the data of a solve to the device.

        Args:
            arrays: Target values.
            start_joint_q: Configurations of seed 0, float32 [problem_count, joint_coord_count].
            has_start: Whether those are the caller's; then the middle of the ranges is seed 1.
            options: Options of the solve.
            seeds: Seeds per problem.
        """
        count = arrays.problem_count
        random_seed = np.uint32(options.random_seed).astype(np.int32)
        settings = np.array([count, seeds, options.max_iterations, int(has_start), random_seed, 0], dtype=np.int32)
        _write(self.settings, settings)
        _write(self.tolerances, np.array([options.position_tolerance, options.orientation_tolerance], np.float32))
        _write(self.start_joint_q, start_joint_q)
        _write(self.winners.joint_q, start_joint_q)  # what no island moves stays where it starts
        self.tree_hash.zero_()
        for k, target in enumerate(self._targets):
            position, rotation = arrays.positions[k], arrays.orientations_xyzw[k]
            _write(self.positions[k], np.zeros((count, 3)) if position is None else position)
            _write(self.orientations_xyzw[k], np.tile([0.0, 0, 0, 1], (count, 1)) if rotation is None else rotation)
            _write(self.row_weights[k], axis_weights(target, arrays, k) * np.repeat([1.0, ROTATION_LENGTH], 3))
            goal = (self.positions[k], self.orientations_xyzw[k])
            hash_target(count, self._touches[k], goal, self.tree_hash)


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def _switch_rows(
    # rows of one objective
    weights: wp.array2d[float],  # [1 or problems, rows of the objective]
    start: int,
    scale: float,
    rotation_unit: float,  # on rows 3 to 5
    # out
    row_on_out: wp.array2d[wp.int32],  # [problem_capacity, rows]
    row_weight2_out: wp.array2d[float],  # [problem_capacity, rows]
):
    p = wp.tid()
    line = wp.min(p, weights.shape[0] - 1)
    for row in range(weights.shape[1]):
        on = int(0)
        weight = scale * weights[line, row]
        if weight > 0.0:
            on = 1
        if row >= 3:
            weight *= rotation_unit
        row_on_out[p, start + row] = on
        row_weight2_out[p, start + row] = weight * weight


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def _weigh_islands(
    # islands
    nisland: wp.array[wp.int32],  # [problem_capacity]
    island_rowadr: wp.array2d[wp.int32],
    island_row: wp.array2d[wp.int32],
    row_weight2: wp.array2d[float],  # [problem_capacity, rows]
    # out
    lightest2_out: wp.array2d[float],  # [problem_capacity, trees]
    heaviest2_out: wp.array2d[float],  # [problem_capacity, trees]
):
    p = wp.tid()
    for island in range(nisland[p]):
        lightest = float(3.0e38)
        heaviest = float(0.0)
        for m in range(island_rowadr[p, island], island_rowadr[p, island + 1]):
            lightest = wp.min(lightest, row_weight2[p, island_row[p, m]])
            heaviest = wp.max(heaviest, row_weight2[p, island_row[p, m]])
        lightest2_out[p, island] = lightest
        heaviest2_out[p, island] = heaviest


def _row_weights(objective: IKObjective) -> wp.array[Any] | None:
    row_weights = getattr(objective, "row_weights", None)
    return None if row_weights is None else row_weights()


def _write(array: wp.array[Any], values: NDArray[Any]) -> None:
    """Copy host values into the first lines of a device array."""
    if wp.get_device(array.device).is_cpu:
        array.numpy()[: len(values)] = values  # a view: a tenth of the time of an assignment
    else:
        array[: len(values)].assign(np.ascontiguousarray(values, wp.dtype_to_numpy(array.dtype)))
