"""Conversion of a robot model to its documents."""

import dataclasses
import math

from ik_service.mechanism.joint_type import JointType
from ik_service.mechanism.names import leaf_links
from ik_service.mechanism.trees import moved_link
from ik_service.robots import LoopConstraint, RobotModel
from ik_service.service.schema.robot import (
    CollisionBody,
    CoordinateConstraintBody,
    DofBody,
    JointBody,
    LinkBody,
    LoopBody,
    Pose,
    RobotBody,
    RobotSummary,
    Source,
)


def robot_summary(name: str, robot: RobotModel, source: Source = "built_in") -> RobotSummary:
    """Return the entry of a robot in the list of robots."""
    return RobotSummary(
        name=name,
        source=source,
        joint_coord_count=robot.joint_coord_count,
        joint_dof_count=robot.joint_dof_count,
        active_dof_count=robot.active_dof_count,
        leaf_links=leaf_links(robot),
    )


def robot_body(name: str, robot: RobotModel, source: Source = "built_in") -> RobotBody:
    """Return the full description of a robot."""
    collision, model = None, robot.collision_model
    if model is not None:
        spheres = {link: own.tolist() for link, own in model.spheres.items()}
        collision = CollisionBody(spheres=spheres, pairs=[list(pair) for pair in model.pairs])
    return RobotBody(
        **robot_summary(name, robot, source).model_dump(),
        content_hash=robot.content_hash,
        coordinate_names=list(robot.coordinate_names),
        dof_names=list(robot.dof_names),
        home_joint_q=robot.mid_joint_q.tolist(),
        tree_count=robot.trees.ntree,
        joints=[_joint(robot, index) for index in range(robot.joint_count)],
        links=[_link(robot, index) for index in range(len(robot.link_names))],
        loops=[_loop(loop) for loop in robot.loops],
        coordinate_constraints=[
            CoordinateConstraintBody(**dataclasses.asdict(one)) for one in robot.coordinate_constraints
        ],
        collision=collision,
        warnings=list(robot.warnings),
    )


def _joint(robot: RobotModel, index: int) -> JointBody:
    kind = JointType(int(robot.joint_type[index]))
    dofs = range(int(robot.joint_qd_start[index]), int(robot.joint_qd_start[index + 1]))
    coordinates = slice(int(robot.joint_q_start[index]), int(robot.joint_q_start[index + 1]))
    parent = int(robot.joint_parent[index])
    has_axis = kind not in (JointType.BALL, JointType.FLOATING)
    return JointBody(
        name=robot.joint_names[index],
        type=kind.name.lower(),
        parent=None if parent < 0 else robot.joint_names[parent],
        child_link=robot.link_names[moved_link(robot, index)],
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
        acceleration_limit=_finite(float(robot.joint_acceleration_limit[dof])),
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


def _loop(loop: LoopConstraint) -> LoopBody:
    return LoopBody(
        name=loop.name,
        joint=loop.joint,
        link=loop.link,
        reference_link=loop.reference_link,
        offset=_pose(list(loop.offset)),
        reference_offset=_pose(list(loop.reference_offset)),
        pitch=loop.pitch,
        distance=loop.distance,
        limits=None if loop.limits is None else [(_finite(lower), _finite(upper)) for lower, upper in loop.limits],
    )


def _pose(transform: list[float]) -> Pose:
    return Pose(position=transform[:3], orientation_xyzw=transform[3:])


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
