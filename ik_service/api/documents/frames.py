"""Checks of links, tool frames, constraints, worlds and numbers of rows, for the documents of several routes."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ik_service.api.codecs.packed_column import PackedColumn
from ik_service.api.documents.columns import check_unit_quaternions, read_row_or_rows, read_rows
from ik_service.api.errors.exceptions import faulty_field, pointer_token
from ik_service.api.schema.collision import MAX_GRID_NODES, MAX_OBJECTS, SolveWorld
from ik_service.api.schema.fields import Offset
from ik_service.api.schema.limits import NAME_LENGTH
from ik_service.batching.requests.target_keys import FloatArray
from ik_service.robots import AttachedObject, DistanceGrid, RobotModel, World
from ik_service.robots.collision_checks.body_spheres import checked_attached
from ik_service.robots.files.geometry.world_file import read_world
from ik_service.solver import SolverOptions
from ik_service.solver.inputs.worlds import read_worlds
from objectives.errors import InputError, UnknownNameError

NAMES_SHOWN = 32
"""Names that a message lists at most."""


def check_link(name: str, robot: RobotModel, pointer: str) -> None:
    """Refuse a link that is not in the robot.

    Raises:
        FaultyFieldsError: The robot has no such link.
    """
    try:
        robot.link_frame(name)
    except UnknownNameError as error:
        raise faulty_field(pointer, "unknown_link", str(error)) from error


def read_offset(offset: Offset, pointer: str) -> FloatArray:
    """Return a tool frame in the link frame: position [m] and unit quaternion xyzw, shape [7] or [n, 7].

    Raises:
        FaultyFieldsError: Not rows of numbers within the limits.
        TooManyProblemsError: Too many rows.
    """
    position: FloatArray = np.zeros(3)
    orientation: FloatArray = np.array([0.0, 0.0, 0.0, 1.0])
    if offset.position is not None:
        position = read_row_or_rows(offset.position, 3, f"{pointer}/position")
    if offset.orientation_xyzw is not None:
        orientation = read_row_or_rows(offset.orientation_xyzw, 4, f"{pointer}/orientation_xyzw")
        check_unit_quaternions(orientation, f"{pointer}/orientation_xyzw")
        orientation = orientation / np.linalg.norm(orientation, axis=-1, keepdims=True)
    if position.ndim == orientation.ndim == 2:
        check_count(len(orientation), len(position), f"{pointer}/orientation_xyzw")
    rows = np.broadcast_shapes(position.shape[:-1], orientation.shape[:-1])
    return np.concatenate([np.broadcast_to(part, (*rows, part.shape[-1])) for part in (position, orientation)], axis=-1)


def check_count(given: int, expected: int, pointer: str) -> None:
    """Refuse a column whose number of rows is not the number of problems.

    Raises:
        FaultyFieldsError: The numbers differ.
    """
    if given != expected:
        here = f"This is {given}" if pointer == "/problem_count" else f"There are {given} rows here"
        detail = f"{here}, and there are {expected} problems in the columns before. They must agree."
        raise faulty_field(pointer, "wrong_shape", detail)


def read_disabled(value: Any, robot: RobotModel, count: int) -> NDArray[np.bool_] | None:
    """Return which constraints of a robot are enabled, [constraints] or [problem_count, constraints]; None for all.

    Args:
        value: Names for all problems, or a list of names for each.
        robot: The robot.
        count: Number of problems.

    Raises:
        FaultyFieldsError: Not such a list, or a name that the robot does not have.
    """
    return _Switches("robot", "constraint", robot.constraint_names).read(value, count, "/constraints/disable")


class Surroundings(NamedTuple):
    """What is around the robot in a request, and what it carries.

    Attributes:
        world: The objects; None for none.
        object_enabled: Which of them are there, [objects] or [problem_count, objects]; None for all.
        attached: What links carry, by name.
    """

    world: World | None = None
    object_enabled: NDArray[np.bool_] | None = None
    attached: Mapping[str, AttachedObject] = MappingProxyType({})


def read_surroundings(given: SolveWorld | None, robot: RobotModel, options: SolverOptions, count: int) -> Surroundings:
    """Return what is around the robot in a request.

    Raises:
        FaultyFieldsError: It is none, or the robot cannot be checked for collision.
    """
    found = Surroundings()
    world = None
    try:
        if given is not None:
            objects = given.objects
            if isinstance(objects, dict):
                _check_names(objects)
                objects = {name: _unpacked(name, fields) for name, fields in objects.items()}
            world = read_world({"objects": objects})
            _check_nodes(world)
    except InputError as error:
        raise faulty_field("/world/objects", "invalid_value", str(error)) from None
    if given is not None and world is not None:
        enabled = _Switches("world", "object", world.names).read(given.disable, count, "/world/disable")
        found = Surroundings(world, enabled, _read_attached(given.attached, robot, world))
    try:
        read_worlds(robot, options, world, None, found.object_enabled, found.attached, count)
    except InputError as error:
        pointer = "/options/collision" if world is None else "/world"
        raise faulty_field(pointer, "no_collision_check", str(error)) from None
    return found


def _read_attached(given: Any, robot: RobotModel, world: World) -> Mapping[str, AttachedObject]:
    """Return what links carry, by name.

    Raises:
        FaultyFieldsError: It is not as it must be.
    """
    if not isinstance(given, dict):
        raise faulty_field("/world/attached", "wrong_type", "Give an object of attached objects by their names.")
    found = {}
    for name, fields in given.items():
        pointer = f"/world/attached/{pointer_token(name)}"
        if not isinstance(fields, dict) or not {"link", "spheres"} <= fields.keys() <= {"link", "spheres", "touches"}:
            raise faulty_field(pointer, "wrong_type", "Give 'link', 'spheres' and, where it may touch, 'touches'.")
        if not isinstance(fields["link"], str):
            raise faulty_field(f"{pointer}/link", "wrong_type", "Give the name of a link.")
        check_link(fields["link"], robot, f"{pointer}/link")
        spheres = read_rows(fields["spheres"], 4, f"{pointer}/spheres")
        touches = fields.get("touches", [])
        if not isinstance(touches, list) or not all(isinstance(one, str) for one in touches):
            raise faulty_field(f"{pointer}/touches", "wrong_type", "Give a list of names.")
        try:
            found[name] = AttachedObject(fields["link"], spheres, touches)
        except InputError as error:
            raise faulty_field(f"{pointer}/spheres", "invalid_value", str(error)) from None
    try:
        if found and robot.body_spheres is not None:
            checked_attached(robot, robot.body_spheres, found, world.names)
    except InputError as error:
        raise faulty_field("/world/attached", "invalid_value", str(error)) from None
    return found


def _check_names(objects: Mapping[Any, Any]) -> None:
    """Refuse too many objects, and names that are too long.

    Raises:
        InputError: There are such.
    """
    if len(objects) > MAX_OBJECTS:
        raise InputError(f"There are {len(objects)} objects. Allowed in one request: {MAX_OBJECTS}.")
    longest = max((len(name) for name in objects if isinstance(name, str)), default=0)
    if longest > NAME_LENGTH:
        raise InputError(f"The name of an object has {longest} characters. Allowed: {NAME_LENGTH}.")


def _unpacked(name: str, fields: Any) -> Any:
    """Return the fields of an object with the packed distances of a grid as an array."""
    values = fields.get("values") if isinstance(fields, dict) else None
    if not isinstance(values, PackedColumn):
        return fields
    return {**fields, "values": values.array(f"/world/objects/{pointer_token(name)}/values")}


def _check_nodes(world: World) -> None:
    """Refuse grids of too many nodes.

    Raises:
        InputError: There are such.
    """
    nodes = sum(shape.values.size for shape in world.objects.values() if isinstance(shape, DistanceGrid))
    if nodes > MAX_GRID_NODES:
        raise InputError(f"The grids have {nodes} nodes. Allowed in one request: {MAX_GRID_NODES}.")


class _Switches(NamedTuple):
    """Things that a request can switch off by their names.

    Attributes:
        owner: What has them.
        what: What they are.
        names: Their names.
    """

    owner: str
    what: str
    names: Sequence[str]

    def read(self, value: Any, count: int, pointer: str) -> NDArray[np.bool_] | None:
        """Return which are on, [names] or [count, names]; None for all."""
        if not isinstance(value, list):
            raise faulty_field(pointer, "wrong_type", "Give a list of names, or a list of them for each problem.")
        if not value:
            return None
        places = {name: place for place, name in enumerate(self.names)}
        if not isinstance(value[0], list):
            enabled = self._enabled(value, pointer, places)
            return None if enabled.all() else enabled
        check_count(len(value), count, pointer)
        lines = np.array([self._enabled(names, f"{pointer}/{k}", places) for k, names in enumerate(value)])
        if not (lines == lines[0]).all():
            return lines
        return None if lines[0].all() else np.asarray(lines[0])

    def _enabled(self, names: Any, pointer: str, places: Mapping[str, int]) -> NDArray[np.bool_]:
        """Return which a list of names leaves on, [names]."""
        if not isinstance(names, list):
            raise faulty_field(pointer, "wrong_type", "Give a list of names.")
        enabled = np.ones(len(self.names), dtype=bool)
        for k, name in enumerate(names):
            if not isinstance(name, str):
                raise faulty_field(f"{pointer}/{k}", "wrong_type", f"Give the name of a {self.what}.")
            if name not in places:
                known = ", ".join(f"'{one[:60]}'" for one in self.names[:NAMES_SHOWN]) or "none"
                known += ", ..." if len(self.names) > NAMES_SHOWN else ""
                detail = f"The {self.owner} has no {self.what} of this name. {self.what.capitalize()}s: {known}."
                raise faulty_field(f"{pointer}/{k}", f"unknown_{self.what}", detail)
            enabled[places[name]] = False
        return enabled
