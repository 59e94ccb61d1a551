"""Functions of packets: as exact as those of a library, not finite outside their domains, and no lane sees another."""

import math

import numpy as np
import pytest

from ik_service.compiler import Lanes
from objectives.expression import ExpressionGraph, acos, atan2, cos, exp, log, maximum, minimum, sin
from tests.compiler.conftest import WIDTHS, lanes_name
from tests.compiler.packets import evaluated

COUNT = 4000
ROUNDINGS = 3.0  # of the last place; a library has 1 at most
END = {"float32": math.log(np.finfo(np.float32).max), "float64": math.log(np.finfo(np.float64).max)}


def spread(low, high, *more):
    """Numbers of a range and near its ends, and others; as many as fill packets."""
    rng = np.random.default_rng(1)
    near = (high - low) * np.exp(rng.uniform(-14.0, 0.0, (2, COUNT)))
    numbers = np.concatenate([rng.uniform(low, high, COUNT), low + near[0], high - near[1], *more])
    return numbers[: len(numbers) // 8 * 8]


def angles(lanes):
    multiples = 0.5 * np.pi * np.arange(-20, 20)  # where a sine or cosine is small
    return spread(-6000.0, 6000.0, np.random.default_rng(2).normal(size=COUNT), multiples)


SAMPLES = {
    "sin": (sin, np.sin, angles),
    "cos": (cos, np.cos, angles),
    "exp": (exp, np.exp, lambda lanes: spread(-0.98 * END[lanes.precision], 0.999 * END[lanes.precision])),
    "log": (log, np.log, lambda lanes: np.exp(spread(-0.98 * END[lanes.precision], 0.98 * END[lanes.precision]))),
    "log near 1": (log, np.log, lambda lanes: spread(0.5, 2.0, 1.0 + np.linspace(-1e-3, 1e-3, COUNT))),
    "acos": (acos, np.arccos, lambda lanes: spread(-1.0, 1.0, np.linspace(-0.6, 0.6, COUNT))),
}


def rounded(values, lanes):
    return values.astype(lanes.precision).astype(np.float64)


def require_near(got, exact, lanes):
    """Within a few units in the last place; `exact` has more places than the lanes."""
    place = np.spacing(np.abs(exact).astype(lanes.precision)).astype(np.float64)
    assert (np.abs(got - exact) / place).max() < ROUNDINGS


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("lanes", WIDTHS, ids=lanes_name)
def test_functions_are_exact_to_a_few_roundings(lanes, name):
    function, exact, samples = SAMPLES[name]
    x = rounded(samples(lanes), lanes)
    (got,) = evaluated(lanes, [function(ExpressionGraph().variable("x"))], {"x": x})
    require_near(got, exact(x.astype(np.longdouble)), lanes)
    assert np.ptp(got) > 1.0


@pytest.mark.parametrize("lanes", WIDTHS, ids=lanes_name)
def test_the_angle_of_a_point_is_exact_to_a_few_roundings(lanes):
    rng, graph = np.random.default_rng(3), ExpressionGraph()
    y, x = rounded(rng.normal(size=(2, COUNT)) * np.exp(rng.uniform(-8.0, 8.0, (2, COUNT))), lanes)
    (got,) = evaluated(lanes, [atan2(graph.variable("y"), graph.variable("x"))], {"y": y, "x": x})
    require_near(got, np.arctan2(y.astype(np.longdouble), x.astype(np.longdouble)), lanes)
    assert np.ptp(got) > 6.0


NAN, INFINITY = np.nan, np.inf
ENDS = {
    "sin": (sin, [NAN, INFINITY, -INFINITY, 0.0], [NAN, NAN, NAN, 0.0]),
    "exp": (exp, [NAN, INFINITY, -INFINITY, 1000.0, -1000.0, 0.0], [NAN, INFINITY, 0.0, INFINITY, 0.0, 1.0]),
    "log": (log, [NAN, -1.0, -INFINITY, 0.0, INFINITY, 1.0], [NAN, NAN, NAN, -INFINITY, INFINITY, 0.0]),
    "acos": (acos, [NAN, 1.001, -1.001, INFINITY, 1.0, -1.0], [NAN, NAN, NAN, NAN, 0.0, np.pi]),
    "atan2": (lambda x: atan2(x, 0.0 * x), [NAN, 0.0, 2.0, -2.0], [NAN, 0.0, np.pi / 2, -np.pi / 2]),
    "atan2 to NaN": (lambda x: atan2(x - x, log(x)), [-1.0, math.e], [NAN, 0.0]),
    "maximum with a number": (lambda x: maximum(log(x), 0.0), [-1.0, 0.5, math.e], [NAN, 0.0, 1.0]),
    "minimum of a number": (lambda x: minimum(0.0, log(x)), [-1.0, 0.5, math.e], [NAN, -math.log(2.0), 0.0]),
    "maximum of the first": (lambda x: maximum(log(x), x), [-1.0, 0.5], [NAN, 0.5]),
    "minimum of the second": (lambda x: minimum(x, log(x)), [-1.0, 0.5], [NAN, -math.log(2.0)]),
}


@pytest.mark.parametrize("name", ENDS)
@pytest.mark.parametrize("lanes", [*WIDTHS[:2], Lanes(1)], ids=lanes_name)
def test_what_has_no_value_is_no_number_in_its_own_lane_alone(lanes, name):
    function, x, wanted = ENDS[name]
    if name == "exp":
        x = [value if np.isnan(value) or lanes.precision == "float32" else 10.0 * value for value in x]
    (got,) = evaluated(lanes, [function(ExpressionGraph().variable("x"))], {"x": np.resize(x, 24)})
    np.testing.assert_allclose(got[: len(x)], wanted, rtol=1e-6)


def test_tiny_numbers_have_logarithms():
    tiny = np.resize([1e-40, 3e-45, 2e-38], 24).astype(np.float32).astype(np.float64)
    (got,) = evaluated(Lanes(8), [log(ExpressionGraph().variable("x"))], {"x": tiny})
    np.testing.assert_allclose(got, np.log(tiny), rtol=1e-6)
