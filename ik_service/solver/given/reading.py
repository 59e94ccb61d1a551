"""A caller's targets, starts and enabled loops as a batch; kernels check the numbers of plain arrays."""

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ik_service.errors import in_a_line
from ik_service.mechanism.caller_order import CallerOrder
from ik_service.mechanism.configuration import refuse_degrees
from ik_service.mechanism.transforms import given_poses
from ik_service.poses import is_rotation, quaternions_of
from ik_service.robots import RobotModel
from ik_service.solver.given.arrays import as_numpy, by_target, host_array, plain_targets, unit_quaternions
from ik_service.solver.given.batch import Batch
from ik_service.solver.given.options import SolverOptions
from ik_service.solver.given.requested_limits import read_limits
from ik_service.solver.given.targets import DATA, Target, of_one_solve
from ik_service.solver.given.worlds import read_worlds
from objectives import IKObjective, InputError
from objectives.errors import UnknownNameError

FROM_WXYZ, TO_WXYZ = (1, 2, 3, 0), (3, 0, 1, 2)  # columns of wxyz in the order xyzw, and back


def read_targets(
    targets: Sequence[Target], positions: Any, orientations: Any, problem_count: Any, *, wxyz: bool = False
) -> Batch:
    """Return the target arrays of a solve by target, xyzw: views if the caller's are float arrays on the host."""
    # Raises InputError for a bad shape or count, or, for arrays converted by `check_targets`, a bad value
    positions, orientations = split_poses(len(targets), positions, orientations, wxyz=wxyz)
    positions, orientations = as_numpy("positions", positions), as_numpy("orientations_xyzw", orientations)
    by_position = plain_targets(positions, len(targets), 3)
    by_orientation = plain_targets(orientations, len(targets), 4)
    batch = None
    if by_position is not None and by_orientation is not None and problem_count is None:
        counts = {len(array) for array in (*by_position, *by_orientation) if array is not None}
        if len(counts) == 1 and 0 not in counts:
            batch = Batch(by_position, by_orientation, counts.pop())
    if batch is None:
        batch = check_targets(targets, positions, orientations, problem_count)
    if not wxyz:
        return batch
    return batch._replace(
        orientations_xyzw=tuple(None if q is None else q[:, FROM_WXYZ] for q in batch.orientations_xyzw)
    )


def split_poses(target_count: int, positions: Any, orientations: Any, *, wxyz: bool) -> tuple[Any, Any]:
    """Return positions and quaternions of poses given in place of positions, and quaternions of rotations.

    Their quaternions are wxyz if the caller's are; numbers are returned as given. InputError for no rotation.
    """
    if _has_width(positions, 3) and _has_width(orientations, 4):
        return positions, orientations
    is_listed = isinstance(positions, list | tuple) and len(positions) == target_count
    poses = [given_poses(one, "positions") for one in (positions if is_listed else [positions])]
    if is_listed and target_count == 1 and (poses[0] is None or poses[0].transforms.ndim == 1):
        is_listed, poses = False, [given_poses(positions, "positions")]  # of problems
    if all(one is None for one in poses):
        try:
            return positions, _quaternions(orientations, wxyz=wxyz)
        except ValueError as error:
            raise InputError(f"orientations_xyzw: {error}") from error
    if orientations is not None:
        raise InputError("positions hold whole poses, and orientations_xyzw are given, too. Leave one of them out.")
    parts = positions if is_listed else [positions]
    places, turns = list[Any](), list[Any]()
    for part, pose in zip(parts, poses, strict=True):
        whole = None if pose is None else np.atleast_2d(pose.transforms)
        places.append(part if whole is None else whole[..., :3])
        turns.append(None if whole is None else whole[..., 3:][..., TO_WXYZ if wxyz else slice(None)])
    return (places, turns) if is_listed else (places[0], turns[0])


def _has_width(value: Any, width: int) -> bool:
    return value is None or (type(value) is np.ndarray and value.shape[-1:] == (width,))


def _quaternions(given: Any, *, wxyz: bool) -> Any:
    """Return quaternions of rotation matrices or of a SciPy Rotation, also in a list by target; others as given."""
    if is_rotation(given):
        return np.atleast_2d(quaternions_of(given))[..., TO_WXYZ if wxyz else slice(None)]
    if isinstance(given, list | tuple) and any(hasattr(one, "as_quat") or np.ndim(one) == 3 for one in given):
        return [_quaternions(one, wxyz=wxyz) for one in given]
    return given


def check_targets(
    targets: Sequence[object], positions: object, orientations_xyzw: object, problem_count: int | None
) -> Batch:
    """Check the arrays of a solve, given as to `IKSolver.solve`, and split them by target."""
    # A target with neither positions nor orientations is left out. Raises InputError for a bad shape, count or value;
    # the message names it.
    by_position = by_target("positions", positions, len(targets), 3)
    by_orientation = by_target("orientations_xyzw", orientations_xyzw, len(targets), 4)
    counts = {len(array) for array in (*by_position, *by_orientation) if array is not None}
    if problem_count is not None:
        if isinstance(problem_count, bool) or not isinstance(problem_count, Integral) or problem_count < 1:
            raise InputError(f"problem_count is {problem_count!r}. Allowed: a whole number of at least 1.")
        counts.add(int(problem_count))
    if len(counts) > 1:
        raise InputError(f"The arrays of one solve hold {sorted(counts)} problems. They must agree.")
    if not counts:
        raise InputError("Nothing says how many problems there are: give target arrays, or problem_count.")
    if 0 in counts:
        raise InputError("The batch is empty. Give at least one problem.")
    if targets and not any(array is not None for array in (*by_position, *by_orientation)):
        raise InputError("No target has positions or orientations_xyzw. Give values for at least one.")
    unit = tuple(None if q is None else unit_quaternions("orientations_xyzw", q) for q in by_orientation)
    return Batch(by_position, unit, counts.pop())


def read_start(robot: RobotModel, order: CallerOrder, name: str, joint_q: Any, problem_count: int) -> NDArray[Any]:
    """Return configurations in the robot's order, [joint_coord_count] or [problem_count, joint_coord_count]."""
    # Coordinates left out of the order have the values of `robot.mid_joint_q`. Raises InputError for other shapes, or
    # no numbers.
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


def read_stand(robot: RobotModel, order: CallerOrder, name: str, joint_q: Any) -> NDArray[np.float64]:
    """Return the configuration where a robot stands, within its limits and in its order, [joint_coord_count].

    InputError for another shape, or for angles in degrees.
    """
    start = host_array(name, read_start(robot, order, name, joint_q, 1).reshape(-1))
    refuse_degrees(robot, name, start)
    return np.asarray(robot.clamp_joint_q(start)[0])


def read_problems(
    robot: RobotModel,
    order: CallerOrder,
    targets: tuple[Target, ...],
    options: SolverOptions,
    poses: tuple[Any, Any, Any],  # positions, orientations_xyzw, problem_count
    data: tuple[Any, Any, Any],  # offset, row_weights, tolerance
    start: Any,
    enabled: Any,
    obstacles: tuple[Any, Any, Any, Any],  # world, world_index, object_enabled, attached
    asked: tuple[Any, Any, Any],  # joint_limits, frozen, max_change
    *,
    wxyz: bool,
) -> Batch:
    """Return the checked problems of a solve; arguments and errors as in `IKSolver.solve`."""
    batch = read_targets(targets, *poses, wxyz=wxyz)
    count, limits = batch.problem_count, None
    if start is not None:
        start = read_start(robot, order, "initial_joint_q", start, count)
    if enabled is not None:
        enabled = read_enabled(robot.constraint_names, enabled, count)
    worlds = read_worlds(robot, options, *obstacles, count)
    if any(one is not None for one in asked):
        limits = read_limits(robot, order, options, start, count, *asked)
    own = of_one_solve(targets, robot, *data) if any(one is not None for one in data) else None
    return batch._replace(start=start, enabled=enabled, worlds=worlds, limits=limits, targets=own)


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


def check_one_line(
    objectives: Sequence[Any], targets: Sequence[Target], where: str = "on a path", lines: str = "waypoints"
) -> None:
    """Check that no data is per problem; InputError otherwise. `targets` are the targets with lines per problem."""
    many = [type(objective).__name__ for objective in objectives if has_lines_per_problem(objective)]
    many += [f"Target '{target.link}'" for target in targets]
    if many:
        raise InputError(f"{many[0]} has data per problem. Allowed {where}: one line for all {lines}.")


def has_lines_per_problem(objective: Any) -> bool:
    """Return whether an objective has data per problem."""
    return isinstance(objective, IKObjective) and any(rows != 1 for rows in objective.data_rows().values())


def raise_fault(
    robot: RobotModel, order: CallerOrder, targets: Sequence[Target], given: tuple[Any, Any, Any, Any]
) -> NoReturn:
    """Raise the InputError for the faulty number found by the kernels."""
    # `given` are positions, orientations, start configurations and number of problems, as given by the caller
    positions, orientations_xyzw, initial_joint_q, problem_count = given
    numbers = split_poses(len(targets), positions, orientations_xyzw, wxyz=False)
    count = check_targets(targets, *numbers, problem_count).problem_count
    if initial_joint_q is not None:
        start = host_array("initial_joint_q", initial_joint_q)
        robot.complete_joint_q(read_start(robot, order, "initial_joint_q", start, count))
    raise InputError("A target or start configuration was changed by another thread while it was solved for.")


ARGUMENT = "constraint_enabled"


def read_enabled(names: Sequence[str], given: Any, problem_count: int) -> NDArray[np.bool_] | None:
    """Return the enabled loops, in a single line if all problems agree, [1 or problem_count, loops]; None for all."""
    # Loops left out of a mapping are enabled. Raises UnknownNameError where the robot has no loop of a name,
    # InputError for a value other than True or False or a wrong shape
    if given is None:
        return None
    enabled = _by_name(names, given, problem_count) if isinstance(given, Mapping) else _flags(ARGUMENT, given)
    if enabled.shape not in ((len(names),), (problem_count, len(names))):
        allowed = f"[{len(names)}] or [{problem_count}, {len(names)}], a column for each loop of the robot"
        raise InputError(f"{ARGUMENT} has shape {list(enabled.shape)}. Allowed: {allowed}.")
    lines = np.atleast_2d(enabled)
    return lines[:1] if (lines == lines[:1]).all() else lines


def _by_name(names: Sequence[str], given: Mapping[Any, Any], problem_count: int) -> NDArray[np.bool_]:
    enabled = np.ones((problem_count, len(names)), dtype=bool)
    for name, value in given.items():
        if name not in names:
            known = ", ".join(f"'{one}'" for one in names) or "none"
            raise UnknownNameError(f"{ARGUMENT}: the robot has no loop {in_a_line(name)}. Loops: {known}.")
        flags = _flags(f"{ARGUMENT} of loop '{name}'", value)
        if flags.shape not in ((), (problem_count,)):
            shape = f"has shape {list(flags.shape)}. Allowed: True, False, or [{problem_count}]"
            raise InputError(f"{ARGUMENT} of loop '{name}' {shape}.")
        enabled[:, list(names).index(name)] = flags
    return enabled


def _flags(what: str, value: Any) -> NDArray[np.bool_]:
    try:
        flags = np.asarray(as_numpy(what, value))
    except ValueError:  # lines of different lengths
        flags = np.empty(0)
    if flags.dtype != np.bool_:
        raise InputError(f"{what} is {in_a_line(value)}. Allowed: True and False.")
    return flags
