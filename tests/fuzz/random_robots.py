"""Random robots as URDF files: trees of all types of joints, odd axes, narrow and empty ranges, chains of followers."""

import xml.etree.ElementTree as ET

import numpy as np

from ik_service.robots import builtin_urdf
from tests.fuzz.judge import SCALAR

BUILTIN = ("panda", "ur5e", "iiwa14", "panda_gripper", "dual_panda", "allegro", "humanoid")
KINDS = {"revolute": 5, "continuous": 2, "prismatic": 1.5, "planar": 0.5, "ball": 0.5, "floating": 0.3, "fixed": 1}
MOST_JOINTS = 9  # a tree of them all is still one island that the compiled engine takes
LEVER = {"revolute": 1.0, "continuous": 1.0, "prismatic": 0.2}


def numbers(values: np.ndarray) -> str:
    return " ".join(repr(float(value)) for value in values)


def random_range(rng: np.random.Generator, lever: float) -> tuple[float, float]:
    """Limits: empty, nearly empty, from 0 on, or anywhere."""
    choice = rng.random()
    middle = float(rng.uniform(-1.0, 1.0)) * lever
    if choice < 0.1:
        return middle, middle
    if choice < 0.15:
        return middle, middle + 1e-9
    if choice < 0.25:
        return 0.0, float(rng.uniform(0.001, 2.0)) * lever
    lower, upper = np.sort(rng.uniform(-3.1, 3.1, 2)) * lever
    return float(lower), float(upper)


class RobotWriter:
    """Writes one random robot.

    `spans` are limits of joints that lead themselves, narrowed by their followers; `following` has of every joint of
    one coordinate the joint that leads it in the end, multiplier and offset.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.root = ET.Element("robot", name="random")
        self.links = ["link0"]
        self.spans: dict[str, tuple[float, float]] = {}
        self.following: dict[str, tuple[str, float, float]] = {}
        ET.SubElement(self.root, "link", name="link0")

    def add_joint(self, kind: str) -> None:
        rng, number = self.rng, len(self.links)
        parent = self.links[-1] if rng.random() < 0.75 else str(rng.choice(self.links))
        self.links.append(f"link{number}")
        ET.SubElement(self.root, "link", name=f"link{number}")
        joint = ET.SubElement(self.root, "joint", name=f"joint{number}", type=kind)
        ET.SubElement(joint, "parent", link=parent)
        ET.SubElement(joint, "child", link=f"link{number}")
        turn = rng.uniform(-3.2, 3.2, 3) if rng.random() < 0.5 else np.zeros(3)
        ET.SubElement(joint, "origin", xyz=numbers(rng.uniform(-0.4, 0.4, 3)), rpy=numbers(turn))
        axis = rng.normal(size=3) if rng.random() < 0.5 else np.eye(3)[rng.integers(3)] * rng.choice([-1.0, 1.0])
        if kind == "planar":
            axis[2] = abs(axis[2])  # which x a normal of -z has is told nowhere
        ET.SubElement(joint, "axis", xyz=numbers(axis))
        if kind in SCALAR:
            self.add_range(joint, f"joint{number}", kind)

    def add_range(self, joint: ET.Element, name: str, kind: str) -> None:
        """Gives a joint of one coordinate its limits, or lets it follow another."""
        rng = self.rng
        follows = bool(self.following) and rng.random() < 0.25
        lower, upper = random_range(rng, LEVER[kind])
        if follows:
            lower, upper = self.follow(joint, name, kind)
        else:
            self.following[name] = name, 1.0, 0.0
            self.spans[name] = (lower, upper) if kind != "continuous" else (-3.0, 3.0)
        speed = str(rng.choice(["0.5", "2", "0"]))
        limit = {"lower": repr(lower), "upper": repr(upper)} if kind != "continuous" else {}
        ET.SubElement(joint, "limit", effort="1", velocity=speed, **limit)

    def follow(self, joint: ET.Element, name: str, kind: str) -> tuple[float, float]:
        """Lets a joint follow any other, followers too; returns limits that leave its leader some room."""
        rng = self.rng
        leader = str(rng.choice(list(self.following)))
        multiplier = float(rng.choice([-1.0, 1.0, 0.5, -2.0, 0.37, -1.3, 3.0]))
        offset = float(rng.choice([0.0, 0.0, 0.1, -0.7]))
        ET.SubElement(joint, "mimic", joint=leader, multiplier=repr(multiplier), offset=repr(offset))
        root, above, shift = self.following[leader]
        factor, constant = multiplier * above, multiplier * shift + offset
        self.following[name] = root, factor, constant
        if kind == "continuous" or rng.random() < 0.5:
            return -50.0, 50.0  # wide enough for every chain
        low, high = self.spans[root]
        kept = np.sort(rng.uniform(low, high, 2)) if high > low else np.array([low, high])
        lower, upper = np.sort(factor * kept + constant)
        self.spans[root] = float(kept[0]), float(kept[1])
        return float(lower) - 1e-12, float(upper) + 1e-12  # so that rounding leaves the leader something


def random_urdf(rng: np.random.Generator) -> bytes:
    writer = RobotWriter(rng)
    kinds, weights = list(KINDS), np.array(list(KINDS.values()))
    writer.add_joint("revolute")
    for _ in range(int(rng.integers(1, MOST_JOINTS))):
        writer.add_joint(str(rng.choice(kinds, p=weights / weights.sum())))
    return ET.tostring(writer.root)


def robot_file(number: int, random_seed: int) -> tuple[str, bytes]:
    """The robot of a number: built-in ones and random ones by turns. Its name and its file."""
    if number % 3 == 0:
        name = BUILTIN[number // 3 % len(BUILTIN)]
        return name, builtin_urdf(name)
    return f"random {random_seed}/{number}", random_urdf(np.random.default_rng([random_seed, number]))
