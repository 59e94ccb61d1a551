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
from objectives.expression.graph import RULES
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
    """Rebuild expressions in `graph`, one per output; what becomes constant is folded on the way."""
    # `values` stands for each variable that the outputs contain: expressions of `graph`, or numbers
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
