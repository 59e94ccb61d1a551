"""Content of a robot file before assembly into arrays: links, joints and couplings by name, with their lines.

The readers of URDF, MJCF and Newton write descriptions; ``assembly`` turns a description into a ``RobotModel``.
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
"""Most loops of a document; further loops are left out."""
MAX_WARNINGS = 100
"""Most warnings reported for a file; further warnings are only counted."""
MAX_LENGTH = 500  # characters of a warning


@dataclass(frozen=True)
class LinkDescription:
    """A link.

    Attributes:
        name: Name of the link.
        line: Line of its declaration.
        mass: Mass [kg], 0 if not given.
        com: Centre of mass in the link's frame [m].
        shapes: Collision shapes.
    """

    name: str
    line: int | None = None
    mass: float = 0.0
    com: tuple[float, float, float] = (0.0, 0.0, 0.0)
    shapes: LinkShapes = NO_SHAPES


@dataclass(frozen=True)
class MimicDescription:
    """Coupling of a mimic joint: coordinate = multiplier * coordinate of the leader (a scalar joint) + offset."""

    leader: str
    multiplier: float
    offset: float
    line: int | None = None


@dataclass(frozen=True, eq=False)
class JointDescription:
    """A joint between two links.

    Attributes:
        name: Name of the joint.
        joint_type: Type; FIXED welds the child to the parent.
        parent: Name of the parent link.
        child: Name of the child link.
        X_parent: Pose of the joint frame in the parent link at coordinate zero [m, xyzw], shape [7].
        axis: Unit axis in the joint frame (planar: the normal), shape [3].
        lower: Lower limit [m or rad], -inf if unlimited.
        upper: Upper limit [m or rad], +inf if unlimited.
        velocity: Largest speed [m/s or rad/s], inf if not given.
        effort: Largest force or torque [N or N m], inf if not given.
        acceleration: Largest acceleration and deceleration [m/s^2 or rad/s^2], inf if not given.
        mimic: Coupling of a mimic joint; None for an independent joint.
        locked_value: Coordinate of a joint held by the file; None for a moving joint.
        line: Line of its declaration.
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
    """A revolute joint cut to make a tree, placed at the configuration with all coordinates 0.

    Attributes:
        name: Name of the loop closed by this joint.
        link: Link on one side.
        reference_link: Link on the other side.
        X_base: Frame of the hinge, with its axis along z, in the link ``base_link`` or else the root, shape [7].
    """

    name: str
    link: str
    reference_link: str
    X_base: Float64Array


def bounded(warnings: Sequence[str]) -> tuple[str, ...]:
    """Cap number and length of warnings; the last warning counts the dropped ones."""
    kept = tuple(warning if len(warning) <= MAX_LENGTH else f"{warning[:MAX_LENGTH]}..." for warning in warnings)
    more = len(kept) - MAX_WARNINGS
    return kept if more <= 0 else (*kept[:MAX_WARNINGS], f"There are {more} more warnings of this file.")


class ReadConstraints(NamedTuple):
    """Constraints of a document.

    Attributes:
        loops: Loop closures.
        warnings: Unread or reinterpreted parts of the document, a sentence each.
        hinges: Loop closures whose frames follow from the robot.
        freed: Mimic joints of the file whose coupling only replaces a loop closure.
        coordinates: Constraints between coordinates of joints.
    """

    loops: tuple[LoopConstraint, ...] = ()
    warnings: tuple[str, ...] = ()
    hinges: tuple[HingeDescription, ...] = ()
    freed: tuple[str, ...] = ()
    coordinates: tuple[CoordinateConstraint, ...] = ()

    def joined(self, other: "ReadConstraints") -> "ReadConstraints":
        """Give these constraints followed by others."""
        return ReadConstraints._make(own + more for own, more in zip(self, other, strict=True))


@dataclass(frozen=True)
class RobotDescription:
    """Content of a robot file, links and joints in document order.

    Attributes:
        name: Name of the robot.
        links: Links.
        joints: Joints.
        constraints: Loop closures and other constraints.
    """

    name: str
    links: tuple[LinkDescription, ...]
    joints: tuple[JointDescription, ...]
    constraints: ReadConstraints = field(default_factory=ReadConstraints)

    def with_constraints(self, found: ReadConstraints) -> "RobotDescription":
        """Give the robot with further constraints; freed mimic joints become independent."""
        joints = (replace(joint, mimic=None) if joint.name in found.freed else joint for joint in self.joints)
        return replace(self, joints=tuple(joints), constraints=self.constraints.joined(found))
