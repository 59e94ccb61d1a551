"""Polynomials of half angles, as good as each precision can hold."""

import numpy as np
import pytest

from ik_service.compiler import Lanes, statements
from ik_service.compiler.half_angle import (
    END,
    FLOAT32_ERROR,
    FLOAT64_ERROR,
    half_angle_sinc_cosine,
    half_angle_sine_cosine,
)
from objectives.expression import ExpressionGraph, evaluate
from objectives.expression.graph import Operation
from tests.compiler.conftest import WIDTHS, half_angle_error, lanes_name
from tests.compiler.packets import evaluated

HALF = np.linspace(-0.5 * np.pi, 0.5 * np.pi, 1600)
ROUNDING = {FLOAT32_ERROR: 1.5e-7, FLOAT64_ERROR: 2.5e-15}  # of the arithmetic in that precision besides


@pytest.mark.parametrize("error", [FLOAT32_ERROR, FLOAT64_ERROR])
def test_polynomials_are_as_good_as_they_say(error):
    """The sine over its angle is 1 at nothing; its error times up to pi / 2 is that of the sine."""
    graph, ends = ExpressionGraph(), np.array([0.0, END])
    sine, cosine = evaluate(half_angle_sine_cosine(graph.variable("half"), error), {"half": HALF})
    np.testing.assert_allclose(sine, np.sin(HALF), rtol=0.0, atol=2.0 * error)
    np.testing.assert_allclose(cosine, np.cos(HALF), rtol=0.0, atol=1.2 * error)
    assert np.abs(sine).max() > 0.99
    found = evaluate(half_angle_sinc_cosine(graph.variable("square"), error), {"square": ends})
    np.testing.assert_allclose(found, [[1.0, 2.0 / np.pi], [1.0, 0.0]], rtol=0.0, atol=1.2 * error)


@pytest.mark.parametrize("lanes", WIDTHS, ids=lanes_name)
def test_polynomials_on_packets(lanes):
    graph, half = ExpressionGraph(), HALF.astype(lanes.precision).astype(np.float64)
    error = half_angle_error(lanes)
    sine, cosine = evaluated(lanes, list(half_angle_sine_cosine(graph.variable("half"), error)), {"half": half})
    np.testing.assert_allclose(sine, np.sin(half), rtol=0.0, atol=ROUNDING[error])
    np.testing.assert_allclose(cosine, np.cos(half), rtol=0.0, atol=ROUNDING[error])


def test_single_precision_takes_fewer_operations():
    counts = {}
    for error in (FLOAT32_ERROR, FLOAT64_ERROR):
        graph = ExpressionGraph()
        counts[error] = len(statements(Lanes(8), list(half_angle_sine_cosine(graph.variable("half"), error)), {}))
        assert not any(node.operation in (Operation.SIN, Operation.COS) for node in graph.nodes)
    assert counts[FLOAT32_ERROR] < 25 < counts[FLOAT64_ERROR]
