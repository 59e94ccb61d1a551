"""Maps the reach of a Panda on a grid, free of contact with itself; then looks up the best base for 600 grasps.

python examples/reach_map.py    (writes reach_map.npz, and with Matplotlib reach_map.png)
"""

from importlib.util import find_spec

import numpy as np

from ik_service import IKSolver, load_robot
from ik_service.mechanism.transforms import quaternion_exp, quaternion_multiply, transform_inverse, transform_multiply

STEP, TURNS = 0.1, 60  # of the grid [m]; orientations in each place
AXES = [STEP * np.arange(-9, 10), STEP * np.arange(-9, 10), STEP * np.arange(-4, 13)]  # x, y, z from the base [m]


def even_rotations(count: int) -> np.ndarray:
    """Return evenly spread quaternions, a super-Fibonacci spiral (Alexa, CVPR 2022), [count, 4]."""
    s = np.arange(count) + 0.5
    a, b = 2.0 * np.pi * s / 2.0**0.5, 2.0 * np.pi * s / 1.533751168755204
    r, w = np.sqrt(s / count), np.sqrt(1.0 - s / count)
    return np.column_stack([r * np.sin(a), r * np.cos(a), w * np.sin(b), w * np.cos(b)])


def looked_up(met: np.ndarray, turns: np.ndarray, poses: np.ndarray) -> np.ndarray:
    """Return the map's answers at the nearest places and orientations of poses [..., 7]."""
    cell = np.rint((poses[..., :3] - [axis[0] for axis in AXES]) / STEP).astype(int)
    inside = ((cell >= 0) & (cell < met.shape[:3])).all(axis=-1)
    x, y, z = np.moveaxis(np.where(inside[..., None], cell, 0), -1, 0)
    return met[x, y, z, np.abs(poses[..., 3:] @ turns.T).argmax(axis=-1)] & inside


def main() -> None:
    """Make the map, and choose a base by it."""
    solver, turns = IKSolver(load_robot("panda"), ["panda_hand"]), even_rotations(TURNS)
    grid = np.stack(np.meshgrid(*AXES, range(TURNS), indexing="ij"), axis=-1).reshape(-1, 4)
    given = grid[:, :3], turns[grid[:, 3].astype(int)]
    met = solver.solve(*given, options={"want": "success", "seeds": 64}).success.reshape(*map(len, AXES), TURNS)
    np.savez_compressed("reach_map.npz", met=met, turns=turns, **dict(zip("xyz", AXES, strict=True)))
    print(f"{met.mean():.1%} of {met.size} poses are within reach, some in {met.any(axis=-1).mean():.1%} of the places")
    rng = np.random.default_rng(0)  # grasps from above in a room, and bases
    leans = quaternion_multiply(quaternion_exp(rng.uniform(-0.8, 0.8, (600, 3))), np.array([1.0, 0.0, 0.0, 0.0]))
    grasps = np.hstack([rng.uniform([0.8, 0.2, 0.1], [1.8, 1.2, 0.6], (600, 3)), leans])
    x, y, yaw = (grid.ravel() for grid in np.meshgrid(np.arange(0.4, 2.3, 0.2), np.arange(-0.2, 1.7, 0.2), [0, 2, 4]))
    bases = np.column_stack([x, y, 0 * x, 0 * x, 0 * x, np.sin(yaw / 2), np.cos(yaw / 2)])
    seen = transform_multiply(transform_inverse(bases)[:, None], grasps)  # by the bases
    k = (count := looked_up(met, turns, seen).sum(axis=1)).argmax()
    sure = solver.solve(seen[k, :, :3], seen[k, :, 3:]).success.sum()
    print(f"best of {len(bases)} bases: {x[k]:.1f}, {y[k]:.1f} m, by the map {count[k]} of 600 grasps, solved {sure}")
    if find_spec("matplotlib"):
        from matplotlib import pyplot as plt

        plt.colorbar(plt.pcolormesh(AXES[0], AXES[2], met.mean(axis=-1)[:, 9].T), label="share within reach, y = 0")
        plt.gca().set(aspect="equal", xlabel="x from the base [m]", ylabel="z from the base [m]")
        plt.savefig("reach_map.png")


if __name__ == "__main__":
    main()
