"""Functions of scalar expressions, in addition to Python's operators; evaluation, and derivatives by reverse mode."""

import math
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from objectives.expression.graph import (
    CONDITIONS,
    FUNCTIONS,
    Condition,
    Expression,
    Operation,
    Scalar,
    by_index,
    choose,
)


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


@lru_cache(maxsize=512)
def _program(
    outputs: tuple[Expression, ...], known: frozenset[Expression]
) -> tuple[list[Expression], Callable[..., list[npt.NDArray[np.float64]]]]:
    """Compile expressions: variables, constants and known nodes, and a function of their values."""
    leaves, lines = list[Expression](), list[str]()
    for node in reachable(outputs):
        if node in known or not node.operands:
            leaves.append(node)
        else:
            operands = ", ".join(f"t{operand.index}" for operand in node.operands)
            lines.append(f"    t{node.index} = {node.operation.name}({operands})\n")
    names, results = (", ".join(f"t{node.index}" for node in nodes) for nodes in (leaves, outputs))
    namespace: dict[str, Any] = {operation.name: function for operation, function in FUNCTIONS.items()}
    exec(f"def program({names}):\n{''.join(lines)}    return [{results}]\n", namespace)
    return leaves, namespace["program"]


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
    known = known or {}
    leaves, program = _program(tuple(outputs), frozenset(known))
    given = [
        known[node] if node in known else node.value if node.value is not None else np.asarray(values[node.name], float)
        for node in leaves
    ]
    with np.errstate(all="ignore"):
        return program(*given)


_Rule = Callable[[Expression, Scalar], tuple[Scalar, ...]]


def _divide(node: Expression, seed: Scalar) -> tuple[Scalar, ...]:
    by_numerator = seed / node.operands[1]
    return by_numerator, -(by_numerator * node)


def _minimum(node: Expression, seed: Scalar) -> tuple[Scalar, ...]:
    second = step(node.operands[0] - node.operands[1])
    return seed * (1.0 - second), seed * second


def _maximum(node: Expression, seed: Scalar) -> tuple[Scalar, ...]:
    first = step(node.operands[0] - node.operands[1])
    return seed * first, seed * (1.0 - first)


def _arc_cosine(node: Expression, seed: Scalar) -> tuple[Scalar, ...]:
    (x,) = node.operands
    return (-(seed / sqrt((1.0 - x) * (1.0 + x))),)  # 1 - x^2 would cancel near 1


def _angle(node: Expression, seed: Scalar) -> tuple[Scalar, ...]:
    y, x = node.operands
    share = seed / (x * x + y * y)
    return share * x, -(share * y)


_RULES: Mapping[Operation, _Rule] = {
    Operation.ADD: lambda node, seed: (seed, seed),
    Operation.SUBTRACT: lambda node, seed: (seed, -seed),
    Operation.MULTIPLY: lambda node, seed: (seed * node.operands[1], seed * node.operands[0]),
    Operation.DIVIDE: _divide,
    Operation.NEGATE: lambda node, seed: (-seed,),
    Operation.SQRT: lambda node, seed: (seed * 0.5 / node,),
    Operation.SIN: lambda node, seed: (seed * cos(node.operands[0]),),
    Operation.COS: lambda node, seed: (-(seed * sin(node.operands[0])),),
    Operation.EXP: lambda node, seed: (seed * node,),
    Operation.LOG: lambda node, seed: (seed / node.operands[0],),
    Operation.ACOS: _arc_cosine,
    Operation.ATAN2: _angle,
    Operation.SIGN: lambda node, seed: (0.0,),
    Operation.STEP: lambda node, seed: (0.0,),
    Operation.MINIMUM: _minimum,
    Operation.MAXIMUM: _maximum,
}


def gradient(
    output: Expression,
    variables: Sequence[Expression],
    seed: Scalar = 1.0,
    of_choices: MutableMapping[Expression, list[Expression]] | None = None,
) -> list[Expression]:
    """Give the derivatives of `seed * output` by variables of the same graph, with constant `seed`.

    The derivative by a variable that the output does not contain is the constant 0. `of_choices` has the derivatives of
    choices computed before; new derivatives are added.
    """
    of_choices = {} if of_choices is None else of_choices
    zero = output.graph.constant(0.0)
    adjoint: dict[Expression, Expression] = {output: zero + seed}
    chosen = [zero] * len(variables)
    for node in reversed(reachable([output])):
        if node not in adjoint or node.operation in (Operation.VARIABLE, Operation.CONSTANT):
            continue
        if node.operation is Operation.WHERE:
            # Each branch alone, then the choice: a sum over both branches, with seed 0 in one branch, would be NaN if
            # the derivative of this branch is not finite.
            if node not in of_choices:
                condition, *branches = node.operands
                first, second = (gradient(branch, variables, 1.0, of_choices) for branch in branches)
                pairs = zip(first, second, strict=True)
                of_choices[node] = [zero + where(Condition(condition), a, b) for a, b in pairs]
            chosen = [a + adjoint[node] * b for a, b in zip(chosen, of_choices[node], strict=True)]
            continue
        for operand, part in zip(node.operands, _RULES[node.operation](node, adjoint[node]), strict=True):
            adjoint[operand] = adjoint.get(operand, zero) + part
    return [adjoint.get(variable, zero) + part for variable, part in zip(variables, chosen, strict=True)]


def rates(outputs: Sequence[Expression], of_variables: Mapping[Expression, Scalar]) -> list[Expression]:
    """Give the rates of expressions of one graph from the rates of variables; a variable without a rate is constant."""
    zero = outputs[0].graph.constant(0.0)
    found: dict[Expression, Expression] = {}
    for node in reachable(outputs):
        rate: Scalar = of_variables.get(node, 0.0)
        if node.operation is Operation.WHERE:
            condition, a, b = node.operands
            rate = where(Condition(condition), found[a], found[b])
        elif node.operation not in CONDITIONS:
            for k, operand in enumerate(node.operands):
                if not found[operand].is_zero:
                    rate = rate + _RULES[node.operation](node, found[operand])[k]
        found[node] = zero + rate
    return [found[output] for output in outputs]
