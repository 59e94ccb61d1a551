"""A node of a graph of scalar expressions, and what it needs of the graph that made it."""

from typing import Protocol, TypeAlias

import numpy as np

from objectives.expression.operation import Operation


class ExpressionBuilder(Protocol):
    """What makes the nodes of one graph; each method gives the node that is there already or makes it."""

    nodes: "list[Expression]"

    def constant(self, value: float) -> "Expression":
        """Give a number as an expression."""

    def apply(self, operation: Operation, *operands: "Expression") -> "Expression":
        """Give the node of an operation as it stands, without simplification."""

    def find(self, operation: Operation, *operands: "Expression") -> "Expression | None":
        """Give the node of an operation if it exists already."""

    def fold(self, operation: Operation, *operands: "Expression") -> "Expression":
        """Give an operation of `folding.RULES` in its simplest form."""


class Condition:
    """A comparison of expressions, or several of them combined by `&` and `|`; what `where` decides by.

    A comparison with a number that is not one (NaN) does not hold.
    """

    __slots__ = ("node",)
    __array_ufunc__ = None

    def __init__(self, node: "Expression") -> None:
        """Take a node whose operation gives a condition, or the number 0 or 1; only comparisons do that."""
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
        return Condition(graph.fold(operation, self.node, other.node))

    def __bool__(self) -> bool:
        """Refuse: whether it holds is not known before the rows are computed."""
        raise TypeError("A condition on expressions is no bool. Use where(condition, a, b), and & and | to combine.")

    __rand__ = __and__
    __ror__ = __or__


class Expression:
    """A node of an `ExpressionGraph`. Equal expressions of one graph are the same object."""

    __slots__ = ("graph", "index", "name", "operands", "operation", "value")
    __array_ufunc__ = None  # a NumPy number on the left must not swallow the expression into an object array

    def __init__(
        self,
        graph: "ExpressionBuilder",
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
        """Whether this is the constant 0."""
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
        return self.graph.fold(Operation.ADD, self, self._lift(other))

    def __sub__(self, other: "Scalar") -> "Expression":
        return self.graph.fold(Operation.SUBTRACT, self, self._lift(other))

    def __rsub__(self, other: float) -> "Expression":
        return self.graph.fold(Operation.SUBTRACT, self._lift(other), self)

    def __mul__(self, other: "Scalar") -> "Expression":
        return self.graph.fold(Operation.MULTIPLY, self, self._lift(other))

    def __truediv__(self, other: "Scalar") -> "Expression":
        return self.graph.fold(Operation.DIVIDE, self, self._lift(other))

    def __rtruediv__(self, other: float) -> "Expression":
        return self.graph.fold(Operation.DIVIDE, self._lift(other), self)

    def __neg__(self) -> "Expression":
        return self.graph.fold(Operation.NEGATE, self)

    def __abs__(self) -> "Expression":
        """Absolute value; its derivative at 0 is 1."""
        if self.value is not None:
            return self.graph.constant(abs(self.value))
        return self.graph.fold(Operation.MULTIPLY, self.graph.apply(Operation.SIGN, self), self)

    def __lt__(self, other: "Scalar") -> Condition:
        return Condition(self.graph.fold(Operation.LESS, self, self._lift(other)))

    def __le__(self, other: "Scalar") -> Condition:
        return Condition(self.graph.fold(Operation.LESS_EQUAL, self, self._lift(other)))

    def __gt__(self, other: "Scalar") -> Condition:
        return Condition(self.graph.fold(Operation.LESS, self._lift(other), self))

    def __ge__(self, other: "Scalar") -> Condition:
        return Condition(self.graph.fold(Operation.LESS_EQUAL, self._lift(other), self))

    __radd__ = __add__
    __rmul__ = __mul__


Scalar: TypeAlias = Expression | float
"""What a statement computes with."""
