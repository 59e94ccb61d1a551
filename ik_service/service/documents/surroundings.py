"""Objects of a world, in a request or in an uploaded world, and objects attached to links."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ik_service.collision.body_spheres import checked_attached
from ik_service.collision.world import MAX_ATTACHED
from ik_service.robots import AttachedObject, DistanceGrid, RobotModel, World
from ik_service.robots.readers.world_file import read_world
from ik_service.service.codecs.codec import PackedColumn
from ik_service.service.documents.columns import read_rows
from ik_service.service.documents.envelope import check_link
from ik_service.service.documents.frames import NAMES_SHOWN, Switches
from ik_service.service.errors.exceptions import FaultyFieldsError, faulty_field, pointer_token
from ik_service.service.schema.collision import MAX_GRID_NODES, REQUEST_OBJECTS_MAX, SolveWorld
from ik_service.service.schema.limits import NAME_LENGTH, OBJECTS_OF_A_GRID
from ik_service.solver.given.options import SolverOptions
from ik_service.solver.given.worlds import read_worlds
from objectives.errors import InputError

NOTHING_ATTACHED: Mapping[str, AttachedObject] = {}  # sent to the builder process: a mapping proxy cannot be pickled


class WorldLimits(NamedTuple):
    """Size limits of a world."""

    objects: int  # largest number of objects
    nodes: int  # largest number of nodes of all grids together
    where: str  # scope of the limits, for messages


REQUEST_LIMITS = WorldLimits(REQUEST_OBJECTS_MAX, MAX_GRID_NODES, "one request")


class Surroundings(NamedTuple):
    """Obstacles around the robot in a request, and attached objects."""

    world: World | None = None  # the obstacles; None: no obstacles
    # enabled obstacles, bool [objects] or [problem_count, objects]; None: all
    object_enabled: NDArray[np.bool_] | None = None
    attached: Mapping[str, AttachedObject] = NOTHING_ATTACHED  # objects attached to links, by name


def read_surroundings(
    given: SolveWorld | None, robot: RobotModel, options: SolverOptions, count: int, kept: Mapping[str, World]
) -> Surroundings:
    """Return the obstacles around the robot in a request, and the attached objects; `kept` are uploaded worlds by name.

    FaultyFieldsError if the world is invalid, or the robot has no collision model.
    """
    found = Surroundings()
    if given is not None:
        world = _world_of(given, kept)
        enabled = Switches("world", "object", world.names).read(given.disable, count, "/world/disable")
        found = Surroundings(world, enabled, _read_attached(given.attached, robot, world))
    try:
        read_worlds(robot, options, found.world, None, found.object_enabled, found.attached, count)
    except InputError as error:
        pointer = "/options/collision" if given is None else "/world"
        raise faulty_field(pointer, "no_collision_check", str(error)) from None
    return found


def _world_of(given: SolveWorld, kept: Mapping[str, World]) -> World:
    if given.name is None:
        return read_objects(given.objects, "/world/objects", REQUEST_LIMITS)
    if given.objects:
        raise faulty_field("/world/objects", "invalid_value", "Give 'name' or 'objects', not both.")
    if given.name not in kept:
        known = ", ".join(f"'{one}'" for one in list(kept)[:NAMES_SHOWN]) or "none"
        known += ", ..." if len(kept) > NAMES_SHOWN else ""
        raise faulty_field("/world/name", "unknown_world", f"No world of this name is kept. Worlds: {known}.")
    return kept[given.name]


def _read_attached(given: Any, robot: RobotModel, world: World) -> Mapping[str, AttachedObject]:
    if not isinstance(given, dict):
        raise faulty_field("/world/attached", "wrong_type", "Give an object of attached objects by their names.")
    if len(given) > MAX_ATTACHED:
        detail = f"{len(given)} objects are attached. Allowed: {MAX_ATTACHED}."
        raise faulty_field("/world/attached", "invalid_value", detail)
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


def read_objects(objects: Any, pointer: str, limits: WorldLimits) -> World:
    """Return the world with the given objects; FaultyFieldsError for invalid objects, or too many objects."""
    try:
        if isinstance(objects, dict):
            if len(objects) > limits.objects:
                raise InputError(f"There are {len(objects)} objects. Allowed in {limits.where}: {limits.objects}.")
            longest = max((len(name) for name in objects if isinstance(name, str)), default=0)
            if longest > NAME_LENGTH:
                raise InputError(f"The name of an object has {longest} characters. Allowed: {NAME_LENGTH}.")
            objects = {name: _unpacked(f"{pointer}/{pointer_token(name)}", own) for name, own in objects.items()}
        world = read_world({"objects": objects})
        grids = [shape for shape in world.objects.values() if isinstance(shape, DistanceGrid)]
        nodes = sum(grid.values.size for grid in grids)
        if nodes > limits.nodes:
            raise InputError(f"The grids have {nodes} nodes. Allowed in {limits.where}: {limits.nodes}.")
        for grid in grids:
            _ = grid.steepness  # slow: cached here, off the solver thread
    except FaultyFieldsError:
        raise
    except InputError as error:
        raise faulty_field(pointer, "invalid_value", str(error)) from None
    return world


def counted_objects(world: World) -> int:
    """Return the cost of a distance query to all objects, in objects; a grid counts as several objects."""
    grids = sum(isinstance(shape, DistanceGrid) for shape in world.objects.values())
    return len(world.objects) + (OBJECTS_OF_A_GRID - 1) * grids


def _unpacked(pointer: str, fields: Any) -> Any:
    """Return the fields of an object, with packed grid distances as an array."""
    values = fields.get("values") if isinstance(fields, dict) else None
    if not isinstance(values, PackedColumn):
        return fields
    return {**fields, "values": values.array(f"{pointer}/values")}
