"""Step of a quaternion as branch-free C++ over packets."""

from ik_service.compiler.code.lanes import Lanes
from ik_service.compiler.code.state import COMPONENTS
from ik_service.compiler.code.statements import statements
from ik_service.compiler.half_angle import END, FLOAT32_ERROR, FLOAT64_ERROR, half_angle_sinc_cosine
from objectives.expression import Expression, ExpressionGraph
from objectives.expression.frame_algebra import conjugate, dot, quaternion, quaternion_product


def rotation_step(lanes: Lanes, a: int, place: int, *, is_limited: bool, name: str = "step") -> list[str]:
    """Write statements that store the next unit quaternion exp(-step) trial at a place of the state.

    Steps are cut to half a turn. `a` is the rotation's first active DOF; `is_limited`: the rotation from the start has
    a largest angle.
    """
    graph, number = ExpressionGraph(), lanes.number
    limit = lanes.everywhere(number(END))
    lines = [
        f"const F square{a} = {number(0.25)} * "
        f"({name}{a} * {name}{a} + {name}{a + 1} * {name}{a + 1} + {name}{a + 2} * {name}{a + 2});",
        f"const F cut{a} = {lanes.choose(f'square{a} < {limit}', f'square{a}', limit)};",
        f"const F share{a} = cut{a} / (square{a} + {number(1e-30)});",
        f"const F shorter{a} = {number(-0.5)} * {lanes.sqrt(f'share{a}')};",
        f"const auto whole{a} = square{a} < {limit};",
    ]
    half = lanes.everywhere(number(-0.5))
    lines.append(f"const F length{a} = {lanes.choose(f'whole{a}', half, f'shorter{a}')};")
    error = FLOAT32_ERROR if lanes.precision == "float32" else FLOAT64_ERROR
    sinc, cosine = half_angle_sinc_cosine(graph.variable(f"cut{a}"), error)
    scaled = [sinc * graph.variable(f"length{a}") * graph.variable(f"{name}{a + k}") for k in range(3)]
    old = quaternion([graph.variable(f"trial{a}{component}") for component in COMPONENTS])
    product = quaternion_product(quaternion([*scaled, cosine]), old)
    length2 = product[0] * product[0] + product[1] * product[1] + product[2] * product[2] + product[3] * product[3]
    zero, names = graph.constant(0.0), dict[Expression, str]()
    outputs = [zero + value for value in (*product, length2)]
    block = statements(lanes, outputs, names)
    block.append(f"const F unit = {number(1.0)} / {lanes.sqrt(names[outputs[4]])};")
    block += [f"F turned{k} = {names[outputs[k]]} * unit;" for k in range(4)]
    if is_limited:
        block += ["{", *_not_too_far(lanes, a), "}"]
    block += [f"s[{place + k}] = turned{k};" for k in range(4)]
    return [*lines, "{", *block, "}"]


def _not_too_far(lanes: Lanes, a: int) -> list[str]:
    """Rotate a quaternion back to the largest angle from the start, about the same axis, if beyond."""
    graph, names = ExpressionGraph(), dict[Expression, str]()
    start = quaternion([graph.variable(f"turn{a}_{k}") for k in range(4)])
    turned = quaternion([graph.variable(f"turned{k}") for k in range(4)])
    turn = quaternion_product(turned, conjugate(start))
    sine2 = dot(turn[:3], turn[:3])
    there = [graph.constant(0.0) + value for value in (*turn, sine2)]
    lines = statements(lanes, there, names)
    most, square, number = f"turn{a}_4", names[there[4]], lanes.number
    lines.append(f"const auto over = {square} > {most} * {most};")
    lines.append(f"const F part = {most} / {lanes.sqrt(lanes.choose('over', square, lanes.everywhere(number(1.0))))};")
    lines.append(f"const F rest = {lanes.sqrt(f'({number(1.0)} - {most} * {most})')};")
    signed = lanes.choose(f"{names[there[3]]} < {number(0.0)}", "-rest", "rest")
    lines += [f"const F back{k} = {names[there[k]]} * part;" for k in range(3)]
    lines.append(f"const F back3 = {signed};")
    back = quaternion_product(quaternion([graph.variable(f"back{k}") for k in range(4)]), start)
    outputs = [graph.constant(0.0) + value for value in back]
    lines += statements(lanes, outputs, names)
    return lines + [f"turned{k} = {lanes.choose('over', names[node], f'turned{k}')};" for k, node in enumerate(outputs)]
