"""Added frames and parts of robots."""

import numpy as np
import pytest

from ik_service.mechanism.transforms import transform_inverse, transform_multiply
from ik_service.robots import RobotModel, load_robot, load_urdf
from objectives.errors import InputError, UnknownNameError

TOLERANCE = 1e-12
QUARTER_TURN = [0.0, 0.0, np.sqrt(0.5), np.sqrt(0.5)]


def _relative(robot: RobotModel, joint_q: np.ndarray, root: str, link: str) -> np.ndarray:
    """Give ``T_root_link``, shape [n, 7], with a quaternion of positive w."""
    poses = robot.forward_kinematics(joint_q, [root, link])
    T_world = np.concatenate([poses.positions, poses.orientations_xyzw], axis=-1)
    relative = transform_multiply(transform_inverse(T_world[:, 0]), T_world[:, 1])
    relative[:, 3:] *= np.sign(relative[:, 6:])
    return relative


def _agrees(whole: RobotModel, part: RobotModel, root: str) -> int:
    """Compare every link of a part with the whole and give how many were compared."""
    q_part = part.random_joint_q(np.random.default_rng(1), 5)
    q_whole = np.tile(whole.mid_joint_q, (5, 1))
    for column, name in enumerate(part.coordinate_names):
        q_whole[:, whole.coordinate_names.index(name)] = q_part[:, column]
    for link in part.link_names:
        difference = _relative(part, q_part, root, link) - _relative(whole, q_whole, root, link)
        assert np.abs(difference).max() < TOLERANCE, link
    at_root = part.forward_kinematics(q_part, [root])
    assert np.abs(at_root.positions).max() < TOLERANCE
    return len(part.link_names)


def test_one_arm_of_two_is_cut_out() -> None:
    whole = load_robot("dual_panda")
    part = whole.subrobot("left_panda_link0")
    assert part.joint_names == tuple(f"left_panda_joint{i}" for i in range(1, 8))
    assert part.link_names[0] == "left_panda_link0"
    assert part.link_parent[0] == -1
    assert part.joint_parent[0] == -1
    assert _agrees(whole, part, "left_panda_link0") == 10
    assert part.active_limit_lower[3] == -3.0718


def test_a_part_may_start_on_a_moving_link_behind_a_folded_joint() -> None:
    whole = load_robot("panda_gripper")
    part = whole.subrobot("panda_hand")
    assert part.joint_names == ("panda_finger_joint1", "panda_finger_joint2")
    assert part.link_names == ("panda_hand", "panda_hand_tcp", "panda_leftfinger", "panda_rightfinger")
    assert part.dof_leader.tolist() == [0, 0]
    assert _agrees(whole, part, "panda_hand") == 4


def test_a_chain_is_a_branch_that_stops() -> None:
    whole = load_robot("humanoid")
    part = whole.subrobot("torso", branches=["left_hand"], stop_at=["left_hand"])
    assert part.link_names[-1] == "left_hand"
    assert "left_grasp" not in part.link_names
    assert part.joint_count == 6
    assert _agrees(whole, part, "torso") == 7


def test_branches_keep_what_is_below_them() -> None:
    whole = load_robot("humanoid")
    part = whole.subrobot("pelvis", branches=["torso", "left_foot"], stop_at=["head"])
    assert {"left_grasp", "right_grasp", "left_sole", "head"} <= set(part.link_names)
    assert not {"right_foot", "head_camera", "world"} & set(part.link_names)
    assert part.joint_count == 2 + 14 + 6
    assert _agrees(whole, part, "pelvis") > 20


def test_locks_and_added_frames_go_along() -> None:
    whole = load_robot("panda").with_frame("tool", "panda_hand", [0, 0, 0.2, *QUARTER_TURN]).lock({"panda_joint5": 0.7})
    part = whole.subrobot("panda_link3")
    assert dict(part.locked) == {"panda_joint5": (0.7,)}
    assert "tool" in part.link_names
    assert part.subrobot("panda_link6").locked == {}
    assert _agrees(whole, part, "panda_link3") == 8


def test_a_follower_needs_its_leader_or_a_lock() -> None:
    text = (
        '<robot><link name="a"/><link name="b"/><link name="c"/>'
        '<joint name="lead" type="continuous"><parent link="a"/><child link="b"/></joint>'
        '<joint name="follow" type="continuous"><parent link="b"/><child link="c"/>'
        '<mimic joint="lead" multiplier="2" offset="0.1"/></joint></robot>'
    )
    robot = load_urdf(text)
    with pytest.raises(InputError, match="'follow' follows 'lead', which is not in this part") as refused:
        robot.subrobot("b")
    assert "robot.subrobot(root, [..., 'b']), or with robot.lock({'lead': value})" in str(refused.value)
    assert robot.subrobot("a", ["b"]).joint_names == ("lead", "follow")
    part = robot.lock({"lead": 0.3}).subrobot("b")
    assert dict(part.locked) == {"follow": (0.7,)}
    assert part.active_dof_count == 0
    assert _agrees(robot.lock({"lead": 0.3}), part, "b") == 2


def test_a_part_may_be_a_single_static_link() -> None:
    part = load_robot("panda").subrobot("panda_hand")
    assert part.body_count == 0
    assert part.forward_kinematics(np.zeros((3, 0))).positions.tolist() == np.zeros((3, 1, 3)).tolist()


def test_links_that_are_not_there_are_refused() -> None:
    robot = load_robot("dual_panda")
    with pytest.raises(UnknownNameError, match="Link 'torso' is not in robot 'dual_panda'"):
        robot.subrobot("torso")
    with pytest.raises(InputError, match="'right_panda_hand' is not in the part of robot 'dual_panda' below 'left_"):
        robot.subrobot("left_panda_link0", branches=["right_panda_hand"])
    with pytest.raises(InputError, match="is not in the part"):
        robot.subrobot("base", branches=["left_panda_hand"], stop_at=["right_panda_link3"])
    with pytest.raises(InputError, match="list of names"):
        robot.subrobot("base", branches="left_panda_hand")


def test_an_added_frame_stands_at_its_offset() -> None:
    robot = load_robot("panda")
    offset = [0.1, -0.2, 0.3, *QUARTER_TURN]
    with_tool = robot.with_frame("tool", "panda_hand", offset).with_frame("tip", "tool", [0, 0, 0.05, 0, 0, 0, 1])
    q = robot.random_joint_q(np.random.default_rng(0), 4)
    assert np.abs(_relative(with_tool, q, "panda_hand", "tool") - offset).max() < TOLERANCE
    assert np.abs(_relative(with_tool, q, "panda_hand", "tip") - [0.1, -0.2, 0.35, *QUARTER_TURN]).max() < TOLERANCE
    assert with_tool.link_names == (*robot.link_names, "tool", "tip")
    assert with_tool.link_parent[-2:].tolist() == [robot.link_index("panda_hand"), len(robot.link_names)]
    static = robot.with_frame("socket", "panda_link0", offset)
    body, T_world_socket = static.link_frame("socket")
    assert body == -1
    assert T_world_socket == pytest.approx(offset)


def test_bad_frames_are_refused() -> None:
    robot = load_robot("panda")
    good = [0, 0, 0, 0, 0, 0, 1]
    with pytest.raises(InputError, match="needs a name that no link of robot 'panda' has, got 'panda_hand'"):
        robot.with_frame("panda_hand", "panda_link7", good)
    with pytest.raises(InputError, match="needs a name"):
        robot.with_frame("", "panda_link7", good)
    with pytest.raises(UnknownNameError, match="Did you mean 'panda_hand'"):
        robot.with_frame("tool", "panda_hnd", good)
    with pytest.raises(InputError, match="Frame 'tool': the offset must be 7 finite numbers"):
        robot.with_frame("tool", "panda_hand", good[1:])
    with pytest.raises(InputError, match="has length 0; it must have length 1"):
        robot.with_frame("tool", "panda_hand", [0] * 7)
