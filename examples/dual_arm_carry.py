"""Two Pandas carry an object: one hand leads, the other keeps its place relative to it while the object moves.

python examples/dual_arm_carry.py [--seconds 4]

The second target is given in the frame of the first hand (`reference_link`). It ties both arms together, so the
controller moves them as one; were the first hand held up by a limit, the second would wait for it and keep the grip.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ik_service import IKSolver, RobotModel, Target, load_robot
from ik_service.control import ControlLimits, IKController

DT = 1e-3  # [s]
HANDS = ["left_panda_hand", "right_panda_hand"]
OBJECT = np.array([0.5, 0.0, 0.4])  # centre of the object [m]
HALF_WIDTH = 0.2  # from the centre to a hand [m]
DOWN_XYZW = np.array([1.0, 0.0, 0.0, 0.0])  # orientation of hands that point down
ACCELERATION = 10.0  # [rad/s^2]
GRIP = 10.0  # weight of the grip beside the way of the object


@dataclass
class Run:
    """What happened, a line per tick.

    Attributes:
        way_error: Distance of the leading hand to its target [m].
        grip_error: Change of the distance vector from hand to hand, seen by the leading one [m].
        grip_angle: Change of the orientation of one hand relative to the other [rad].
        speeds: Joint speeds over their limits, [ticks, 14].
    """

    way_error: np.ndarray
    grip_error: np.ndarray
    grip_angle: np.ndarray
    speeds: np.ndarray


def start(robot: RobotModel) -> np.ndarray:
    """Return a configuration with a hand at each side of the object, [14]."""
    positions = OBJECT + np.array([[0.0, HALF_WIDTH, 0.0], [0.0, -HALF_WIDTH, 0.0]])
    result = IKSolver(robot, HANDS).solve(positions[None], np.stack([DOWN_XYZW, DOWN_XYZW])[None])
    if not result.success[0]:
        raise SystemExit("The object is out of reach.")
    return np.asarray(result.joint_q[0], np.float64)


def leading_pose(way: float) -> np.ndarray:
    """Return the pose of the leading hand [m, xyzw] when the object has gone a share of its way."""
    centre = OBJECT + np.array([0.08 * np.sin(np.pi * way), 0.0, 0.15 * np.sin(np.pi * way)])
    angle = 0.3 * np.sin(2.0 * np.pi * way)  # about the vertical
    position = centre + HALF_WIDTH * np.array([-np.sin(angle), np.cos(angle), 0.0])
    return np.array([*position, np.cos(0.5 * angle), np.sin(0.5 * angle), 0.0, 0.0])


def carry(seconds: float) -> Run:
    """Carry the object to and fro."""
    robot = load_robot("dual_panda")
    joint_q = start(robot)
    targets = [HANDS[0], Target(HANDS[1], reference_link=HANDS[0], row_weights=np.full(6, GRIP))]
    controller = IKController(robot, targets, limits=ControlLimits(acceleration=ACCELERATION))
    controller.reset(joint_q)
    controller.warmup()
    # Both hands point down: in the frame of the left one the right one is on its y axis, turned by nothing.
    grip = np.array([0.0, 2.0 * HALF_WIDTH, 0.0, 0.0, 0.0, 0.0, 1.0])
    s = np.linspace(0.0, 1.0, int(seconds / DT))
    lines = []
    for way in s**3 * (10.0 - 15.0 * s + 6.0 * s**2):  # from rest to rest
        result = controller.step(np.stack([leading_pose(way), grip]), dt=DT)
        (way_error, grip_error), grip_angle = result.position_error[0], result.orientation_error[0, 1]
        lines.append((way_error, grip_error, grip_angle, result.joint_qd[0] / robot.joint_velocity_limit))
    return Run(*(np.array(column) for column in zip(*lines, strict=True)))


def main(arguments: Sequence[str] | None = None) -> Run:
    """Carry the object and print how it went."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=4.0, help="time for the way to and fro")
    run = carry(parser.parse_args(arguments).seconds)
    print(f"the leading hand is at most {1e6 * run.way_error.max():.3g} µm off its way")
    print(f"the grip gives at most {1e6 * run.grip_error.max():.3g} µm and {1e6 * run.grip_angle.max():.3g} µrad")
    print(f"joints run at most at {np.abs(run.speeds).max():.1%} of their speed limits")
    return run


if __name__ == "__main__":
    main()
