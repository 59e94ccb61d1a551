"""Scalar expressions: plain arithmetic that is folded, derived and written as code."""

from objectives.expression.graph import (
    ExpressionGraph,
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
from objectives.expression.node import Expression, ExpressionBuilder, Scalar

__all__ = [
    "Expression",
    "ExpressionBuilder",
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
