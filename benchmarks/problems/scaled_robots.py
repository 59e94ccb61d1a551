"""Robots of another size: the same joints, all lengths multiplied."""

import xml.etree.ElementTree as ElementTree

LENGTHS = ("lower", "upper", "velocity")
"""Numbers of a slider's limits that are lengths."""


def scaled_urdf(text: str, factor: float) -> str:
    """Return a robot file whose lengths are multiplied: places of joints, and how far and fast sliders go.

    Args:
        text: A URDF file.
        factor: Of its lengths.
    """
    robot = ElementTree.fromstring(text)
    for joint in robot.iter("joint"):
        for origin in joint.iter("origin"):
            lengths = [factor * float(number) for number in origin.get("xyz", "0 0 0").split()]
            origin.set("xyz", " ".join(map(repr, lengths)))
        if joint.get("type") == "prismatic":
            for limit in joint.iter("limit"):
                for name in LENGTHS:
                    limit.set(name, repr(factor * float(limit.get(name, "0"))))
            for mimic in joint.iter("mimic"):
                mimic.set("offset", repr(factor * float(mimic.get("offset", "0"))))
    return ElementTree.tostring(robot, encoding="unicode")
