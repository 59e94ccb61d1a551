"""Objects of a world in a document: in a request, or in an uploaded world."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from ik_service.robots import DistanceGrid, World
from ik_service.robots.readers.world_file import read_world
from ik_service.service.codecs.packed_column import PackedColumn
from ik_service.service.errors.exceptions import FaultyFieldsError, faulty_field, pointer_token
from ik_service.service.schema.limits import NAME_LENGTH, OBJECTS_OF_A_GRID
from objectives.errors import InputError


class WorldLimits(NamedTuple):
    """Size limits of a world.

    Attributes:
        objects: Largest number of objects.
        nodes: Largest number of nodes of all grids together.
        where: Scope of the limits, for messages.
    """

    objects: int
    nodes: int
    where: str


def read_objects(objects: Any, pointer: str, limits: WorldLimits) -> World:
    """Return the world with the given objects.

    Args:
        objects: Decoded objects.
        pointer: JSON pointer to the objects.
        limits: Size limits.

    Raises:
        FaultyFieldsError: Invalid objects, or too many objects.
    """
    try:
        if isinstance(objects, dict):
            _check_names(objects, limits)
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


def _check_names(objects: Mapping[Any, Any], limits: WorldLimits) -> None:
    """Check the number of objects and the lengths of their names.

    Raises:
        InputError: Too many objects, or a name is too long.
    """
    if len(objects) > limits.objects:
        raise InputError(f"There are {len(objects)} objects. Allowed in {limits.where}: {limits.objects}.")
    longest = max((len(name) for name in objects if isinstance(name, str)), default=0)
    if longest > NAME_LENGTH:
        raise InputError(f"The name of an object has {longest} characters. Allowed: {NAME_LENGTH}.")


def _unpacked(pointer: str, fields: Any) -> Any:
    """Return the fields of an object, with packed grid distances as an array."""
    values = fields.get("values") if isinstance(fields, dict) else None
    if not isinstance(values, PackedColumn):
        return fields
    return {**fields, "values": values.array(f"{pointer}/values")}
