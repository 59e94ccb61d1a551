"""C++ of a tick over packets: common definitions in front of every function's own statements.

A packet `F` holds one number for each of several robots (`ik_service.compiler.code.lanes`); `s` is the state of the
packet. `gather` reads a column of an array for the robots of the packet, `scatter` writes a column. Idle lanes repeat
the last robot, and write the same values.
"""

from collections.abc import Mapping, Sequence

from ik_service.compiler import Lanes
from ik_service.template_files import TemplateFolder

MAY_GAIN = "(s[NORM2] > s[FLOOR2]) & (s[DAMPING_FACTOR] <= FACTOR_MAX)"
"""True if another iteration may help a robot of the packet."""
FRAGMENTS = TemplateFolder("ik_service.control.tick")


def fragments(*names: str) -> list[str]:
    """Return C++ statements from the folder of templates."""
    words = {"may_gain": MAY_GAIN}
    return [f"\n{FRAGMENTS.filled(f'{name}.cpp', words)}\n" for name in names]


class PacketText:
    """Writer of functions (state, lanes, task, first, ...); `first` is the packet's first robot."""

    def __init__(self, lanes: Lanes, numbers: Mapping[str, float], tables: Mapping[str, Sequence[int]]) -> None:
        self._lanes = lanes
        whole = ", ".join(f"{name} = {value}" for name, value in numbers.items() if isinstance(value, int))
        self._constants = [f"enum {{ {whole} }};"]
        self._constants += [
            f"const Real {name} = {value!r};" for name, value in numbers.items() if isinstance(value, float)
        ]
        for name, values in tables.items():
            self._constants.append(f"static const int {name}[] = {{{', '.join(map(str, [*values, 0]))}}};")

    def function(self, *bodies: str) -> str:
        """Return a function's body for Warp: common definitions, then these statements."""
        return "\n".join(["", "{", *self.arithmetic(), *self._robots(), *bodies, "}", ""])

    def arithmetic(self) -> list[str]:
        """Give types, constants and functions of packets that need no robots."""
        lanes = self._lanes
        return [
            *lanes.prologue(),
            "typedef double Real;",
            *self._constants,
            "const F zero = F{};",
            f"const F infinite = {lanes.everywhere('INFINITY')};",
            "const auto larger = [](F a, F b) { return a > b ? a : b; };",
            "const auto smaller = [](F a, F b) { return a < b ? a : b; };",
            "const auto absolute = [](F a) { return a > -a ? a : -a; };",
            f"const auto square_root = [](F a) {{ return {lanes.sqrt('a')}; }};",
            f"const auto round_down = [](F a) {{ return {lanes.floor('a')}; }};",
            f"const auto any = [](auto condition) {{ return {lanes.any('condition')}; }};",
        ]

    def _robots(self) -> list[str]:
        width = range(self._lanes.width)
        rows = [f"const int row{k} = first + ({k} < lanes ? {k} : lanes - 1);" for k in width]
        read = ", ".join(f"(Real)*wp::address(array, row{k}, column)" for k in width)
        numbers = ", ".join(f"number(row{k})" for k in width)
        sines = ", ".join(f"::asin({self._lane('a', k)})" for k in width)
        write = " ".join(
            f"if ({self._lane('where', k)}) *wp::address(array, row{k}, column) = {self._lane('values', k)};"
            for k in width
        )
        return [
            "U* const s = (U*)&state;",
            *rows,
            f"const auto gather = [&](const auto& array, int column) {{ return F{{{read}}}; }};",
            f"const auto each = [&](const auto& number) {{ return F{{{numbers}}}; }};",
            f"const auto arc_sine = [](F a) {{ return F{{{sines}}}; }};",
            "const auto scatter_where = [&](auto where, auto& array, int column, F values) { " + write + " };",
            "const auto everywhere = zero == zero;",
            "const auto scatter = [&](auto& array, int column, F values)"
            " { scatter_where(everywhere, array, column, values); };",
        ]

    def _lane(self, name: str, lane: int) -> str:
        return f"{name}[{lane}]" if self._lanes.width > 1 else name
