"""What a caller gives, by type and shape. The numbers in plain arrays are left to the kernels of `intake`."""

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ik_service.robots import RobotModel
from ik_service.solver.targets import Target, TargetArrays, check_targets, host_array, plain_targets
from objectives import IKObjective, InputError


def read_targets(targets: Sequence[Target], positions: Any, orientations_xyzw: Any, problem_count: Any) -> TargetArrays:
    """Return the arrays of a solve by target.

    Raises:
        InputError: A shape or a count that is not allowed, or, where it took a closer look, a value.
    """
    by_position = plain_targets(positions, len(targets), 3)
    by_orientation = plain_targets(orientations_xyzw, len(targets), 4)
    if by_position is not None and by_orientation is not None and problem_count is None:
        counts = {len(array) for array in (*by_position, *by_orientation) if array is not None}
        if len(counts) == 1 and 0 not in counts:
            return TargetArrays(by_position, by_orientation, counts.pop())
    return check_targets(targets, positions, orientations_xyzw, problem_count)


def read_start(robot: RobotModel, initial_joint_q: Any, problem_count: int) -> NDArray[Any]:
    """Return start configurations, [joint_coord_count] or [problem_count, joint_coord_count].

    Raises:
        InputError: Neither of these shapes, or no numbers.
    """
    q = initial_joint_q
    if type(q) is not np.ndarray or q.dtype.kind != "f":
        q = host_array("initial_joint_q", q)
    coordinates = robot.joint_coord_count
    if q.shape not in ((coordinates,), (problem_count, coordinates)):
        allowed = f"[{coordinates}] or [{problem_count}, {coordinates}]"
        raise InputError(f"initial_joint_q has shape {list(q.shape)}. Allowed: {allowed}.")
    return np.asarray(q)


def has_lines(target: Target) -> bool:
    """Return whether a target has an offset or weights per problem."""
    return any(value is not None and np.ndim(value) == 2 for value in (target.offset, target.row_weights))


def check_lines(objectives: Sequence[Any], targets: Sequence[Target], problem_count: int) -> None:
    """Check that data per problem has a line for every problem.

    Raises:
        InputError: It has another number of lines.
    """
    for objective in objectives:
        if isinstance(objective, IKObjective):
            objective.require_problem_count(problem_count)
    for target in targets:
        for name in ("offset", "row_weights"):
            value = getattr(target, name)
            lines = 1 if value is None or np.ndim(value) == 1 else len(value)
            if lines not in (1, problem_count):
                raise InputError(f"Target '{target.link}': {name} has {lines} lines for {problem_count} problems.")


def raise_fault(robot: RobotModel, targets: Sequence[Target], given: tuple[Any, Any, Any, Any]) -> NoReturn:
    """Say what the kernels have found wrong with a number.

    Args:
        robot: The robot.
        targets: Declared targets.
        given: Positions, orientations, start configurations and number of problems, as the caller gave them.

    Raises:
        InputError: Always.
    """
    positions, orientations_xyzw, initial_joint_q, problem_count = given
    check_targets(targets, positions, orientations_xyzw, problem_count)
    if initial_joint_q is not None:
        robot.complete_joint_q(host_array("initial_joint_q", initial_joint_q))
    raise InputError("A target or start configuration was changed by another thread while it was solved for.")
