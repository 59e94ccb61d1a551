"""SciPy on mechanisms with targets out of reach, run in its own environment: `python FILE PROBLEMS.npz ANSWERS.npz`.

SLSQP lowers |target rows|^2 / 2 from several starts, with closed loops as equations in closed form and limits as
bounds. The variables are all coordinates; of a Stewart platform only the pose of the platform, whose legs follow.
"""

import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.problems import mechanisms as forms

Rows = Callable[[np.ndarray], np.ndarray]


def linkage(q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where the end effector of a four-bar, five-bar or delta is, and by how much its loops are open."""
    if len(q) == 3:
        pin, along = forms.along(q[0], forms.CRANK), forms.along(q[0] + q[1])
        across = np.array([-along[1], along[0]])
        gap = pin + forms.COUPLER * along - forms.PIVOT - forms.along(q[2], forms.ROCKER)
        return np.append(pin + forms.COUPLER_POINT[0] * along + forms.COUPLER_POINT[1] * across, 0.0), gap
    if len(q) == 4:
        ends = [
            forms.SHOULDER[k] + forms.along(q[2 * k], forms.UPPER) + forms.along(q[2 * k] + q[2 * k + 1], forms.LOWER)
            for k in range(2)
        ]
        return np.append(ends[0], 0.0), ends[0] - ends[1]
    rods = q[3:] - forms.delta_rods(q[None, :3])[0]
    return q[3:], np.linalg.norm(rods, axis=1) - forms.ROD


def legs(pose: np.ndarray, start: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return position and orientation of a Stewart platform, and the room that its legs have up to their limits."""
    turned = forms.rotated(start[None, 3:7], pose[None, 3:])
    position = pose[None, :3] + forms.HOME
    lengths, swings, tilts = forms.stewart(position, turned)
    leans = forms.LEAN - np.abs(np.concatenate([swings, tilts], axis=1))
    room = [lengths - forms.LENGTHS[0], forms.LENGTHS[1] - lengths, leans]
    return position[0], turned[0], np.concatenate(room, axis=1)[0]


def chord(orientation: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return twice the vector of the quaternion between two orientations."""
    (u, s), (v, w) = (orientation[:3], orientation[3]), (-wanted[:3], wanted[3])
    return 2.0 * np.sign(s * w - u @ v) * (w * u + s * v + np.cross(u, v))


def lowest(first: np.ndarray, rows: Rows, **given: object) -> tuple[float, np.ndarray]:
    """Return the least |rows| that is found from a start on, and where."""
    options = {"maxiter": 500, "ftol": 1e-13}
    found = minimize(lambda x: 0.5 * np.sum(rows(x) ** 2), first, method="SLSQP", options=options, **given)
    return float(np.linalg.norm(rows(found.x))), found.x


def solve(
    start: np.ndarray, position: np.ndarray, orientation: np.ndarray, bounds: list, turn_weight: float
) -> tuple[float, float]:
    """Return the least error of a target from a start on, and by how much loops and limits are missed there."""
    if len(start) <= 6:
        rule = {"type": "eq", "fun": lambda q: linkage(q)[1]}
        error, q = lowest(start, lambda q: linkage(q)[0] - position, bounds=bounds, constraints=rule)
        return error, float(np.abs(linkage(q)[1]).max())

    def rows(pose: np.ndarray) -> np.ndarray:
        place, turned, _ = legs(pose, start)
        return np.concatenate([place - position, turn_weight * chord(turned, orientation)])

    rule = {"type": "ineq", "fun": lambda pose: legs(pose, start)[2]}
    error, pose = lowest(np.append(start[:3], np.zeros(3)), rows, constraints=rule)
    return error, float(-legs(pose, start)[2].min())


def main() -> None:
    """Solve the problems and save the least error of each."""
    given = np.load(sys.argv[1])
    bounds = list(zip(given["lower"], given["upper"], strict=True))
    least = []
    for starts, position, orientation in zip(given["starts"], given["positions"], given["orientations"], strict=True):
        found = [solve(start, position, orientation, bounds, given["turn_weight"]) for start in starts]
        least.append(min((error for error, missed in found if missed <= given["closed"]), default=np.inf))
    np.savez(sys.argv[2], errors=np.array(least), version=metadata.version("scipy"))


if __name__ == "__main__":
    main()
