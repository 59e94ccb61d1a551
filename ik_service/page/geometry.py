"""Pictures of a robot: rods along the link tree, discs for joints, balls at leaf links, meshes where available.

Every part is fixed to a body (-1 for the world), so a picture of a configuration is the poses of the bodies times the
poses of the parts in them. No part of this file knows viser.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.mechanism.transforms import Float64Array, identity_transform, quaternion_between, transform_multiply
from ik_service.robots import JointType, RobotModel
from ik_service.robots.readers.mesh_file import Mesh

Ends = tuple[float, float]
ROD_SHARE = 0.036  # radius of the thickest rod over the size of the robot; those of the last links have half of it
DISC_RADIUS, DISC_HEIGHT = 1.55, 2.5  # of a disc, over the radius of the rod that ends there
RAIL_RADIUS = 0.45  # of the rail of a slider, over the radius of the rod
RAIL_SHARE = 0.15  # longest way of a rail to either side, over the size of the robot
MESH_SIDES = 16  # of a round mesh: few, since a browser without a graphics card feels every corner
LEAST_SIZE = 1e-3  # size of a robot without any length [m]
_Z_AXIS = np.array([0.0, 0.0, 1.0])


class Role(IntEnum):
    """Role of a part; decides its colour."""

    ROD = 0
    JOINT = 1
    TIP = 2
    LINK = 3


@dataclass(frozen=True, eq=False)
class Parts:
    """Scaled copies of one mesh."""

    mesh: Mesh
    body: NDArray[np.int64]  # body of each part, -1 for the world, shape [parts]
    X_body: Float64Array  # `T_body_part` [m, xyzw], shape [parts, 7]
    scales: Float64Array  # scale of the mesh along its axes [m], shape [parts, 3]
    role: NDArray[np.int64]  # `Role` of each part, shape [parts]
    index: NDArray[np.int64]  # DOF of a disc; link of a tip, a mesh or a sphere; -1 for other parts, shape [parts]
    link: NDArray[np.int64]  # link of each part, for a disc the link turned by the joint; -1 for spheres, shape [parts]

    def poses(self, bodies: Float64Array) -> Float64Array:
        """Return where the parts are in the world frame [m, xyzw], shape [n, parts, 7], from `placed_bodies`."""
        return transform_multiply(bodies[:, self.body], self.X_body)


@dataclass
class _Row:
    """One part during collection."""

    body: int
    pose: Float64Array
    scales: tuple[float, float, float]
    role: Role
    index: int = -1
    link: int = -1


def loop_rods(robot: RobotModel, bodies: Float64Array) -> Float64Array:
    """Return the ends of rods that close loops by their length [m], [rods, 2, 3], from `placed_bodies`."""
    ends = list[list[Float64Array]]()
    for loop in robot.loops:
        if loop.distance is not None:
            frames = ((loop.link, loop.offset), (loop.reference_link, loop.reference_offset))
            ends.append([_place(robot, bodies[0], link, np.asarray(offset, np.float64)) for link, offset in frames])
    return np.array(ends, np.float64).reshape(-1, 2, 3)


def _place(robot: RobotModel, bodies: Float64Array, link: str | None, offset: Float64Array) -> Float64Array:
    body, frame = (-1, identity_transform()) if link is None else robot.link_frame(link)
    return transform_multiply(bodies[body], transform_multiply(frame, offset))[:3]


def placed_bodies(robot: RobotModel, joint_q: NDArray[Any]) -> Float64Array:
    """Return `T_world_body` [m, xyzw] of every body and, last, of the world itself, shape [n, body_count + 1, 7]."""
    bodies = robot.body_poses(np.asarray(joint_q, np.float64))
    return np.concatenate([bodies, np.broadcast_to(identity_transform(), (len(bodies), 1, 7))], axis=1)


def robot_parts(robot: RobotModel, meshes: Mapping[str, Sequence[Mesh]] | None = None) -> tuple[Parts, ...]:
    """Return rods with discs, balls for tips, and the meshes of links; links with a mesh have no rods."""
    size, meshes = robot_size(robot), meshes or {}
    thickness = ROD_SHARE * size * _slenderness(robot)
    cylinders, balls, rounded = list[_Row](), list[_Row](), set[tuple[float, ...]]()
    for body, start, end, link in _rods(robot):
        if robot.link_names[link] in meshes:
            continue
        radius, length = float(thickness[link]), float(np.linalg.norm(end - start))
        if length > 0.05 * radius:
            turn = quaternion_between(_Z_AXIS, (end - start) / length)
            pose = np.concatenate([0.5 * (start + end), turn])
            cylinders.append(_Row(body, pose, (radius, radius, length), Role.ROD, link=link))
        for point in (start, end):
            key = (body, *np.round(point, 9).tolist())
            if key not in rounded:
                balls.append(_Row(body, _at(point), (radius, radius, radius), Role.ROD, link=link))
            rounded.add(key)
    for joint in range(robot.joint_count):
        link = int(np.flatnonzero(robot.link_body == joint)[0])
        cylinders += (
            replace(row, link=link) for row in _joint(robot, float(thickness[link]), RAIL_SHARE * size, joint)
        )
    leaves = set(range(len(robot.link_names))) - set(robot.link_parent.tolist())
    for link in sorted(leaves):
        radius = 1.15 * float(thickness[link])
        balls.append(_Row(int(robot.link_body[link]), robot.link_X_body[link], (radius,) * 3, Role.TIP, link, link))
    links = [(link, mesh) for link, name in enumerate(robot.link_names) for mesh in meshes.get(name, ())]
    return (
        _parts(cylinder_mesh(), cylinders),
        _parts(ball_mesh(), balls),
        *(
            _parts(mesh, [_Row(int(robot.link_body[link]), robot.link_X_body[link], (1.0,) * 3, Role.LINK, link, link)])
            for link, mesh in links
        ),
    )


def sphere_parts(robot: RobotModel) -> Parts:
    """Return the collision spheres of a robot with a collision model; `index` is the place of the link in `links`."""
    spheres = robot.body_spheres
    assert spheres is not None  # the robot has some
    rows = [
        _Row(int(spheres.link_body[place]), _at(spheres.centers[k]), (float(spheres.radii[k]),) * 3, Role.JOINT, place)
        for place in range(len(spheres.links))
        for k in range(*spheres.of_link(place).indices(len(spheres.radii)))
    ]
    return _parts(ball_mesh(), rows)


def robot_size(robot: RobotModel) -> float:
    """Return the size of a robot: diagonal of the bounding box of its links at mid-range [m]."""
    points = robot.forward_kinematics(robot.mid_joint_q).positions[0]
    span = float(np.linalg.norm(np.ptp(points, axis=0)))
    return max(span, float(np.linalg.norm(robot.joint_X_p[:, :3], axis=1).max(initial=0.0)), LEAST_SIZE)


def _rods(robot: RobotModel) -> Iterator[tuple[int, Float64Array, Float64Array, int]]:
    """Yield each rod: body, end points in the body frame [m], and link."""
    for link, parent in enumerate(robot.link_parent.tolist()):
        body = int(robot.link_body[link])
        if parent < 0:
            continue
        below = int(robot.link_body[parent])
        start = robot.link_X_body[parent, :3]
        if body == below:
            yield body, start, robot.link_X_body[link, :3], link
        elif robot.joint_type[body] != JointType.FLOATING:
            yield below, start, robot.joint_X_p[body, :3], parent
    for loop in robot.loops:
        for name, offset in ((loop.link, loop.offset), (loop.reference_link, loop.reference_offset)):
            if name is not None:
                link = robot.link_index(name)
                frame = transform_multiply(robot.link_X_body[link], np.asarray(offset, np.float64))
                yield int(robot.link_body[link]), robot.link_X_body[link, :3], frame[:3], link


def _joint(robot: RobotModel, radius: float, reach: float, joint: int) -> Iterator[_Row]:
    """Yield discs about the rotation axes of a joint, and the rail of a sliding joint."""
    start, stop = int(robot.joint_qd_start[joint]), int(robot.joint_qd_start[joint + 1])
    if robot.joint_type[joint] == JointType.FLOATING:
        return
    linear, parent = int(robot.joint_dof_dim[joint, 0]), int(robot.joint_parent[joint])
    for dof in range(start, stop):
        turn = quaternion_between(_Z_AXIS, robot.joint_axis[dof])
        pose = transform_multiply(robot.joint_X_p[joint], np.concatenate([np.zeros(3), turn]))
        if dof - start >= linear:
            scales = (DISC_RADIUS * radius, DISC_RADIUS * radius, DISC_HEIGHT * radius)
            yield _Row(parent, pose, scales, Role.JOINT, dof)
            continue
        for body, frame, (low, high) in _slide(robot, joint, dof, reach):
            middle = np.concatenate([[0.0, 0.0, 0.5 * (low + high)], identity_transform()[3:]])
            thin = RAIL_RADIUS * radius
            turned = transform_multiply(frame, np.concatenate([np.zeros(3), turn]))
            yield _Row(body, transform_multiply(turned, middle), (thin, thin, high - low), Role.JOINT, dof)


def _slide(robot: RobotModel, joint: int, dof: int, reach: float) -> Iterator[tuple[int, Float64Array, Ends]]:
    """Yield the parts of a sliding joint: body, frame, and both ends along the axis [m].

    A rail if the joint may be at zero; otherwise a sleeve up to the shortest travel, and a rod for the rest.
    """
    lower, upper = float(robot.joint_limit_lower[dof]), float(robot.joint_limit_upper[dof])
    if lower > 0.0 and np.isfinite(upper):
        yield int(robot.joint_parent[joint]), robot.joint_X_p[joint], (0.0, lower)
        yield joint, identity_transform(), (lower - upper, 0.0)
        return
    low, high = max(lower, -reach), min(upper, reach)
    yield int(robot.joint_parent[joint]), robot.joint_X_p[joint], (low, high)


def _slenderness(robot: RobotModel) -> Float64Array:
    """Return the thickness of the rods of links over the thickest, less and less from the root, shape [links]."""
    depth = np.zeros(robot.joint_count + 1)  # the last is the world's
    for body, parent in enumerate(robot.joint_parent.tolist()):
        depth[body] = depth[parent] + 1.0
    share: Float64Array = depth[robot.link_body] / max(depth[robot.link_body.max()], 1.0)
    return np.maximum(0.5, 1.0 - 0.5 * share)


def _at(point: Float64Array) -> Float64Array:
    return np.concatenate([point, identity_transform()[3:]])


def _parts(mesh: Mesh, rows: list[_Row]) -> Parts:
    return Parts(
        mesh,
        np.array([row.body for row in rows], np.int64),
        np.array([row.pose for row in rows], np.float64).reshape(-1, 7),
        np.array([row.scales for row in rows], np.float64).reshape(-1, 3),
        np.array([row.role for row in rows], np.int64),
        np.array([row.index for row in rows], np.int64),
        np.array([row.link for row in rows], np.int64),
    )


def cylinder_mesh() -> Mesh:
    """Return a cylinder of radius and length 1 about z.

    Sides and caps have separate vertices, so edges are sharp.
    """
    angle = np.linspace(0.0, 2.0 * np.pi, MESH_SIDES, endpoint=False)
    ring = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    rings = [np.column_stack([ring, np.full(MESH_SIDES, z)]) for z in (-0.5, 0.5)]
    vertices = np.concatenate([*rings, *rings, [[0.0, 0.0, -0.5], [0.0, 0.0, 0.5]]])
    faces = list[tuple[int, int, int]]()
    for k in range(MESH_SIDES):
        after = (k + 1) % MESH_SIDES
        low, top = 2 * MESH_SIDES, 3 * MESH_SIDES
        faces += [(k, after, MESH_SIDES + k), (after, MESH_SIDES + after, MESH_SIDES + k)]
        faces += [(4 * MESH_SIDES, low + after, low + k), (4 * MESH_SIDES + 1, top + k, top + after)]
    return Mesh(vertices, np.array(faces, np.int32))


def ball_mesh() -> Mesh:
    """Return a ball of radius 1."""
    polar, angle = (
        np.linspace(0.0, np.pi, MESH_SIDES // 2 + 1),
        np.linspace(0.0, 2.0 * np.pi, MESH_SIDES, endpoint=False),
    )
    sine, cosine = np.sin(polar)[:, None], np.cos(polar)[:, None]
    grid = np.stack([sine * np.cos(angle), sine * np.sin(angle), np.broadcast_to(cosine, (len(polar), MESH_SIDES))], -1)
    faces = list[tuple[int, int, int]]()
    for row in range(MESH_SIDES // 2):
        for k in range(MESH_SIDES):
            here, beside = row * MESH_SIDES + k, row * MESH_SIDES + (k + 1) % MESH_SIDES
            faces += [(here, here + MESH_SIDES, beside), (beside, here + MESH_SIDES, beside + MESH_SIDES)]
    return Mesh(grid.reshape(-1, 3), np.array(faces, np.int32))
