"""A launch whose arguments are packed once, so that to repeat it costs hardly more than the call itself."""

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import warp as wp


def packed_launch(kernel: wp.Kernel, dim: int, inputs: Sequence[Any], device: wp.Device) -> Callable[[], None]:
    """Return a function that launches a kernel on these arguments again and again."""
    # It holds the arrays by address: the caller keeps them. On a CPU it neither allocates nor locks, and has ended when
    # it returns; on a GPU it takes its turn on the device's stream.
    recorded = wp.launch(kernel, dim, inputs, device=device, record_cmd=True)
    if device.is_cuda:
        on_stream: Callable[[], None] = recorded.launch
        return on_stream
    # What Warp does in every launch on a CPU, but for packing the arguments anew.
    bounds, *values = recorded.params
    names = [argument.label for argument in kernel.adj.args]
    fields = [(name, type(value)) for name, value in zip(names, values, strict=True)]
    packed = type("Arguments", (ctypes.Structure,), {"_fields_": fields})(*values)
    at_bounds, at_packed, forward = ctypes.byref(bounds), ctypes.byref(packed), recorded.hooks.forward

    def launch(_kept: object = (recorded, bounds, packed)) -> None:  # `forward` has only addresses of these
        forward(at_bounds, at_packed)

    return launch
