"""What an engine has prepared: the rest of a solve, or launches for export."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.kernels.host_device_array import HostDeviceArray
from ik_service.solver.arrays.partition import Partition
from ik_service.solver.launches.recorded_launches import RecordedStep


class Selection(Protocol):
    """Distinct solutions of a solve, one of which can be made the answer."""

    @property
    def solution_count(self) -> HostDeviceArray:
        """How many distinct solutions each problem has."""

    def found(self, count: int) -> NDArray[np.int32]:
        """How many the islands of the first problems have, [count, trees]."""

    def take(self, partition: Partition, number: NDArray[np.int32]) -> None:
        """Make a solution of every problem its answer; which, [problems], counts from 0."""


class PreparedSolve(NamedTuple):
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
        lines: Arrays with a line for every problem that these need for that, by what they hold.
    """

    partition: Partition
    steps: tuple[RecordedStep, ...]
    joint_q_float64: "wp.array[Any] | None"
    lines: dict[str, wp.array[Any]]
