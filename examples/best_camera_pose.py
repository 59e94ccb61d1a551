"""Chooses one of 1000 places of a camera in a Panda's hand that looks at a part: a free arm that can move every way.

python examples/best_camera_pose.py

Each place leaves the turn about the line of sight open. The value is minus the manipulability, plus a cost of views
from the side.
"""

import numpy as np

from ik_service import CandidateResult, IKSolver, Target, load_robot
from ik_service.mechanism.transforms import quaternion_between
from ik_service.robots import Box, World

PART = np.array([0.55, 0.0, 0.05])  # looked at [m]
CAMERA = (0.06, 0.0, 0.04, 0.0, 0.0, 0.0, 1.0)  # in the frame of the hand, z along the line of sight
COST = 0.03  # of a view from the side; a view from above costs nothing
WORLD = World(
    {
        "table": Box((0.8, 1.2, 0.04), (0.65, 0.0, -0.02, 0.0, 0.0, 0.0, 1.0)),
        "lamp": Box((0.1, 0.1, 0.1), (0.5, 0.0, 0.65, 0.0, 0.0, 0.0, 1.0)),
    }
)


def views(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return directions from the part to cameras, unit vectors of the upper half, and distances [m]."""
    rng = np.random.default_rng(0)
    directions = rng.normal(size=(count, 3))
    directions[:, 2] = np.abs(directions[:, 2])
    return directions / np.linalg.norm(directions, axis=1, keepdims=True), rng.uniform(0.25, 0.45, count)


def main() -> tuple[CandidateResult, CandidateResult]:
    """Choose a place and print the choice; return this choice, and the first place that is free."""
    robot, (directions, distances) = load_robot("panda"), views(1000)
    positions = PART + distances[:, None] * directions
    turns = np.array([quaternion_between(np.array([0.0, 0.0, 1.0]), -direction) for direction in directions])
    solver = IKSolver(robot, [Target("panda_hand", offset=CAMERA, free=["rz"])])
    cost = COST * (1.0 - directions[:, 2])
    best = solver.solve_any(positions, turns, criterion="manipulability", cost=cost, world=WORLD)
    first = solver.solve_any(positions, turns, world=WORLD)
    for name, found in (("best", best), ("first", first)):
        k, moves = found.candidate[0], robot.manipulability(found.joint_q, "panda_hand", offset=CAMERA)[0]
        side = np.degrees(np.arccos(directions[k, 2]))
        print(f"{name}: place {k}, {100 * distances[k]:.0f} cm away, {side:.0f} degrees from the vertical, ", end="")
        print(f"manipulability {moves:.3f}")
    return best, first


if __name__ == "__main__":
    main()
