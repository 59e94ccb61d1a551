"""Objectives for constraints: a loop closed by a joint between two frames, and a coupling of two joints."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from objectives.errors import InputError
from objectives.expression import Scalar, atan2, cos, maximum, minimum, sin, sqrt, where
from objectives.expression.element_table import Element, ElementTable, build_element_table
from objectives.expression.expression_objective import ConstraintObjective
from objectives.expression.frame_algebra import Frame, dot, rotation_difference
from objectives.expression.rows import RowGroup, RowInputs
from objectives.model import IKModel, RobotIndices
from objectives.tasks.closing_joint import (
    CLOSING_COORDINATES,
    SIZE,
    RelativeRows,
    limit_group,
    limit_numbers,
    limit_pairs,
    limited_coordinates,
    relative_group,
)
from objectives.tasks.frame_objective import body_frame, checked_offset

OPPOSITE = 1e-12  # squared cosine of half the angle between two axes, below which the axes count as opposite
UPRIGHT = (0.0, 0.0, 0.0, 1.0)


def _tilt(frame: Frame) -> tuple[Scalar, Scalar]:
    """State the tilt of the z axis against the reference's z axis, of length 2 sin(angle / 2); opposite: 2 along x."""
    x, y, z, w = frame.orientation_xyzw
    cosine2 = z * z + w * w
    scale = 2.0 / sqrt(where(cosine2 > OPPOSITE, cosine2, 1.0))
    across = (x * z + w * y) * scale, (y * z - w * x) * scale
    return where(cosine2 > OPPOSITE, across[0], 2.0), across[1]


def _helical(frame: Frame, pitch: Scalar) -> Sequence[Scalar]:
    """State translation along z minus pitch times rotation about z, up to whole turns."""
    _, _, z, w = frame.orientation_xyzw
    rest = frame.position[2] / pitch - 2.0 * atan2(z, w)
    return [*frame.position[:2], *_tilt(frame), pitch * atan2(sin(rest), cos(rest))]


def _universal(frame: Frame, _size: Scalar) -> Sequence[Scalar]:
    x, y, z, w = frame.orientation_xyzw
    return [*frame.position, 2.0 * (x * z - w * y)]


def _distance(frame: Frame, distance: Scalar) -> Sequence[Scalar]:
    """State (p . p / distance - distance) / 2: the error of the distance near closure, and smooth at the centre."""
    return [(dot(frame.position, frame.position) / distance - distance) * 0.5]


LOOP_COMPONENTS: Mapping[str, tuple[str, ...]] = {
    "weld": ("px", "py", "pz", "ex", "ey", "ez"),
    "revolute": ("px", "py", "pz", "zx", "zy"),
    "prismatic": ("px", "py", "ex", "ey", "ez"),
    "helical": ("px", "py", "zx", "zy", "screw"),
    "cylindrical": ("px", "py", "zx", "zy"),
    "universal": ("px", "py", "pz", "xz"),
    "spherical": ("px", "py", "pz"),
    "planar": ("pz", "zx", "zy"),
    "point_on_line": ("px", "py"),
    "point_in_plane": ("pz",),
    "distance": ("distance",),
}
"""Names of the rows of each joint that closes a loop."""
SIZES = {"helical": "pitch", "distance": "distance"}
_OTHER_ROWS: Mapping[str, RelativeRows] = {"helical": _helical, "universal": _universal, "distance": _distance}


def _plain_rows(components: Sequence[str], frame: Frame, _size: Scalar) -> Sequence[Scalar]:
    """State the named rows of position (px, ...), rotation (ex, ...) and tilt (zx, zy)."""
    known: dict[str, Scalar] = dict(zip(("px", "py", "pz"), frame.position, strict=True))
    if "ex" in components:
        turn = rotation_difference(frame.orientation_xyzw, UPRIGHT)
        known |= zip(("ex", "ey", "ez"), turn, strict=True)
    if "zx" in components:
        known |= zip(("zx", "zy"), _tilt(frame), strict=True)
    return [known[name] for name in components]


LOOP_GROUPS: Mapping[str, RowGroup] = {
    joint: relative_group(
        f"loop_{joint}",
        len(components),
        _OTHER_ROWS.get(joint) or functools.partial(_plain_rows, components),
        has_size=joint in SIZES,
    )
    for joint, components in LOOP_COMPONENTS.items()
}
"""Rows of each joint that closes a loop."""


@functools.cache
def loop_group(joint: str, loose: tuple[str, ...] = ()) -> RowGroup:
    """Return the rows of a joint that closes a loop; loose rows c are c - clip(c, -slack, slack)."""
    group = LOOP_GROUPS[joint]

    def state(inputs: RowInputs) -> Sequence[Scalar]:
        rows = dict(zip(LOOP_COMPONENTS[joint], group.state(inputs), strict=True))
        for name in loose:
            slack = inputs.constants[name]
            rows[name] = rows[name] - minimum(maximum(rows[name], -slack), slack)
        return tuple(rows.values())

    name, constants = "_".join([group.name, "slack", *loose]), (*group.constants, *loose)
    return dataclasses.replace(group, name=name, state=state, constants=constants) if loose else group


class IKObjectiveLoop(ConstraintObjective):
    """Close a loop: constrain the pose of a frame on a link in a frame on another link, like a joint between both.

    residual = weight row_weights c, c the rows of the joint: errors of the pose of the frame in the reference frame,
    position p [m] and orientation q, in the directions fixed by the joint. Joint axes are the z axes of both frames.
    z is the tilt of these axes, (zx, zy) / cos(angle / 2), from the frame's z axis in the reference frame; e is
    2 sign(w) vec(q).

    | joint | rows |
    |---|---|
    | weld | p, e |
    | revolute | p, z |
    | prismatic | px, py, e |
    | helical | px, py, z, pz minus pitch times the angle about z, up to whole turns |
    | cylindrical | px, py, z |
    | universal | p, reference z . x (the two axes are at right angles) |
    | spherical | p |
    | planar | pz, z |
    | point_on_line | px, py |
    | point_in_plane | pz |
    | distance | (p . p / distance - distance) / 2 |

    Rows of limits follow: for each limited coordinate of the joint, the distance beyond its limits. A row c with slack
    is c - clip(c, -slack, slack). Joints and frames follow multibody dynamics [Featherstone2008 (8)].

    Args:
        link: Name of the link that carries the frame.
        reference_link: Name of the link that carries the reference frame; None for the world.
        joint: Name of the joint, from the table above.
        offset: T_link_frame, position [m] and quaternion xyzw, shape [7]; None for the link's own frame.
        reference_offset: T_reference_link_frame, as `offset`.
        pitch: Pitch of a helical joint: translation along the axis per angle [m/rad], not 0; required there.
        distance: Distance of the origins [m], above 0, of joint "distance"; required there.
        limits: Lower and upper limit of each coordinate of the joint [m or rad], shape [coordinates, 2], or [2] for one
            coordinate; infinite for none. Angles, except of a helical joint, are known up to whole turns and need both
            limits or none. None for no limits.
        slack: Tolerances of rows [m or rad], above 0, by row names, such as {"zx": 1e-5}; None for no slack.
        row_weights: Weights of the rows, shape [rows] or [problem_count, rows]; 0 disables a row.
        weight: Factor of all rows [1/m and 1/rad].

    Raises:
        InputError: The joint is unknown, a number is missing or not for this joint, a value has a wrong shape or is not
            finite, or a quaternion is not of unit length.
    """

    def __init__(
        self,
        link: str,
        reference_link: str | None,
        joint: str,
        *,
        offset: Any = None,
        reference_offset: Any = None,
        pitch: float | None = None,
        distance: float | None = None,
        limits: Any = None,
        slack: Any = None,
        row_weights: Any = None,
        weight: float = 1.0,
    ) -> None:
        if joint not in LOOP_GROUPS:
            raise InputError(f"IKObjectiveLoop: joint is {joint!r}. Allowed: {', '.join(map(repr, LOOP_GROUPS))}.")
        self._joint, self._size = joint, _size_of(joint, {"pitch": pitch, "distance": distance})
        self._links = link, reference_link
        self._offsets = (
            checked_offset("IKObjectiveLoop", "offset", offset),
            checked_offset("IKObjectiveLoop", "reference_offset", reference_offset),
        )
        try:
            self._slack = dict(slack or ())
            is_good = all(name in LOOP_COMPONENTS[joint] and 0.0 < one < np.inf for name, one in self._slack.items())
        except (TypeError, ValueError):
            is_good = False
        if not is_good:
            allowed = f"numbers above 0 by names of rows: {', '.join(LOOP_COMPONENTS[joint])}"
            raise InputError(f"IKObjectiveLoop: slack of joint {joint!r} is {slack!r}. Allowed: {allowed}.")
        self._limits: tuple[tuple[float, float], ...] = ()
        self._limited: tuple[int, ...] = ()
        if limits is not None:
            try:
                self._limits = limit_pairs(joint, limits)
            except InputError as error:
                raise InputError(f"IKObjectiveLoop: {error}") from None
            self._limited = limited_coordinates(joint, self._limits)
        row_count = LOOP_GROUPS[joint].row_count + len(self._limited)
        super().__init__([], row_count=row_count, row_weights=row_weights, weight=weight)

    @property
    def joint(self) -> str:
        """Name of the joint that closes the loop."""
        return self._joint

    @property
    def links(self) -> tuple[str, str | None]:
        """Links of the frame and of the reference frame; None for the world."""
        return self._links

    def stated_elements(self, model: IKModel) -> Sequence[tuple[RowGroup, Sequence[Element]]]:
        """State the rows of the joint and of its limits."""
        groups = [loop_group(self._joint, tuple(self._slack))]
        if self._limited:
            groups.append(limit_group(self._joint, self._limited))
        return [(group, [self._element(model, group)]) for group in groups]

    @property
    def closing_coordinate_names(self) -> tuple[str, ...]:
        """Names of the joint's coordinates; "" for a single coordinate."""
        return CLOSING_COORDINATES[self._joint][1] if self._joint in CLOSING_COORDINATES else ()

    def closing_coordinates(self, model: IKModel) -> ElementTable | None:
        """Give the statement of the joint's coordinates on a robot; None for a joint without coordinates."""
        if self._joint not in CLOSING_COORDINATES:
            return None
        group = CLOSING_COORDINATES[self._joint][0]
        return build_element_table(group, [self._element(model, group)], 0, model)

    def _element(self, model: IKModel, group: RowGroup) -> Element:
        robot = RobotIndices(model)
        frames = tuple(body_frame(robot, link, offset) for link, offset in zip(self._links, self._offsets, strict=True))
        numbers: tuple[float, ...] = ()
        if self._size is not None and SIZE in group.constants:
            numbers = (self._size,)
        numbers += tuple(one for name, one in self._slack.items() if name in group.constants)
        if group.shifts:
            numbers += tuple(limit_numbers(self._joint, self._limits, self._limited).values())
        return Element(frames, constants=numbers)


def _size_of(joint: str, given: Mapping[str, float | None]) -> float | None:
    wanted = SIZES.get(joint)
    for name, value in given.items():
        if name == wanted and value is None:
            raise InputError(f"IKObjectiveLoop: joint {joint!r} needs {name}.")
        if name != wanted and value is not None:
            raise InputError(f"IKObjectiveLoop: joint {joint!r} has no {name}.")
    if wanted is None:
        return None
    size = float(given[wanted] or 0.0)
    if not np.isfinite(size) or size == 0.0 or (wanted == "distance" and size < 0.0):
        allowed = "a positive number" if wanted == "distance" else "a number that is not 0"
        raise InputError(f"IKObjectiveLoop: {wanted} is {given[wanted]}; allowed: {allowed}.")
    return size


COEFFICIENTS_MOST = 16


@cache
def _group(count: int) -> RowGroup:
    """Make the row of a polynomial with `count` coefficients; cached, so that its kernels are built once."""
    names = tuple(f"c{k}" for k in range(count))

    def state(inputs: RowInputs) -> Sequence[Scalar]:
        value: Scalar = 0.0
        for name in reversed(names):
            value = value * inputs.coordinates["reference"] + inputs.constants[name]
        return [inputs.coordinates["q"] - value]

    return RowGroup(f"coupling_{count}", 1, state, coordinates=("q", "reference"), constants=names)


class IKObjectiveCoupling(ConstraintObjective):
    """Couple two joints, like gears and cams.

    residual = weight row_weights (q - (c0 + c1 r + c2 r^2 + ...)), one row: q is the coordinate of the joint [rad or
    m], r the coordinate of the reference joint, c the coefficients.

    Args:
        joint: Name of the joint, with one coordinate.
        reference_joint: Name of the reference joint, with one coordinate.
        coefficients: Coefficients of the polynomial, the constant first, 2 to 16; for a gear: offset and ratio.
        row_weights: Weight of the row, shape [1] or [problem_count, 1]; 0 disables the row.
        weight: Factor of the row [1/m or 1/rad].

    Raises:
        InputError: The joints are the same, or the coefficients are not 2 to 16 finite numbers.
    """

    def __init__(
        self,
        joint: str,
        reference_joint: str,
        coefficients: Sequence[float],
        *,
        row_weights: Any = None,
        weight: float = 1.0,
    ) -> None:
        if joint == reference_joint:
            raise InputError(f"IKObjectiveCoupling couples joint '{joint}' to itself. Allowed: two joints.")
        numbers = np.asarray(coefficients, np.float64)
        if numbers.ndim != 1 or not 2 <= len(numbers) <= COEFFICIENTS_MOST or not np.isfinite(numbers).all():
            allowed = f"2 to {COEFFICIENTS_MOST} finite numbers, the constant first"
            raise InputError(f"IKObjectiveCoupling: coefficients is {coefficients}; allowed: {allowed}.")
        self._joints, self._coefficients = (joint, reference_joint), tuple(numbers.tolist())
        super().__init__([], row_count=1, row_weights=row_weights, weight=weight)

    @property
    def joints(self) -> tuple[str, str]:
        """Names of the joint and the reference joint."""
        return self._joints

    def stated_elements(self, model: IKModel) -> Sequence[tuple[RowGroup, Sequence[Element]]]:
        """State the row; UnknownNameError for an unknown joint, InputError for a joint with several coordinates."""
        robot = RobotIndices(model)
        dofs = []
        for name in self._joints:
            own = robot.scalar_dofs(robot.select_joints([name], type(self).__name__))
            if len(own) != 1:
                raise InputError(f"IKObjectiveCoupling: joint '{name}' has not one coordinate; allowed: one that has.")
            dofs.append(own[0])
        element = Element(coordinate_dofs=tuple(dofs), constants=self._coefficients)
        return [(_group(len(self._coefficients)), [element])]
