"""mink along a path, run in its own environment: `python mink_ticks.py PATH.npz ANSWERS.npz`.

One tick is one call of `solve_ik`, a frame task with limits of positions and speeds, and the integration of its answer.
"""

import sys
import time
from importlib import metadata
from pathlib import Path
from xml.etree import ElementTree

import mink
import mujoco
import numpy as np

DAMPING = 1e-4  # of squares: our controller damps by 1e-2
ROTATION_LENGTH = 0.4  # [m] our controller's weight of radians beside metres


def load(urdf: Path) -> mujoco.MjModel:
    """Return the model of a URDF file whose links have no masses, which MuJoCo insists on; kinematics use none."""
    robot = ElementTree.parse(urdf).getroot()
    for link in robot.iter("link"):
        inertial = ElementTree.SubElement(link, "inertial")
        ElementTree.SubElement(inertial, "mass", value="1")
        ElementTree.SubElement(inertial, "inertia", ixx="1", iyy="1", izz="1", ixy="0", ixz="0", iyz="0")
    ElementTree.SubElement(ElementTree.SubElement(robot, "mujoco"), "compiler", fusestatic="false")
    return mujoco.MjModel.from_xml_string(ElementTree.tostring(robot, encoding="unicode"))


def begin(model: mujoco.MjModel, given: dict) -> tuple[mink.Configuration, mink.FrameTask, list, list[int]]:
    """Return the start, the task of the link, limits of positions and speeds, and the columns of the joints."""
    names = [str(name) for name in given["joint_names"]]
    speeds = dict(zip(names, (np.array([speed]) for speed in given["velocity"]), strict=True))
    columns = [model.joint(name).qposadr[0] for name in names]
    q = np.zeros(model.nq)
    q[columns] = given["joint_q"]
    task = mink.FrameTask(str(given["link"]), "body", position_cost=1.0, orientation_cost=ROTATION_LENGTH)
    limits = [mink.ConfigurationLimit(model), mink.VelocityLimit(model, speeds)]
    return mink.Configuration(model, q), task, limits, columns


def main() -> None:
    """Follow the path and save where the joints were sent, with the times of every tick."""
    given = np.load(sys.argv[1])
    configuration, task, limits, columns = begin(load(Path(str(given["urdf"]))), given)
    transforms = [mink.SE3.from_matrix(transform) for transform in given["transforms"]]
    dt = float(given["dt"])
    joint_q = np.zeros((len(transforms), len(columns)))
    solves, ticks, cpu = np.zeros((3, len(transforms)), dtype=np.int64)
    for k, transform in enumerate(transforms):
        cpu_begun = time.thread_time_ns()
        begun = time.perf_counter_ns()
        task.set_target(transform)
        solve_begun = time.perf_counter_ns()
        velocity = mink.solve_ik(configuration, [task], dt, "daqp", damping=DAMPING, limits=limits)
        solve_ended = time.perf_counter_ns()
        configuration.integrate_inplace(velocity, dt)
        ended = time.perf_counter_ns()
        cpu[k] = time.thread_time_ns() - cpu_begun
        solves[k], ticks[k] = solve_ended - solve_begun, ended - begun
        joint_q[k] = configuration.q[columns]
    np.savez(sys.argv[2], joint_q=joint_q, solves=solves, ticks=ticks, cpu=cpu, version=metadata.version("mink"))


if __name__ == "__main__":
    main()
