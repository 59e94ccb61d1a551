"""Scalar expressions: folding, sharing, derivatives, and the emitted source beside the NumPy evaluator."""

import hashlib
import math

import numpy as np
import pytest
import warp as wp

from objectives.expression import (
    ExpressionGraph,
    acos,
    atan2,
    cos,
    evaluate,
    exp,
    log,
    maximum,
    minimum,
    reachable,
    sign,
    sin,
    sqrt,
    step,
    where,
)
from objectives.expression.functions import gradient
from objectives.expression.graph import Operation, by_index
from objectives.expression.kernels import invariant_part, straight_line

DIFFERENCE_STEP = 1e-6  # central differences in float64 are then good to about 1e-9
DIFFERENCE_TOLERANCE = 1e-7
FLOAT32_TOLERANCE = 2e-6  # relative, for a few dozen float32 operations


@pytest.fixture
def graph():
    return ExpressionGraph()


@pytest.fixture
def x(graph):
    return graph.variable("x")


@pytest.fixture
def y(graph):
    return graph.variable("y")


class TestFolding:
    def test_operations_with_zero_and_one_vanish(self, x):
        for same in (x + 0.0, 0.0 + x, x - 0.0, x * 1.0, 1 * x, x / 1.0):
            assert same is x
        for zero in (x * 0.0, x - x, 0.0 / x):
            assert zero.is_zero
        assert (x / x).value == 1.0

    def test_constants_are_folded(self, graph, x):
        two, three = graph.constant(2.0), graph.constant(3.0)
        assert (two * three).value == 6.0
        assert (two + three).value == 5.0
        assert (two - three).value == -1.0
        assert (three / two).value == 1.5
        assert sqrt(graph.constant(4.0)).value == 2.0
        assert sqrt(4.0) == 2.0
        assert maximum(2.0, 3.0) == 3.0
        assert minimum(two, 3.0).value == 2.0
        assert sign(graph.constant(0.0)).value == 1.0
        assert sign(-0.5) == -1.0
        assert step(0.0) == 0.0
        assert math.isclose(sin(0.3) ** 2 + cos(0.3) ** 2, 1.0)
        assert math.isclose(log(exp(graph.constant(0.7))).value, 0.7)
        assert math.isclose(acos(cos(1.2)), 1.2)
        assert atan2(graph.constant(1.0), 0.0).value == math.pi / 2
        assert atan2(-1.0, 0.0) == -math.pi / 2
        assert abs(graph.constant(-2.0)).value == 2.0

    @pytest.mark.parametrize("outside", [lambda one: log(-one), lambda one: acos(2.0 * one), lambda one: sqrt(-one)])
    def test_what_is_outside_of_a_domain_stays_in_the_graph(self, graph, outside):
        result = outside(graph.constant(1.0))
        assert result.value is None
        assert np.isnan(evaluate([result], {})[0])

    def test_constants_of_sums_and_products_meet(self, x):
        assert (x + 2.0) + 3.0 is x + 5.0
        assert 2.0 * (3.0 * x) is x * 6.0
        assert (x / 4.0) is 0.25 * x
        assert (x + 2.0) - 2.0 is x
        assert np.float64(2.0) * x is x * 2.0

    def test_equal_expressions_are_one_object(self, graph, x, y):
        assert x + y is y + x
        assert x * y is y * x
        assert maximum(x, y) is maximum(y, x)
        assert graph.variable("x") is x
        assert sin(x * y) is sin(y * x)
        count = len(graph.nodes)
        _ = (x * y) + sin(x * y)
        assert len(graph.nodes) == count + 1  # only the sum is new

    def test_negations_move_outwards(self, x, y):
        negative = -x
        assert -negative is x
        assert (-x) * y is -(x * y)
        assert (-x) * (-y) is x * y
        assert x + (-y) is x - y
        assert (-x) + y is y - x
        assert (-x) + (-y) is -(x + y)
        assert x - (-y) is x + y
        assert x * -2.0 is -(x * 2.0)
        assert (-x) / y is -(x / y)
        assert (y - x) is -(x - y)  # opposite differences share one subtraction

    def test_other_numbers_and_objects_are_refused(self, graph, x):
        assert graph.constant(-0.0) is graph.constant(0.0)
        for value in (math.nan, math.inf, -math.inf):
            with pytest.raises(ValueError, match="must be finite"):
                graph.constant(value)
        for other, message in ((ExpressionGraph().variable("x"), "different graphs"), ("1", "not with str")):
            with pytest.raises(TypeError, match=message):
                _ = x + other

    def test_operands_stand_before_their_operations(self, x, y):
        nodes = reachable([sin(x * y) + x / y])
        for node in nodes:
            assert all(nodes.index(operand) < nodes.index(node) for operand in node.operands)
        assert by_index(nodes[0]) < by_index(nodes[-1])


def _sample_expression(x, y, z):
    """An expression with every operation, and away from its kinks for the samples below."""
    smooth = sin(x * y) - cos(z) * 2.5 + sqrt(x * x + 1.5) / (y * y + 0.5) - 1.0 / (z + 7.0)
    curved = exp(0.3 * x) * log(y * y + 0.5) + acos(0.9 * sin(z)) - atan2(x + 0.1, y) + abs(z + 0.2)
    hinges = maximum(x - y, 0.25) * 1.5 - minimum(y, z) * x + maximum(0.5 * z, -x)
    choice = where((x < y) & (z > -0.5) | (y >= 1.0), exp(y) * x, where(x * z <= 0.3, z, x * x))
    return choice + curved + smooth * sign(x + 0.3 * y) + hinges * step(z - y) - (-x) * 3.0


class TestConditions:
    def test_what_is_known_is_folded(self, graph, x, y):
        two = graph.constant(2.0)
        assert where(two < 3.0, x, y) is x
        assert where(two >= 3.0, x, y) is y
        assert where(x < y, x, x) is x
        assert where((x < y) & (two > 3.0), x, y) is y
        assert where((two > 3.0) | (x < y), x, y) is where(x < y, x, y)
        assert where(True & (x < y), x, 0.0) is where(x < y, x, 0.0)
        assert where((x < y) | True, x, 0.0) is x
        assert where(False, x, 3.0) == 3.0

    def test_greater_is_less_the_other_way_round(self, x, y):
        assert (x > y).node is (y < x).node
        two = 2.0
        assert (two > x).node is (x < two).node
        assert (np.float64(2.0) <= x).node is (x >= 2.0).node
        assert ((x < y) & (y < 2.0)).node is ((y < 2.0) & (x < y)).node

    def test_a_comparison_with_nan_does_not_hold(self, x):
        outputs = [where(x < 1.0, 1.0, 0.0), where(x >= 1.0, 1.0, 0.0)]
        assert [float(value) for value in evaluate(outputs, {"x": math.nan})] == [0.0, 0.0]

    def test_a_condition_is_no_bool_and_no_number(self, x, y):
        for use in (lambda: bool(x < y), lambda: min(x, y), lambda: 0.0 < x < 1.0):
            with pytest.raises(TypeError, match="Use where"):
                use()
        with pytest.raises(TypeError, match="not with Condition"):
            _ = x + (x < y)
        with pytest.raises(TypeError, match="conditions, not with float"):
            _ = (x < y) & 1.0
        with pytest.raises(TypeError, match="not by Expression"):
            where(x, x, y)

    def test_the_branch_that_is_not_taken_spoils_no_derivative(self, x):
        root = where(x > 0.0, sqrt(x), 0.5 * x)
        derivative = gradient(root * 3.0 + x, [x])[0]
        values = np.array([-1.0, 0.0, 4.0])
        np.testing.assert_array_equal(evaluate([derivative], {"x": values})[0], [2.5, 2.5, 1.75])


class TestDerivatives:
    def test_agree_with_central_differences(self, graph, x, y):
        z = graph.variable("z")
        output = _sample_expression(x, y, z)
        operations = {node.operation for node in reachable([output])}
        assert operations == set(Operation)
        values = dict(zip("xyz", np.random.default_rng(3).normal(size=(3, 50)), strict=True))
        derivatives = evaluate(gradient(output, [x, y, z]), values)
        for name, derivative in zip("xyz", derivatives, strict=True):
            ahead, behind = (
                evaluate([output], values | {name: values[name] + side * DIFFERENCE_STEP})[0] for side in (1, -1)
            )
            expected = (ahead - behind) / (2 * DIFFERENCE_STEP)
            assert np.abs(expected).max() > 0.1
            np.testing.assert_allclose(derivative, expected, atol=DIFFERENCE_TOLERANCE * (1 + np.abs(expected).max()))

    def test_of_simple_expressions_are_known(self, graph, x, y):
        by_x, by_y = gradient(3.0 * x - y + 4.0, [x, y])
        assert (by_x.value, by_y.value) == (3.0, -1.0)
        assert gradient(x * x, [graph.variable("other")])[0].is_zero
        assert gradient(x * x, [x], seed=y)[0] is x * y + x * y
        (hinge,) = gradient(maximum(x, 0.0), [x])
        assert [float(evaluate([hinge], {"x": at})[0]) for at in (-1.0, 0.0, 1.0)] == [
            0.0,
            0.0,
            1.0,
        ]  # flat on its edge


class TestEmission:
    def test_the_kernel_computes_what_the_evaluator_does(self, graph, x, y):
        z = graph.variable("z")
        output = _sample_expression(x, y, z)
        outputs = [output, *gradient(output, [x, y, z])]
        names = {}
        lines = ["i = wp.tid()", *(f"{name} = values[i, {k}]" for k, name in enumerate("xyz"))]
        lines += straight_line(outputs, names)
        lines += [f"results[i, {k}] = {names[node]}" for k, node in enumerate(outputs)]
        source = "def emitted(values: wp.array2d[float], results: wp.array2d[float]):\n    " + "\n    ".join(lines)
        kernel = _kernel("emitted", source)
        values = np.random.default_rng(4).normal(size=(40, 3)).astype(np.float32)
        results = wp.zeros((40, len(outputs)), dtype=float, device="cpu")
        wp.launch(kernel, dim=40, inputs=[wp.array(values, dtype=float, device="cpu")], outputs=[results], device="cpu")
        expected = np.stack(evaluate(outputs, dict(zip("xyz", values.T, strict=True))), axis=1)
        assert np.abs(expected).max(axis=0).min() > 0.1
        assert np.abs(results.numpy() - expected).max() < FLOAT32_TOLERANCE * np.abs(expected).max()

    def test_shared_operations_are_written_once_and_numbers_are_rounded_to_float32(self, x, y):
        shared, names = sin(x * y), {}
        lines = straight_line([shared + x, shared * y], {})
        assert sum("sin" in line for line in lines) == 1
        assert len(lines) == 4
        straight_line([x * y], names)
        assert len(straight_line([x * y + x], names)) == 1  # a second call continues where the first one ended
        texts = {straight_line([x + number], {})[0].partition(" = ")[2] for number in (0.1, 0.1 + 1e-10)}
        assert texts == {f"x + {float(np.float32(0.1))!r}"}

    def test_what_does_not_vary_is_taken_out_of_a_loop(self, graph, x, y):
        z = graph.variable("z")
        outputs = [sin(x * y) * z + x, x + y]
        outside = invariant_part(outputs, [z])
        assert sin(x * y) in outside
        assert outputs[1] in outside
        assert not any(z in reachable([node]) for node in outside)


def _kernel(name, source):
    namespace = {"wp": wp}
    exec(compile(source, f"<{name}>", "exec"), namespace)
    module = wp.get_module(f"test_{name}_{hashlib.sha256(source.encode()).hexdigest()[:16]}")
    return wp.Kernel(namespace[name], key=name, module=module, source=source)


def test_chains_of_choices_have_derivatives_of_their_own_length():
    nodes = []
    for length in (4, 8):
        graph = ExpressionGraph()
        x = y = graph.variable("x")
        for k in range(length):
            y = where(y < 0.1 * k, y * y + k, sin(y) + 0.5 * k)
        (slope,) = gradient(y, [x])
        nodes.append(len(graph.nodes))
        at = np.linspace(-1.0, 1.0, 40) + 1e-3
        high, low, exact = (evaluate([one], {"x": at + move})[0] for one, move in ((y, 1e-6), (y, -1e-6), (slope, 0.0)))
        smooth = np.abs(high - low) < 0.1  # no branch changes in between
        np.testing.assert_allclose(exact[smooth], ((high - low) / 2e-6)[smooth], rtol=1e-4, atol=1e-6)
        assert smooth.sum() > 30
    assert nodes[1] < 2.5 * nodes[0]
