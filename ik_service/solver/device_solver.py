"""A solver for arrays on its own device.

arrays of a caller -> staging arrays -> launches of a solve, recorded without copies -> columns -> arrays for the caller
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import warp as wp

from ik_service.collision.world import World
from ik_service.errors import EngineError
from ik_service.kernels.device_lock import recording
from ik_service.mechanism.caller_order import CallerOrder
from ik_service.result_schema import DEVICE_COLUMNS, OF_COORDINATES, OF_DOFS
from ik_service.solver.arrays.input_kernels import NO_START, OWN_START
from ik_service.solver.arrays.problem_arrays import SolveSettings
from ik_service.solver.derivatives.linearisation import TWIST
from ik_service.solver.device_derivatives import DeviceDerivatives, why_not_derived
from ik_service.solver.given.options import SolverOptions
from ik_service.solver.given.worlds import read_worlds
from ik_service.solver.recorded_launches import PreparedSolve
from ik_service.solver.recording import Replay
from ik_service.solver.rows.weights import IslandScales
from ik_service.solver.solve import SolverCore
from ik_service.solver.transfers import (
    check_outputs,
    device_columns,
    device_starts,
    problem_count,
    stage_starts,
    stage_target,
    take_column,
)
from ik_service.solver.workspace import Workspace
from objectives import InputError

if TYPE_CHECKING:
    from ik_service.robots import RobotModel


GRAPHS_MAX = 32

ArraysKey = tuple[object, ...]  # addresses, shapes and types of arrays of a caller


class ArrayGraphs:
    """Solves of one solver with arrays of a caller; recorded as a graph when the same arrays come again.

    Graphs are kept by the replay of the solve, for as long as the replay exists: it is a new object after any array of
    its launches has been exchanged.
    """

    def __init__(self, device: wp.Device) -> None:
        self._device = device
        self._graphs: WeakKeyDictionary[Replay, OrderedDict[ArraysKey, wp.Graph | None]] = WeakKeyDictionary()

    def run(
        self, key: ArraysKey, prepare: Callable[[], PreparedSolve], launch: Callable[[Replay], None]
    ) -> PreparedSolve:
        """Solve with the device lock held, without waiting; return the prepared solve."""
        # `key` is the key of all arrays of the caller. While a graph is recorded, the launches of `prepare` become part
        # of this graph. `launch` runs the replay of the solve together with transfers of the arrays.
        prepared = prepare()
        if not self._device.is_cuda or self._device.is_capturing:
            launch(prepared.run)
            return prepared
        graphs = self._graphs.setdefault(prepared.run, OrderedDict())
        if key in graphs and graphs[key] is None:
            with recording() as may_record:
                if may_record:
                    with wp.ScopedCapture(device=self._device) as capture:
                        launch(prepare().run)
                    graphs[key] = capture.graph
        graph = graphs.setdefault(key, None)
        graphs.move_to_end(key)
        if len(graphs) > GRAPHS_MAX:
            graphs.popitem(last=False)
        if graph is None:
            launch(prepared.run)
        else:
            wp.capture_launch(graph)
        return prepared


ON_HOST = {"best_of": None, "solutions": 1, "deadline_s": None}
"""Options that need the host, each with the value that does not."""
DERIVED = "joint_q_by_targets", "is_differentiable"


class DeviceSolver:
    """Solves with Warp arrays, and arrays of other libraries by DLPack, on the solver's device.

    Made by `IKSolver.on_device`. Targets, objectives, options and order of joints are the solver's. Answers are the
    bytes of `IKSolver.solve_as_recorded`: answers in contact stay, and no start is found with loops opened.

    After one similar solve, solves can be part of a graph recorded by the caller, with `wp.ScopedCapture`. Such a graph
    solves the present numbers of the same arrays at each launch. The graph is valid as long as its solver solves
    nothing else, so give each graph its own solver.

    Args:
        robot: The robot.
        core: Rows, arrays and engine of the solver.
        order: The caller's order of columns.
        options: Options of the solver.
        device: Device of the solves.
        wxyz: Whether quaternions are given in the order wxyz.

    Raises:
        EngineError: The solver is staged, or has no targets.
    """

    def __init__(
        self,
        robot: "RobotModel",
        core: SolverCore,
        order: CallerOrder,
        options: SolverOptions,
        device: wp.Device,
        *,
        wxyz: bool,
    ) -> None:
        if core.engine.name != "compiled" or not core.targets.all:
            raise EngineError("Arrays stay on the device in solvers of targets by the compiled engine.")
        self._robot, self._core, self._order, self._options = robot, core, order, options
        self._device, self._first = device, int(wxyz)
        self._coordinates: wp.array[Any] = wp.array(order.coordinates.astype(np.int32), device=device)
        self._dofs: wp.array[Any] = wp.array(order.dofs.astype(np.int32), device=device)
        self._graphs = ArrayGraphs(device)
        self._derivatives: WeakKeyDictionary[IslandScales, DeviceDerivatives] = WeakKeyDictionary()  # as plans live
        self._recorded: list[Any] = []  # launches in callers' graphs, which hold arrays by address only

    def solve(
        self,
        positions: Any = None,
        orientations_xyzw: Any = None,
        *,
        initial_joint_q: Any = None,
        world: "World | None" = None,
        options: "dict[str, object] | SolverOptions | None" = None,
        out: "Mapping[str, wp.array[Any]] | None" = None,
    ) -> "dict[str, wp.array[Any]]":
        """Solve a batch of problems, without copies to or from the host.

        A number refused by `IKSolver.solve` (not finite, beyond 1e9, a quaternion of another length than 1) ends its
        problem with status `INVALID`; other problems are not affected.

        Args:
            positions: Target positions [m], float32 or float64 on the device, shape [n, 3] for one target,
                [n, targets, 3] for several, or a list with one array or None per target; None is unconstrained.
            orientations_xyzw: Target orientations, unit quaternions, the same shapes with 4 instead of 3.
            initial_joint_q: Configurations of seed 0, shape [coordinates] or [n, coordinates].
            world: Obstacles, on the host.
            options: As in `IKSolver.solve`.
            out: Arrays for the columns, as returned by an earlier solve of as many problems; None makes new ones.

        Returns:
            The columns of the result by name, as in `IKResult.to_warp`; with `sensitivity` also `joint_q_by_targets`
            and `is_differentiable`, as in an `IKResult`, of successes.

        Raises:
            InputError: An array is on another device, or a type, a shape or an option is not allowed.
            EngineError: An island is too large, problems differ in their rows of weight above 0, or answers have no
                derivatives on a device.
            KernelCacheError: Compiled kernels can be neither read nor kept.
        """
        chosen = self._options.of_solve(options)
        for name, value in ON_HOST.items():
            if getattr(chosen, name) != value:
                raise InputError(f"Option {name} is {getattr(chosen, name)!r}. Allowed on a device: {value!r}.")
        targets, device = self._core.targets.all, self._device
        by_position = device_columns("positions", positions, len(targets), 3, device)
        by_orientation = device_columns("orientations_xyzw", orientations_xyzw, len(targets), 4, device)
        count, start = problem_count(targets, [*by_position, *by_orientation]), None
        if initial_joint_q is not None:
            start = device_starts(initial_joint_q, count, len(self._order.coordinates), device)
        worlds = read_worlds(self._robot, chosen, world, None, None, None, count)
        if device.is_capturing and device.stream not in device.captures:
            raise InputError("A graph is being recorded that Warp did not begin. Allowed: wp.ScopedCapture.")
        if out is None and device.is_capturing:
            raise InputError("A graph is being recorded: out is missing. Give what an earlier solve has returned.")

        columns = list(zip(by_position, by_orientation, strict=True))
        given = [NO_START if start is None else OWN_START]
        given += [one is not None for column in columns for one in column]

        with self._core.on_device(np.array(given, np.int32), count, chosen, worlds) as (work, settings):
            sources = {column.name: work.verification.columns[column.name].device for column in DEVICE_COLUMNS}
            if settings.float64_finish:
                sources["joint_q"] = work.verification.columns["judged_q"].device
            derives = chosen.sensitivity is not None
            found, orders = self._outputs(sources, count, out, derives=derives)
            motion = self._motion(work, settings) if derives else None

            def launch(run: Callable[[], None]) -> None:
                for k, (position, orientation) in enumerate(columns):
                    stage_target(work.inputs, k, position, orientation, first=self._first)
                if start is not None:
                    stage_starts(work.inputs, start, count, self._coordinates)
                run()
                for name, source in sources.items():
                    take_column(source, found[name], orders.get(name))
                if motion is not None:
                    motion.launch(work, count, *(found[name] for name in DERIVED))

            arrays = (*by_position, *by_orientation, start, *found.values())
            key = tuple(None if one is None else (one.ptr, one.shape, one.strides, one.dtype) for one in arrays)
            prepared = self._graphs.run(key, partial(self._core.engine.prepare, work, settings), launch)
        if device.is_capturing:
            self._recorded += [prepared.run, motion]
        return found

    def why_not_derived(self) -> str | None:
        """Return why the option `sensitivity` is refused, or None."""
        targets = self._core.targets.all
        return why_not_derived(self._robot, targets, len(self._core.layout.rows.objectives) - len(targets))

    def _motion(self, work: Workspace, settings: SolveSettings) -> DeviceDerivatives:
        """Return derivatives of the answers, made again if islands or arrays have changed."""
        if (reason := self.why_not_derived()) is not None:
            raise EngineError(
                f"There are no derivatives on a device: {reason}. IKSolver.linearise derives on the host."
            )
        partition, targets = self._core.engine.prepare(work, settings).partition, self._core.targets.all
        own = self._derivatives.get(partition.scales)
        if own is None:
            hard, model = self._options.joint_limits == "hard", self._robot.on_device(str(self._device))
            given = model, targets, partition, self._order, work.problems.capacity
            own = self._derivatives[partition.scales] = DeviceDerivatives(*given, hard_limits=hard)
        else:
            own.use_tools(targets)
        return own

    def _outputs(
        self,
        sources: "dict[str, wp.array[Any]]",
        count: int,
        out: "Mapping[str, wp.array[Any]] | None",
        *,
        derives: bool,
    ) -> "tuple[dict[str, wp.array[Any]], dict[str, wp.array[Any]]]":
        """Return arrays for the columns of the answers, and the robot's columns to take, unless all are taken."""
        shapes = {name: (count, *source.shape[1:]) for name, source in sources.items()}
        orders = dict[str, wp.array[Any]]()
        if not self._order.is_own:
            orders = dict.fromkeys(OF_COORDINATES, self._coordinates) | dict.fromkeys(OF_DOFS, self._dofs)
            shapes |= {name: (count, len(order)) for name, order in orders.items()}
        dtypes = {name: source.dtype for name, source in sources.items()}
        if derives:
            coordinates, targets = len(self._order.coordinates), len(self._core.targets.all)
            shapes |= dict(zip(DERIVED, ((count, coordinates, targets, TWIST), (count,)), strict=True))
            dtypes |= dict(zip(DERIVED, (wp.float64, wp.bool), strict=True))
        if out is None:
            out = {name: wp.empty(shape, dtype=dtypes[name], device=self._device) for name, shape in shapes.items()}
        else:
            check_outputs(out, {name: (shape, dtypes[name]) for name, shape in shapes.items()}, self._device)
        return {name: out[name] for name in shapes}, orders
