"""Content of a robot file, before it becomes arrays: links, joints and couplings by name, with their lines.

The URDF and MJCF readers write descriptions; ``assembly`` turns one into a ``RobotModel``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import NamedTuple

from ik_service.collision.shapes import NO_SHAPES, LinkShapes
from ik_service.mechanism.coordinates import CoordinateConstraint
from ik_service.mechanism.joint_type import JointType
from ik_service.mechanism.loops import LoopConstraint
from ik_service.mechanism.transforms import Float64Array, identity_transform

MAX_CONSTRAINTS = 256
"""Most loops that a document may have; those after them are left out."""
MAX_WARNINGS = 100
"""Most warnings of a file that are told; those after them are counted."""
MAX_LENGTH = 500  # characters of a warning


@dataclass(frozen=True)
class LinkDescription:
    """A link.

    Attributes:
        name: Name of the link.
        line: Line that declares it.
        mass: Its mass [kg], 0 where the file gives none.
        com: Centre of that mass in the link's frame [m].
        shapes: What it collides with.
    """

    name: str
    line: int | None = None
    mass: float = 0.0
    com: tuple[float, float, float] = (0.0, 0.0, 0.0)
    shapes: LinkShapes = NO_SHAPES


@dataclass(frozen=True)
class MimicDescription:
    """A coupling: coordinate = multiplier * coordinate of the leader, a joint of one coordinate, + offset."""

    leader: str
    multiplier: float
    offset: float
    line: int | None = None


@dataclass(frozen=True, eq=False)
class JointDescription:
    """A joint between two links.

    Attributes:
        name: Name of the joint.
        joint_type: Its type; FIXED welds the child to the parent.
        parent: Name of the parent link.
        child: Name of the child link.
        X_parent: Pose of the joint frame in the parent link at coordinate zero [m, xyzw], shape [7].
        axis: Unit axis in the joint frame (planar: the normal), shape [3].
        lower: Lower limit [m or rad], -inf where there is none.
        upper: Upper limit [m or rad], +inf where there is none.
        velocity: Largest speed [m/s or rad/s], inf where none is given.
        effort: Largest force or torque [N or N m], inf where none is given.
        acceleration: Largest acceleration and deceleration [m/s^2 or rad/s^2], inf where none is given.
        mimic: The coupling that drives this joint; None where it is free.
        locked_value: Coordinate at which the file holds this joint; None where it moves.
        line: Line that declares the joint.
    """

    name: str
    joint_type: JointType
    parent: str
    child: str
    X_parent: Float64Array = field(default_factory=identity_transform)
    axis: tuple[float, float, float] = (0.0, 0.0, 1.0)
    lower: float = -inf
    upper: float = inf
    velocity: float = inf
    effort: float = inf
    acceleration: float = inf
    mimic: MimicDescription | None = None
    locked_value: float | None = None
    line: int | None = None


@dataclass(frozen=True, eq=False)
class HingeDescription:
    """A revolute joint that was cut to make a tree, where it stands when all coordinates are 0.

    Attributes:
        name: Name of the loop that it closes.
        link: Link on one side of it.
        reference_link: Link on the other side.
        X_base: Frame of the hinge, which turns about z, in the link ``base_link`` or else the root, shape [7].
    """

    name: str
    link: str
    reference_link: str
    X_base: Float64Array


def bounded(warnings: Sequence[str]) -> tuple[str, ...]:
    """Give warnings of a file that are no more and no longer than a reader takes; the last one counts the others."""
    kept = tuple(warning if len(warning) <= MAX_LENGTH else f"{warning[:MAX_LENGTH]}..." for warning in warnings)
    more = len(kept) - MAX_WARNINGS
    return kept if more <= 0 else (*kept[:MAX_WARNINGS], f"There are {more} more warnings of this file.")


class ReadConstraints(NamedTuple):
    """Constraints of a document.

    Attributes:
        loops: Loops that a robot closes.
        warnings: What of the document is not read, or read otherwise than it says, a sentence each.
        hinges: Loops whose frames follow from the robot.
        freed: Joints that follow others only for readers that close no loops.
        coordinates: Constraints between coordinates of joints.
    """

    loops: tuple[LoopConstraint, ...] = ()
    warnings: tuple[str, ...] = ()
    hinges: tuple[HingeDescription, ...] = ()
    freed: tuple[str, ...] = ()
    coordinates: tuple[CoordinateConstraint, ...] = ()

    def joined(self, other: "ReadConstraints") -> "ReadConstraints":
        """Give these and others."""
        return ReadConstraints(
            self.loops + other.loops,
            self.warnings + other.warnings,
            self.hinges + other.hinges,
            self.freed + other.freed,
            self.coordinates + other.coordinates,
        )


@dataclass(frozen=True)
class RobotDescription:
    """A robot as its file describes it, links and joints in document order.

    Attributes:
        name: Name of the robot.
        links: Its links.
        joints: Its joints.
        constraints: What closes loops of links.
    """

    name: str
    links: tuple[LinkDescription, ...]
    joints: tuple[JointDescription, ...]
    constraints: ReadConstraints = field(default_factory=ReadConstraints)

    def with_constraints(self, found: ReadConstraints) -> "RobotDescription":
        """Give the robot with further constraints; joints that these free follow no other."""
        joints = (replace(joint, mimic=None) if joint.name in found.freed else joint for joint in self.joints)
        return replace(self, joints=tuple(joints), constraints=self.constraints.joined(found))
