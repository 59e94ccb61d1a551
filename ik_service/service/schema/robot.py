"""The documents of `GET /v1/robots` as JSON schema: names, tree, joints with their limits, links with their frames."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

Source = Literal["built_in", "uploaded"]
"""Where a robot is from: it came with the service, or was put at run time."""
Vector3 = Annotated[list[float], Field(min_length=3, max_length=3)]
Quaternion = Annotated[list[float], Field(min_length=4, max_length=4)]


class Pose(BaseModel):
    """A pose in the frame that the field's description names."""

    position: Vector3 = Field(description="[m]")
    orientation_xyzw: Quaternion


class DofBody(BaseModel):
    """One degree of freedom of a joint."""

    name: str
    lower: float | None = Field(description="Lower limit [rad or m]; null where there is none.")
    upper: float | None = Field(description="Upper limit [rad or m]; null where there is none.")
    velocity_limit: float | None = Field(description="Largest speed [rad/s or m/s]; null where none is known.")
    effort_limit: float | None = Field(description="Largest torque or force [N m or N]; null where none is known.")
    acceleration_limit: float | None = Field(description="Largest acceleration [rad/s^2 or m/s^2]; null where none is.")
    active: bool = Field(
        description="Whether the solver moves it, by itself or through its leader; false where locked."
    )
    leader: str | None = Field(description="The DOF that it follows (mimic); null where it leads itself.")
    multiplier: float = Field(description="Its coordinate is this times the leader's, plus `offset`; 1 where it leads.")
    offset: float = Field(description="[rad or m]; 0 where it leads.")
    tree: int | None = Field(description="Number of its kinematic tree; null where it is locked.")


class JointBody(BaseModel):
    """One joint that moves. `origin` is its frame in the frame of the parent joint's link (of the world at a root)."""

    name: str
    type: str
    parent: str | None = Field(description="The joint before it; null at a root.")
    child_link: str
    origin: Pose
    axis: Vector3 | None = Field(
        description="Unit axis in the joint frame (planar: the normal); null for ball, floating."
    )
    coordinates: list[str] = Field(description="Its entries of `coordinate_names`.")
    dofs: list[DofBody]


class LinkBody(BaseModel):
    """One link. Links without a joint of their own are fixed to the body that `joint` moves."""

    name: str
    parent: str | None = Field(description="The link before it; null for the root.")
    joint: str | None = Field(description="The joint that moves it; null for a link fixed to the world.")
    pose: Pose = Field(description="Its frame in the frame of that joint's child link (of the world without one).")


class LoopBody(BaseModel):
    """One loop that the robot closes: a frame on a link stands to a frame on another as a joint between them allows."""

    name: str
    joint: str = Field(description="As of `joint` of the objective `loop` in Python: weld, revolute and so on.")
    link: str
    reference_link: str | None = Field(description="The other link; null for the world.")
    offset: Pose = Field(description="The frame in the frame of `link`; axes of joints are along its z.")
    reference_offset: Pose = Field(description="The other frame in that of `reference_link`.")
    pitch: float | None = Field(description="Way along the axis per angle about it [m/rad]; null but for helical.")
    distance: float | None = Field(description="Distance of the two origins [m]; null but for distance.")
    limits: list[tuple[float | None, float | None]] | None = Field(
        description="Lower and upper limit of each coordinate of the joint [rad or m]; null where there is none."
    )


class CoordinateConstraintBody(BaseModel):
    """A joint whose coordinate is a polynomial in that of another joint."""

    name: str
    joint: str
    reference_joint: str
    coefficients: list[float] = Field(description="Of the polynomial, the constant first.")


class CollisionBody(BaseModel):
    """By what a robot is checked for collision."""

    spheres: dict[str, list[Annotated[list[float], Field(min_length=4, max_length=4)]]] = Field(
        description="Spheres that cover links, by link: centre x, y, z in its frame and radius [m]."
    )
    pairs: list[Annotated[list[str], Field(min_length=2, max_length=2)]] = Field(
        description="Links that are checked against each other."
    )


class RobotSummary(BaseModel):
    """A robot in the list."""

    name: str
    source: Source = Field(description="built_in: came with the service; uploaded: put at run time.")
    joint_coord_count: int
    joint_dof_count: int
    active_dof_count: int
    leaf_links: list[str] = Field(description="Links that carry no further link: likely ends to give targets for.")


class RobotList(BaseModel):
    """The robots that are served."""

    robots: list[RobotSummary]


class RobotBody(RobotSummary):
    """All that a client needs to draw a robot and to read its configurations."""

    content_hash: str = Field(description="Changes with the robot, and with nothing else.")
    coordinate_names: list[str]
    dof_names: list[str]
    home_joint_q: list[float] = Field(description="Configuration in the middle of the limits [rad or m].")
    tree_count: int = Field(description="Kinematic trees: parts that only targets couple.")
    joints: list[JointBody]
    links: list[LinkBody]
    loops: list[LoopBody]
    coordinate_constraints: list[CoordinateConstraintBody]
    collision: CollisionBody | None = Field(description="null where the robot has no collision model.")
    warnings: list[str] = Field(description="What of the robot's file is not read, or read otherwise than it says.")
