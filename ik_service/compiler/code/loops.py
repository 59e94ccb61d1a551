"""Text of a loop over similar rows: its terms of |r|^2, J'r and J'J, in packets.

for each kind: frames of the bodies, and expressions that depend on these frames only
    for each element: rows r and their derivatives u by the twists -> sums of r^2, u r and u u'
    columns M, the twists of the frames by DOFs -> J'r += M'(sum of u r), J'J += M'(sum of u u') M
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from ik_service.compiler.code.functions import packet, statements
from ik_service.compiler.code.lanes import Lanes
from ik_service.compiler.island_program import RowLoop
from objectives.expression import Expression, reachable
from objectives.expression.kernels import invariant_part

TWIST = 6


def loop_lines(
    lanes: Lanes, loop: RowLoop, dof_count: int, names: Mapping[Expression, str], read: Callable[[str], str]
) -> list[str]:
    """Write the statements of a loop's variables; `read` writes an input of the loop from the text of its index."""
    g, h = f"{loop.name}_g", f"{loop.name}_h"
    lines = [f"F {loop.norm2} = F{{}};", f"F {g}[{dof_count}] = {{}};"]
    lines += [f"F {h}[{dof_count * (dof_count + 1) // 2}] = {{}};", f"F {loop.error2} = F{{}};", "{"]
    lines += _tables(lanes, loop)
    for name, vectors in (("frames", loop.frames), ("twists", loop.twists)):
        rows = ", ".join(f"{{{', '.join(packet(lanes, x, names) for x in one)}}}" for one in vectors)
        lines.append(f"const F {name}[{len(vectors)}][{len(vectors[0])}] = {{{rows}}};")
    lines += [
        f"for (int k = 0; k < {len(loop.kinds)}; ++k) {{",
        *_kind(lanes, loop, read),
        *(_spread(lanes, loop, g, h) if _live(loop) else ()),
        "}",
    ]
    lines.append("}")
    places = sorted({place for kind in loop.kinds for place in kind.columns})
    lines += [f"const F {loop.gradient(a)} = {g}[{a}];" for a in places]
    pairs = ((a, b) for a in places for b in places if b <= a and loop.hessian(a, b))
    return lines + [f"const F {loop.hessian(a, b)} = {h}[{a * (a + 1) // 2 + b}];" for a, b in pairs]


def _tables(lanes: Lanes, loop: RowLoop) -> list[str]:
    """Write tables: numbers of the elements; frames of each kind, and starts of each kind's lists."""
    starts, columns, entries = [0, 0], list[int](), list[tuple[int, int, int, float]]()
    kinds = []
    for kind in loop.kinds:
        kinds.append([*kind.frames, kind.first, *starts])
        columns += kind.columns
        entries += kind.entries
        starts = [len(columns), len(entries)]
    kinds.append([*(0 for _ in loop.kinds[0].frames), loop.count, *starts])
    scalar = "float" if lanes.precision == "float32" else "double"
    lines = [_table("int", "kinds", kinds), _table("int", "columns", [columns])]
    lines.append(_table("int", "entries", [list(entry[:3]) for entry in entries]))
    lines.append(_table(scalar, "factors", [[lanes.number(entry[3]) for entry in entries]]))
    if loop.table:
        lines.append(_table(scalar, "numbers", [[lanes.number(x) for x in own] for own in loop.table]))
    return lines


def _table(kind: str, name: str, rows: Sequence[Sequence[object]]) -> str:
    text = ", ".join(f"{{{', '.join(map(str, row))}}}" for row in rows)
    return f"static const {kind} {name}[{len(rows)}][{len(rows[0])}] = {{{text}}};"


def _kind(lanes: Lanes, loop: RowLoop, read: Callable[[str], str]) -> list[str]:
    frames = len(loop.kinds[0].frames)
    outputs = [*loop.rows, *(part for row in loop.parts for part in row), *loop.shares2]
    per_element = [
        node for node in reachable(outputs) if node.name.startswith((f"{loop.name}_number", f"{loop.name}_input"))
    ]
    names: dict[Expression, str] = {}
    lines = [f"const F {loop.name}_frame{f}_{i} = frames[kinds[k][{f}]][{i}];" for f in range(frames) for i in range(7)]
    lines += statements(lanes, invariant_part(outputs, per_element), names)
    lines += [f"F b{i} = F{{}};" for i in _live(loop)]
    lines += [f"F a{i}_{j} = F{{}};" for i, j in _pairs(loop)]
    lines.append(f"for (int e = kinds[k][{frames}]; e < kinds[k + 1][{frames}]; ++e) {{")
    stride = len(loop.inputs) // loop.count
    for node in per_element:
        number = int(node.name.removeprefix(f"{loop.name}_number").removeprefix(f"{loop.name}_input"))
        value = read(f"e * {stride} + {number}") if "input" in node.name else f"F{{}} + numbers[e][{number}]"
        lines.append(f"const F {node.name} = {value};")
    lines += statements(lanes, outputs, names)
    for row, parts in zip(loop.rows, loop.parts, strict=True):
        r = packet(lanes, row, names)
        lines.append(f"{loop.norm2} = {loop.norm2} + {r} * {r};")
        if not (live := _live(loop, [parts])):
            continue
        squares = " + ".join(f"{names[parts[i]]} * {names[parts[i]]}" for i in live)
        lines.append(f"if ({lanes.any(f'{squares} != {lanes.number(0.0)}')}) {{")
        lines += [f"b{i} = b{i} + {names[parts[i]]} * {r};" for i in live]
        lines += [f"a{i}_{j} = a{i}_{j} + {names[parts[i]]} * {names[parts[j]]};" for i, j in _pairs(loop, [parts])]
        lines.append("}")
    for share in loop.shares2:
        larger = lanes.choose(
            f"{packet(lanes, share, names)} > {loop.error2}", packet(lanes, share, names), loop.error2
        )
        lines.append(f"{loop.error2} = {larger};")
    return [*lines, "}"]


def _live(loop: RowLoop, rows: Iterable[Sequence[Expression]] | None = None) -> list[int]:
    """Give the indices of parts that are not zero in all rows."""
    rows = loop.parts if rows is None else list(rows)
    return [i for i in range(len(loop.parts[0])) if any(not row[i].is_zero for row in rows)]


def _pairs(loop: RowLoop, rows: Iterable[Sequence[Expression]] | None = None) -> list[tuple[int, int]]:
    """Give pairs of parts whose product is not zero in all rows, the later first."""
    rows = loop.parts if rows is None else list(rows)
    live = _live(loop, rows)
    return [
        (i, j) for i in live for j in live if j <= i and any(not (row[i].is_zero or row[j].is_zero) for row in rows)
    ]


def _twist(loop: RowLoop) -> list[str]:
    """Write the parts of a twist at the kind's origin."""
    parts = [f"twist[{i}]" for i in range(TWIST)]
    if loop.is_relative:  # v + w x p
        p = [f"{loop.name}_frame0_{i}" for i in range(3)]
        for i, (j, k) in enumerate(((1, 2), (2, 0), (0, 1))):
            parts[i] = f"({parts[i]} + twist[{3 + j}] * {p[k]} - twist[{3 + k}] * {p[j]})"
    return parts


def _spread(lanes: Lanes, loop: RowLoop, g: str, h: str) -> list[str]:
    """Write the statements that add the sums of a kind to J'r and J'J of its DOFs."""
    width, frames = len(loop.parts[0]), len(loop.kinds[0].frames)
    most = max(len(kind.columns) for kind in loop.kinds)
    columns, entries = frames + 1, frames + 2  # of the table of kinds
    live, pairs = _live(loop), set(_pairs(loop))
    product = {i: [j for j in live if (max(i, j), min(i, j)) in pairs] for i in live}
    weighted = {i: " + ".join(f"a{max(i, j)}_{min(i, j)} * m[c][{j}]" for j in product[i]) for i in live}
    squares = " + ".join(f"a{i}_{i}" for i in live)
    return [
        f"if (!{lanes.any(f'{squares} != {lanes.number(0.0)}')}) continue;",
        f"F m[{most}][{width}];",
        f"const int first = kinds[k][{columns}], count = kinds[k + 1][{columns}] - first;",
        f"for (int c = 0; c < count; ++c) for (int i = 0; i < {width}; ++i) m[c][i] = F{{}};",
        f"for (int n = kinds[k][{entries}]; n < kinds[k + 1][{entries}]; ++n) {{",
        "const F* const twist = twists[entries[n][2]];",
        "F* const one = m[entries[n][0]] + entries[n][1];",
        *(f"one[{i}] = one[{i}] + {part} * factors[0][n];" for i, part in enumerate(_twist(loop))),
        "}",
        "for (int c = 0; c < count; ++c) {",
        "const int place = columns[0][first + c];",
        f"{g}[place] = {g}[place] + {' + '.join(f'm[c][{i}] * b{i}' for i in live)};",
        *(f"const F w{i} = {weighted[i]};" for i in live),
        "for (int d = 0; d <= c; ++d) {",
        "const int other = columns[0][first + d], high = place > other ? place : other, low = place + other - high;",
        f"F& entry = {h}[high * (high + 1) / 2 + low];",
        f"entry = entry + {' + '.join(f'm[d][{i}] * w{i}' for i in live)};",
        "}",
        "}",
    ]
