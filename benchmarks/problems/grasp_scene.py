"""Grasps of mugs among obstacles, for a Panda: a scene and its grasps by formula, no data of others.

Four mugs stand on a table and on a shelf of three boards, beside a post. Each mug has 2 520 poses of the hand: around
its wall, and at its rim from above. While one mug is grasped, the other three are obstacles.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ik_service.collision.shapes import Box, Cylinder
from ik_service.collision.world import World
from ik_service.mechanism.transforms import quaternion_multiply

Float64Array = NDArray[np.float64]

LINK = "panda_hand"
TIP = 0.1034  # from the hand's frame to the point between the finger tips, along z [m]
RETREAT = 0.08  # of the hand before the grasp [m]
MUG_RADIUS, MUG_HEIGHT = 0.04, 0.1  # [m]
BOARDS = (0.25, 0.5, 0.75)  # heights of the boards of the shelf [m]
ROUND = 30  # directions around a mug
WALL = (np.linspace(-0.3, 1.1, 8), np.linspace(0.02, 0.08, 3))  # elevations [rad] and heights [m]
RIM = (np.linspace(-0.4, 0.4, 3), np.linspace(-0.6, 0.6, 6))  # tilts and turns about the approach [rad]
HALF_TURN = np.array([0.0, 0.0, 1.0, 0.0])


@dataclass(frozen=True)
class GraspScene:
    """A scene and its candidates; arrays with a line for each candidate."""

    world: World
    positions: Float64Array  # of the hand [m], [n, 3]
    orientations_xyzw: Float64Array  # [n, 4]
    group: NDArray[np.int64]  # the mug of each
    object_enabled: NDArray[np.bool_]  # [n, objects]: all but the mug that is grasped
    before: Float64Array  # positions of the hand before the grasp [m], [n, 3]


def grasp_scene(seed: int = 0) -> GraspScene:
    """Return a scene; the places of shelf, post and mugs are drawn from a seed."""
    rng = np.random.default_rng(seed)
    shelf_x, shelf_y = rng.uniform([0.55, -0.75], [0.75, -0.45])
    post = rng.uniform([0.3, 0.2], [0.5, 0.5])
    objects = {"table": Box((1.2, 1.8, 0.05), (0.75, 0.0, -0.026, 0.0, 0.0, 0.0, 1.0))}
    for k, height in enumerate(BOARDS):
        objects[f"board_{k}"] = Box((0.3, 0.6, 0.02), (shelf_x, shelf_y, height, 0.0, 0.0, 0.0, 1.0))
    objects["post"] = Cylinder(0.03, 1.0, (*post, 0.5, 0.0, 0.0, 0.0, 1.0))
    feet = np.array(
        [
            (*rng.uniform([0.35, -0.3], [0.6, 0.0]), 0.0),
            (*rng.uniform([0.55, 0.1], [0.85, 0.45]), 0.0),
            (shelf_x + rng.uniform(-0.1, 0.05), shelf_y + rng.uniform(-0.05, 0.2), BOARDS[0] + 0.011),
            (shelf_x + rng.uniform(-0.1, 0.05), shelf_y + rng.uniform(-0.05, 0.2), BOARDS[1] + 0.011),
        ]
    )
    for k, foot in enumerate(feet):
        x, y, z = foot
        objects[f"mug_{k}"] = Cylinder(MUG_RADIUS, MUG_HEIGHT, (x, y, z + MUG_HEIGHT / 2 + 0.001, 0.0, 0.0, 0.0, 1.0))
    points, turns = mug_grasps()
    count, mugs = len(points), len(feet)
    approach = _axis(turns, 2)
    tips = (feet[:, None] + points).reshape(-1, 3)
    along = np.tile(approach, (mugs, 1))
    positions, group = tips - TIP * along, np.repeat(np.arange(mugs), count)
    names = list(objects)
    enabled = np.ones((len(positions), len(names)), bool)
    for k in range(mugs):
        enabled[group == k, names.index(f"mug_{k}")] = False
    return GraspScene(World(objects), positions, np.tile(turns, (mugs, 1)), group, enabled, positions - RETREAT * along)


def mug_grasps() -> tuple[Float64Array, Float64Array]:
    """Return points between the finger tips from the foot of a mug [m], and orientations of the hand, xyzw."""
    around = np.arange(ROUND) * (2.0 * np.pi / ROUND)
    direction, elevation, height = (g.reshape(-1) for g in np.meshgrid(around, *WALL, indexing="ij"))
    walls = np.stack([0.0 * height, 0.0 * height, height], axis=1)
    # z of the hand towards the mug's axis and down by the elevation; y level
    of_walls = _product(_about(2, direction + np.pi), _about(1, np.pi / 2 + elevation))
    direction, tilt, turn = (g.reshape(-1) for g in np.meshgrid(around, *RIM, indexing="ij"))
    rims = np.stack([MUG_RADIUS * np.cos(direction), MUG_RADIUS * np.sin(direction), 0.0 * tilt + MUG_HEIGHT], axis=1)
    # z of the hand down, y across the wall
    of_rims = _product(_about(2, direction - np.pi / 2), _about(1, np.pi + tilt), _about(2, turn))
    points, turns = np.concatenate([walls, rims]), np.concatenate([of_walls, of_rims])
    return np.concatenate([points, points]), np.concatenate([turns, quaternion_multiply(turns, HALF_TURN)])


def _about(axis: int, angle: Float64Array) -> Float64Array:
    """Return rotations about an axis of the frame, xyzw."""
    found = np.zeros((len(angle), 4))
    found[:, axis], found[:, 3] = np.sin(angle / 2), np.cos(angle / 2)
    return found


def _product(*rotations: Float64Array) -> Float64Array:
    found = rotations[0]
    for one in rotations[1:]:
        found = quaternion_multiply(found, one)
    return found


def _axis(rotations: Float64Array, axis: int) -> Float64Array:
    """Return an axis of rotated frames."""
    unit = np.zeros((len(rotations), 4))
    unit[:, axis] = 1.0
    conjugate = rotations * [-1.0, -1.0, -1.0, 1.0]
    return quaternion_multiply(quaternion_multiply(rotations, unit), conjugate)[:, :3]
