"""Graphs of whole solves with arrays of a caller, for arrays used repeatedly."""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any
from weakref import WeakKeyDictionary

import warp as wp

from ik_service.kernels.device_lock import recording
from ik_service.solver.recorded_launches import PreparedSolve
from ik_service.solver.recording import Replay

GRAPHS_MAX = 32

ArraysKey = tuple[object, ...]


def arrays_key(arrays: "Iterable[wp.array[Any] | None]") -> ArraysKey:
    """Return the key of launches with these arrays: addresses, shapes and types."""
    return tuple(None if one is None else (one.ptr, one.shape, one.strides, one.dtype) for one in arrays)


class ArrayGraphs:
    """Solves of one solver with arrays of a caller; recorded as a graph when the same arrays come again.

    Graphs are kept by the replay of the solve, for as long as the replay exists: it is a new object after any array of
    its launches has been exchanged.
    """

    def __init__(self, device: wp.Device) -> None:
        self._device = device
        self._graphs: WeakKeyDictionary[Replay, OrderedDict[ArraysKey, wp.Graph | None]] = WeakKeyDictionary()

    def run(
        self, key: ArraysKey, prepare: Callable[[], PreparedSolve], launch: Callable[[Replay], None]
    ) -> PreparedSolve:
        """Solve with the device lock held, without waiting; return the prepared solve."""
        # `key` is the key of all arrays of the caller. While a graph is recorded, the launches of `prepare` become part
        # of this graph. `launch` runs the replay of the solve together with transfers of the arrays.
        prepared = prepare()
        if not self._device.is_cuda or self._device.is_capturing:
            launch(prepared.run)
            return prepared
        graphs = self._graphs.setdefault(prepared.run, OrderedDict())
        if key in graphs and graphs[key] is None:
            with recording() as may_record:
                if may_record:
                    with wp.ScopedCapture(device=self._device) as capture:
                        launch(prepare().run)
                    graphs[key] = capture.graph
        graph = graphs.setdefault(key, None)
        graphs.move_to_end(key)
        if len(graphs) > GRAPHS_MAX:
            graphs.popitem(last=False)
        if graph is None:
            launch(prepared.run)
        else:
            wp.capture_launch(graph)
        return prepared
