"""Drawings in a scene of viser: a robot, its ghosts, its collision spheres, ranges of its revolute joints.

A drawing makes its scene nodes once; a move sends the poses of all parts, one array per mesh. A range is an arc from
limit to limit about the axis, with a line at the joint angle.
"""

import itertools
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import numpy as np
import viser
from numpy.typing import NDArray

from ik_service.mechanism.transforms import Float64Array, quaternion_between, quaternion_rotate, transform_multiply
from ik_service.page.geometry import Parts, Role, loop_rods, placed_bodies, robot_size
from ik_service.robots import JointType, RobotModel

Color = tuple[int, int, int]
ROD_COLOR: Color = (212, 216, 222)
LOOP_COLOR: Color = (150, 156, 166)
LIMIT_COLOR: Color = (214, 48, 49)


class RobotDrawing:
    """A robot, several ghosts of a robot, or its collision spheres, under a node of a scene.

    Configurations have the shape [joint_coord_count] or [n, joint_coord_count]. All parts have one color before
    `paint`. None as opacity is opaque.
    """

    def __init__(
        self,
        scene: viser.SceneApi,
        name: str,
        robot: RobotModel,
        parts: Sequence[Parts],
        joint_q: NDArray[Any],
        *,
        color: Color = ROD_COLOR,
        opacity: float | None = None,
    ) -> None:
        self._robot, self._node = robot, scene.add_frame(name, show_axes=False)
        bodies = placed_bodies(robot, joint_q)
        self._drawn = []
        for k, part in enumerate(parts):
            positions, turns = _columns(part.poses(bodies))
            node = scene.add_batched_meshes_simple(
                f"{name}/{k}",
                part.mesh.vertices,
                part.mesh.faces.astype(np.uint32),
                turns,
                positions,
                batched_scales=np.tile(part.scales, (len(bodies), 1)).astype(np.float32),
                batched_colors=np.tile(np.array(color, np.uint8), (len(positions), 1)),
                opacity=opacity,
                lod="off",
                cast_shadow=False,
                receive_shadow=False,
            )
            self._drawn.append((part, node))
        rods, self._rods = loop_rods(robot, bodies), None
        if len(rods):
            width = float(np.median(parts[0].scales[:, 0]))
            self._rods = scene.add_line_segments(f"{name}/loop_rods", rods, LOOP_COLOR, thickness=width)

    def move(self, joint_q: NDArray[Any]) -> None:
        """Show other configurations, as many as before."""
        bodies = placed_bodies(self._robot, joint_q)
        for part, node in self._drawn:
            node.batched_positions, node.batched_wxyzs = _columns(part.poses(bodies))
        if self._rods is not None:
            self._rods.points = loop_rods(self._robot, bodies).astype(np.float32)

    def paint(self, links: NDArray[np.uint8], joints: NDArray[np.uint8]) -> None:
        """Color the single configuration: tips and meshes [links, 3], joints [dofs, 3], by the index of the part."""
        for part, node in self._drawn:
            colors = np.tile(np.array(ROD_COLOR, np.uint8), (len(part.body), 1))
            is_tip, is_mesh, is_joint = (part.role == role for role in (Role.TIP, Role.LINK, Role.JOINT))
            colors[is_tip] = links[part.index[is_tip]]
            colors[is_mesh] = (0.7 * np.array(ROD_COLOR) + 0.3 * links[part.index[is_mesh]]).astype(np.uint8)
            colors[is_joint] = joints[part.index[is_joint]]
            node.batched_colors = colors

    def tell_clicks(self, clicked: Callable[[str], None] | None) -> None:
        """Call `clicked` on the event loop with the name of each clicked link; None removes the callback.

        Clickable parts take mouse events from gizmos behind them.
        """
        for part, node in self._drawn:
            node.remove_click_callback()
            if clicked is not None:
                node.on_click(self._clicked_link(part, clicked))

    def _clicked_link(self, part: Parts, clicked: Callable[[str], None]) -> Callable[[Any], Coroutine[Any, Any, None]]:
        async def told(event: Any) -> None:
            clicked(self._robot.link_names[part.link[event.instance_index]])

        return told

    def remove(self) -> None:
        """Remove the drawing from the scene."""
        self._node.remove()


def _columns(poses: Float64Array) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return positions and quaternions wxyz of all parts, shapes [n * parts, 3] and [n * parts, 4]."""
    flat = poses.reshape(-1, 7).astype(np.float32)
    return flat[:, :3], flat[:, [6, 3, 4, 5]]


ARC_SHARE = 0.1  # radius of an arc over the size of the robot
LONGER = 1.25  # length of the line to an angle over the radius
ARC_STEP = np.pi / 24.0  # longest piece of an arc [rad]
OFF_AXIS = 0.01  # least way of a point from an axis, over the size of the robot, that tells where a joint's angle is 0
ARC_COLOR, ANGLE_COLOR = (70, 130, 205), (170, 60, 200)
_X_AXIS, _Z_AXIS = np.eye(3)[[0, 2]]


class JointArcs:
    """Arcs of all revolute joints of a robot at a configuration; a range of a turn or more is a circle."""

    def __init__(self, scene: viser.SceneApi, robot: RobotModel, joint_q: NDArray[Any]) -> None:
        self._robot = robot
        self._joints = np.flatnonzero(np.isin(robot.joint_type, (JointType.REVOLUTE, JointType.CONTINUOUS)))
        dofs, radius = robot.joint_qd_start[self._joints], ARC_SHARE * robot_size(robot)
        axes = np.asarray(robot.joint_axis, np.float64)[dofs]
        zeros = np.array([_zero_direction(robot, *one) for one in zip(self._joints, axes, strict=True)]).reshape(-1, 3)
        self._sides = radius * np.stack([zeros, np.cross(axes, zeros)])
        ranges = np.stack([robot.joint_limit_lower[dofs], robot.joint_limit_upper[dofs]], axis=1)
        ranges[~(np.ptp(ranges, axis=1) < 2.0 * np.pi)] = -np.pi, np.pi
        ends = [np.linspace(low, high, 2 + int((high - low) / ARC_STEP)) for low, high in ranges]
        self._place = np.repeat(np.arange(len(ends)), [len(one) - 1 for one in ends])
        pieces = np.array([pair for one in ends for pair in itertools.pairwise(one)]).reshape(-1, 2)
        self._arcs = np.stack([self._points(self._place, angles) for angles in pieces.T], axis=1)
        self._nodes = [
            scene.add_line_segments(f"/arcs/{k}", lines, color, thickness=3.0, thickness_units="screen")
            for k, (lines, color) in enumerate(zip(self.lines(joint_q), (ARC_COLOR, ANGLE_COLOR), strict=True))
        ]

    def lines(self, joint_q: NDArray[Any]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return the segments of all arcs and the line at each joint angle [m], shapes [n, 2, 3]."""
        bodies, every = placed_bodies(self._robot, joint_q)[0], np.arange(len(self._joints))
        frames = transform_multiply(bodies[self._robot.joint_parent[self._joints]], self._robot.joint_X_p[self._joints])
        angles = np.asarray(joint_q, np.float64)[self._robot.joint_q_start[self._joints]]
        tips = LONGER * self._points(every, angles)
        local = np.concatenate([self._arcs, np.stack([np.zeros_like(tips), tips], axis=1)])
        of_lines = frames[np.concatenate([self._place, every]), None]
        lines = (of_lines[..., :3] + quaternion_rotate(of_lines[..., 3:], local)).astype(np.float32)
        return lines[: len(self._arcs)], lines[len(self._arcs) :]

    def move(self, joint_q: NDArray[Any]) -> None:
        """Show another configuration."""
        for node, lines in zip(self._nodes, self.lines(joint_q), strict=True):
            node.points = lines

    def remove(self) -> None:
        """Remove the arcs from the scene."""
        for node in self._nodes:
            node.remove()

    def _points(self, place: NDArray[Any], angles: Float64Array) -> Float64Array:
        """Return points at angles of joints in their frames [m], shape [n, 3]."""
        zero, quarter = self._sides[:, place]
        return np.asarray(zero * np.cos(angles)[:, None] + quarter * np.sin(angles)[:, None])


def _zero_direction(robot: RobotModel, joint: np.intp, axis: Float64Array) -> Float64Array:
    """Return the unit vector across the axis toward the moved parts at angle 0."""
    carried = [robot.joint_X_p[robot.joint_parent == joint, :3], robot.link_X_body[robot.link_body == joint, :3]]
    points = np.concatenate(carried)
    across = points - np.outer(points @ axis, axis)
    lengths = np.linalg.norm(across, axis=1)
    farthest = int(lengths.argmax())
    if lengths[farthest] < OFF_AXIS * robot_size(robot):
        return quaternion_rotate(quaternion_between(_Z_AXIS, axis), _X_AXIS)
    return np.asarray(across[farthest] / lengths[farthest])
