"""The frame of a function whose arrays are in the memory of a GPU: kernels are launched through the CUDA driver."""

from collections.abc import Mapping
from typing import Any

import warp as wp

from ik_service.export.c_code.structs import CLayout
from ik_service.export.c_code.values import Constants, Place, c_scalar
from ik_service.export.frames.call_frame import CallFrame, FrameArray
from ik_service.solver.launches.recorded_launches import RecordedLaunches, RecordedStep

ALIGNMENT = 256  # of every constant


class GpuConstants(Constants):
    """Arrays that never change, in one piece of device memory that `f->call.gpu->constants` points to.

    Attributes:
        size: Bytes of that piece.
    """

    def __init__(self) -> None:
        super().__init__()
        self.size = 0
        self._places: dict[str, tuple[int, str]] = {}

    def name(self, array: "wp.array[Any]", label: str) -> str:
        """Return the C expression of an array's address on the device."""
        name = super().name(array, label)
        if name not in self._places:
            self._places[name] = (self.size, c_scalar(array))
            self.size += -(-array.numpy().nbytes // ALIGNMENT) * ALIGNMENT
        place, kind = self._places[name]
        return f"(({kind} *)(uintptr_t)(f->call.gpu->constants + {place}))"

    def uploads(self) -> list[str]:
        """Return the statements that copy all of them to `at`."""
        return [f"upload(gpu, {place}, {name}, sizeof {name});" for name, (place, _) in self._places.items()]


class GpuFrame(CallFrame):
    """The frame of one function on a GPU.

    Args:
        name: What its names in C hold.
        recorded: The launches.
        symbols: Names of the kernels in the cubins.
        layout: Where structs are declared.
        constants: Where constants are kept.
        further: Arrays besides those with a line for every problem.
    """

    def __init__(
        self,
        name: str,
        recorded: RecordedLaunches,
        symbols: Mapping[wp.Kernel, str],
        layout: CLayout,
        constants: GpuConstants,
        further: Mapping[str, FrameArray],
    ) -> None:
        self._places_of_kernels = {kernel: place for place, kernel in enumerate(symbols)}
        super().__init__(name, recorded, symbols, layout, constants, further)

    def _number_place(self, label: str) -> Place:
        return Place(f"(f->device_numbers + offsetof({self._name}_numbers, {label}))")

    def _launch(self, step: RecordedStep) -> list[str]:
        arguments = ", ".join(["&bounds", *(f"&a.{argument.label}" for argument in step.kernel.adj.args)])
        place = self._places_of_kernels[step.kernel]
        return [
            "{",
            f"    void *arguments[] = {{{arguments}}};",
            f"    launch(&f->call, {place}, bounds.size, {step.block}, arguments);",
            "}",
        ]
