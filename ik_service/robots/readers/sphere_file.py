"""Files of spheres that cover the links of a robot.

Three forms are read, in YAML or JSON:

    {"spheres": {LINK: [[x, y, z, radius], ...]}, "pairs": [[LINK, LINK], ...],
     "left_out": {REASON: [[LINK, LINK], ...]}}
    collision_spheres: {LINK: [{center: [x, y, z], radius: r}, ...]}, self_collision_ignore: {LINK: [LINK, ...]},
        also under robot_cfg and kinematics, as in cuRobo
    {LINK: {"spheres": [{"origin": [x, y, z], "radius": r}, ...]}}, as written by foam

Pairs of the first form are the only checked pairs; without pairs, and in the other forms, pairs are chosen.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ik_service.errors import RobotFileError
from ik_service.mechanism.collision_model import MAX_SPHERES, CollisionModel, LinkPair
from ik_service.robots.readers.constraint_file import read_document, read_numbers, read_text
from ik_service.robots.readers.xml_reader import MAX_BYTES
from objectives.errors import InputError

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable  # Python 3.11

SUFFIXES = (".collision.json", ".collision.yaml", ".collision.yml")  # of files beside ``NAME.urdf``, behind ``NAME``
IGNORED = "left out by the file"
Spheres = dict[str, list[tuple[float, ...]]]


class SphereDocument(NamedTuple):
    """Content of a file of spheres."""

    spheres: Spheres  # centres in the link's frame [m] and radii [m], by link
    pairs: tuple[LinkPair, ...] | None  # checked pairs; None to choose pairs
    left_out: Mapping[str, tuple[LinkPair, ...]]  # pairs not checked, by reason


def read_spheres_beside(folder: "Traversable", stem: str) -> SphereDocument | None:
    """Read the file of spheres `stem` + suffix, None if missing; RobotFileError for two files or an invalid file."""
    files = [folder / f"{stem}{suffix}" for suffix in SUFFIXES]
    found = [file for file in files if file.is_file()]
    if len(found) > 1:
        raise RobotFileError(f"two files of spheres beside it: '{found[0].name}' and '{found[1].name}'.")
    return read_sphere_file(found[0]) if found else None


def read_sphere_file(file: "Traversable") -> SphereDocument:
    """Read a file of spheres; RobotFileError if invalid."""
    try:
        with file.open("rb") as stream:
            return read_spheres(stream.read(MAX_BYTES + 1))
    except OSError as error:
        raise RobotFileError(f"{file.name} cannot be read: {error.strerror}.") from None
    except InputError as error:
        raise RobotFileError(f"{file.name}: {error}") from None


def read_spheres(text: bytes | str) -> SphereDocument:
    """Read a document of spheres; InputError for an unknown form, no sphere, or too many spheres."""
    document = read_document(text)
    if not isinstance(document, Mapping):
        raise InputError("It must be a mapping.")
    if isinstance(document.get("spheres"), Mapping):
        found = _own(document)
    elif inner := _inside(document, "collision_spheres"):
        found = _of_curobo(inner)
    else:
        found = _of_foam(document)
    count = sum(map(len, found.spheres.values()))
    if not 0 < count <= MAX_SPHERES:
        raise InputError(f"It must have 1 to {MAX_SPHERES} spheres, got {count}.")
    return found


def _own(document: Mapping[str, Any]) -> SphereDocument:
    unknown = document.keys() - {"spheres", "pairs", "left_out", "source"}
    if unknown:
        raise InputError(f"It has no key '{min(map(str, unknown))}'. Keys: spheres, pairs, left_out, source.")
    spheres = {
        read_text("link", link): [read_numbers(f"a sphere of {link}", one, 4) for one in _entries(own, str(link))]
        for link, own in document["spheres"].items()
    }
    pairs = None if document.get("pairs") is None else _pairs(document["pairs"])
    left_out = document.get("left_out", {})
    if not isinstance(left_out, Mapping):
        raise InputError("'left_out' must be a mapping of reasons to lists of pairs.")
    return SphereDocument(spheres, pairs, {str(reason): _pairs(own) for reason, own in left_out.items()})


def _of_curobo(document: Mapping[str, Any]) -> SphereDocument:
    spheres = _named_spheres(document["collision_spheres"].items(), "center")
    ignored = document.get("self_collision_ignore") or {}
    if not isinstance(ignored, Mapping):
        raise InputError("'self_collision_ignore' must be a mapping of links to lists of links.")
    pairs = [(str(link), str(other)) for link, own in ignored.items() for other in _entries(own, str(link))]
    kept = tuple((a, b) for a, b in pairs if a != b and spheres.get(a) and spheres.get(b))
    return SphereDocument(spheres, None, {IGNORED: kept})


def _of_foam(document: Mapping[str, Any]) -> SphereDocument:
    owners = {link: own["spheres"] for link, own in document.items() if isinstance(own, Mapping) and "spheres" in own}
    if len(owners) < max(1, len(document)):
        raise InputError("It has neither 'spheres' nor 'collision_spheres', nor links with 'spheres' each.")
    return SphereDocument(_named_spheres(owners.items(), "origin"), None, {})


def _named_spheres(owners: Iterable[tuple[Any, Any]], center: str) -> Spheres:
    """Read spheres with named numbers; cuRobo marks an absent sphere by a radius that is not positive."""
    found: Spheres = {}
    for link, own in owners:
        name = read_text("link", link)
        found[name] = []
        for one in _entries(own, name):
            if not isinstance(one, Mapping):
                raise InputError(f"A sphere of '{name}' must be a mapping of '{center}' and 'radius'.")
            numbers = read_numbers(f"{center} of {name}", one.get(center), 3)
            radius = read_numbers(f"radius of {name}", [one.get("radius")], 1)
            if radius[0] > 0.0:
                found[name].append((*numbers, *radius))
    return found


def _inside(document: Mapping[str, Any], key: str) -> Mapping[str, Any] | None:
    """Give the mapping with a mapping of this key: the document, or its entry robot_cfg or kinematics."""
    for name in (None, "robot_cfg", "kinematics"):
        inner = document if name is None else document.get(name)
        if not isinstance(inner, Mapping):
            continue
        document = inner
        if isinstance(document.get(key), Mapping):
            return document
    return None


def _entries(value: object, owner: str) -> Sequence[Any]:
    if not isinstance(value, list):
        raise InputError(f"'{owner}' must have a list, got {type(value).__name__}.")
    return value


def _pairs(value: object) -> tuple[LinkPair, ...]:
    found = []
    for one in _entries(value, "pairs"):
        if not isinstance(one, list) or len(one) != 2:
            raise InputError("A pair must be a list of two links.")
        found.append((read_text("link", one[0]), read_text("link", one[1])))
    return tuple(found)


def model_document(model: CollisionModel, source: str) -> str:
    """Return the text of a file of spheres: a line for every link and for the pairs of every reason."""
    spheres = [f"  {json.dumps(link)}: {json.dumps(own.round(4).tolist())}" for link, own in model.spheres.items()]
    left_out = [f"  {json.dumps(reason)}: {json.dumps(pairs)}" for reason, pairs in model.left_out.items()]
    parts = [f'"source": {json.dumps(source)}', '"spheres": {\n' + ",\n".join(spheres) + "\n}"]
    parts += [f'"pairs": {json.dumps(model.pairs)}', '"left_out": {\n' + ",\n".join(left_out) + "\n}"]
    return "{\n" + ",\n".join(parts) + "\n}\n"
