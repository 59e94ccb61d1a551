"""The URDF of a robot: read from an upload, with the limits of one, or found for a built-in robot."""

import dataclasses
import re
from typing import Any

from ik_service.api.errors.exceptions import MjcfRefusedError
from ik_service.api.schema.limits import MAX_ACTIVE_DOFS, MAX_LOOP_COUNT
from ik_service.errors import RobotFileError
from ik_service.robots import (
    RobotModel,
    builtin_robot_names,
    builtin_urdf,
    choose_pairs,
    load_robot,
    load_urdf,
)
from ik_service.robots.files.geometry.read_model import flat_count, spheres_of_shapes
from ik_service.robots.files.urdf import read_urdf

MAX_CHOICES_BYTES = 256
MAX_FLAT_SHAPES = 8
"""Boxes and cylinders that are covered by spheres when a robot is put: each takes up to 0.2 s."""
MAX_SPHERES = 512
"""Spheres of a robot that is put."""

_DEFAULTS = {"constraints": "read", "collision": "ignore"}
_CHOICES = re.compile(rb'\n<\?ik_service((?: [a-z]+="[a-z]+")+)\?>\n\Z')  # an instruction: other readers pass it over


def built_in_urdf(name: str, model: RobotModel) -> bytes | None:
    """Return the URDF of a model where it is the built-in robot of that name, None otherwise."""
    if name not in builtin_robot_names():
        return None
    return builtin_urdf(name) if load_robot(name).content_hash == model.content_hash else None


def with_choices(text: bytes, **choices: str) -> bytes:
    """Return the text of a URDF with a line at its end that says what of it is to be read, where that is not the usual.

    Args:
        text: The text; a line that it has already is replaced.
        choices: Words by `constraints` and `collision`.
    """
    given = " ".join(f'{name}="{word}"' for name, word in choices.items() if word != _DEFAULTS[name])
    text = _CHOICES.sub(b"", text) if given else text
    return text + f"\n<?ik_service {given}?>\n".encode() if given else text


def _choices_of(text: bytes) -> dict[str, str]:
    found = _CHOICES.search(text[-MAX_CHOICES_BYTES:])
    words = {} if found is None else dict(re.findall(r'([a-z]+)="([a-z]+)"', found[1].decode()))
    return _DEFAULTS | {name: word for name, word in words.items() if name in _DEFAULTS}


def read_uploaded(text: bytes) -> RobotModel:
    """Return the robot in a URDF that was put.

    Raises:
        MjcfRefusedError: The text is MJCF.
        RobotFileError: The text is no robot, or one with too many DOFs.
    """
    try:
        choices = _choices_of(text)
        reads: Any = "ignore" if choices["constraints"] == "ignore" else "read"
        model = load_urdf(text, constraints=reads)
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
    """Return the robot with spheres that cover its collision shapes; where there are none, a warning says why.

    Raises:
        RobotFileError: There are too many to cover here.
    """
    shapes = {link.name: link.shapes for link in read_urdf(text, reads_constraints=False).links}
    flat = flat_count(shapes)
    if flat > MAX_FLAT_SHAPES:
        raise RobotFileError(
            f"The robot has {flat} collision shapes that are boxes or cylinders. Allowed: {MAX_FLAT_SHAPES}; cover "
            "them by spheres (ik-service spheres), or put it without ?collision=shapes."
        )
    spheres = spheres_of_shapes(shapes)
    if spheres is None:
        link = next((name for name, own in shapes.items() if own.unread), None)
        why = "it has no collision shapes" if link is None else f"link '{link}' has shapes that are not read here"
        return dataclasses.replace(model, warnings=(*model.warnings, f"There is no collision model: {why}."))
    count = sum(map(len, spheres.values()))
    if count > MAX_SPHERES:
        raise RobotFileError(f"It takes {count} spheres to cover the robot. Allowed: {MAX_SPHERES}.")
    return model.with_collision_model(choose_pairs(model, spheres))
