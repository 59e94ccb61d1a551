"""mink with its collision limit, run in its own environment: `python mink_clearance.py CELL.npz ANSWERS.npz`.

One tick is one call of `solve_ik`, a frame task with limits of positions, speeds and collision, and the integration of
its answer.
"""

import sys
import time
from pathlib import Path

import mink
import mujoco
import numpy as np
from mink_ticks import DAMPING, begin, load

FARTHEST = 0.1  # [m] more than the margin, from which on pairs are looked at


def with_shapes(given: dict[str, np.ndarray]) -> mujoco.MjModel:
    """Return the robot with its spheres, and with the boxes, as shapes that are named by link and by number."""
    path = Path(sys.argv[2]).with_suffix(".xml")
    mujoco.mj_saveLastXML(str(path), load(Path(str(given["urdf"]))))
    spec = mujoco.MjSpec.from_string(path.read_text())
    first = 0
    for link, count in zip(given["links"], given["counts"], strict=True):
        body = spec.body(str(link)) or spec.worldbody
        for k, (*center, radius) in enumerate(given["spheres"][first : first + count]):
            body.add_geom(name=f"{link}/{k}", type=mujoco.mjtGeom.mjGEOM_SPHERE, pos=center, size=[radius, 0, 0])
        first += count
    for k, (*center, x, y, z, w, a, b, c) in enumerate(given["boxes"]):
        size = [0.5 * a, 0.5 * b, 0.5 * c]
        shape = {"type": mujoco.mjtGeom.mjGEOM_BOX, "size": size}
        spec.worldbody.add_geom(name=f"box/{k}", pos=center, quat=[w, x, y, z], **shape)
    return spec.compile()


def main() -> None:
    """Go to the targets and save where the joints were sent, with the CPU times of the ticks."""
    with np.load(sys.argv[1]) as file:
        given = dict(file)
    model = with_shapes(given)
    configuration, task, limits, columns = begin(model, given)
    own = [[f"{link}/{k}" for k in range(count)] for link, count in zip(given["links"], given["counts"], strict=True)]
    boxes = [f"box/{k}" for k in range(len(given["boxes"]))]
    pairs = [(own[a], own[b]) for a, b in given["pairs"]]
    pairs += [(spheres, boxes) for spheres, moved in zip(own, given["moved"], strict=True) if moved]
    margin = float(given["margin"])
    distances = {"minimum_distance_from_collisions": margin, "collision_detection_distance": margin + FARTHEST}
    limits.append(mink.CollisionAvoidanceLimit(model, pairs, **distances))
    ticks, dt = int(given["ticks"]), float(given["dt"])
    joint_q, cpu = np.zeros((ticks, len(columns))), np.zeros(ticks, dtype=np.int64)
    for k in range(ticks):
        *position, x, y, z, w = given["targets"][k // int(given["each"])]
        begun = time.thread_time_ns()
        task.set_target(mink.SE3(np.array([w, x, y, z, *position])))
        try:
            velocity = mink.solve_ik(configuration, [task], dt, "daqp", damping=DAMPING, limits=limits)
            configuration.integrate_inplace(velocity, dt)
        except mink.NoSolutionFound:
            pass  # it stays where it is
        cpu[k] = time.thread_time_ns() - begun
        joint_q[k] = configuration.q[columns]
    np.savez(sys.argv[2], joint_q=joint_q, cpu=cpu)


if __name__ == "__main__":
    main()
