"""The frame of a function whose arrays are in the memory of a GPU: kernels are launched through the CUDA driver."""

from typing import Any

import warp as wp

from ik_service.export.call_frame import CallFrame
from ik_service.export.values import Constants, Place, c_scalar
from ik_service.solver.launches.recorded_launches import RecordedStep

CONSTANT_ALIGNMENT = 256  # of every constant


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
            self.size += -(-array.numpy().nbytes // CONSTANT_ALIGNMENT) * CONSTANT_ALIGNMENT
        place, kind = self._places[name]
        return f"(({kind} *)(uintptr_t)(f->call.gpu->constants + {place}))"

    def uploads(self) -> list[str]:
        """Return the statements that copy all of them to `at`."""
        return [f"upload(gpu, {place}, {name}, sizeof {name});" for name, (place, _) in self._places.items()]


class GpuFrame(CallFrame):
    """The frame of one function on a GPU; its constants are `GpuConstants`."""

    def _number_place(self, label: str) -> Place:
        return Place(f"(f->device_numbers + offsetof({self._name}_numbers, {label}))")

    def _launch(self, step: RecordedStep) -> list[str]:
        arguments = ", ".join(["&bounds", *(f"&a.{argument.label}" for argument in step.kernel.adj.args)])
        place = list(self._symbols).index(step.kernel)
        return [
            "{",
            f"    void *arguments[] = {{{arguments}}};",
            f"    launch(&f->call, {place}, bounds.size, {step.block}, arguments);",
            "}",
        ]
