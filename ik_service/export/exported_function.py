"""Interface of an exported function: its launches, its part of the texts, and an example."""

from collections.abc import Mapping
from typing import Protocol

import warp as wp

from ik_service.export.structs import CLayout
from ik_service.export.values import Constants
from ik_service.solver.recorded_launches import RecordedLaunches


class ExportedFunction(Protocol):
    """An exported C function with its companions."""

    name: str  # part of the names of its kernels
    recorded: RecordedLaunches  # its launches
    objects: tuple[str, ...]  # names of its objects
    prologue: str  # text before all includes of the source
    example: tuple[str, str, str]  # template of the example program, its name, and the name of its data file
    advice: str  # notes for the README, as a list

    def object_of(self, kernel: wp.Kernel) -> str:
        """Return the name of the object of a kernel."""

    def texts(self, symbols: Mapping[wp.Kernel, str], layout: CLayout, constants: Constants) -> tuple[str, str]:
        """Return its part of the header, and its source without the declarations of structs and constants."""

    def example_data(self) -> bytes:
        """Return the data file of the example program."""
