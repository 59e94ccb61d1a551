"""Arrays of a solver for a number of problems, and the launches common to both engines.

read -> (staged: discovery of islands, batch of attempts | compiled: kernels of the islands) -> verify
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.kernels.host_device_array import block_on, copied_together, wait
from ik_service.kernels.kernel_loading import load_kernels_alone
from ik_service.robots import DeviceModel
from ik_service.solver.arrays.input_kernels import InputArrays
from ik_service.solver.arrays.limit_arrays import LimitArrays, coordinates_constrained, coordinates_read, find_turns
from ik_service.solver.arrays.partition import Partition, own_partition
from ik_service.solver.arrays.parts import SOLVE_IO
from ik_service.solver.arrays.problem_arrays import BestAttempts, Problems, Searches, SolveSettings
from ik_service.solver.given.requested_limits import RequestedLimits
from ik_service.solver.given.targets import Target
from ik_service.solver.lm.codes import ITERATIONS
from ik_service.solver.recorded_launches import PreparedSolve, RecordedLaunches, RecordedStep
from ik_service.solver.recording import KeptRecording, PartLaunches, Recording, per_problem, without_count
from ik_service.solver.rows.layout import RowLayout
from ik_service.solver.rows.weights import IslandScales, TargetWeights
from ik_service.solver.verdict.verification import Verification
from objectives import InputError


class Workspace:
    """Arrays and launches of one solver."""

    def __init__(
        self,
        model: DeviceModel,
        targets: Sequence[Target],
        touches: NDArray[np.bool_],  # trees touched by each target, bool [targets, trees]
        capacity: int,  # problems there is room for
        *,
        hard_limits: bool,  # whether starts and answers keep the limits
        threads: int,  # most threads to use
    ) -> None:
        self._model, self._hard_limits = model, hard_limits
        self.weights = TargetWeights(targets, self._model.robot.length_unit)  # weights of the targets' rows
        trees, block = touches.shape[1], block_on(model.device)
        self.problems = Problems(model, targets, trees, capacity, block)
        given: dict[str, Any] = {"hard_limits": hard_limits, "parts": threads, "block": block}
        # targets and starts from the caller
        self.inputs = InputArrays(model, targets, touches, capacity, **given)
        self.verification = Verification(model, targets, trees, capacity, block)
        self._scales = IslandScales(capacity, trees, model.device)  # of problems with islands of their own
        self._turns: Any = None  # until the rows are known
        self._own_limits = LimitArrays(model, hard_limits=hard_limits)
        self._narrower: LimitArrays | None = None
        # limits of the last solve, narrower than the robot's; None for the robot's
        self.requested_limits: RequestedLimits | None = None
        # configurations of seed 0 of the last solve as given, inside or outside the limits; None for none
        self.start: NDArray[Any] | None = None
        self.copies = True  # whether launches recorded now copy between host and device
        self._pushed, self._asked = tuple[object, ...](), tuple[object, ...]()
        self.forget()

    def forget(self) -> None:
        """Drop all recordings, because their arrays have been exchanged."""
        self._reading = Recording(self._model.device, self.record_read)
        self._discovery_key: tuple[object, ...] = ()
        self._verifying = KeptRecording()

    def use_layout(self, layout: RowLayout) -> None:
        """Make room for the islands of these rows, and drop all recordings."""
        self._rows = layout.rows
        self.problems.use_structure(layout.structure, layout.rows)
        read = coordinates_read(layout.rows, layout.support.dofs)
        constrained = coordinates_constrained(layout.rows)
        self._turns = find_turns(self._model, read, constrained, hard_limits=self._hard_limits)
        self.problems.use_limits(self._own_limits, self._turns)
        self.verification.use_rows(layout.rows)
        self.forget()

    def use_limits(self, asked: RequestedLimits | None, start: NDArray[Any] | None, count: int) -> NDArray[Any] | None:
        """Set the limits of the next solve, None: the limits of the robot; return its start within them."""
        limits = self._own_limits
        if asked is not None:
            if self._narrower is None:
                lines = self.problems.capacity
                self._narrower = LimitArrays(self._model, hard_limits=self._hard_limits, lines=lines)
            limits = self._narrower
            start = limits.take(asked, start, count)
        if limits is not self.problems.limits:
            self.problems.use_limits(limits, self._turns)
        self.requested_limits = asked
        return start

    def use_targets(self, targets: Sequence[Target]) -> bool:
        """Set tool frames and weights of the same targets; return whether an array was exchanged."""
        self.weights = TargetWeights(targets, self._model.robot.length_unit)
        return self.inputs.use_targets(targets) | self.verification.use_targets(targets)

    def set_options(self, settings: SolveSettings, *, has_start: bool) -> None:
        """Set the numbers of a solve; `inputs` are uploaded later."""
        # With a given start, seed 1 is the middle of the ranges
        if self.copies:
            self._pushed = ()
        asked = settings, has_start
        if asked != self._asked:  # rare in a program with one problem after another
            self.problems.set_options(settings, has_start=has_start)
            self.verification.use_tolerances(settings.options)
            self._asked = asked

    def set_iterations(self, iterations: int) -> None:
        """Set the iterations of attempts until the next solve."""
        settings, self._asked = self.problems.inputs[0], ()
        settings.host[ITERATIONS] = iterations
        settings.push(0)

    def push_numbers(self) -> None:
        """Upload the numbers of a solve for launches recorded without copies; skip this if they are unchanged."""
        # Raises InputError where a graph is being recorded and the device holds other numbers
        pushed, device = (self._asked, self.inputs.given.host.tobytes()), self._model.device
        if pushed == self._pushed:
            return
        if device.is_capturing:
            raise InputError("Nothing has been solved like this since the last other solve. Do so before recording.")
        for array in (*self.problems.inputs, self.verification.tolerances, self.inputs.given):
            array.push(0)
        wait(device)
        self._pushed = pushed

    def read(self, count: int) -> None:
        """Check the caller's inputs and copy them into the arrays of the problems."""
        load_kernels_alone(SOLVE_IO, self._model.device)
        self._reading.prepare(count)()

    def discovered(self, count: int, *, join: bool) -> Partition:
        """Find the islands of all read problems; with `join` all touched trees are one island."""
        weights = self.problems.weights_of(self._rows, count)
        key = join, weights.shape, weights.tobytes()
        if key != self._discovery_key:
            lines = self.problems.find_islands(weights, join=join)
            self._discovery_key, self._discovered = key, own_partition(self.problems, lines, self._scales)
        return self._discovered

    def verify(self, prepared: PreparedSolve, count: int) -> None:
        """Verify the best attempts; the recording is kept while the same solve is verified again."""
        finished = prepared.joint_q_float64
        answers = None if finished is None else finished.device
        record = partial(self.record_verify, prepared.partition, answers, 0, 1)
        of = prepared.partition, finished, *self.verified_with
        self._verifying.prepare(of, self._model.device, record, count)()

    @property
    def verified_with(self) -> tuple[object, ...]:
        """The objects whose arrays are read by recorded launches of a verdict; they may be replaced."""
        return self.problems.limits, self.problems.turns, *self.verification.collision_arrays

    def verify_given(self, joint_q: NDArray[Any], prepared: PreparedSolve) -> None:
        """Verify configurations [problems, joint_coord_count] in place of the answers of a solve."""
        count, finished = len(joint_q), prepared.joint_q_float64
        if finished is not None:
            finished.host[:count] = joint_q
            finished.push(count)
        else:
            given: wp.array[Any] = wp.array(joint_q.astype(np.float32), device=self._model.device)
            wp.copy(self.problems.best.joint_q[:count], given)
        self.verify(prepared, count)

    def record_read(self, part: int, parts: int) -> PartLaunches:
        """Return the launches of `read` for one part of the problems."""
        launches = [
            per_problem(launch) for launch in self.inputs.launches(self.problems, self.verification.tools, part, parts)
        ]
        if not self.copies:
            return PartLaunches([*launches, without_count(self.inputs.record_clearing(part).launch)])
        inputs = [*self.problems.inputs, self.verification.tolerances, *self.inputs.inputs]
        pushes = [mirror.push for mirror in copied_together(inputs)]
        return PartLaunches([*pushes, *launches, self.inputs.fault.fetch])

    def record_verify(
        self, partition: Partition, joint_q_float64: "wp.array[Any] | None", part: int, parts: int
    ) -> PartLaunches:
        """Return the launches of `verify` for one part of the problems."""
        verification = self.verification
        launches = verification.launches(self.problems, self.inputs, partition, part, parts, joint_q_float64)
        results = verification.results(float64_finish=joint_q_float64 is not None) if self.copies else []
        fetches = [mirror.fetch for mirror in copied_together(results)]
        return PartLaunches([*map(per_problem, launches), *fetches], [partition])

    def recorded(
        self,
        partition: Partition,
        islands: Sequence[RecordedStep],
        joint_q_float64: "wp.array[Any] | None",  # answers in float64, if finished in float64
        further: "dict[str, wp.array[Any]]",  # further arrays with a line per problem, by content
        *,
        values: bool,  # whether values of constraints are recorded
    ) -> RecordedLaunches:
        """Return all launches of a solve of pose targets on one thread, for export; `islands`: the island launches."""
        problems, inputs, verification = self.problems, self.inputs, self.verification
        read = inputs.launches(problems, verification.tools, 0, 1)
        judged = problems, inputs, partition, 0, 1, joint_q_float64
        verify = verification.launches(*judged, values=values)
        steps = [RecordedStep.of_launch("read", launch) for launch in read]
        steps += [*islands, *(RecordedStep.of_launch("judge", launch) for launch in verify)]
        lines = {
            "given_positions": inputs.positions.device,
            "given_orientations_xyzw": inputs.orientations_xyzw.device,
            "given_joint_q": inputs.starts.device,
            "every": problems.every,
            "start_joint_q": problems.start_joint_q,
            "tree_hash": problems.tree_hash,
        }
        lines |= {f"best_{name}": getattr(problems.best, name) for name in BestAttempts.__annotations__}
        lines |= {f"search_{name}": getattr(problems.searches, name) for name in Searches.__annotations__}
        for k in range(len(problems.positions)):
            lines[f"target_positions_{k}"] = problems.positions[k]
            lines[f"target_orientations_xyzw_{k}"] = problems.orientations_xyzw[k]
            lines[f"target_row_weights_{k}"] = problems.row_weights[k]
        lines |= verification.lines() | further
        numbers = {
            "settings": problems.settings,
            "tolerances": problems.tolerances,
            "judged_tolerances": verification.tolerances.device,
            "given": inputs.given.device,
            "fault": inputs.fault.device,
        }
        if joint_q_float64 is not None:
            numbers["finish_settings"] = problems.finish_settings
        objectives: Any = self._rows.objectives
        data = tuple(objective.data(name) for objective in objectives for name in objective.data_rows())
        data += tuple(factor.device for factor in partition.scales.factors)
        return RecordedLaunches(tuple(steps), lines, numbers, data, problems.limits)
