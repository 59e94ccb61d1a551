"""Small mechanisms for tests: URDF text, with loops."""

import numpy as np

from ik_service.robots import LoopConstraint, load_urdf
from ik_service.robots.transforms import quaternion_from_axis_angle, transform_inverse, transform_multiply
from tests.objectives.loop_rows import LOOP_SIZES

GROUND, CRANK, COUPLER, ROCKER = 0.5, 0.2, 0.5, 0.4
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


def rocker_angles(drive):
    """Both angles of the rocker in closed form, by the triangle of the crank's pin, the rocker's foot and the pin."""
    arm = CRANK * np.column_stack([np.cos(drive), np.sin(drive)]) - [GROUND, 0.0]
    reach = np.linalg.norm(arm, axis=1)
    bend = np.arccos((ROCKER**2 + reach**2 - COUPLER**2) / (2.0 * ROCKER * reach))
    middle = np.arctan2(arm[:, 1], arm[:, 0])
    return np.stack([middle + bend, middle - bend], axis=1)


ELBOW_RADIUS, ARM, ROD, PLATFORM_RADIUS, HALF_WIDTH = 0.2, 0.3, 0.8, 0.05, 0.06
DELTA_TURNS = np.arange(3) * 2.0 * np.pi / 3.0


def delta():
    """A delta robot: three arms, and a platform that hangs on six rods of fixed length."""
    parts, loops = ['<link name="base"/><link name="platform"/>'], []
    parts.append('<joint name="hang" type="floating"><parent link="base"/><child link="platform"/></joint>')
    for k, turn in enumerate(DELTA_TURNS):
        x, y = ELBOW_RADIUS * np.cos(turn), ELBOW_RADIUS * np.sin(turn)
        parts.append(
            f'<link name="arm{k}"/><joint name="drive{k}" type="revolute"><parent link="base"/><child link="arm{k}"/>'
            f'<origin xyz="{x} {y} 0" rpy="0 0 {turn}"/><axis xyz="0 1 0"/><limit lower="-0.6" upper="1.4" effort="1" '
            'velocity="1"/></joint>'
        )
        for way in (-1, 1):
            place = transform_multiply(np.array(at(angle=turn)), np.array(at(PLATFORM_RADIUS, way * HALF_WIDTH)))
            frames = at(ARM, way * HALF_WIDTH), tuple(place)
            loops.append(
                LoopConstraint(f"rod{k}{'ab'[way > 0]}", "distance", f"arm{k}", "platform", *frames, distance=ROD)
            )
    return load_urdf(f'<robot name="delta">{"".join(parts)}</robot>').with_loops(loops)


def delta_platform(angles):
    """Place the platform of a delta below its base in closed form: where three spheres meet, shape [n, 3]."""
    radius = ELBOW_RADIUS + ARM * np.cos(angles) - PLATFORM_RADIUS
    height = -ARM * np.sin(angles)
    centres = np.stack([radius * np.cos(DELTA_TURNS), radius * np.sin(DELTA_TURNS), height], axis=-1)
    first, second, third = np.moveaxis(centres, 1, 0)
    normal = np.cross(second - first, third - first)
    a, b = second - first, third - first
    middle = first + np.cross((a**2).sum(1)[:, None] * b - (b**2).sum(1)[:, None] * a, np.cross(a, b)) / (
        2.0 * (normal**2).sum(1)[:, None]
    )
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    normal *= np.where(normal[:, 2:] > 0.0, -1.0, 1.0)
    return middle + np.sqrt(ROD**2 - ((middle - first) ** 2).sum(1))[:, None] * normal


STEWART_BASE = np.radians([-10.0, 10.0, 110.0, 130.0, 230.0, 250.0])
STEWART_TOP = np.radians([-50.0, 50.0, 70.0, 170.0, 190.0, 290.0])
LEG_ROOTS = 0.5 * np.column_stack([np.cos(STEWART_BASE), np.sin(STEWART_BASE), np.zeros(6)])
LEG_ENDS = 0.3 * np.column_stack([np.cos(STEWART_TOP), np.sin(STEWART_TOP), np.zeros(6)])


def stewart():
    """A Stewart platform: six legs on universal joints that slide, and ball joints that close them."""
    parts = ['<link name="base"/><link name="platform"/>']
    parts.append('<joint name="top" type="floating"><parent link="base"/><child link="platform"/></joint>')
    loops = []
    for k, (root, end) in enumerate(zip(LEG_ROOTS, LEG_ENDS, strict=True)):
        for name, kind, parent, child, axis, xyz in (
            (f"roll{k}", "continuous", "base", f"cross{k}", "1 0 0", " ".join(map(str, root))),
            (f"pitch{k}", "continuous", f"cross{k}", f"sleeve{k}", "0 1 0", "0 0 0"),
            (f"leg{k}", "prismatic", f"sleeve{k}", f"rod{k}", "0 0 1", "0 0 0"),
        ):
            limit = '<limit lower="0.3" upper="1.5" effort="1" velocity="1"/>' if kind == "prismatic" else ""
            parts.append(
                f'<link name="{child}"/><joint name="{name}" type="{kind}"><parent link="{parent}"/>'
                f'<child link="{child}"/><origin xyz="{xyz}"/><axis xyz="{axis}"/>{limit}</joint>'
            )
        loops.append(LoopConstraint(f"ball{k}", "spherical", f"rod{k}", "platform", at(), at(*end)))
    return load_urdf(f'<robot name="stewart">{"".join(parts)}</robot>').with_loops(loops)


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
