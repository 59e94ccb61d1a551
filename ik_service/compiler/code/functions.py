"""From expressions to statements over packets of C++, and functions: sines, arc functions, exponential and logarithm.

A packet uses polynomials: the same few operations in every SIMD lane, and the same bytes on every machine of a level. A
single lane calls the library; on GPUs in float32 the fast functions (`fast_math`), whose error is absolute.

Errors are a few roundings of the precision; angles are reduced exactly up to about 10^4 rad in float32, 10^6 in
float64. Outside its domain a function is NaN, as in the library.
"""

import math
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from fractions import Fraction
from functools import cache

import numpy as np

from ik_service.compiler.code.lanes import BYTES, Lanes, Precision
from objectives.expression import Expression, reachable
from objectives.expression.graph import COMPARISONS, CONDITIONS, Operation

EXACT_PI = Fraction("3.14159265358979323846264338327950288419716939937510582097494459")
LN2 = Fraction("0.69314718055994530941723212145817656807550013436025525412068001")
TERMS = 60  # terms of a series, the reference of the fits
FIT_DEGREE_MAX = 20
NOISE = 1e-16  # rounding of the fits
NAN_TEXT, INFINITE_TEXT = '__builtin_nanf("")', "__builtin_inff()"

_LIBRARY = {
    Operation.SIN: "sin",
    Operation.COS: "cos",
    Operation.EXP: "exp",
    Operation.LOG: "log",
    Operation.ACOS: "acos",
    Operation.ATAN2: "atan2",
}

# Coefficient k of the series after the first terms, interval of the polynomial, and its largest factor there.
_SERIES: Mapping[str, tuple[Callable[[int], float], float, float, float]] = {
    "sine": (lambda k: (-1) ** (k + 1) / math.factorial(2 * k + 3), 0.0, 0.63, 0.63),
    "cosine": (lambda k: (-1) ** k / math.factorial(2 * k + 4), 0.0, 0.63, 0.63),
    "exponential": (lambda k: 1.0 / math.factorial(k + 2), -0.3467, 0.3467, 0.1203),
    "logarithm": (lambda k: 2.0 / (2 * k + 3), 0.0, 0.0296, 0.0296),
    "arc sine": (lambda k: math.comb(2 * k + 2, k + 1) / (4.0 ** (k + 1) * (2 * k + 3)), 0.0, 0.2501, 0.2501),
    "arc tangent": (lambda k: (-1) ** (k + 1) / (2 * k + 3), 0.0, 0.1717, 0.1717),
}


def function_lines(lanes: Lanes, operation: Operation, operands: Sequence[str], name: str) -> list[str]:
    """Write the statements of a function of packets; `name` is the result's variable, and a prefix of others."""
    if lanes.width == 1:
        suffix = "f" if lanes.precision == "float32" else ""
        return [f"const F {name} = {_LIBRARY[operation]}{suffix}({', '.join(operands)});"]
    steps = _Steps(lanes, name)
    written: Mapping[Operation, Callable[..., str]] = {
        Operation.SIN: steps.sine,
        Operation.COS: lambda x: steps.sine(x, quarters=1),
        Operation.EXP: steps.exponential,
        Operation.LOG: steps.logarithm,
        Operation.ACOS: steps.arc_cosine,
        Operation.ATAN2: steps.angle,
    }
    result = written[operation](*operands)
    return [*steps.lines, f"const F {name} = {result};"]


@cache
def coefficients(name: str, precision: Precision) -> tuple[float, ...]:
    """Fit the shortest polynomial with an error below an eighth of a rounding of 1; coefficients, lowest first."""
    coefficient, low, high, factor = _SERIES[name]
    exact = np.polynomial.Polynomial([coefficient(k) for k in range(TERMS)])
    u = np.linspace(low, high, 4001)
    for degree in range(FIT_DEGREE_MAX):
        fit = np.polynomial.Chebyshev.interpolate(exact, degree, [low, high])
        if np.abs(fit(u) - exact(u)).max() * factor < max(np.finfo(precision).eps / 8.0, NOISE):
            return tuple(map(float, fit.convert(kind=np.polynomial.Polynomial).coef))
    raise AssertionError(f"no polynomial up to degree {FIT_DEGREE_MAX} for {name}")


def _parts(value: Fraction, bits: Sequence[int], precision: Precision) -> list[float]:
    """Split a number into a sum: all parts but the last have few bits, so products with small integers are exact."""
    parts = []
    for count in bits:
        unit = Fraction(2) ** (math.floor(math.log2(abs(value))) - count + 1)
        part = Fraction(round(value / unit)) * unit
        parts.append(float(part))
        value -= part
    return [*parts, float(value if precision == "float64" else np.float32(float(value)))]


class _Steps:
    """Statements of one function."""

    def __init__(self, lanes: Lanes, name: str) -> None:
        self.lanes, self.name, self.lines, self.number = lanes, name, list[str](), lanes.number
        self.bits = [11, 11, 11] if lanes.precision == "float32" else [33, 33]

    def let(self, name: str, text: str) -> str:
        self.lines.append(f"const F {self.name}_{name} = {text};")
        return f"{self.name}_{name}"

    def whole(self, value: float) -> str:
        """Write a number as a packet, for a side of a choice."""
        return self.lanes.everywhere(self.number(value))

    def size(self, name: str, x: str) -> str:
        return self.let(name, self.lanes.choose(f"{x} < {self.number(0.0)}", f"-{x}", x))

    def polynomial(self, name: str, u: str) -> str:
        *lower, value = coefficients(name, self.lanes.precision)
        text = self.number(value)
        for coefficient in reversed(lower):
            text = f"({text} * {u} + {self.number(coefficient)})"
        return text if lower else self.whole(value)

    def sine(self, x: str, quarters: int = 0) -> str:
        """Write sin(x + quarters * pi / 2)."""
        lanes, number = self.lanes, self.number
        turned = self.let("turned", lanes.nearest(f"{x} * {number(float(2 / EXACT_PI))}"))
        rest = x
        for part in _parts(EXACT_PI / 2, self.bits, lanes.precision):
            rest = f"({rest} - {turned} * {number(part)})"
        rest = self.let("rest", rest)
        square = self.let("square", f"{rest} * {rest}")
        sine = self.let("sine", f"{rest} + {rest} * {square} * {self.polynomial('sine', square)}")
        bend = self.polynomial("cosine", square)
        cosine = self.let("cosine", f"{number(1.0)} - {square} * {number(0.5)} + {square} * {square} * {bend}")
        quarter = self.let("quarter", f"{turned} + {number(float(quarters))}")
        half = self.let("half", lanes.floor(f"{quarter} * {number(0.5)}"))
        is_odd = f"{quarter} - {half} * {number(2.0)} > {number(0.5)}"
        value = self.let("value", lanes.choose(is_odd, cosine, sine))
        pairs = lanes.floor(f"{half} * {number(0.5)}")
        return lanes.choose(f"{half} - {pairs} * {number(2.0)} > {number(0.5)}", f"-{value}", value)

    def exponential(self, x: str) -> str:
        """Write e^x = 2^n e^rest; 2^n has two factors, because n may be out of range for one."""
        lanes, number = self.lanes, self.number
        low, high = (-105.0, 89.0) if lanes.precision == "float32" else (-747.0, 710.0)
        above = self.let("above", lanes.choose(f"{x} < {number(low)}", self.whole(low), x))
        inside = self.let("inside", lanes.choose(f"{above} > {number(high)}", self.whole(high), above))
        power = self.let("power", lanes.nearest(f"{inside} * {number(float(1 / LN2))}"))
        rest = inside
        for part in _parts(LN2, self.bits[:1], lanes.precision):
            rest = f"({rest} - {power} * {number(part)})"
        rest = self.let("rest", rest)
        value = self.let("value", f"{rest} + {rest} * {rest} * {self.polynomial('exponential', rest)}")
        half = self.let("half", lanes.floor(f"{power} * {number(0.5)}"))
        first, second = self._power_of_two("first", half), self._power_of_two("second", f"({power} - {half})")
        return f"({number(1.0)} + {value}) * {first} * {second}"

    def _power_of_two(self, name: str, whole: str) -> str:
        """Write 2^whole: the last bits of whole + 1.5 * 2^(number of mantissa bits) are the integer `whole`."""
        kind = np.finfo(self.lanes.precision)
        shifted = self.let(f"{name}_shifted", f"{whole} + {self.number(1.5 * 2.0**kind.nmant)}")
        bits, one = self._bits("unsigned"), int(np.ones(1, kind.dtype).view(f"u{BYTES[self.lanes.precision]}")[0])
        return self.let(name, f"(F)(((({bits}){shifted}) << {kind.nmant}) + {one}u{self._long})")

    @property
    def _long(self) -> str:
        return "" if self.lanes.precision == "float32" else "ll"

    def _bits(self, sign: str) -> str:
        """Name the type of a packet of integers as wide as the floats."""
        name = f"{self.name}_{sign}"
        size, kind = self.lanes.width * BYTES[self.lanes.precision], "int" if not self._long else "long long"
        line = f"typedef {sign} {kind} {name} __attribute__((vector_size({size})));"
        if line not in self.lines:
            self.lines.append(line)
        return name

    def logarithm(self, x: str) -> str:
        """Write exponent * ln 2 + ln(1 + f), sqrt(1/2) - 1 < f < sqrt(2) - 1, s = f / (2 + f) [fdlibm, e_log.c]."""
        lanes, number, kind = self.lanes, self.number, np.finfo(self.lanes.precision)
        digits, lift = kind.nmant, kind.nmant + 2
        small = f"{x} < {number(float(kind.tiny))}"
        normal = self.let("normal", lanes.choose(small, f"{x} * {number(2.0**lift)}", x))
        start = int(np.sqrt(np.array([0.5], kind.dtype)).view(f"u{BYTES[lanes.precision]}")[0])
        unsigned, signed, end = self._bits("unsigned"), self._bits("signed"), f"u{self._long}"
        self.lines.append(f"const {unsigned} {self.name}_bits = ({unsigned}){normal} - {start}{end};")
        steps = f"__builtin_convertvector(({signed}){self.name}_bits >> {digits}, F)"
        power = self.let("power", f"{steps} - {lanes.choose(small, self.whole(float(lift)), self.whole(0.0))}")
        f = self.let("f", f"(F)(({self.name}_bits & {2**digits - 1}{end}) + {start}{end}) - {number(1.0)}")
        s = self.let("s", f"{f} / ({f} + {number(2.0)})")
        square = self.let("square", f"{s} * {s}")
        bend = self.let("bend", f"{square} * {self.polynomial('logarithm', square)}")
        first, second = _parts(LN2, self.bits[:1], lanes.precision)
        rest = f"{f} - ({s} * ({f} - {bend}) - {power} * {number(second)})"
        value = self.let("value", f"{power} * {number(first)} + ({rest})")
        finite = lanes.choose(f"{x} < {lanes.everywhere(INFINITE_TEXT)}", value, x)
        never = lanes.choose(f"{x} == {number(0.0)}", lanes.everywhere(f"-{INFINITE_TEXT}"), lanes.everywhere(NAN_TEXT))
        return lanes.choose(f"{x} > {number(0.0)}", finite, never)

    def arc_cosine(self, x: str) -> str:
        """Write acos(x) by the arc sine of x, or of sqrt((1 - |x|) / 2) for |x| > 1/2."""
        lanes, number = self.lanes, self.number
        size = self.size("size", x)
        outer = f"{size} > {number(0.5)}"
        square = self.let("square", lanes.choose(outer, f"({number(0.5)} - {size} * {number(0.5)})", f"{x} * {x}"))
        sine = self.let("sine", lanes.choose(outer, lanes.sqrt(square), size))
        arc = self.let("arc", f"{sine} + {sine} * {square} * {self.polynomial('arc sine', square)}")
        negative, first, second = f"{x} < {number(0.0)}", *self._half_turn(0.5)
        signed = self.let("signed", lanes.choose(negative, f"-{arc}", arc))
        inner = self.let("inner", f"({number(first)} - {signed}) + {number(second)}")
        back = f"(({number(2.0 * first)} - {number(2.0)} * {arc}) + {number(2.0 * second)})"
        ends = self.let("ends", lanes.choose(negative, back, f"{number(2.0)} * {arc}"))
        return lanes.choose(outer, ends, inner)

    def angle(self, y: str, x: str) -> str:
        """Write atan2(y, x): arc tangent of smaller over larger, reduced by pi / 4 for ratios above tan(pi / 8)."""
        lanes, number = self.lanes, self.number
        high, across = self.size("high", y), self.size("across", x)
        steep = f"{high} > {across}"
        least = self.let("least", lanes.choose(steep, across, high))
        most = self.let("most", lanes.choose(steep, high, across))
        wide = f"{least} > {most} * {number(math.tan(math.pi / 8))}"
        above = self.let("above", lanes.choose(wide, f"{least} - {most}", least))
        below = self.let("below", lanes.choose(wide, f"{least} + {most}", most))
        ratio = self.let("ratio", lanes.choose(f"{below} == {number(0.0)}", above, f"{above} / {below}"))  # 0 / 0 is 0
        square = self.let("square", f"{ratio} * {ratio}")
        arc = self.let("arc", f"{ratio} + {ratio} * {square} * {self.polynomial('arc tangent', square)}")
        found = self._turned("eighth", wide, 0.25, arc, "+")
        found = self._turned("quarter", steep, 0.5, found, "-")
        found = self._turned("half", f"{x} < {number(0.0)}", 1.0, found, "-")
        return lanes.choose(f"{y} < {number(0.0)}", f"-{found}", found)

    def _turned(self, name: str, condition: str, share: float, angle: str, sign: str) -> str:
        """Write share * pi plus or minus an angle if a condition holds, else the angle."""
        first, second = self._half_turn(share)
        return self.let(
            name,
            self.lanes.choose(condition, f"(({self.number(first)} {sign} {angle}) + {self.number(second)})", angle),
        )

    def _half_turn(self, share: float) -> tuple[float, float]:
        """Split share * pi into a float and its rounding error."""
        exact = EXACT_PI * Fraction(share)
        first = float(exact) if self.lanes.precision == "float64" else float(np.float32(float(exact)))
        return first, float(exact - Fraction(first))


_INFIX = {Operation.ADD: "+", Operation.SUBTRACT: "-", Operation.MULTIPLY: "*", Operation.DIVIDE: "/"}
_COMPARE = {Operation.MINIMUM: ("<", ">="), Operation.MAXIMUM: (">", "<=")}


def statements(lanes: Lanes, outputs: Sequence[Expression], names: MutableMapping[Expression, str]) -> list[str]:
    """Write the C++ statements of the outputs, expressions of one graph.

    `names` has the variables of expressions written before; new variables are added.
    """
    lines = []
    for node in reachable(outputs):
        if node in names:
            continue
        if node.value is not None:
            names[node] = lanes.number(node.value)
        elif node.operation is Operation.VARIABLE:
            names[node] = node.name
        elif node.operation in _LIBRARY:
            operands = [packet(lanes, operand, names) for operand in node.operands]
            names[node] = f"t{node.index}"
            lines += function_lines(lanes, node.operation, operands, names[node])
        elif node.operation in CONDITIONS:
            names[node] = f"t{node.index}"
            lines.append(f"const auto t{node.index} = {_condition(lanes, node, names)};")
        else:
            names[node] = f"t{node.index}"
            lines.append(f"const F t{node.index} = {_operation(lanes, node, names)};")
    return lines


def packet(lanes: Lanes, node: Expression, names: Mapping[Expression, str]) -> str:
    """Name an output as a packet, also an output folded to a number."""
    return lanes.everywhere(names[node]) if node.value is not None else names[node]


def _condition(lanes: Lanes, node: Expression, names: MutableMapping[Expression, str]) -> str:
    first, second = (packet(lanes, operand, names) for operand in node.operands)
    if node.operation in COMPARISONS:
        return f"{first} {'<' if node.operation is Operation.LESS else '<='} {second}"
    return lanes.both(first, second) if node.operation is Operation.BOTH else lanes.either(first, second)


def _operation(lanes: Lanes, node: Expression, names: MutableMapping[Expression, str]) -> str:
    operands = [names[operand] for operand in node.operands]
    if node.operation in _INFIX:
        return f"{operands[0]} {_INFIX[node.operation]} {operands[1]}"
    if node.operation is Operation.NEGATE:
        return f"-{operands[0]}"
    if node.operation is Operation.SQRT:
        return lanes.sqrt(operands[0])
    if node.operation is Operation.WHERE:
        return lanes.choose(operands[0], *(packet(lanes, operand, names) for operand in node.operands[1:]))
    one, zero = lanes.everywhere(lanes.number(1.0)), lanes.number(0.0)
    if node.operation is Operation.SIGN:
        return lanes.choose(f"{operands[0]} < {zero}", lanes.everywhere(lanes.number(-1.0)), one)
    if node.operation is Operation.STEP:
        return lanes.choose(f"{operands[0]} > {zero}", one, lanes.everywhere(zero))
    return _extremum(lanes, node, names)


def _extremum(lanes: Lanes, node: Expression, names: Mapping[Expression, str]) -> str:
    """Write the minimum or maximum of two: the second of equal numbers, NaN if one is NaN."""
    first, second = (packet(lanes, operand, names) for operand in node.operands)
    before, not_before = _COMPARE[node.operation]
    if node.operands[1].value is not None:
        return lanes.choose(f"{first} {not_before} {second}", second, first)
    if node.operands[0].value is None:
        second = lanes.choose(f"{first} == {first}", second, first)
    return lanes.choose(f"{first} {before} {packet(lanes, node.operands[1], names)}", first, second)
