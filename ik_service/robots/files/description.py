"""What a robot file says, before it becomes arrays: links, joints and couplings by name, with their lines.

The URDF and MJCF readers write descriptions; ``assembly`` turns one into a ``RobotModel``.
"""

from dataclasses import dataclass, field
from math import inf

from ik_service.robots.constraints.loops import LoopConstraint
from ik_service.robots.joint_type import JointType
from ik_service.robots.transforms import Float64Array, identity_transform


@dataclass(frozen=True)
class LinkDescription:
    """A link.

    Attributes:
        name: Name of the link.
        line: Line that declares it.
        mass: Its mass [kg], 0 where the file gives none.
        com: Centre of that mass in the link's frame [m].
    """

    name: str
    line: int | None = None
    mass: float = 0.0
    com: tuple[float, float, float] = (0.0, 0.0, 0.0)


@dataclass(frozen=True)
class MimicDescription:
    """A coupling: coordinate = multiplier * coordinate of the leader + offset."""

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
    mimic: MimicDescription | None = None
    locked_value: float | None = None
    line: int | None = None


@dataclass(frozen=True)
class RobotDescription:
    """A robot as its file describes it, links and joints in document order.

    Attributes:
        name: Name of the robot.
        links: Its links.
        joints: Its joints.
        loops: Loops that it closes.
        warnings: What was left out, a sentence each.
    """

    name: str
    links: tuple[LinkDescription, ...]
    joints: tuple[JointDescription, ...]
    loops: tuple[LoopConstraint, ...] = ()
    warnings: tuple[str, ...] = ()
