"""What `GET /v1/robots` tells about robots: names, tree, joints with their limits, links with their frames."""

import math
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, Field

from ik_service.robots import RobotModel
from ik_service.robots.joint_type import JointType
from ik_service.robots.structure.names import leaf_links

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


def robot_summary(name: str, robot: RobotModel, source: Source = "built_in") -> RobotSummary:
    """Return a robot's line of the list."""
    return RobotSummary(
        name=name,
        source=source,
        joint_coord_count=robot.joint_coord_count,
        joint_dof_count=robot.joint_dof_count,
        active_dof_count=robot.active_dof_count,
        leaf_links=leaf_links(robot),
    )


def robot_body(name: str, robot: RobotModel, source: Source = "built_in") -> RobotBody:
    """Return all that is told about a robot."""
    return RobotBody(
        **robot_summary(name, robot, source).model_dump(),
        content_hash=robot.content_hash,
        coordinate_names=list(robot.coordinate_names),
        dof_names=list(robot.dof_names),
        home_joint_q=robot.mid_joint_q.tolist(),
        tree_count=robot.trees.ntree,
        joints=[_joint(robot, index, child) for index, child in enumerate(_child_links(robot))],
        links=[_link(robot, index) for index in range(len(robot.link_names))],
    )


def _joint(robot: RobotModel, index: int, child_link: str) -> JointBody:
    kind = JointType(int(robot.joint_type[index]))
    dofs = range(int(robot.joint_qd_start[index]), int(robot.joint_qd_start[index + 1]))
    coordinates = slice(int(robot.joint_q_start[index]), int(robot.joint_q_start[index + 1]))
    parent = int(robot.joint_parent[index])
    has_axis = kind not in (JointType.BALL, JointType.FLOATING)
    return JointBody(
        name=robot.joint_names[index],
        type=kind.name.lower(),
        parent=None if parent < 0 else robot.joint_names[parent],
        child_link=child_link,
        origin=_pose(robot.joint_X_p[index].tolist()),
        axis=robot.joint_axis[dofs[-1]].tolist() if has_axis else None,
        coordinates=list(robot.coordinate_names[coordinates]),
        dofs=[_dof(robot, dof) for dof in dofs],
    )


def _dof(robot: RobotModel, dof: int) -> DofBody:
    info = robot.dof_at(dof)
    velocity = float(robot.joint_velocity_limit[dof])
    leader, tree = int(robot.dof_leader[dof]), int(robot.trees.dof_treeid[dof])
    return DofBody(
        name=info.name,
        lower=_finite(info.lower),
        upper=_finite(info.upper),
        velocity_limit=_finite(velocity),
        effort_limit=_finite(float(robot.joint_effort_limit[dof])),
        active=info.active,
        leader=None if leader == dof else robot.dof_names[leader],
        multiplier=float(robot.dof_multiplier[dof]),
        offset=float(robot.dof_offset[dof]),
        tree=None if tree < 0 else tree,
    )


def _link(robot: RobotModel, index: int) -> LinkBody:
    body = int(robot.link_body[index])
    parent = int(robot.link_parent[index])
    return LinkBody(
        name=robot.link_names[index],
        parent=None if parent < 0 else robot.link_names[parent],
        joint=None if body < 0 else robot.joint_names[body],
        pose=_pose(robot.link_X_body[index].tolist()),
    )


def _child_links(robot: RobotModel) -> list[str]:
    """The link that each joint moves: the first one of its body."""
    first = np.unique(robot.link_body, return_index=True)
    links = dict(zip(first[0].tolist(), first[1].tolist(), strict=True))
    return [robot.link_names[links[body]] for body in range(robot.joint_count)]


def _pose(transform: list[float]) -> Pose:
    return Pose(position=transform[:3], orientation_xyzw=transform[3:])


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
