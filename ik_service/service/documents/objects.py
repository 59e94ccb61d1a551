"""Objects of a world in a document: in a request, or of a world that is kept."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from ik_service.robots import DistanceGrid, World
from ik_service.robots.readers.world_file import read_world
from ik_service.service.codecs.packed_column import PackedColumn
from ik_service.service.errors.exceptions import FaultyFieldsError, faulty_field, pointer_token
from ik_service.service.schema.limits import NAME_LENGTH, OBJECTS_OF_A_GRID
from objectives.errors import InputError


class WorldLimits(NamedTuple):
    """The most that a world may have.

    Attributes:
        objects: Objects.
        nodes: Nodes of all its grids.
        where: Where so much is allowed, for messages.
    """

    objects: int
    nodes: int
    where: str


def read_objects(objects: Any, pointer: str, limits: WorldLimits) -> World:
    """Return the world that has some objects.

    Args:
        objects: As a codec decodes them.
        pointer: JSON pointer to them.
        limits: The most that there may be.

    Raises:
        FaultyFieldsError: They are no objects, or too many.
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
            _ = grid.steepness  # takes a while: found here, it does not hold up the solver's thread
    except FaultyFieldsError:
        raise
    except InputError as error:
        raise faulty_field(pointer, "invalid_value", str(error)) from None
    return world


def counted_objects(world: World | None) -> int:
    """Return how many objects a world has, a grid counting as several: what it costs to look at all of them."""
    if world is None:
        return 0
    grids = sum(isinstance(shape, DistanceGrid) for shape in world.objects.values())
    return len(world.objects) + (OBJECTS_OF_A_GRID - 1) * grids


def _check_names(objects: Mapping[Any, Any], limits: WorldLimits) -> None:
    """Refuse too many objects, and names that are too long.

    Raises:
        InputError: There are such.
    """
    if len(objects) > limits.objects:
        raise InputError(f"There are {len(objects)} objects. Allowed in {limits.where}: {limits.objects}.")
    longest = max((len(name) for name in objects if isinstance(name, str)), default=0)
    if longest > NAME_LENGTH:
        raise InputError(f"The name of an object has {longest} characters. Allowed: {NAME_LENGTH}.")


def _unpacked(pointer: str, fields: Any) -> Any:
    """Return the fields of an object with the packed distances of a grid as an array."""
    values = fields.get("values") if isinstance(fields, dict) else None
    if not isinstance(values, PackedColumn):
        return fields
    return {**fields, "values": values.array(f"{pointer}/values")}
