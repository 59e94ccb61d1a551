"""Warp kernels of a row group, generated from the statement: straight-line source, one scalar operation per line.

A thread computes the rows of one element for one instance, or of all elements of a summed group. The kernels depend on
the statement alone; a table has the references of elements (see `objectives.expression.element_table`). A hash of the
text is in the module's name: Warp compiles equal text once and finds the code in its cache afterwards.
"""

import functools
import hashlib
import textwrap
from collections.abc import Iterable, Mapping, MutableMapping, Sequence

import numpy as np
import warp as wp

from objectives.expression.functions import reachable
from objectives.expression.graph import Expression, Operation
from objectives.expression.rows import RowGroup, StatedRows, state_rows

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
    """Write the assignments of the outputs, one line of source per needed operation; float64 with `exact`.

    `names` has the variables of expressions assigned before; new ones are added, so that calls can be chained.
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


_ARGUMENTS = """\
    body_q: wp.array2d[wp.transform],
    joint_q: wp.array2d[float],
    problem_idx: wp.array[int],
    element_table: wp.array2d[int],
    frame_offsets: wp.array2d[wp.transform],
    weight: float,
    start_idx: int,
"""


def frame_column(frame: int) -> int:
    """Give the column of a frame's body in the element table; first and end index into `moving_dofs` follow."""
    return 1 + 3 * frame


def coordinate_column(group: RowGroup, coordinate: int) -> int:
    """Give the column of a coordinate in the element table; the DOF follows."""
    return frame_column(len(group.frames)) + 2 * coordinate


def quaternion_column(group: RowGroup, quaternion: int) -> int:
    """Give the column of a quaternion's first coordinate in the element table; the first DOF follows."""
    return coordinate_column(group, len(group.coordinates)) + 2 * quaternion


def data_column(group: RowGroup, field: int) -> int:
    """Give the column of a data field's first column in the element table; row weights are the last field."""
    return quaternion_column(group, len(group.quaternions)) + field


@functools.cache
def residual_kernel(group: RowGroup) -> wp.Kernel:
    """Build the kernel of the weighted rows of a group, with a backward pass for autodiff."""
    stated = state_rows(group)
    names: dict[Expression, str] = {}
    body = [*loads(group, stated), *straight_line(stated.rows, names)]
    values = [names[row] for row in stated.rows]
    if group.summed:
        totals = [f"total{k}" for k in range(len(values))]
        body += [f"{total} = {total} + {value}" for total, value in zip(totals, values, strict=True)]
        body = [*(f"{total} = float(0.0)" for total in totals), *_for_every_element(body)]
        values = totals
    body = [*_place(group), *body, *(f"residuals_out[i, row + {k}] = {value}" for k, value in enumerate(values))]
    return _build(group, "residuals", ["residuals_out: wp.array2d[float]"], body, enable_backward=True)


@functools.cache
def jacobian_kernel(group: RowGroup) -> wp.Kernel:
    """Build the kernel of the derivatives of a group's rows by DOFs, added to a zeroed Jacobian.

    The derivatives by the frames' twists are computed once, then multiplied with the motion subspace, DOF by DOF.
    """
    stated = state_rows(group)
    names: dict[Expression, str] = {}
    body, written = loads(group, stated), group.summed
    for k, derivatives in enumerate(stated.frame_derivatives):
        body += _frame_loop(k, stated, derivatives, names, add=written)
        written = True
    for k, by_coordinate in enumerate(stated.coordinate_derivatives):
        body += straight_line(by_coordinate, names)
        body.append(f"coordinate_dof{k} = element_table[e, {coordinate_column(group, k) + 1}]")
        body += _stores(by_coordinate, f"coordinate_dof{k}", names, add=written)
        written = True
    for k, by_tangent in enumerate(stated.quaternion_derivatives):
        body.append(f"tangent_dof{k} = element_table[e, {quaternion_column(group, k) + 1}]")
        for axis in range(3):
            column = [row[axis] for row in by_tangent]
            body += straight_line(column, names)
            body += _stores(column, f"tangent_dof{k} + {axis}", names, add=written)
        written = True
    body = [*_place(group), *(_for_every_element(body) if group.summed else body)]
    arguments = ["joint_S_s: wp.array2d[wp.spatial_vector]", "moving_dofs: wp.array[int]"]
    return _build(group, "jacobian", [*arguments, "jacobian_out: wp.array3d[float]"], body, enable_backward=False)


def _frame_loop(
    k: int, stated: StatedRows, derivatives: Iterable[Iterable[Expression]], names: dict[Expression, str], *, add: bool
) -> list[str]:
    """Write the loop over the DOFs that move a frame: derivatives by the twist times twist of the DOF."""
    subspace = [stated.graph.variable(f"subspace{k}_{axis}") for axis in range(6)]
    zero = stated.graph.constant(0.0)
    column = [sum((d * s for d, s in zip(row, subspace, strict=True)), start=zero) for row in derivatives]
    before = straight_line(invariant_part(column, subspace), names)
    inside = [
        f"dof{k} = moving_dofs[m{k}]",
        f"subspace{k} = joint_S_s[i, dof{k}]",
        *(f"{variable.name} = subspace{k}[{axis}]" for axis, variable in enumerate(subspace)),
        *straight_line(column, names),
        *_stores(column, f"dof{k}", names, add=add),
    ]
    begin = frame_column(k) + 1
    loop = f"for m{k} in range(element_table[e, {begin}], element_table[e, {begin + 1}]):"
    return [*before, loop, *(f"    {line}" for line in inside)]


def _stores(column: Iterable[Expression], dof: str, names: dict[Expression, str], *, add: bool) -> list[str]:
    lines = []
    for k, value in enumerate(column):
        target = f"jacobian_out[i, row + {k}, {dof}]"
        if not value.is_zero:
            lines.append(f"{target} = {f'{target} + ' if add else ''}{names[value]}")
    return lines


def _place(group: RowGroup) -> list[str]:
    """Write the lines for instance and first row of a thread."""
    thread, element = ("i, once", "0") if group.summed else ("i, e", "e")
    return [f"{thread} = wp.tid()", "problem = problem_idx[i]", f"row = start_idx + element_table[{element}, 0]"]


def _for_every_element(body: Iterable[str]) -> list[str]:
    return ["for e in range(element_table.shape[0]):", *(f"    {line}" for line in body)]


def loads(group: RowGroup, stated: StatedRows, *, exact: bool = False, weighted: bool = True) -> list[str]:
    """Write the lines that load all inputs; `exact`: configurations and poses are float64, data float32."""
    fields = [name for name, _ in group.data]
    offsets = {group.frames.index(frame): fields.index(field) for frame, field in group.offsets}
    lines: list[str] = []
    for field in offsets.values():
        lines += _data_loads(group, stated, field, exact=exact)
    for k, names in enumerate(stated.frame_names):
        lines += _frame_loads(k, names, stated.data_names[offsets[k]] if k in offsets else (), exact=exact)
    for k, name in enumerate(stated.coordinate_names):
        lines.append(f"{name} = joint_q[i, element_table[e, {coordinate_column(group, k)}]]")
    for k, names in enumerate(stated.quaternion_names):
        lines.append(f"quaternion{k} = element_table[e, {quaternion_column(group, k)}]")
        lines += [f"{name} = joint_q[i, quaternion{k} + {entry}]" for entry, name in enumerate(names)]
    lines += [f"{name} = element_constants[e, {k}]" for k, name in enumerate(stated.constant_names)]
    for field in range(len(stated.data_names) if weighted else len(fields)):
        if field not in offsets.values():
            lines += _data_loads(group, stated, field, exact=exact)
    return lines


def _data_loads(group: RowGroup, stated: StatedRows, field: int, *, exact: bool) -> list[str]:
    number = "wp.float64({})" if exact else "{}"
    return [
        f"line{field} = wp.min(problem, data{field}.shape[0] - 1)",
        f"column{field} = element_table[e, {data_column(group, field)}]",
        *(
            f"{name} = {number.format(f'data{field}[line{field}, column{field} + {entry}]')}"
            for entry, name in enumerate(stated.data_names[field])
        ),
    ]


def _frame_loads(k: int, names: Sequence[str], offset: Sequence[str], *, exact: bool) -> list[str]:
    """Write the lines of a frame in the world: T_world_body T_body_link, and T_link_frame if there is one."""
    lines = [
        f"body{k} = element_table[e, {frame_column(k)}]",
        f"link{k} = frame_offsets[e, {k}]",
        f"if body{k} >= 0:",
        f"    link{k} = wp.transform_multiply(body_q[i, body{k}], link{k})",
    ]
    frame = f"link{k}"
    if offset:
        frame = f"frame{k}"
        transform, d = ("wp.transformd", "d") if exact else ("wp.transformation", "")
        inner = f"{transform}(wp.vec3{d}({', '.join(offset[:3])}), wp.quat{d}({', '.join(offset[3:])}))"
        lines.append(f"{frame} = wp.transform_multiply(link{k}, {inner})")
    return [*lines, *(f"{name} = {frame}[{entry}]" for entry, name in enumerate(names))]


def _build(
    group: RowGroup, kind: str, arguments: Iterable[str], body: Iterable[str], *, enable_backward: bool
) -> wp.Kernel:
    """Make a kernel of generated text, in its own module with a hash of the text in the name."""
    data = [f"data{k}: wp.array2d[float]" for k in range(len(group.data) + 1)]
    if group.constants:
        data.append("element_constants: wp.array2d[float]")
    more = "".join(f"    {argument},\n" for argument in [*data, *arguments])
    name = f"{group.name}_{kind}"
    text = f"def {name}(\n{_ARGUMENTS}{more}):\n{textwrap.indent(chr(10).join(body), '    ')}\n"
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    namespace: dict[str, object] = {"wp": wp}
    exec(compile(text, f"<{name}>", "exec"), namespace)
    module = wp.get_module(f"objectives_{name}_{digest}")
    wp.set_module_options({"enable_backward": enable_backward}, module)
    return wp.Kernel(namespace[name], key=name, module=module, source=text)
