"""Interface of an exported function: its launches, its part of the texts, and an example."""

from collections.abc import Mapping
from typing import Protocol

import warp as wp

from ik_service.export.structs import CLayout
from ik_service.export.values import Constants
from ik_service.solver.recorded_launches import RecordedLaunches


class ExportedFunction(Protocol):
    """An exported C function with its companions.

    Attributes:
        name: Part of the names of its kernels.
        recorded: Its launches.
        objects: Names of its objects.
        prologue: Text before all includes of the source.
        example: Template of the example program, its name, and the name of its data file.
        advice: Notes for the README, as a list.
    """

    name: str
    recorded: RecordedLaunches
    objects: tuple[str, ...]
    prologue: str
    example: tuple[str, str, str]
    advice: str

    def object_of(self, kernel: wp.Kernel) -> str:
        """Return the name of the object of a kernel."""

    def texts(self, symbols: Mapping[wp.Kernel, str], layout: CLayout, constants: Constants) -> tuple[str, str]:
        """Return its part of the header, and its source without the declarations of structs and constants."""

    def example_data(self) -> bytes:
        """Return the data file of the example program."""
