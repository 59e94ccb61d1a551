"""LeRobot's SO-101: the step of examples/lerobot_so101.py beside that of LeRobot, which uses PlaCo, in one run."""

import tempfile
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from benchmarks.peers.environments import LEROBOT, run_script
from benchmarks.problems.compared_robots import FOREIGN, installed
from benchmarks.report import Report
from benchmarks.run import benchmark
from ik_service import load_robot
from ik_service.mechanism.transforms import quaternion_conjugate, quaternion_exp, quaternion_multiply, rotation_vector
from tests.other_environments import python_with

LINK, START = "gripper_frame_link", np.array([0.0, -40.0, 50.0, 60.0, 0.0, 10.0])  # [degrees]
WAYS = ("LeRobot, one call", "LeRobot, four calls", "ours, one call")
SETTLED = 30  # actions that are not judged: LeRobot's first starts from joints at zero


def show(report: Report, actions: int, rounds: int) -> None:
    """Measure errors and times along both paths."""
    with tempfile.TemporaryDirectory() as folder:
        urdf = Path(folder, "so101.urdf")  # without meshes, which PlaCo would look for
        tree = ElementTree.parse(installed(FOREIGN, "so_arm_description/urdf/so101.urdf"))
        for link in tree.getroot().iter("link"):
            link[:] = [part for part in link if part.tag == "inertial"]
        tree.write(urdf)
        robot = load_robot(urdf)
        turn = np.linspace(0.0, actions / 100.0, actions)[:, None]
        joints = START + 15.0 * np.sin(turn * [1.0, 1.2, 1.4, 1.6, 1.8, 0.0]) * [1, 1, 1, 1, 1, 0]
        seen = robot.forward_kinematics(np.radians(joints), [LINK])
        motion = np.hstack([seen.positions[:, 0], rotation_vector(seen.orientations_xyzw[:, 0])])
        held = motion[0] + [0.05, 0.08, 0.04, 0, 0, 0] * np.sin(turn * [1.0, 1.3, 0.7, 0, 0, 0])
        paths = np.stack([motion, held])
        python = python_with("lerobot", *LEROBOT, alone="lerobot==0.4.4")
        found = run_script(python, "lerobot_steps.py", urdf=str(urdf), paths=paths, start=START, rounds=rounds)
    report.section(
        "Steps",
        f"{actions} actions of 1/30 s through LeRobot's step `inverse_kinematics_ee_to_joints` (lerobot "
        f"{found['version']}, PlaCo) and that of examples/lerobot_so101.py; its commands are the next observation. "
        "Five joints meet all of a pose of a motion, but only the position and a part of the orientation where the "
        "hand moves with its orientation held. LeRobot weighs both in one step without speed limits; ours takes the "
        f"position first. Judged by float64 kinematics from action {SETTLED} on; CPU time of a step, median of "
        f"{rounds} rounds in turns.",
        *("path", "step", "steps/s", "position: mean, largest [mm]", "orientation: mean, largest [degrees]"),
    )
    for path, name in enumerate(("poses of a motion", "orientation held")):
        rates, worst = [], []
        for way, who in enumerate(WAYS):
            at = robot.forward_kinematics(np.radians(found["commands"][way, path]), [LINK])
            off = 1e3 * np.linalg.norm(at.positions[:, 0] - paths[path, :, :3], axis=1)[SETTLED:]
            turned = quaternion_multiply(
                at.orientations_xyzw[:, 0], quaternion_conjugate(quaternion_exp(paths[path, :, 3:]))
            )
            tilt = np.degrees(np.linalg.norm(rotation_vector(turned), axis=1))[SETTLED:]
            rates.append(1.0 / np.median(found["seconds"][:, way, path]))
            worst.append(off.max())
            cells = f"{off.mean():.4f}, {off.max():.4f}", f"{tilt.mean():.3f}, {tilt.max():.3f}"
            report.row(name, who, f"{rates[-1]:.0f}", *cells)
        report.claim(f"steps/s over LeRobot's, {name}", f"{rates[-1] / rates[0]:.2f}", 1.0, rates[-1] >= rates[0])
        report.claim(
            f"largest position error over LeRobot's, {name}", f"{worst[-1] / worst[0]:.4f}", 1.0, worst[-1] <= worst[0]
        )


if __name__ == "__main__":
    benchmark("LeRobot's SO-101", show, sizes={"actions": (1000, 3000), "rounds": (3, 11)})
