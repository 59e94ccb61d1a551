"""The documents of collision as JSON schema: worlds, and checks of configurations."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from ik_service.collision.distance_grid import LEAST_SPACING
from ik_service.collision.world import MAX_ATTACHED, MAX_ATTACHED_SPHERES
from ik_service.robots.readers.world_file import SHAPES, ShapeFields
from ik_service.service.schema import limits
from ik_service.service.schema.fields import NAME_LISTS, NAMES, Envelope, column, row

REQUEST_OBJECTS_MAX = 256
"""Objects of a world in one request."""
MAX_GRID_NODES = 1 << 18
"""Nodes of all grids in one request."""
MAX_KEPT_OBJECTS, MAX_KEPT_NODES = 4096, 1 << 21
"""Objects of a world that is kept, and nodes of all its grids."""
MAX_KEPT_BYTES = 16 * 1024 * 1024
"""Bytes of a world that is kept, as MessagePack."""
MAX_CHECK_EFFORT = 100_000_000
"""Most distances of one check, configurations x (pairs of spheres + spheres x objects); grids count several times."""
WORLD: dict[str, Any] = {"objects": {"table": {"shape": "box", "size": [1, 1, 0.1], "position": [0.5, 0, -0.1]}}}
CHECK_REQUEST: dict[str, Any] = {"joint_q": [[0, -0.785, 0, -2.356, 0, 1.571, 0.785]], "world": WORLD}
_POSITIVE = {"type": "number", "minimum": 0.0, "maximum": limits.MAX_VALUE}
_NUMBER = {"type": "number", "minimum": -limits.MAX_VALUE, "maximum": limits.MAX_VALUE}
_FIELDS: dict[str, dict[str, Any]] = {
    "radius": {**_POSITIVE, "description": "[m]."},
    "length": {**_POSITIVE, "description": "Of its axis, which is z [m]."},
    "size": {**row(3, 0.0), "description": "Lengths of its edges along x, y and z [m]."},
    "position": {
        **row(3),
        "description": "In the world frame, of its middle; of the first node of a grid [m]. Default: 0, 0, 0.",
    },
    "orientation_xyzw": {**row(4), "description": "Unit quaternion x, y, z, w. Default: 0, 0, 0, 1."},
    "values": {
        "type": "array",
        "minItems": 2,
        "items": {"type": "array", "minItems": 2, "items": {**row(None, least_width=2)}},
        "description": f"Signed distance at the nodes, by their number along x, y and z [m]. At most {MAX_GRID_NODES} "
        f"in all grids of a request, {MAX_KEPT_NODES} of a world that is kept.",
    },
    "spacing": {"type": "number", "minimum": LEAST_SPACING, "description": "Between neighbouring nodes [m]."},
    "normal": {**row(3), "description": "Direction out of the half-space, of length 1."},
    "offset": {**_NUMBER, "description": "Distance of its plane from the origin along the normal [m]. Default: 0."},
}


def _shape(name: str, fields: ShapeFields) -> dict[str, Any]:
    properties = {key: _FIELDS[key] for key in (*fields.required, *fields.optional)}
    return {
        "type": "object",
        "properties": {"shape": {"const": name}, **properties},
        "required": ["shape", *fields.required],
        "additionalProperties": False,
    }


def _objects(most: int) -> dict[str, Any]:
    return {
        "type": "object",
        "propertyNames": {"minLength": 1, "maxLength": limits.NAME_LENGTH},
        "additionalProperties": {"oneOf": [_shape(name, fields) for name, fields in SHAPES.items()]},
        "maxProperties": most,
    }


_SPHERE = {"type": "array", "items": {"type": "number"}, "minItems": 4, "maxItems": 4}
ATTACHED: dict[str, Any] = {
    "type": "object",
    "propertyNames": {"minLength": 1, "maxLength": limits.NAME_LENGTH},
    "additionalProperties": {
        "type": "object",
        "properties": {
            "link": {"type": "string", "description": "The link that carries it."},
            "spheres": {
                "type": "array",
                "items": _SPHERE,
                "minItems": 1,
                "maxItems": MAX_ATTACHED_SPHERES,
                "description": "Centres in the link's frame and radii [m]: x, y, z, radius.",
            },
            "touches": {**NAMES, "description": "Links, objects and other attached objects that it may touch."},
        },
        "required": ["link", "spheres"],
        "additionalProperties": False,
    },
    "maxProperties": MAX_ATTACHED,
}
"""Attached objects by their names."""


class SolveWorld(Envelope):
    """Obstacles around the robot, the same for all problems but for disabled objects."""

    name: str | None = Field(
        default=None, max_length=limits.NAME_LENGTH, description="A world that is kept, in place of `objects`."
    )
    objects: Annotated[Any, WithJsonSchema(_objects(REQUEST_OBJECTS_MAX))] = Field(
        default_factory=dict, description="Spheres, capsules, cylinders, boxes, half-spaces and grids, by their names."
    )
    disable: Annotated[Any, NAME_LISTS] = Field(
        default_factory=list,
        description="Names of objects that are not there: one list, or one per problem; then at most "
        f"{limits.MAX_SWITCH_COUNT} problems x objects.",
    )
    attached: Annotated[Any, WithJsonSchema(ATTACHED)] = Field(
        default_factory=dict,
        description="What links carry, by name. It keeps off all that moves against its link, and off the objects.",
    )


class WorldBody(Envelope):
    """A world that is kept, for requests that name it."""

    model_config = ConfigDict(json_schema_extra={"examples": [WORLD]})

    objects: Annotated[Any, WithJsonSchema(_objects(MAX_KEPT_OBJECTS))] = Field(
        description="Spheres, capsules, cylinders, boxes, half-spaces and grids, by their names."
    )


class WorldSummary(BaseModel):
    """One world of the list."""

    name: str
    objects: int = Field(description="Objects that it has.")
    nodes: int = Field(description="Nodes of all its grids.")


class WorldList(BaseModel):
    """The worlds that are kept."""

    worlds: list[WorldSummary]


class CheckRequestBody(Envelope):
    """Configurations of one robot that are to be checked for collision."""

    model_config = ConfigDict(json_schema_extra={"examples": [CHECK_REQUEST]})

    joint_q: Annotated[Any, WithJsonSchema(column(row(None, least_width=0)))] = Field(
        description="One row of coordinates per configuration [rad or m], in the order of `coordinate_names`."
    )
    world: SolveWorld | None = Field(default=None, description="Objects around the robot; null for none.")


class CheckAnswerBody(BaseModel):
    """Distances of configurations from contact; row k of every column belongs to configuration k."""

    robot: str
    clearance_m: list[float | None] = Field(
        description="Least distance of links from each other and from objects [m], negative in contact; null where "
        "nothing can touch."
    )
    closest: list[list[int]] = Field(
        description="The two that are closest, by their places in `collision_names`; -1, -1 where nothing can touch."
    )
    collision_names: list[str] = Field(description="Links that have spheres, attached objects, objects of the world.")
