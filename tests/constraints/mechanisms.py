"""Small mechanisms for tests: URDF text, with loops."""

import numpy as np

from ik_service.mechanism.transforms import quaternion_from_axis_angle, transform_inverse, transform_multiply
from ik_service.robots import CoordinateConstraint, LoopConstraint, VelocityConstraint, load_urdf
from tests.objectives.loop_rows import LOOP_SIZES
from tests.robots.urdf_text import joint, urdf

GROUND, CRANK, COUPLER, ROCKER = 0.5, 0.2, 0.5, 0.4  # as the built-in one
_FOUR_BAR = urdf(
    "four_bar",
    "ground",
    joint("drive", "continuous", "ground", "crank", axis="0 0 1"),
    joint("elbow", "continuous", "crank", "coupler", f"{CRANK} 0 0", axis="0 0 1"),
    joint("swing", "continuous", "ground", "rocker", f"{GROUND} 0 0", axis="0 0 1"),
)


def at(x=0.0, y=0.0, z=0.0, axis=(0.0, 0.0, 1.0), angle=0.0):
    return (x, y, z, *quaternion_from_axis_angle(np.array(axis), angle))


def four_bar(joint="revolute", rocker=ROCKER):
    """A planar four-bar whose coupler is joined to its rocker; a weld, one radian apart, locks it."""
    end = at(COUPLER, angle=1.0 if joint == "weld" else 0.0)
    return load_urdf(_FOUR_BAR).with_loops([LoopConstraint("pin", joint, "coupler", "rocker", end, at(rocker))])


_BRANCHES = urdf(
    "branches",
    "base",
    joint("slide", "prismatic", "base", "carriage", "0.1 0.2 0.3", "0.3 -0.2 1.1", "1 2 -2", (-1, 1, 1)),
    joint("shoulder", "ball", "carriage", "arm", "0.05 0.02 0.2"),
    joint("hinge", "revolute", "arm", "hand", "0.4 0 0.1", "0 0 2.0", "0 -1 0", (-2, 1, 1)),
    joint("flight", "floating", "carriage", "drone", "0.1 0.1 0.1"),
    joint("flat", "planar", "drone", "tail", "0 0.1 0", "1 0 0", "0 0 1"),
)
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

    Loops are closed at a configuration, or in the middle of the limits.
    """
    robot = load_urdf(_BRANCHES)
    positions, orientations = robot.forward_kinematics(
        robot.mid_joint_q if closed_at is None else closed_at, ["hand", "tail"]
    )
    hand, tail = np.concatenate([positions[0], orientations[0]], axis=-1)
    base = np.array(at(0.1, 0.2, -0.1, (0.0, 0.6, 0.8), 0.5))
    reference = transform_multiply(transform_inverse(hand), base if world else transform_multiply(tail, base))

    def loop(kind):
        offset = tuple(transform_multiply(reference, np.array(SEEN_CLOSED[kind])))
        ends = "hand", None if world else "tail", offset, tuple(base)
        return LoopConstraint(f"{kind}_loop", kind, *ends, **LOOP_SIZES.get(kind, {}))

    return robot.with_loops([loop(kind) for kind in joints])


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
    joints = [
        joint(name, "revolute", parent, child, xyz, axis=axis, limit=(*limits, 2))
        for name, (parent, child, xyz, axis, limits) in _PALLETIZER.items()
    ]

    def pin(name, link, place, reference, seen):
        frames = (at(*one, axis=(1.0, 0.0, 0.0), angle=-0.5 * np.pi) for one in (place, seen))
        return LoopConstraint(name, "revolute", link, reference, *frames)

    pins = [
        pin("elbow_pin", "pusher", (0.0, 0.0, 0.7), "upper", (-0.2, 0.0, 0.0)),
        pin("plate_pin", "lower_rod", (0.0, 0.0, 0.7), "plate", (-0.15, 0.0, 0.1)),
        pin("tool_pin", "upper_rod", (0.8, 0.0, 0.0), "tool", (0.05, 0.0, 0.15)),
    ]
    return load_urdf(urdf("palletizer", "base", *joints)).with_loops(pins)


def closed_four_bar(names, drive):
    """Angles of joints of a four-bar in its first mode, by the law of cosines, [..., names]."""
    tip = CRANK * np.stack([np.cos(drive), np.sin(drive)], axis=-1)
    way = [GROUND, 0.0] - tip
    length = np.linalg.norm(way, axis=-1)
    heading = np.arctan2(way[..., 1], way[..., 0])
    heading = heading + np.arccos((length**2 + COUPLER**2 - ROCKER**2) / (2 * length * COUPLER))
    end = tip + COUPLER * np.stack([np.cos(heading), np.sin(heading)], axis=-1)
    angles = {"drive": drive, "elbow": heading - drive, "swing": np.arctan2(end[..., 1], end[..., 0] - GROUND)}
    return np.stack([angles[name] for name in names], axis=-1)
