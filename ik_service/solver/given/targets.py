"""Declaration of a solver's pose targets; tolerances: the largest error of each row, and the deadband of the solver."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from ik_service.errors import in_a_line
from ik_service.mechanism.transforms import given_poses
from ik_service.robots import RobotModel
from ik_service.solver.given.arrays import host_array, unit_quaternions
from objectives import IKObjectiveNearPose, IKObjectivePose, InputError
from objectives.tasks.pose import DEADBAND_WIDTH, ToleranceFrame

AXES = ("x", "y", "z", "rx", "ry", "rz")
"""Names of a pose's rows: positions along the axes of a frame, and rotations about them."""
FRAMES: tuple[ToleranceFrame, ...] = get_args(ToleranceFrame)
FREE_DISTANCE, FREE_CHORD = 1e30, 4.0  # half widths never exceeded; 2 sin(angle / 2) is at most 2
LARGEST_ANGLE = math.pi  # the largest angle between two orientations


def free_rows(link: str, free: object) -> NDArray[np.bool_]:
    """Return the rows of names of axes, bool [6]; InputError for a name not in `AXES`."""
    names = (free,) if isinstance(free, str) else free
    if not isinstance(names, Sequence) or not all(isinstance(name, str) and name in AXES for name in names):
        raise InputError(f"Target '{link}': free is {in_a_line(free)}. Allowed: a list of {', '.join(AXES)}.")
    return np.isin(AXES, list(names))


def check_tolerance(link: str, tolerance: NDArray[np.float64], weights: NDArray[np.float64]) -> None:
    """Check tolerances [6] or [n, 6] of a target beside its weights; infinity frees a row."""
    # Raises InputError for a bad tolerance, or two that bound no cone beside a free rotation
    if not (tolerance >= 0.0).all():
        raise InputError(f"Target '{link}': tolerance holds {tolerance.min():g}. Allowed: 0 and above.")
    angles, judged = np.atleast_2d(tolerance)[:, 3:], np.atleast_2d(weights)[:, 3:] > 0.0
    if (judged & (angles > LARGEST_ANGLE)).any():
        raise InputError(f"Target '{link}': tolerance holds an angle above pi. Allowed: up to pi, or free.")
    cone = judged.sum(axis=1) == 2
    least, most = np.where(judged, angles, np.inf).min(axis=1), np.where(judged, angles, -np.inf).max(axis=1)
    if (cone & (least < most)).any():
        raise InputError(
            f"Target '{link}': beside one free rotation the other two bound a cone about that axis. Allowed: the same "
            f"tolerance for both."
        )


def deadbands(
    link: str,  # name of the target's link
    tolerance: NDArray[np.float64] | None,  # tolerances, shape [6] or [n, 6]; None for none
    weights: NDArray[np.float64],  # weights of the rows, shape [6] or [n, 6]
    position_tolerance: float,  # of the solve [m]
    orientation_tolerance: float,  # of the solve [rad]
) -> NDArray[np.float32]:
    """Return the deadband of a target, the error counted as none, [1 or n, 7] as in `IKObjectiveNearPose`.

    Tolerance of a row less the tolerance of the solve: with an error up to the tolerance of the solve the row is still
    within its own tolerance. Beside one free rotation, the others share a ball: a cone about the free axis. InputError
    for a tolerance above 0 and below the tolerance of the solve.
    """
    off = np.atleast_2d(weights) <= 0.0
    given = np.zeros((1, 6)) if tolerance is None else np.atleast_2d(tolerance)
    off, given = np.broadcast_arrays(off, given)
    least = np.repeat([position_tolerance, orientation_tolerance], 3)
    if (~off & (given > 0.0) & (given < least)).any():
        raise InputError(
            f"Target '{link}' has a tolerance below that of the solve. Allowed: 0, or from position_tolerance "
            f"({position_tolerance:g} m) and orientation_tolerance ({orientation_tolerance:g} rad) up."
        )
    found = np.zeros((len(given), DEADBAND_WIDTH))
    found[:, :3] = np.maximum(given[:, :3] - position_tolerance, 0.0)
    found[:, 3:6] = np.maximum(chord(given[:, 3:]) - chord(orientation_tolerance), 0.0)
    cone = (~off[:, 3:]).sum(axis=1) == 2
    found[cone, 6] = np.where(off[cone, 3:], 0.0, found[cone, 3:6]).max(axis=1, initial=0.0)
    found[cone, 3:6] = 0.0
    found[:, :6][off] = np.tile(np.repeat([FREE_DISTANCE, FREE_CHORD], 3), (len(found), 1))[off]
    rounded = found.astype(np.float32)
    return np.where(rounded > found, np.nextafter(rounded, np.float32(0.0)), rounded)


def chord(angle: Any) -> Any:
    """Return the length of the rotation rows, 2 sin(angle / 2), of an angle up to pi [rad]."""
    return 2.0 * np.sin(0.5 * np.minimum(angle, LARGEST_ANGLE))


DATA = ("offset", "row_weights", "tolerance")
"""Arrays of a target, with one line or one for each problem, which may be replaced between solves."""
ROTATION_LENGTH = 0.4  # units of length that weigh as much as a radian in the cost of pose targets


@dataclass(frozen=True, eq=False)
class Target:
    """A link with a target pose.

    Attributes:
        link: Name of the link.
        offset: Tool frame in the link frame, `T_link_tool`: Poses, or position [m] and orientation xyzw, shape [7], or
            [problem_count, 7]. None is the link frame itself.
        reference_link: Reference frame of targets and errors: the frame of this link; None is the world.
        row_weights: Weights of the six rows, shape [6] or [problem_count, 6]: three of position, three of orientation.
            0 leaves an axis free, in the solve and in the verification. All other rows are verified, even if no joint
            can move them.
        free: Rows left free, by name: "x", "y", "z" along the axes of `frame`, "rx", "ry", "rz" about them. With "rz"
            in the tool's frame the tool may turn about its z axis.
        tolerance: Largest error of each row, shape [6] or [problem_count, 6]: three distances [m], three angles up to
            pi [rad]; 0 means the tolerance of the solve, infinity frees the row. Beside one free rotation the other two
            must be equal: a cone about the free axis. `success` means that all are kept. Errors are measured from the
            tolerance less the tolerance of the solve; inside they are 0.
        frame: Frame of the rows: "tool", "target" (the target pose), "reference" (the frame of `reference_link`, or the
            world) or "world". None is "tool" if `free` or `tolerance` is given, otherwise "reference". Rotations about
            the axes of the tool and of the target are the same.
    """

    link: str
    offset: Sequence[float] | NDArray[Any] | None = None
    reference_link: str | None = None
    row_weights: Sequence[float] | NDArray[Any] | None = None
    free: Sequence[str] = ()
    tolerance: Sequence[float] | NDArray[Any] | None = None
    frame: ToleranceFrame | None = None

    def weights(self) -> NDArray[np.float64]:
        """Return the weights of the six rows, [6] or [problem_count, 6]; 0 for free rows."""
        given = np.ones(6) if self.row_weights is None else np.asarray(self.row_weights, np.float64)
        if self.tolerance is not None and np.isinf(self.tolerance).any():
            given = np.where(np.isinf(self.tolerance), 0.0, given)
        return given

    def weights_in_metres(self, length_unit: float) -> NDArray[np.float64]:
        """Return the weights of the cost: one radian weighs as much as a fraction of the robot's unit of length."""
        return np.asarray(self.weights() * np.repeat([1.0, ROTATION_LENGTH * length_unit], 3))

    def deadband(self, position_tolerance: float, orientation_tolerance: float) -> NDArray[np.float32]:
        """Return the deadband in a solve of these tolerances, [1 or problem_count, 7], as `deadbands`."""
        given = None if self.tolerance is None else np.asarray(self.tolerance, np.float64)
        return deadbands(self.link, given, self.weights(), position_tolerance, orientation_tolerance)


def as_target(target: "Target | str", robot: RobotModel) -> Target:
    """Return a target with known links and checked arrays."""
    # Raises UnknownNameError for a link not in the robot, InputError for an entry that is neither a link name
    # nor a Target, or a bad offset or bad weights
    if isinstance(target, str):
        target = Target(target)
    if not isinstance(target, Target):
        raise InputError(f"A target is {in_a_line(target)}. Allowed: a link name or an ik_service.Target.")
    robot.link_frame(target.link)
    if target.reference_link is not None:
        robot.link_frame(target.reference_link)
    offset, row_weights = target.offset, target.row_weights
    if offset is not None:
        poses = given_poses(offset, f"Target '{target.link}': offset")
        offset = _one_or_many(target, "offset", offset if poses is None else poses.transforms, 7)
        lines = np.atleast_2d(offset)
        unit = unit_quaternions(f"Target '{target.link}': offset", lines[:, 3:])
        offset = np.hstack([lines[:, :3], unit]).reshape(offset.shape)
    if row_weights is not None:
        row_weights = _one_or_many(target, "row_weights", row_weights, 6)
        if (row_weights < 0.0).any():
            raise InputError(f"Target '{target.link}': row_weights hold {row_weights.min():g}. Allowed: 0 and above.")
    return _with_tolerances(replace(target, offset=offset, row_weights=row_weights))


def _with_tolerances(target: Target) -> Target:
    """Return a target with its free rows as infinity in its tolerances, and with an explicit frame."""
    tolerance, frame, is_free = target.tolerance, target.frame, free_rows(target.link, target.free)
    if tolerance is not None:
        tolerance = _one_or_many(target, "tolerance", tolerance, len(AXES), may_be_infinite=True)
    if is_free.any():
        tolerance = np.where(is_free, np.inf, np.zeros(len(AXES)) if tolerance is None else tolerance)
    if frame is None and tolerance is not None:
        frame = "tool"
    if frame is not None and not (isinstance(frame, str) and frame in FRAMES):
        raise InputError(f"Target '{target.link}': frame is {in_a_line(frame)}. Allowed: {', '.join(FRAMES)}.")
    checked = replace(target, free=(), tolerance=tolerance, frame=frame)
    if tolerance is not None:
        lines = sorted({len(one) for one in map(np.asarray, (tolerance, target.row_weights)) if one.ndim == 2} - {1})
        if len(lines) > 1:
            raise InputError(
                f"Target '{target.link}': row_weights and tolerance have {lines[0]} and {lines[1]} lines. Allowed: "
                "one, or equally many; give both in one call."
            )
        check_tolerance(target.link, tolerance, checked.weights())
    return checked


def replaced(
    targets: tuple[Target, ...], number: int, data: Mapping[str, Any], robot: RobotModel
) -> tuple[Target, ...]:
    """Return targets with new data of one target, by the names of `DATA`; None keeps the present data."""
    # Raises InputError where there is no such target, a value is not allowed, or an offset or a tolerance is given to
    # a target declared without one
    whole = isinstance(number, Integral) and not isinstance(number, bool)
    if not (whole and 0 <= number < len(targets)):
        raise InputError(f"target is {number!r}. Allowed: 0 to {len(targets) - 1}.")
    old, given = targets[number], {name: value for name, value in data.items() if value is not None}
    for name, one in (("offset", "an offset"), ("tolerance", "a tolerance")):
        if name in given and getattr(old, name) is None:
            raise InputError(f"Target '{old.link}' was declared without {one}. Declare one, of any value.")
    new = as_target(replace(old, **given), robot)
    if "offset" not in given:
        new = replace(new, offset=old.offset)  # its quaternions must not be rounded again
    return (*targets[:number], new, *targets[number + 1 :])


def of_one_solve(
    targets: tuple[Target, ...], robot: RobotModel, offset: Any, row_weights: Any, tolerance: Any
) -> tuple[Target, ...] | None:
    """Return targets with the data of one solve; None without such data."""
    # Several targets have a list, with an entry or None for each. Raises InputError for another list, and as `replaced`
    if offset is None and row_weights is None and tolerance is None:
        return None
    data = dict(zip(DATA, (offset, row_weights, tolerance), strict=True))
    lists = {name: [given] if len(targets) == 1 else given for name, given in data.items() if given is not None}
    for name, given in lists.items():
        if not isinstance(given, list | tuple) or len(given) != len(targets):
            allowed = f"a list with an entry or None for each of the {len(targets)} targets"
            raise InputError(f"{name} is {in_a_line(given)}. Allowed: {allowed}.")
    for k in range(len(targets)):
        targets = replaced(targets, k, {name: given[k] for name, given in lists.items()}, robot)
    return targets


def _one_or_many(
    target: Target, name: str, value: object, width: int, *, may_be_infinite: bool = False
) -> NDArray[np.float64]:
    array = host_array(f"Target '{target.link}': {name}", value, may_be_infinite=may_be_infinite)
    if array.ndim not in (1, 2) or array.shape[-1] != width or not len(array):
        shape = list(array.shape)
        raise InputError(f"Target '{target.link}': {name} has shape {shape}. Allowed: [{width}] or [n, {width}].")
    return array


def pose_objective(
    target: Target, positions: Any, orientations_xyzw: Any, row_weights: Any, deadband: Any = None
) -> IKObjectivePose | IKObjectiveNearPose:
    """Return the objective of a checked target, with one line of data or one per problem."""
    # A deadband [7] or [n, 7], the error counted as none, belongs to targets with a frame of their own
    given = {"offset": target.offset, "reference_link": target.reference_link, "row_weights": row_weights}
    if target.frame is None:
        return IKObjectivePose(target.link, positions, orientations_xyzw, **given)
    near = {"frame": target.frame, "deadband": deadband}
    return IKObjectiveNearPose(target.link, positions, orientations_xyzw, **near, **given)


def has_lines(target: Target) -> bool:
    """Return whether a target has data per problem."""
    return any(np.ndim(data) == 2 for name in DATA if (data := getattr(target, name)) is not None)


def part_of(target: Target, problems: slice | NDArray[np.intp]) -> Target:
    """Return the target of some of the problems."""
    if not has_lines(target):
        return target
    return replace(target, **{name: rows_of(getattr(target, name), problems) for name in DATA})


def joined_targets(parts: Sequence[tuple[Sequence[Target], slice]]) -> tuple[Target, ...]:
    """Return the targets of some problems of several solves of one structure, one after the other."""
    found, counts = [], [rows.stop - rows.start for _, rows in parts]
    for several in zip(*(targets for targets, _ in parts), strict=True):
        lines: dict[str, NDArray[np.float64]] = {}
        for name in DATA if any(map(has_lines, several)) else ():
            if getattr(several[0], name) is not None:
                cut = [rows_of(getattr(one, name), rows) for one, (_, rows) in zip(several, parts, strict=True)]
                whole = [np.broadcast_to(own, (n, own.shape[-1])) for own, n in zip(cut, counts, strict=True)]
                lines[name] = np.concatenate(whole)
        found.append(replace(several[0], **lines) if lines else several[0])
    return tuple(found)


def rows_of(array: Any, problems: slice | NDArray[np.intp]) -> Any:
    """Return the lines of some problems, of an array with one line for all or one per problem, or None."""
    return array[problems] if array is not None and array.ndim == 2 else array


def touched_trees(robot: RobotModel, targets: Sequence[Target]) -> NDArray[np.bool_]:
    """Return the trees touched by each target, bool [targets, trees]."""
    touches = np.zeros((len(targets), robot.trees.ntree), dtype=bool)
    for k, target in enumerate(targets):
        for link in (target.link, target.reference_link):
            body = robot.link_frame(link)[0] if link is not None else -1
            if body >= 0 and robot.trees.body_treeid[body] >= 0:
                touches[k, robot.trees.body_treeid[body]] = True
    return touches
