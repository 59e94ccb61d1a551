"""Checks of tool frames, constraints and limits, for the documents of several routes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ik_service.mechanism.caller_order import CallerOrder
from ik_service.robots import RobotModel
from ik_service.service.documents.columns import check_unit_quaternions, read_row_or_rows, wrong_count
from ik_service.service.errors.exceptions import faulty_field, pointer_token
from ik_service.service.queue.objective_data import FloatArray
from ik_service.service.schema.fields import Offset
from ik_service.service.schema.limits import MAX_LIMIT_COUNT, MAX_SWITCH_COUNT, MAX_VALUE
from ik_service.service.schema.solve import SolveRequestBody
from ik_service.solver.given.requested_limits import LimitReading, RequestedLimits
from objectives.errors import InputError, UnknownNameError

NAMES_SHOWN = 32
"""Names that a message lists at most."""


def read_offset(offset: Offset, pointer: str) -> FloatArray:
    """Return a tool frame in the link frame: position [m] and unit quaternion xyzw, shape [7] or [n, 7].

    Errors as in `read_rows`.
    """
    position: FloatArray = np.zeros(3)
    orientation: FloatArray = np.array([0.0, 0.0, 0.0, 1.0])
    if offset.position is not None:
        position = read_row_or_rows(offset.position, 3, f"{pointer}/position")
    if offset.orientation_xyzw is not None:
        orientation = read_row_or_rows(offset.orientation_xyzw, 4, f"{pointer}/orientation_xyzw")
        check_unit_quaternions(orientation, f"{pointer}/orientation_xyzw")
        orientation = orientation / np.linalg.norm(orientation, axis=-1, keepdims=True)
    if position.ndim == orientation.ndim == 2 and len(orientation) != len(position):
        raise wrong_count(len(orientation), len(position), f"{pointer}/orientation_xyzw")
    rows = np.broadcast_shapes(position.shape[:-1], orientation.shape[:-1])
    return np.concatenate([np.broadcast_to(part, (*rows, part.shape[-1])) for part in (position, orientation)], axis=-1)


def read_disabled(value: Any, robot: RobotModel, count: int) -> NDArray[np.bool_] | None:
    """Return the enabled constraints of a robot, bool [1 or problem_count, constraints]; None: all.

    The value has names of disabled constraints for all problems, or a list of names for each problem; otherwise, and
    for an unknown name, FaultyFieldsError.
    """
    found = Switches("robot", "constraint", robot.constraint_names).read(value, count, "/constraints/disable")
    return None if found is None else np.atleast_2d(found)


def read_requested_limits(
    body: SolveRequestBody, robot: RobotModel, start: FloatArray | None, count: int
) -> RequestedLimits | None:
    """Return the requested limits of joints; None: the limits of the robot.

    `start` are the initial configurations, shape [problem_count, joint_coord_count]; None: none given.
    FaultyFieldsError if the limits violate the schema, name an unknown joint, or leave a joint no allowed value.
    """
    if count * robot.active_dof_count > MAX_LIMIT_COUNT:
        most = MAX_LIMIT_COUNT // robot.active_dof_count
        raise faulty_field("/problem_count", "out_of_range", f"Problems of a request with limits of its own: {most}.")
    limits = None
    if body.joint_limits is not None:
        limits = {
            name: read_row_or_rows(ends, 2, f"/joint_limits/{pointer_token(name)}").T
            for name, ends in body.joint_limits.items()
        }
    moves = Switches("robot", "joint", robot.dof_names).read(body.frozen, count, "/frozen")
    reading = LimitReading(robot, CallerOrder(robot, None), start, count)
    parts: tuple[tuple[str, Any, Callable[[Any], None]], ...] = (
        ("joint_limits", limits, reading.narrow),
        ("max_change", read_numbers(body.max_change, "/max_change"), reading.keep_near),
        ("frozen", None if moves is None else ~moves, reading.freeze),
    )
    for name, given, read in parts:
        try:
            if given is not None:
                read(given)
        except UnknownNameError as error:
            raise faulty_field(f"/{name}", "unknown_joint", str(error)) from None
        except InputError as error:
            raise faulty_field(f"/{name}", "invalid_value", str(error)) from None
    return reading.found()


def read_numbers(value: Any, pointer: str) -> float | dict[str, float] | None:
    """Return one number for all joints, numbers by names, or None; FaultyFieldsError for others and numbers below 0."""
    if isinstance(value, dict):
        return {name: _read_number(one, f"{pointer}/{pointer_token(name)}") for name, one in value.items()}
    return None if value is None else _read_number(value, pointer)


def _read_number(value: Any, pointer: str) -> float:
    if type(value) not in (int, float):
        raise faulty_field(pointer, "wrong_type", "Give a number.")
    if not 0.0 <= value <= MAX_VALUE:  # false for NaN
        raise faulty_field(pointer, "out_of_range", f"Give a number from 0 to {MAX_VALUE:g}.")
    return float(value)


class Switches(NamedTuple):
    """Constraints, objects or other things with a switch by name in a request."""

    owner: str  # owner of the things, for messages
    what: str  # kind of the things, for messages
    names: Sequence[str]  # names of the things

    def read(self, value: Any, count: int, pointer: str) -> NDArray[np.bool_] | None:
        """Return the switches, bool [names] or [count, names]; None: all on."""
        if not isinstance(value, list):
            raise faulty_field(pointer, "wrong_type", "Give a list of names, or a list of them for each problem.")
        if not value:
            return None
        places = {name: place for place, name in enumerate(self.names)}
        if not isinstance(value[0], list):
            enabled = np.ones(len(self.names), dtype=bool)
            self._switch_off(enabled, value, pointer, places)
            return None if enabled.all() else enabled
        if len(value) != count:
            raise wrong_count(len(value), count, pointer)
        if count * len(self.names) > MAX_SWITCH_COUNT:
            detail = (
                f"{count} problems have lists of their own, and the {self.owner} has {len(self.names)} {self.what}s. "
                f"Allowed in one request: {MAX_SWITCH_COUNT // len(self.names)}. Give one list for all, or split them."
            )
            raise faulty_field(pointer, "out_of_range", detail)
        enabled = np.ones((count, len(self.names)), dtype=bool)
        for k, names in enumerate(value):
            self._switch_off(enabled[k], names, f"{pointer}/{k}", places)
        alike = enabled.all(axis=0)
        if (alike == enabled.any(axis=0)).all():
            return None if alike.all() else np.asarray(alike)
        return enabled

    def _switch_off(self, enabled: NDArray[np.bool_], names: Any, pointer: str, places: Mapping[str, int]) -> None:
        """Switch off the given names in `enabled`, shape [names]."""
        if not isinstance(names, list):
            raise faulty_field(pointer, "wrong_type", "Give a list of names.")
        for k, name in enumerate(names):
            if not isinstance(name, str):
                raise faulty_field(f"{pointer}/{k}", "wrong_type", f"Give the name of a {self.what}.")
            if name not in places:
                known = ", ".join(f"'{one[:60]}'" for one in self.names[:NAMES_SHOWN]) or "none"
                known += ", ..." if len(self.names) > NAMES_SHOWN else ""
                detail = f"The {self.owner} has no {self.what} of this name. {self.what.capitalize()}s: {known}."
                raise faulty_field(f"{pointer}/{k}", f"unknown_{self.what}", detail)
            enabled[places[name]] = False
