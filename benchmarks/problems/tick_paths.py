"""Paths of hands, tick by tick, and robots of Pandas with constraints.

Paths are those that a controller should follow exactly, and those that no robot can. Robots are two arms that hold an
object, and an arm on a cart with its way and controller.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.problems.pose_problems import link_poses
from ik_service.control import ControlLimits, IKController
from ik_service.mechanism.transforms import quaternion_multiply
from ik_service.robots import LoopConstraint, RobotModel, VelocityConstraint, builtin_urdf, load_robot, load_urdf
from objectives import IKObjectivePosture

LINK = "panda_hand"
HOME = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.8, 0.7])
# The maker's limits, which the URDF does not have [rad/s^2].
ACCELERATION = np.array([15.0, 7.5, 10.0, 12.5, 15.0, 20.0, 20.0])

Array = NDArray[np.float64]
LEFT, RIGHT = "left_panda_hand", "right_panda_hand"
HELD = (0.0, 0.0, 0.3, 1.0, 0.0, 0.0, 0.0)  # the right hand in the left one's frame
NEAR = np.array([-0.2483, -0.3281, 0.1092, -2.1921, -1.5796, 1.7196, -0.0944])
NEAR = np.concatenate([NEAR, [0.2485, -0.3281, -0.1093, -2.1921, 1.5796, 1.7197, 1.6652]])
"""A configuration in which they nearly hold it."""
HAND, RADIUS, TRACK = "panda_hand", 0.15, 0.25  # [m]
WHEELS = {"left_wheel": 10.0, "right_wheel": 10.0}  # [rad/s]
LENGTH, TURN = 3.0, 2.0  # of the hand's way: along a bend [m], and how far it turns [rad]
JOINT = """<link name="{name}"/><joint name="{name}_wheel" type="continuous"><parent link="cart"/><child link="{name}"/>
<origin xyz="0 {y} {z}"/><axis xyz="0 1 0"/></joint>"""
CART = """<link name="floor"/><link name="cart"/><joint name="drive" type="planar"><parent link="floor"/>
<child link="cart"/><axis xyz="0 0 1"/></joint><joint name="mount" type="fixed"><parent link="cart"/>
<child link="panda_link0"/><origin xyz="0 0 0.3"/></joint>"""
AXLE = (0.0, 0.0, 0.0, -(0.5**0.5), 0.0, 0.0, 0.5**0.5)


@dataclass(frozen=True, eq=False)
class TickPath:
    """A path."""

    joint_q: Array  # where the robot starts, [7]
    poses: Array  # target of every tick, position [m] and quaternion xyzw, [ticks, 7]
    feasible: bool  # whether it can be followed within all limits
    held: tuple[str, ...] = ()  # joints to be locked, so that none is left over to go round a singularity with

    def robot(self, panda: RobotModel) -> RobotModel:
        """Return the robot that follows the path."""
        names = panda.joint_names
        return panda.lock({name: float(self.joint_q[names.index(name)]) for name in self.held})


def panda_paths(robot: RobotModel, ticks: int) -> dict[str, TickPath]:
    """Return paths of the Panda by name, from rest to rest; 10000 ticks of a millisecond suit its limits."""
    there = rest_to_rest(ticks)
    there_and_back = np.sin(np.pi * there)
    home = link_poses(robot, HOME[None], LINK)

    def moved(*offsets: Array) -> Array:
        poses = np.tile(home, (ticks, 1))
        poses[:, :3] += np.column_stack(offsets)
        return poses

    def swung(first: Array, joint: int, last: float, *held: str) -> TickPath:
        """One joint goes somewhere and back, as the hand sees it."""
        joint_q = np.tile(first, (ticks, 1))
        joint_q[:, joint] += there_and_back * (last - first[joint])
        return TickPath(first, link_poses(robot, joint_q, LINK), True, held)

    turn, zero = 2.0 * np.pi * there, np.zeros(ticks)
    out = np.array([0.0, 0.3, 0.0, -1.6, 0.0, 1.9, 0.7])
    beyond = np.tile(link_poses(robot, out[None], LINK), (ticks, 1))
    beyond[:, :3] += np.outer(there_and_back, [0.6, 0.0, 0.2])
    near_limit = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.8, 2.0])
    turned = _turned(link_poses(robot, near_limit[None], LINK)[0], 1.6 * there_and_back)
    return {
        "circle": TickPath(HOME, moved(0.1 * (np.cos(3 * turn) - 1.0), 0.1 * np.sin(3 * turn), zero), True),
        "figure of eight": TickPath(HOME, moved(zero, 0.12 * np.sin(2 * turn), 0.06 * np.sin(4 * turn)), True),
        "through a wrist singularity": swung(np.array([0.0, -0.5, 0.0, -2.0, 0.3, 1.8, 0.7]), 5, 3.7, "panda_joint3"),
        "through a shoulder singularity": swung(np.array([0.3, -0.4, 0.2, -2.0, 0.3, 1.8, 0.7]), 1, 0.4),
        "beyond the edge and back": TickPath(out, beyond, False),
        "into a joint limit and back": TickPath(near_limit, turned, False),
    }


def rest_to_rest(ticks: int) -> Array:
    """From 0 to 1 without a jump of speed or acceleration."""
    s = np.linspace(0.0, 1.0, ticks)
    return np.asarray(s**3 * (10.0 - 15.0 * s + 6.0 * s**2))


def _turned(pose: Array, angles: Array) -> Array:
    """A pose turned about its own z axis."""
    x, y, z, w = pose[3:]
    s, c = np.sin(0.5 * angles), np.cos(0.5 * angles)
    poses = np.tile(pose, (len(angles), 1))
    poses[:, 3:] = np.column_stack([x * c + y * s, y * c - x * s, z * c + w * s, w * c - z * s])
    return poses


def held_object() -> RobotModel:
    """Return the built-in `dual_panda` with the object."""
    arms = load_robot("dual_panda", collision="ignore")
    return arms.with_loops([LoopConstraint("object", "weld", RIGHT, LEFT, reference_offset=HELD)])


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
