"""Checks of type and shape of a caller's arrays. Numbers in plain arrays are checked by `problems.input_kernels`."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ik_service.mechanism.caller_order import CallerOrder
from ik_service.robots import RobotModel
from ik_service.solver.given.foreign_arrays import as_numpy
from ik_service.solver.given.target_arrays import TargetArrays, check_targets, host_array, plain_targets
from ik_service.solver.given.targets import DATA, Target
from objectives import IKObjective, InputError

FROM_WXYZ = (1, 2, 3, 0)  # columns of wxyz that make xyzw


def read_targets(
    targets: Sequence[Target], positions: Any, orientations: Any, problem_count: Any, *, wxyz: bool = False
) -> TargetArrays:
    """Return the arrays of a solve by target, xyzw: views of the caller's where these are floats of the host."""
    # Raises InputError for a shape or a count that is not allowed, or, where it took a closer look, a value
    positions, orientations = as_numpy("positions", positions), as_numpy("orientations_xyzw", orientations)
    given = _by_target(targets, positions, orientations, problem_count)
    if not wxyz:
        return given
    turned = tuple(None if q is None else q[:, FROM_WXYZ] for q in given.orientations_xyzw)
    return TargetArrays(given.positions, turned, given.problem_count)


def _by_target(targets: Sequence[Target], positions: Any, orientations: Any, problem_count: Any) -> TargetArrays:
    by_position = plain_targets(positions, len(targets), 3)
    by_orientation = plain_targets(orientations, len(targets), 4)
    if by_position is not None and by_orientation is not None and problem_count is None:
        counts = {len(array) for array in (*by_position, *by_orientation) if array is not None}
        if len(counts) == 1 and 0 not in counts:
            return TargetArrays(by_position, by_orientation, counts.pop())
    return check_targets(targets, positions, orientations, problem_count)


def read_start(robot: RobotModel, order: CallerOrder, name: str, joint_q: Any, problem_count: int) -> NDArray[Any]:
    """Return configurations in the robot's order, [joint_coord_count] or [problem_count, joint_coord_count]."""
    # Coordinates that the order leaves out are those of `robot.mid_joint_q`. Raises InputError for neither of these
    # shapes, or no numbers.
    q = as_numpy(name, joint_q)
    if type(q) is not np.ndarray or q.dtype.kind != "f":
        q = host_array(name, q)
    coordinates = len(order.coordinates)
    if q.shape not in ((coordinates,), (problem_count, coordinates)):
        allowed = f"[{coordinates}] or [{problem_count}, {coordinates}]"
        raise InputError(f"{name} has shape {list(q.shape)}. Allowed: {allowed}.")
    if order.is_own:
        return np.asarray(q)
    ordered = np.empty((*q.shape[:-1], robot.joint_coord_count))
    ordered[:] = robot.mid_joint_q
    ordered[..., order.coordinates] = q
    return ordered


def has_lines(target: Target) -> bool:
    """Return whether a target has data per problem."""
    return any(np.ndim(getattr(target, name)) == 2 for name in DATA)


def part_of(target: Target, problems: slice | NDArray[np.intp]) -> Target:
    """Return the target of some of the problems."""
    if not has_lines(target):
        return target
    return replace(target, **{name: rows_of(getattr(target, name), problems) for name in DATA})


def rows_of(array: Any, problems: slice | NDArray[np.intp]) -> Any:
    """Return the lines of some of the problems, of an array that may have one for all or be None."""
    return array[problems] if array is not None and array.ndim == 2 else array


def check_lines(objectives: Sequence[Any], targets: Sequence[Target], problem_count: int) -> None:
    """Check that data per problem has a line for every problem; InputError if not."""
    for objective in objectives:
        if isinstance(objective, IKObjective):
            objective.require_problem_count(problem_count)
    for target in targets:
        for name in DATA:
            value = getattr(target, name)
            lines = len(value) if np.ndim(value) == 2 else 1
            if lines not in (1, problem_count):
                raise InputError(f"Target '{target.link}': {name} has {lines} lines for {problem_count} problems.")


def check_one_line(objectives: Sequence[Any], targets: Sequence[Target]) -> None:
    """Check that no data is per problem; InputError if some is. `targets` are those that have lines per problem."""
    many = [type(objective).__name__ for objective in objectives if has_lines_per_problem(objective)]
    many += [f"Target '{target.link}'" for target in targets]
    if many:
        raise InputError(f"{many[0]} has data per problem. Allowed on a path: one line for all waypoints.")


def has_lines_per_problem(objective: Any) -> bool:
    """Return whether an objective has data per problem."""
    return isinstance(objective, IKObjective) and any(rows != 1 for rows in objective.data_rows().values())


def raise_fault(
    robot: RobotModel, order: CallerOrder, targets: Sequence[Target], given: tuple[Any, Any, Any, Any]
) -> NoReturn:
    """Raise the InputError that says what the kernels have found wrong with a number."""
    # `given` are positions, orientations, start configurations and number of problems, as the caller gave them
    positions, orientations_xyzw, initial_joint_q, problem_count = given
    count = check_targets(targets, positions, orientations_xyzw, problem_count).problem_count
    if initial_joint_q is not None:
        start = host_array("initial_joint_q", initial_joint_q)
        robot.complete_joint_q(read_start(robot, order, "initial_joint_q", start, count))
    raise InputError("A target or start configuration was changed by another thread while it was solved for.")
