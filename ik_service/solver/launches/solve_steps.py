"""What a solver and its engine exchange: the solver's launches, and what the engine has prepared."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.solver.launches.recorded_launches import RecordedStep
from ik_service.solver.launches.recording import PartLaunches
from ik_service.solver.problems.arrays import Problems
from ik_service.solver.problems.host_device_array import HostDeviceArray
from ik_service.solver.problems.input_kernels import InputArrays
from ik_service.solver.problems.partition import Partition
from ik_service.solver.problems.rows.layout import RowLayout
from ik_service.solver.problems.rows.weights import TargetWeights


class Selection(Protocol):
    """Distinct solutions of a solve, one of which can be made the answer."""

    @property
    def solution_count(self) -> HostDeviceArray:
        """How many distinct solutions each problem has."""

    def take(self, partition: Partition, number: NDArray[np.int32]) -> None:
        """Make a solution of every problem its answer; which, [problems], counts from 0."""


@dataclass(frozen=True)
class PreparedSolve:
    """A solve that an engine has prepared.

    Attributes:
        partition: Islands of the problems.
        run: Does what is left to do. On a CPU it needs no device lock, so kernels of several solvers run side by side.
        joint_q_float64: Answers in float64, where they are improved so.
        selection: The solutions, where several or the best one are asked for.
    """

    partition: Partition
    run: Callable[[], None] = lambda: None
    joint_q_float64: HostDeviceArray | None = None
    selection: Selection | None = None


@dataclass(frozen=True)
class RecordedIslands:
    """Recorded launches of an engine, for export.

    Attributes:
        partition: Islands that all problems have in common.
        steps: The launches.
        joint_q_float64: Answers in float64, where they are improved so.
    """

    partition: Partition
    steps: tuple[RecordedStep, ...]
    joint_q_float64: wp.array[Any] | None


class SolveSteps(Protocol):
    """What a solver gives its engine: arrays of the problems, and the launches before and after the engine's own."""

    @property
    def problems(self) -> Problems:
        """Arrays of the problems."""

    @property
    def inputs(self) -> InputArrays:
        """Targets and starts as the caller gives them."""

    @property
    def weights(self) -> TargetWeights:
        """Weights of the targets' rows."""

    @property
    def turns(self) -> Any:
        """The `Turns` of joints that come back on the turn nearest the start."""

    def use_layout(self, layout: RowLayout) -> None:
        """Make room for the islands of rows whose support has changed."""

    def read(self, count: int) -> None:
        """Check the inputs and copy them into the arrays of the problems."""

    def discovered(self, count: int, *, join: bool) -> Partition:
        """Return the islands of every problem, found on the device."""

    def verify(self, prepared: PreparedSolve, count: int) -> None:
        """Verify the best attempts as they stand."""

    def record_read(self, part: int, parts: int) -> PartLaunches:
        """Return the launches of `read` for one part of the problems."""

    def record_verify(
        self, partition: Partition, joint_q_float64: wp.array[Any] | None, part: int, parts: int
    ) -> PartLaunches:
        """Return the launches of `verify` for one part of the problems."""
