"""Graphs of whole solves with the arrays of a caller, for arrays that come again."""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import warp as wp

from ik_service.solver.device_lock import recording
from ik_service.solver.launches.prepared_solve import PreparedSolve
from ik_service.solver.launches.recording import Replay

GRAPHS_MAX = 32

ArraysKey = tuple[object, ...]


def arrays_key(arrays: "Iterable[wp.array[Any] | None]") -> ArraysKey:
    """Return what launches with these arrays can be repeated for: places, shapes and types."""
    return tuple(None if one is None else (one.ptr, one.shape, one.strides, one.dtype) for one in arrays)


@dataclass
class _Known:
    """What is known of solves with some arrays.

    Attributes:
        run: What did the solve itself; it is another object after anything that its launches read was exchanged.
        graph: All launches of a solve, with the arrays; None where they have not been recorded.
        recorded: The launches in it, which hold arrays by address only.
    """

    run: Replay
    graph: wp.Graph | None = None
    recorded: Replay | None = None


class ArrayGraphs:
    """Solves of one solver with arrays of a caller; a graph where the same ones come for the third time or later.

    Args:
        device: Where they are.
    """

    def __init__(self, device: wp.Device) -> None:
        self._device = device
        self._known: OrderedDict[ArraysKey, _Known] = OrderedDict()

    def run(
        self, key: ArraysKey, prepare: Callable[[], PreparedSolve], launch: Callable[[Replay], None]
    ) -> PreparedSolve:
        """Solve with the device lock held, without waiting; return what was prepared.

        Args:
            key: Of all arrays of the caller.
            prepare: Prepares a solve; while a graph is recorded its launches become part of that.
            launch: Does what a solve consists of, with the arrays, given what does the solve itself.
        """
        prepared = prepare()
        if not self._device.is_cuda or self._device.is_capturing:
            launch(prepared.run)
            return prepared
        known = self._known.get(key)
        if known is None or known.run is not prepared.run:
            known = self._known[key] = _Known(prepared.run)
        elif known.graph is None:
            with recording() as may_record:
                if may_record:
                    with wp.ScopedCapture(device=self._device) as capture:
                        known.recorded = prepare().run
                        launch(known.recorded)
                    known.graph = capture.graph
        self._known.move_to_end(key)
        if len(self._known) > GRAPHS_MAX:
            self._known.popitem(last=False)
        if known.graph is None:
            launch(prepared.run)
        else:
            wp.capture_launch(known.graph)
        return prepared
