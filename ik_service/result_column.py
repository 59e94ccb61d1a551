"""A column of a result: its type, shape and meaning, in Python and at edges."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column, with a row for every problem.

    Attributes:
        name: Its name in Python, on the device and in C.
        dtype: NumPy's name of its type; "precision" is float32, or float64 if requested; "status" is an int8 code of
            `IKStatus`, at edges a word, or uint8 beside the words.
        axes: Axes after the axis of the problems.
        unit: Its unit, empty for none.
        meaning: Its meaning, in the C header.
        description: Its meaning, in the HTTP schema.
        place: Its place among the columns at edges.
        include: Value of `include` in a request for this column over HTTP; empty for always. Files hold only the
            columns that are always there.
        null: Value in arrays for a null in JSON; empty for none.
        on_device: Whether kernels write the column; otherwise the host assembles the column.
        streamed: Whether streams have the column.
    """

    name: str
    dtype: Literal["precision", "status", "bool", "int32", "float32", "float64"]
    axes: tuple[str, ...] = ()
    unit: str = ""
    meaning: str = ""
    description: str = ""
    place: int = 0
    include: str = ""
    null: Literal["", "nan", "-1", "inf"] = ""
    on_device: bool = True
    streamed: bool = False

    @cached_property
    def edge_name(self) -> str:
        """Its name at edges."""
        return f"{self.name}_{self.unit}" if self.unit in ("m", "rad") else self.name

    @cached_property
    def is_plain(self) -> bool:
        """Return whether values at edges, in JSON too, equal the values in Python; NaN is null in JSON."""
        return not (self.is_per_target or self.dtype == "status" or self.null in ("-1", "inf"))

    @cached_property
    def is_per_target(self) -> bool:
        """Return whether the column has a value per target; edges have the worst value."""
        return "targets" in self.axes
