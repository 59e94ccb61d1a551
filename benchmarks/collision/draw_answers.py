"""Draws answers with and without the check for collision, with `python -m benchmarks.collision.draw_answers FILE.svg`.

A Panda reaches into a shelf. The target is that of random ones whose answer without the check is deepest in contact.
Spheres of the robot's model are drawn, red where they touch, from far to near.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import ik_service
from ik_service.collision.check import sphere_centers
from ik_service.mechanism.transforms import quaternion_from_axis_angle, quaternion_multiply, quaternion_rotate
from ik_service.robots import Box, RobotModel, World

LINK = "panda_hand"
AZIMUTH, ELEVATION = np.radians(-122.0), np.radians(22.0)
SCALE, WIDTH, HEIGHT = 400.0, 520, 530  # pixels of a metre, and of a view
PATCH = 0.12  # edge of the pieces that faces are drawn in [m]
BOARDS = "#b98b5e"
NO_TURN = (0.0, 0.0, 0.0, 1.0)
FORWARDS = quaternion_from_axis_angle(np.array([0.0, 1.0, 0.0]), np.pi / 2.0)  # the hand's z along the world's x
Array = NDArray[np.float64]


class Item(NamedTuple):
    """Something to draw: how far it is from the eye, and its SVG."""

    depth: float
    text: str


def shelf() -> World:
    """A shelf in front of the robot, of boards 2 cm thick."""
    x, depth, width, board = 0.65, 0.36, 0.9, 0.02
    boards = {f"board {k}": Box((depth, width, board), (x, 0.0, z, *NO_TURN)) for k, z in enumerate((0.1, 0.45, 0.8))}
    sides = {
        f"side {k}": Box((depth, board, 0.72), (x, side * width / 2.0, 0.45, *NO_TURN))
        for k, side in enumerate((-1, 1))
    }
    return World(boards | sides | {"back": Box((board, width, 0.72), (x + depth / 2.0, 0.0, 0.45, *NO_TURN))})


def example(robot: RobotModel, world: World) -> tuple[Array, Array]:
    """Return the configuration without the check and the one with it."""
    rng = np.random.default_rng(3)
    positions = rng.uniform([0.5, -0.3, 0.2], [0.6, 0.3, 0.72], (500, 3))
    turn = quaternion_from_axis_angle(np.array([0.0, 0.0, 1.0]), np.pi / 4.0)
    given = positions, np.tile(quaternion_multiply(FORWARDS, turn), (len(positions), 1))
    solver = ik_service.IKSolver(robot, [LINK], device="cpu")
    unchecked, checked = solver.solve(*given, options={"collision": "off"}), solver.solve(*given, world=world)
    is_free = robot.collision(unchecked.joint_q.astype(float), world).is_free
    found = np.flatnonzero(unchecked.success & ~is_free & checked.success)
    print(
        f"Of {len(positions)} targets {int(unchecked.success.sum())} are met without the check, "
        f"{int((unchecked.success & is_free).sum())} of them free of contact; with it {int(checked.success.sum())}."
    )
    depths = robot.collision(unchecked.joint_q[found].astype(float), world).clearance
    worst = found[int(np.argmin(depths))]
    return unchecked.joint_q[worst].astype(float), checked.joint_q[worst].astype(float)


def touching(robot: RobotModel, joint_q: Array, world: World) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Return centres [m], radii [m] and which spheres touch something."""
    spheres = robot.body_spheres
    assert spheres is not None  # a Panda has a model
    centers, radii = sphere_centers(robot, spheres, joint_q[None])[:, 0], spheres.radii
    touches = np.zeros(len(radii), dtype=bool)
    moves = np.repeat(spheres.link_body >= 0, np.diff(spheres.link_start))
    for shape in world.objects.values():
        touches |= moves & (shape.signed_distance(centers) < radii)
    for first, second in spheres.pairs:
        a, b = spheres.of_link(first), spheres.of_link(second)
        gaps = np.linalg.norm(centers[a, None] - centers[None, b], axis=-1) - radii[a, None] - radii[None, b]
        touches[a] |= (gaps < 0.0).any(axis=1)
        touches[b] |= (gaps < 0.0).any(axis=0)
    return centers, radii, touches


def seen(points: Array) -> Array:
    """Return points as the eye sees them: right, up and towards it [m]."""
    right = np.array([-np.sin(AZIMUTH), np.cos(AZIMUTH), 0.0])
    towards = np.array([np.cos(ELEVATION) * np.cos(AZIMUTH), np.cos(ELEVATION) * np.sin(AZIMUTH), np.sin(ELEVATION)])
    return points @ np.stack([right, np.cross(towards, right), towards], axis=1)


def patches(box: Box) -> Iterator[Item]:
    """Give the faces of a box in pieces, lighter the more they face upwards."""
    half, pose = 0.5 * np.array(box.size), np.array(box.pose)
    for axis in range(3):
        u, v = (axis + 1) % 3, (axis + 2) % 3
        cuts = [np.linspace(-half[k], half[k], max(2, int(np.ceil(2.0 * half[k] / PATCH)) + 1)) for k in (u, v)]
        for side in (-1.0, 1.0):
            for i in range(len(cuts[0]) - 1):
                for j in range(len(cuts[1]) - 1):
                    corners = np.zeros((4, 3))
                    corners[:, axis] = side * half[axis]
                    corners[:, u] = cuts[0][[i, i + 1, i + 1, i]]
                    corners[:, v] = cuts[1][[j, j, j + 1, j + 1]]
                    placed = seen(pose[:3] + quaternion_rotate(pose[3:], corners))
                    text = " ".join(f"{x:.1f},{y:.1f}" for x, y in SCALE * placed[:, :2] * [1.0, -1.0])
                    shade = (0.55, 0.72, 0.9)[axis]
                    yield Item(
                        float(placed[:, 2].mean()),
                        f'<polygon points="{text}" fill="{BOARDS}" fill-opacity="{0.28 * shade:.2f}" stroke="none"/>',
                    )


def view(robot: RobotModel, joint_q: Array, world: World) -> Iterator[str]:
    """Give what is drawn of a configuration, from far to near."""
    items = [item for shape in world.objects.values() if isinstance(shape, Box) for item in patches(shape)]
    centers, radii, touches = touching(robot, joint_q, world)
    for place, radius, is_red in zip(seen(centers), radii, touches, strict=True):
        x, y, r = SCALE * place[0], -SCALE * place[1], SCALE * radius
        fill = "url(#red)" if is_red else "url(#grey)"
        items.append(Item(float(place[2]), f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r:.1f}" fill="{fill}"/>'))
    yield from (item.text for item in sorted(items))


def gradient(name: str, light: str, dark: str) -> str:
    """Return the shading of a ball."""
    stops = f'<stop offset="0" stop-color="{light}"/><stop offset="1" stop-color="{dark}"/>'
    return f'<radialGradient id="{name}" cx="0.38" cy="0.32" r="0.75">{stops}</radialGradient>'


def drawing() -> str:
    """Return the picture as SVG."""
    robot, world = ik_service.load_robot("panda"), shelf()
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * WIDTH} {HEIGHT}" font-family="sans-serif">',
        "<title>A Panda reaches into a shelf, without and with the check for collision</title>",
        f'<rect width="{2 * WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f"<defs>{gradient('grey', '#f4f6f8', '#7d8894')}{gradient('red', '#ff9a8a', '#c62828')}</defs>",
    ]
    for number, joint_q in enumerate(example(robot, world)):
        clearance = 1e3 * robot.collision(joint_q, world).clearance[0]
        title = ("collision off", "checked, as by default with a world")[number]
        caption = f"{-clearance:.0f} mm deep in contact" if clearance < 0.0 else f"clear by {clearance:.0f} mm"
        left = number * WIDTH
        lines += [
            f'<text x="{left + 24}" y="32" font-size="17" font-weight="600" fill="#222">{title}</text>',
            f'<text x="{left + 24}" y="54" font-size="14" fill="#555">{caption}</text>',
            f'<g transform="translate({left + 110} {HEIGHT - 37})">',
            *view(robot, joint_q, world),
            "</g>",
        ]
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(drawing())
