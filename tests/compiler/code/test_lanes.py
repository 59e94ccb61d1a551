"""Packets: every operation gives in every lane what NumPy gives, in both precisions and at both widths."""

import numpy as np
import pytest

from ik_service.compiler import Lanes, cpu_target, statements
from objectives.expression import ExpressionGraph, evaluate, sign, step
from objectives.expression.graph import FUNCTIONS, Operation
from tests.compiler.conftest import WIDTHS, lanes_name, through_native
from tests.compiler.packets import body, evaluated, operations

COUNT = 32
ROUNDING = {"float32": 4e-7, "float64": 8e-16}  # a few operations in a row, on numbers of about 2


def samples(lanes):
    """Pairs of numbers as the precision holds them, zeros and equal ones among them, [2, COUNT]."""
    values = np.random.default_rng(0).uniform(-2.0, 2.0, (2, COUNT))
    values[0, :3], values[1, 2:5], values[1, 7] = 0.0, 0.0, values[0, 7]
    return values.astype(lanes.precision).astype(np.float64)


@pytest.mark.parametrize("lanes", WIDTHS, ids=lanes_name)
def test_every_operation_equals_numpy(lanes):
    graph = ExpressionGraph()
    outputs = operations(graph.variable("x"), graph.variable("y"))
    x, y = samples(lanes)
    got = evaluated(lanes, outputs, {"x": x, "y": y})
    wanted = np.stack([np.broadcast_to(a, COUNT) for a in evaluate(outputs, {"x": x, "y": y})])
    np.testing.assert_allclose(got, wanted, rtol=ROUNDING[lanes.precision], atol=ROUNDING[lanes.precision])
    assert np.ptp(got, axis=1).min() > 0.1
    used = {node.operation for node in graph.nodes} - {Operation.CONSTANT, Operation.VARIABLE}
    assert used == set(FUNCTIONS)


@pytest.mark.parametrize("lanes", WIDTHS, ids=lanes_name)
def test_sign_and_step_at_zero_and_with_nan(lanes):
    graph = ExpressionGraph()
    x = graph.variable("x")
    got = evaluated(lanes, [sign(x), step(x)], {"x": np.resize([0.0, -0.0, 1e-30, -1e-30], COUNT)})
    np.testing.assert_array_equal(got[:, :4], [[1.0, 1.0, 1.0, -1.0], [0.0, 0.0, 1.0, 0.0]])
    # a choice by NaN takes its second branch; what must not happen is that another lane sees it
    x = np.resize([np.nan, -3.0, 4.0, -5.0], COUNT)
    got = evaluated(lanes, [graph.variable("x") * 2.0, sign(graph.variable("x"))], {"x": x})
    np.testing.assert_array_equal(got[0], 2.0 * x)
    np.testing.assert_array_equal(got[1, 1:4], [-1.0, 1.0, -1.0])


@pytest.mark.parametrize("lanes", WIDTHS, ids=lanes_name)
def test_outputs_that_folded_to_numbers_are_packets_too(lanes):
    graph = ExpressionGraph()
    x = graph.variable("x")
    third = graph.constant(1.0 / 3.0)
    got = evaluated(lanes, [third, x - x, x * 0.0 + 2.0, x], {"x": np.linspace(1.0, 2.0, COUNT)})
    expected = np.array([1.0 / 3.0, 0.0, 2.0]).astype(lanes.precision)
    np.testing.assert_array_equal(got[:3], np.tile(expected[:, None], COUNT))


def test_a_shared_expression_is_one_statement_and_known_names_are_kept():
    graph = ExpressionGraph()
    x, y = graph.variable("x"), graph.variable("y")
    product, names = x * y, {}
    first = statements(Lanes(1), [product + 1.0, product - x], names)
    assert sum("x * y" in line for line in first) == 1
    assert len(first) == 3
    assert statements(Lanes(1), [product * product], names) == [f"const F t{(product * product).index} = "
                                                                f"{names[product]} * {names[product]};"]  # fmt: skip
    assert statements(Lanes(1), [product, x, graph.constant(2.0)], names) == []


@pytest.mark.parametrize("lanes", WIDTHS, ids=lanes_name)
def test_conditions_are_combined_lane_by_lane(lanes):
    lines = [
        "const F x = s[0]; const F y = s[1];",
        f"const auto low = x < {lanes.number(0.0)};",
        f"const auto high = y > {lanes.number(0.0)};",
        f"s[2] = {lanes.choose(lanes.both('low', 'high'), 'x', 'y')};",
        f"s[3] = {lanes.choose(lanes.either('low', 'high'), 'x', 'y')};",
        f"s[4] = {lanes.nearest('x * ' + lanes.number(3.0))};",
    ]
    x, y = samples(lanes)
    text = body(lanes, lines, lanes.any(lanes.both("low", "high")))
    states, returned = through_native(text, lanes, np.column_stack([x, y, np.zeros((COUNT, 3))]))
    both, either = (x < 0.0) & (y > 0.0), (x < 0.0) | (y > 0.0)
    np.testing.assert_array_equal(states[:, 2], np.where(both, x, y))
    np.testing.assert_array_equal(states[:, 3], np.where(either, x, y))
    np.testing.assert_array_equal(states[:, 4], np.rint(3.0 * x))
    np.testing.assert_array_equal(returned, both.reshape(-1, lanes.width).any(axis=1))
    assert 0 < both.sum() < either.sum() < COUNT
    assert np.ptp(states[:, 4]) > 3.0


@pytest.mark.parametrize("lanes", WIDTHS, ids=lanes_name)
def test_nothing_returned_unless_some_lane_holds(lanes):
    text = body(lanes, [f"const auto high = s[0] > {lanes.number(1.0)};"], lanes.any("high"))
    one_in_the_middle = np.zeros((3 * lanes.width, 1))
    one_in_the_middle[2 * lanes.width - 1] = 2.0  # the last lane of the second group
    assert through_native(text, lanes, one_in_the_middle)[1].tolist() == [False, True, False]


def test_a_packet_of_the_target_is_filled_and_numbers_are_rounded_to_the_precision():
    size, wide = cpu_target().register, Lanes(4, "float64")
    assert Lanes.on_cpu() == Lanes(size // 4, "float32")
    assert Lanes.on_cpu("float64") == Lanes(size // 8, "float64")
    assert Lanes(8).number(0.1) == Lanes(8).number(float(np.float32(0.1)))
    assert wide.number(0.1) == "(0.1)"
    assert float(wide.number(1.0 / 3.0).strip("()")) == 1.0 / 3.0
