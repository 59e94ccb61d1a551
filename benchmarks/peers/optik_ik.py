"""OptIK on pose targets, run in its own environment: `python optik_ik.py PROBLEMS.npz ANSWERS.npz`.

One thread, one target per call, which is all that its interface offers; seeds are the given one and then random ones
until a solution is found or `max_time` has passed.
"""

import sys
import time
from importlib import metadata

import numpy as np
import optik


def main() -> None:
    """Solve the problems several times and save the answers with the CPU time of every target in every run."""
    problems = np.load(sys.argv[1])
    robot = optik.Robot.from_urdf_file(str(problems["urdf"]), str(problems["base_link"]), str(problems["link"]))
    robot.set_parallelism(1)
    # OptIK minimises the squared length of the logarithm of the pose error and stops below `tol_f`.
    config = optik.SolverConfig(
        solution_mode="speed", max_time=float(problems["max_time"]), tol_f=float(problems["tolerance"]) ** 2
    )
    start = problems["start"].tolist()
    targets = problems["transforms"].tolist()
    joint_q = np.tile(problems["start"], (len(targets), 1))
    times = np.zeros((int(problems["repeats"]), len(targets)))
    for repeat in range(len(times)):
        for k, target in enumerate(targets):
            began = time.process_time()
            answer = robot.ik(config, target, start)
            times[repeat, k] = time.process_time() - began
            if answer is not None:
                joint_q[k] = answer[0]
    np.savez(sys.argv[2], joint_q=joint_q, times=times, version=metadata.version("optik-py"))


if __name__ == "__main__":
    main()
