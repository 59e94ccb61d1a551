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
    """One launch.

    Attributes:
        phase: Part of the whole to which it belongs; of a solve "read", after which the mark `fault` says whether to
            go on, "solve" for the islands, "finish" for them in float64, "judge".
        kernel: The kernel.
        arguments: What it is launched with: numbers, arrays and structs.
        per_problem: Whether it is launched with the number of problems as its dimension; else with 1.
        size: What else it is launched with, in the words of whoever runs it.
    """

    phase: str
    kernel: wp.Kernel
    arguments: tuple[Any, ...]
    per_problem: bool
    size: str = ""

    @classmethod
    def of_launch(cls, phase: str, launch: wp.Launch) -> "RecordedStep":
        """Return the step of a launch with one thread per problem."""
        arguments: list[Any] | None = launch.fwd_args
        assert arguments is not None  # it was recorded with arguments
        return cls(phase, launch.kernel, tuple(arguments), True)


@dataclass(frozen=True)
class RecordedLaunches:
    """Launches in order, and what the arrays are that change from one time to the next.

    Attributes:
        steps: The launches.
        lines: Arrays with a line for every problem, by what they hold.
        numbers: Arrays of a few numbers, such as those of a solve, by what they hold.
        data: Arrays of the objectives, which tasks hold by address.
        limits: Joint limits of a solve, one line for all problems.
    """

    steps: tuple[RecordedStep, ...]
    lines: dict[str, wp.array[Any]]
    numbers: dict[str, wp.array[Any]]
    data: tuple[wp.array[Any], ...]
    limits: LimitArrays | None = None


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
