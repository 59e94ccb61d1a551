"""Chooses one of 2160 grasps of a mug: the nearest to where the arm stands, with a short way from the pre-grasp.

python examples/best_grasp.py

The mug is no obstacle here, since the hand touches it; a carton beside it is one.
"""

import numpy as np

from ik_service import CandidateResult, IKSolver, load_robot
from ik_service.mechanism.transforms import quaternion_exp, quaternion_multiply, quaternion_rotate
from ik_service.robots import Box, World

MUG = np.array([0.5, 0.1, 0.0])  # foot of the mug on the table [m]
TIP = 0.1034  # from the frame of the hand to the point between the finger tips, along z [m]
RETREAT = 0.08  # of the hand before the grasp [m]
NOW = np.array([0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785])  # where the arm stands [rad]
TABLE = Box((1.0, 1.6, 0.04), (0.7, 0.0, -0.03, 0.0, 0.0, 0.0, 1.0))
CARTON = Box((0.1, 0.25, 0.3), (0.36, 0.1, 0.15, 0.0, 0.0, 0.0, 1.0))


def grasps() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return positions and orientations of the hand around the mug, and positions before the grasp, [2160, 3 or 4]."""
    around = np.arange(72) * np.pi / 36.0
    grid = np.meshgrid(around, np.linspace(0.0, 1.0, 5), [0.03, 0.05, 0.07], [0.0, np.pi], indexing="ij")
    direction, down, height, half_turn = (numbers.reshape(-1, 1) for numbers in grid)
    turns = quaternion_exp((direction + np.pi) * [0.0, 0.0, 1.0])  # x towards the mug
    turns = quaternion_multiply(turns, quaternion_exp((0.5 * np.pi + down) * [0.0, 1.0, 0.0]))  # z there, and down
    turns = quaternion_multiply(turns, quaternion_exp(half_turn * [0.0, 0.0, 1.0]))
    approach = quaternion_rotate(turns, np.array([0.0, 0.0, 1.0]))
    positions = MUG + height * [0.0, 0.0, 1.0] - TIP * approach
    return positions, turns, positions - RETREAT * approach


def main() -> CandidateResult:
    """Choose a grasp and print the choice."""
    robot, world = load_robot("panda"), World({"table": TABLE, "carton": CARTON})
    positions, turns, before = grasps()
    best = IKSolver(robot, ["panda_hand"]).solve_any(
        positions,
        turns,
        criterion="nearest",
        initial_joint_q=NOW,
        world=world,
        via=(before, turns, 0.8),  # no joint moves further than this on the way between [rad]
        options={"margin": 0.01},  # [m] from contact at least
    )
    if not best.success[0]:
        raise SystemExit(f"No grasp: {best.status_names[0]}; candidates by fate: {best.counts[0].tolist()}.")
    approach, step = (before - positions)[best.candidate[0]], best.via_joint_q[0] - best.joint_q[0]
    down = np.degrees(np.arcsin(approach[2] / RETREAT))
    print(f"grasp {best.candidate[0]} of {len(turns)}, {down:.0f} degrees down")
    print(f"no joint moves by more than {best.value[0]:.2f} rad to it, {np.abs(step).max():.2f} from the pre-grasp")
    print(f"clearance {1e3 * robot.collision(best.joint_q, world).clearance[0]:.0f} mm")
    return best


if __name__ == "__main__":
    main()
