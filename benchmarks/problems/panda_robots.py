"""Robots of Pandas with constraints: two arms that hold an object, and an arm on a cart with its way and controller."""

import numpy as np
from numpy.typing import NDArray

from benchmarks.problems.pose_problems import link_poses
from benchmarks.problems.tick_paths import rest_to_rest
from ik_service.control import ControlLimits, IKController
from ik_service.mechanism.transforms import quaternion_multiply
from ik_service.robots import LoopConstraint, RobotModel, VelocityConstraint, builtin_urdf, load_robot, load_urdf
from objectives import IKObjectivePosture

LEFT, RIGHT = "left_panda_hand", "right_panda_hand"
HELD = (0.0, 0.0, 0.3, 1.0, 0.0, 0.0, 0.0)  # the right hand in the left one's frame
NEAR = np.array([-0.2483, -0.3281, 0.1092, -2.1921, -1.5796, 1.7196, -0.0944])
NEAR = np.concatenate([NEAR, [0.2485, -0.3281, -0.1093, -2.1921, 1.5796, 1.7197, 1.6652]])
"""A configuration in which they nearly hold it."""


def held_object() -> RobotModel:
    """Return the built-in `dual_panda` with the object."""
    arms = load_robot("dual_panda", collision="ignore")
    return arms.with_loops([LoopConstraint("object", "weld", RIGHT, LEFT, reference_offset=HELD)])


Array = NDArray[np.float64]
HAND, RADIUS, TRACK = "panda_hand", 0.15, 0.25  # [m]
WHEELS = {"left_wheel": 10.0, "right_wheel": 10.0}  # [rad/s]
LENGTH, TURN = 3.0, 2.0  # of the hand's way: along a bend [m], and how far it turns [rad]
JOINT = """<link name="{name}"/><joint name="{name}_wheel" type="continuous"><parent link="cart"/><child link="{name}"/>
<origin xyz="0 {y} {z}"/><axis xyz="0 1 0"/></joint>"""
CART = """<link name="floor"/><link name="cart"/><joint name="drive" type="planar"><parent link="floor"/>
<child link="cart"/><axis xyz="0 0 1"/></joint><joint name="mount" type="fixed"><parent link="cart"/>
<child link="panda_link0"/><origin xyz="0 0 0.3"/></joint>"""
AXLE = (0.0, 0.0, 0.0, -(0.5**0.5), 0.0, 0.0, 0.5**0.5)


def arm_on_a_cart() -> RobotModel:
    """Return a Panda on a cart with two driven wheels, which roll and do not slip sideways."""
    wheels = "".join(JOINT.format(name=name, y=y, z=RADIUS) for name, y in (("left", TRACK), ("right", -TRACK)))
    robot = load_urdf(builtin_urdf("panda").decode().replace("</robot>", f"{CART}{wheels}</robot>"))
    rows = (("rolling", "left"), ("rolling", "right"), ("no_sideslip", "left"))
    return robot.with_velocity_constraints(
        [VelocityConstraint(f"{kind} {wheel}", kind, wheel, None, AXLE, radius=RADIUS) for kind, wheel in rows]
    )


def controller_of(robot: RobotModel, start: Array, limits: ControlLimits) -> IKController:
    """Return a controller of the hand that keeps the arm in front of the cart: a posture decides who moves."""
    joints = [name for name in robot.joint_names if name.startswith("panda_joint")]
    return IKController(robot, [HAND], objectives=[IKObjectivePosture(start, joints=joints)], limits=limits)


def bend(robot: RobotModel, start: Array, ticks: int) -> Array:
    """Return targets of the hand on a bend, from rest to rest, [ticks, 7]."""
    way = rest_to_rest(ticks)
    targets = np.tile(link_poses(robot, start[None], HAND)[0], (ticks, 1))
    radius = LENGTH / TURN
    targets[:, 0] += radius * np.sin(TURN * way)
    targets[:, 1] += radius * (1.0 - np.cos(TURN * way))
    turn = np.column_stack([np.zeros((ticks, 2)), np.sin(0.5 * TURN * way), np.cos(0.5 * TURN * way)])
    targets[:, 3:] = quaternion_multiply(turn, targets[:, 3:])
    return targets
