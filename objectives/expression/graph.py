"""Operations with their NumPy functions, and graphs of scalar expressions: nodes, and rules of simplification.

Equal expressions of a graph exist once. Constants are folded, operations with 0 and 1 vanish, operands of sums and
products are sorted, and negations move outwards until a sum absorbs them as a difference. The graph has neither vectors
nor widths: the same expressions become scalar Warp source (see `objectives.expression.kernels`) or code for SIMD
packets. A graph is built once per statement; nothing here runs in a solve.
"""

import enum
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

import numpy as np
import numpy.typing as npt


class Operation(enum.Enum):
    """Operation of a node of the graph.

    Attributes:
        SIGN: -1 for negative arguments, otherwise 1, also at zero.
        STEP: 1 for positive arguments, otherwise 0, also at zero.
        LESS: A condition, like LESS_EQUAL, BOTH and EITHER.
        WHERE: The second operand if the first, a condition, holds, else the third.
    """

    CONSTANT = "constant"
    VARIABLE = "variable"
    ADD = "add"
    SUBTRACT = "subtract"
    MULTIPLY = "multiply"
    DIVIDE = "divide"
    NEGATE = "negate"
    SQRT = "sqrt"
    SIN = "sin"
    COS = "cos"
    EXP = "exp"
    LOG = "log"
    ACOS = "acos"
    ATAN2 = "atan2"
    SIGN = "sign"
    STEP = "step"
    MINIMUM = "minimum"
    MAXIMUM = "maximum"
    LESS = "less"
    LESS_EQUAL = "less equal"
    BOTH = "both"
    EITHER = "either"
    WHERE = "where"


FUNCTIONS: Mapping[Operation, Callable[..., npt.NDArray[np.float64]]] = {
    Operation.ADD: np.add,
    Operation.SUBTRACT: np.subtract,
    Operation.MULTIPLY: np.multiply,
    Operation.DIVIDE: np.divide,
    Operation.NEGATE: np.negative,
    Operation.SQRT: np.sqrt,
    Operation.SIN: np.sin,
    Operation.COS: np.cos,
    Operation.EXP: np.exp,
    Operation.LOG: np.log,
    Operation.ACOS: np.arccos,
    Operation.ATAN2: np.arctan2,
    Operation.SIGN: lambda x: np.where(np.asarray(x) < 0.0, -1.0, 1.0),
    Operation.STEP: lambda x: np.where(np.asarray(x) > 0.0, 1.0, 0.0),
    Operation.MINIMUM: np.minimum,
    Operation.MAXIMUM: np.maximum,
    Operation.LESS: np.less,
    Operation.LESS_EQUAL: np.less_equal,
    Operation.BOTH: np.logical_and,
    Operation.EITHER: np.logical_or,
    Operation.WHERE: np.where,
}
"""NumPy functions of the operations."""

COMPARISONS = frozenset({Operation.LESS, Operation.LESS_EQUAL})
CONDITIONS = COMPARISONS | {Operation.BOTH, Operation.EITHER}  # operations with conditions as results


class Condition:
    """A comparison of expressions, or several combined by `&` and `|`, for `where`; a comparison with NaN is false."""

    __slots__ = ("node",)
    __array_ufunc__ = None

    def __init__(self, node: "Expression") -> None:
        """Take a node whose operation is a condition, or the constant 0 or 1."""
        self.node = node

    def __and__(self, other: "Condition | bool") -> "Condition":
        return self._with(Operation.BOTH, other)

    def __or__(self, other: "Condition | bool") -> "Condition":
        return self._with(Operation.EITHER, other)

    def _with(self, operation: Operation, other: "Condition | bool") -> "Condition":
        graph = self.node.graph
        if isinstance(other, (bool, np.bool_)):
            other = Condition(graph.constant(float(other)))
        if not isinstance(other, Condition):
            raise TypeError(f"A condition combines with conditions, not with {type(other).__name__}.")
        return Condition(condition(operation, self.node, other.node))

    def __bool__(self) -> bool:
        raise TypeError("A condition on expressions is no bool. Use where(condition, a, b), and & and | to combine.")

    __rand__ = __and__
    __ror__ = __or__


class Expression:
    """A node of an `ExpressionGraph`. Equal expressions of one graph are the same object."""

    __slots__ = ("graph", "index", "name", "operands", "operation", "value")
    __array_ufunc__ = None  # a NumPy number on the left must not swallow the expression into an object array

    def __init__(
        self,
        graph: "ExpressionGraph",
        operation: Operation,
        operands: tuple["Expression", ...] = (),
        value: float | None = None,
        name: str = "",
    ) -> None:
        self.graph, self.operation, self.operands = graph, operation, operands
        self.value, self.name = value, name
        self.index = len(graph.nodes)

    @property
    def is_zero(self) -> bool:
        """True for the constant 0."""
        return self.value == 0.0

    def _lift(self, other: object) -> "Expression":
        if isinstance(other, Expression):
            if other.graph is not self.graph:
                raise TypeError("Expressions of different graphs do not combine.")
            return other
        if isinstance(other, (int, float, np.floating, np.integer)):
            return self.graph.constant(float(other))
        raise TypeError(f"An expression combines with expressions and numbers, not with {type(other).__name__}.")

    def __add__(self, other: "Scalar") -> "Expression":
        return add(self, self._lift(other))

    def __sub__(self, other: "Scalar") -> "Expression":
        return subtract(self, self._lift(other))

    def __rsub__(self, other: float) -> "Expression":
        return subtract(self._lift(other), self)

    def __mul__(self, other: "Scalar") -> "Expression":
        return multiply(self, self._lift(other))

    def __truediv__(self, other: "Scalar") -> "Expression":
        return divide(self, self._lift(other))

    def __rtruediv__(self, other: float) -> "Expression":
        return divide(self._lift(other), self)

    def __neg__(self) -> "Expression":
        return negate(self)

    def __abs__(self) -> "Expression":
        """Absolute value; its derivative at 0 is 1."""
        if self.value is not None:
            return self.graph.constant(abs(self.value))
        return multiply(self.graph.apply(Operation.SIGN, self), self)

    def __lt__(self, other: "Scalar") -> Condition:
        return Condition(condition(Operation.LESS, self, self._lift(other)))

    def __le__(self, other: "Scalar") -> Condition:
        return Condition(condition(Operation.LESS_EQUAL, self, self._lift(other)))

    def __gt__(self, other: "Scalar") -> Condition:
        return Condition(condition(Operation.LESS, self._lift(other), self))

    def __ge__(self, other: "Scalar") -> Condition:
        return Condition(condition(Operation.LESS_EQUAL, self._lift(other), self))

    __radd__ = __add__
    __rmul__ = __mul__


Scalar: TypeAlias = Expression | float  # operand of a statement


class ExpressionGraph:
    """Nodes of one program in the order of creation: operands before operations."""

    def __init__(self) -> None:
        self.nodes: list[Expression] = []
        self._known: dict[tuple[object, ...], Expression] = {}

    def variable(self, name: str) -> Expression:
        """Give the variable of a name, a Python identifier."""
        return self._node(("variable", name), Operation.VARIABLE, (), None, name)

    def constant(self, value: float) -> Expression:
        """Give a number as an expression, in float64 until emission; ValueError if not finite."""
        if not math.isfinite(value):
            raise ValueError(f"A constant of an expression must be finite, not {value}.")
        value = value + 0.0  # -0.0 becomes 0.0, so that both are one node
        return self._node(("constant", value), Operation.CONSTANT, (), value)

    def apply(self, operation: Operation, *operands: Expression) -> Expression:
        """Give the node of an operation without simplification."""
        return self._node((operation, *(node.index for node in operands)), operation, operands)

    def find(self, operation: Operation, *operands: Expression) -> Expression | None:
        """Give the existing node of an operation, or None."""
        return self._known.get((operation, *(node.index for node in operands)))

    def _node(
        self,
        key: tuple[object, ...],
        operation: Operation,
        operands: tuple[Expression, ...],
        value: float | None = None,
        name: str = "",
    ) -> Expression:
        node = self._known.get(key)
        if node is None:
            node = self._known[key] = Expression(self, operation, operands, value, name)
            self.nodes.append(node)
        return node


def by_index(node: Expression) -> tuple[bool, int]:
    """Sort operands: constants last, otherwise the older node first."""
    return node.value is not None, node.index


def _negated(node: Expression) -> Expression | None:
    return node.operands[0] if node.operation is Operation.NEGATE else None


def negate(a: Expression) -> Expression:
    """Give -a in its simplest form."""
    if a.value is not None:
        return a.graph.constant(-a.value)
    return _negated(a) or a.graph.apply(Operation.NEGATE, a)


def add(a: Expression, b: Expression) -> Expression:
    """Give a + b in its simplest form."""
    a, b = sorted((a, b), key=by_index)
    if b.value is not None:
        return _add_constant(a, b.value)
    minus_a, minus_b = _negated(a), _negated(b)
    if minus_a and minus_b:
        return -(minus_a + minus_b)
    if minus_a:
        return b - minus_a
    if minus_b:
        return a - minus_b
    return a.graph.apply(Operation.ADD, a, b)


def _add_constant(a: Expression, value: float) -> Expression:
    if a.value is not None:
        return a.graph.constant(a.value + value)
    if value == 0.0:
        return a
    if a.operation is Operation.ADD and a.operands[1].value is not None:
        return _add_constant(a.operands[0], a.operands[1].value + value)
    if minus_a := _negated(a):
        return a.graph.apply(Operation.SUBTRACT, a.graph.constant(value), minus_a)
    return a.graph.apply(Operation.ADD, a, a.graph.constant(value))


def subtract(a: Expression, b: Expression) -> Expression:
    """Give a - b in its simplest form."""
    if a is b:
        return a.graph.constant(0.0)
    minus_a, minus_b = _negated(a), _negated(b)
    if b.value is not None:
        return a + -b.value
    if a.is_zero:
        return -b
    if minus_b:
        return a + minus_b
    if minus_a:
        return -(minus_a + b)
    if opposite := a.graph.find(Operation.SUBTRACT, b, a):
        return -opposite
    return a.graph.apply(Operation.SUBTRACT, a, b)


def multiply(a: Expression, b: Expression) -> Expression:
    """Give a b in its simplest form."""
    a, b = sorted((a, b), key=by_index)
    minus_a, minus_b = _negated(a), _negated(b)
    if minus_a:
        return -(minus_a * b)
    if minus_b:
        return -(a * minus_b)
    return a.graph.apply(Operation.MULTIPLY, a, b) if b.value is None else _scale(a, b.value)


def _scale(a: Expression, factor: float) -> Expression:
    if a.value is not None:
        return a.graph.constant(a.value * factor)
    if factor == 0.0:
        return a.graph.constant(0.0)
    if factor < 0.0:
        return -_scale(a, -factor)
    if factor == 1.0:
        return a
    if a.operation is Operation.MULTIPLY and a.operands[1].value is not None:
        return _scale(a.operands[0], a.operands[1].value * factor)
    return a.graph.apply(Operation.MULTIPLY, a, a.graph.constant(factor))


def divide(a: Expression, b: Expression) -> Expression:
    """Give a / b in its simplest form."""
    if b.value is not None:
        return a * (1.0 / b.value)
    if a.is_zero:
        return a
    if a is b:
        return a.graph.constant(1.0)
    minus_a, minus_b = _negated(a), _negated(b)
    if minus_a:
        return -(minus_a / b)
    if minus_b:
        return -(a / minus_b)
    if a.value is not None and a.value < 0.0:
        return -(-a / b)
    return a.graph.apply(Operation.DIVIDE, a, b)


def condition(operation: Operation, a: Expression, b: Expression) -> Expression:
    """Give a comparison, or two conditions combined, in its simplest form; the constant 0 or 1 if known."""
    if operation in COMPARISONS:
        if a.value is not None and b.value is not None:
            return a.graph.constant(float(FUNCTIONS[operation](a.value, b.value)))
        return a.graph.apply(operation, a, b)
    a, b = sorted((a, b), key=by_index)
    if b.value is not None:
        decides = (b.value != 0.0) == (operation is Operation.EITHER)
        return b if decides else a
    return a if a is b else a.graph.apply(operation, a, b)


def choose(condition: Expression, a: Expression, b: Expression) -> Expression:
    """Give (condition ? a : b) in its simplest form."""
    if condition.value is not None:
        return a if condition.value != 0.0 else b
    return a if a is b else a.graph.apply(Operation.WHERE, condition, a, b)


RULES: Mapping[Operation, Callable[..., Expression]] = {
    Operation.ADD: add,
    Operation.SUBTRACT: subtract,
    Operation.MULTIPLY: multiply,
    Operation.DIVIDE: divide,
    Operation.NEGATE: negate,
    Operation.WHERE: choose,
    **{operation: partial(condition, operation) for operation in CONDITIONS},
}
"""Functions of operands that give an operation in its simplest form."""
