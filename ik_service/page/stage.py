"""The scene of one visitor: the robot, gizmos, ghosts, spheres, obstacles, lights, ground and camera."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import viser
from numpy.typing import NDArray

from ik_service.mechanism.transforms import Float64Array, quaternion_rotate
from ik_service.page.drawing import LIMIT_COLOR, RobotDrawing
from ik_service.page.geometry import Body, Color, placed_bodies, robot_parts, robot_size, sphere_parts
from ik_service.page.posed_robot import TOLERANCES, PosedRobot, TargetState

GIZMO_SHARE = 0.2  # size of a gizmo over that of the robot
GHOST_COLOR: Color = (120, 150, 190)
GHOST_OPACITY = 0.28
ANCHORS: Sequence[Literal["bottom-right", "top-left"]] = ("bottom-right", "top-left")
"""Corners of labels at their places, in turn: ghosts with different wrists alone have nearly one place."""
SPHERE_COLOR: Color = (64, 145, 220)
SPHERE_OPACITY = 0.35
PATH_COLOR: Color = (60, 110, 220)
SLICE_DOT = 0.3  # size of a place of a slice over the way to the next
FORK = np.array(
    [[0, -1.7], [0, -1.45], [-0.1, -1.45], [0.1, -1.45], [-0.1, -1.45], [-0.1, -1.3], [0.1, -1.45], [0.1, -1.3]]
)
"""Ends y, z of the lines of a small gripper before a target, in the frame of the target, over the size of a gizmo."""
OBSTACLE_COLOR: Color = (205, 160, 110)
OBSTACLE_SIZE = 0.15  # [m]
OBSTACLES_MOST = 8
BESIDE = np.array([[0.0, 0.35, 0.0], [0.3, 0.0, -0.15], [0.0, 0.0, 0.35], [0.0, -0.35, 0.0]])
"""Places of new obstacles from the first target, over the size of the robot, in turn."""
SKY_COLOR: Color = (255, 255, 255)
EARTH_COLOR: Color = (120, 125, 138)
LIGHT, SUN = 1.5, 1.9
SUN_POSITION = (1.2, -1.6, 3.0)
SKIES = {False: ((218, 227, 238), (255, 255, 255)), True: ((44, 52, 64), (14, 17, 22))}
"""Colors of the background at the top and at the bottom, by light and dark."""
GRID_COLORS: Mapping[bool, Color] = {False: (186, 192, 201), True: (74, 83, 97)}
SKY_ROWS = 128
GRID_SHARE = 0.25  # width of a cell over the size of the robot
SHADOW = 0.22
VIEW = (0.95, -0.8, 0.45)  # from the middle of the robot to the camera, over the size of the robot
PHONE = 0.8  # width over height of the picture up to which the panel covers its lower part
_gizmo_numbers = itertools.count()


@dataclass(eq=False)
class Obstacle:
    """A box or a ball that can be dragged."""

    name: str
    kind: str  # "box" or "ball"
    size: float  # side or diameter [m]
    gizmo: viser.TransformControlsHandle


class Stage:
    """The scene of a robot.

    `dragged` is called on the event loop at the start, during and at the end of a drag, with the phase name of viser.
    """

    def __init__(
        self,
        client: viser.ClientHandle,
        posed: PosedRobot,
        bodies: Mapping[str, Sequence[Body]],
        dragged: Callable[[str], None],
    ) -> None:
        self._scene, self._dragged, self._atomic = client.scene, dragged, client.atomic
        self._scene.reset()
        self._scene.configure_default_lights(enabled=False, cast_shadow=False)
        self._scene.configure_environment_map(None)  # a lit surrounding takes long without a graphics card
        self._scene.add_light_hemisphere("/light", sky_color=SKY_COLOR, ground_color=EARTH_COLOR, intensity=LIGHT)
        self._scene.add_light_directional("/sun", intensity=SUN, position=SUN_POSITION, cast_shadow=True)
        self._size, self._parts = robot_size(posed.robot), robot_parts(posed.robot, bodies)
        self.drawing = RobotDrawing(self._scene, "/robot", posed.robot, self._parts, posed.joint_q)
        self.gizmo_size = GIZMO_SHARE * self._size / max(1.0, 0.5 * len(posed.asked)) ** 0.5  # [m]
        self.gizmos: dict[str, viser.TransformControlsHandle] = {}  # of targets, by link
        self.shown = dict[str, Any]()  # "spheres", "ghosts", "forks", "path" and "slice" where they are shown
        self.obstacles: list[Obstacle] = []
        self._held: viser.TransformControlsHandle | None = None  # gizmo of the obstacle added or moved last
        self.miss = self._lines("/miss", np.zeros((1, 2, 3)), LIMIT_COLOR)
        placed = placed_bodies(posed.robot, posed.joint_q)
        points = np.concatenate([part.poses(placed)[0, :, :3] for part in self._parts])
        self._middle, low = 0.5 * (points.min(axis=0) + points.max(axis=0)), float(points[:, 2].min())
        self._span = float(np.linalg.norm(np.ptp(points, axis=0)))
        self._look(client.camera)
        self.place_gizmos(posed)
        self._grid = self._scene.add_grid(
            "/ground",
            infinite_grid=True,
            cell_size=GRID_SHARE * self._size,
            section_size=4.0 * GRID_SHARE * self._size,
            cell_thickness=0.6,
            section_thickness=1.0,
            fade_distance=5.0 * self._size,
            fade_from="origin",
            shadow_opacity=SHADOW,
            position=(*self._middle[:2], min(low, 0.0) - 1e-3 * self._size),
        )

    def dress(self, *, is_dark: bool) -> None:
        """Set the colors of background and ground."""
        top, bottom = np.array(SKIES[is_dark])
        rows = np.linspace(top, bottom, SKY_ROWS).astype(np.uint8)
        self._scene.set_background_image(np.tile(rows[:, None], (1, SKY_ROWS, 1)), format="png")
        self._grid.cell_color = self._grid.section_color = GRID_COLORS[is_dark]

    def _look(self, camera: viser.CameraHandle) -> None:
        """Look at the robot; on a phone from farther away, with the robot above the sheet of the panel."""
        aspect = getattr(camera, "aspect", 1.0)
        away = self._span * max(1.0, 0.75 / max(aspect, 0.3))
        middle = self._middle - (np.array([0.0, 0.0, 0.3 * away]) if aspect < PHONE else 0.0)
        camera.up_direction = (0.0, 0.0, 1.0)
        camera.position = middle + away * np.array(VIEW)
        camera.look_at = middle  # viser moves this point with the position

    def show_target(self, target: TargetState) -> None:
        """Show the gizmo of an active target at its pose, or hide the gizmo of an inactive target."""
        if target.link not in self.gizmos:
            self.gizmos[target.link] = self._gizmo("target", target.pose, target.link, visible=target.is_on)
        gizmo, turn = self.gizmos[target.link], target.pose[[6, 3, 4, 5]]
        gizmo.position, gizmo.visible = target.pose[:3], target.is_on
        if (gizmo.wxyz != turn).any():
            gizmo.wxyz = turn

    def draw(self, posed: PosedRobot, color: Color, *, met_color: Color | None = None) -> None:
        """Draw the robot with joints in a color, and lines from links to their targets.

        Joints of islands with all targets met have `met_color`.
        """
        colors = np.tile(np.array(color, np.uint8), (posed.robot.joint_dof_count, 1))
        if met_color is not None:
            colors[posed.met_dofs()] = met_color
        colors[posed.held_dofs()] = LIMIT_COLOR
        with self._atomic():  # all parts move in one frame
            self.drawing.move(posed.joint_q)
            self.drawing.paint(colors)
            self._draw_misses(posed)
            self._draw_spheres(posed)

    def _draw_misses(self, posed: PosedRobot) -> None:
        missed = [target for target in posed.asked if posed.error[target.link][0] > TOLERANCES[0]]
        self.miss.visible = bool(missed)
        if missed:
            hands = posed.robot.forward_kinematics(posed.joint_q, [target.link for target in missed]).positions[0]
            ends = np.stack([hands, np.stack([target.pose[:3] for target in missed])], axis=1)
            self.miss.points = ends.astype(np.float32)

    def _lines(self, name: str, ends: NDArray[Any], color: Color) -> viser.LineSegmentsHandle:
        points = ends.astype(np.float32)
        return self._scene.add_line_segments(name, points, color, thickness=3.0, thickness_units="screen")

    def hide(self, name: str) -> None:
        """Remove the picture with a name of `shown`."""
        if name in self.shown:
            self.shown.pop(name).remove()

    def show_spheres(self, posed: PosedRobot, *, visible: bool) -> None:
        """Show or hide the collision spheres, with the closest pair."""
        self.hide("spheres")
        if visible:
            parts = [sphere_parts(posed.robot)]
            self.shown["spheres"] = RobotDrawing(
                self._scene, "/spheres", posed.robot, parts, posed.joint_q, opacity=SPHERE_OPACITY
            )
        self._draw_spheres(posed)

    def _draw_spheres(self, posed: PosedRobot) -> None:
        if "spheres" in self.shown:
            closest = posed.closest(self.objects())[0] or ()
            links = posed.robot.body_spheres.links if posed.robot.body_spheres is not None else ()
            colors = np.array([LIMIT_COLOR if link in closest else SPHERE_COLOR for link in links], np.uint8)
            self.shown["spheres"].move(posed.joint_q)
            self.shown["spheres"].paint(colors)

    def read_gizmos(self) -> dict[str, Float64Array]:
        """Return the target poses at all visible gizmos, by link [m, xyzw], shape [7] each."""
        return {link: pose_of(gizmo) for link, gizmo in self.gizmos.items() if gizmo.visible}

    def place_gizmos(self, posed: PosedRobot) -> None:
        """Put gizmos where the targets are."""
        for target in posed.targets.values():
            self.show_target(target)

    def show_ghosts(self, posed: PosedRobot, joint_q: NDArray[Any]) -> None:
        """Show other configurations, [n, joint_coord_count], numbered, instead of the previous ones; n may be 0."""
        self.hide("ghosts")
        if len(joint_q):
            self.shown["ghosts"] = RobotDrawing(
                self._scene, "/ghosts", posed.robot, self._parts, joint_q, color=GHOST_COLOR, opacity=GHOST_OPACITY
            )
            for k, place in enumerate(_own_places(posed, joint_q)):
                self._scene.add_label(f"/ghosts/label_{k}", str(k + 1), position=place, anchor=ANCHORS[k % 2])

    def show_forks(self, forks: Sequence[tuple[Color, Float64Array]]) -> None:
        """Show forks at poses [m, xyzw], shape [n, 7] for each color."""
        self.shown["forks"] = self._scene.add_frame("/forks", show_axes=False)
        for k, (color, poses) in enumerate(forks):
            ends = self.gizmo_size * np.pad(FORK, ((0, 0), (1, 0)))
            ends = quaternion_rotate(poses[:, None, 3:], ends) + poses[:, None, :3]
            self._lines(f"/forks/{k}", ends.reshape(-1, 2, 3), color)

    def show_path(self, lines: Float64Array) -> None:
        """Show the way of targets [m], shape [pieces, 2, 3]; of no pieces, nothing."""
        self.hide("path")
        if len(lines):
            self.shown["path"] = self._lines("/path", lines, PATH_COLOR)

    def show_slice(self, places: Float64Array, colors: NDArray[np.uint8], apart: float) -> None:
        """Show positions of a slice [m], shape [n, 3], in colors, with a spacing `apart` [m]; n may be 0."""
        self.hide("slice")
        if len(places):
            self.shown["slice"] = self._scene.add_point_cloud(
                "/slice", places.astype(np.float32), colors, point_size=SLICE_DOT * apart, point_shape="circle"
            )

    def add_obstacle(self, posed: PosedRobot, kind: str) -> None:
        """Add a box or a ball beside the first target, up to `OBSTACLES_MOST`."""
        if len(self.obstacles) >= OBSTACLES_MOST:
            return
        names = {one.name for one in self.obstacles}
        name = next(name for k in itertools.count(1) if (name := f"{kind}_{k}") not in names)
        place = next(iter(posed.targets.values())).pose[:3]
        place = place + self._size * BESIDE[len(self.obstacles) % len(BESIDE)]
        gizmo = self._gizmo("obstacle", np.array([*place, 0.0, 0.0, 0.0, 1.0]), name, disable_rotations=kind == "ball")
        self.obstacles.append(Obstacle(name, kind, OBSTACLE_SIZE, gizmo))
        self._held = gizmo
        self.size_obstacle(OBSTACLE_SIZE)

    @property
    def last_obstacle(self) -> list[Obstacle]:
        """The obstacle added or moved last; empty without obstacles."""
        return sorted(self.obstacles, key=lambda one: one.gizmo is self._held)[-1:]

    def size_obstacle(self, size: float) -> None:
        """Give the last obstacle a size [m]."""
        for one in self.last_obstacle:
            one.size, name = size, f"{one.gizmo.name}/shape"
            if one.kind == "box":
                self._scene.add_box(name, OBSTACLE_COLOR, (size, size, size))
            else:
                self._scene.add_icosphere(name, 0.5 * size, OBSTACLE_COLOR)

    def remove_obstacle(self) -> None:
        """Remove the last obstacle."""
        for one in self.last_obstacle:
            self.obstacles.remove(one)
            one.gizmo.remove()

    def objects(self) -> dict[str, Any]:
        """Return the obstacles, as `objects` of a world in a request."""
        found = dict[str, Any]()
        for one in sorted(self.obstacles, key=lambda one: one.name):
            pose = pose_of(one.gizmo).tolist()
            own: dict[str, Any] = {"shape": "sphere", "radius": 0.5 * one.size}
            if one.kind == "box":
                own = {"shape": "box", "size": [one.size] * 3, "orientation_xyzw": pose[3:]}
            found[one.name] = {**own, "position": pose[:3]}
        return found

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
            self._held = gizmo if kind == "obstacle" else self._held
            if kind == "target" or event.phase == "update":  # only drags of targets can be undone
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
