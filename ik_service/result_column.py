"""A column of a result: its type, shape and meaning, in Python and at edges."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column, with a row for every problem."""

    name: str  # its name in Python, on the device and in C
    # NumPy's name of its type; "precision" is float32, or float64 if requested; "status" is an int8 code of `IKStatus`,
    # at edges a word, or uint8 beside the words
    dtype: Literal["precision", "status", "bool", "int32", "float32", "float64"]
    axes: tuple[str, ...] = ()  # axes after the axis of the problems
    unit: str = ""  # its unit, empty for none
    meaning: str = ""  # its meaning, in the C header
    description: str = ""  # its meaning, in the HTTP schema
    # value of `include` in a request for this column over HTTP; empty for always. Files hold only the columns that are
    # always there
    include: str = ""
    null: Literal["", "nan", "-1", "inf"] = ""  # value in arrays for a null in JSON; empty for none

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
