"""A Panda's hand follows a circle and a figure of eight at 1 kHz, within its limits of speed and acceleration.

python examples/track_circle.py [--seconds 6] [--plot tracking.png]

The plot needs Matplotlib.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import ik_service
from ik_service.control import ControlLimits, IKController

DT = 1e-3  # [s]
LINK = "panda_hand"
START = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.8, 0.7])
ACCELERATION = np.array([15.0, 7.5, 10.0, 12.5, 15.0, 20.0, 20.0])  # [rad/s^2] of the maker; the URDF has none


@dataclass
class Run:
    """What happened, a line per tick.

    Attributes:
        error: Distance of the commanded hand to the target [m].
        speeds: Joint speeds over their limits, [ticks, 7].
        accelerations: Joint accelerations over their limits, [ticks, 7].
        success: Whether the target was met within tolerance.
    """

    error: np.ndarray
    speeds: np.ndarray
    accelerations: np.ndarray
    success: np.ndarray


def offsets(shape: str, seconds: float) -> np.ndarray:
    """Return where the hand is to go from its start, tick by tick, [ticks, 3] [m]: one round, from rest to rest."""
    s = np.linspace(0.0, 1.0, int(seconds / DT))
    turn = 2.0 * np.pi * s**3 * (10.0 - 15.0 * s + 6.0 * s**2)
    zero = np.zeros_like(turn)
    if shape == "circle":
        return np.column_stack([0.1 * (np.cos(turn) - 1.0), 0.1 * np.sin(turn), zero])
    return np.column_stack([zero, 0.12 * np.sin(turn), 0.06 * np.sin(2.0 * turn)])


def follow(robot: ik_service.RobotModel, shape: str, seconds: float) -> Run:
    """Follow a shape; in a controller of yours the body of the loop is one tick of the machine."""
    controller = IKController(robot, [LINK], limits=ControlLimits(acceleration=ACCELERATION))
    controller.reset(START)  # where the robot is
    controller.warmup()
    home = robot.forward_kinematics(START[None], links=[LINK])
    target = np.concatenate([home.positions[0, 0], home.orientations_xyzw[0, 0]])
    errors, speeds, success = [], [np.zeros(robot.joint_dof_count)], []
    for offset in offsets(shape, seconds):
        target[:3] = home.positions[0, 0] + offset
        result = controller.step(target, dt=DT)
        # Here result.joint_q[0] and result.joint_qd[0] would go to the joints.
        errors.append(result.position_error[0, 0])
        speeds.append(result.joint_qd[0].copy())  # the next step writes into the same array
        success.append(result.success[0])
    joint_qd = np.array(speeds)
    accelerations = np.diff(joint_qd, axis=0) / DT / ACCELERATION
    return Run(np.array(errors), joint_qd[1:] / robot.joint_velocity_limit, accelerations, np.array(success))


def plot(runs: dict[str, Run], path: str) -> None:
    """Draw errors and speeds."""
    from matplotlib import pyplot as plt

    figure, grid = plt.subplots(2, len(runs), sharex=True, sharey="row", squeeze=False, layout="constrained")
    for column, (shape, run) in enumerate(runs.items()):
        seconds = DT * np.arange(len(run.error))
        grid[0, column].semilogy(seconds, 1e6 * np.maximum(run.error, 1e-13))
        grid[1, column].plot(seconds, run.speeds)
        grid[0, column].set_title(shape)
        grid[1, column].set_xlabel("time [s]")
    grid[0, 0].set_ylabel("error [µm]")
    grid[1, 0].set_ylabel("joint speed over its limit")
    figure.savefig(path)


def main(arguments: Sequence[str] | None = None) -> dict[str, Run]:
    """Follow both shapes and print how it went."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=6.0, help="time for a round")
    parser.add_argument("--plot", metavar="FILE", help="draw errors and speeds into this file")
    given = parser.parse_args(arguments)
    robot = ik_service.load_robot("panda")
    runs = {shape: follow(robot, shape, given.seconds) for shape in ("circle", "figure of eight")}
    for shape, run in runs.items():
        print(
            f"{shape}: error at most {1e6 * run.error.max():.3g} µm, within tolerance in {run.success.mean():.1%} of "
            f"{len(run.error)} ticks; joints at most at {np.abs(run.speeds).max():.1%} of their speed limits and "
            f"{np.abs(run.accelerations).max():.1%} of their acceleration limits"
        )
    if given.plot:
        plot(runs, given.plot)
    return runs


if __name__ == "__main__":
    main()
