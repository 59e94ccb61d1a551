"""Functions of scalar expressions, in addition to Python's operators, and evaluation of expressions."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from objectives.expression.graph import Condition, Expression, Scalar, by_index, choose
from objectives.expression.operation import FUNCTIONS, Operation


def _unary(operation: Operation, x: Scalar) -> Scalar:
    value = x.value if isinstance(x, Expression) else float(x)
    if value is None:
        assert isinstance(x, Expression)
        return x.graph.apply(operation, x)
    with np.errstate(all="ignore"):
        folded = float(FUNCTIONS[operation](np.float64(value)))
    if not isinstance(x, Expression):
        return folded
    # Outside its domain a function stays in the graph: its rows are then infinite or NaN.
    return x.graph.constant(folded) if math.isfinite(folded) else x.graph.apply(operation, x)


def _extremum(operation: Operation, a: Scalar, b: Scalar) -> Scalar:
    if not isinstance(a, Expression):
        a, b = b, a
    if not isinstance(a, Expression):
        return float(FUNCTIONS[operation](a, b))
    a, b = sorted((a, a._lift(b)), key=by_index)
    if a.value is not None and b.value is not None:
        return a.graph.constant(float(FUNCTIONS[operation](a.value, b.value)))
    return a if a is b else a.graph.apply(operation, a, b)


def sqrt(x: Scalar) -> Scalar:
    """Square root; the derivative is infinite at 0, so keep the argument above 0."""
    return _unary(Operation.SQRT, x)


def sin(x: Scalar) -> Scalar:
    """Sine of an angle [rad]."""
    return _unary(Operation.SIN, x)


def cos(x: Scalar) -> Scalar:
    """Cosine of an angle [rad]."""
    return _unary(Operation.COS, x)


def exp(x: Scalar) -> Scalar:
    """Exponential function; infinite in float32 above about 88.7."""
    return _unary(Operation.EXP, x)


def log(x: Scalar) -> Scalar:
    """Natural logarithm: NaN below 0; at 0 infinite, with infinite derivative."""
    return _unary(Operation.LOG, x)


def acos(x: Scalar) -> Scalar:
    """Arc cosine, an angle from 0 to pi [rad].

    NaN outside -1 to 1, possible by rounding; the derivative -1 / sqrt(1 - x^2) is infinite at both ends. Prefer
    `atan2(sine, cosine)` of the same angle.
    """
    return _unary(Operation.ACOS, x)


def atan2(y: Scalar, x: Scalar) -> Scalar:
    """Angle of the point (x, y), from -pi to pi [rad]; 0 at the origin, with infinite derivatives."""
    one = y if isinstance(y, Expression) else x
    if not isinstance(one, Expression):
        return float(FUNCTIONS[Operation.ATAN2](y, x))
    a, b = one._lift(y), one._lift(x)
    if a.value is not None and b.value is not None:
        return one.graph.constant(float(FUNCTIONS[Operation.ATAN2](a.value, b.value)))
    return one.graph.apply(Operation.ATAN2, a, b)


def sign(x: Scalar) -> Scalar:
    """Sign: -1 for negative arguments, otherwise 1 (also at 0), with derivative 0."""
    return _unary(Operation.SIGN, x)


def step(x: Scalar) -> Scalar:
    """Step function: 1 for positive arguments, otherwise 0 (also at 0), with derivative 0."""
    return _unary(Operation.STEP, x)


def minimum(a: Scalar, b: Scalar) -> Scalar:
    """Minimum; the derivative follows the smaller argument, one argument for equal arguments."""
    return _extremum(Operation.MINIMUM, a, b)


def maximum(a: Scalar, b: Scalar) -> Scalar:
    """Maximum; the derivative follows the larger argument, one argument for equal arguments."""
    return _extremum(Operation.MAXIMUM, a, b)


def where(condition: Condition | bool, a: Scalar, b: Scalar) -> Scalar:
    """Choose `a` if a condition holds, else `b`, also for a comparison with NaN; the derivative follows the choice.

    `condition` has comparisons of expressions (`<`, `<=`, `>`, `>=`), combined by `&` and `|`; TypeError for others.
    """
    if isinstance(condition, (bool, np.bool_)):
        return a if condition else b
    if not isinstance(condition, Condition):
        raise TypeError(f"where() decides by a comparison of expressions, not by {type(condition).__name__}.")
    node = condition.node
    return choose(node, node._lift(a), node._lift(b))


def reachable(outputs: Iterable[Expression]) -> list[Expression]:
    """Give the outputs and all nodes below, operands before operations."""
    found: set[Expression] = set()
    waiting = list(outputs)
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting.extend(node.operands)
    return sorted(found, key=lambda node: node.index)


def evaluate(
    outputs: Sequence[Expression],
    values: Mapping[str, npt.ArrayLike],
    known: Mapping[Expression, npt.NDArray[Any]] | None = None,
) -> list[npt.NDArray[np.float64]]:
    """Evaluate expressions in float64, one array per output; infinite or NaN outside a function's domain.

    Args:
        outputs: Expressions of one graph.
        values: A number or an array for each needed variable; arrays broadcast.
        known: Values of further nodes, in place of their operations.
    """
    results: dict[Expression, npt.NDArray[np.float64]] = dict(known or {})
    with np.errstate(all="ignore"):
        for node in reachable(outputs):
            if node in results:
                continue
            if node.operation is Operation.VARIABLE:
                results[node] = np.asarray(values[node.name], dtype=np.float64)
            elif node.operation is Operation.CONSTANT:
                results[node] = np.asarray(node.value, dtype=np.float64)
            else:
                results[node] = FUNCTIONS[node.operation](*(results[operand] for operand in node.operands))
    return [results[output] for output in outputs]
