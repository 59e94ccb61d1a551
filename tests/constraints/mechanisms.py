"""Small mechanisms for tests: URDF text, with loops."""

import numpy as np

from ik_service.mechanism.transforms import quaternion_from_axis_angle, transform_inverse, transform_multiply
from ik_service.robots import CoordinateConstraint, LoopConstraint, VelocityConstraint, load_urdf
from tests.objectives.loop_rows import LOOP_SIZES

GROUND, CRANK, COUPLER, ROCKER = 0.5, 0.2, 0.5, 0.4  # as the built-in one
_FOUR_BAR = f"""<robot name="four_bar">
  <link name="ground"/><link name="crank"/><link name="coupler"/><link name="rocker"/>
  <joint name="drive" type="continuous"><parent link="ground"/><child link="crank"/><axis xyz="0 0 1"/></joint>
  <joint name="elbow" type="continuous"><parent link="crank"/><child link="coupler"/><origin xyz="{CRANK} 0 0"/>
    <axis xyz="0 0 1"/></joint>
  <joint name="swing" type="continuous"><parent link="ground"/><child link="rocker"/><origin xyz="{GROUND} 0 0"/>
    <axis xyz="0 0 1"/></joint>
</robot>"""


def at(x=0.0, y=0.0, z=0.0, axis=(0.0, 0.0, 1.0), angle=0.0):
    """A transform as a tuple."""
    return (x, y, z, *quaternion_from_axis_angle(np.array(axis), angle))


def four_bar(joint="revolute", rocker=ROCKER):
    """A planar four-bar whose coupler is joined to its rocker; a weld, one radian apart, locks it."""
    end = at(COUPLER, angle=1.0 if joint == "weld" else 0.0)
    return load_urdf(_FOUR_BAR).with_loops([LoopConstraint("pin", joint, "coupler", "rocker", end, at(rocker))])


_BRANCHES = """<robot name="branches">
  <link name="base"/><link name="carriage"/><link name="arm"/><link name="hand"/><link name="drone"/><link name="tail"/>
  <joint name="slide" type="prismatic"><parent link="base"/><child link="carriage"/><origin xyz="0.1 0.2 0.3"
    rpy="0.3 -0.2 1.1"/><axis xyz="1 2 -2"/><limit lower="-1" upper="1" effort="1" velocity="1"/></joint>
  <joint name="shoulder" type="ball"><parent link="carriage"/><child link="arm"/><origin xyz="0.05 0.02 0.2"/></joint>
  <joint name="hinge" type="revolute"><parent link="arm"/><child link="hand"/><origin xyz="0.4 0 0.1" rpy="0 0 2.0"/>
    <axis xyz="0 -1 0"/><limit lower="-2" upper="1" effort="1" velocity="1"/></joint>
  <joint name="flight" type="floating"><parent link="carriage"/><child link="drone"/><origin xyz="0.1 0.1 0.1"/></joint>
  <joint name="flat" type="planar"><parent link="drone"/><child link="tail"/><origin xyz="0 0.1 0" rpy="1 0 0"/>
    <axis xyz="0 0 1"/></joint>
</robot>"""
SEEN_CLOSED = {
    "weld": at(),
    "revolute": at(angle=0.7),
    "prismatic": at(z=-0.4),
    "helical": at(z=LOOP_SIZES["helical"]["pitch"] * (0.9 + 2.0 * np.pi), angle=0.9),
    "cylindrical": at(z=0.3, angle=-2.0),
    "universal": tuple(transform_multiply(np.array(at(angle=0.8)), np.array(at(axis=(1.0, 0.0, 0.0), angle=-0.5)))),
    "spherical": at(axis=(0.6, 0.0, 0.8), angle=2.5),
    "planar": at(0.2, -0.1, angle=1.4),
    "point_on_line": at(z=0.2, axis=(0.0, 1.0, 0.0), angle=1.0),
    "point_in_plane": at(0.3, 0.1, axis=(0.8, 0.0, 0.6), angle=-1.2),
    "distance": (*(LOOP_SIZES["distance"]["distance"] * np.array([0.6, -0.64, 0.48])), *at(angle=0.4)[3:]),
}
"""Where the frame of each joint may be seen from its reference frame."""


VELOCITIES = [
    VelocityConstraint(
        "roll", "rolling", "hand", "tail", at(0.1, axis=(1.0, 0.0, 0.0), angle=0.6), at(0.2), radius=0.3
    ),
    VelocityConstraint("slip", "no_sideslip", "arm", None, at(axis=(0.0, 1.0, 0.0), angle=0.8), at(0.1), radius=0.2),
    VelocityConstraint(
        "shafts", "constant_velocity", "hand", "drone", at(0.1, 0.2), at(axis=(0.6, 0.8, 0.0), angle=0.3)
    ),
    VelocityConstraint("gear", "gear", "hand", "tail", at(0.3), at(0.1, angle=0.4), ratio=-1.7, carrier="drone"),
]
COORDINATES = [
    CoordinateConstraint("cam", "hinge", "slide", (0.1, -0.5, 0.8, 0.3)),
    CoordinateConstraint("groove", "slide", "hinge", (0.0, 0.0, 0.2)),
]


def branches(joints=tuple(SEEN_CLOSED), closed_at=None, world=False):
    """Two branches of all types of joints, with a loop of each kind between them, or to the world.

    Args:
        joints: Kinds of the loops.
        closed_at: A configuration that closes all loops; None for the middle of the limits.
        world: Whether the reference frames stand in the world.
    """
    robot = load_urdf(_BRANCHES)
    joint_q = robot.mid_joint_q if closed_at is None else closed_at
    positions, orientations = robot.forward_kinematics(joint_q, ["hand", "tail"])
    hand, tail = np.concatenate([positions[0], orientations[0]], axis=-1)
    base = np.array(at(0.1, 0.2, -0.1, (0.0, 0.6, 0.8), 0.5))
    reference = base if world else transform_multiply(tail, base)
    loops = [
        LoopConstraint(
            f"{joint}_loop",
            joint,
            "hand",
            None if world else "tail",
            tuple(
                transform_multiply(transform_inverse(hand), transform_multiply(reference, np.array(SEEN_CLOSED[joint])))
            ),
            tuple(base),
            **LOOP_SIZES.get(joint, {}),
        )
        for joint in joints
    ]
    return robot.with_loops(loops)


_PALLETIZER = {  # joint: parent, child, place in the parent, axis, limits
    "yaw": ("base", "column", "0 0 0", "0 0 1", (-3.0, 3.0)),
    "shoulder": ("column", "lower", "0 0 0.4", "0 1 0", (-0.8, 1.4)),
    "elbow": ("lower", "upper", "0 0 0.7", "0 1 0", (-0.5, 2.2)),
    "wrist": ("upper", "tool", "0.8 0 0", "0 1 0", (-3.0, 3.0)),
    "triangle": ("lower", "plate", "0 0 0.7", "0 1 0", (-3.0, 3.0)),
    "rod": ("plate", "upper_rod", "0.05 0 0.15", "0 1 0", (-3.0, 3.0)),
    "lever": ("column", "drive", "0 0 0.4", "0 1 0", (-2.0, 2.0)),
    "push": ("drive", "pusher", "-0.2 0 0", "0 1 0", (-3.0, 3.0)),
    "stay": ("column", "lower_rod", "-0.15 0 0.5", "0 1 0", (-3.0, 3.0)),
}


def palletizer():
    """A palletizer: a parallelogram drives its elbow, two more keep its tool level; all pins but one along y."""
    links = ["base", *(joint[1] for joint in _PALLETIZER.values())]
    joints = [
        f'<joint name="{name}" type="revolute"><parent link="{parent}"/><child link="{child}"/><origin xyz="{xyz}"/>'
        f'<axis xyz="{axis}"/><limit lower="{lower}" upper="{upper}" effort="1" velocity="2"/></joint>'
        for name, (parent, child, xyz, axis, (lower, upper)) in _PALLETIZER.items()
    ]
    text = "".join([*(f'<link name="{link}"/>' for link in links), *joints])

    def pin(name, link, place, reference, seen):
        frames = (at(*one, axis=(1.0, 0.0, 0.0), angle=-0.5 * np.pi) for one in (place, seen))
        return LoopConstraint(name, "revolute", link, reference, *frames)

    pins = [
        pin("elbow_pin", "pusher", (0.0, 0.0, 0.7), "upper", (-0.2, 0.0, 0.0)),
        pin("plate_pin", "lower_rod", (0.0, 0.0, 0.7), "plate", (-0.15, 0.0, 0.1)),
        pin("tool_pin", "upper_rod", (0.8, 0.0, 0.0), "tool", (0.05, 0.0, 0.15)),
    ]
    return load_urdf(f'<robot name="palletizer">{text}</robot>').with_loops(pins)
