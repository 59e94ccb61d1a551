"""SciPy on postures under a pose, run in its own environment: `python scipy_posture.py PROBLEMS.npz ANSWERS.npz`.

SLSQP lowers |q - reference|^2 / 2 from each start on, with the pose as six equations and the limits as bounds. Its
kinematics is that of a serial arm of revolute joints.
"""

import sys
from importlib import metadata

import numpy as np
from scipy.optimize import minimize
from scipy.spatial.transform import Rotation


def main() -> None:
    """Solve the problems and save the least value of each, and by how much its equations are missed at most."""
    given = np.load(sys.argv[1])
    reference, bounds = given["reference"], list(zip(given["lower"], given["upper"], strict=True))
    costs, missed = [], []
    for start, position, orientation in zip(given["starts"], given["positions"], given["orientations"], strict=True):
        goal = Rotation.from_quat(orientation)

        def equations(q, position=position, goal=goal):
            reached, turned = tip(given, q)
            return np.concatenate([reached - position, (turned * goal.inv()).as_rotvec()])

        found = minimize(
            lambda q: 0.5 * np.sum((q - reference) ** 2),
            start,
            jac=lambda q: q - reference,
            bounds=bounds,
            constraints={"type": "eq", "fun": equations},
            method="SLSQP",
            options={"maxiter": 300, "ftol": 1e-12},
        )
        costs.append(found.fun)
        missed.append(np.abs(equations(found.x)).max())
    np.savez(sys.argv[2], costs=np.array(costs), missed=np.array(missed), version=metadata.version("scipy"))


def tip(given: "np.lib.npyio.NpzFile", q: np.ndarray) -> tuple[np.ndarray, Rotation]:
    """Return position and orientation of the link: frame of each joint in its parent, turn about its axis, tool."""
    position, turned = np.zeros(3), Rotation.identity()
    for frame, axis, angle in zip(given["frames"], given["axes"], q, strict=True):
        position = position + turned.apply(frame[:3])
        turned = turned * Rotation.from_quat(frame[3:]) * Rotation.from_rotvec(angle * axis)
    return position + turned.apply(given["tool"][:3]), turned * Rotation.from_quat(given["tool"][3:])


if __name__ == "__main__":
    main()
