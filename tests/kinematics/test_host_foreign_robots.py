"""Host kinematics and the float32 kernels against Pinocchio on robots that nobody here wrote.

Pinocchio is given our coordinates, followers included, so that its own mimic support is not needed; what followers do
is compared with the file's multipliers separately.
"""

import itertools
import re
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
import warp as wp

from ik_service.errors import RobotFileError
from ik_service.kinematics.device_kinematics import forward_kinematics, motion_subspace
from ik_service.mechanism.transforms import quaternion_multiply, quaternion_rotate
from ik_service.robots import RobotModel, load_robot
from tests.foreign_robots import CASES, EXAMPLE, Float64Array, Witness, link_jacobian, load_both, load_foreign

TOLERANCE = 1e-9
"""Both are float64; a chain of 40 joints loses about 1e-14."""
CONFIGURATIONS = 4
FLOAT32 = 1e-5  # [m, quaternion, unit twist]: a rounding of 1e-7 per joint on chains of forty, 2 m away from the origin


WITH_FOLLOWERS = {"panda.urdf": 1, "baxter.urdf": 2, "pr2.urdf": 10, "tiago_pro.urdf": 10, "talos_full_v2.urdf": 12}


def _pose_errors(robot: RobotModel, model: pin.Model, joint_q: Float64Array) -> Float64Array:
    """Give the largest difference in position [m] and quaternion of each link that both know, shape [n, links]."""
    witness = Witness(robot, model)
    links = [link for link in robot.link_names if link in witness.frames]
    poses = robot.forward_kinematics(joint_q, links)
    errors = np.empty((len(joint_q), len(links)))
    for row, configuration in enumerate(joint_q):
        witness.place(configuration)
        for column, link in enumerate(links):
            position, q_xyzw = poses.positions[row, column], poses.orientations_xyzw[row, column]
            theirs_xyzw = pin.Quaternion(witness.pose(link).rotation).coeffs()
            theirs_xyzw = theirs_xyzw * np.sign(theirs_xyzw @ q_xyzw)
            apart = np.concatenate([position - witness.pose(link).translation, q_xyzw - theirs_xyzw])
            errors[row, column] = np.abs(apart).max()
    return errors


def _jacobian_errors(robot: RobotModel, model: pin.Model, joint_q: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Give the largest difference of each link's Jacobian, shape [n, links], and the largest entry of each DOF."""
    witness = Witness(robot, model)
    links = [link for link in robot.link_names if link in witness.frames]
    positions, subspace = robot.forward_kinematics(joint_q, links).positions, robot.motion_subspace(joint_q)
    errors, largest = np.empty((len(joint_q), len(links))), np.zeros(robot.joint_dof_count)
    for row, configuration in enumerate(joint_q):
        witness.place(configuration)
        for column, link in enumerate(links):
            ours = link_jacobian(robot, subspace[row], link, positions[row, column])
            errors[row, column] = np.abs(ours - witness.jacobian(link)).max(initial=0.0)
            largest = np.maximum(largest, np.abs(ours).max(axis=0))
    return errors, largest


@pytest.mark.parametrize(("distribution", "ending", "floating"), CASES)
def test_links_and_jacobians_are_those_of_pinocchio(distribution: str, ending: str, floating: bool) -> None:
    robot, model = load_foreign(distribution, ending, floating)
    joint_q = robot.random_joint_q(np.random.default_rng(1), CONFIGURATIONS)
    errors = _pose_errors(robot, model, joint_q)
    assert errors.shape == (CONFIGURATIONS, len(robot.link_names) - floating), "all links but the world that we added"
    assert errors.max() < TOLERANCE
    assert np.ptp(robot.forward_kinematics(joint_q).positions, axis=0).max() > 0.01, "the configurations must differ"
    errors, largest = _jacobian_errors(robot, model, robot.random_joint_q(np.random.default_rng(2), 2))
    assert errors.shape == (2, len(robot.link_names) - floating)
    assert errors.max() < TOLERANCE
    assert (largest > 0.5).all(), "every DOF must have moved some link"


@pytest.mark.parametrize(("distribution", "ending", "floating"), CASES)
def test_followers_do_what_their_file_says(distribution: str, ending: str, floating: bool) -> None:
    robot, _ = load_foreign(distribution, ending, floating)
    followers = np.flatnonzero(robot.dof_leader != np.arange(robot.joint_dof_count))
    expected = WITH_FOLLOWERS.get(ending.split("/")[-1], 22 if "romeo" in ending else 0)
    assert len(followers) == expected
    joint_q = robot.random_joint_q(np.random.default_rng(3), 50)
    for dof in followers:
        leader = joint_q[:, robot.dof_coordinate[robot.dof_leader[dof]]]
        value = robot.dof_multiplier[dof] * leader + robot.dof_offset[dof]
        assert np.abs(joint_q[:, robot.dof_coordinate[dof]] - value).max() < TOLERANCE
        assert robot.dof_active[dof] == robot.dof_active[robot.dof_leader[dof]] >= 0
    has_own = robot.dof_coordinate >= 0
    own = joint_q[:, robot.dof_coordinate[has_own]]
    assert ((own >= robot.joint_limit_lower[has_own]) & (own <= robot.joint_limit_upper[has_own])).all()
    assert np.abs(robot.clamp_joint_q(joint_q) - joint_q).max() < TOLERANCE


@pytest.mark.parametrize(("distribution", "ending", "floating"), CASES)
def test_device_poses_and_jacobians_equal_those_of_pinocchio(distribution: str, ending: str, floating: bool) -> None:
    robot, theirs = load_foreign(distribution, ending, floating)
    witness, model = Witness(robot, theirs), robot.on_device("cpu")
    joint_q = robot.random_joint_q(np.random.default_rng(6), CONFIGURATIONS)
    joint_q = robot.clamp_joint_q(np.clip(joint_q, -np.pi, np.pi))  # some limits are a thousand turns or metres wide
    joint_q = joint_q.astype(np.float32).astype(np.float64)  # both sides get the same
    body_q = wp.zeros((CONFIGURATIONS, model.body_count), dtype=wp.transform, device="cpu")
    joint_S_s = wp.zeros((CONFIGURATIONS, model.joint_dof_count), dtype=wp.spatial_vector, device="cpu")
    forward_kinematics(model, wp.array(joint_q, dtype=float, device="cpu"), body_q)
    motion_subspace(model, body_q, joint_S_s)
    bodies, subspace = body_q.numpy().astype(np.float64), joint_S_s.numpy().astype(np.float64)
    compared = 0
    for row in range(CONFIGURATIONS):
        witness.place(joint_q[row])
        for link in robot.link_names:
            body, offset = robot.link_frame(link)
            if body < 0:
                continue
            position = bodies[row, body, :3] + quaternion_rotate(bodies[row, body, 3:], offset[:3])
            rotation = quaternion_multiply(bodies[row, body, 3:], offset[3:])
            expected = witness.pose(link)
            np.testing.assert_allclose(position, expected.translation, atol=FLOAT32, err_msg=link)
            matrix = np.array([quaternion_rotate(rotation, axis) for axis in np.eye(3)]).T
            np.testing.assert_allclose(matrix, expected.rotation, atol=FLOAT32, err_msg=link)
            jacobian = link_jacobian(robot, subspace[row], link, position)
            np.testing.assert_allclose(jacobian, witness.jacobian(link), atol=FLOAT32, err_msg=link)
            compared += 1
    assert compared >= CONFIGURATIONS * robot.body_count


def _all_files() -> list[Path]:
    return [
        Path(str(file.locate()))
        for distribution in (EXAMPLE, "frax")
        for file in metadata.files(distribution) or []
        if file.name.endswith(".urdf")
    ]


REFUSED = {"ur3.urdf": "the robot has no <link>."}
LEADERLESS = "line 1037, <mimic> of joint 'Left_index_q2': the joint moves by itself: 'index_q1', which it follows, "
NOT_READ = {"<collision_checking>", "<origin>", "<safety_controller>", "<self_filter>"}  # an origin of a link
NOT_READ |= {"'lower'", "'upper'", "'command_effort'", "'current'", "'gear_velocity'", "'type'"}


def test_all_files_of_the_packages_load_but_for_one_that_is_empty_and_name_what_is_not_read() -> None:
    refused, warned = {}, []
    for path in _all_files():
        try:
            warned += [(path.name, warning) for warning in load_robot(path).warnings]
        except RobotFileError as error:
            refused[path.name] = str(error)
    assert len(_all_files()) > 70
    assert refused == REFUSED
    assert ("alex_psyonic_hands.urdf", f"{LEADERLESS}does not exist.") in warned
    assert any("<mimic>" in warning and "a fixed joint does not move" in warning for _, warning in warned)
    unread = [warning for name, warning in warned if name != "alex_psyonic_hands.urdf"]
    assert len(unread) > 20
    attributes = {found[1] for one in unread if (found := re.search(r"attribute ('\w+') is not read", one))}
    elements = {found[1] for one in unread if (found := re.search(r", (<\w+>) of .*: the element is not read", one))}
    assert attributes | elements == NOT_READ


@pytest.mark.evidence
def test_every_readable_file_of_the_packages_agrees_with_pinocchio() -> None:
    """Every file that both read, fixed and floating: the figures that ``make evidence`` prints."""
    worst_pose = worst_jacobian = 0.0
    robots = links = 0
    readable = [path for path in _all_files() if path.name not in REFUSED]
    for path, floating in itertools.product(readable, (False, True)):
        robot, model = load_both(path, floating)
        joint_q = robot.random_joint_q(np.random.default_rng(robots), 10)
        poses = _pose_errors(robot, model, joint_q)
        robots, links = robots + 1, links + poses.shape[1]
        worst_pose = max(worst_pose, poses.max())
        if robot.joint_count > 0:  # Pinocchio crashes when a model without joints is asked for a Jacobian
            worst_jacobian = max(worst_jacobian, _jacobian_errors(robot, model, joint_q[:2])[0].max())
    figures = f"\n{robots} robots, {links} links: poses within {worst_pose:.1e}, Jacobians within {worst_jacobian:.1e}"
    sys.stdout.write(f"{figures}\n")
    assert robots > 140
    assert max(worst_pose, worst_jacobian) < TOLERANCE
