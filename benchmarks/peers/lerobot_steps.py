"""LeRobot's step from poses to joints beside ours, in an environment of its own: `python lerobot_steps.py IN OUT`."""

import sys
import time
from importlib import metadata

import numpy as np
from lerobot.model.kinematics import RobotKinematics
from lerobot.processor import TransitionKey
from lerobot.robots.so_follower.robot_kinematic_processor import InverseKinematicsEEToJoints

from examples.lerobot_so101 import MOTORS, POSE, EEToJointsWithinLimits


def main() -> None:
    """Lead the arm along each path by each way, and save commands [degrees] and CPU seconds of a step."""
    given = np.load(sys.argv[1])
    urdf, paths, rounds = str(given["urdf"]), given["paths"], int(given["rounds"])
    names = [f"{name}.pos" for name in MOTORS]
    theirs = InverseKinematicsEEToJoints(kinematics=RobotKinematics(urdf, joint_names=MOTORS), motor_names=MOTORS)
    ways = ((theirs, 1), (theirs, 4), (EEToJointsWithinLimits(urdf), 1))  # a step, and how often it takes an action
    commands, seconds = np.zeros((len(ways), *paths.shape)), np.zeros((rounds, len(ways), len(paths)))
    for turn in range(rounds):
        for path, poses in enumerate(paths):
            for way, (step, calls) in enumerate(ways):
                step.reset()
                seen = dict(zip(names, given["start"].tolist(), strict=True))
                actions = [dict(zip([f"ee.{name}" for name in POSE], pose, strict=True)) for pose in poses.tolist()]
                begun = time.process_time()
                for k, action in enumerate(actions):
                    for _ in range(calls):
                        request = {TransitionKey.ACTION: action | {"ee.gripper_pos": 10.0}}
                        seen = step(request | {TransitionKey.OBSERVATION: seen})[TransitionKey.ACTION]
                    commands[way, path, k] = list(seen.values())
                seconds[turn, way, path] = (time.process_time() - begun) / len(poses)
    np.savez(sys.argv[2], commands=commands, seconds=seconds, version=metadata.version("lerobot"))


if __name__ == "__main__":
    main()
