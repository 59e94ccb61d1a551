"""Groups of joints from SRDF documents: what they have, where targets go, and the states that they name."""

import numpy as np
import pinocchio as pin
import pytest

import ik_service
from ik_service.errors import RobotFileError
from ik_service.robots import builtin_urdf, load_groups
from objectives import InputError, UnknownNameError
from tests.foreign_robots import EXAMPLE, installed, load_foreign

ARM = tuple(f"panda_joint{k}" for k in range(1, 8))
DOCUMENT = """
<robot name="panda">
  <group name="arm"><chain base_link="panda_link0" tip_link="panda_link8"/></group>
  <group name="fingers">
    <joint name="panda_finger_joint1"/><joint name="panda_finger_joint2"/><joint name="panda_hand_joint"/>
  </group>
  <group name="both"><group name="arm"/><group name="fingers"/><group name="legs"/></group>
  <group name="wrist"><link name="panda_link6"/><link name="panda_link7"/><link name="panda_link8"/></group>
  <group_state name="ready" group="arm">
    <joint name="panda_joint2" value="-0.5"/><joint name="gone" value="1"/>
  </group_state>
  <group_state name="open" group="fingers"><joint name="panda_finger_joint1" value="0.03"/></group_state>
  <end_effector name="hand" parent_link="panda_hand" group="fingers" parent_group="arm"/>
  <passive_joint name="panda_joint7"/>
</robot>"""

STATE = """<robot>
  <group name="a"/><group_state name="s" group="a"><joint name="panda_joint1" {}/></group_state>
</robot>"""


@pytest.fixture
def gripper():
    return ik_service.load_robot("panda_gripper")


def test_groups_have_the_joints_of_chains_links_and_subgroups(gripper):
    groups = load_groups(DOCUMENT, gripper)
    assert list(groups) == ["arm", "fingers", "both", "wrist"]
    assert groups["arm"].joints == ARM[:6]  # the last is passive
    assert groups["fingers"].joints == ("panda_finger_joint1",)  # which the other follows
    assert (groups["both"].joints, groups["wrist"].joints) == ((*ARM[:6], "panda_finger_joint1"), (ARM[5],))
    assert groups["fingers"].left_out == ("panda_hand_joint",)
    assert groups["both"].left_out == ("panda_hand_joint", "legs")
    assert groups["wrist"].left_out == ("panda_link8",)


def test_a_chain_may_go_up_and_down_again():
    robot = ik_service.load_robot("dual_panda")
    text = """<robot><group name="both"><chain base_link="left_panda_link5" tip_link="right_panda_link2"/></group>
    <group name="gone"><chain base_link="left_panda_link5" tip_link="tool"/></group></robot>"""
    groups = load_groups(text, robot)
    left = [f"left_panda_joint{k}" for k in range(1, 6)]
    assert groups["both"].joints == (*left, "right_panda_joint1", "right_panda_joint2")
    assert groups["both"].tips == ("right_panda_link2",)
    assert (groups["gone"].joints, groups["gone"].left_out) == ((), ("left_panda_link5 - tool",))


def test_tips_are_where_end_effectors_are_then_ends_of_chains_then_the_last_links(gripper):
    groups = load_groups(DOCUMENT, gripper)
    assert (groups["arm"].tips, groups["both"].tips) == (("panda_hand",), ("panda_link8",))
    assert groups["wrist"].tips == ("panda_link7",)
    assert groups["fingers"].tips == ("panda_leftfinger", "panda_rightfinger")
    text = """<robot><group name="torso"><chain base_link="pelvis" tip_link="torso"/></group>
    <group name="hand"><chain base_link="torso" tip_link="left_hand"/></group>
    <group name="arm"><group name="torso"/><group name="hand"/></group></robot>"""
    groups = load_groups(text, ik_service.load_robot("humanoid"))
    assert groups["torso"].tips == ("torso",)
    assert groups["arm"].tips == ("left_hand",)  # links above other tips are no tips


def test_a_state_is_a_configuration(gripper):
    groups = load_groups(DOCUMENT, gripper)
    assert groups["arm"].states == {"ready": {"panda_joint2": (-0.5,)}}
    wanted = gripper.mid_joint_q.copy()
    wanted[1] = -0.5
    np.testing.assert_array_equal(groups["arm"].state_joint_q(gripper, "ready"), wanted)
    opened = groups["fingers"].state_joint_q(gripper, "open")
    assert opened[-2:].tolist() == [0.03, 0.03]  # the follower with its leader
    with pytest.raises(UnknownNameError, match=r"has no state 'redy'.*'ready'"):
        groups["arm"].state_joint_q(gripper, "redy")


def test_a_robot_is_loaded_with_the_joints_of_a_group_alone_to_move(tmp_path):
    (tmp_path / "arm.urdf").write_bytes(builtin_urdf("panda_gripper"))
    (tmp_path / "arm.srdf").write_text(DOCUMENT)
    found = ik_service.load_robot(tmp_path / "arm.urdf", group="fingers")
    assert found.active_dof_count == 1
    alone = ik_service.load_robot(tmp_path / "arm.urdf", active=["panda_finger_joint1"])
    assert found.content_hash == alone.content_hash
    given = ik_service.load_robot("panda_gripper", group="arm", srdf=DOCUMENT)
    assert set(given.locked) == {"panda_joint7", "panda_finger_joint1"}
    by_path = ik_service.load_robot("panda_gripper", group="arm", srdf=tmp_path / "arm.srdf")
    assert by_path.content_hash == given.content_hash


@pytest.mark.parametrize(
    ("error", "arguments", "message"),
    [
        (InputError, {"group": "arm"}, "there is no SRDF document"),
        (UnknownNameError, {"group": "arms", "srdf": DOCUMENT}, "no group 'arms'.*'arm'"),
        (InputError, {"group": "arm", "srdf": DOCUMENT, "active": ["panda_joint1"]}, "active, base or tip"),
        (InputError, {"group": "arm", "srdf": DOCUMENT, "tip": "panda_link4"}, "active, base or tip"),
        (InputError, {"group": "arm", "srdf": DOCUMENT, "locked": {"panda_joint1": 0.0}}, "'panda_joint1' stands in"),
        (UnknownNameError, {"group": "arm", "srdf": "no/such.srdf"}, "'no/such.srdf' does not exist"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(error, arguments, message):
    with pytest.raises(error, match=message):
        ik_service.load_robot("panda_gripper", **arguments)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<semantics/>", "the outermost element must be <robot>"),
        ('<robot><disable_collisions link1="a"/></robot>', "attribute 'link2' is missing"),
        ("<robot><group/></robot>", "attribute 'name' is missing"),
        ('<robot><group name="a"/><group name="a"/></robot>', "group 'a'.*two groups have this name"),
        (
            '<robot><group name="a"><group name="b"/></group><group name="b"><group name="a"/></group></robot>',
            "in itself",
        ),
        ('<robot><group name="a"><group name="a"/></group></robot>', "cannot be in itself"),
        (STATE.format('value="1 2"'), "must be one finite number"),
        (STATE.format(""), "attribute 'value' is missing"),
    ],
)
def test_documents_that_say_what_cannot_be_are_refused(gripper, text, message):
    with pytest.raises(RobotFileError, match=message):
        load_groups(text, gripper)


FOREIGN = {
    "panda_description/srdf/panda.srdf": "panda_description/urdf/panda.urdf",
    "anymal_b_simple_description/srdf/anymal-kinova.srdf": "anymal_b_simple_description/robots/anymal-kinova.urdf",
    "talos_data/srdf/talos.srdf": "talos_data/robots/talos_full_v2.urdf",
    "hyq_description/srdf/hyq.srdf": "hyq_description/robots/hyq_no_sensors.urdf",
    "romeo_description/srdf/romeo_moveit.srdf": "romeo_description/urdf/romeo.urdf",
}


@pytest.mark.parametrize("srdf", FOREIGN)
def test_states_of_foreign_documents_are_those_that_pinocchio_reads(srdf):
    robot, model = load_foreign(EXAMPLE, FOREIGN[srdf], floating=False)
    path = installed(EXAMPLE, srdf)
    pin.loadReferenceConfigurations(model, str(path), False)
    groups = load_groups(path, robot)
    names = [name for group in groups.values() for name in group.states]
    compared = 0
    for group in groups.values():
        for state, values in group.states.items():
            if names.count(state) == 1:  # Pinocchio keeps one of a name
                theirs = model.referenceConfigurations[state]
                for joint, own in values.items():
                    if len(own) == model.joints[model.getJointId(joint)].nq == 1:
                        assert theirs[model.joints[model.getJointId(joint)].idx_q] == own[0]
                        compared += 1
    assert compared > 3
