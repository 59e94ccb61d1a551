"""The scene of one visitor: the robot, gizmos, ghosts, spheres, an obstacle, and the camera."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import viser
from numpy.typing import NDArray

from ik_service.mechanism.transforms import Float64Array, identity_transform, quaternion_multiply
from ik_service.page.drawing import LIMIT_COLOR, Color, JointArcs, RobotDrawing
from ik_service.page.geometry import robot_parts, robot_size, sphere_parts
from ik_service.page.posed_robot import POSITION_TOLERANCE, PosedRobot, TargetState
from ik_service.robots.readers.mesh_file import Mesh

GIZMO_SHARE = 0.22  # size of a gizmo over that of the robot
GHOST_COLOR: Color = (120, 150, 190)
GHOST_OPACITY = 0.28
GHOST_ANCHORS: Sequence[Literal["bottom-left", "bottom-right", "top-left", "top-right"]] = (
    "bottom-left",
    "bottom-right",
    "top-left",
    "top-right",
)
"""Corners of the labels at their places, in turn: ghosts that differ in the wrist alone have nearly one place."""
START_COLOR: Color = (160, 120, 80)
START_OPACITY = 0.2
SPHERE_COLOR: Color = (64, 145, 220)
SPHERE_OPACITY = 0.35
PATH_COLOR: Color = (60, 110, 220)
SLICE_DOT = 0.3  # size of a place of a slice over the way to the next
OBSTACLE_COLOR: Color = (150, 120, 90)
SKY_COLOR: Color = (255, 255, 255)
EARTH_COLOR: Color = (95, 100, 112)
LIGHT, SUN = 2.2, 0.9
SUN_POSITION = (2.0, -1.0, 2.0)
GRID_COLOR: Color = (132, 136, 144)  # seen on white and on black
GRID_LINES, GRID_SHARE = 11, 0.2  # lines each way, and how far they are apart over the size of the robot
STILL_COLOR: Color = (160, 165, 172)
ISLAND_COLORS = np.array([(52, 120, 200), (225, 130, 40), (60, 160, 90), (160, 90, 190), (200, 170, 40)], np.uint8)
VIEW = (0.95, -0.8, 0.5)  # from the middle of the robot to the camera, over the size of the robot
_gizmo_numbers = itertools.count()


class Stage:
    """The scene: first the robot alone, for a fast first picture; `complete` adds the rest.

    Links without a mesh are drawn as rods. `dragged` is called on the event loop at the start, during and at the end of
    a drag, with the phase name of viser.
    """

    def __init__(
        self,
        client: viser.ClientHandle,
        posed: PosedRobot,
        meshes: Mapping[str, Sequence[Mesh]],
        dragged: Callable[[str], None],
    ) -> None:
        self._scene, self._dragged, self._atomic = client.scene, dragged, client.atomic
        self._scene.reset()
        # Shadows, further lights and a lit surrounding take long in a browser without a graphics card.
        self._scene.configure_default_lights(enabled=False, cast_shadow=False)
        self._scene.configure_environment_map(None)
        self._scene.add_light_hemisphere("/light", sky_color=SKY_COLOR, ground_color=EARTH_COLOR, intensity=LIGHT)
        self._scene.add_light_directional("/sun", intensity=SUN, position=SUN_POSITION)
        self._size, self._parts = robot_size(posed.robot), robot_parts(posed.robot, meshes)
        self.drawing = RobotDrawing(self._scene, "/robot", posed.robot, self._parts, posed.joint_q)
        self.gizmo_size = GIZMO_SHARE * self._size / max(1.0, 0.5 * len(posed.asked)) ** 0.5  # [m]
        self.gizmos: dict[str, viser.TransformControlsHandle] = {}  # of targets, by link
        self._turns: dict[str, Float64Array] = {}  # target orientations for gizmos along the world axes
        self._along_world = self._is_held = False
        self.spheres: RobotDrawing | None = None  # collision spheres; None while hidden
        self.obstacle: viser.TransformControlsHandle | None = None  # its gizmo; None without an obstacle
        self.miss: viser.LineSegmentsHandle | None = None
        self._ghosts: RobotDrawing | None = None
        self._arcs: JointArcs | None = None
        self._start: RobotDrawing | None = None
        self._path: viser.LineSegmentsHandle | None = None
        self._slice: viser.PointCloudHandle | None = None
        self._shape: dict[str, Any] = {}
        points = posed.robot.forward_kinematics(posed.joint_q).positions[0]
        self._middle = 0.5 * (points.min(axis=0) + points.max(axis=0))
        self._ground = min(float(points[:, 2].min()), 0.0) - 1e-3 * self._size
        self._camera = client.camera
        self._camera.up_direction = (0.0, 0.0, 1.0)
        self.look(1.01)

    def look(self, distance: float = 1.0) -> None:
        """Look at the robot from a multiple of the usual distance; a browser reports when the view is drawn."""
        self._camera.position = self._middle + distance * self._size * np.array(VIEW)
        self._camera.look_at = self._middle  # viser moves this point with the position

    def complete(self, posed: PosedRobot) -> None:
        """Add the gizmos and the ground."""
        for target in posed.targets.values():
            self.show_target(target)
        half = 0.5 * (GRID_LINES - 1) * GRID_SHARE * self._size
        along, ends = np.linspace(-half, half, GRID_LINES), np.full(GRID_LINES, half)
        lines = np.array([[[along, -ends], [along, ends]], [[-ends, along], [ends, along]]])  # [ways, ends, xy, lines]
        points = np.concatenate([*np.moveaxis(lines, 3, 1)])
        grid = np.concatenate([points + self._middle[:2], np.full((*points.shape[:2], 1), self._ground)], axis=2)
        self._scene.add_line_segments(
            "/ground", grid.astype(np.float32), GRID_COLOR, thickness=1.0, thickness_units="screen"
        )

    def show_target(self, target: TargetState) -> None:
        """Show the gizmo of an active target at its pose, or hide the gizmo of an inactive target."""
        if target.link not in self.gizmos:
            self.gizmos[target.link] = self._gizmo("target", target.pose, target.link, visible=target.is_on)
        self.place_gizmo(target.link, target.pose)
        self.gizmos[target.link].visible = target.is_on

    def draw(
        self, posed: PosedRobot, color: Color, *, met_color: Color | None = None, shows_islands: bool = False
    ) -> None:
        """Draw the robot with joints and tips in a color, and lines from links to their targets.

        Joints and tips of islands with all targets met have `met_color`; or joints have the color of their island.
        """
        colors = np.tile(np.array(color, np.uint8), (posed.robot.joint_dof_count, 1))
        tips = np.tile(np.array(color, np.uint8), (len(posed.robot.link_names), 1))
        if met_color is not None:
            colors[posed.met_dofs()], tips[posed.met_links()] = met_color, met_color
        if shows_islands:
            islands = posed.islands()
            colors = np.where((islands >= 0)[:, None], ISLAND_COLORS[islands % len(ISLAND_COLORS)], STILL_COLOR)
        colors[posed.held_dofs()] = LIMIT_COLOR
        with self._atomic():  # all parts move in one frame
            self.drawing.move(posed.joint_q)
            self.drawing.paint(tips, colors)
            self._draw_misses(posed)
            self._draw_spheres(posed)
            if self._arcs is not None:
                self._arcs.move(posed.joint_q)

    def _draw_misses(self, posed: PosedRobot) -> None:
        missed = [target for target in posed.asked if posed.error[target.link][0] > POSITION_TOLERANCE]
        if self.miss is not None:
            self.miss.visible = bool(missed)
        if missed:
            hands = posed.robot.forward_kinematics(posed.joint_q, [target.link for target in missed]).positions[0]
            ends = np.stack([hands, np.stack([target.pose[:3] for target in missed])], axis=1).astype(np.float32)
            if self.miss is None:
                self.miss = self._scene.add_line_segments(
                    "/miss", ends, LIMIT_COLOR, thickness=3.0, thickness_units="screen"
                )
            self.miss.points = ends

    def show_spheres(self, posed: PosedRobot, *, visible: bool) -> None:
        """Show or hide the collision spheres, with the closest pair."""
        if self.spheres is not None:
            self.spheres.remove()
        self.spheres = None
        if visible:
            parts = [sphere_parts(posed.robot)]
            self.spheres = RobotDrawing(
                self._scene, "/spheres", posed.robot, parts, posed.joint_q, opacity=SPHERE_OPACITY
            )
        self._draw_spheres(posed)

    def _draw_spheres(self, posed: PosedRobot) -> None:
        if self.spheres is not None:
            closest = posed.closest(self.objects())[0] or ()
            links = posed.robot.body_spheres.links if posed.robot.body_spheres is not None else ()
            colors = np.array([LIMIT_COLOR if link in closest else SPHERE_COLOR for link in links], np.uint8)
            self.spheres.move(posed.joint_q)
            self.spheres.paint(colors, colors)

    def read_gizmo(self, link: str) -> Float64Array:
        """Return the target pose at the gizmo of a link [m, xyzw], shape [7]."""
        pose = pose_of(self.gizmos[link])
        if link in self._turns:
            pose[3:] = quaternion_multiply(pose[3:], self._turns[link])
        return pose

    def read_gizmos(self) -> dict[str, Float64Array]:
        """Return the target poses at all visible gizmos, by link [m, xyzw], shape [7] each."""
        return {link: self.read_gizmo(link) for link, gizmo in self.gizmos.items() if gizmo.visible}

    def place_gizmo(self, link: str, pose: Float64Array) -> None:
        """Put the gizmo of a link where a target is [m, xyzw], shape [7]."""
        self.gizmos[link].position = pose[:3]
        self._turn_gizmo(link, pose[3:])

    def place_gizmos(self, posed: PosedRobot) -> None:
        """Put gizmos where the targets are."""
        for target in posed.targets.values():
            self.show_target(target)

    def align_gizmos(self, *, along_world: bool) -> None:
        """Align the arrows and rings of gizmos with the axes of the world, or of the targets.

        viser's gizmos have only their own axes: a gizmo along the world starts with the identity orientation, passes
        its rotations on to the target, and is reset to the identity at the end of a drag.
        """
        if along_world == self._along_world and (self._is_held or not along_world):
            return  # already aligned, or in a new drag: the browser then has the newest pose
        self._along_world, poses = along_world, {link: self.read_gizmo(link) for link in self.gizmos}
        for link, pose in poses.items():
            self._turn_gizmo(link, pose[3:])

    def _turn_gizmo(self, link: str, orientation_xyzw: Float64Array) -> None:
        """Turn a gizmo to its alignment, for a given target orientation."""
        gizmo, axes = self.gizmos[link], orientation_xyzw
        self._turns.pop(link, None)
        if self._along_world:
            axes, self._turns[link] = identity_transform()[3:], orientation_xyzw
        if (gizmo.wxyz != axes[[3, 0, 1, 2]]).any():
            gizmo.wxyz = axes[[3, 0, 1, 2]]

    def show_ghosts(self, posed: PosedRobot, joint_q: NDArray[Any]) -> None:
        """Show other configurations, [n, joint_coord_count], numbered, instead of the previous ones; n may be 0."""
        if self._ghosts is not None:
            self._ghosts.remove()
        self._ghosts = None
        if len(joint_q):
            self._ghosts = RobotDrawing(
                self._scene, "/ghosts", posed.robot, self._parts, joint_q, color=GHOST_COLOR, opacity=GHOST_OPACITY
            )
            for k, place in enumerate(_own_places(posed, joint_q)):
                anchor = GHOST_ANCHORS[k % len(GHOST_ANCHORS)]
                self._scene.add_label(f"/ghosts/label_{k}", str(k + 1), position=place, anchor=anchor)

    def show_ranges(self, posed: PosedRobot, *, visible: bool) -> None:
        """Show or hide the ranges of joints."""
        if self._arcs is not None:
            self._arcs.remove()
        self._arcs = JointArcs(self._scene, posed.robot, posed.joint_q) if visible else None

    def show_start(self, posed: PosedRobot, joint_q: NDArray[Any] | None) -> None:
        """Show a configuration faintly, shape [joint_coord_count]; None for nothing."""
        if joint_q is None:
            if self._start is not None:
                self._start.remove()
            self._start = None
        elif self._start is None:
            self._start = RobotDrawing(
                self._scene, "/start", posed.robot, self._parts, joint_q, color=START_COLOR, opacity=START_OPACITY
            )
        else:
            self._start.move(joint_q)

    def show_path(self, lines: Float64Array) -> None:
        """Show the way of targets [m], shape [pieces, 2, 3]; of no pieces, nothing."""
        if self._path is not None:
            self._path.remove()
        self._path = None
        if len(lines):
            self._path = self._scene.add_line_segments(
                "/path", lines.astype(np.float32), PATH_COLOR, thickness=2.0, thickness_units="screen"
            )

    def show_slice(self, places: Float64Array, colors: NDArray[np.uint8], apart: float) -> None:
        """Show positions of a slice [m], shape [n, 3], in colors, with a spacing `apart` [m]; n may be 0."""
        if self._slice is not None:
            self._slice.remove()
        self._slice = None
        if len(places):
            self._slice = self._scene.add_point_cloud(
                "/slice", places.astype(np.float32), colors, point_size=SLICE_DOT * apart, point_shape="circle"
            )

    def put_obstacle(self, posed: PosedRobot, kind: str, size: float) -> None:
        """Show an obstacle of a size [m] at the previous place or beside the first target; "none" removes it."""
        x, y, z = next(iter(posed.targets.values())).pose[:3].tolist()
        pose = np.array([x, y + 0.35 * self._size, z, 0.0, 0.0, 0.0, 1.0])
        if self.obstacle is not None:
            pose = pose_of(self.obstacle)
            self.obstacle.remove()
        self.obstacle = None
        if kind == "none":
            return
        self.obstacle = self._gizmo("obstacle", pose, "obstacle", disable_rotations=kind == "sphere")
        shape = f"{self.obstacle.name}/shape"
        if kind == "box":
            self._shape = {"shape": "box", "size": [size] * 3}
            self._scene.add_box(shape, OBSTACLE_COLOR, (size, size, size), opacity=0.9)
        else:
            self._shape = {"shape": "sphere", "radius": 0.5 * size}
            self._scene.add_icosphere(shape, 0.5 * size, OBSTACLE_COLOR, opacity=0.9)

    def objects(self) -> dict[str, Any]:
        """Return the obstacles, as `objects` of a world in a request."""
        if self.obstacle is None:
            return {}
        pose = pose_of(self.obstacle).tolist()
        turn = {"orientation_xyzw": pose[3:]} if self._shape["shape"] == "box" else {}
        return {"obstacle": {**self._shape, "position": pose[:3], **turn}}

    def _gizmo(self, kind: str, pose: Float64Array, label: str, **options: Any) -> viser.TransformControlsHandle:
        # Under a name used before, a browser would keep the old pose if the new pose is the identity.
        name = f"/gizmos/{kind}_{next(_gizmo_numbers)}"
        gizmo = self._scene.add_transform_controls(
            name,
            scale=self.gizmo_size,
            line_width=3.0,
            depth_test=False,
            position=pose[:3],
            wxyz=pose[[6, 3, 4, 5]],
            **options,
        )
        self._scene.add_label(f"{name}/label", label, anchor="bottom-left")

        async def moved(event: viser.TransformControlsEvent) -> None:
            self._is_held = event.phase != "end"
            self._dragged(event.phase)

        gizmo.on_update(moved)
        return gizmo


def _own_places(posed: PosedRobot, joint_q: NDArray[Any]) -> Float64Array:
    """Return a place of each configuration that is farthest from the same link of all others [m], shape [n, 3]."""
    every = np.concatenate([joint_q, posed.joint_q[None]])
    points = posed.robot.forward_kinematics(every).positions  # [n + 1, links, 3]
    apart = np.linalg.norm(points[:-1, None] - points[None], axis=3)
    apart[np.arange(len(joint_q)), np.arange(len(joint_q))] = np.inf
    return np.asarray(points[np.arange(len(joint_q)), apart.min(axis=1).argmax(axis=1)])


def pose_of(gizmo: viser.TransformControlsHandle) -> Float64Array:
    """Return where a gizmo is [m, xyzw], shape [7]."""
    turn = np.asarray(gizmo.wxyz, np.float64)
    return np.concatenate([np.asarray(gizmo.position, np.float64), (turn / np.linalg.norm(turn))[[1, 2, 3, 0]]])
