"""Catalog of robots: built in, or uploaded as URDF at run time and read within limits."""

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path

from ik_service.errors import RobotFileError
from ik_service.robots import RobotModel, Sphere, builtin_robot_names, builtin_urdf, choose_pairs, load_robot, load_urdf
from ik_service.robots.readers.read_model import read_collision_model
from ik_service.robots.readers.sphere_file import read_spheres_beside
from ik_service.robots.readers.urdf import read_urdf
from ik_service.robots.readers.xml_reader import MAX_BYTES
from ik_service.service.catalog.catalog import Catalog
from ik_service.service.catalog.entries import ServedRobot
from ik_service.service.errors.exceptions import MjcfRefusedError, RobotNameError, UnknownRobotError
from ik_service.service.schema.limits import MAX_ACTIVE_DOFS, MAX_LOOP_COUNT

MAX_CHOICES_BYTES = 256
PUT_SPHERES_MAX = 512
"""Spheres of a robot that is put."""
PUT_DISTANCES_MAX = 20_000_000
"""Distances that are looked at to choose its pairs."""

_DEFAULTS = {"constraints": "read", "collision": "ignore"}
_CHOICES = re.compile(rb'\n<\?ik_service((?: [a-z]+="[a-z]+")+)\?>\n\Z')  # XML instruction: other readers ignore it


class RobotCatalog(Catalog[ServedRobot]):
    """Robots by name, with the built-in `models`; the other arguments are as in `Catalog`."""

    noun, most_bytes, reserved = "robot", MAX_BYTES, builtin_robot_names()
    unknown_error, name_error = UnknownRobotError, RobotNameError

    def __init__(
        self,
        models: Mapping[str, RobotModel],
        folder: Path | None = None,
        *,
        max_uploaded: int = 64,
        uploaders: int = 0,
    ) -> None:
        built_in = {name: ServedRobot(built_in_urdf(name, model), model, "built_in") for name, model in models.items()}
        super().__init__(folder, built_in, max_uploaded=max_uploaded, uploaders=uploaders)

    def _entry_of(self, name: str, text: bytes) -> ServedRobot:
        model = dataclasses.replace(read_uploaded(text), name=name)  # the name in the URL
        spheres = None if self._store is None else read_spheres_beside(self._store.folder, name)
        if spheres is not None:
            model = model.with_collision_model(read_collision_model(model, {}, spheres))
        return ServedRobot(text, model, "uploaded")


def built_in_urdf(name: str, model: RobotModel) -> bytes | None:
    """Return the URDF of a built-in robot; None if the model is not the built-in robot of this name."""
    if name not in builtin_robot_names():
        return None
    return builtin_urdf(name) if load_robot(name).content_hash == model.content_hash else None


def with_choices(text: bytes, **choices: str | None) -> bytes:
    """Return a URDF with reading options in a line at its end; default options need no line.

    `choices` are values of `constraints` and `collision`; None keeps the value in the last line of the text.
    """
    chosen = {name: word for name, word in choices.items() if word is not None}
    if not chosen:
        return text
    words = _choices_of(text) | chosen
    given = " ".join(f'{name}="{word}"' for name, word in words.items() if word != _DEFAULTS[name])
    text = _CHOICES.sub(b"", text)
    return text + f"\n<?ik_service {given}?>\n".encode() if given else text


def _choices_of(text: bytes) -> dict[str, str]:
    found = _CHOICES.search(text[-MAX_CHOICES_BYTES:])
    words = {} if found is None else dict(re.findall(r'([a-z]+)="([a-z]+)"', found[1].decode()))
    return _DEFAULTS | {name: word for name, word in words.items() if name in _DEFAULTS}


def read_uploaded(text: bytes) -> RobotModel:
    """Return the robot in an uploaded URDF.

    MjcfRefusedError for MJCF; RobotFileError if the text is not a robot, or the robot has too many DOFs.
    """
    try:
        choices = _choices_of(text)
        model = load_urdf(text, constraints="ignore" if choices["constraints"] == "ignore" else "read")
    except RobotFileError as error:
        if (error.element or "").startswith(("mujoco '", "<mujoco>")):
            raise MjcfRefusedError("This is MJCF. Put a URDF; MJCF is read from local files only.") from None
        raise
    if model.active_dof_count > MAX_ACTIVE_DOFS:
        raise RobotFileError(
            f"The robot has {model.active_dof_count} active DOFs. Allowed: {MAX_ACTIVE_DOFS}; make joints fixed that "
            "are not to move."
        )
    if len(model.loops) > MAX_LOOP_COUNT:
        warning = f"Loops after the first {MAX_LOOP_COUNT} are left out; more are not taken here."
        kept = model.with_loops(model.loops[:MAX_LOOP_COUNT])
        model = dataclasses.replace(kept, warnings=(*model.warnings, warning))
    return _with_collision_model(model, text) if choices["collision"] == "shapes" else model


def _with_collision_model(model: RobotModel, text: bytes) -> RobotModel:
    """Return the robot with its collision spheres; other collision shapes give a warning and no collision model."""
    shapes = {link.name: link.shapes for link in read_urdf(text, reads_constraints=False).links}
    spheres = {
        link: [(*shape.position, shape.radius) for shape in own.shapes if isinstance(shape, Sphere)]
        for link, own in shapes.items()
    }
    others = [link for link, own in shapes.items() if own.unread or len(own.shapes) > len(spheres[link])]
    count = sum(map(len, spheres.values()))
    if others or not count:
        why = f"link '{others[0]}' has shapes that are no spheres" if others else "it has no collision shapes"
        return dataclasses.replace(model, warnings=(*model.warnings, f"There is no collision model: {why}."))
    if count > PUT_SPHERES_MAX:
        raise RobotFileError(f"The robot has {count} spheres for collision. Allowed: {PUT_SPHERES_MAX}.")
    own_spheres = {link: own for link, own in spheres.items() if own}
    return model.with_collision_model(choose_pairs(model, own_spheres, most_distances=PUT_DISTANCES_MAX))
