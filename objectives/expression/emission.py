"""Emission of expressions as straight-line Warp source, one scalar operation per line."""

from collections.abc import Iterable, Mapping, MutableMapping, Sequence

import numpy as np

from objectives.expression.functions import reachable
from objectives.expression.graph import Expression
from objectives.expression.operation import Operation

_TEXT: Mapping[Operation, str] = {
    Operation.ADD: "{} + {}",
    Operation.SUBTRACT: "{} - {}",
    Operation.MULTIPLY: "{} * {}",
    Operation.DIVIDE: "{} / {}",
    Operation.NEGATE: "-{}",
    Operation.SQRT: "wp.sqrt({})",
    Operation.SIN: "wp.sin({})",
    Operation.COS: "wp.cos({})",
    Operation.EXP: "wp.exp({})",
    Operation.LOG: "wp.log({})",
    Operation.ACOS: "wp.where(wp.abs({0}) <= {one}, wp.acos({0}), {nan})",  # Warp's own clamps what it is given
    Operation.ATAN2: "wp.atan2({}, {})",
    Operation.SIGN: "wp.where({} < {zero}, -{one}, {one})",
    Operation.STEP: "wp.where({} > {zero}, {one}, {zero})",
    Operation.MINIMUM: "wp.where({0} < {1}, {0}, wp.where({0} == {0}, {1}, {0}))",  # Warp's own lose NaN
    Operation.MAXIMUM: "wp.where({0} > {1}, {0}, wp.where({0} == {0}, {1}, {0}))",
    Operation.LESS: "{} < {}",
    Operation.LESS_EQUAL: "{} <= {}",
    Operation.BOTH: "{} and {}",
    Operation.EITHER: "{} or {}",
    Operation.WHERE: "wp.where({}, {}, {})",
}


def _single(value: float) -> str:
    """Write the float32 rounding of a number as a literal: equal roundings have equal text."""
    text = repr(float(np.float32(value)))
    return f"({text})" if value < 0.0 else text


def _double(value: float) -> str:
    return f"wp.float64({value!r})"


_LITERALS: Mapping[bool, Mapping[str, str]] = {
    False: {"zero": "0.0", "one": "1.0", "nan": "wp.nan"},
    True: {"zero": _double(0.0), "one": _double(1.0), "nan": "wp.float64(wp.nan)"},
}


def straight_line(
    outputs: Sequence[Expression], names: MutableMapping[Expression, str], *, exact: bool = False
) -> list[str]:
    """Write the assignments of the outputs, one line of source per needed operation.

    Args:
        outputs: Expressions of one graph.
        names: Variables of expressions assigned before; new assignments are added, so that calls can be chained.
        exact: Whether variables and numbers are float64; otherwise float32.
    """
    lines = []
    for node in reachable(outputs):
        if node in names:
            continue
        if node.value is not None:
            names[node] = _double(node.value) if exact else _single(node.value)
        elif node.operation is Operation.VARIABLE:
            names[node] = node.name
        else:
            names[node] = f"t{node.index}"
            operands = (names[operand] for operand in node.operands)
            lines.append(f"{names[node]} = {_TEXT[node.operation].format(*operands, **_LITERALS[exact])}")
    return lines


def invariant_part(outputs: Iterable[Expression], loop_variables: Iterable[Expression]) -> list[Expression]:
    """Give the loop-invariant operands of the outputs, in a loop over values of `loop_variables`.

    Emit these operands before the loop, and the outputs inside the loop.
    """
    outputs = list(outputs)
    varying = set(loop_variables)
    outside: list[Expression] = []
    for node in reachable(outputs):
        if any(operand in varying for operand in node.operands):
            varying.add(node)
    for node in reachable(outputs):
        if node not in varying:
            continue
        outside.extend(operand for operand in node.operands if operand not in varying and operand not in outside)
    return outside + [node for node in outputs if node not in varying and node not in outside]
