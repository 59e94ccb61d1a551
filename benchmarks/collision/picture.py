"""A picture of the spheres of a robot over what they cover, as SVG."""

from collections.abc import Iterator, Mapping
from html import escape

import numpy as np

from ik_service.collision.covering import Solid
from ik_service.mechanism.transforms import Float64Array, quaternion_rotate
from ik_service.robots import RobotModel

VIEWS = {"front": (1, 2, 0), "side": (0, 2, 1), "top": (0, 1, 2)}
"""Axes to the right, upwards and towards the eye of each view."""
SIZE, EDGE = 420.0, 24.0  # of a view, and around it [px]
POINTS_OF_A_LINK = 150
COLOURS = ("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22", "#17becf")


def write_picture(robot: RobotModel, solids: Mapping[str, Solid]) -> str:
    """Return the SVG text of a picture of a robot at mid-range, with the solids covered by its spheres, by link."""
    assert robot.collision_model is not None  # the picture shows spheres
    links = list(solids)
    poses = robot.forward_kinematics(robot.mid_joint_q, links)
    placed = []
    for k, link in enumerate(links):
        spheres, surface = robot.collision_model.spheres[link], solids[link].surface
        frame = poses.positions[0, k], poses.orientations_xyzw[0, k]
        points = _placed(surface[:: max(1, len(surface) // POINTS_OF_A_LINK)], frame)
        placed.append((_placed(spheres[:, :3], frame), spheres[:, 3], points, COLOURS[k % len(COLOURS)]))
    lower = np.min([(centers - radii[:, None]).min(axis=0) for centers, radii, _, _ in placed], axis=0)
    upper = np.max([(centers + radii[:, None]).max(axis=0) for centers, radii, _, _ in placed], axis=0)
    scale = SIZE / float((upper - lower).max())
    width, height = len(VIEWS) * (SIZE + EDGE) + EDGE, SIZE + 2.0 * EDGE
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}">',
        f"<title>Spheres of {escape(robot.name)}</title>",
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="#fff"/>',
    ]
    for number, (name, axes) in enumerate(VIEWS.items()):
        left = EDGE + number * (SIZE + EDGE)
        lines.append(f'<text x="{left:.0f}" y="16" font-family="sans-serif" font-size="13">{name}</text>')
        lines.append(f'<g transform="translate({left:.1f} {EDGE + SIZE:.1f}) scale({scale:.4g} {-scale:.4g})">')
        lines += _view(placed, lower, axes, 1.0 / scale)
        lines.append("</g>")
    return "\n".join([*lines, "</svg>", ""])


def _view(
    placed: list[tuple[Float64Array, Float64Array, Float64Array, str]],
    lower: Float64Array,
    axes: tuple[int, int, int],
    pixel: float,
) -> Iterator[str]:
    """Return the circles and points of a view, sorted from far to near."""
    right, upwards, towards = axes
    for centers, radii, points, colour in sorted(placed, key=lambda link: float(link[0][:, towards].mean())):
        for place, radius in zip(centers - lower, radii, strict=True):
            yield (
                f'<circle cx="{place[right]:.4f}" cy="{place[upwards]:.4f}" r="{radius:.4f}" fill="{colour}" '
                f'fill-opacity="0.18" stroke="{colour}" stroke-width="{pixel:.2g}" stroke-opacity="0.7"/>'
            )
        dots = " ".join(f"M{x:.4f} {y:.4f}h0" for x, y in (points - lower)[:, [right, upwards]])
        yield f'<path d="{dots}" stroke="#222" stroke-width="{1.6 * pixel:.2g}" stroke-linecap="round"/>'


def _placed(points: Float64Array, frame: tuple[Float64Array, Float64Array]) -> Float64Array:
    return np.asarray(frame[0] + quaternion_rotate(frame[1], points))
