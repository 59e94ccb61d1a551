"""Statements of one's own: any mixture of frames, coordinates and quaternions gives rows, Jacobian and support."""

import numpy as np
import pytest

import objectives
from objectives import ObjectiveError
from objectives.data_field import DataField
from objectives.expression import maximum, sin, where
from objectives.expression.element_table import Element
from objectives.expression.expression_objective import ExpressionObjective
from objectives.expression.frame_algebra import dot, rotate, subtract
from objectives.expression.kernels import residual_kernel
from objectives.expression.rows import RowGroup, RowInputs, state_rows
from tests.objectives.conftest import GUARD, scene
from tests.objectives.objectives_of_tests import APART, TOGETHER, Weighed

TIGHT = 1e-4  # five-point differences of float32 residuals are good to about 1e-5


def mixed_rows(inputs: RowInputs):
    """Rows in which every kind of input meets every other, and DOFs move several inputs at once."""
    a, b, q = inputs.frames["a"], inputs.frames["b"], inputs.coordinates["q"]
    (scale,) = inputs.data["scale"]
    turned = rotate(inputs.quaternions_xyzw["turn"], b.position)
    return [
        dot(a.position, b.position) + scale * q * q,
        sin(q) * a.position[0] + turned[1],
        dot(rotate(a.orientation_xyzw, (0.0, 1.0, 0.0)), turned) - 1.0,
    ]


def distance_rows(inputs: RowInputs):
    arm = subtract(inputs.frames["a"].position, inputs.frames["b"].position)
    return [dot(arm, arm)]


INPUTS = {"coordinates": ("q",), "quaternions": ("turn",), "offsets": (("b", "tool"),)}
MIXED = RowGroup("mixed", 3, mixed_rows, frames=("a", "b"), **INPUTS, data=(("scale", 1), ("tool", 7)))
DISTANCE = RowGroup("distance", 1, distance_rows, frames=("a", "b"))


class Mixed(ExpressionObjective):
    """Two elements of the mixed group, on all trees of the robot."""

    def __init__(self, where, joint, dofs):
        offset = [0.1, -0.2, 0.3, 0.5, -0.5, 0.5, 0.5]
        fields = [
            DataField("Mixed", "scale", 2, [[0.5, 1.5], [2.5, 3.5]]),
            DataField("Mixed", "tool", 7, offset, quaternion_columns=(3,)),
        ]
        super().__init__(fields, row_count=6, weight=0.5)
        self.where, self.joint, self.dofs = where, joint, dofs

    def stated_elements(self, model):
        frames, (one, other) = (self.where.tip, self.where.other), self.dofs
        first = Element(frames, (one,), (self.joint,), data_columns=(0, 0))
        return [(MIXED, [first, Element(frames[::-1], (other,), (self.joint,), data_columns=(1, 0))])]


@pytest.mark.parametrize(
    ("scene_name", "joint_name", "dof_names"),
    [("floating", "base", ("turn", "slide/x")), ("two_trees", "right_1", ("left_3", "right_3"))],
)
def test_a_mixture_of_all_inputs_has_the_right_jacobian(scene_name, joint_name, dof_names):
    where = scene(scene_name)
    dofs = [where.robot.dof_names.index(name) for name in dof_names]
    objective = Mixed(where, where.robot.joint_index(joint_name), dofs)
    report = objectives.check(objective, where.robot, tolerance=TIGHT)
    assert report.methods == ("analytic", "autodiff")
    assert report.nonzero_count > report.compared_count / 2


def test_elements_add_up_where_a_group_says_so(workplace):
    robot = scene("floating").robot
    joint_q, problem = robot.random_joint_q(np.random.default_rng(1), 4), [0, 1, 1, 0]
    apart, together = (workplace(robot, Weighed(group), joint_q, problem) for group in (APART, TOGETHER))
    assert (apart.rows, together.rows) == (6, 2)
    for method in ("residuals", "analytic", "autodiff"):
        terms, sums = (getattr(place, method)()[:, GUARD:-GUARD] for place in (apart, together))
        expected = terms[:, 0:2] + terms[:, 2:4] + terms[:, 4:6]
        np.testing.assert_allclose(sums, expected, rtol=0.0, atol=1e-5)
        assert np.abs(sums).max() > 0.1
    support = apart.objective.row_support(apart.model)
    joined = support[0:2] | support[2:4] | support[4:6]
    np.testing.assert_array_equal(together.objective.row_support(together.model), joined)
    assert objectives.check(Weighed(TOGETHER), robot, tolerance=TIGHT).nonzero_count > 0


class Distance(ExpressionObjective):
    def __init__(self, *links):
        super().__init__([], row_count=1)
        self.links = links

    def stated_elements(self, model):
        return [(DISTANCE, [Element(self.links)])]


def test_dofs_that_move_both_frames_alike_drop_out_by_themselves(panda):
    support = Distance("panda_hand", "panda_link4").row_support(panda.on_device("cpu"))
    assert support.tolist() == [[False] * 4 + [True] * 3]
    assert objectives.check(Distance("panda_hand", "panda_link4"), panda, tolerance=TIGHT).nonzero_count > 0


def staircase_rows(inputs):
    """A distance, but for a branch that many comparisons hide."""
    arm = subtract(inputs.frames["a"].position, inputs.frames["b"].position)
    distance2 = dot(arm, arm)
    row = inputs.frames["a"].position[2]
    for step in range(8):
        row = where(distance2 < 0.01 * (8 - step), distance2 * (step + 2.0), row)
    return [row]


def floor_rows(inputs):
    """The same with a maximum whose first is greater only far away."""
    arm = subtract(inputs.frames["a"].position, inputs.frames["b"].position)
    return [maximum(inputs.frames["a"].position[2] - 6.0, dot(arm, arm))]


def test_common_motion_cancels_where_frames_are_seen_from_one_another_alone():
    """Not where a rare branch depends on the world."""
    branches = (RowGroup(rows.__name__, 1, rows, frames=("a", "b")) for rows in (staircase_rows, floor_rows))
    assert state_rows(DISTANCE).common_motion_cancels
    for group in (MIXED, *branches):
        assert not state_rows(group).common_motion_cancels


def test_a_frame_may_be_static(panda, workplace):
    joint_q = panda.random_joint_q(np.random.default_rng(0), 4)
    place = workplace(panda, Distance("panda_hand", "panda_link0"), joint_q, [0] * 4)
    hand = panda.forward_kinematics(place.joint_q, links=["panda_hand"]).positions[:, 0]
    np.testing.assert_allclose(place.residuals()[:, GUARD], (hand**2).sum(axis=1), rtol=1e-5)


def test_a_statement_needs_its_elements_and_as_many_rows_as_it_says(panda):
    wrong = RowGroup("wrong", 2, distance_rows, frames=("a", "b"))
    with pytest.raises(ObjectiveError, match="'wrong' states 1 rows instead of 2"):
        state_rows(wrong)
    with pytest.raises(NotImplementedError, match="stated_elements"):
        ExpressionObjective([], row_count=1).bind_model(panda.on_device("cpu"))


def test_equal_statements_have_equal_modules():
    def again(inputs):
        return distance_rows(inputs)

    twin = RowGroup("distance", 1, again, frames=("a", "b"))
    assert twin != DISTANCE
    assert residual_kernel(twin).module.name == residual_kernel(DISTANCE).module.name
