"""Requests of MoveIt and their answers, judged by forward kinematics in float64."""

import numpy as np
import pytest

from ik_service import load_robot
from ik_service.integrations.ros.adapter import AdapterSettings, KinematicsAdapter
from ik_service.integrations.ros.described_robot import groups_of_lines
from ik_service.integrations.ros.error_codes import MoveItErrorCode
from ik_service.mechanism.transforms import (
    quaternion_conjugate,
    quaternion_multiply,
    rotation_vector,
    transform_inverse,
    transform_multiply,
)
from ik_service.robots import Box, World
from tests.integrations.ros.plain_messages import TYPES, ik_request, message, pose_values, service

POSITION, ORIENTATION = 1e-4, 1e-3  # [m], [rad] the adapter's own tolerances
EXACT = 1e-12  # of a composition of a few transforms in float64
NEAR = 0.02  # [rad] what the tolerances allow a joint to move while the tip stays
HAND, LEFT, RIGHT = "panda_hand", "left_panda_hand", "right_panda_hand"
READY = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.8, 0.7])  # no joint at 0 or at a limit by chance alone


def adapter_of(robot, lines, **arguments):
    return KinematicsAdapter(robot, groups_of_lines(robot, lines), messages=TYPES, **arguments)


@pytest.fixture(scope="module")
def panda():
    return adapter_of(load_robot("panda"), ["arm=panda_hand"])


@pytest.fixture(scope="module")
def two_arms():
    lines = ["left=left_panda_hand", "right=right_panda_hand", "both=left_panda_hand,right_panda_hand"]
    return adapter_of(load_robot("dual_panda"), lines)


def state(robot, joint_q):
    return dict(zip(robot.coordinate_names, map(float, joint_q), strict=True))


def pose_of(robot, joint_q, link):
    poses = robot.forward_kinematics(np.asarray(joint_q), [link])
    return np.concatenate((poses.positions[0, 0], poses.orientations_xyzw[0, 0]))


def answer_of(robot, response):
    """The configuration that an answer says, in the robot's order."""
    given = response.solution.joint_state
    assert response.error_code.val == MoveItErrorCode.SUCCESS, response.error_code
    assert sorted(given.name) == sorted(robot.coordinate_names)
    return np.array([given.position[given.name.index(name)] for name in robot.coordinate_names])


def assert_reaches(robot, joint_q, link, pose):
    found = pose_of(robot, joint_q, link)
    turn = rotation_vector(quaternion_multiply(found[3:], quaternion_conjugate(np.asarray(pose[3:]))))
    assert np.linalg.norm(found[:3] - pose[:3]) < POSITION
    assert np.linalg.norm(turn) < ORIENTATION


def solved(adapter, *arguments, **fields):
    request, response = ik_request(*arguments, **fields)
    assert adapter.solve_position_ik(request, response) is response
    return response


def reached(adapter, group, joint_q, tips=(HAND,), frame="", seed=READY, **fields):
    """The answer to poses that a configuration has, which takes the tips there."""
    robot, poses = adapter.robot, [pose_of(adapter.robot, joint_q, tip) for tip in tips]
    start = seed if seed is None or isinstance(seed, dict) else state(robot, seed)
    found = answer_of(robot, solved(adapter, group, tips, poses, frame, start, **fields))
    for tip, pose in zip(tips, poses, strict=True):
        assert_reaches(robot, found, tip, pose)
    return found


def random_q(robot, seed):
    return robot.random_joint_q(np.random.default_rng(seed), 1)[0]


def test_poses_are_reached_within_limits(panda):
    for seed in range(20):
        found = reached(panda, "arm", random_q(panda.robot, seed), frame="panda_link0")
        assert (found >= panda.robot.joint_limit_lower).all()
        assert (found <= panda.robot.joint_limit_upper).all()


def test_the_answer_is_the_solution_nearest_the_seed(panda):
    for seed in range(5):
        joint_q = random_q(panda.robot, seed)
        assert np.abs(reached(panda, "arm", joint_q, seed=joint_q) - joint_q).max() < NEAR


@pytest.mark.parametrize("frame", ["", "world", "panda_link0", "/panda_link0"])
def test_these_frames_are_the_root(panda, frame):
    reached(panda, "arm", READY, frame=frame)


@pytest.mark.parametrize("fields", [{}, {"ik_link_names": []}], ids=["named", "those of the group"])
def test_several_tips_are_solved_together(two_arms, fields):
    joint_q = random_q(two_arms.robot, 1)
    reached(two_arms, "both", joint_q, (LEFT, RIGHT), seed=np.tile(READY, 2), **fields)


def test_a_frame_may_be_on_a_part_that_the_group_does_not_move(two_arms):
    robot = two_arms.robot
    joint_q = robot.random_joint_q(np.random.default_rng(3), 1)[0]
    pose = pose_of(robot, joint_q, LEFT)
    in_right = transform_multiply(transform_inverse(pose_of(robot, joint_q, RIGHT)), pose)
    response = solved(two_arms, "left", [LEFT], [in_right], RIGHT, state(robot, joint_q))
    found = answer_of(robot, response)
    assert_reaches(robot, found, LEFT, pose)
    is_right = np.array([name.startswith("right") for name in robot.coordinate_names])
    assert is_right.sum() == 7
    assert (found[is_right] == joint_q[is_right]).all()  # to the last digit of float64


def test_a_frame_that_the_group_moves_is_refused(two_arms):
    response = solved(two_arms, "left", [LEFT], [[0, 0, 0, 0, 0, 0, 1]], "left_panda_link4")
    assert response.error_code.val == MoveItErrorCode.FRAME_TRANSFORM_FAILURE
    assert "left_panda_joint1" in response.error_code.message


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"group_name": "leg"}, MoveItErrorCode.INVALID_GROUP_NAME),
        ({"ik_link_name": "toe"}, MoveItErrorCode.INVALID_LINK_NAME),
        ({"ik_link_name": "panda_link0"}, MoveItErrorCode.INVALID_LINK_NAME),
        ({"frame": "map"}, MoveItErrorCode.FRAME_TRANSFORM_FAILURE),
        ({"pose": [0.4, 0, 0.4, 0, 0, 0, 0]}, MoveItErrorCode.INVALID_GOAL_CONSTRAINTS),
        ({"pose": [np.nan, 0, 0.4, 0, 0, 0, 1]}, MoveItErrorCode.INVALID_GOAL_CONSTRAINTS),
        ({"seed": {"toe": 0.0}}, MoveItErrorCode.INVALID_ROBOT_STATE),
        ({"seed": {"panda_joint1": np.inf}}, MoveItErrorCode.INVALID_ROBOT_STATE),
        ({"ik_link_names": [HAND, HAND], "count": 2}, MoveItErrorCode.INVALID_LINK_NAME),
        ({"ik_link_names": [HAND], "count": 2}, MoveItErrorCode.INVALID_GOAL_CONSTRAINTS),
        ({"pose": [3, 0, 0.4, 0, 0, 0, 1]}, MoveItErrorCode.NO_IK_SOLUTION),
    ],
)
def test_what_is_wrong_has_a_code_and_a_sentence(panda, changes, code):
    pose = changes.pop("pose", [0.4, 0.1, 0.5, 1, 0, 0, 0])
    request, response = ik_request("arm", [HAND], [pose], changes.pop("frame", ""), changes.pop("seed", None))
    request.ik_request.pose_stamped_vector = [request.ik_request.pose_stamped] * changes.pop("count", 0)
    vars(request.ik_request).update(changes)
    panda.solve_position_ik(request, response)
    assert response.error_code.val == code
    assert response.error_code.message.endswith(".")
    assert (response.error_code.source, response.solution.joint_state.name) == ("ik_service", [])


def test_answers_have_no_text_where_the_message_has_no_field_for_it(panda):
    request, response = ik_request("leg", [HAND], [[0.4, 0.1, 0.5, 1, 0, 0, 0]])
    response.error_code.__dict__.pop("message")
    response.error_code.__dict__.pop("source")
    assert vars(panda.solve_position_ik(request, response).error_code) == {"val": MoveItErrorCode.INVALID_GROUP_NAME}


def test_a_timeout_ends_a_solve(panda):
    request, response = ik_request("arm", [HAND], [[3, 0, 0.4, 0, 0, 0, 1]])
    request.ik_request.timeout.nanosec = 1
    assert panda.solve_position_ik(request, response).error_code.val == -6  # TIMED_OUT


def test_joints_that_a_request_does_not_name_are_where_they_were_heard():
    adapter = adapter_of(load_robot("dual_panda"), ["left=left_panda_hand"])
    adapter.hear(message("sensor_msgs/JointState", name=["right_panda_joint2", "wheel"], position=[0.25, 3.0]))
    seed = {f"left_panda_joint{k + 1}": value for k, value in enumerate(READY)}
    found = reached(adapter, "left", np.tile(READY, 2), [LEFT], seed=seed)
    others = dict(zip(adapter.robot.coordinate_names, found, strict=True))
    assert others["right_panda_joint2"] == 0.25
    assert others["right_panda_joint1"] == 0.0  # never heard of, and its limits allow it
    assert others["right_panda_joint4"] == adapter.robot.mid_joint_q[10]  # they forbid 0


def test_joint_constraints_narrow_limits(panda):
    constraints = message("moveit_msgs/Constraints")
    bounds = {"joint_name": "panda_joint1", "position": 0.4, "tolerance_above": 0.05, "tolerance_below": 0.1}
    constraints.joint_constraints = [message("moveit_msgs/JointConstraint", **bounds)]
    assert 0.3 <= reached(panda, "arm", READY, constraints=constraints)[0] <= 0.45
    pose = pose_of(panda.robot, READY, HAND)

    def refused(constraints):
        return solved(panda, "arm", [HAND], [pose], seed=state(panda.robot, READY), constraints=constraints).error_code

    constraints.joint_constraints[0].position = 7.0
    assert refused(constraints).val == MoveItErrorCode.NO_IK_SOLUTION
    constraints.joint_constraints[0].joint_name = "toe"
    assert refused(constraints).val == MoveItErrorCode.INVALID_GOAL_CONSTRAINTS
    assert "'toe'" in refused(constraints).message
    constraints = message("moveit_msgs/Constraints", orientation_constraints=[None])
    assert refused(constraints).val == MoveItErrorCode.INVALID_GOAL_CONSTRAINTS


def test_collisions_are_avoided_where_that_is_asked_for():
    robot = load_robot("panda")
    seed = READY + np.array([0.8, 0, 0, 0, 0, 0, 0])
    elbow = robot.forward_kinematics(seed, ["panda_link4"]).positions[0, 0]
    world = World({"ball": Box((0.1, 0.1, 0.1), (*elbow, 0.0, 0.0, 0.0, 1.0))})
    adapter = adapter_of(robot, ["arm=panda_hand"], world=world)
    for avoids in (False, True):
        found = reached(adapter, "arm", seed, seed=seed, avoid_collisions=avoids)
        assert (robot.collision(found, world).clearance[0] >= 0.0) == avoids


def test_a_robot_without_collision_model_is_solved_and_noted_once():
    notes = []
    adapter = adapter_of(load_robot("panda", collision="ignore"), ["arm=panda_hand"], note=notes.append)
    for _ in range(2):
        reached(adapter, "arm", READY, seed=None, avoid_collisions=True)
    assert len(notes) == 1
    assert "collision model" in notes[0]


def test_any_group_is_taken_where_none_are_known():
    adapter = KinematicsAdapter(load_robot("panda"), {}, messages=TYPES, settings=AdapterSettings(nearest=False))
    reached(adapter, "any", READY, seed=None)
    request, response = ik_request("any", [HAND], [pose_of(adapter.robot, READY, HAND)])
    request.ik_request.ik_link_name = ""
    assert adapter.solve_position_ik(request, response).error_code.val == MoveItErrorCode.INVALID_LINK_NAME


@pytest.mark.evidence
def test_the_base_of_a_floating_robot_is_a_transform():
    robot = load_robot("panda", floating_base=True)
    adapter = adapter_of(robot, ["arm=panda_link0:panda_hand"])
    base = np.array([1.0, 2.0, 0.5, 0.0, 0.0, np.sqrt(0.5), np.sqrt(0.5)])
    joint_q = np.concatenate((base, READY))
    pose = pose_of(robot, joint_q, HAND)
    request, response = ik_request("arm", [HAND], [pose], "world", state(robot, joint_q))
    names = request.ik_request.robot_state.joint_state
    names.name, names.position = names.name[7:], names.position[7:]
    transform = TYPES.Transform()
    place, turn = transform.translation, transform.rotation
    place.x, place.y, place.z, turn.x, turn.y, turn.z, turn.w = base
    request.ik_request.robot_state.multi_dof_joint_state.joint_names = ["floating_base"]
    request.ik_request.robot_state.multi_dof_joint_state.transforms = [transform]
    adapter.solve_position_ik(request, response)
    assert response.error_code.val == MoveItErrorCode.SUCCESS, response.error_code
    moved = response.solution.multi_dof_joint_state.transforms[0]
    values = [*vars(moved.translation).values(), *vars(moved.rotation).values()]
    np.testing.assert_allclose(values, base, atol=EXACT)
    assert_reaches(robot, [*base, *response.solution.joint_state.position], HAND, pose)


def fk_request(links, frame, seed):
    request, response = service("moveit_msgs/GetPositionFK")
    request.fk_link_names, request.header.frame_id = links, frame
    request.robot_state.joint_state.name = list(seed)
    request.robot_state.joint_state.position = list(seed.values())
    return request, response


@pytest.mark.parametrize("frame", ["", "panda_link0", "panda_link3"])
def test_forward_kinematics_in_any_frame_of_the_robot(panda, frame):
    request, response = fk_request(["panda_link5", HAND], frame, state(panda.robot, READY))
    panda.solve_position_fk(request, response)
    assert response.error_code.val == MoveItErrorCode.SUCCESS
    assert response.fk_link_names == ["panda_link5", HAND]
    placed = pose_of(panda.robot, READY, frame or "panda_link0")
    for link, stamped in zip(response.fk_link_names, response.pose_stamped, strict=True):
        assert stamped.header.frame_id == (frame or "panda_link0")
        world = transform_multiply(placed, np.array(pose_values(stamped.pose)))
        np.testing.assert_allclose(world, pose_of(panda.robot, READY, link), atol=EXACT)


@pytest.mark.parametrize(
    ("links", "frame", "code"),
    [
        (["toe"], "", MoveItErrorCode.INVALID_LINK_NAME),
        ([], "", MoveItErrorCode.INVALID_LINK_NAME),
        ([HAND], "map", MoveItErrorCode.FRAME_TRANSFORM_FAILURE),
    ],
)
def test_forward_kinematics_refuses(panda, links, frame, code):
    request, response = fk_request(links, frame, {})
    assert panda.solve_position_fk(request, response).error_code.val == code
    assert response.pose_stamped == []


def test_numbers_that_nothing_can_be_computed_with_end_no_node(panda):
    for x, start in ((0.4, 1e300), (1e300, 0.0)):
        response = solved(panda, "arm", [HAND], [[x, 0.1, 0.5, 1, 0, 0, 0]], seed={"panda_joint1": start})
        assert response.error_code.val == MoveItErrorCode.FAILURE


def test_followers_are_in_the_answer():
    robot = load_robot("panda_gripper")
    adapter = adapter_of(robot, ["arm=panda_hand"])
    seed = {**{f"panda_joint{k + 1}": value for k, value in enumerate(READY)}, "panda_finger_joint1": 0.02}
    found = reached(adapter, "arm", [*READY, 0.02, 0.02], seed=seed)
    assert found[robot.coordinate_names.index("panda_finger_joint2")] == 0.02
