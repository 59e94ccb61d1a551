"""Expressions of one graph rebuilt in another graph, with expressions or numbers in place of variables."""

from collections.abc import Mapping, Sequence

from objectives.expression import Expression, ExpressionGraph, Scalar, functions, reachable
from objectives.expression.graph import RULES
from objectives.expression.operation import Operation


def transplant(outputs: Sequence[Expression], values: Mapping[str, Scalar], graph: ExpressionGraph) -> list[Expression]:
    """Rebuild expressions in `graph`, one per output, with constants folded.

    `values` has an expression of `graph` or a number for each variable.
    """
    zero = graph.constant(0.0)
    made: dict[Expression, Expression] = {}
    for node in reachable(outputs):
        if node.operation is Operation.VARIABLE:
            result: Scalar = values[node.name]
        elif node.value is not None:
            result = node.value
        else:
            apply = RULES.get(node.operation) or getattr(functions, node.operation.value)  # named like the operation
            result = apply(*(made[operand] for operand in node.operands))
        made[node] = zero + result
    return [made[output] for output in outputs]
