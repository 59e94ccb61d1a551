"""The program of an island: its rows, their derivatives and the normal equations equal host kinematics in float64."""

import numpy as np
import pytest

from ik_service import load_robot
from ik_service.compiler import coordinate_names, uncovered
from ik_service.compiler.half_angle import FLOAT32_ERROR
from objectives import IKObjective, IKObjectivePose, IKObjectivePosition, IKObjectivePosture
from objectives.expression import reachable
from objectives.expression.element_table import Element
from objectives.expression.expression_objective import ExpressionObjective
from objectives.expression.rows import RowGroup
from tests.compiler import oracles
from tests.compiler.island_cases import NAMES, POINT, TURN, island, robots
from tests.compiler.oracles import Island, configuration, evaluated
from tests.objectives.objectives_of_tests import APART, TOGETHER, Functions, Weighed

COUNT = 6
EXACT = 1e-12  # rounding of float64 and of the polynomials, on numbers of about 1


def configurations(robot, seed=3):
    q = robot.random_joint_q(np.random.default_rng(seed), COUNT)
    turning = np.flatnonzero(np.isinf(robot.active_limit_upper) & (robot.dof_coordinate[robot.active_dof] >= 0))
    q[1::2, robot.dof_coordinate[robot.active_dof[turning]]] *= 5.0  # continuous joints: beyond a turn
    return robot.complete_joint_q(q)


def derivatives(program, values, count=COUNT):
    entries = [entry for row in program.jacobian for entry in row]
    return evaluated(entries, values, count).reshape(count, len(program.jacobian), -1)


def require_equal(case, program, q, rows=slice(None), dofs=slice(None)):
    """Compare rows and derivatives with those of the oracles, and give these."""
    values = case.values(program, q)
    expected, slopes = case.oracle.rows(q)[:, rows], case.active(case.oracle.jacobian(q))
    np.testing.assert_allclose(evaluated(program.rows, values, COUNT), expected, rtol=0.0, atol=EXACT)
    np.testing.assert_allclose(derivatives(program, values), slopes[:, rows][..., dofs], rtol=0.0, atol=10 * EXACT)
    return expected, slopes


@pytest.mark.parametrize("name", NAMES)
def test_rows_and_jacobian_equal_host_kinematics(name):
    case = island(name)
    rows, jacobian = require_equal(case, case.program(), configurations(case.robot))
    assert np.abs(rows).max(axis=1).min() > 1e-3
    assert np.abs(jacobian).max() > 0.1


@pytest.mark.parametrize("name", NAMES)
def test_normal_equations_are_products_of_rows_and_jacobian(name):
    case = island(name)
    program, q = case.program(), configurations(case.robot)
    values = case.values(program, q)
    rows, jacobian = case.oracle.rows(q), case.active(case.oracle.jacobian(q))
    size = max(1.0, np.abs(jacobian).max()) ** 2 * case.row_count
    norm2 = evaluated([program.norm2], values, COUNT)[:, 0]
    np.testing.assert_allclose(norm2, (rows**2).sum(axis=1), rtol=0.0, atol=size * EXACT)
    gradient = evaluated(program.gradient, values, COUNT)
    np.testing.assert_allclose(gradient, np.einsum("nra,nr->na", jacobian, rows), rtol=0.0, atol=size * EXACT)
    hessian = np.einsum("nra,nrb->nab", jacobian, jacobian)
    assert [len(row) for row in program.hessian] == list(range(1, len(program.hessian) + 1))
    lower = evaluated([entry for row in program.hessian for entry in row], values, COUNT)
    below = np.tril_indices(len(program.hessian))
    np.testing.assert_allclose(lower, hessian[:, below[0], below[1]], rtol=0.0, atol=size * EXACT)
    assert np.abs(gradient).max() > 1e-3


def test_errors_of_the_targets_are_those_without_weights():
    case = island("panda three targets and posture")
    program, q = case.program(), configurations(case.robot)
    assert [error.target for error in program.errors] == [0, 1]
    assert program.has_other_rows
    for error, link in zip(program.errors, ("panda_hand", "panda_link4"), strict=True):
        poses = case.robot.forward_kinematics(q, [link])
        distance2 = ((poses.positions[:, 0] - POINT.astype(np.float32)) ** 2).sum(axis=1)
        cosine = np.abs(poses.orientations_xyzw[:, 0] @ TURN)
        got = evaluated([error.position2, error.chord2], case.values(program, q), COUNT)
        np.testing.assert_allclose(got[:, 0], distance2, rtol=1e-6)
        np.testing.assert_allclose(got[:, 1], 4.0 * (1.0 - cosine**2), rtol=1e-6)  # of float32 targets
        assert distance2.min() > 1e-3


@pytest.mark.parametrize(
    ("name", "standing"),
    [("panda seen from a link", 3), ("floating relative", 9), ("floating seen from a moving link", 8)],
)
def test_dofs_that_move_all_links_of_a_row_alike_may_be_left_out(name, standing):
    case = island(name)
    dofs = case.touched()
    program = case.program(dofs=dofs)
    assert len(dofs) == case.robot.active_dof_count - standing
    variables = {node.name for node in reachable([program.norm2]) if node.name.startswith("trial")}
    assert variables <= {f"trial{a}{component}" for a, component in coordinate_names(program)}
    assert {variable for variable, _, _ in program.halves.values()} <= {f"trial{a}" for a in dofs}
    _, jacobian = require_equal(case, program, configurations(case.robot), dofs=dofs)  # wherever the others are
    assert np.abs(np.delete(jacobian, dofs, axis=2)).max() < EXACT


def test_an_island_holds_only_its_rows_and_dofs():
    case = island("two trees posture")
    left = [a for a, d in enumerate(case.robot.active_dof) if case.robot.dof_names[d].startswith("left")]
    program = case.program(dofs=left, rows=[0, 1, 2])  # left_1, left_2 and its follower
    assert program.dofs == tuple(left)
    assert program.quaternions == ()
    _, jacobian = require_equal(case, program, configurations(case.robot), slice(3), left)
    weights = 0.5 * np.linspace(0.5, 1.5, 8)[:3, None]  # by DOF
    np.testing.assert_allclose(jacobian[0, :3, left].T, weights * [[1.0, 0.0], [0.0, 1.0], [0.0, -0.5]], rtol=1e-6)


def test_rows_that_are_switched_off_are_not_in_the_program():
    case = island("panda pose")
    program, q = case.program(rows=[2, 4]), configurations(case.robot)
    rows, _ = require_equal(case, program, q, [2, 4])
    (error,) = program.errors
    got = evaluated([error.position2, error.chord2], case.values(program, q), COUNT)
    np.testing.assert_allclose(got, rows**2, rtol=0.0, atol=EXACT)
    assert case.program(rows=[0, 1]).errors[0].chord2 is None
    assert case.program(rows=[3]).errors[0].position2 is None
    assert not program.has_other_rows


def test_data_per_problem_are_inputs_of_the_program():
    robot = robots()["panda"]
    points = np.array([[0.4, 0.1, 0.5], [0.1, -0.3, 0.7]])
    weights = np.array([[1.0] * 6, [0.5, 1.0, 2.0, 0.1, 0.2, 0.3]])
    pose = IKObjectivePose("panda_hand", points, TURN, row_weights=weights, weight=1.3)
    case = Island("two problems", robot, [pose], [oracles.pose], 1)
    program, q = case.program(), configurations(robot)
    first, second = (evaluated(program.rows, case.values(program, q, problem), COUNT) for problem in (0, 1))
    np.testing.assert_allclose(second, oracles.pose(robot, pose, problem=1).rows(q), rtol=0.0, atol=EXACT)
    assert np.abs(first - second).max() > 0.1
    assert {one.field for one in program.inputs} == {"target_positions", "target_orientations_xyzw", "row_weights"}
    assert len({one.name for one in program.inputs}) == len(program.inputs) == 3 + 4 + 6


@pytest.mark.parametrize("name", ["panda pose", "floating two poses", "two trees relative"])
def test_short_polynomials_are_as_good_as_float32(name):
    case = island(name)
    program, q = case.program(half_angle_error=FLOAT32_ERROR), configurations(case.robot)
    rows = evaluated(program.rows, case.values(program, q), COUNT)
    difference = np.abs(rows - case.oracle.rows(q)).max()
    assert 1e-12 < difference < 5e-7  # about a unit in the last place of float32 per joint


def test_variables_stand_for_active_dofs_alone():
    case = island("locked middle pose")
    program = case.program()
    assert case.robot.active_dof_count == 6 + 1 + 1 + 1
    assert program.quaternions == (3,)
    names = {node.name for node in program.graph.nodes if node.name.startswith(("trial", "half"))}
    assert names == {*(f"trial{k}" for k in (0, 1, 2, 7)), *(f"trial3{c}" for c in "xyzw"), *program.halves}
    assert {variable for variable, _, _ in program.halves.values()} == {"trial6", "trial8", "fixed9"}
    assert configuration(case.robot, program, configurations(case.robot)).shape == (COUNT, 10)


def test_followers_half_angles_are_those_of_their_leaders():
    program = island("two trees follower").program()
    assert sorted(program.halves.values()) == [("trial0", 1.0, 0.0), ("trial1", -0.5, 0.2), ("trial1", 1.0, 0.0)]
    assert all(name.startswith("half") for name in program.halves)


def _middle_rows(inputs):
    first, second = (inputs.frames[name].position for name in ("first", "second"))
    return [0.5 * (a + b) for a, b in zip(first, second, strict=True)]


class Middle(ExpressionObjective):
    """Rows of two frames that a common motion does change: the middle between two links."""

    def __init__(self, links):
        super().__init__([], row_count=3)
        self.links = links

    def stated_elements(self, model):
        return [(RowGroup("middle", 3, _middle_rows, frames=("first", "second")), [Element(self.links)])]


def test_rows_of_two_frames_that_a_common_motion_changes():
    def oracle(robot, objective):
        def mean(q, place):
            return 0.5 * sum(oracles.frame_motion(robot, q, link)[place] for link in objective.links)

        return oracles.Oracle(lambda q: mean(q, 0), lambda q: mean(q, 2).transpose(0, 2, 1))

    case = Island("middle", robots()["floating"], [Middle(("d", "f"))], [oracle])
    _, jacobian = require_equal(case, case.program(), configurations(case.robot))
    assert np.abs(jacobian[..., :6]).max(axis=(0, 1)).min() > 0.1  # the base moves it


def test_elements_add_up_where_a_group_says_so():
    robot = robots()["floating"]
    apart, together = (Island("weighed", robot, [Weighed(group)], [lambda *_: None]) for group in (APART, TOGETHER))
    q, found = configurations(robot), []
    for case in (apart, together):
        program = case.program()
        values = case.values(program, q)
        found.append((evaluated(program.rows, values, COUNT), derivatives(program, values)))
    for terms, sums in zip(*found, strict=True):
        expected = terms[:, 0:2] + terms[:, 2:4] + terms[:, 4:6]
        np.testing.assert_allclose(sums, expected, rtol=0.0, atol=10 * EXACT)
        assert np.abs(sums).max() > 0.1


def test_what_is_not_covered_says_why():
    humanoid = load_robot("humanoid", collision="ignore")
    covered = [IKObjectivePosition("left_sole", (0, 0, 0)), IKObjectivePosture(humanoid.mid_joint_q), Functions()]
    assert "IKObjective is not stated" in uncovered([*covered, IKObjective()])
    assert uncovered(covered) is None
