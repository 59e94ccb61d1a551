"""Derivatives of expressions, as expressions of the same graph, by reverse-mode differentiation."""

from collections.abc import Callable, Mapping, MutableMapping, Sequence

from objectives.expression.functions import cos, reachable, sin, sqrt, step, where
from objectives.expression.graph import Condition, Expression, Scalar
from objectives.expression.operation import Operation

_Rule = Callable[[Expression, Scalar], tuple[Scalar, ...]]


def _multiply(node: Expression, seed: Scalar) -> tuple[Scalar, ...]:
    a, b = node.operands
    return seed * b, seed * a


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
    Operation.MULTIPLY: _multiply,
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
