"""Scalar expressions: constant folding, derivatives, code generation; rows stated as expressions."""

from objectives.expression.functions import (
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
from objectives.expression.graph import Condition, Expression, ExpressionGraph, Scalar

__all__ = [
    "Condition",
    "Expression",
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
