"""Rows bound to a robot: their Jacobians and rates, against differences of their values."""

import numpy as np
import pytest

from ik_service.kinematics.bound_rows import BoundRows, bound_rows, quaternion_rate
from ik_service.kinematics.host_tangent import body_motion, body_rate
from ik_service.mechanism.transforms import quaternion_exp, quaternion_multiply
from objectives.expression import atan2
from objectives.expression.element_table import Element
from objectives.expression.frame_algebra import dot, rotation_difference
from objectives.expression.rows import ROW_WEIGHTS, RowGroup
from tests.constraints.mechanisms import branches

STEP, COUNT = 1e-5, 3


def seen(inputs):
    place = inputs.frames["tool"].relative_to(inputs.frames["base"])
    turn = rotation_difference(place.orientation_xyzw, inputs.data["wanted"])
    return [dot(place.position, place.position), atan2(place.position[0], place.position[1]), *turn]


def mixed(inputs):
    x, y, _, w = inputs.quaternions_xyzw["ball"]
    return [inputs.coordinates["slide"] * inputs.data["factor"][0] * (x * w + y) + inputs.constants["bias"]]


SEEN = RowGroup(
    "seen", 5, seen, frames=("tool", "base"), offsets=(("tool", "offset"),), data=(("offset", 7), ("wanted", 4))
)
MIXED = RowGroup(
    "mixed", 1, mixed, coordinates=("slide",), quaternions=("ball",), constants=("bias",), data=(("factor", 1),)
)


def turned(rng, count):
    return quaternion_exp(rng.normal(size=(count, 3)))


@pytest.fixture(scope="module")
def case():
    """A robot with rows of two groups, configurations, data, and a motion of all of them."""
    robot, rng = branches([]), np.random.default_rng(0)
    slide, ball = robot.joint_index("slide"), robot.joint_index("shoulder")
    both = [Element(("hand", "tail"), data_columns=(0, 0)), Element(("drone", "arm"), data_columns=(0, 0))]
    dof = int(robot.joint_qd_start[slide])
    coordinate = Element(coordinate_dofs=(dof,), quaternion_joints=(ball,), data_columns=(0,), constants=(0.3,))
    rows = bound_rows(robot, [(SEEN, both), (MIXED, [coordinate])])
    data = {
        "offset": np.hstack([rng.normal(size=(COUNT, 3)), turned(rng, COUNT)]),
        "wanted": turned(rng, COUNT),
        "factor": np.array([[0.7]]),
        ROW_WEIGHTS: rng.uniform(0.5, 2.0, size=(1, rows.size)),
    }
    joint_q, change = robot.random_joint_q(rng, COUNT), rng.normal(size=(COUNT, robot.joint_dof_count))
    moves = {"offset": rng.normal(size=(COUNT, 6)), "wanted": rng.normal(size=(COUNT, 3)), "factor": [[0.4]]}
    return robot, BoundRows(rows.tables, rows.size, 1.5), joint_q, data, change, moves


def data_at(data, moves, share):
    offset, by = data["offset"], share * moves["offset"]
    tool = np.hstack([offset[:, :3] + by[:, :3], quaternion_multiply(quaternion_exp(by[:, 3:]), offset[:, 3:])])
    wanted = quaternion_multiply(quaternion_exp(share * moves["wanted"]), data["wanted"])
    return {**data, "offset": tool, "wanted": wanted, "factor": data["factor"] + share * np.array(moves["factor"])}


def test_jacobians_are_derivatives_of_rows(case):
    robot, rows, joint_q, data, _, _ = case
    found = rows.values(body_motion(robot, joint_q), data)
    for dof, axis in enumerate(np.eye(robot.joint_dof_count)):
        ends = [robot.integrate(joint_q, sign * STEP * axis) for sign in (1.0, -1.0)]
        above, below = (rows.rows(q, robot.body_poses(q), data) for q in ends)
        np.testing.assert_allclose(found.jacobian[:, :, dof], (above - below) / (2.0 * STEP), atol=1e-7)
    assert (np.abs(found.jacobian).max(axis=(0, 2)) > 1e-2).all()
    np.testing.assert_array_equal(found.rows, rows.rows(joint_q, robot.body_poses(joint_q), data))


EVERY = ("offset", "wanted", "factor")
MOTIONS = [(1.0, ()), (0.0, ("wanted",)), (0.0, ("factor",)), (0.0, EVERY), (1.0, EVERY)]


@pytest.mark.parametrize(("speed", "moving"), MOTIONS)
def test_rates_are_those_of_a_motion_of_robot_and_data(case, speed, moving):
    robot, rows, joint_q, data, change, moves = case
    moves = {name: one if name in moving else np.zeros_like(one) for name, one in moves.items()}
    rates = {
        "offset": np.hstack([moves["offset"][:, :3], quaternion_rate(moves["offset"][:, 3:], data["offset"][:, 3:])]),
        "wanted": quaternion_rate(moves["wanted"], data["wanted"]),
        "factor": np.array(moves["factor"]),
    }
    motion = body_motion(robot, joint_q)
    along = body_rate(robot, motion, speed * change)
    found = rows.rates(motion, data, along, {name: rates[name] for name in moving})
    ends = [
        rows.values(body_motion(robot, robot.integrate(joint_q, share * speed * change)), data_at(data, moves, share))
        for share in (STEP, -STEP)
    ]
    for part in range(2):
        expected = (ends[0][part] - ends[1][part]) / (2.0 * STEP)
        assert np.abs(expected).max() > 1e-2
        np.testing.assert_allclose(found[part], expected, atol=1e-6)
