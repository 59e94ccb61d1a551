"""Worlds as documents, in files of JSON or YAML and over HTTP.

    {"objects": {NAME: {"shape": "box", "size": [x, y, z], "position": [x, y, z], "orientation_xyzw": [x, y, z, w]},
                 NAME: {"shape": "half_space", "normal": [x, y, z], "offset": d},
                 NAME: {"shape": "grid", "spacing": s, "values": [[[d, ...], ...], ...], "position": ...}, ...}}

Lengths are in metres, poses in the world frame; a missing pose is the identity. In a file, a grid may name a file of
`write_grid` instead: {"shape": "grid", "file": "shelf.npz"}.
"""

import zipfile
import zlib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ik_service.collision.distance_grid import MAX_NODES, DistanceGrid
from ik_service.collision.shapes import IDENTITY_POSE, Box, Capsule, Cylinder, HalfSpace, Sphere
from ik_service.collision.world import Obstacle, World
from ik_service.robots.readers.constraint_file import read_document, read_numbers
from ik_service.robots.readers.xml_reader import MAX_BYTES, shortened
from ik_service.whole_file import write_whole
from objectives.errors import InputError

MAX_MEMBER_BYTES = 8 * MAX_NODES + 4096  # largest array of a file: all nodes in float64, and the header


def write_grid(grid: DistanceGrid, path: str | Path) -> None:
    """Write a grid into a file, whole or not at all."""
    write_whole(
        Path(path),
        lambda file: np.savez_compressed(file, values=grid.values, spacing=grid.spacing, pose=np.array(grid.pose)),
    )


def read_grid(path: str | Path) -> DistanceGrid:
    """Read a grid from a file; InputError if the file is missing or is not a file of `write_grid`."""
    try:
        with zipfile.ZipFile(path) as archive:
            largest = max((member.file_size for member in archive.infolist()), default=0)
        if largest > MAX_MEMBER_BYTES:
            raise ValueError(f"an array of {largest} bytes")
        with np.load(path, allow_pickle=False) as arrays:
            values, spacing, pose = arrays["values"], arrays["spacing"].item(), arrays["pose"]
    except OSError as error:
        raise InputError(f"Grid '{path}' cannot be read: {error.strerror or error}.") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError, ValueError) as error:
        raise InputError(f"Grid '{path}' is no archive with values, spacing and pose: {error}.") from None
    try:
        return DistanceGrid(values, spacing, pose)
    except InputError as error:
        raise InputError(f"Grid '{path}': {error}") from None


BLOCK = -1


class ShapeFields(NamedTuple):
    """Fields of a shape in a document."""

    made_of: Callable[..., Obstacle]  # class of the shape
    # required fields and their count of numbers; 0 for a plain number, BLOCK for nested lists (3 levels)
    required: Mapping[str, int]
    optional: Mapping[str, int]  # optional fields, in the same form


_POSE = {"position": 3, "orientation_xyzw": 4}
SHAPES: Mapping[str, ShapeFields] = {
    "sphere": ShapeFields(Sphere, {"radius": 0}, {"position": 3}),
    "capsule": ShapeFields(Capsule, {"radius": 0, "length": 0}, _POSE),
    "cylinder": ShapeFields(Cylinder, {"radius": 0, "length": 0}, _POSE),
    "box": ShapeFields(Box, {"size": 3}, _POSE),
    "half_space": ShapeFields(HalfSpace, {"normal": 3}, {"offset": 0}),
    "grid": ShapeFields(DistanceGrid, {"values": BLOCK, "spacing": 0}, _POSE),
}
"""The shapes by their names in documents."""


def load_world(path: str | Path) -> World:
    """Read a world from a file of JSON or YAML; InputError if the file is not a world."""
    try:
        with Path(path).open("rb") as file:
            text = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"World '{path}' cannot be read: {error.strerror}.") from None
    try:
        return read_world(read_document(text), folder=Path(path).parent)
    except InputError as error:
        raise InputError(f"World '{path}': {error}") from None


def read_world(document: object, *, folder: Path | None = None) -> World:
    """Read a world from a document; InputError, which names the object, if the document is not a world.

    With the `folder` of a world file, grids may be files and numbers may be texts, because YAML reads 1e-3 as a text.
    """
    if not isinstance(document, Mapping) or document.keys() != {"objects"}:
        raise InputError("It must be a mapping with the key 'objects' and no other.")
    objects = document["objects"]
    if not isinstance(objects, Mapping):
        raise InputError("'objects' must be a mapping of names to shapes.")
    return World({name: _read_shape(name, fields, folder) for name, fields in objects.items()})


def world_document(world: World) -> dict[str, Any]:
    """Give a world as a document for `read_world`; distances of grids are arrays."""
    kinds = {fields.made_of: kind for kind, fields in SHAPES.items()}
    return {"objects": {name: _fields_of(kinds[type(shape)], shape) for name, shape in world.objects.items()}}


def _fields_of(kind: str, shape: Obstacle) -> dict[str, Any]:
    found: dict[str, Any] = {"shape": kind}
    for key in (*SHAPES[kind].required, *SHAPES[kind].optional):
        parts = {} if isinstance(shape, HalfSpace) else {"position": shape.pose[:3], "orientation_xyzw": shape.pose[3:]}
        value = parts[key] if key in parts else getattr(shape, key)
        found[key] = list(value) if isinstance(value, tuple) else value
    return found


def _read_shape(name: object, fields: object, folder: Path | None) -> Obstacle:
    where = f"Object '{shortened(str(name))}'"
    if not isinstance(fields, Mapping):
        raise InputError(f"{where} must be a mapping of fields.")
    kind = fields.get("shape")
    if not isinstance(kind, str) or kind not in SHAPES:
        told = "needs a 'shape'" if kind is None else f"has the unknown shape {shortened(repr(kind))}"
        raise InputError(f"{where} {told}. Shapes: {', '.join(SHAPES)}.")
    shape = SHAPES[kind]
    if kind == "grid" and "file" in fields and folder is not None:
        shape = ShapeFields(partial(_read_grid_file, folder), {"file": 0}, _POSE)
    widths = {**shape.required, **shape.optional}
    unknown = next((key for key in fields if key != "shape" and key not in widths), None)
    if unknown is not None:
        raise InputError(
            f"{where} has a field {shortened(repr(unknown))}, which a {kind} has not. Fields: {', '.join(widths)}."
        )
    missing = next((key for key in shape.required if key not in fields), None)
    if missing is not None:
        raise InputError(f"{where} needs the field '{missing}'.")
    try:
        known = [(key, width) for key, width in widths.items() if key in fields]
        given = {key: _read_field(key, fields[key], width, folder is not None) for key, width in known}
        if "orientation_xyzw" in widths:
            position = given.pop("position", IDENTITY_POSE[:3])
            given["pose"] = (*position, *given.pop("orientation_xyzw", IDENTITY_POSE[3:]))
        return shape.made_of(**given)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _read_field(key: str, value: Any, width: int, numbers_as_text: bool) -> Any:
    if key == "file":
        return value
    if width == BLOCK:
        return _read_block(key, value)
    listed = value if width else [value]
    if not numbers_as_text and isinstance(listed, list) and any(isinstance(number, str) for number in listed):
        raise InputError(f"'{key}' must have numbers, not texts.")
    return read_numbers(key, value, width) if width else read_numbers(key, listed, 1)[0]


def _read_block(key: str, value: Any) -> Any:
    """Read nested lists of numbers (3 levels), or an array, plane by plane, so that other threads run in between."""
    try:
        found = np.asarray([np.asarray(plane) for plane in value] if isinstance(value, list) else value)
    except ValueError:  # lists of different lengths
        found = np.empty(0, dtype=object)
    if found.dtype.kind not in "iuf":
        raise InputError(f"'{key}' must be lists of lists of lists of numbers, the inner ones alike in length.")
    return found


def _read_grid_file(folder: Path, file: object, pose: tuple[float, ...]) -> DistanceGrid:
    """Read a grid from a file beside the world's file, and place its frame at the pose."""
    if not isinstance(file, str):
        raise InputError("'file' must be the name of a file that `ik-service grid` wrote.")
    return read_grid(folder / file).placed(pose)
