"""Expressions of one graph rebuilt in another, with other things in place of its variables."""

from collections.abc import Callable, Mapping, Sequence

from objectives.expression import (
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
)
from objectives.expression import cos as cosine
from objectives.expression import sin as sine
from objectives.expression.folding import RULES
from objectives.expression.operation import Operation

_FUNCTIONS: Mapping[Operation, Callable[..., Scalar]] = {
    Operation.SQRT: sqrt,
    Operation.SIN: sine,
    Operation.COS: cosine,
    Operation.EXP: exp,
    Operation.LOG: log,
    Operation.ACOS: acos,
    Operation.SIGN: sign,
    Operation.STEP: step,
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
        else:
            apply = RULES.get(node.operation) or _FUNCTIONS[node.operation]
            result = apply(*(made[operand] for operand in node.operands))
        made[node] = zero + result
    return [made[output] for output in outputs]
