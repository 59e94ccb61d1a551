"""The kernels of a solver's islands for a card, compiled without one, and what else a solve launches and copies."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import warp as wp

import ik_service
from benchmarks.gpu_model.cards import SUB_PARTITIONS, WARP, Card
from benchmarks.gpu_model.flow import Parts, parts_of
from benchmarks.gpu_model.sass import disassembled, read_listing
from benchmarks.problems.many_arms import HandProblems
from ik_service.solver.compiled import island_launches
from ik_service.solver.compiled.island_launches import IslandKernel, IslandWork, ThreadLaunches
from ik_service.solver.launches.recording import PartLaunches
from ik_service.solver.problems import host_device_array
from tests.gpu_code.cubins import compiled_for, usage

COPIES_SEEN = (1, 1000, 10_000)  # problems of the solves whose copies are counted
BLOCKS_MAX = {89: 24, 90: 32}  # of a multiprocessor
SHARED_BYTES = {89: 100 << 10, 90: 228 << 10}  # of a multiprocessor
SHARED_OF_SYSTEM = 1024  # of each block
SHARED_OF_WARP = {89: 128, 90: 1152}  # that a cubin names for a block without spills


@dataclass(frozen=True)
class IslandCode:
    """The code of an island on a card.

    Attributes:
        parts: The loop.
        dofs: DOFs of the island.
        registers: Per thread.
        spilled: Numbers of a thread that found no register, in shared and local memory.
        warps: That a sub-partition holds at once.
    """

    parts: Parts
    dofs: int
    registers: int
    spilled: int
    warps: int


@dataclass(frozen=True)
class SolvePlan:
    """What a solve does, but for the waves of its islands.

    Attributes:
        islands: Kernels of the islands, one for each island.
        launches: Other kernels.
        copies: Bytes of each copy between host and card, by numbers of problems.
        line_bytes: Of all arrays with a line for every problem, for one problem.
    """

    islands: tuple[IslandKernel, ...]
    launches: int
    copies: dict[int, tuple[int, ...]]
    line_bytes: float

    def copied(self, problems: int) -> list[float]:
        """Return the bytes of each copy of so many problems; more than were seen take longer copies of the same."""
        seen = max(count for count in self.copies if count <= problems)
        return [size * problems / seen if size > seen else float(size) for size in self.copies[seen]]


class _Listed(ThreadLaunches):
    """Launches that are listed and not made."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[IslandKernel] = []

    def record(self, size: tuple[int, ...], work: list[IslandWork], part: int, parts: int) -> PartLaunches:
        """List the kernels of the islands."""
        self.found.extend(one for one, _ in work)
        return PartLaunches([])


@contextmanager
def _as_on_a_card() -> Iterator[None]:
    """Solve by threads, with arrays that host and device do not share."""
    with (
        mock.patch.object(island_launches, "in_threads", return_value=True),
        mock.patch.object(host_device_array, "has_host_copy", return_value=True),
    ):
        yield


def solve_plan(problems: HandProblems, **options: Any) -> SolvePlan:
    """Return what a solve does on a card, seen while one does the same on a CPU, but for the islands.

    Args:
        problems: The robot and the largest number of problems of `COPIES_SEEN`.
        options: Of the solver.
    """
    copies: dict[int, tuple[int, ...]] = {}
    copied: list[int] = []
    launched: list[str] = []
    copy, launch = wp.copy, wp.Launch.launch

    def run_copy(to: Any, source: Any, *, count: int = 0) -> None:
        copied.append((count or to.size) * int(wp.types.type_size_in_bytes(to.dtype)))
        copy(to, source, count=count)

    def run_launch(one: wp.Launch, *given: Any) -> None:
        launched.append(one.kernel.key)
        launch(one, *given)

    with (
        _as_on_a_card(),
        mock.patch.object(wp, "copy", run_copy),
        mock.patch.object(wp.Launch, "launch", run_launch),
    ):
        for count in COPIES_SEEN:
            solver = ik_service.IKSolver(problems.robot, problems.links, device="cpu", engine="compiled", **options)
            engine: Any = solver._core.engine
            engine.kernels.launches = listed = _Listed()
            given = problems.first(count).positions, problems.first(count).orientations_xyzw
            solver.solve(*given)
            copied.clear()
            launched.clear()
            solver.solve(*given)
            copies[count] = tuple(copied)
        line_bytes = sum(array.strides[0] for array in solver.recorded().lines.values())
    return SolvePlan(tuple(listed.found), len(launched), copies, float(line_bytes))


def island_code(one: IslandKernel, card: Card) -> IslandCode:
    """Return the code of an island on a card."""
    one.kernel.module.options["lineinfo"] = True
    with tempfile.TemporaryDirectory() as folder:
        cubin = compiled_for(one.kernel, card.architecture, Path(folder))
    taken = usage(cubin)
    granted = -(-taken.registers // 8) * 8 * WARP
    warps = min(
        BLOCKS_MAX[card.architecture],
        SUB_PARTITIONS * card.registers // granted,
        SHARED_BYTES[card.architecture] // (taken.shared_bytes + SHARED_OF_SYSTEM),
    )
    spilled = (taken.shared_bytes - SHARED_OF_WARP[card.architecture]) // (4 * WARP) + taken.local_bytes // 4
    parts = parts_of(read_listing(disassembled(cubin)))
    return IslandCode(parts, len(one.source.program.dofs), taken.registers, spilled, warps // SUB_PARTITIONS)
