"""Scalar expressions: plain arithmetic that is folded, derived and written as code."""

from objectives.expression.graph import (
    Expression,
    ExpressionGraph,
    Scalar,
    cos,
    evaluate,
    maximum,
    minimum,
    reachable,
    sign,
    sin,
    sqrt,
    step,
)

__all__ = [
    "Expression",
    "ExpressionGraph",
    "Scalar",
    "cos",
    "evaluate",
    "maximum",
    "minimum",
    "reachable",
    "sign",
    "sin",
    "sqrt",
    "step",
]
