"""From expressions to statements over packets: one C++ statement per operation, several per function."""

from collections.abc import Mapping, MutableMapping, Sequence

from ik_service.compiler.code.functions import function_lines, has_function
from ik_service.compiler.code.lanes import Lanes
from objectives.expression import Expression, reachable
from objectives.expression.operation import COMPARISONS, CONDITIONS, Operation

_INFIX = {Operation.ADD: "+", Operation.SUBTRACT: "-", Operation.MULTIPLY: "*", Operation.DIVIDE: "/"}
_COMPARE = {Operation.MINIMUM: ("<", ">="), Operation.MAXIMUM: (">", "<=")}


def statements(lanes: Lanes, outputs: Sequence[Expression], names: MutableMapping[Expression, str]) -> list[str]:
    """Write the C++ statements of the outputs, expressions of one graph.

    `names` has the variables of expressions written before; new variables are added.
    """
    lines = []
    for node in reachable(outputs):
        if node in names:
            continue
        if node.value is not None:
            names[node] = lanes.number(node.value)
        elif node.operation is Operation.VARIABLE:
            names[node] = node.name
        elif has_function(node.operation):
            operands = [packet(lanes, operand, names) for operand in node.operands]
            names[node] = f"t{node.index}"
            lines += function_lines(lanes, node.operation, operands, names[node])
        elif node.operation in CONDITIONS:
            names[node] = f"t{node.index}"
            lines.append(f"const auto t{node.index} = {_condition(lanes, node, names)};")
        else:
            names[node] = f"t{node.index}"
            lines.append(f"const F t{node.index} = {_operation(lanes, node, names)};")
    return lines


def packet(lanes: Lanes, node: Expression, names: Mapping[Expression, str]) -> str:
    """Name an output as a packet, also an output folded to a number."""
    return lanes.everywhere(names[node]) if node.value is not None else names[node]


def _condition(lanes: Lanes, node: Expression, names: MutableMapping[Expression, str]) -> str:
    first, second = (packet(lanes, operand, names) for operand in node.operands)
    if node.operation in COMPARISONS:
        return f"{first} {'<' if node.operation is Operation.LESS else '<='} {second}"
    return lanes.both(first, second) if node.operation is Operation.BOTH else lanes.either(first, second)


def _operation(lanes: Lanes, node: Expression, names: MutableMapping[Expression, str]) -> str:
    operands = [names[operand] for operand in node.operands]
    if node.operation in _INFIX:
        return f"{operands[0]} {_INFIX[node.operation]} {operands[1]}"
    if node.operation is Operation.NEGATE:
        return f"-{operands[0]}"
    if node.operation is Operation.SQRT:
        return lanes.sqrt(operands[0])
    if node.operation is Operation.WHERE:
        return lanes.choose(operands[0], *(packet(lanes, operand, names) for operand in node.operands[1:]))
    one, zero = lanes.everywhere(lanes.number(1.0)), lanes.number(0.0)
    if node.operation is Operation.SIGN:
        return lanes.choose(f"{operands[0]} < {zero}", lanes.everywhere(lanes.number(-1.0)), one)
    if node.operation is Operation.STEP:
        return lanes.choose(f"{operands[0]} > {zero}", one, lanes.everywhere(zero))
    return _extremum(lanes, node, names)


def _extremum(lanes: Lanes, node: Expression, names: Mapping[Expression, str]) -> str:
    """Write the minimum or maximum of two: the second of equal numbers, NaN if one is NaN."""
    first, second = (packet(lanes, operand, names) for operand in node.operands)
    before, not_before = _COMPARE[node.operation]
    if node.operands[1].value is not None:
        return lanes.choose(f"{first} {not_before} {second}", second, first)
    if node.operands[0].value is None:
        second = lanes.choose(f"{first} == {first}", second, first)
    return lanes.choose(f"{first} {before} {packet(lanes, node.operands[1], names)}", first, second)
