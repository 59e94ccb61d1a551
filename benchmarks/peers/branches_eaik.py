"""EAIK on pose targets, run in its own environment: `python branches_eaik.py PROBLEMS.npz ANSWERS.npz`.

One thread. Timed is the call that solves a list of poses; the answers are turned into arrays afterwards.
"""

import sys
import time
from importlib import metadata

import numpy as np
from eaik.IK_HP import HPRobot

POSES_PER_CALL = 1000


def main() -> None:
    """Solve the problems several times and save all answers with the CPU time of every run."""
    problems = np.load(sys.argv[1])
    robot = HPRobot(problems["axes"], problems["offsets"])
    if not robot.hasKnownDecomposition():
        sys.exit("EAIK has no decomposition for this arm")
    transforms = problems["transforms"]
    calls = [list(transforms[k : k + POSES_PER_CALL]) for k in range(0, len(transforms), POSES_PER_CALL)]
    times = np.zeros(int(problems["repeats"]))
    for repeat in range(len(times)):
        began = time.process_time()
        answers = [answer for call in calls for answer in robot.IK_batched(call, num_worker_threads=1)]
        times[repeat] = time.process_time() - began
    found = [(np.array(answer.Q).reshape(-1, 6), np.array(answer.is_LS, bool)) for answer in answers]
    most = max(1, *(len(joint_q) for joint_q, _ in found))
    all_joint_q, all_flags = np.full((len(found), most, 6), np.nan), np.zeros((len(found), most), bool)
    for k, (joint_q, flags) in enumerate(found):
        all_joint_q[k, : len(joint_q)], all_flags[k, : len(joint_q)] = joint_q, flags
    family, version = robot.getKinematicFamily(), metadata.version("eaik")
    np.savez(sys.argv[2], joint_q=all_joint_q, is_least_squares=all_flags, times=times, family=family, version=version)


if __name__ == "__main__":
    main()
