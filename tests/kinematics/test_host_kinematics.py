"""Float64 kinematics of every joint type against 4 x 4 matrices written out here, and against its own derivatives."""

import numpy as np
import pytest
from numpy.typing import NDArray

from ik_service.kinematics.host_poses import CONFIGURATIONS_PER_BLOCK
from ik_service.kinematics.host_tangent import body_motion, body_rate
from ik_service.robots import JointType, RobotModel, load_robot, load_urdf
from objectives.errors import InputError, UnknownNameError
from tests.robots.urdf_text import joint, urdf
from tests.solver.derivatives.chain_robot import chain_robot

Float64Array = NDArray[np.float64]

TOLERANCE = 1e-12
STEP = 1e-6
DERIVATIVE_TOLERANCE = 1e-8
"""Central differences with a step of 1e-6 on lengths of a few metres: truncation 1e-12, cancellation 1e-9."""

JOINTS = [
    ("slide", "prismatic", "base", "carriage", "0.1 0.2 0.3", "0.3 -0.2 1.1", "1 2 -2", 'lower="-1" upper="1"'),
    ("table", "planar", "carriage", "table", "0 0.1 0.4", "-0.5 0.2 0.1", "1 0 1", ""),
    ("turn", "continuous", "table", "disc", "0.3 0 0", "0 0.7 0", "0 1 1", ""),
    ("weld", "fixed", "disc", "mast", "0 0.2 0.5", "0.1 0.9 -0.4", "1 0 0", ""),
    ("shoulder", "ball", "mast", "arm", "0.05 0.02 0.2", "0.4 0.3 0.2", "1 0 0", ""),
    ("hinge", "revolute", "arm", "hand", "0.4 0 0.1", "0 0 2.0", "0 -1 0", 'lower="-2" upper="1"'),
    ("flight", "floating", "table", "drone", "0.1 0.1 0.1", "1.0 0 0.5", "1 0 0", ""),
    ("flat", "planar", "drone", "puck", "0 0 0", "0 0 0", "0 0 1", ""),
    ("down", "planar", "puck", "pad", "0 0 0.1", "0 0 0", "0 0 -1", ""),
    ("tip", "fixed", "pad", "nail", "0 0 0.3", "3.0 0 0", "1 0 0", ""),
]


@pytest.fixture(scope="module")
def robot() -> RobotModel:
    """Give a robot with every joint type, ball and floating ones deep in the tree."""
    joints = [joint(*one, inside=f"<limit {limit}/>" if limit else "") for *one, limit in JOINTS]
    return load_urdf(urdf("all types", "base", *joints))


@pytest.fixture(scope="module")
def joint_q(robot: RobotModel) -> Float64Array:
    return robot.random_joint_q(np.random.default_rng(5), 6)


def _turn(axis: Float64Array, angle: float) -> Float64Array:
    x, y, z = axis
    K = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + np.sin(angle) * K + (1 - np.cos(angle)) * K @ K


def _of_quaternion(q_xyzw: Float64Array) -> Float64Array:
    angle = 2 * np.arctan2(np.linalg.norm(q_xyzw[:3]), q_xyzw[3])
    return _turn(q_xyzw[:3] / np.linalg.norm(q_xyzw[:3]), angle)


def _matrix(rotation: Float64Array, position: Float64Array) -> Float64Array:
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = rotation, position
    return T


def _motion(kind: str, axis: Float64Array, q: Float64Array) -> Float64Array:
    if kind == "prismatic":
        return _matrix(np.eye(3), axis * q[0])
    if kind == "planar":
        across = np.cross([0, 0, 1.0], axis)
        sine = np.linalg.norm(across)
        if sine > 1e-9:  # the smallest rotation that takes z to the axis
            plane = _turn(across / sine, np.arctan2(sine, axis[2]))
        else:  # looking down, any half turn about an axis in the plane is a smallest one: not for this oracle
            plane = np.eye(3) if axis[2] > 0 else np.full((3, 3), np.nan)
        return _matrix(_turn(axis, q[2]), plane[:, 0] * q[0] + plane[:, 1] * q[1])
    if kind == "ball":
        return _matrix(_of_quaternion(q), np.zeros(3))
    if kind == "floating":
        return _matrix(_of_quaternion(q[3:]), q[:3])
    return _matrix(_turn(axis, q[0]), np.zeros(3)) if len(q) else np.eye(4)


def _poses_by_matrices(robot: RobotModel, joint_q: Float64Array) -> dict[str, Float64Array]:
    poses = {"base": np.eye(4)}
    for name, kind, parent, child, xyz, rpy, axis_text, _ in JOINTS:
        roll, pitch, yaw = map(float, rpy.split())
        ex, ey, ez = np.eye(3)
        X = _matrix(_turn(ez, yaw) @ _turn(ey, pitch) @ _turn(ex, roll), np.array(xyz.split(), dtype=float))
        axis = np.array(axis_text.split(), dtype=float)
        q = np.zeros(0)
        if kind != "fixed":
            joint = robot.joint_index(name)
            q = joint_q[robot.joint_q_start[joint] : robot.joint_q_start[joint + 1]]
        poses[child] = poses[parent] @ X @ _motion(kind, axis / np.linalg.norm(axis), q)
    return poses


def test_links_stand_where_matrices_put_them(robot: RobotModel, joint_q: Float64Array) -> None:
    links = [link for link in robot.link_names if link not in ("pad", "nail")]  # below the half turn, see the next test
    ours = robot.forward_kinematics(joint_q, links)
    for row, configuration in enumerate(joint_q):
        expected = _poses_by_matrices(robot, configuration)
        for column, link in enumerate(links):
            assert np.abs(ours.positions[row, column] - expected[link][:3, 3]).max() < TOLERANCE, link
            rotation = _of_quaternion(ours.orientations_xyzw[row, column]) if link != "base" else np.eye(3)
            assert np.abs(rotation - expected[link][:3, :3]).max() < TOLERANCE, link
    assert len(links) == 9
    start, scaled = robot.joint_q_start[robot.joint_index("shoulder")], joint_q.copy()
    scaled[:, start : start + 4] *= 3.0  # quaternions are normalised before use
    for again, first in zip(robot.forward_kinematics(scaled, links), ours, strict=True):
        assert np.abs(again - first).max() < TOLERANCE
    np.testing.assert_allclose((scaled[:, start : start + 4] ** 2).sum(axis=1), 9.0)


def test_a_planar_joint_that_looks_down_slides_in_its_own_plane(robot: RobotModel) -> None:
    joint = robot.joint_index("down")
    axes = robot.joint_axis[robot.joint_qd_start[joint] : robot.joint_qd_start[joint + 1]]
    assert np.abs(axes @ axes.T - np.eye(3)).max() < TOLERANCE
    assert np.abs(np.cross(axes[0], axes[1]) - [0, 0, -1]).max() < TOLERANCE
    assert np.abs(axes[2] - [0, 0, -1]).max() < TOLERANCE


def test_body_poses_are_the_poses_of_the_links_that_joints_move(robot: RobotModel, joint_q: Float64Array) -> None:
    moved = [child for _, kind, _, child, *_ in JOINTS if kind != "fixed"]
    order = sorted(moved, key=lambda link: robot.link_frame(link)[0])
    poses = robot.forward_kinematics(joint_q, order)
    expected = np.concatenate([poses.positions, poses.orientations_xyzw], axis=-1)
    assert np.array_equal(robot.body_poses(joint_q), expected)
    assert expected.shape == (6, robot.body_count, 7)


def test_one_configuration_and_many_give_the_same(robot: RobotModel) -> None:
    many = robot.random_joint_q(np.random.default_rng(7), 2 * CONFIGURATIONS_PER_BLOCK + 3)
    joint_qd = np.random.default_rng(8).standard_normal((len(many), robot.joint_dof_count))

    def found(joint_q, joint_qd):
        poses, jacobian = robot.forward_kinematics(joint_q, ["hand", "nail"]), robot.jacobian(joint_q, ["nail"])
        return *poses, robot.motion_subspace(joint_q), jacobian, robot.jacobian_dot(joint_q, joint_qd, ["nail"])

    together = found(many, joint_qd)
    for row in (0, CONFIGURATIONS_PER_BLOCK - 1, CONFIGURATIONS_PER_BLOCK, len(many) - 1):
        for alone, all_of_them in zip(found(many[row], joint_qd[row]), together, strict=True):
            assert np.abs(alone[0] - all_of_them[row]).max() < TOLERANCE
    none = robot.forward_kinematics(many[:0])
    assert none.positions.shape == (0, len(robot.link_names), 3)
    assert robot.motion_subspace(many[:0]).shape == (0, robot.joint_dof_count, 6)


def _angular_velocity(start_xyzw: Float64Array, end_xyzw: Float64Array) -> Float64Array:
    """Give 2 vec(end * conj(start)), the rotation vector of a small turn in the world frame."""
    v0, w0, v1, w1 = start_xyzw[..., :3], start_xyzw[..., 3:], end_xyzw[..., :3], end_xyzw[..., 3:]
    return np.asarray(2.0 * (w0 * v1 - w1 * v0 - np.cross(v1, v0)))


def test_jacobians_are_the_derivatives_of_poses(robot: RobotModel, joint_q: Float64Array) -> None:
    found = robot.jacobian(joint_q)
    assert found.shape == (len(joint_q), len(robot.link_names), 6, robot.joint_dof_count)
    for dof in range(robot.joint_dof_count):
        step = np.zeros(robot.joint_dof_count)
        step[dof] = STEP
        forth, back = (robot.forward_kinematics(robot.integrate(joint_q, way * step)) for way in (1.0, -1.0))
        velocity = (forth.positions - back.positions) / (2 * STEP)
        angular = _angular_velocity(back.orientations_xyzw, forth.orientations_xyzw) / (2 * STEP)
        np.testing.assert_allclose(found[..., :3, dof], velocity, atol=DERIVATIVE_TOLERANCE)
        np.testing.assert_allclose(found[..., 3:, dof], angular, atol=DERIVATIVE_TOLERANCE)
    assert not found[:, robot.link_index("base")].any()
    of_one = robot.jacobian(joint_q[2], ["nail", "hand"])
    some = found[2, [robot.link_index("nail"), robot.link_index("hand")]]
    np.testing.assert_allclose(of_one[0], some, atol=TOLERANCE)


def test_rates_of_jacobians_and_subspaces_are_their_derivatives_along_a_motion(
    robot: RobotModel, joint_q: Float64Array
) -> None:
    joint_qd = np.random.default_rng(2).standard_normal((len(joint_q), robot.joint_dof_count))
    rate = robot.jacobian_dot(joint_q, joint_qd)
    for found, function in (
        (body_rate(robot, body_motion(robot, joint_q), joint_qd).S.swapaxes(1, 2), robot.motion_subspace),
        (rate, robot.jacobian),
    ):
        ahead, behind = (function(robot.integrate(joint_q, way * STEP * joint_qd)) for way in (1.0, -1.0))
        expected = (ahead - behind) / (2.0 * STEP)
        expected = expected.swapaxes(1, 2) if expected.ndim == 3 else expected
        np.testing.assert_allclose(found, expected, atol=10.0 * DERIVATIVE_TOLERANCE)
        assert (np.abs(found).reshape(-1, robot.joint_dof_count).max(axis=0) > 0.1).sum() > 10
    same = robot.jacobian_dot(joint_q, joint_qd[0])  # velocities that all have
    assert np.array_equal(same[0], rate[0])
    with pytest.raises(InputError, match="6 rows and joint_qd 2"):
        robot.jacobian_dot(joint_q, joint_qd[:2])


def test_leaders_move_what_their_followers_move() -> None:
    robot = load_robot("panda_gripper")
    (follower,) = robot.follower_dofs
    leader = int(robot.dof_leader[follower])
    q = robot.random_joint_q(np.random.default_rng(3), 5)
    links = ["panda_leftfinger", "panda_rightfinger"]
    found = robot.jacobian(q, links)
    assert not found[..., follower].any()
    step = np.zeros(robot.joint_coord_count)
    step[robot.dof_coordinate[leader]] = STEP
    forth, back = (robot.forward_kinematics(robot.complete_joint_q(q + way * step), links) for way in (1.0, -1.0))
    velocity = (forth.positions - back.positions) / (2 * STEP)
    np.testing.assert_allclose(found[..., :3, leader], velocity, atol=DERIVATIVE_TOLERANCE)
    np.testing.assert_allclose(np.linalg.norm(velocity, axis=-1), 1.0, atol=DERIVATIVE_TOLERANCE)  # both fingers


def test_integration_turns_by_left_products_in_the_joint_parent_frame(robot: RobotModel) -> None:
    joint = robot.joint_index("shoulder")
    start = robot.mid_joint_q
    dq = np.zeros(robot.joint_dof_count)
    own = slice(robot.joint_q_start[joint], robot.joint_q_start[joint + 1])
    first = robot.joint_qd_start[joint]
    dq[first] = np.pi / 2  # about x
    after_x = robot.integrate(start, dq)
    assert np.abs(after_x[0, own] - [np.sqrt(0.5), 0, 0, np.sqrt(0.5)]).max() < TOLERANCE
    dq[first], dq[first + 1] = 0.0, np.pi  # then about the fixed y, not the turned one
    assert np.abs(robot.integrate(after_x, dq)[0, own] - [0, np.sqrt(0.5), -np.sqrt(0.5), 0]).max() < TOLERANCE


def test_integrated_quaternions_stay_unit(robot: RobotModel, joint_q: Float64Array) -> None:
    rng = np.random.default_rng(3)
    q = joint_q
    for _ in range(1000):
        q = robot.integrate(q, rng.standard_normal((len(q), robot.joint_dof_count)))
    for name, offset in (("shoulder", 0), ("flight", 3)):
        start = robot.joint_q_start[robot.joint_index(name)] + offset
        assert np.abs(np.linalg.norm(q[:, start : start + 4], axis=-1) - 1.0).max() < 1e-14


def test_integration_broadcasts_and_leaves_its_inputs_alone(robot: RobotModel, joint_q: Float64Array) -> None:
    before = joint_q.copy()
    dq = np.full(robot.joint_dof_count, 0.1)
    assert robot.integrate(joint_q, dq).shape == joint_q.shape
    assert robot.integrate(joint_q[0], np.tile(dq, (4, 1))).shape == (4, robot.joint_coord_count)
    assert np.array_equal(joint_q, before)
    with pytest.raises(InputError, match="6 rows and dq 2"):
        robot.integrate(joint_q, np.tile(dq, (2, 1)))


def test_bad_configurations_are_refused_by_place(robot: RobotModel, joint_q: Float64Array) -> None:
    width, flight = robot.joint_coord_count, robot.joint_q_start[robot.joint_index("flight")] + 3
    wrong, zero = joint_q.copy(), joint_q.copy()
    wrong[2, 3], zero[1, flight : flight + 4] = np.nan, 0.0
    shape = rf"shape \[6, {width - 1}\]; robot 'all types' needs \[{width}\]"
    for call, words in (
        (lambda: robot.forward_kinematics(wrong), r"joint_q\[2, 3\] is nan"),
        (lambda: robot.body_poses(zero), r"joint_q\[1\]: the quaternion of joint 'flight' has length zero"),
        (lambda: robot.motion_subspace(joint_q[:, 1:]), shape),
        (lambda: robot.forward_kinematics(["a"] * width), "must be numbers"),
        (lambda: robot.forward_kinematics(joint_q, "hand"), "list of names"),
        (lambda: robot.random_joint_q(np.random.default_rng(0), -1), "negative"),
    ):
        with pytest.raises(InputError, match=words):
            call()
    with pytest.raises(UnknownNameError, match=r"Link 'hnd' is not in robot 'all types'. Did you mean 'hand'"):
        robot.forward_kinematics(joint_q, ["hnd"])


def test_random_configurations_fill_the_limits_and_no_more() -> None:
    robot = load_robot("panda_gripper")
    q = robot.random_joint_q(np.random.default_rng(0), 20_000)
    lower, upper = robot.joint_limit_lower, robot.joint_limit_upper
    assert ((q >= lower) & (q <= upper)).all()
    assert ((q.max(axis=0) - q.min(axis=0)) / (upper - lower) > 0.99).all()
    first, second = (robot.random_joint_q(np.random.default_rng(4), 3) for _ in range(2))
    assert np.array_equal(first, second)
    half = load_urdf(urdf("one", "a", joint("j", "prismatic", "a", "b", limit=(0.5, 1e6))))  # opens a range
    q = half.random_joint_q(np.random.default_rng(0), 1000)
    assert (half.joint_limit_upper[0], half.mid_joint_q[0]) == (np.inf, 0.5)
    assert q.min() >= 0.5
    assert 2.4 < q.max() <= 2.5


def test_random_configurations_without_limits_have_sensible_ranges(robot: RobotModel) -> None:
    q = robot.random_joint_q(np.random.default_rng(0), 5000)
    table = robot.joint_q_start[robot.joint_index("table")]
    assert 0.99 < np.abs(q[:, table : table + 2]).max() <= 1.0
    assert 3.13 < np.abs(q[:, table + 2]).max() <= np.pi
    shoulder = robot.joint_q_start[robot.joint_index("shoulder")]
    second_moments = q[:, shoulder : shoulder + 4].T @ q[:, shoulder : shoulder + 4] / len(q)
    assert np.abs(second_moments - np.eye(4) / 4).max() < 0.02  # uniform on the sphere; five standard errors


def test_joint_types_have_the_counts_of_the_conventions(robot: RobotModel) -> None:
    counts = {"PLANAR": (3, 3), "BALL": (4, 3), "FLOATING": (7, 6)}
    found = zip(robot.joint_type, np.diff(robot.joint_q_start), np.diff(robot.joint_qd_start), strict=True)
    for kind, coordinates, dofs in found:
        assert (coordinates, dofs) == counts.get(JointType(kind).name, (1, 1))
    assert len({*robot.joint_type}) == 6


def test_poses_have_the_same_bytes_alone_and_among_others():
    robot = chain_robot()
    joint_q = robot.random_joint_q(np.random.default_rng(0), 40)
    together, alone = robot.forward_kinematics(joint_q), [robot.forward_kinematics(one) for one in joint_q]
    for field in ("positions", "orientations_xyzw"):
        each = np.concatenate([getattr(one, field) for one in alone])
        assert each.tobytes() == getattr(together, field).tobytes()
