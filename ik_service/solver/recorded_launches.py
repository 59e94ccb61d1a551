"""Launches of a solve or a tick one by one, with all their arguments, for programs without this package.

A solve of pose targets by the compiled engine is a list of kernels that is the same for every batch: those that read
the inputs, one for each island, those that verify. Their arguments are arrays of three sorts: those with a line for
every problem, the few numbers of a solve, and all others, which hold the robot and never change.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.kernels.host_device_array import HostDeviceArray
from ik_service.solver.arrays.limit_arrays import LimitArrays
from ik_service.solver.arrays.partition import Partition

NOT_RECORDABLE = (
    "Only solvers of pose targets by the compiled engine can be exported: no further objectives, no soft "
    "limits, no offsets or row weights per problem."
)


@dataclass(frozen=True)
class RecordedStep:
    """One launch."""

    # part of the whole to which it belongs; of a solve "read", after which the mark `fault` says whether to go on,
    # "solve" for the islands, "finish" for them in float64, "judge"
    phase: str
    kernel: wp.Kernel
    arguments: tuple[Any, ...]  # what it is launched with: numbers, arrays and structs
    per_problem: bool  # whether it is launched with the number of problems as its dimension; else with 1
    size: str = ""  # what else it is launched with, in the words of whoever runs it

    @classmethod
    def of_launch(cls, phase: str, launch: wp.Launch) -> "RecordedStep":
        """Return the step of a launch with one thread per problem."""
        arguments: list[Any] | None = launch.fwd_args
        assert arguments is not None  # it was recorded with arguments
        return cls(phase, launch.kernel, tuple(arguments), True)


@dataclass(frozen=True)
class RecordedLaunches:
    """Launches in order, and what the arrays are that change from one time to the next."""

    steps: tuple[RecordedStep, ...]
    lines: dict[str, wp.array[Any]]  # arrays with a line for every problem, by what they hold
    numbers: dict[str, wp.array[Any]]  # arrays of a few numbers, such as those of a solve, by what they hold
    data: tuple[wp.array[Any], ...]  # arrays of the objectives, which tasks hold by address
    limits: LimitArrays | None = None  # joint limits of a solve, one line for all problems


class Selection(Protocol):
    """Distinct solutions of a solve, one of which can be made the answer."""

    @property
    def solution_count(self) -> HostDeviceArray:
        """Number of distinct solutions of each problem."""

    def found(self, count: int) -> NDArray[np.int32]:
        """Return the numbers of solutions of the islands of the first problems, [count, trees]."""

    def take(self, partition: Partition, number: NDArray[np.int32]) -> None:
        """Make a solution of every problem its answer; which, [problems], counts from 0."""


class PreparedSolve(NamedTuple):
    """A solve that an engine has prepared."""

    partition: Partition
    # does what is left to do; on a CPU it needs no device lock, so kernels of several solvers run side by side
    run: Callable[[], None] = lambda: None
    joint_q_float64: HostDeviceArray | None = None  # answers in float64, where they are improved so
    selection: Selection | None = None  # the solutions, where several or the best one are asked for
