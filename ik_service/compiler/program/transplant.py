"""Expressions of one graph rebuilt in another, with other things in place of its variables."""

from collections.abc import Mapping, Sequence

from objectives.expression import (
    Condition,
    Expression,
    ExpressionGraph,
    Scalar,
    acos,
    atan2,
    exp,
    log,
    maximum,
    minimum,
    reachable,
    sign,
    sqrt,
    step,
    where,
)
from objectives.expression import cos as cosine
from objectives.expression import sin as sine
from objectives.expression.operation import CONDITIONS, Operation

_UNARY = {
    Operation.SQRT: sqrt,
    Operation.SIN: sine,
    Operation.COS: cosine,
    Operation.EXP: exp,
    Operation.LOG: log,
    Operation.ACOS: acos,
    Operation.SIGN: sign,
    Operation.STEP: step,
}
_BINARY = {
    Operation.ADD: lambda a, b: a + b,
    Operation.SUBTRACT: lambda a, b: a - b,
    Operation.MULTIPLY: lambda a, b: a * b,
    Operation.DIVIDE: lambda a, b: a / b,
    Operation.ATAN2: atan2,
    Operation.MINIMUM: minimum,
    Operation.MAXIMUM: maximum,
}


def transplant(outputs: Sequence[Expression], values: Mapping[str, Scalar], graph: ExpressionGraph) -> list[Expression]:
    """Rebuild expressions with values in place of variables; what becomes constant is folded on the way.

    Args:
        outputs: Expressions of one graph.
        values: What stands for each variable that they contain: expressions of `graph`, or numbers.
        graph: Where the new expressions are made.

    Returns:
        One expression of `graph` per output.
    """
    zero = graph.constant(0.0)
    made: dict[Expression, Expression] = {}
    for node in reachable(outputs):
        if node.operation is Operation.VARIABLE:
            result: Scalar = values[node.name]
        elif node.value is not None:
            result = node.value
        elif node.operation is Operation.NEGATE:
            result = -made[node.operands[0]]
        elif node.operation in CONDITIONS:
            result = graph.condition(node.operation, *(made[operand] for operand in node.operands))
        elif node.operation is Operation.WHERE:
            condition, *branches = (made[operand] for operand in node.operands)
            result = where(Condition(condition), *branches)
        elif node.operation in _UNARY:
            result = _UNARY[node.operation](made[node.operands[0]])
        else:
            a, b = (made[operand] for operand in node.operands)
            result = _BINARY[node.operation](a, b)
        made[node] = zero + result
    return [made[output] for output in outputs]
