"""The rules by which a graph of expressions stays small.

Constants are folded, operations with 0 and 1 vanish, operands of sums and products stand in one order, and negations
move outwards, where a sum absorbs them as a difference.
"""

from collections.abc import Callable, Mapping
from functools import partial

from objectives.expression.node import Expression
from objectives.expression.operation import COMPARISONS, CONDITIONS, FUNCTIONS, Operation


def by_index(node: Expression) -> tuple[bool, int]:
    """Order operands: constants last, otherwise the older node first."""
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
    """Give a comparison, or two conditions combined, in its simplest form; 0 or 1 where that is known."""
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
    """Give a where a condition holds, else b, in its simplest form."""
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
"""What gives an operation in its simplest form, from its operands."""
