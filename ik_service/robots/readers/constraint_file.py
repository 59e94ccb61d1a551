"""Constraints beside a robot file: a document in YAML or JSON with lists of constraints.

An entry of ``loops`` has the fields of ``LoopConstraint``, an entry of ``coordinate_constraints`` the fields of
``CoordinateConstraint``. An unreadable entry is left out with a warning that names document and entry: bad constraints
never prevent reading a robot. Loop closures in files of other programs become loops here, too.
"""

import dataclasses
import json
import math
import reprlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ik_service.extras import how_to_install
from ik_service.mechanism.coordinates import CoordinateConstraint
from ik_service.mechanism.loops import IDENTITY, LoopConstraint, Transform
from ik_service.mechanism.transforms import MAX_NUMBER, quaternion_between, quaternion_from_rpy
from ik_service.robots.readers.description import MAX_CONSTRAINTS, HingeDescription, ReadConstraints
from ik_service.robots.readers.xml_reader import MAX_BYTES, shortened
from objectives.errors import InputError
from objectives.tasks.loop import COEFFICIENTS_MOST

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable  # Python 3.11


LIMITS_MOST = 3  # coordinates of a planar joint
SUFFIXES = (".constraints.yaml", ".constraints.json")  # suffixes of documents beside ``NAME.urdf``, behind ``NAME``


def read_beside(folder: "Traversable", stem: str) -> ReadConstraints:
    """Read the documents beside the robot file ``stem`` + suffix, if any."""
    found = ReadConstraints()
    for suffix in SUFFIXES:
        found = found.joined(read_file(folder / f"{stem}{suffix}", read_constraints))
    return found


def read_file(file: "Traversable", read: Callable[[bytes, str], ReadConstraints]) -> ReadConstraints:
    """Read a file, if present, by a function of its text and its name."""
    if not file.is_file():
        return ReadConstraints()
    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        return ReadConstraints(warnings=(f"{file.name}: the file cannot be read: {error.strerror}.",))
    return read(data, file.name)


def read_constraints(text: bytes | str, source: str) -> ReadConstraints:
    """Read a document of constraints in UTF-8; warnings start with `source`."""
    try:
        lists = _lists(text)
    except InputError as error:
        return ReadConstraints(warnings=(f"{source}: {error} Its constraints are left out.",))
    found: dict[str, tuple[Any, ...]] = {}
    warnings: list[str] = []
    for key, kind in _KINDS.items():
        found[key] = _read_entries(kind, lists.get(key, []), source, warnings)
    return ReadConstraints(found["loops"], tuple(warnings), coordinates=found["coordinate_constraints"])


def _lists(text: bytes | str) -> dict[str, list[Any]]:
    """Give the unchecked entries of a document, by kind."""
    document = read_document(text)
    lists = document if isinstance(document, dict) and document.keys() <= _KINDS.keys() else {}
    if not lists or not all(isinstance(entries, list) for entries in lists.values()):
        keys = " or ".join(f"'{key}'" for key in _KINDS)
        raise InputError(f"It must be a mapping with the key {keys}, lists of constraints, and no other.")
    return lists


def _read_entries(kind: "_Kind", entries: list[Any], source: str, warnings: list[str]) -> tuple[Any, ...]:
    found = []
    for number, entry in enumerate(entries[:MAX_CONSTRAINTS], start=1):
        try:
            found.append(_read_entry(kind, entry))
        except InputError as error:
            name = entry.get("name") if isinstance(entry, Mapping) else None
            label = f" '{shortened(name)}'" if isinstance(name, str) else ""
            warnings.append(f"{source}, {kind.label} {number}{label} is left out: {error}")
    if len(entries) > MAX_CONSTRAINTS:
        warnings.append(f"{source}: {kind.label}s after the first {MAX_CONSTRAINTS} are left out; more are not read.")
    return tuple(found)


def read_document(text: bytes | str) -> Any:
    """Parse a document in YAML or JSON; InputError if neither, too large or nested too deep."""
    if len(text) > MAX_BYTES:
        raise InputError(f"It has more than {MAX_BYTES} bytes.")
    try:
        return _parsed(text if isinstance(text, str) else text.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise InputError(f"It is not UTF-8 text (byte {error.start}).") from None
    except RecursionError:
        raise InputError("It is nested too deep.") from None


def _parsed(text: str) -> Any:
    """Read JSON, or else YAML: PyYAML reads JSON, too, but is optional."""
    try:
        return json.loads(text)
    except ValueError as error:
        reason = str(error)
    try:
        import yaml
    except ImportError:
        raise InputError(f"It is not JSON ({reason}), and YAML is read by PyYAML. {how_to_install('yaml')}") from None
    try:
        return yaml.safe_load(text)
    # the other errors: a tag on a value of another type, such as a date, a number or a truth value
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError, ArithmeticError) as error:
        raise InputError(f"It is neither JSON nor YAML: {' '.join(str(error).split())}.") from None


def _read_entry(kind: "_Kind", entry: object) -> Any:
    if not isinstance(entry, Mapping):
        raise InputError(f"it must be a mapping of fields, got {_shown(entry)}.")
    unknown = next((key for key in entry if key not in kind.readers), None)
    if unknown is not None:
        raise InputError(f"it has no field {_shown(unknown)}. Fields: {', '.join(kind.readers)}.")
    missing = next((name for name in kind.required if entry.get(name) is None), None)
    if missing is not None:
        raise InputError(f"field '{missing}' is missing.")
    given = {name: value for name, value in entry.items() if value is not None}
    return kind.made_of(**{name: kind.readers[name](name, value) for name, value in given.items()})


def _shown(value: object) -> str:
    return shortened(reprlib.repr(value))  # YAML can name one list a million times in another


def read_text(name: str, value: object) -> str:
    """Read a non-empty text; InputError otherwise."""
    if not isinstance(value, str) or not value:
        raise InputError(f"'{name}' must be a text that is not empty, got {_shown(value)}.")
    return value


def _number(name: str, value: object) -> float:
    """Read a number; YAML reads a number written as 1e-3 as a text."""
    number = math.nan
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        with suppress(ValueError, OverflowError):
            number = float(value)
    if not abs(number) <= MAX_NUMBER:
        raise InputError(f"'{name}' must be a number from -{MAX_NUMBER:g} to {MAX_NUMBER:g}, got {_shown(value)}.")
    return number


def read_numbers(name: str, value: object, count: int) -> tuple[float, ...]:
    """Read a list of `count` numbers; InputError if not a list, of another length, or with too large a number."""
    if not isinstance(value, list) or len(value) != count:
        raise InputError(f"'{name}' must be a list of {count} numbers, got {_shown(value)}.")
    return tuple(_number(name, number) for number in value)


def _transform(name: str, value: object) -> Transform:
    """Read a transform: seven numbers, or position and rotation by name."""
    if not isinstance(value, Mapping):
        return read_numbers(name, value, 7)
    positions, rotations = value.keys() & {"position", "xyz"}, value.keys() & {"orientation_xyzw", "rpy"}
    if len(positions) + len(rotations) != len(value) or len(positions) > 1 or len(rotations) > 1:
        raise InputError(
            f"'{name}' must have 'position' or 'xyz', and 'orientation_xyzw' or 'rpy', got {_shown(list(value))}."
        )
    place, turn = IDENTITY[:3], IDENTITY[3:]
    for key in positions:
        place = read_numbers(f"{key} of {name}", value[key], 3)
    for key in rotations:
        numbers = read_numbers(f"{key} of {name}", value[key], 4 if key == "orientation_xyzw" else 3)
        turn = numbers if key == "orientation_xyzw" else tuple(quaternion_from_rpy(*numbers).tolist())
    return (*place, *turn)


def _limits(name: str, value: object) -> tuple[tuple[float, float], ...]:
    """Read pairs of a lower and an upper limit, null if unlimited; a single pair may stand without a list."""
    given = value if isinstance(value, list) and value and isinstance(value[0], list) else [value]
    pairs = [pair for pair in given if isinstance(pair, list) and len(pair) == 2]
    if len(pairs) != len(given) or len(pairs) > LIMITS_MOST:
        raise InputError(f"'{name}' must be pairs of a lower and an upper limit, got {_shown(value)}.")
    numbers = ([None if end is None else _number(name, end) for end in pair] for pair in pairs)
    return tuple((-math.inf if a is None else a, math.inf if b is None else b) for a, b in numbers)


def _coefficients(name: str, value: object) -> tuple[float, ...]:
    """Read a list of numbers; the constraint checks their count."""
    if not isinstance(value, list) or len(value) > COEFFICIENTS_MOST:
        raise InputError(f"'{name}' must be a list of up to {COEFFICIENTS_MOST} numbers, got {_shown(value)}.")
    return tuple(_number(name, number) for number in value)


class _Kind(NamedTuple):
    """Kind of constraint in a document: its label in warnings, its class, and readers of its fields."""

    label: str
    made_of: Any
    readers: Mapping[str, Callable[[str, object], Any]]

    @property
    def required(self) -> list[str]:
        return [field.name for field in dataclasses.fields(self.made_of) if field.default is dataclasses.MISSING]


_KINDS: Mapping[str, _Kind] = {
    "loops": _Kind(
        "loop",
        LoopConstraint,
        {
            "name": read_text,
            "joint": read_text,
            "link": read_text,
            "reference_link": read_text,
            "offset": _transform,
            "reference_offset": _transform,
            "pitch": _number,
            "distance": _number,
            "limits": _limits,
        },
    ),
    "coordinate_constraints": _Kind(
        "coordinate constraint",
        CoordinateConstraint,
        {"name": read_text, "joint": read_text, "reference_joint": read_text, "coefficients": _coefficients},
    ),
}


NAME = "loop_closures.yaml"
_Z_AXIS = np.array([0.0, 0.0, 1.0])
_SHORTEST = 1e-6


def read_closures_beside(folder: Path) -> ReadConstraints:
    """Read the closures beside a URDF, or of its package if its folder is called ``urdf``, if any."""
    folders = [folder, folder.parent / "config", folder.parent] if folder.name == "urdf" else [folder]
    found = ReadConstraints()
    for place in folders:
        found = found.joined(read_file(place / NAME, _read_closures))
    return found


def _read_closures(data: bytes, source: str) -> ReadConstraints:
    try:
        document = read_document(data)
        closures = document.get("closures") if isinstance(document, dict) else None
        if not isinstance(closures, list):
            raise InputError("It must be a mapping with a list 'closures'.")
    except InputError as error:
        return ReadConstraints(warnings=(f"{source}: {error} Its constraints are left out.",))
    hinges, warnings = [], []
    for number, entry in enumerate(closures[:MAX_CONSTRAINTS], start=1):
        try:
            hinges.append(_read_hinge(f"closure_{number}", entry))
        except InputError as error:
            warnings.append(f"{source}, closure {number} is left out: {error}")
    if len(closures) > MAX_CONSTRAINTS:
        warnings.append(f"{source}: closures after the first {MAX_CONSTRAINTS} are left out; more are not read.")
    dependent = document.get("dependent")
    freed = tuple(name for name in dependent if isinstance(name, str)) if isinstance(dependent, list) else ()
    return ReadConstraints((), tuple(warnings), tuple(hinges), freed if hinges else ())


def _read_hinge(name: str, entry: object) -> HingeDescription:
    if not isinstance(entry, Mapping):
        raise InputError("it must be a mapping of fields.")
    point, axis = (np.array(read_numbers(key, entry.get(key), 3)) for key in ("point", "axis"))
    length = float(np.linalg.norm(axis))
    if length < _SHORTEST:
        raise InputError("its axis must not be zero.")
    first, second = (read_text(key, entry.get(key)) for key in ("link_a", "link_b"))
    X_base = np.concatenate([point, quaternion_between(_Z_AXIS, axis / length)])
    return HingeDescription(name, first, second, X_base)
