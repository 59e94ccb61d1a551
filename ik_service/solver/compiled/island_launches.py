"""Launches of the islands of a solve: packets of lanes on a CPU, threads on a GPU."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import warp as wp

from ik_service.collision.clearance import ClearanceSize
from ik_service.compiler import IslandSignature, IterationSource, Lanes, Precision, build_program
from ik_service.kernels.kernel_loading import LAUNCH_BLOCK, unload_with
from ik_service.solver.compiled.iteration import address_of, iteration_kernel, iteration_of
from ik_service.solver.compiled.packet_kernel import packet_kernel
from ik_service.solver.compiled.proof_kernel import ProofKernel
from ik_service.solver.compiled.proof_task import FirstPhase
from ik_service.solver.compiled.thread_kernel import finish_kernel, thread_kernel
from ik_service.solver.compiled.waves import KEEP_BLOCK, WAVE_BLOCK_DIM, WAVES, allocate_storage, record_waves
from ik_service.solver.recording import PartLaunches, Step, per_problem, without_count

KERNELS_MAX = 64  # kernels of islands kept by a process for solvers of equal signatures


def in_threads(device: wp.Device) -> bool:
    """Return whether islands are solved by threads, one attempt each, instead of by SIMD packets."""
    return bool(device.is_cuda)


@dataclass(frozen=True)
class IslandKernel:
    """The kernel of an island."""

    kernel: wp.Kernel  # the kernel; several islands may share one
    source: IterationSource  # its iteration
    waves: bool = False  # whether the kernel works through waves of attempts
    collision: ClearanceSize | None = None  # sizes of the check for collision; None for none
    iteration: wp.Kernel | None = None  # the `iteration_kernel`, where the kernel calls the iteration

    def __post_init__(self) -> None:
        """Unload the modules when no kernel of an island uses them any more."""
        for module in self.blocks():
            if module is not WAVES:
                unload_with(self, module)

    @cached_property
    def whole(self) -> "IslandKernel":
        """Return an island's kernel with the iteration inside, for exports, which run without Warp."""
        if self.iteration is None:
            return self
        return IslandKernel(packet_kernel(self.source, self.collision, calls=False), self.source)

    def blocks(self) -> dict[Any, int]:
        """Return the modules of its launches, each with its size of block on a GPU."""
        if self.waves:
            return {self.kernel.module: WAVE_BLOCK_DIM, WAVES: KEEP_BLOCK}
        return {one.module: LAUNCH_BLOCK for one in (self.kernel, self.iteration) if one is not None}


@lru_cache(KERNELS_MAX)
def _packet_kernel(signature: IslandSignature, lanes: Lanes, collision: ClearanceSize | None) -> IslandKernel:
    source = iteration_of(build_program(signature), lanes, PacketLaunches.step_entries_max)
    kernel = packet_kernel(source, collision, calls=source.padded)
    iteration = iteration_kernel(source) if source.padded else None
    return IslandKernel(kernel, source, collision=collision, iteration=iteration)


@lru_cache(KERNELS_MAX)
def _thread_kernel(signature: IslandSignature, precision: Precision, collision: ClearanceSize | None) -> IslandKernel:
    program, most = build_program(signature), ThreadLaunches.step_entries_max
    if precision == "float64":
        source = iteration_of(program, Lanes(1, precision), most)
        return IslandKernel(finish_kernel(source), source)
    source = iteration_of(program, Lanes(1), most, data_columns=WAVE_BLOCK_DIM)
    return IslandKernel(thread_kernel(source, signature.robot, collision), source, waves=True)


IslandWork = tuple[IslandKernel, Any]  # a kernel and its task
ProofWork = tuple[ProofKernel | FirstPhase, Any]  # a kernel and its task


class PacketLaunches:
    """Each island in one launch, for any number of problems, for every part of the problems."""

    # most entries of an island's steps: a chain of 200 DOFs with one target takes Clang some 10 s, 48 DOFs with as many
    # rows 30 s
    step_entries_max = 1250
    in_threads = False

    def kernel(
        self, signature: IslandSignature, precision: Precision, collision: ClearanceSize | None = None
    ) -> IslandKernel:
        """Return the kernel of an island; in float64, for the finish, none checks for collision."""
        return _packet_kernel(signature, Lanes.on_cpu(precision), None if precision == "float64" else collision)

    def size(self, problem_count: int, seeds: int, *, is_timed: bool = False) -> tuple[int, ...]:
        """Return the key of launches for this work, with a deadline or without: solves of equal keys share launches."""
        return ()

    def record(self, size: tuple[int, ...], work: Sequence[IslandWork], part: int, parts: int) -> PartLaunches:
        """Return the launches of one part of a solve of this size."""
        steps, codes = [], list[Any]()
        for one, task in work:
            inputs, device = [task, part, parts], task.settings.device
            if one.iteration is not None:
                task.iterate, code = address_of(one.iteration, device)
                codes.append(code)
            steps.append(without_count(wp.launch(one.kernel, 1, inputs, device=device, record_cmd=True).launch))
        return PartLaunches(steps, [*work, codes])

    def record_proofs(self, work: Sequence[ProofWork], phase: int, part: int, parts: int) -> PartLaunches:
        """Return the launches of a phase of proofs for one part."""
        steps = [without_count(launch.launch) for launch in _proof_launches(work, phase, part, parts)]
        return PartLaunches(steps, work)


class ThreadLaunches:
    """Each island in waves of attempts, up to a number of problems and seeds; in float64 an attempt per problem.

    Launches of all sizes share the storage of the largest so far; earlier launches keep their earlier storage.
    """

    # most entries of an island's steps: a humanoid of 34 DOFs with five targets (307) takes NVRTC some 20 s; a thread
    # has 255 registers, the rest is in local memory
    step_entries_max = 310
    in_threads = True

    def __init__(self) -> None:
        self._storage: Any = None
        self._room: tuple[int, ...] = (0, 0, 0, 0)  # sizes of `_storage`

    def kernel(
        self, signature: IslandSignature, precision: Precision, collision: ClearanceSize | None = None
    ) -> IslandKernel:
        """Return the kernel of an island; in float64, for the finish, none checks for collision."""
        return _thread_kernel(signature, precision, None if precision == "float64" else collision)

    def size(self, problem_count: int, seeds: int, *, is_timed: bool = False) -> tuple[int, ...]:
        """Return the key of launches: largest numbers of problems and seeds, and whether there is a deadline."""
        return 2 ** math.ceil(math.log2(problem_count)), int(seeds), int(is_timed)

    def record(self, size: tuple[int, ...], work: Sequence[IslandWork], part: int, parts: int) -> PartLaunches:
        """Return the launches of all problems, in a single part."""
        problem_count, seeds, is_timed = size
        steps: list[Step] = []
        for one, task in work:
            device = task.settings.device
            if one.waves:
                self._make_room(one.source, problem_count, problem_count * seeds, device)
                waves = record_waves(one.kernel, task, problem_count, seeds, self._storage, is_timed=bool(is_timed))
                steps.append(without_count(waves))
            else:
                steps.append(per_problem(wp.launch(one.kernel, 1, [task], device=device, record_cmd=True)))
        return PartLaunches(steps, [*work, self._storage])

    def record_proofs(self, work: Sequence[ProofWork], phase: int, part: int, parts: int) -> PartLaunches:
        """Return the launches of a phase of proofs, with a thread for each problem."""
        return PartLaunches([per_problem(launch) for launch in _proof_launches(work, phase, part, parts)], work)

    def _make_room(self, source: IterationSource, problems: int, attempts: int, device: wp.Device) -> None:
        needed = (len(source.coordinates), len(source.data_names()), problems, attempts)
        if any(want > have for want, have in zip(needed, self._room, strict=True)):
            self._room = tuple(map(max, needed, self._room))
            self._storage = allocate_storage(device, *self._room)


def _proof_launches(work: Sequence[ProofWork], phase: int, part: int, parts: int) -> list[wp.Launch]:
    return [
        wp.launch(one.kernel, 1, [task, phase, part, parts], device=task.settings.device, record_cmd=True)
        for one, task in work
        if phase == 0 or one.has_rest
    ]


def launches_on(device: wp.Device) -> PacketLaunches | ThreadLaunches:
    """Return the launches of islands for a device."""
    return ThreadLaunches() if in_threads(device) else PacketLaunches()
