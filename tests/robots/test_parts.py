"""Added frames and parts of robots."""

import numpy as np
import pytest

from ik_service.mechanism.transforms import cross, transform_inverse, transform_multiply
from ik_service.robots import RobotModel, load_robot, load_urdf
from objectives.errors import InputError, UnknownNameError
from tests.robots.urdf_text import joint, urdf

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


PARTS = {  # the whole, root, branches, ends; links and joints of the part
    "one arm of two": ("dual_panda", "left_panda_link0", None, (), 10, 7),
    "below a folded joint": ("panda_gripper", "panda_hand", None, (), 4, 2),
    "a branch that stops": ("humanoid", "torso", ["left_hand"], ["left_hand"], 7, 6),
    "branches and what is below them": ("humanoid", "pelvis", ["torso", "left_foot"], ["head"], None, 2 + 14 + 6),
}


@pytest.mark.parametrize("case", PARTS)
def test_links_of_a_part_stand_as_in_the_whole(case: str) -> None:
    name, root, branches, stop_at, links, joints = PARTS[case]
    whole = load_robot(name)
    part = whole.subrobot(root, branches, stop_at)
    compared = _agrees(whole, part, root)
    assert compared == links if links else compared > 20
    assert part.joint_count == joints
    assert (part.link_names[0], part.link_parent[0], part.joint_parent[0]) == (root, -1, -1)


def test_a_part_has_the_joints_limits_and_leaders_of_its_links() -> None:
    arm = load_robot("dual_panda").subrobot("left_panda_link0")
    assert arm.joint_names == tuple(f"left_panda_joint{i}" for i in range(1, 8))
    assert arm.active_limit_lower[3] == -3.0718
    still = load_robot("panda").subrobot("panda_hand")
    assert still.body_count == 0
    assert still.forward_kinematics(np.zeros((3, 0))).positions.tolist() == np.zeros((3, 1, 3)).tolist()
    hand = load_robot("panda_gripper").subrobot("panda_hand")
    assert hand.joint_names == ("panda_finger_joint1", "panda_finger_joint2")
    assert hand.link_names == ("panda_hand", "panda_hand_tcp", "panda_leftfinger", "panda_rightfinger")
    assert hand.dof_leader.tolist() == [0, 0]
    whole = load_robot("humanoid")
    chain = whole.subrobot("torso", branches=["left_hand"], stop_at=["left_hand"])
    assert chain.link_names[-1] == "left_hand"
    assert "left_grasp" not in chain.link_names
    part = whole.subrobot("pelvis", branches=["torso", "left_foot"], stop_at=["head"])
    assert {"left_grasp", "right_grasp", "left_sole", "head"} <= set(part.link_names)
    assert not {"right_foot", "head_camera", "world"} & set(part.link_names)


def test_locks_and_added_frames_go_along() -> None:
    whole = load_robot("panda").with_frame("tool", "panda_hand", [0, 0, 0.2, *QUARTER_TURN]).lock({"panda_joint5": 0.7})
    part = whole.subrobot("panda_link3")
    assert dict(part.locked) == {"panda_joint5": (0.7,)}
    assert "tool" in part.link_names
    assert part.subrobot("panda_link6").locked == {}
    assert _agrees(whole, part, "panda_link3") == 8


def test_a_follower_needs_its_leader_or_a_lock() -> None:
    follow = joint("follow", "continuous", "b", "c", mimic=("lead", 2, 0.1))
    robot = load_urdf(urdf("pair", "a", joint("lead", "continuous", "a", "b"), follow))
    with pytest.raises(InputError, match="'follow' follows 'lead', which is not in this part") as refused:
        robot.subrobot("b")
    assert "robot.subrobot(root, [..., 'b']), or with robot.lock({'lead': value})" in str(refused.value)
    assert robot.subrobot("a", ["b"]).joint_names == ("lead", "follow")
    part = robot.lock({"lead": 0.3}).subrobot("b")
    assert (dict(part.locked), part.active_dof_count) == ({"follow": (0.7,)}, 0)
    assert _agrees(robot.lock({"lead": 0.3}), part, "b") == 2


@pytest.mark.parametrize(
    ("root", "options", "error", "words"),
    [
        ("torso", {}, UnknownNameError, "Link 'torso' is not in robot 'dual_panda'"),
        (
            "left_panda_link0",
            {"branches": ["right_panda_hand"]},
            InputError,
            "'right_panda_hand' is not in the part of",
        ),
        ("base", {"branches": ["left_panda_hand"], "stop_at": ["right_panda_link3"]}, InputError, "is not in the part"),
        ("base", {"branches": "left_panda_hand"}, InputError, "list of names"),
    ],
)
def test_links_that_are_not_there_are_refused(root, options, error, words) -> None:
    with pytest.raises(error, match=words):
        load_robot("dual_panda").subrobot(root, **options)


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


@pytest.mark.parametrize(
    ("name", "link", "offset", "error", "words"),
    [
        ("panda_hand", "panda_link7", [0] * 6 + [1], InputError, "no link of robot 'panda' has, got 'panda_hand'"),
        ("", "panda_link7", [0] * 6 + [1], InputError, "needs a name"),
        ("tool", "panda_hnd", [0] * 6 + [1], UnknownNameError, "Did you mean 'panda_hand'"),
        ("tool", "panda_hand", [0] * 5 + [1], InputError, "Frame 'tool': the offset must be 7 finite numbers"),
        ("tool", "panda_hand", [0] * 7, InputError, "has length 0; it must have length 1"),
    ],
)
def test_bad_frames_are_refused(name, link, offset, error, words) -> None:
    with pytest.raises(error, match=words):
        load_robot("panda").with_frame(name, link, offset)


@pytest.mark.parametrize("shapes", [((3,), (3,)), ((1, 3), (1, 3)), ((3,), (50, 3)), ((7, 1, 3), (1, 5, 3))])
def test_cross_products_have_the_bytes_of_numpy(shapes):
    rng = np.random.default_rng(2)
    a, b = (rng.normal(size=shape) for shape in shapes)
    assert cross(a, b).tobytes() == np.ascontiguousarray(np.cross(a, b)).tobytes()
