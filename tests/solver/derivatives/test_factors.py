"""Each factor of the system that an answer's derivatives solve, times vectors, against differences of what it derives.

The rows r(q, p) are those of an arm's tool, with a posture and a camera beside it, and g = sum f r' with f as it is.
"""

import numpy as np
import pytest

from ik_service import Target
from ik_service.kinematics.host_tangent import body_motion
from ik_service.mechanism.transforms import quaternion_exp, quaternion_multiply, transform_multiply
from ik_service.solver.derivatives.answers import AnswerIslands, Minimum
from ik_service.solver.derivatives.host_rows import HostRows
from ik_service.solver.derivatives.linearise import _at_minimum, _sorted
from ik_service.solver.given.reading import check_targets
from objectives import IKObjectiveLookAt, IKObjectivePosture
from objectives.tasks.frame_objective import OFFSET
from objectives.tasks.pose import ORIENTATION, POSITION
from tests.solver.conftest import bare_robot, cpu_solver

STEP = 1e-4
HAND, OTHER = "panda_hand", "panda_link4"
COUNT = 3


@pytest.fixture(scope="module")
def answers():
    """Answers of an arm that meet their targets, at the minimum of the rows beside these."""
    robot, rng = bare_robot("panda"), np.random.default_rng(1)
    tool = np.array([0.0, 0.02, 0.1, 0.0, 0.6, 0.0, 0.8])
    posture, look = IKObjectivePosture(robot.mid_joint_q, weight=0.05), IKObjectiveLookAt(OTHER, [0.4, 0.3, 0.8])
    look.priority = 1  # beside targets, as postures are
    solver = cpu_solver(robot, [Target(HAND, offset=tool)], objectives=[posture, look])
    hands = robot.forward_kinematics(robot.random_joint_q(rng, COUNT), [HAND])
    hands = np.hstack([hands.positions[:, 0], hands.orientations_xyzw[:, 0]])
    poses = transform_multiply(hands, np.tile(tool, (COUNT, 1)))
    goals = poses[:, :3], poses[:, 3:]
    result = solver.solve(*goals, options={"precision": "float64"})
    assert result.success.all()
    rows = HostRows(robot, solver._core.layout.rows, hard_limits=False)
    given = check_targets(solver.targets, *goals, None)
    islands = AnswerIslands.of_result(result)
    found = _sorted(rows, rows.data(solver.targets, given, None), result.joint_q, islands, None)[0]
    found = _at_minimum(found, islands)[0]
    assert found.is_hard.any(axis=0).sum() == 6
    assert found.is_soft.any(axis=0).sum() > 6
    return found


def values(answers, data=None, step=0.0):
    """Give the rows and derivatives of answers, with other numbers, or moved by a step of the active DOFs."""
    joint_q = answers.rows.robot.integrate(answers.joint_q, np.broadcast_to(step, answers.joint_q.shape))
    return answers.rows.values(body_motion(answers.rows.robot, joint_q), answers.data if data is None else data)


def factors(answers):
    """Give numbers that every row is weighed by, those of the answers among them."""
    own = answers.factors(values(answers))
    return own + 0.1 * np.random.default_rng(2).normal(size=own.shape)


def test_derivatives_of_rows_and_multipliers_that_balance_the_gradient(answers):
    there = values(answers)
    for way in np.random.default_rng(3).normal(size=(4, 7)):
        expected = (values(answers, step=STEP * way).rows - values(answers, step=-STEP * way).rows) / (2.0 * STEP)
        np.testing.assert_allclose(there.jacobian @ way, expected, atol=1e-7)
    np.testing.assert_array_equal(answers.multipliers[~answers.is_hard], 0.0)
    slope = np.einsum("nrd,nr->nd", there.jacobian, answers.factors(there))
    np.testing.assert_allclose(slope, 0.0, atol=1e-9)
    assert np.abs(np.einsum("nrd,nr->nd", there.jacobian, answers.multipliers)).max() > 1e-4


def test_curvature_of_the_lagrangian(answers):
    """From values alone: (F(v + w) - F(v - w) - F(w - v) + F(-v - w)) / 4 h^2, F = f r; turns about axes add up."""
    weights, step, rng = factors(answers), 1e-3, np.random.default_rng(4)
    bend = answers.bend(weights)
    for v, w in rng.normal(size=(4, 2, 7)):
        ways = ((v + w, 1.0), (v - w, -1.0), (w - v, -1.0), (-v - w, 1.0))
        expected = sum(sign * (weights * values(answers, step=step * way).rows).sum(axis=1) for way, sign in ways)
        np.testing.assert_allclose(v @ bend @ w, expected / (4.0 * step * step), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(bend, bend.swapaxes(1, 2), atol=1e-8)


def turned(orientations, way):
    """Give orientations that are turned by a small rotation vector in the world."""
    return quaternion_multiply(quaternion_exp(np.tile(way, (len(orientations), 1))), orientations)


def with_target_moved(data, way):
    return {POSITION: data[POSITION] + way[:3], ORIENTATION: turned(data[ORIENTATION], way[3:])}


def with_tool_moved(data, way):
    pose = data[OFFSET]
    return {OFFSET: np.hstack([pose[:, :3] + way[:3], turned(pose[:, 3:], way[3:])])}


def by_pose(of_tool):
    return lambda answers, motion: answers.by_pose(0, np.arange(6), motion, of_tool=of_tool)


def by_field(block, name, size):
    """Numbers of a field, added to."""
    moved, derived = (lambda data, way: {name: data[name] + way}), (lambda a, motion: a.by_field(block, name, motion))
    return block, moved, size, derived


BY = {
    "target": (0, with_target_moved, 6, by_pose(of_tool=False)),
    "tool": (0, with_tool_moved, 6, by_pose(of_tool=True)),
    "posture": by_field(1, "joint_q_reference", 7),
    "weights": by_field(1, "row_weights", 7),
    "point": by_field(2, "target_points", 3),
}


@pytest.mark.parametrize("number", BY)
def test_rows_and_gradient_by_numbers(answers, number):
    """What stands on the right: rows by p, and g by p with the rows' factors as they are."""
    block, moved, size, derived = BY[number]
    weights = answers.factors(values(answers))
    found = derived(answers, body_motion(answers.rows.robot, answers.joint_q))
    for way in np.random.default_rng(5).normal(size=(3, size)):
        ends = []
        for side in (STEP, -STEP):
            data = list(answers.data)
            data[block] = data[block] | moved(data[block], side * way)
            there = values(answers, data)
            ends.append(np.hstack([there.rows, np.einsum("nrd,nr->nd", there.jacobian, weights)]))
        np.testing.assert_allclose(found @ way, (ends[0] - ends[1]) / (2.0 * STEP), atol=1e-7)
        assert np.abs(found @ way).max() > 1e-3


def test_the_system_is_solved(answers):
    """L dq + A' dy = -g_p in directions that hard rows leave, and A dq = -h_p."""
    there, rng = values(answers), np.random.default_rng(6)
    bend = answers.bend(answers.factors(there))
    for p in range(COUNT):
        hard, soft = np.flatnonzero(answers.is_hard[p]), np.flatnonzero(answers.is_soft[p])
        jacobian, dofs = there.jacobian[p], np.ones(7, dtype=bool)
        own = Minimum(jacobian[hard], answers.weights[p, hard], jacobian[soft], bend[p], dofs)
        by_hard, by_soft, by_slope = (rng.normal(size=(k, 2)) for k in (len(hard), len(soft), 7))
        change = own.shift(by_hard, by_soft, by_slope).change
        np.testing.assert_allclose(own.hard @ change, -by_hard, atol=1e-9)
        left = (own.soft.T @ own.soft + own.bend) @ change + own.soft.T @ by_soft + by_slope
        np.testing.assert_allclose(own.met.still.T @ left, 0.0, atol=1e-9)
