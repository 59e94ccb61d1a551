"""A judge of configurations that shares no code with the product: its own walk over a URDF, its own rotations, float64.

What it takes for granted stands in `docs/conventions.md`: names and order of coordinates, frames of joints, what an
error is. Columns of a batch are given by the names of coordinates.
"""

import math
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Columns = Mapping[str, Array]
Pose = tuple[Array, Array]  # positions [n, 3] and rotations [n, 3, 3]

SCALAR = ("revolute", "continuous", "prismatic")
COORDINATES = {
    **dict.fromkeys(SCALAR, ("",)),
    "planar": ("/x", "/y", "/angle"),
    "ball": ("/qx", "/qy", "/qz", "/qw"),
    "floating": ("/px", "/py", "/pz", "/qx", "/qy", "/qz", "/qw"),
    "fixed": (),
}
WIDE = 3.0  # joints without limits are drawn up to here [m or rad]


def skew(vector: Array) -> Array:
    x, y, z = vector
    return np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])


def rotation_about(axis: Array, angle: Array) -> Array:
    """Rotations about a unit axis by angles [n]: [n, 3, 3] (Rodrigues)."""
    k = skew(axis)
    sine, cosine = np.sin(angle)[:, None, None], np.cos(angle)[:, None, None]
    return np.eye(3) + sine * k + (1.0 - cosine) * (k @ k)


def rotation_of(q_xyzw: Array) -> Array:
    """Rotations of quaternions [n, 4] of any length but 0: [n, 3, 3]."""
    x, y, z, w = (q_xyzw / np.linalg.norm(q_xyzw, axis=1, keepdims=True)).T
    rows = (
        (1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
        (2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
        (2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
    )
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def quaternion_of(rotation: Array) -> Array:
    """Quaternions q [n, 4] xyzw of rotations [n, 3, 3]: eigenvectors of 4 q q^T - 1 (Bar-Itzhack)."""
    trace, k = np.trace(rotation, axis1=1, axis2=2), np.empty((len(rotation), 4, 4))
    k[:, :3, :3] = rotation + np.swapaxes(rotation, 1, 2) - trace[:, None, None] * np.eye(3)
    for axis, (i, j) in enumerate(((2, 1), (0, 2), (1, 0))):
        k[:, axis, 3] = k[:, 3, axis] = rotation[:, i, j] - rotation[:, j, i]
    k[:, 3, 3] = trace
    return np.asarray(np.linalg.eigh(k)[1][:, :, -1])


def rotation_vector(rotation: Array) -> Array:
    """Axis times angle, of at most half a turn, of rotations [n, 3, 3]: [n, 3]."""
    q = quaternion_of(rotation)
    q = np.where(q[:, 3:] < 0.0, -q, q)
    sine = np.linalg.norm(q[:, :3], axis=1)
    angle = 2.0 * np.arctan2(sine, q[:, 3])
    factor = np.where(sine > 0.0, angle / np.where(sine > 0.0, sine, 1.0), 2.0)
    return q[:, :3] * factor[:, None]


def from_rpy(roll: float, pitch: float, yaw: float) -> Array:
    """Rotation of roll, pitch and yaw about fixed axes, [3, 3]."""
    turns = [
        rotation_about(axis, np.array([angle]))[0] for axis, angle in zip(np.eye(3), (roll, pitch, yaw), strict=True)
    ]
    return np.asarray(turns[2] @ turns[1] @ turns[0])


def from_z_to(normal: Array) -> Array:
    """The smallest rotation that takes z to a unit vector other than -z, [3, 3]."""
    z = np.array([0.0, 0.0, 1.0])
    k = skew(np.cross(z, normal))
    return np.asarray(np.eye(3) + k + k @ k / (1.0 + normal[2]))


def apart(current: Pose, target: Pose) -> tuple[Array, Array]:
    """What lies between two batches of poses: differences of position and rotation vectors, each [n, 3]."""
    return current[0] - target[0], rotation_vector(current[1] @ np.swapaxes(target[1], 1, 2))


def composed(first: Pose, second: Pose) -> Pose:
    return first[0] + np.einsum("nij,nj->ni", first[1], second[0]), first[1] @ second[1]


def seen_from(frame: Pose, pose: Pose) -> Pose:
    turned = np.swapaxes(frame[1], 1, 2)
    return np.einsum("nij,nj->ni", turned, pose[0] - frame[0]), turned @ pose[1]


@dataclass(frozen=True)
class Joint:
    """A joint of a URDF as it is written; limits are infinite where there are none."""

    name: str
    kind: str
    parent: str
    child: str
    xyz: Array
    turn: Array
    axis: Array
    lower: float
    upper: float
    velocity: float
    leader: str
    multiplier: float
    offset: float

    @property
    def columns(self) -> list[str]:
        return [self.name + end for end in COORDINATES[self.kind]]


def read_joint(element: ET.Element) -> Joint:
    def numbers(tag: str, attribute: str, default: str) -> Array:
        found = element.find(tag)
        return np.array((found.get(attribute, default) if found is not None else default).split(), dtype=float)

    kind, limit, mimic = element.attrib["type"], element.find("limit"), element.find("mimic")
    axis = numbers("axis", "xyz", "1 0 0")
    lower, upper, velocity = -math.inf, math.inf, math.inf
    if limit is not None:
        velocity = float(limit.get("velocity", 0)) or math.inf
        if kind in ("revolute", "prismatic"):
            lower, upper = float(limit.attrib["lower"]), float(limit.attrib["upper"])
    follows = mimic.attrib if mimic is not None and kind != "fixed" else {"joint": ""}
    return Joint(
        name=element.attrib["name"],
        kind=kind,
        parent=str(element.find("parent").attrib["link"]),
        child=str(element.find("child").attrib["link"]),
        xyz=numbers("origin", "xyz", "0 0 0"),
        turn=from_rpy(*numbers("origin", "rpy", "0 0 0")),
        axis=axis / np.linalg.norm(axis),
        lower=lower,
        upper=upper,
        velocity=velocity,
        leader=follows["joint"],
        multiplier=float(follows.get("multiplier", 1.0)),
        offset=float(follows.get("offset", 0.0)),
    )


@dataclass
class Judge:
    """Kinematics and couplings of a robot file: its joints, the joint above each link but the root, its links."""

    joints: dict[str, Joint] = field(default_factory=dict)
    above: dict[str, Joint] = field(default_factory=dict)
    links: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, urdf: bytes) -> "Judge":
        root = ET.fromstring(urdf)
        joints = [read_joint(element) for element in root.findall("joint")]
        links = [element.attrib["name"] for element in root.findall("link")]
        return cls({joint.name: joint for joint in joints}, {joint.child: joint for joint in joints}, links)

    @property
    def scalars(self) -> list[Joint]:
        return [joint for joint in self.joints.values() if joint.kind in SCALAR]

    def follows(self, joint: Joint) -> tuple[Joint, float, float]:
        """The joint that leads a joint at the end of its chain, with multiplier and offset; itself where none does."""
        multiplier, offset = 1.0, 0.0
        while joint.leader:
            offset += multiplier * joint.offset
            multiplier *= joint.multiplier
            joint = self.joints[joint.leader]
        return joint, multiplier, offset

    def spans(self) -> dict[str, tuple[float, float]]:
        """Limits of every joint that leads itself, narrowed by those that follow it."""
        found = {joint.name: (joint.lower, joint.upper) for joint in self.scalars if not joint.leader}
        for joint in self.scalars:
            leader, multiplier, offset = self.follows(joint)
            if joint.leader and multiplier != 0.0:
                ends = sorted(((joint.lower - offset) / multiplier, (joint.upper - offset) / multiplier))
                lower, upper = found[leader.name]
                found[leader.name] = max(lower, ends[0]), min(upper, ends[1])
        return found

    def movable(self, link: str) -> bool:
        while link in self.above:
            if self.above[link].kind != "fixed":
                return True
            link = self.above[link].parent
        return False

    def draw(self, rng: np.random.Generator, count: int) -> dict[str, Array]:
        """Random configurations inside the limits, followers with their leaders."""
        columns: dict[str, Array] = {}
        for joint in self.joints.values():
            for name in joint.columns:
                columns[name] = rng.uniform(-WIDE, WIDE, count)
            if joint.kind in ("ball", "floating"):
                turns = rng.normal(size=(count, 4))
                turns /= np.linalg.norm(turns, axis=1, keepdims=True)
                columns.update(zip(joint.columns[-4:], turns.T, strict=True))
        for name, (lower, upper) in self.spans().items():
            columns[name] = rng.uniform(max(lower, -WIDE), max(min(upper, WIDE), lower, -WIDE), count)
        for joint in self.scalars:
            leader, multiplier, offset = self.follows(joint)
            if joint.leader:
                columns[joint.name] = multiplier * columns[leader.name] + offset
        return columns

    def poses(self, links: Iterable[str], columns: Columns) -> list[Pose]:
        count = len(next(iter(columns.values())))
        known: dict[str, Pose] = {}

        def pose(link: str) -> Pose:
            if link not in known:
                known[link] = np.zeros((count, 3)), np.broadcast_to(np.eye(3), (count, 3, 3))
                if link in self.above:
                    joint = self.above[link]
                    frame = composed(pose(joint.parent), (joint.xyz[None], joint.turn[None]))
                    known[link] = composed(frame, motion(joint, [columns[name] for name in joint.columns]))
            return known[link]

        return [pose(link) for link in links]


def motion(joint: Joint, q: list[Array]) -> Pose:
    still = np.zeros((1, 3)), np.eye(3)[None]
    if joint.kind in ("revolute", "continuous"):
        return still[0], rotation_about(joint.axis, q[0])
    if joint.kind == "prismatic":
        return q[0][:, None] * joint.axis, still[1]
    if joint.kind == "planar":
        inside = np.column_stack([q[0], q[1], np.zeros(len(q[0]))])
        return inside @ from_z_to(joint.axis).T, rotation_about(joint.axis, q[2])
    if joint.kind == "ball":
        return still[0], rotation_of(np.column_stack(q))
    if joint.kind == "floating":
        return np.column_stack(q[:3]), rotation_of(np.column_stack(q[3:]))
    return still
