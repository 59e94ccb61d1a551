"""Write the collision models of the built-in robots: `python -m benchmarks.collision.builtin_models [ROBOT...]`.

The Panda's spheres are fitted to the meshes of panda_description in example-robot-data, the Allegro hand's palm is a
box: both have points that were looked at, not cells as `ik-service spheres` has them, and stay as they were measured.
The other robots are capsules along their links, as wide as the makers' drawings show them, or as their mass asks for;
the humanoid is nobody's product. Each file stands beside the robot's own, and a test compares it with what this writes.
"""

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.collision.picture import write_picture
from benchmarks.problems.compared_robots import BUILTIN, FOREIGN, installed
from ik_service.collision.covering import Solid, cover_points, cover_shape, rounded, shape_solid
from ik_service.mechanism.transforms import quaternion_between
from ik_service.robots import Box, Capsule, CollisionModel, choose_pairs, load_robot, without_contacts
from ik_service.robots.readers.catalog import link_shapes
from ik_service.robots.readers.fitted_spheres import link_solids
from ik_service.robots.readers.sphere_file import model_document

PICTURE = Path(__file__).with_name("panda.svg")
Spheres = dict[str, NDArray[np.float64]]
Point = tuple[float, float, float]
Part = tuple[str, float, Point, Point]
"""A capsule: link, radius [m], and the middles of its ends in the link's frame [m]."""

BOUNDS = {  # of the Panda's links: by how much spheres stand out, and links look out [m]
    "panda_link5": (0.008, 0.01),  # links 5 and 7 pass each other by millimetres
    "panda_link6": (0.015, 0.015),
    "panda_link7": (0.008, 0.01),
    "panda_hand": (0.012, 0.01),
    "panda_leftfinger": (0.008, 0.005),
    "panda_rightfinger": (0.008, 0.005),
}
OTHER_BOUNDS = (0.025, 0.015)
MARGIN = {"ur5e": 0.008, "iiwa14": 0.012, "humanoid": 0.012, "allegro": 0.003}
"""By how much spheres stand out of capsules [m]."""

UR5E: tuple[Part, ...] = (
    ("base_link_inertia", 0.066, (0, 0, 0.03), (0, 0, 0.06)),
    ("shoulder_link", 0.067, (0, 0, -0.02), (0, 0, 0.0)),
    ("shoulder_link", 0.062, (0, 0, 0.0), (0, -0.09, 0.0)),
    ("upper_arm_link", 0.062, (0, 0, 0.13), (0, 0, 0.14)),
    ("upper_arm_link", 0.055, (0, 0, 0.136), (-0.425, 0, 0.136)),
    ("upper_arm_link", 0.058, (-0.425, 0, 0.136), (-0.425, 0, 0.08)),
    ("forearm_link", 0.055, (0, 0, 0.01), (0, 0, 0.03)),
    ("forearm_link", 0.048, (0, 0, 0.012), (-0.3922, 0, 0.012)),
    ("wrist_1_link", 0.042, (0, 0, -0.09), (0, 0, -0.01)),
    ("wrist_1_link", 0.042, (0, 0, 0.0), (0, -0.05, 0.0)),
    ("wrist_2_link", 0.042, (0, 0, -0.06), (0, 0, 0.0)),
    ("wrist_2_link", 0.042, (0, 0, 0.0), (0, 0.05, 0.0)),
    ("wrist_3_link", 0.036, (0, 0, -0.03), (0, 0, -0.03)),
)
IIWA14: tuple[Part, ...] = (
    ("iiwa_link_0", 0.09, (-0.02, 0, 0.04), (0, 0, 0.08)),
    ("iiwa_link_1", 0.078, (0, 0, 0.03), (0, -0.02, 0.2025)),
    ("iiwa_link_2", 0.078, (0, 0, 0.01), (0, 0.17, 0.0)),
    ("iiwa_link_3", 0.072, (0, 0, 0.04), (0, 0.02, 0.2155)),
    ("iiwa_link_4", 0.072, (0, 0, 0.01), (0, 0.15, 0.0)),
    ("iiwa_link_5", 0.062, (0, 0, 0.03), (0, 0.0, 0.14)),
    ("iiwa_link_5", 0.055, (0, 0.06, 0.14), (0, 0.07, 0.2155)),
    ("iiwa_link_6", 0.065, (0, 0, 0.0), (0, 0.02, 0.02)),
    ("iiwa_link_7", 0.045, (0, 0, 0.0), (0, 0, 0.01)),
)
LIMB: tuple[Part, ...] = (  # of the humanoid's left side; the right one is its mirror image
    ("hip_pitch_link", 0.07, (0, 0, -0.02), (0, 0, -0.32)),
    ("knee_link", 0.055, (0, 0, -0.03), (0, 0, -0.32)),
    ("foot", 0.04, (-0.07, 0, -0.035), (0.13, 0, -0.035)),
    ("shoulder_yaw_link", 0.05, (0, 0, -0.02), (0, 0, -0.24)),
    ("elbow_link", 0.042, (0, 0, -0.01), (0, 0, -0.11)),
    ("forearm_yaw_link", 0.04, (0, 0, -0.01), (0, 0, -0.1)),
    ("hand", 0.035, (0, 0, -0.02), (0, 0, -0.09)),
)
TRUNK: tuple[Part, ...] = (
    ("pelvis", 0.09, (0, -0.08, 0.0), (0, 0.08, 0.0)),
    ("torso", 0.1, (0, -0.04, 0.05), (0, 0.04, 0.05)),
    ("torso", 0.1, (0, -0.05, 0.17), (0, 0.05, 0.17)),
    ("torso", 0.09, (0, -0.07, 0.29), (0, 0.07, 0.29)),
    ("head", 0.09, (0, 0, 0.04), (0.02, 0, 0.09)),
)
HUMANOID = TRUNK + tuple((f"{side}_{part[0]}", *part[1:]) for side in ("left", "right") for part in LIMB)
FINGER = (0.0164, 0.054, 0.0384, 0.0267)  # lengths of the links of three fingers [m]
THUMB = (0.0455, 0.0177, 0.0514, 0.0423)


def allegro_parts() -> Iterable[Part]:
    """Capsules along the links of the hand's fingers."""
    for finger in range(4):
        for place, length in enumerate(THUMB if finger == 3 else FINGER):
            link = f"link_{4 * finger + place}.0"
            if (finger, place) == (3, 0):
                yield link, 0.012, (-0.02, 0.004, 0.005), (-0.02, 0.004, 0.02)
            elif place > 0:
                yield link, 0.012, (0, 0, 0.004), (0, 0, length - 0.004)
                if place == 3:
                    yield f"{link}_tip", 0.012, (0, 0, 0), (0, 0, 0)


def capsule(radius: float, start: Point, end: Point) -> Capsule:
    """The capsule between two points."""
    first, last = np.array(start, dtype=float), np.array(end, dtype=float)
    length = float(np.linalg.norm(last - first))
    axis = (last - first) / length if length else np.array([0.0, 0.0, 1.0])
    turn = quaternion_between(np.array([0.0, 0.0, 1.0]), axis)
    return Capsule(radius, length, (*(0.5 * (first + last)), *turn))


def covered(parts: Iterable[Part], stands_out: float) -> Spheres:
    """Spheres that cover capsules, by link."""
    found: dict[str, list[NDArray[np.float64]]] = {}
    for link, *shape in parts:
        found.setdefault(link, []).append(cover_shape(capsule(*shape), stands_out))
    return {link: np.concatenate(own) for link, own in found.items()}


def at_points(solid: Solid, stands_out: float, looks_out: float = 0.0) -> NDArray[np.float64]:
    """Spheres that have points of a solid: between them it may look out by a little."""
    spheres = cover_points(solid, stands_out, looks_out, growth=0.0)
    return np.column_stack([spheres.centers, spheres.radii - looks_out])


def panda_solids() -> dict[str, Solid]:
    """What the meshes of the Panda and its hand enclose."""
    file = installed(FOREIGN, "panda_description/urdf/panda.urdf")
    return link_solids(link_shapes(file), file)


def spheres_of(robot: str) -> Spheres:
    """The spheres of a built-in robot."""
    if robot in ("panda", "dual_panda", "panda_gripper"):
        fingers = robot == "panda_gripper"
        solids = {link: solid for link, solid in panda_solids().items() if fingers or "finger" not in link}
        own = {link: at_points(solid, *BOUNDS.get(link, OTHER_BOUNDS)) for link, solid in solids.items()}
        sides = ("left_", "right_") if robot == "dual_panda" else ("",)
        return {f"{side}{link}": found for side in sides for link, found in own.items()}
    if robot == "allegro":
        palm = at_points(shape_solid(Box((0.03, 0.1, 0.08), (-0.008, 0, -0.05, 0, 0, 0, 1))), 0.008)
        return {"palm_link": palm, **covered(allegro_parts(), MARGIN[robot])}
    parts: Mapping[str, tuple[Part, ...]] = {"ur5e": UR5E, "iiwa14": IIWA14, "humanoid": HUMANOID}
    return covered(parts[robot], MARGIN[robot])


ROBOTS = ("allegro", "dual_panda", "humanoid", "iiwa14", "panda", "panda_gripper", "ur5e")
SOURCES = {
    "panda": "fitted by benchmarks/collision/builtin_models.py to the meshes of panda_description, example-robot-data",
    "other": "capsules along the links, covered by benchmarks/collision/builtin_models.py",
}


def model_of(name: str) -> CollisionModel:
    """The collision model of a built-in robot: rounded spheres, and pairs that are checked."""
    robot = load_robot(name, collision="ignore")
    spheres = {link: rounded(own) for link, own in spheres_of(name).items()}
    model = choose_pairs(robot, spheres)
    if name == "panda_gripper":  # fingers are made to touch each other
        closed = np.where(np.char.find(robot.coordinate_names, "finger") >= 0, 0.0, robot.mid_joint_q)
        model = without_contacts(robot, model, closed)
    return model


def text_of(name: str) -> str:
    """The text of a robot's file."""
    return model_document(model_of(name), SOURCES["panda" if "panda" in name else "other"])


def main(names: list[str]) -> None:
    """Write the files of some robots, or of all, and draw the Panda's spheres over its meshes."""
    for name in names or ROBOTS:
        (BUILTIN / f"{name}.collision.json").write_text(text_of(name))
        model = model_of(name)
        print(f"{name}: {model.sphere_count} spheres on {len(model.spheres)} links, {len(model.pairs)} pairs")
        for reason, pairs in model.left_out.items():
            print(f"  {reason}: {', '.join(f'{a}+{b}' for a, b in pairs)}")

    robot = load_robot("panda")
    solids = {link: solid for link, solid in panda_solids().items() if link in robot.link_names}
    PICTURE.write_text(write_picture(robot, solids))


if __name__ == "__main__":
    main(sys.argv[1:])
