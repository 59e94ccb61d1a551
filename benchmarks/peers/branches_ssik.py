"""ssik on pose targets of the xArm6, run in its own environment: `python branches_ssik.py PROBLEMS.npz ANSWERS.npz`.

One thread, one target per call. Limits are left to the judge.
"""

import sys
import time
from importlib import metadata

import numpy as np
from ssik.prebuilt.ufactory import xarm6_ik

MODEL_ERROR = 1e-4  # its file rounds right angles to 4e-6 rad


def main() -> None:
    """Solve the problems and save all answers, with the CPU time of all targets."""
    problems = np.load(sys.argv[1])
    # the link with targets and ssik's end differ by a fixed transform
    T_link_end = np.linalg.inv(problems["T_world_link_at_zero"]) @ np.asarray(xarm6_ik.fk(np.zeros(6)))
    transforms = problems["transforms"] @ T_link_end
    made = np.array([xarm6_ik.fk(joint_q) for joint_q in problems["joint_q"]])
    if (worst := np.abs(made - transforms).max()) > MODEL_ERROR:
        sys.exit(f"ssik's xArm6 is another one: transforms differ by {worst:.1e}")
    xarm6_ik.solve(transforms[0], respect_limits=False)
    began = time.process_time()
    answers = [xarm6_ik.solve(transform, respect_limits=False) for transform in transforms]
    times = [time.process_time() - began]
    all_joint_q = np.full((len(answers), max(1, *map(len, answers)), 6), np.nan)
    for k, answer in enumerate(answers):
        for number, solution in enumerate(answer):
            all_joint_q[k, number] = solution.q
    np.savez(sys.argv[2], joint_q=all_joint_q, times=times, version=metadata.version("ssik"))


if __name__ == "__main__":
    main()
