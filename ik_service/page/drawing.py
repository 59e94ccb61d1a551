"""Drawings of robots in a scene of viser, from the parts of `geometry.py`.

A drawing makes its scene nodes once; a move sends the poses of all parts, one array per mesh.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import viser
from numpy.typing import NDArray

from ik_service.mechanism.transforms import Float64Array
from ik_service.page.geometry import Color, Parts, loop_rods, placed_bodies, robot_size
from ik_service.robots import RobotModel

LOOP_COLOR: Color = (110, 116, 126)
LIMIT_COLOR: Color = (214, 48, 49)
LOOP_SHARE = 0.012  # width of a rod that closes a loop over the size of the robot


class RobotDrawing:
    """A robot, several ghosts of a robot, or its collision spheres, under a node of a scene.

    Configurations have the shape [joint_coord_count] or [n, joint_coord_count]. Parts have their own colors before
    `paint`, or one color. None as opacity is opaque, with shadows.
    """

    def __init__(
        self,
        scene: viser.SceneApi,
        name: str,
        robot: RobotModel,
        parts: Sequence[Parts],
        joint_q: NDArray[Any],
        *,
        color: Color | None = None,
        opacity: float | None = None,
    ) -> None:
        self._robot, self._node = robot, scene.add_frame(name, show_axes=False)
        bodies = placed_bodies(robot, joint_q)
        self._drawn = []
        for k, part in enumerate(parts):
            positions, turns = _columns(part.poses(bodies))
            colors = part.color if color is None else np.tile(np.array(color, np.uint8), (len(part.body), 1))
            node = scene.add_batched_meshes_simple(
                f"{name}/{k}",
                part.mesh.vertices,
                part.mesh.faces.astype(np.uint32),
                turns,
                positions,
                batched_scales=np.tile(part.scales, (len(bodies), 1)).astype(np.float32),
                batched_colors=np.tile(colors, (len(bodies), 1)),
                opacity=opacity,
                lod="off",
                cast_shadow=opacity is None,
                receive_shadow=False,
            )
            self._drawn.append((part, node))
        rods, self._rods = loop_rods(robot, bodies), None
        if len(rods):
            width = LOOP_SHARE * robot_size(robot)
            self._rods = scene.add_line_segments(f"{name}/loop_rods", rods, LOOP_COLOR, thickness=width)

    def move(self, joint_q: NDArray[Any]) -> None:
        """Show other configurations, as many as before."""
        bodies = placed_bodies(self._robot, joint_q)
        for part, node in self._drawn:
            node.batched_positions, node.batched_wxyzs = _columns(part.poses(bodies))
        if self._rods is not None:
            self._rods.points = loop_rods(self._robot, bodies).astype(np.float32)

    def paint(self, results: NDArray[np.uint8]) -> None:
        """Color the single configuration by results, shape [n, 3], at the index of each part."""
        for part, node in self._drawn:
            share = part.share[:, None]
            node.batched_colors = ((1.0 - share) * part.color + share * results[part.index]).astype(np.uint8)

    def tell_clicks(self, clicked: Callable[[str], None] | None) -> None:
        """Call `clicked` on the event loop with the name of each clicked link; None removes the callback.

        Clickable parts take mouse events from gizmos behind them.
        """
        for part, node in self._drawn:
            node.remove_click_callback()
            if clicked is not None:
                node.on_click(partial(self._tell, clicked, part))

    async def _tell(self, clicked: Callable[[str], None], part: Parts, event: Any) -> None:
        clicked(self._robot.link_names[part.link[event.instance_index]])

    def remove(self) -> None:
        """Remove the drawing from the scene."""
        self._node.remove()


def _columns(poses: Float64Array) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return positions and quaternions wxyz of all parts, shapes [n * parts, 3] and [n * parts, 4]."""
    flat = poses.reshape(-1, 7).astype(np.float32)
    return flat[:, :3], flat[:, [6, 3, 4, 5]]
