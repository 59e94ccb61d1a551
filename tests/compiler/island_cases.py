"""A table of islands: robots with every kind of joint, and every kind of objective on them."""

from functools import cache

import numpy as np

from ik_service import load_robot
from ik_service.mechanism.transforms import quaternion_exp
from ik_service.robots import load_urdf
from objectives import (
    IKObjectiveAxisAlign,
    IKObjectiveCenterOfMass,
    IKObjectiveCoupling,
    IKObjectiveJointCentering,
    IKObjectiveJointLimit,
    IKObjectiveLine,
    IKObjectiveLookAt,
    IKObjectivePlane,
    IKObjectivePose,
    IKObjectivePosition,
    IKObjectivePosture,
    IKObjectiveRelativePose,
    IKObjectiveRotation,
)
from tests.compiler import oracles
from tests.compiler.joint_oracles import coupling, joint_centering
from tests.compiler.oracles import Island, numbers
from tests.objectives.conftest import scene
from tests.objectives.objectives_of_tests import Choices, Functions
from tests.objectives.row_values import perpendiculars

POINT = np.array([0.4, 0.1, 0.5])
TURN = np.array([0.5, -0.1, 0.3, 0.8]) / np.linalg.norm([0.5, -0.1, 0.3, 0.8])
TOOL = np.array([0.1, -0.05, 0.2, 0.0, np.sin(0.3), 0.0, np.cos(0.3)])
FOLLOWERS = """<robot name="followers">
  <link name="base"/><link name="a"/><link name="b"/><link name="c"/><link name="d"/><link name="e"/>
  <joint name="lead" type="revolute"><parent link="base"/><child link="a"/><origin xyz="0 0 0.3"/><axis xyz="0 0 1"/>
    <limit lower="-2" upper="1.5" effort="1" velocity="1"/></joint>
  <joint name="shifted" type="revolute"><parent link="a"/><child link="b"/><origin xyz="0.3 0 0" rpy="1 0 0"/>
    <axis xyz="0 1 0"/><mimic joint="lead" offset="0.4"/>
    <limit lower="-3" upper="3" effort="1" velocity="1"/></joint>
  <joint name="slide" type="prismatic"><parent link="b"/><child link="c"/><origin xyz="0.2 0.1 0"/><axis xyz="1 0 1"/>
    <limit lower="0" upper="0.4" effort="1" velocity="1"/></joint>
  <joint name="back" type="prismatic"><parent link="c"/><child link="d"/><axis xyz="0 1 0"/>
    <mimic joint="slide" multiplier="-0.5" offset="0.1"/><limit lower="-1" upper="1" effort="1" velocity="1"/></joint>
  <joint name="spin" type="continuous"><parent link="d"/><child link="e"/><origin xyz="0.1 0.1 0.1"/><axis xyz="1 1 0"/>
  </joint>
</robot>"""
ROW_WEIGHTS = [1.0, 0.5, 2.0, 0.3, 1.5, 0.25]


@cache
def robots():
    panda, floating, two_trees = scene("fixed").robot, scene("floating").robot, scene("two_trees").robot
    base = np.array([0.3, -0.2, 0.5, *quaternion_exp(np.array([0.4, 1.0, -0.3]))])
    return {
        "panda": panda,
        "locked panda": panda.lock({"panda_joint2": 0.4, "panda_joint5": -0.7}),
        "gripper": load_robot("panda_gripper", collision="ignore"),
        "dual": load_robot("dual_panda", collision="ignore"),
        "humanoid": load_robot("humanoid", collision="ignore"),
        "floating": floating,  # floating, planar, continuous, prismatic, revolute and ball joints
        "locked base": floating.lock({"base": base}),
        "locked middle": floating.lock({"slide": [0.1, -0.2, 0.7], "round": quaternion_exp(np.array([0.3, 0.1, 2.0]))}),
        "two trees": two_trees,  # a mimic follower in one, a ball joint in the other
        "followers": load_urdf(FOLLOWERS),  # with a multiplier of 1 and an offset, and prismatic
        "locked leader": two_trees.lock({"left_2": 0.9}),
    }


def _pose(link, **options):
    return IKObjectivePose(link, POINT, TURN, **options), oracles.pose


def _position(link, **options):
    return IKObjectivePosition(link, POINT, **options), lambda robot, one: oracles.pose(robot, one, kinds=("position",))


def _rotation(link, **options):
    return IKObjectiveRotation(link, TURN, **options), lambda robot, one: oracles.pose(robot, one, kinds=("rotation",))


def _relative(link, reference, **options):
    return IKObjectiveRelativePose(link, reference, POINT, TURN, **options), oracles.pose


def _look_at(link):
    return IKObjectiveLookAt(link, [0.9, -1.3, 1.7], axis=(0.2, -0.4, 1.0), weight=0.8), oracles.look_at


def _axis(link, **options):
    return IKObjectiveAxisAlign(link, [0.2, -0.4, 1.0], [0.5, 1.0, -0.3], **options), oracles.axis_align


def _plane(link, **options):
    def normal(one):
        return [numbers(one, "normals")]

    return IKObjectivePlane(link, POINT, [0.3, -1.0, 2.0], **options), lambda r, one: oracles.along(r, one, normal)


def _line(link, **options):
    def across(one):
        return perpendiculars(numbers(one, "directions"))

    return IKObjectiveLine(link, POINT, [1.0, 0.4, -2.0], **options), lambda r, one: oracles.along(r, one, across)


def _functions(link, dof, **options):
    return Functions(link, dof, **options), oracles.functions


def _choices(link, dof, **options):
    return Choices(link, dof, **options), oracles.choices


def _center_of_mass(**options):
    return IKObjectiveCenterOfMass(POINT, **options), oracles.center_of_mass


def _posture(robot, joints=None):
    reference = robot.random_joint_q(np.random.default_rng(9), 1)[0]
    names = joints if joints is not None else robot.joint_names
    rows = sum(int(np.diff(robot.joint_qd_start)[robot.joint_index(name)]) for name in names)
    weights = np.linspace(0.5, 1.5, rows)
    objective = IKObjectivePosture(reference, weight=0.5, joints=joints, row_weights=weights)
    return objective, lambda robot, one: oracles.posture(robot, one, joints)


def _coupling(joint, other):
    coefficients = (0.1, -0.7, 0.3, 0.2)
    objective = IKObjectiveCoupling(joint, other, coefficients, weight=0.8)
    return objective, lambda robot, one: coupling(robot, one, coefficients)


def _centering(weight):
    return IKObjectiveJointCentering(weight), joint_centering


def _limits(robot):
    """The penalty, for limits in the middle of the ranges, so that it is not zero."""
    objective = IKObjectiveJointLimit(weight=3.0)
    width = robot.joint_limit_upper - robot.joint_limit_lower
    inner = np.where(np.isfinite(width), 0.35 * width, 0.0)

    def make(robot, one):
        one.set_data("joint_limit_lower", robot.joint_limit_lower + inner)
        one.set_data("joint_limit_upper", robot.joint_limit_upper - inner)
        return oracles.joint_limit(robot, one)

    return objective, make


def _table():
    r = robots()
    weighted = {"weight": 0.7, "row_weights": ROW_WEIGHTS}
    return {
        "panda pose": ("panda", [_pose("panda_hand")]),
        "panda weighted pose of a tool": ("panda", [_pose("panda_hand", offset=TOOL, **weighted)]),
        "panda position": ("panda", [_position("panda_hand", weight=2.0)]),
        "panda rotation": ("panda", [_rotation("panda_hand", row_weights=[1.0, 2.0, 0.5])]),
        "panda look-at": ("panda", [_look_at("panda_hand")]),
        "panda axis, line and posture": (
            "panda",
            [_axis("panda_hand", weight=0.8), _line("panda_hand", weight=2.0), _posture(r["panda"])],
        ),
        "panda centre of mass": ("panda", [_pose("panda_hand"), _center_of_mass(weight=2.0)]),
        "panda three targets and posture": (
            "panda",
            [_pose("panda_hand"), _pose("panda_link4", **weighted), _position("panda_link6"), _posture(r["panda"])],
        ),
        "panda functions": ("panda", [_functions("panda_hand", 1)]),
        "panda coupling": ("panda", [_pose("panda_hand"), _coupling("panda_joint5", "panda_joint2")]),
        "panda centering": ("panda", [_pose("panda_hand"), _centering(0.5)]),
        "panda limits": ("panda", [_pose("panda_hand"), _limits(r["panda"])]),
        "panda seen from a link": ("panda", [_pose("panda_hand", reference_link="panda_link3", offset=TOOL)]),
        "locked panda pose and posture": ("locked panda", [_pose("panda_hand"), _posture(r["locked panda"])]),
        "gripper pose behind the follower": ("gripper", [_pose("panda_rightfinger")]),
        "dual relative": ("dual", [_relative("left_panda_hand", "right_panda_hand", offset=TOOL, **weighted)]),
        "humanoid pose": ("humanoid", [_pose("left_grasp", **weighted)]),
        "humanoid hands, feet and head": (
            "humanoid",
            [_pose(link) for link in ("left_grasp", "right_grasp", "left_sole", "right_sole")] + [_look_at("head")],
        ),
        "humanoid centre of mass": ("humanoid", [_pose("left_sole"), _center_of_mass(row_weights=[1.0, 0.5, 2.0])]),
        "floating centre of mass": ("floating", [_center_of_mass(), _position("d")]),
        "locked base centre of mass": ("locked base", [_center_of_mass(row_weights=[1.0, 3.0, 0.5])]),
        "floating pose": ("floating", [_pose("d", offset=TOOL)]),
        "floating two poses": ("floating", [_pose("d"), _pose("f", **weighted)]),
        "floating relative": ("floating", [_relative("d", "f")]),
        "floating seen from a moving link": ("floating", [_pose("f", reference_link="a", **weighted)]),
        "floating rotation and look-at": ("floating", [_rotation("f"), _look_at("d")]),
        "floating plane, axis and posture": (
            "floating",
            [_plane("f", offset=TOOL), _axis("d"), _posture(r["floating"])],
        ),
        "floating line and axis seen from a link": (
            "floating",
            [_line("d", reference_link="f", row_weights=[0.5, 2.0]), _axis("d", reference_link="e")],
        ),
        "floating functions": ("floating", [_functions("f", 6, weight=0.7), _position("d")]),
        "floating choices and pose": ("floating", [_pose("d"), _choices("f", 6, weight=0.7)]),
        "floating posture": ("floating", [_posture(r["floating"])]),
        "floating posture of the base": ("floating", [_pose("d"), _posture(r["floating"], ["base"])]),
        "floating limits": ("floating", [_limits(r["floating"]), _position("d")]),
        "locked base pose and posture": ("locked base", [_pose("f"), _posture(r["locked base"])]),
        "locked middle pose": ("locked middle", [_pose("f"), _pose("d")]),
        "two trees choices": ("two trees", [_choices("l_tool", 1), _functions("l_tool", 0)]),
        "two trees functions": ("two trees", [_functions("l_tool", 2)]),
        "two trees follower": ("two trees", [_pose("l_tool", **weighted)]),
        "two trees ball": ("two trees", [_pose("r_tool")]),
        "two trees relative": ("two trees", [_relative("l_tool", "r_tool", offset=TOOL)]),
        "two trees posture": ("two trees", [_posture(r["two trees"])]),
        "two trees centre of mass": ("two trees", [_center_of_mass(), _posture(r["two trees"])]),
        "two trees limits": ("two trees", [_limits(r["two trees"]), _pose("l_tool")]),
        "two trees seen from the ground": ("two trees", [_pose("r_tool", reference_link="ground")]),
        "followers pose and posture": ("followers", [_pose("e"), _posture(r["followers"])]),
        "locked leader": ("locked leader", [_relative("l_tool", "r_tool")]),
    }


@cache
def island(name):
    """An island of the table; its pose objectives at the beginning count as targets."""
    robot_name, objectives = _table()[name]
    kinds = [type(one) is IKObjectivePose for one, _ in objectives]
    targets = kinds.index(False) if False in kinds else len(kinds)
    robot = robots()[robot_name]
    return Island(name, robot, [one for one, _ in objectives], [make for _, make in objectives], targets)


NAMES = list(_table())
