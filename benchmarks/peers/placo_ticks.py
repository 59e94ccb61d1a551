"""PlaCo along a path, run in its own environment: `python placo_ticks.py PATH.npz ANSWERS.npz`.

One tick is one step of its kinematics solver: a frame task, joint and speed limits, and a light regularisation.
"""

import sys
import time
from importlib import metadata

import numpy as np
import placo

REGULARISATION = 1e-4  # of squares: our controller damps by 1e-2
ROTATION_LENGTH = 0.4  # [m] our controller's weight of radians beside metres


def main() -> None:
    """Follow the path and save where the joints were sent, with the times of every tick."""
    given = np.load(sys.argv[1])
    robot = placo.RobotWrapper(str(given["urdf"]), placo.Flags.ignore_collisions)
    names = [str(name) for name in given["joint_names"]]
    for name, angle in zip(names, given["joint_q"], strict=True):
        robot.set_joint(name, angle)
    robot.update_kinematics()
    solver = placo.KinematicsSolver(robot)
    solver.mask_fbase(True)
    solver.dt = float(given["dt"])
    solver.enable_joint_limits(True)
    solver.enable_velocity_limits(True)
    task = solver.add_frame_task(str(given["link"]), robot.get_T_world_frame(str(given["link"])))
    task.configure("hand", "soft", 1.0, ROTATION_LENGTH**2)  # weights of squares
    solver.add_regularization_task(REGULARISATION)
    transforms = given["transforms"]
    columns = [robot.get_joint_offset(name) for name in names]
    joint_q = np.zeros((len(transforms), len(names)))
    solves, ticks, cpu = np.zeros((3, len(transforms)), dtype=np.int64)
    for k, transform in enumerate(transforms):
        cpu_begun = time.thread_time_ns()
        begun = time.perf_counter_ns()
        task.T_world_frame = transform
        solve_begun = time.perf_counter_ns()
        solver.solve(True)
        solve_ended = time.perf_counter_ns()
        robot.update_kinematics()
        ended = time.perf_counter_ns()
        cpu[k] = time.thread_time_ns() - cpu_begun
        solves[k], ticks[k] = solve_ended - solve_begun, ended - begun
        joint_q[k] = robot.state.q[columns]
    np.savez(sys.argv[2], joint_q=joint_q, solves=solves, ticks=ticks, cpu=cpu, version=metadata.version("placo"))


if __name__ == "__main__":
    main()
