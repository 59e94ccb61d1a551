"""Drawings in a scene of viser: a robot, its ghosts, its collision spheres and what is closest.

A drawing makes its scene nodes once; moving it sends the poses of all its parts as one array a mesh.
"""

from typing import Any

import numpy as np
import viser
from numpy.typing import NDArray

from ik_service.page.geometry import (
    Float64Array,
    Parts,
    RobotParts,
    Role,
    ball_mesh,
    cylinder_mesh,
    loop_rods,
    placed_bodies,
    robot_parts,
)
from ik_service.robots import RobotModel, World
from ik_service.robots.collision_checks.check import sphere_centers

Color = tuple[int, int, int]
ROD_COLOR: Color = (212, 216, 222)
LOOP_COLOR: Color = (150, 156, 166)
LIMIT_COLOR: Color = (214, 48, 49)
SPHERE_COLOR: Color = (64, 145, 220)
SPHERE_OPACITY = 0.35
SLOPE_STEP = 1e-6
"""Difference by which the direction to an obstacle is found [m]."""


class PartsDrawing:
    """Copies of one mesh, in one or several configurations.

    Args:
        scene: Where to draw.
        name: Name of the scene node.
        parts: The parts.
        mesh: Vertices and triangles of the mesh.
        poses: Where they are, shape [n, parts, 7].
        opacity: None is opaque.
    """

    def __init__(
        self,
        scene: viser.SceneApi,
        name: str,
        parts: Parts,
        mesh: tuple[Float64Array, NDArray[np.uint32]],
        poses: Float64Array,
        opacity: float | None = None,
    ) -> None:
        self.parts, self._count = parts, len(poses)
        positions, turns = _columns(poses)
        self.handle = scene.add_batched_meshes_simple(
            name,
            *mesh,
            batched_wxyzs=turns,
            batched_positions=positions,
            batched_scales=np.tile(parts.scales, (len(poses), 1)).astype(np.float32),
            batched_colors=np.tile(np.array(ROD_COLOR, np.uint8), (len(positions), 1)),
            opacity=opacity,
            lod="off",
            cast_shadow=opacity is None,
            receive_shadow=opacity is None,
        )

    def move(self, poses: Float64Array) -> None:
        """Put the parts elsewhere [m, xyzw], shape [n, parts, 7] as before."""
        self.handle.batched_positions, self.handle.batched_wxyzs = _columns(poses)

    def paint(self, colors: NDArray[np.uint8]) -> None:
        """Colour the parts, shape [parts, 3]."""
        self.handle.batched_colors = np.tile(colors, (self._count, 1))


class RobotDrawing:
    """A robot, or several ghosts of it.

    Args:
        scene: Where to draw.
        name: Name of the scene node above its parts.
        robot: The robot.
        joint_q: Configurations, shape [joint_coord_count] or [n, joint_coord_count].
        opacity: None is opaque.
    """

    def __init__(
        self,
        scene: viser.SceneApi,
        name: str,
        robot: RobotModel,
        joint_q: NDArray[Any],
        opacity: float | None = None,
    ) -> None:
        self.robot, self.parts = robot, robot_parts(robot)
        self._node, bodies = scene.add_frame(name, show_axes=False), placed_bodies(robot, joint_q)
        self._drawn = [
            PartsDrawing(scene, f"{name}/{kind}", parts, mesh, parts.poses(bodies), opacity)
            for kind, parts, mesh in _kinds(self.parts)
        ]
        rods, self._rods = loop_rods(robot, bodies), None
        if len(rods):
            width = 2.0 * float(self.parts.balls.scales.min())
            self._rods = scene.add_line_segments(f"{name}/loop_rods", rods, LOOP_COLOR, thickness=width)

    def move(self, joint_q: NDArray[Any]) -> None:
        """Show other configurations, as many as before."""
        bodies = placed_bodies(self.robot, joint_q)
        for drawn in self._drawn:
            drawn.move(drawn.parts.poses(bodies))
        if self._rods is not None:
            self._rods.points = loop_rods(self.robot, bodies).astype(np.float32)

    def paint(self, color: Color, at_limit: NDArray[np.bool_] | None = None) -> None:
        """Colour joints and tips, and those at a limit as such.

        Args:
            color: Of joints and tips.
            at_limit: DOFs that are at a limit, shape [joint_dof_count]; None for none.
        """
        for drawn in self._drawn:
            colors = np.tile(np.array(ROD_COLOR, np.uint8), (len(drawn.parts.body), 1))
            colors[drawn.parts.role != Role.ROD] = color
            if at_limit is not None:
                is_joint = drawn.parts.role == Role.JOINT
                colors[is_joint & at_limit[drawn.parts.index * is_joint]] = LIMIT_COLOR
            drawn.paint(colors)

    def shade(self, color: Color) -> None:
        """Give all parts one colour."""
        for drawn in self._drawn:
            drawn.paint(np.tile(np.array(color, np.uint8), (len(drawn.parts.body), 1)))

    def drawn_position(self, link: str) -> Float64Array:
        """Return where the tip of a link is drawn [m], as it was last sent, shape [3].

        Args:
            link: A link that carries no other.
        """
        balls = self._drawn[1]
        (place,) = np.flatnonzero((balls.parts.role == Role.TIP) & (balls.parts.index == self.robot.link_index(link)))
        return np.asarray(balls.handle.batched_positions[place], np.float64)

    def remove(self) -> None:
        """Take it out of the scene."""
        self._node.remove()


class SphereDrawing:
    """The collision spheres of a robot, and a line between the two things that are closest.

    Args:
        scene: Where to draw.
        robot: A robot with a collision model.
        joint_q: Its configuration, shape [joint_coord_count].
    """

    def __init__(self, scene: viser.SceneApi, robot: RobotModel, joint_q: NDArray[Any]) -> None:
        assert robot.body_spheres is not None  # it has a collision model
        self._robot, self._spheres, self._scene = robot, robot.body_spheres, scene
        count = len(self._spheres.radii)
        self._node = scene.add_batched_meshes_simple(
            "/spheres",
            *ball_mesh(),
            batched_wxyzs=np.tile([1.0, 0.0, 0.0, 0.0], (count, 1)),
            batched_positions=self._centers(joint_q),
            batched_scales=self._spheres.radii.astype(np.float32),
            batched_colors=SPHERE_COLOR,
            opacity=SPHERE_OPACITY,
            lod="off",
            cast_shadow=False,
            visible=False,
        )
        zeros = np.zeros((1, 2, 3))
        self._line = scene.add_line_segments("/closest", zeros, LIMIT_COLOR, thickness=4.0, thickness_units="screen")
        self._label = scene.add_label("/closest_label", "", anchor="bottom-center", visible=False)
        self._line.visible = False

    @property
    def is_shown(self) -> bool:
        """Whether it is shown."""
        return bool(self._node.visible)

    def show(self, *, visible: bool) -> None:
        """Show or hide all of it."""
        self._node.visible = visible

    def move(
        self, joint_q: NDArray[Any], closest: tuple[str, str] | None, clearance: float, world: World | None
    ) -> None:
        """Show another configuration, [joint_coord_count], and mark what is closest in it.

        Args:
            joint_q: The configuration.
            closest: The two that are closest, link and link or link and object; None marks nothing.
            clearance: How far they are apart [m].
            world: The objects.
        """
        ends = None
        if self.is_shown:
            self._node.batched_positions = self._centers(joint_q)
            ends = None if closest is None else self.closest_points(joint_q, closest, world)
        self._line.visible = self._label.visible = ends is not None
        if ends is not None:
            self._line.points = ends[None].astype(np.float32)
            self._label.position = ends.mean(axis=0)
            self._label.text = f"{1e3 * clearance:.0f} mm"

    def closest_points(self, joint_q: NDArray[Any], closest: tuple[str, str], world: World | None) -> Float64Array:
        """Return the points of two things that are closest to each other, in the world frame [m], shape [2, 3]."""
        centers, radii = self._centers(joint_q).astype(np.float64), self._spheres.radii
        first = self._spheres.of_link(self._spheres.links.index(closest[0]))
        if closest[1] in self._spheres.links:
            second = self._spheres.of_link(self._spheres.links.index(closest[1]))
            ways = centers[second][None] - centers[first][:, None]
            gaps = np.linalg.norm(ways, axis=-1) - radii[first][:, None] - radii[second][None]
            a, b = np.unravel_index(np.argmin(gaps), gaps.shape)
            way = ways[a, b] / max(float(np.linalg.norm(ways[a, b])), SLOPE_STEP)
            return np.stack([centers[first][a] + radii[first][a] * way, centers[second][b] - radii[second][b] * way])
        assert world is not None  # only its objects are no links
        shape = world.objects[closest[1]]
        near = int(np.argmin(shape.signed_distance(centers[first]) - radii[first]))
        center = centers[first][near]
        stencil = shape.signed_distance(center + SLOPE_STEP * np.concatenate([np.eye(3), -np.eye(3)]))
        away = (stencil[:3] - stencil[3:]) / max(float(np.linalg.norm(stencil[:3] - stencil[3:])), 1e-12)
        distance = float(shape.signed_distance(center[None])[0])
        return np.stack([center - radii[first][near] * away, center - distance * away])

    def _centers(self, joint_q: NDArray[Any]) -> NDArray[np.float32]:
        q = np.asarray(joint_q, np.float64).reshape(1, -1)
        return sphere_centers(self._robot, self._spheres, q)[:, 0].astype(np.float32)


def _kinds(parts: RobotParts) -> list[tuple[str, Parts, tuple[Float64Array, NDArray[np.uint32]]]]:
    return [("cylinders", parts.cylinders, cylinder_mesh()), ("balls", parts.balls, ball_mesh())]


def _columns(poses: Float64Array) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return positions and quaternions wxyz of all parts, shapes [n * parts, 3] and [n * parts, 4]."""
    flat = poses.reshape(-1, 7).astype(np.float32)
    return flat[:, :3], flat[:, [6, 3, 4, 5]]
