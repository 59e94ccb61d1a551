"""newton.ik on pose targets, run in its own environment: `python newton_ik.py PROBLEMS.npz ANSWERS.npz`.

Settings are those with which it did best on CPU in our trials: Levenberg-Marquardt with its analytic Jacobian, Roberts
seeds, canonical quaternions. On a CUDA device its steps are a recorded graph, as its examples have them.
"""

import sys
import time
from collections.abc import Callable
from functools import partial

import newton
import newton.ik as ik
import numpy as np
import warp as wp


def timed(run: Callable[[], None], solver: ik.IKSolver, device: str, repeats: int) -> list[float]:
    """Return the time of every run [s]: CPU time on a CPU, else wall time."""
    if device == "cpu":
        clock = time.process_time
    else:
        solver.reset()
        run()  # compiles
        with wp.ScopedCapture(device=device) as capture:
            run()
        clock, run = time.perf_counter, partial(wp.capture_launch, capture.graph)
    times = []
    for _ in range(repeats + 1):
        solver.reset()
        wp.synchronize()
        start = clock()
        run()
        wp.synchronize()
        times.append(clock() - start)
    return times[1:]  # the first run compiles


def main() -> None:
    """Solve the problems several times and save the answers with the time of every run."""
    wp.config.log_level = wp.LOG_ERROR
    problems = np.load(sys.argv[1])
    seeds, iterations, repeats = int(problems["seeds"]), int(problems["iterations"]), int(problems["repeats"])
    device = str(problems["device"]) if "device" in problems else "cpu"
    with wp.ScopedDevice(device):
        builder = newton.ModelBuilder()
        builder.add_urdf(str(problems["urdf"]), floating=False, collapse_fixed_joints=False)
        model = builder.finalize(device=device)
        count = len(problems["positions"])
        labels = [label.split("/")[-1] for label in model.body_label]
        link = labels.index(str(problems["link"]))
        objectives = [
            ik.IKObjectivePosition(link, wp.vec3(), wp.array(problems["positions"], dtype=wp.vec3)),
            ik.IKObjectiveRotation(link, wp.quat_identity(), wp.array(problems["orientations_xyzw"], dtype=wp.vec4)),
            ik.IKObjectiveJointLimit(model.joint_limit_lower, model.joint_limit_upper, weight=1.0),
        ]
        search = {"jacobian_mode": ik.IKJacobianType.ANALYTIC, "sampler": ik.IKSampler.ROBERTS, "n_seeds": seeds}
        solver = ik.IKSolver(model, count, objectives, **search)
        joint_q = wp.zeros((count, model.joint_coord_count), dtype=wp.float32)
        times = timed(partial(solver.step, joint_q, joint_q, iterations=iterations), solver, device, repeats)
    np.savez(sys.argv[2], joint_q=joint_q.numpy(), times=times, version=newton.__version__)


if __name__ == "__main__":
    main()
