"""Draws which axis is left free, with `python -m benchmarks.arms.draw_tolerances FILE.svg`.

One target for a Panda's hand, answered with the world's z axis free, with the tool's, and with a cone about the tool's.
Spheres of the robot's collision model are drawn, from far to near; the target's axis is dashed, the tool's is solid.
"""

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.arms.tolerances import CONE, tilts
from benchmarks.collision.draw_answers import SCALE, gradient, seen, view
from ik_service import IKSolver, RobotModel, Target, load_robot
from ik_service.mechanism.transforms import quaternion_from_axis_angle, quaternion_rotate
from ik_service.robots import World

LINK = "panda_hand"
WIDTH, HEIGHT, SHOWN = 380, 470, 0.9  # pixels of a view, and its size beside that of others
LENGTH = 0.34  # of a drawn axis [m]
POSITION = np.array([[0.5, 0.1, 0.4]])
TURN = quaternion_from_axis_angle(np.array([0.0, 1.0, 0.0]), 0.7 * np.pi)[None]
START = np.array([1.2, -0.6, 0.5, -2.0, 0.3, 1.6, 0.8])
CONE_TOLERANCE = (0.0, 0.0, 0.0, CONE, CONE, 0.0)
TARGETS = {
    "row_weights=[1, 1, 1, 1, 1, 0]": Target(LINK, row_weights=[1, 1, 1, 1, 1, 0]),
    'free=["rz"]': Target(LINK, free=["rz"]),
    'free=["rz"], cone of 10 degrees': Target(LINK, free=["rz"], tolerance=CONE_TOLERANCE),
}
Array = NDArray[np.float64]


def axis(origin: Array, turn: Array, color: str, dashes: str) -> str:
    """Return the z axis of a frame as a line."""
    ends = np.stack([origin, origin + LENGTH * quaternion_rotate(turn, np.array([0.0, 0.0, 1.0]))])
    (x0, y0), (x1, y1) = SCALE * seen(ends)[:, :2] * [1.0, -1.0]
    style = f'stroke="{color}" stroke-width="3.5" stroke-linecap="round" stroke-dasharray="{dashes}"'
    return f'<line x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}" {style}/>'


def panel(robot: RobotModel, number: int, title: str, target: Target) -> list[str]:
    """Return one answer."""
    result = IKSolver(robot, [target], device="cpu").solve(POSITION, TURN, initial_joint_q=START)
    joint_q = result.joint_q[0].astype(np.float64)
    turns = robot.forward_kinematics(joint_q[None], [LINK]).orientations_xyzw[:, 0]
    tilt = float(np.degrees(tilts(turns, TURN))[0])
    left = number * WIDTH
    return [
        f'<text x="{left + 18}" y="30" font-size="15" font-weight="600" fill="#222">{title}</text>',
        f'<text x="{left + 18}" y="51" font-size="14" fill="#555">tool axis {tilt:.1f} degrees off</text>',
        f'<g transform="translate({left + 120} {HEIGHT - 37}) scale({SHOWN})">',
        *view(robot, joint_q, World({})),
        axis(POSITION[0], TURN[0], "#1565c0", "7 8"),
        axis(POSITION[0], turns[0], "#2e7d32", "none"),
        "</g>",
    ]


def drawing() -> str:
    """Return the picture as SVG."""
    robot, width = load_robot("panda"), len(TARGETS) * WIDTH
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT}" font-family="sans-serif">',
        "<title>One target with the world's axis free, with the tool's, and with a cone about it</title>",
        f'<rect width="{width}" height="{HEIGHT}" fill="#fff"/>',
        f"<defs>{gradient('grey', '#f4f6f8', '#7d8894')}{gradient('red', '#ff9a8a', '#c62828')}</defs>",
    ]
    for number, (title, target) in enumerate(TARGETS.items()):
        lines += panel(robot, number, title, target)
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(drawing())
