"""The scene of one visitor: the robot, what can be dragged, ghosts, spheres, an obstacle, and the camera."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import viser
from numpy.typing import NDArray

from ik_service.page.drawing import Color, RobotDrawing, SphereDrawing
from ik_service.page.posed_robot import POSITION_TOLERANCE, PosedRobot
from ik_service.page.solving.questions import Float64Array
from ik_service.robots.files.geometry.world_file import read_world

GIZMO_SHARE = 0.22
"""Size of a gizmo over that of the robot."""
GHOST_COLOR: Color = (120, 150, 190)
GHOST_OPACITY = 0.28
MISS_COLOR: Color = (214, 48, 49)
OBSTACLE_COLOR: Color = (150, 120, 90)
SKY_COLOR: Color = (255, 255, 255)
EARTH_COLOR: Color = (170, 172, 180)
LIGHT = 2.4
GRID_COLOR: Color = (132, 136, 144)
"""Seen on white and on black."""
VIEW = (0.95, -0.8, 0.5)
"""From the middle of the robot to the camera, over the size of the robot."""


class Stage:
    """The scene.

    Args:
        client: The browser.
        posed: The robot and its targets.
        dragged: Called on the event loop when a gizmo has been dragged.

    Attributes:
        gizmos: What can be dragged, by link.
        drawing: The robot.
        size: Of the robot [m].
    """

    def __init__(self, client: viser.ClientHandle, posed: PosedRobot, dragged: Callable[[], None]) -> None:
        self._scene, self._dragged, self._atomic = client.scene, dragged, client.atomic
        self._scene.reset()
        # Shadows and a lit surrounding cost a browser without a graphics card nine of ten frames.
        self._scene.configure_default_lights(cast_shadow=False)
        self._scene.configure_environment_map(None)
        self._scene.add_light_hemisphere("/light", sky_color=SKY_COLOR, ground_color=EARTH_COLOR, intensity=LIGHT)
        self.drawing = RobotDrawing(self._scene, "/robot", posed.robot, posed.joint_q)
        self.size = self.drawing.parts.size
        self._miss = self._scene.add_line_segments(
            "/miss", np.zeros((1, 2, 3)), MISS_COLOR, thickness=3.0, thickness_units="screen", visible=False
        )
        self._spheres: SphereDrawing | None = None
        if posed.robot.collision_model is not None:
            self._spheres = SphereDrawing(self._scene, posed.robot, posed.joint_q)
        self._gizmo_size = GIZMO_SHARE * self.size / max(1.0, 0.5 * len(posed.asked)) ** 0.5
        self.gizmos = {
            link: self._gizmo(f"/targets/{k}", target.pose, link, visible=target.is_on)
            for k, (link, target) in enumerate(posed.targets.items())
        }
        self._ghosts: RobotDrawing | None = None
        self._obstacle: viser.TransformControlsHandle | None = None
        self._shape: dict[str, Any] = {}
        self._look(client.camera, posed)

    def draw(self, posed: PosedRobot, color: Color) -> None:
        """Show where the robot stands, with joints and tips in a colour, and how far links are from their targets."""
        limits = None if posed.answer is None else posed.answer.active_limits[0]
        with self._atomic():  # all parts move in one frame
            self.drawing.move(posed.joint_q)
            self.drawing.paint(color, limits)
            self._draw_misses(posed)
            if self._spheres is not None and self._spheres.is_shown:
                self._draw_spheres(posed)

    def _draw_misses(self, posed: PosedRobot) -> None:
        missed = [target for target in posed.asked if posed.error[target.link][0] > POSITION_TOLERANCE]
        self._miss.visible = bool(missed)
        if missed:
            hands = posed.robot.forward_kinematics(posed.joint_q, [target.link for target in missed]).positions[0]
            goals = np.stack([target.pose[:3] for target in missed])
            self._miss.points = np.stack([hands, goals], axis=1).astype(np.float32)

    def show_spheres(self, posed: PosedRobot, *, visible: bool) -> None:
        """Show or hide the collision spheres, with what is closest."""
        if self._spheres is not None:
            self._spheres.show(visible=visible)
            self._draw_spheres(posed)

    def _draw_spheres(self, posed: PosedRobot) -> None:
        assert self._spheres is not None  # the robot has some
        objects = self.objects()
        world = read_world({"objects": objects}) if objects else None
        check = posed.robot.collision(posed.joint_q, world)
        self._spheres.move(posed.joint_q, check.closest_pairs[0], float(check.clearance[0]), world)

    def read_gizmos(self) -> dict[str, Float64Array]:
        """Return where the gizmos that are shown are, by link [m, xyzw], shape [7] each."""
        return {link: pose_of(gizmo) for link, gizmo in self.gizmos.items() if gizmo.visible}

    def place_gizmos(self, posed: PosedRobot) -> None:
        """Put gizmos where the targets are."""
        for link, gizmo in self.gizmos.items():
            target = posed.targets[link]
            gizmo.position, gizmo.wxyz = target.pose[:3], target.pose[[6, 3, 4, 5]]
            gizmo.visible = target.is_on

    def show_ghosts(self, posed: PosedRobot, joint_q: NDArray[Any]) -> None:
        """Show other configurations, [n, joint_coord_count], in place of those before; n may be 0."""
        if self._ghosts is not None:
            self._ghosts.remove()
        self._ghosts = None
        if len(joint_q):
            self._ghosts = RobotDrawing(self._scene, "/ghosts", posed.robot, joint_q, GHOST_OPACITY)
            self._ghosts.shade(GHOST_COLOR)

    def put_obstacle(self, posed: PosedRobot, kind: str, size: float) -> None:
        """Show an obstacle of a size [m] where the one before was, or beside the first target; "none" takes it away."""
        x, y, z = next(iter(posed.targets.values())).pose[:3].tolist()
        pose = np.array([x, y + 0.35 * self.size, z, 0.0, 0.0, 0.0, 1.0])
        if self._obstacle is not None:
            pose = pose_of(self._obstacle)
            self._obstacle.remove()
        self._obstacle = None
        if kind == "none":
            return
        self._obstacle = self._gizmo("/obstacle", pose, "obstacle", disable_rotations=kind == "sphere")
        if kind == "box":
            self._shape = {"shape": "box", "size": [size] * 3}
            self._scene.add_box("/obstacle/shape", OBSTACLE_COLOR, (size, size, size), opacity=0.9)
        else:
            self._shape = {"shape": "sphere", "radius": 0.5 * size}
            self._scene.add_icosphere("/obstacle/shape", 0.5 * size, OBSTACLE_COLOR, opacity=0.9)

    def objects(self) -> dict[str, Any]:
        """Return what is around the robot, as `objects` of a world in a request."""
        if self._obstacle is None:
            return {}
        pose = pose_of(self._obstacle).tolist()
        turn = {"orientation_xyzw": pose[3:]} if self._shape["shape"] == "box" else {}
        return {"obstacle": {**self._shape, "position": pose[:3], **turn}}

    def _gizmo(self, name: str, pose: Float64Array, label: str, **options: Any) -> viser.TransformControlsHandle:
        gizmo = self._scene.add_transform_controls(
            name,
            scale=self._gizmo_size,
            line_width=3.0,
            depth_test=False,
            position=pose[:3],
            wxyz=pose[[6, 3, 4, 5]],
            **options,
        )
        self._scene.add_label(f"{name}/label", label, anchor="bottom-left")

        async def moved(_: object) -> None:
            self._dragged()

        gizmo.on_update(moved)
        return gizmo

    def _look(self, camera: viser.CameraHandle, posed: PosedRobot) -> None:
        """Look at the robot from in front, above and aside, over a grid on which it stands."""
        points = posed.robot.forward_kinematics(posed.joint_q).positions[0]
        middle, lowest = 0.5 * (points.min(axis=0) + points.max(axis=0)), float(points[:, 2].min())
        self._scene.add_grid(
            "/ground",
            4.0 * self.size,
            4.0 * self.size,
            cell_size=0.2 * self.size,
            section_size=self.size,
            cell_color=GRID_COLOR,
            cell_thickness=0.4,
            section_color=GRID_COLOR,
            section_thickness=0.8,
            position=(float(middle[0]), float(middle[1]), min(lowest, 0.0) - 1e-3 * self.size),
        )
        camera.up_direction = (0.0, 0.0, 1.0)
        camera.position = middle + self.size * np.array(VIEW)
        camera.look_at = middle


def pose_of(gizmo: viser.TransformControlsHandle) -> Float64Array:
    """Return where a gizmo is [m, xyzw], shape [7]."""
    turn = np.asarray(gizmo.wxyz, np.float64)
    return np.concatenate([np.asarray(gizmo.position, np.float64), (turn / np.linalg.norm(turn))[[1, 2, 3, 0]]])


def theme(*, is_dark: bool) -> Mapping[str, Any]:
    """Return how the page looks, for viser: without what leads to other hosts."""
    return {
        "dark_mode": is_dark,
        "show_logo": False,
        "show_share_button": False,
        "brand_color": (52, 120, 190),
    }
