"""Rows as loops: an iteration equals that of the straight line, whatever differs from element to element."""

from dataclasses import fields, replace

import numpy as np
import pytest

from ik_service.compiler import IslandSignature, IterationSource, build_program, row_loops
from objectives import IKObjectivePose, IKObjectivePosture
from objectives.expression.expression_objective import ExpressionObjective
from objectives.expression.frame_algebra import dot, subtract
from objectives.expression.rows import RowGroup
from tests.compiler.conftest import WIDTHS, half_angle_error, lanes_name, through_native
from tests.compiler.island_cases import POINT, TURN, robots
from tests.compiler.oracles import Island
from tests.compiler.reference_iteration import DAMPING, States
from tests.objectives.objectives_of_tests import Sights, Spheres, sphere_pairs

COUNT = 24  # lanes
AGREE = {"float64": 1e-9, "float32": 2e-4}  # sums in another order, on numbers of up to 50
NEVER = 10**9
LINKS = {"panda": "panda_hand", "floating": "d", "two trees": "l_tool"}


def signature(case, rows=None, targets=None, **options):
    rows, dofs = range(case.row_count) if rows is None else rows, range(case.robot.active_dof_count)
    targets = range(case.target_count) if targets is None else targets
    return IslandSignature.of(case.robot, case.model, case.objectives, case.starts, dofs, rows, targets, **options)


def programs(monkeypatch, case, lanes, tolerated=()):
    """The program with its rows as a straight line, and as loops."""
    found = []
    for least in (NEVER, 1):  # a target is no loop all the same
        monkeypatch.setattr(row_loops, "LOOP_MIN", least)
        found.append(build_program(signature(case, half_angle_error=half_angle_error(lanes), tolerated=tolerated)))
    return found


def after_iterations(case, program, lanes):
    """States after two iterations from random configurations."""
    source = IterationSource(program, lanes, DAMPING, in_dofs=True)  # as with loops
    q = case.robot.random_joint_q(np.random.default_rng(6), COUNT)
    states = States.start(case, source, q).packed()
    for _ in range(2):
        states, _ = through_native(source.text(), lanes, states, 9.0)
    return States.unpacked(states, source)


def require_equal(case, straight, looped, lanes):
    first, second = (after_iterations(case, program, lanes) for program in (straight, looped))
    for field in fields(States):
        if field.name != "inputs":
            a, b = (getattr(states, field.name) for states in (first, second))
            scale = max(1.0, np.abs(a[np.isfinite(a)]).max(initial=0.0))
            np.testing.assert_allclose(b, a, rtol=0.0, atol=scale * AGREE[lanes.precision], err_msg=field.name)
    return first


def island(name, *objectives):
    robot = robots()[name]
    pose = IKObjectivePose(LINKS[name], POINT, TURN)
    return Island(name, robot, [pose, *objectives], [lambda *_: None] * (1 + len(objectives)), 1)


KINDS = [("panda", lanes) for lanes in WIDTHS] + [("floating", WIDTHS[1]), ("two trees", WIDTHS[1])]


@pytest.mark.evidence
@pytest.mark.parametrize(("name", "lanes"), KINDS, ids=str)
def test_spheres_as_a_loop_equal_the_straight_line(monkeypatch, lanes, name):
    robot = robots()[name]
    spheres = Spheres(sphere_pairs(robot, 60, radii=(0.2, 1.0)), weight=0.7)
    case = island(name, spheres, IKObjectivePosture(robot.mid_joint_q, weight=0.1))
    straight, looped = programs(monkeypatch, case, lanes)
    assert (len(straight.loops), len(looped.loops)) == (0, 1)
    assert straight.coupled == looped.coupled
    states = require_equal(case, straight, looped, lanes)
    assert states.norm2.min() > 0.1


@pytest.mark.evidence
@pytest.mark.parametrize(("name", "lanes"), [KINDS[0], *KINDS[4:]], ids=str)
def test_data_of_each_element_tools_and_several_rows(monkeypatch, lanes, name):
    case = island(name, Sights(robots()[name], 20), Spheres(sphere_pairs(robots()[name], 30, radii=(0.2, 1.0))))
    straight, looped = programs(monkeypatch, case, lanes)
    assert [len(program.loops) for program in (straight, looped)] == [0, 2]
    assert len(looped.rows) == 6
    require_equal(case, straight, looped, lanes)


@pytest.mark.evidence_cases("float64 x 4")
@pytest.mark.parametrize("lanes", WIDTHS[:2], ids=lanes_name)
def test_the_worst_row_over_its_tolerance_is_found(monkeypatch, lanes):
    spheres = Spheres(sphere_pairs(robots()["panda"], 40, radii=(0.2, 1.0)))
    spheres.set_row_tolerances(np.random.default_rng(0).uniform(0.01, 0.1, 40))
    case = island("panda", spheres)
    straight, looped = programs(monkeypatch, case, lanes, tolerated=(1,))
    states = require_equal(case, straight, looped, lanes)
    assert states.errors.shape == (COUNT, 3)
    assert states.errors[:, 2].min() > 1.0


def test_rows_that_are_off_or_few_or_have_goals_are_no_loop():
    case = island("panda", Spheres(sphere_pairs(robots()["panda"], row_loops.LOOP_MIN)))
    fewer = case.program(rows=range(case.row_count - 1))
    assert len(case.program().loops) == 1
    assert (len(fewer.loops), len(fewer.rows)) == (0, case.row_count - 1)
    for goals in (1, 2):
        assert bool(build_program(signature(case, targets=(0,), goal_count=goals)).loops) == (goals == 1)


def test_the_text_does_not_grow_with_the_elements():
    cases = [island("panda", Spheres(sphere_pairs(robots()["panda"], count))) for count in (200, 800)]
    few, many = (IterationSource(case.program(), WIDTHS[0], DAMPING).text().count("\n") for case in cases)
    assert few == many


def folded_rows(inputs):
    """A distance, and a row that is 0 for the numbers of all elements."""
    arm = subtract(inputs.frames["a"].position, inputs.frames["b"].position)
    return [dot(arm, arm), inputs.constants["none"] * arm[2]]


FOLDED = RowGroup("folded", 2, folded_rows, frames=("a", "b"), constants=("none",))


class Folded(ExpressionObjective):
    """Rows of which the second folds to 0."""

    def __init__(self, elements):
        super().__init__([], row_count=2 * len(elements))
        self.elements = [replace(one, data_columns=(), constants=(0.0,)) for one in elements]

    def stated_elements(self, model):
        return [(FOLDED, self.elements)]


@pytest.mark.evidence
@pytest.mark.parametrize("lanes", WIDTHS[:2], ids=lanes_name)
def test_a_row_that_folds_to_zero_adds_nothing(monkeypatch, lanes):
    case = island("panda", Folded(sphere_pairs(robots()["panda"], 64)))
    straight, looped = programs(monkeypatch, case, lanes)
    assert len(looped.loops) == 1
    require_equal(case, straight, looped, lanes)
