"""Sweeps: a coordinate moved step by step, loops closed at each step from the step before; long steps are divided."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ik_service.constraints.closing import ATTEMPTS, nearest_closed, statuses
from ik_service.constraints.descent import ClosingProblem, close_from
from ik_service.constraints.linear_algebra import BoolArray
from ik_service.constraints.residual_rows import BoundedRows
from ik_service.mechanism.kinematic_robot import KinematicRobot
from ik_service.mechanism.names import dof_at
from ik_service.mechanism.transforms import Float64Array
from objectives.errors import InputError

MAX_STEPS = 100_000
LONGEST_STEP = 0.2  # [rad or m]: after a longer step, loops may close in another assembly mode


def steps_of(bounds: tuple[float, float], step: float) -> Float64Array:
    """Give the values of a sweep, from the first bound to the second, both included; InputError for bad numbers."""
    first, last = map(float, bounds)
    if not (np.isfinite([first, last]).all() and np.isfinite(step) and step > 0.0):
        raise InputError(f"A sweep from {first} to {last} by {step}. Allowed: finite bounds and a step above 0.")
    count = abs(last - first) / step
    if (most := max(count, abs(last - first) / LONGEST_STEP)) > MAX_STEPS:
        raise InputError(f"A sweep of {most:.0f} steps of {LONGEST_STEP} rad or m at most. Allowed: {MAX_STEPS}.")
    values = first + np.sign(last - first) * step * np.arange(int(count * (1.0 + 1e-12)) + 1)
    return values if np.isclose(values[-1], last, rtol=0.0, atol=1e-9 * step) else np.append(values, last)


def swept(
    rows: BoundedRows, start: Float64Array, coordinate: int, values: Float64Array, free: BoolArray, on: BoolArray
) -> tuple[Float64Array, NDArray[np.int32]]:
    """Close loops at each value of a coordinate: configurations [n, steps, joint_coord_count], statuses [n, steps].

    `free`, the mask of free DOFs [active_dof_count], excludes the DOF of the coordinate.
    """
    problem, joint_q = ClosingProblem(rows, free), start.copy()
    joint_q[:, coordinate] = values[0]
    found = [nearest_closed(rows, joint_q, free, on, ATTEMPTS, np.random.default_rng(0))]
    for last, value in pairwise(values.tolist()):
        parts = int(np.ceil(abs(value - last) / LONGEST_STEP * (1.0 - 1e-9)))
        one = found[-1]
        for part in range(parts):
            joint_q = one.joint_q.copy()
            joint_q[:, coordinate] = value if part == parts - 1 else last + (value - last) * (part + 1) / parts
            one = close_from(problem, joint_q, on)
        found.append(one)
    return np.stack([one.joint_q for one in found], axis=1), np.stack([statuses(one) for one in found], axis=1)


def scalar_coordinate(robot: KinematicRobot, joint: str, component: str | None) -> int:
    """Find the DOF of a joint, or of a joint's component, with a scalar coordinate.

    Raises:
        UnknownNameError: The robot has no such joint.
        InputError: There is no such DOF, the DOF is a follower, or a component is needed and missing.
    """
    index = robot.joint_index(joint)
    dofs = range(int(robot.joint_qd_start[index]), int(robot.joint_qd_start[index + 1]))
    names = {dof_at(robot, dof).component: dof for dof in dofs if robot.dof_coordinate[dof] >= 0}
    wanted = component or ""
    if wanted not in names:
        allowed = ", ".join(repr(name) for name in names) or "none, its coordinates are a quaternion"
        raise InputError(f"Joint '{joint}' has no component {wanted!r} to sweep. Allowed: {allowed}.")
    leader = int(robot.dof_leader[names[wanted]])
    if leader != names[wanted]:
        raise InputError(f"Joint '{joint}' follows '{robot.dof_names[leader]}'. Sweep that one.")
    return names[wanted]
