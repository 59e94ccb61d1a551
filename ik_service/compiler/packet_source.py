"""Expressions as straight-line source over packets: one packet operation per line, numbers kept as scalars."""

from collections.abc import MutableMapping, Sequence

from objectives.emission import constant_text
from objectives.expression import Expression, reachable
from objectives.operation import Operation

_CALLS = {
    Operation.ADD: ("p_add({}, {})", "p_add_number({}, {})", "p_add_number({1}, {0})"),
    Operation.SUBTRACT: ("p_sub({}, {})", "p_add_number({}, -({}))", "p_number_sub({}, {})"),
    Operation.MULTIPLY: ("p_mul({}, {})", "p_scale({}, {})", "p_scale({1}, {0})"),
    Operation.DIVIDE: ("p_div({}, {})", "p_scale({}, 1.0 / ({}))", "p_number_div({}, {})"),
    Operation.MINIMUM: ("p_min({}, {})", "p_min({}, P({}))", "p_min(P({}), {})"),
    Operation.MAXIMUM: ("p_max({}, {})", "p_max_number({}, {})", "p_max_number({1}, {0})"),
}
"""Source of an operation on two packets, on a packet and a number, on a number and a packet."""

_UNARY_CALLS = {
    Operation.NEGATE: "p_neg({})",
    Operation.SQRT: "p_sqrt({})",
    Operation.SIGN: "p_sign({})",
    Operation.STEP: "p_step({})",
}


def packet_lines(outputs: Sequence[Expression], names: MutableMapping[Expression, str]) -> list[str]:
    """Write the assignments that compute the outputs.

    Args:
        outputs: Expressions of one graph.
        names: Names of what has been assigned already; this call's are added. Variables go by their own names.

    Returns:
        One line of source per operation.
    """
    lines = []
    for node in reachable(outputs):
        if node in names:
            continue
        if node.value is not None:
            names[node] = constant_text(node.value)
        elif node.operation is Operation.VARIABLE:
            names[node] = node.name
        else:
            names[node] = f"t{node.index}"
            lines.append(f"{names[node]} = {_call(node, names)}")
    return lines


def _call(node: Expression, names: MutableMapping[Expression, str]) -> str:
    operands = [names[operand] for operand in node.operands]
    if node.operation in _UNARY_CALLS:
        return _UNARY_CALLS[node.operation].format(*operands)
    first, second = (operand.value is not None for operand in node.operands)
    return _CALLS[node.operation][1 if second else 2 if first else 0].format(*operands)


def packet_name(node: Expression, names: MutableMapping[Expression, str]) -> str:
    """Name of an output as a packet, also where it folded to a number."""
    return f"P({names[node]})" if node.value is not None else names[node]
