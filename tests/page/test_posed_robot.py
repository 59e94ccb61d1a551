"""A visitor's robot and targets, without a picture: branches are kept, arms that have not moved stand still."""

import numpy as np
import pytest

from ik_service import load_robot
from ik_service.mechanism.names import leaf_links
from ik_service.page.posed_robot import KEEP_BRANCH, RANDOM_TARGETS, SOLUTIONS, PosedRobot, tool_links
from ik_service.page.questions import ROTATIONS
from ik_service.robots import CollisionModel, builtin_robot_names

NOTHING = {"any_branch": False, "options": {}, "objects": {}}
ON_TARGET_M = 1e-3  # the solver's own tolerance


def moved(posed, link, way):
    pose = posed.targets[link].pose.copy()
    pose[:3] += way
    posed.change(link, pose=pose)


@pytest.mark.parametrize("name", builtin_robot_names())
def test_a_robot_begins_on_its_targets_inside_limits_and_free_of_contact(name):
    robot = load_robot(name)
    posed = PosedRobot(name, robot)
    assert posed.asked
    assert np.array_equal(robot.clamp_joint_q(posed.joint_q)[0], posed.joint_q)
    if robot.collision_model is not None:
        assert robot.collision(posed.joint_q).is_free[0]
    if robot.loops:
        assert robot.constraints.close(posed.joint_q).iterations[0] == 0
    for link, target in posed.targets.items():
        found = robot.forward_kinematics(posed.joint_q, [link])
        assert np.array_equal(target.pose[:3], found.positions[0, 0])


def test_a_robot_that_is_never_free_begins_in_the_middle_of_its_limits():
    wide = {link: [[0.0, 0.0, 0.0, 2.0]] for link in ("panda_link0", "panda_hand")}
    robot = load_robot("panda").with_collision_model(CollisionModel(wide, [("panda_link0", "panda_hand")]))
    posed = PosedRobot("stuck", robot)
    assert posed.joint_q.tobytes() == robot.mid_joint_q.tobytes()
    assert posed.closest({})[1] < 0.0


@pytest.mark.parametrize(("name", "free"), [("panda", ()), ("allegro", ROTATIONS), ("delta", ROTATIONS)])
def test_links_moved_by_few_joints_have_positions_alone(name, free):
    assert {target.free for target in PosedRobot(name, load_robot(name)).asked} == {free}


@pytest.mark.parametrize(
    ("name", "tools"),
    [
        ("panda_gripper", ["panda_hand_tcp"]),  # not one for each finger
        ("dual_panda", ["left_panda_hand", "right_panda_hand"]),
        ("allegro", leaf_links(load_robot("allegro"))),  # the palm does not move
    ],
)
def test_each_hand_of_a_robot_that_is_brought_has_one_target(name, tools):
    robot = load_robot(name)
    assert tool_links(robot) == tools
    assert list(PosedRobot("brought", robot).targets) == tools
    for link in (robot.link_names[0], robot.link_names[2]):  # a frame on the way is no tool
        assert tool_links(robot.with_frame("camera", link, [0, 0, 0, 0, 0, 0, 1])) == tools


def test_legs_of_a_floating_base_are_no_fingers():
    links = "".join(f'<link name="{name}"/>' for name in ("world", "trunk", "left", "right"))
    legs = "".join(
        f'<joint name="{name}_hip" type="continuous"><parent link="trunk"/><child link="{name}"/></joint>'
        for name in ("left", "right")
    )
    base = '<joint name="base" type="floating"><parent link="world"/><child link="trunk"/></joint>'
    assert tool_links(load_robot(f'<robot name="r">{links}{base}{legs}</robot>')) == ["left", "right"]


def test_all_solutions_are_wanted_of_six_joints_at_a_whole_pose():
    arm, longer, two = (PosedRobot(name, load_robot(name)) for name in ("ur5e", "panda", "dual_panda"))
    assert [posed.wanted_solutions() for posed in (arm, longer, two)] == ["all", SOLUTIONS, SOLUTIONS]
    arm.change("tool0", free=("rz",))
    assert arm.wanted_solutions() == SOLUTIONS
    arm.change("tool0", free=(), is_on=False)
    assert arm.wanted_solutions() == SOLUTIONS


def test_a_drag_stays_on_the_branch(solving):
    posed = PosedRobot("panda", load_robot("panda"))
    last = posed.joint_q
    for _ in range(20):
        moved(posed, "panda_hand", [0.005, 0.003, -0.004])
        question = posed.question(**NOTHING)
        assert question.options == KEEP_BRANCH
        posed.take(solving.solve(question))
        assert posed.answer.success[0]
        assert np.abs(posed.joint_q - last).max() < 0.1
        last = posed.joint_q
    hand = posed.robot.forward_kinematics(posed.joint_q, ["panda_hand"]).positions[0, 0]
    assert np.linalg.norm(hand - posed.targets["panda_hand"].pose[:3]) < ON_TARGET_M
    assert posed.question(any_branch=True, options={}, objects={}).options == {}


def test_the_other_arm_keeps_its_joints_to_the_bit(solving):
    posed = PosedRobot("dual_panda", load_robot("dual_panda"))
    posed.take(solving.solve(posed.question(**NOTHING)))
    for arm, others in (("left_panda_hand", slice(7, 14)), ("right_panda_hand", slice(0, 7))):
        before = posed.joint_q.copy()
        for _ in range(20):
            moved(posed, arm, [0.003, 0.002, 0.004])
            posed.take(solving.solve(posed.question(**NOTHING)))
            assert posed.answer.success[0]
        assert posed.joint_q[others].tobytes() == before[others].tobytes()
        assert (posed.joint_q != before).sum() == 7


def test_standing_by_hand_brings_targets_along_and_closes_loops():
    for name in ("panda", "four_bar"):
        robot = load_robot(name)
        posed = PosedRobot(name, robot)
        joint_q = np.array(posed.joint_q)
        joint_q[0] += 0.3
        posed.stand(joint_q)
        (target,) = posed.asked
        assert np.array_equal(target.pose[:3], robot.forward_kinematics(posed.joint_q, [target.link]).positions[0, 0])
        assert posed.answer is None
        if robot.loops:
            assert robot.constraints.close(posed.joint_q).iterations[0] == 0


@pytest.mark.parametrize("name", ["panda", "four_bar"])
def test_random_targets_can_be_reached(solving, name):
    posed = PosedRobot(name, load_robot(name))
    answer = solving.solve(posed.random_question(1, options={}, objects={}))
    assert len(answer.success) == RANDOM_TARGETS
    assert answer.success.mean() > 0.98
