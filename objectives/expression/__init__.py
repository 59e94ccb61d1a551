"""Scalar expressions: arithmetic that is folded, derived and written as code; rows stated as expressions."""

from objectives.expression.graph import (
    ExpressionGraph,
    acos,
    atan2,
    cos,
    evaluate,
    exp,
    log,
    maximum,
    minimum,
    reachable,
    sign,
    sin,
    sqrt,
    step,
    where,
)
from objectives.expression.node import Condition, Expression, ExpressionBuilder, Scalar

__all__ = [
    "Condition",
    "Expression",
    "ExpressionBuilder",
    "ExpressionGraph",
    "Scalar",
    "acos",
    "atan2",
    "cos",
    "evaluate",
    "exp",
    "log",
    "maximum",
    "minimum",
    "reachable",
    "sign",
    "sin",
    "sqrt",
    "step",
    "where",
]
