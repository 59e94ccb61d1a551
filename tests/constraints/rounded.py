"""Over-constrained mechanisms as URDF text whose angles are written with some digits behind the point."""

import math
from dataclasses import dataclass, field

PI = math.pi
Y, Z = (0, 1, 0), (0, 0, 1)


@dataclass
class _Text:
    """Lines of a URDF; `digits` None for all digits of angles."""

    digits: int | None
    lines: list[str] = field(default_factory=list)

    def origin(self, name, xyz, rpy):
        angles = " ".join(repr(float(one)) if self.digits is None else f"{one:.{self.digits}f}" for one in rpy)
        return f'<{name} xyz="{xyz[0]} {xyz[1]} {xyz[2]}" rpy="{angles}"/>'

    def joint(self, name, parent, child, xyz=(0, 0, 0), rpy=(0, 0, 0), *, axis=Z, limit=None, kind="revolute"):
        kind = "continuous" if limit is None and kind == "revolute" else kind
        ends = "" if limit is None else f'lower="{-limit}" upper="{limit}" '
        self.lines.append(
            f'<link name="{child}"/><joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
            f'{self.origin("origin", xyz, rpy)}<axis xyz="{axis[0]} {axis[1]} {axis[2]}"/>'
            f'<limit {ends}velocity="6" effort="1"/></joint>'
        )

    def pin(self, name, parent, child, place, rpy, child_place, child_rpy):
        self.lines.append(
            f'<constraint name="{name}" type="revolute"><parent link="{parent}"/><child link="{child}"/>'
            f"{self.origin('parent_origin', place, rpy)}{self.origin('child_origin', child_place, child_rpy)}"
            '<parent_axis xyz="0 0 1"/><child_axis xyz="0 0 1"/></constraint>'
        )

    def robot(self, root):
        return f'<robot name="mechanism"><link name="{root}"/>{"".join(self.lines)}</robot>'


def pins(digits, limit=None):
    """A four-bar whose joints turn about y and whose pin is turned to y on both links."""
    text = _Text(digits)
    text.joint("drive", "ground", "crank", axis=Y, limit=limit)
    text.joint("elbow", "crank", "coupler", (0.2, 0, 0), axis=Y)
    text.joint("point_joint", "coupler", "point", (0.25, 0, 0.15), kind="fixed")
    text.joint("swing", "ground", "rocker", (0.5, 0, 0), axis=Y)
    text.pin("pin", "rocker", "coupler", (0.4, 0, 0), (-PI / 2, 0, 0), (0.5, 0, 0), (-PI / 2, 0, 0))
    return text.robot("ground")


def four_bar(digits):
    """A four-bar of which each joint has a frame that is turned, as exporters of CAD programs write them."""
    text = _Text(digits)
    text.joint("drive", "ground", "crank", rpy=(PI / 2, 0, 0))
    text.joint("elbow", "crank", "coupler", (0.2, 0, 0), (PI, 0, PI / 3))
    text.joint("point_joint", "coupler", "point", (0.25, 0.15, 0), kind="fixed")
    text.joint("swing", "ground", "rocker", (0.5, 0, 0), (-PI / 2, PI / 4, 0))
    text.pin("pin", "rocker", "coupler", (0.4, 0, 0), (0, 0, PI / 3), (0.5, 0, 0), (0, 0, PI / 6))
    return text.robot("ground")


def five_bar(digits):
    """A five-bar of the same kind."""
    text = _Text(digits)
    text.joint("left_shoulder", "base", "left_upper", (0, 0.1, 0), (PI / 2, 0, 0), limit=2.6)
    text.joint("left_elbow", "left_upper", "left_lower", (0.25, 0, 0), (PI, 0, 0), limit=2.8)
    text.joint("point_joint", "left_lower", "point", (0.35, 0, 0), (-PI / 2, 0, 0), kind="fixed")
    text.joint("right_shoulder", "base", "right_upper", (0, 0.1, 0.2), (-PI / 2, 0, 0), limit=2.6)
    text.joint("right_elbow", "right_upper", "right_lower", (0.25, 0, 0), (0, 0, PI / 2), limit=2.8)
    text.pin("pin", "right_lower", "point", (0.35, 0, 0), (0, 0, 0), (0, 0, 0), (PI / 2, 0, 0))
    return text.robot("base")


def gripper(digits):
    """A wrist of three joints with a gripper of two fingers, each on a parallelogram."""
    text = _Text(digits)
    text.joint("wrist1", "base", "wrist_link1", (0, 0, 0.3), limit=2.9)
    text.joint("wrist2", "wrist_link1", "wrist_link2", (0, 0, 0.1), (PI / 2, 0, 0), limit=1.5)
    text.joint("wrist3", "wrist_link2", "palm", (0.3, 0, 0), (0, PI / 2, 0), limit=1.5)
    for side, sign in (("left", 1), ("right", -1)):
        point = "point" if sign > 0 else "other_point"
        turn = (sign * PI / 2, 0, 0)
        text.joint(f"{side}_drive", "palm", f"{side}_driver", (0.03 * sign, 0, 0.02), turn, limit=0.8)
        text.joint(f"{side}_finger_joint", f"{side}_driver", f"{side}_finger", (0, 0.05 * sign, 0), limit=0.8)
        text.joint(f"{side}_point_joint", f"{side}_finger", point, (0, 0.04 * sign, 0), kind="fixed")
        back = (-sign * PI / 2, 0, 0)
        text.joint(f"{side}_follow", "palm", f"{side}_follower", (0.015 * sign, 0, 0.03), back, limit=0.8)
        end, own = (0, -0.05 * sign, 0), (-0.015 * sign, 0.01 * sign, 0)
        text.pin(f"{side}_pin", f"{side}_follower", f"{side}_finger", end, (PI, 0, 0), own, (0, 0, 0))
    return text.robot("base")


def inclined(joint, angle):
    """A four-bar in which one axis is truly inclined."""
    tilts = {name: (angle, 0, 0) if name == joint else (0, 0, 0) for name in ("drive", "elbow", "pin")}
    text = _Text(None)
    text.joint("drive", "ground", "crank", rpy=tilts["drive"])
    text.joint("elbow", "crank", "coupler", (0.2, 0, 0), tilts["elbow"])
    text.joint("swing", "ground", "rocker", (0.5, 0, 0))
    text.pin("pin", "rocker", "coupler", (0.4, 0, 0), tilts["pin"], (0.5, 0, 0), (0, 0, 0))
    return text.robot("ground")


def bars(ground=0.5, height=0.0):
    """A four-bar with its ground as long, and its crank as far out of the plane, as is given."""
    text = _Text(None)
    text.joint("drive", "ground", "crank", (0, 0, height))
    text.joint("elbow", "crank", "coupler", (0.2, 0, 0))
    text.joint("swing", "ground", "rocker", (ground, 0, 0))
    text.pin("pin", "rocker", "coupler", (0.4, 0, 0), (0, 0, 0), (0.5, 0, 0), (0, 0, 0))
    return text.robot("ground")


def door(off=0.0, tilt=0.0):
    """A door on two hinges that are 2 m apart, one of them beside the other's axis or inclined to it."""
    text = _Text(None)
    text.joint("hinge", "frame", "door")
    text.pin("other_hinge", "frame", "door", (off, 0, 2), (tilt, 0, 0), (0, 0, 2), (0, 0, 0))
    return text.robot("frame")


def bennett(digits):
    """Bennett's linkage: four skew axes that only these lengths and angles let move."""
    long, short = PI / 3, math.asin(0.5 * math.sin(PI / 3))
    text = _Text(digits)
    text.joint("joint1", "ground", "link1")
    text.joint("joint2", "link1", "link2", (0.4, 0, 0), (long, 0, 0))
    text.joint("joint3", "link2", "link3", (0.2, 0, 0), (short, 0, 0))
    text.pin("pin", "ground", "link3", (-0.2, 0, 0), (-short, 0, 0), (0.4, 0, 0), (long, 0, 0))
    return text.robot("ground")


MECHANISMS = {"pins": pins, "four-bar": four_bar, "five-bar": five_bar, "gripper": gripper, "Bennett": bennett}
