"""Files ``loop_closures.yaml`` beside a URDF, as the exporter of jsk-ros-pkg for SolidWorks writes them.

Each closure is a hinge that was cut to make a tree: two links, a point and an axis in the frame of ``base_link``, where
all joints are at 0. Joints named as dependent may follow others in the URDF, which comes near for readers that close no
loops; here they are free.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ik_service.mechanism.transforms import quaternion_between
from ik_service.robots.readers.constraint_file import read_document, read_file, read_numbers, read_text
from ik_service.robots.readers.description import MAX_CONSTRAINTS, HingeDescription, ReadConstraints
from objectives.errors import InputError

NAME = "loop_closures.yaml"
_Z_AXIS = np.array([0.0, 0.0, 1.0])
_SHORTEST = 1e-6


def read_closures_beside(folder: Path) -> ReadConstraints:
    """Read the closures beside a URDF; there may be none.

    Args:
        folder: Folder of the URDF; of a package where it is called ``urdf``.
    """
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
