"""Content of a robot file before assembly into arrays: links, joints and couplings by name, with their lines.

The readers of URDF, MJCF and Newton write descriptions; ``assembly`` turns a description into a ``RobotModel``.
"""

from collections.abc import Container, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import NamedTuple

from ik_service.collision.shapes import NO_SHAPES, LinkShapes
from ik_service.mechanism.coordinates import CoordinateConstraint
from ik_service.mechanism.joint_type import JointType
from ik_service.mechanism.loops import LoopConstraint
from ik_service.mechanism.transforms import Float64Array, identity_transform

MAX_CONSTRAINTS = 256  # most loops of a document; further loops are left out
MAX_WARNINGS = 100  # most warnings reported for a file; further warnings are only counted
MAX_LENGTH = 500  # characters of a warning


@dataclass(frozen=True)
class LinkDescription:
    """A link."""

    name: str  # name of the link
    line: int | None = None  # line of its declaration
    mass: float = 0.0  # mass [kg], 0 if not given
    com: tuple[float, float, float] = (0.0, 0.0, 0.0)  # centre of mass in the link's frame [m]
    shapes: LinkShapes = NO_SHAPES  # collision shapes


@dataclass(frozen=True)
class MimicDescription:
    """Coupling of a mimic joint: coordinate = multiplier * coordinate of the leader (a scalar joint) + offset."""

    leader: str
    multiplier: float
    offset: float
    line: int | None = None


@dataclass(frozen=True, eq=False)
class JointDescription:
    """A joint between two links."""

    name: str  # name of the joint
    joint_type: JointType  # type; FIXED welds the child to the parent
    parent: str  # name of the parent link
    child: str  # name of the child link
    # pose of the joint frame in the parent link at coordinate zero [m, xyzw], shape [7]
    X_parent: Float64Array = field(default_factory=identity_transform)
    axis: tuple[float, float, float] = (0.0, 0.0, 1.0)  # unit axis in the joint frame (planar: the normal), shape [3]
    lower: float = -inf  # lower limit [m or rad], -inf if unlimited
    upper: float = inf  # upper limit [m or rad], +inf if unlimited
    velocity: float = inf  # largest speed [m/s or rad/s], inf if not given
    effort: float = inf  # largest force or torque [N or N m], inf if not given
    acceleration: float = inf  # largest acceleration and deceleration [m/s^2 or rad/s^2], inf if not given
    mimic: MimicDescription | None = None  # coupling of a mimic joint; None for an independent joint
    locked_value: float | None = None  # coordinate of a joint held by the file; None for a moving joint
    line: int | None = None  # line of its declaration


@dataclass(frozen=True, eq=False)
class HingeDescription:
    """A revolute joint cut to make a tree, placed at the configuration with all coordinates 0."""

    name: str  # name of the loop closed by this joint
    link: str  # link on one side
    reference_link: str  # link on the other side
    # frame of the hinge, with its axis along z, in the link ``base_link`` or else the root, shape [7]
    X_base: Float64Array


def free_name(name: str, taken: Container[str]) -> str:
    """Give a name, with as many ``_`` behind as make a name that is not taken."""
    while name in taken:
        name += "_"
    return name


def bounded(warnings: Sequence[str]) -> tuple[str, ...]:
    """Cap number and length of warnings; the last warning counts the dropped ones."""
    kept = tuple(warning if len(warning) <= MAX_LENGTH else f"{warning[:MAX_LENGTH]}..." for warning in warnings)
    more = len(kept) - MAX_WARNINGS
    return kept if more <= 0 else (*kept[:MAX_WARNINGS], f"There are {more} more warnings of this file.")


class ReadConstraints(NamedTuple):
    """Constraints of a document."""

    loops: tuple[LoopConstraint, ...] = ()  # loop closures
    warnings: tuple[str, ...] = ()  # unread or reinterpreted parts of the document, a sentence each
    hinges: tuple[HingeDescription, ...] = ()  # loop closures whose frames follow from the robot
    freed: tuple[str, ...] = ()  # mimic joints of the file whose coupling only replaces a loop closure
    coordinates: tuple[CoordinateConstraint, ...] = ()  # constraints between coordinates of joints

    def joined(self, other: "ReadConstraints") -> "ReadConstraints":
        """Give these constraints followed by others."""
        return ReadConstraints._make(own + more for own, more in zip(self, other, strict=True))


@dataclass(frozen=True)
class RobotDescription:
    """Content of a robot file, links and joints in document order."""

    name: str  # name of the robot
    links: tuple[LinkDescription, ...]  # links
    joints: tuple[JointDescription, ...]  # joints
    constraints: ReadConstraints = field(default_factory=ReadConstraints)  # loop closures and other constraints

    def with_constraints(self, found: ReadConstraints) -> "RobotDescription":
        """Give the robot with further constraints; freed mimic joints become independent."""
        joints = (replace(joint, mimic=None) if joint.name in found.freed else joint for joint in self.joints)
        return replace(self, joints=tuple(joints), constraints=self.constraints.joined(found))
