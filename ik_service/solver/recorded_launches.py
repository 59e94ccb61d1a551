"""Launches of a solve or a tick one by one, with all their arguments, for programs without this package.

A solve of pose targets by the compiled engine is the same list of kernels for every batch: kernels to read the inputs,
one for each island, kernels to verify. Their arguments are arrays of three sorts: arrays with a line for every problem,
the few numbers of a solve, and constant arrays with the robot.
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

    # part of the whole; of a solve "read" (afterwards the mark `fault` stops further steps), "solve" for the islands,
    # "finish" for islands in float64, "judge"
    phase: str
    kernel: wp.Kernel
    arguments: tuple[Any, ...]  # arguments of the launch: numbers, arrays and structs
    per_problem: bool  # whether the launch dimension is the number of problems; else 1
    size: str = ""  # further launch dimension, named by the user of the step

    @classmethod
    def of_launch(cls, phase: str, launch: wp.Launch) -> "RecordedStep":
        """Return the step of a launch with one thread per problem."""
        arguments: list[Any] | None = launch.fwd_args
        assert arguments is not None  # recorded with arguments
        return cls(phase, launch.kernel, tuple(arguments), True)


@dataclass(frozen=True)
class RecordedLaunches:
    """Launches in order, and the variable arrays among their arguments."""

    steps: tuple[RecordedStep, ...]
    lines: dict[str, wp.array[Any]]  # arrays with a line for every problem, by content
    numbers: dict[str, wp.array[Any]]  # arrays of a few numbers, such as the settings of a solve, by content
    data: tuple[wp.array[Any], ...]  # arrays of the objectives, held by address in tasks
    limits: LimitArrays | None = None  # joint limits of a solve, one line for all problems


class Selection(Protocol):
    """Distinct solutions of a solve, for choice of the answer; arrays have a line for every problem."""

    only_branches: bool  # whether the branches of an arm are the only starts
    of_arm: bool  # whether the solutions are of one arm with one target
    solution_count: HostDeviceArray  # number of distinct solutions
    unfinished: HostDeviceArray  # 1 if further seeds may lead to further solutions; with `only_branches`
    complete: HostDeviceArray  # 1 without other solutions
    # of the solutions with success: number, first one, branches and configurations
    kept: HostDeviceArray
    first_kept: HostDeviceArray
    kept_branch: HostDeviceArray
    kept_joint_q: HostDeviceArray

    def found(self, count: int) -> NDArray[np.int32]:
        """Return the numbers of solutions of the islands of the first problems, [count, trees]."""

    def take(self, partition: Partition, number: NDArray[np.int32]) -> None:
        """Make one solution of every problem its answer; `number` [problems] counts from 0."""

    def keep(self, work: Any, partition: Partition, number: int, count: int) -> None:
        """Keep solution `number` of each problem, the answer just verified, on success."""

    def keep_branches(self, work: Any, partition: Partition, count: int) -> None:
        """Keep the successful solutions of an arm for each problem; the first one has been verified."""


class PreparedSolve(NamedTuple):
    """A solve prepared by an engine."""

    partition: Partition
    # runs the rest of the solve; without the device lock on a CPU, so kernels of several solvers run side by side
    run: Callable[[], None] = lambda: None
    joint_q_float64: HostDeviceArray | None = None  # answers in float64, with a float64 finish
    selection: Selection | None = None  # the solutions, if several or the best are requested
