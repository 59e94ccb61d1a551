"""Expressions evaluated as packets by native text."""

import numpy as np

from ik_service.compiler import packet, statements
from objectives.expression import acos, atan2, cos, exp, log, maximum, minimum, sign, sin, sqrt, step, where
from tests.compiler.conftest import through_native


def body(lanes, lines, returned="false"):
    return "\n".join(["{", *lanes.prologue(), "U* const s = (U*)&state;", *lines, f"return {returned};", "}"])


def evaluated(lanes, outputs, values):
    """The outputs in every lane, [outputs, n], through native text; variables stand in the state, outputs after."""
    names = {}
    lines = [f"const F {name} = s[{k}];" for k, name in enumerate(values)]
    lines += statements(lanes, outputs, names)
    lines += [f"s[{len(values) + k}] = {packet(lanes, node, names)};" for k, node in enumerate(outputs)]
    n = len(next(iter(values.values())))
    states = np.column_stack([*values.values(), np.full((n, len(outputs)), np.nan)])
    return through_native(body(lanes, lines), lanes, states)[0][:, len(values) :].T


def operations(x, y):
    """Outputs in which every operation occurs with packets, and with a number on either side."""
    positive = y * y + 1.0
    return [
        x, x + y, x + 0.5, x - y, x - 0.5, 0.5 - x, x * y, x * 0.3, -x * 0.3, x / positive, 0.7 / positive, -(x * y),
        -x, sqrt(positive), sqrt(maximum(x, 0.25)), sign(x), sign(x * y - 0.1), step(x), step(0.2 - y), minimum(x, y),
        maximum(x, y), minimum(x, 0.3), maximum(x * y, 0.0), minimum(0.25 - x, -y), maximum(step(x), y), sign(y) * x,
        abs(x), sin(x), cos(x * y), exp(y), log(positive), acos(0.45 * x), atan2(x, y), atan2(x, 0.3), atan2(1.5, y),
        where(x < y, x, 2.0), where((x <= 0.0) & (y > -1.0), y, x * y), where((x > 0.5) | (y < x), -1.0, y),
    ]  # fmt: skip
