"""Draw the eight branches of an arm at one pose: `python -m docs.branches` writes branches.svg beside this file."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.collision.builtin_models import UR5E
from ik_service import IKSolver, RobotModel, Target, load_robot
from ik_service.mechanism.transforms import quaternion_rotate

LEGEND = (
    "Branch = 4 shoulder + 2 elbow + wrist. Blue: 0, A on the page. Orange: 1, B. Dashed: axis 1. Arrows: the target."
)
POSITION, ORIENTATION_XYZW = np.array([0.44, 0.12, 0.5]), np.array([0.5, 0.5, 0.0, 0.0]) * np.sqrt(2.0)
BITS, AXES = ("#2b6cb0", "#d3720b"), ("#e0245e", "#2e9e5b", "#2f6fde")  # bits of 0 and 1; x, y, z of the target
EDGE, PAPER, BASE, GROUND = "#1d2733", "#ffffff", "#9aa5b1", "#c9d1d9"
PARTS = {"base_link_inertia": "base", "shoulder_link": "shoulder", "upper_arm_link": "elbow", "forearm_link": "elbow"}
TURN, TILT = np.radians(-58.0), np.radians(22.0)  # direction to the eye, about z and above the ground
SCALE, WIDTH, HEIGHT, MIDDLE = 325.0, 300, 325, (112.0, 275.0)  # pixels per metre; size and base of a drawing


def line(points: NDArray[np.float64], color: str, width: float, more: str = "") -> str:
    """Return a line with round ends through points of the world [m], shape [n, 3]."""
    x, y, z = points.T
    side, ahead = x * np.cos(TURN) - y * np.sin(TURN), x * np.sin(TURN) + y * np.cos(TURN)
    pixels = MIDDLE[0] + SCALE * side, MIDDLE[1] - SCALE * (z * np.cos(TILT) + ahead * np.sin(TILT))
    path = " ".join(f"{u:.1f},{v:.1f}" for u, v in zip(*pixels, strict=True))
    style = f'fill="none" stroke="{color}" stroke-width="{width:.1f}" stroke-linecap="round"'
    return f'<polyline points="{path}" {style}{more}/>'


def drawing(robot: RobotModel, joint_q: NDArray[np.float64], branch: int) -> str:
    """Return one drawing: the arm, axis 1, the target, and the bits of the branch."""
    bits = {"shoulder": branch >> 2 & 1, "elbow": branch >> 1 & 1, "wrist": branch & 1}
    turns = np.linspace(0.0, 2.0 * np.pi, 49)
    lines = [line(0.3 * np.stack([np.cos(turns), np.sin(turns), 0.0 * turns], axis=1), GROUND, 1.5)]
    lines.append(line(np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 0.68]]), EDGE, 1.2, ' stroke-dasharray="5 5"'))
    poses, capsules = robot.forward_kinematics(joint_q), []
    for link, radius, *ends in UR5E:
        k, part = robot.link_index(link), PARTS.get(link, "wrist")
        points = poses.positions[0, k] + quaternion_rotate(poses.orientations_xyzw[0, k], np.array(ends, np.float64))
        x, y, z = points.mean(axis=0)
        near = z * np.sin(TILT) - (x * np.sin(TURN) + y * np.cos(TURN)) * np.cos(TILT)
        capsules.append((near, points, 1.6 * SCALE * radius, BITS[bits[part]] if part in bits else BASE))
    for _, points, width, color in sorted(capsules, key=lambda capsule: capsule[0]):
        lines += [line(points, EDGE, width + 3.0), line(points, color, width)]
    for axis, color in zip(np.eye(3), AXES, strict=True):
        arrow = POSITION + np.stack([0.0 * axis, 0.15 * quaternion_rotate(ORIENTATION_XYZW, axis)])
        lines += [line(arrow, PAPER, 6.0), line(arrow, color, 3.0)]
    words = "   ".join(f'<tspan fill="{BITS[bit]}">{part} {bit}</tspan>' for part, bit in bits.items())
    lines.append(f'<text x="150" y="30" font-weight="bold" font-size="19">branch {branch}</text>')
    lines.append(f'<text x="150" y="54" font-weight="bold" font-size="16" xml:space="preserve">{words}</text>')
    return f'<g transform="translate({WIDTH * (branch % 4)} {HEIGHT * (branch // 4)})">{"".join(lines)}</g>'


if __name__ == "__main__":
    ur5e = load_robot("ur5e", collision="ignore")
    result = IKSolver(ur5e, [Target("tool0")]).solve([POSITION], [ORIENTATION_XYZW], options={"solutions": "all"})
    found = dict(zip(result.branch[0].tolist(), result.solutions[0], strict=True))
    size = f'viewBox="0 0 {4 * WIDTH} {2 * HEIGHT + 42}" text-anchor="middle" font-family="sans-serif" fill="{EDGE}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}><title>Eight branches of a UR5e</title>'
    paper = f'<rect width="100%" height="100%" rx="12" fill="{PAPER}"/>'
    legend = f'<text x="{2 * WIDTH}" y="{2 * HEIGHT + 22}" font-size="17">{LEGEND}</text>'
    pieces = [head, paper, *(drawing(ur5e, found[branch], branch) for branch in range(8)), legend, "</svg>\n"]
    Path(__file__).with_name("branches.svg").write_text("\n".join(pieces))
