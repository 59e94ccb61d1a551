"""Pictures of a robot: the bodies of links where its file has some, otherwise rods along the link tree with discs.

Every part is fixed to a body (-1 for the world), so a picture of a configuration is the poses of the bodies times the
poses of the parts in them. No part of this file knows viser.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ik_service.collision.shapes import BoundedShape, Box, RoundShape, Sphere
from ik_service.errors import RobotFileError
from ik_service.mechanism.transforms import Float64Array, identity_transform, quaternion_between, transform_multiply
from ik_service.robots import JointType, RobotModel
from ik_service.robots.readers.mesh_file import Mesh, read_mesh
from ik_service.robots.readers.urdf import read_visuals

Color = tuple[int, int, int]
ROD_COLOR: Color = (212, 216, 222)
JOINT_MATERIAL = "joint"  # material of a body's parts in the color of its joint: the result of the solve
ROD_SHARE = 0.027  # radius of a rod over the size of the robot
DISC_RADIUS, DISC_HEIGHT = 1.55, 2.5  # of a disc, over the radius of the rod that ends there
RAIL_RADIUS = 0.45  # of the rail of a slider, over the radius of the rod
RAIL_SHARE = 0.1  # way of a rail to either side, over the size of the robot
SIDES = 28  # of round meshes
EDGE = 0.14  # radius of the edge of a cylinder, over its radius
BOX_EDGE = 0.07  # width of the edge of a box, over its sizes
OWN, MIXED, RESULT = 0.0, 0.3, 1.0  # share of the color of a result in the color of a part
REST = (OWN, -1, -1, ROD_COLOR)  # share, index, link and color of other parts
LEAST_SIZE = 1e-3  # size of a robot without any length [m]
_Z_AXIS = np.array([0.0, 0.0, 1.0])


@cache
def _shapes() -> dict[str, Mesh]:
    """Return the meshes that are copied: side and round end of a cylinder about z, a ball of radius 1, a box of side 1.

    The side has radius and length 1, the end radius 1 and a height of `EDGE`. The box is a small ball, whose eight
    parts are moved to the corners.
    """
    import trimesh  # here: loads slowly

    arc = np.linspace(0.0, 0.5 * np.pi, 4)
    edge = [*zip(1.0 - EDGE + EDGE * np.cos(arc), EDGE * np.sin(arc), strict=True), (0.0, EDGE)]
    made = {
        "tube": trimesh.creation.revolve([(1.0, -0.5), (1.0, 0.5)], sections=SIDES),
        "cap": trimesh.creation.revolve(edge, sections=SIDES),
        "ball": trimesh.creation.icosphere(subdivisions=3),
        "box": trimesh.creation.icosphere(subdivisions=2),
    }
    corners = np.sign(made["box"].vertices.round(9))
    made["box"].vertices = BOX_EDGE * made["box"].vertices + (0.5 - BOX_EDGE) * corners
    return {name: Mesh(np.array(one.vertices), one.faces.astype(np.int32)) for name, one in made.items()}


class Body(NamedTuple):
    """A shape of a link to be seen, in the frame of the link."""

    shape: BoundedShape | Mesh
    material: str = ""
    color: Color | None = None  # None where the file has none


def visible_bodies(urdf: bytes, file: Path | None = None) -> dict[str, list[Body]]:
    """Return the visual shapes of a URDF, and its readable meshes where its path is given, by link."""
    found = dict[str, list[Body]]()
    with suppress(RobotFileError):  # looks are no reason to refuse a robot
        for link, visuals in read_visuals(urdf).items():
            for read, material, rgba in visuals:
                shapes: list[BoundedShape | Mesh] = [*read.shapes]
                if file is not None:
                    for reference in read.meshes:
                        with suppress(RobotFileError):
                            shapes.append(read_mesh(reference, file))
                red, green, blue = (round(255.0 * min(max(part, 0.0), 1.0)) for part in (*rgba, 0.0, 0.0, 0.0)[:3])
                color = (red, green, blue) if rgba else None
                found.setdefault(link, []).extend(Body(shape, material, color) for shape in shapes)
    return {link: bodies for link, bodies in found.items() if bodies}


@dataclass(frozen=True, eq=False)
class Parts:
    """Scaled copies of one mesh."""

    mesh: Mesh
    body: NDArray[np.int64]  # body of each part, -1 for the world, shape [parts]
    X_body: Float64Array  # `T_body_part` [m, xyzw], shape [parts, 7]
    scales: Float64Array  # scale of the mesh along its axes [m], shape [parts, 3]
    share: NDArray[np.float64]  # share of the color of the result in the color of each part, shape [parts]
    index: NDArray[np.int64]  # DOF whose result is shown, or link of a sphere; -1 for rods, shape [parts]
    link: NDArray[np.int64]  # link of each part, for a disc the link turned by the joint; -1 for spheres, shape [parts]
    color: NDArray[np.uint8]  # own color of each part, shape [parts, 3]

    def poses(self, bodies: Float64Array) -> Float64Array:
        """Return where the parts are in the world frame [m, xyzw], shape [n, parts, 7], from `placed_bodies`."""
        return transform_multiply(bodies[:, self.body], self.X_body)


class _Collected:
    """Parts during collection, by mesh."""

    def __init__(self) -> None:
        self._meshes, self._rows = {**_shapes()}, defaultdict[str, list[tuple[Any, ...]]](list)

    def add(self, mesh: str, *row: Any) -> None:
        """Add a part, a copy of a mesh by its name: at least the first three columns of `Parts`."""
        self._rows[mesh].append((*row, *REST[len(row) - 3 :]))

    def add_cylinder(self, body: int, pose: Float64Array, radius: float, length: float, *of: Any) -> None:
        """Add a cylinder about z of the pose with round edges; `of` is share, index, link and color."""
        edge = min(EDGE * radius, 0.5 * length)
        if length > 2.0 * edge:
            self.add("tube", body, pose, (radius, radius, length - 2.0 * edge), *of)
        for turn in (identity_transform()[3:], np.array([1.0, 0.0, 0.0, 0.0])):
            end = np.concatenate([[0.0, 0.0, (0.5 * length - edge) * (1.0 - 2.0 * turn[0])], turn])
            self.add("cap", body, transform_multiply(pose, end), (radius, radius, edge / EDGE), *of)

    def add_body(self, body: int, frame: Float64Array, shown: Body, *of: Any) -> None:
        """Add a shape in a frame of a body."""
        shape = shown.shape
        if isinstance(shape, Mesh):
            name = f"mesh {len(self._meshes)}"
            self._meshes[name] = shape
            self.add(name, body, frame, (1.0,) * 3, *of)
            return
        at = np.asarray(shape.position if isinstance(shape, Sphere) else shape.pose)
        pose = transform_multiply(frame, at if len(at) == 7 else _at(at))
        if isinstance(shape, Box):
            self.add("box", body, pose, tuple(shape.size), *of)
        elif isinstance(shape, Sphere):
            self.add("ball", body, pose, (shape.radius,) * 3, *of)
        elif isinstance(shape, RoundShape):
            self.add_cylinder(body, pose, shape.radius, shape.length, *of)

    def parts(self) -> tuple[Parts, ...]:
        """Return the collected parts; meshes without parts are left out."""
        return tuple(_parts(mesh, self._rows[name]) for name, mesh in self._meshes.items() if name in self._rows)


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


def robot_parts(robot: RobotModel, bodies: Mapping[str, Sequence[Body]] | None = None) -> tuple[Parts, ...]:
    """Return the parts of a robot from the bodies of its links, by name.

    If a body has parts of `JOINT_MATERIAL`, only bodies are drawn. Otherwise links without a body have rods, joints
    have discs, and leaf links have balls.
    """
    collected, bodies = _Collected(), bodies or {}
    is_dressed = any(one.material == JOINT_MATERIAL for shown in bodies.values() for one in shown)
    for link, name in enumerate(robot.link_names):
        body, frame = int(robot.link_body[link]), robot.link_X_body[link]
        for one in bodies.get(name, ()):
            share = OWN if is_dressed else MIXED
            of = _shown_result(robot, body, RESULT if one.material == JOINT_MATERIAL else share)
            collected.add_body(body, frame, one, *of, link, one.color or ROD_COLOR)
    if not is_dressed:
        _add_rods(robot, collected, bodies)
    return collected.parts()


def _shown_result(robot: RobotModel, body: int, share: float) -> tuple[float, int]:
    """Return a share and the DOF whose result is shown; fixed parts show none."""
    return (OWN, -1) if body < 0 or share == OWN else (share, int(robot.joint_qd_start[body]))


def _add_rods(robot: RobotModel, collected: _Collected, bodies: Mapping[str, Sequence[Body]]) -> None:
    size, rounded = robot_size(robot), set[tuple[float, ...]]()
    radius = ROD_SHARE * size
    for body, start, end, link in _rods(robot):
        if robot.link_names[link] in bodies:
            continue
        length = float(np.linalg.norm(end - start))
        if length > 0.05 * radius:
            turn = quaternion_between(_Z_AXIS, (end - start) / length)
            pose = np.concatenate([0.5 * (start + end), turn])
            collected.add("tube", body, pose, (radius, radius, length), OWN, -1, link)
        for point in (start, end):
            key = (body, *np.round(point, 9).tolist())
            if key not in rounded:
                collected.add("ball", body, _at(point), (radius,) * 3, OWN, -1, link)
            rounded.add(key)
    for joint in range(robot.joint_count):
        link = int(np.flatnonzero(robot.link_body == joint)[0])
        _add_joint(robot, collected, joint, link, radius)
    leaves = set(range(len(robot.link_names))) - set(robot.link_parent.tolist())
    for link in sorted(leaves):
        scales, body = (1.15 * radius,) * 3, int(robot.link_body[link])
        collected.add("ball", body, robot.link_X_body[link], scales, *_shown_result(robot, body, RESULT), link)


def sphere_parts(robot: RobotModel) -> Parts:
    """Return the collision spheres of a robot with a collision model; `index` is the place of the link in `links`."""
    spheres = robot.body_spheres
    assert spheres is not None  # the robot has some
    collected = _Collected()
    for place, body in enumerate(spheres.link_body.tolist()):
        for k in range(*spheres.of_link(place).indices(len(spheres.radii))):
            collected.add("ball", body, _at(spheres.centers[k]), (float(spheres.radii[k]),) * 3, RESULT, place)
    return collected.parts()[0]


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


def _add_joint(robot: RobotModel, collected: _Collected, joint: int, link: int, radius: float) -> None:
    """Add discs about the rotation axes of a joint, and rails along its sliding axes."""
    if robot.joint_type[joint] == JointType.FLOATING:
        return
    start, linear = int(robot.joint_qd_start[joint]), int(robot.joint_dof_dim[joint, 0])
    parent, reach = int(robot.joint_parent[joint]), RAIL_SHARE * robot_size(robot)
    for dof in range(start, int(robot.joint_qd_start[joint + 1])):
        turned = np.concatenate([np.zeros(3), quaternion_between(_Z_AXIS, robot.joint_axis[dof])])
        pose, slides = transform_multiply(robot.joint_X_p[joint], turned), dof - start < linear
        thick, length = (RAIL_RADIUS, 2.0 * reach) if slides else (DISC_RADIUS, DISC_HEIGHT * radius)
        collected.add_cylinder(parent, pose, thick * radius, length, RESULT, dof, link)


def _at(point: Any) -> Float64Array:
    return np.concatenate([point, identity_transform()[3:]])


def _parts(mesh: Mesh, rows: list[tuple[Any, ...]]) -> Parts:
    body, pose, scales, share, index, link, color = (np.array(column) for column in zip(*rows, strict=True))
    return Parts(mesh, body, pose, scales, share, index, link, color.astype(np.uint8))
