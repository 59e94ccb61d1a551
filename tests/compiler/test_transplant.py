"""Expressions rebuilt in another graph: equal, folded where values are constant, and the other graph untouched."""

import numpy as np
import pytest

from ik_service.compiler.applied_rows import transplant
from objectives.expression import ExpressionGraph, evaluate
from objectives.expression.graph import Operation
from tests.compiler.packets import operations

VALUES = np.linspace(-2.0, 2.0, 9)


def test_transplanted_expressions_are_equal():
    graph, other = ExpressionGraph(), ExpressionGraph()
    outputs = operations(graph.variable("x"), graph.variable("y"))
    a, b = other.variable("a"), other.variable("b")
    moved = transplant(outputs, {"x": a * 2.0, "y": a - b}, other)
    values = {"a": VALUES, "b": VALUES[::-1] * 0.7}
    expected = evaluate(outputs, {"x": 2.0 * values["a"], "y": values["a"] - values["b"]})
    for got, wanted in zip(evaluate(moved, values), expected, strict=True):
        np.testing.assert_allclose(np.broadcast_to(got, 9), np.broadcast_to(wanted, 9), rtol=1e-14)
    assert all(node.graph is other for node in moved)


def test_numbers_in_place_of_variables_are_folded():
    graph, other = ExpressionGraph(), ExpressionGraph()
    outputs = operations(graph.variable("x"), graph.variable("y"))
    nodes = len(graph.nodes)
    moved = transplant(outputs, {"x": 1.5, "y": -0.25}, other)
    expected = evaluate(outputs, {"x": np.float64(1.5), "y": np.float64(-0.25)})
    assert [node.value for node in moved] == pytest.approx([float(x) for x in expected], rel=1e-15)
    assert {node.operation for node in other.nodes} == {Operation.CONSTANT}
    assert len(graph.nodes) == nodes


def test_what_cancels_vanishes_and_a_variable_without_a_value_is_an_error():
    graph, other = ExpressionGraph(), ExpressionGraph()
    x, y, z = graph.variable("x"), graph.variable("y"), other.variable("z")
    difference, product, same = transplant([x * x - y, x * y, y], {"x": z, "y": z * z}, other)
    assert difference.is_zero
    assert product is (z * (z * z))
    assert same is z * z
    with pytest.raises(KeyError, match="y"):
        transplant([x + y], {"x": 1.0}, ExpressionGraph())
