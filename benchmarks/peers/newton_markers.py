"""newton.ik on many points of one robot, by Levenberg-Marquardt or by L-BFGS, run in its own environment.

python newton_markers.py PROBLEMS.npz ANSWERS.npz
"""

import sys
import time

import newton
import newton.ik as ik
import numpy as np
import warp as wp


def main() -> None:
    """Solve the problems several times and save the answers with the CPU time of every run."""
    wp.config.log_level = wp.LOG_ERROR
    problems = np.load(sys.argv[1])
    builder = newton.ModelBuilder()
    builder.add_urdf(str(problems["urdf"]), floating=False, collapse_fixed_joints=False)
    model = builder.finalize(device="cpu")
    labels = [label.split("/")[-1] for label in model.body_label]
    points, start = problems["points"].astype(np.float32), problems["start"].astype(np.float32)
    objectives = [
        ik.IKObjectivePosition(
            labels.index(str(link)),
            wp.vec3(*map(float, offset)),
            wp.array(np.ascontiguousarray(points[:, k]), dtype=wp.vec3, device="cpu"),
        )
        for k, (link, offset) in enumerate(zip(problems["links"], problems["offsets"], strict=True))
    ]
    objectives.append(ik.IKObjectiveJointLimit(model.joint_limit_lower, model.joint_limit_upper, weight=1.0))
    solver = ik.IKSolver(
        model,
        len(points),
        objectives,
        optimizer=str(problems["optimizer"]),
        jacobian_mode=ik.IKJacobianType.ANALYTIC,
        sampler=ik.IKSampler.NONE,
    )
    given = wp.array(start, dtype=wp.float32, device="cpu")
    found, times = wp.zeros_like(given), []
    for repeat in range(int(problems["repeats"]) + 1):
        solver.reset()
        begin = time.process_time()
        solver.step(given, found, iterations=int(problems["iterations"]))
        if repeat > 0:  # the first run compiles
            times.append(time.process_time() - begin)
    np.savez(sys.argv[2], joint_q=found.numpy(), times=times, version=newton.__version__)


if __name__ == "__main__":
    main()
