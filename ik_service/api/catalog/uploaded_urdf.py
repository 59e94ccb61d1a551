"""The URDF of a robot: read from an upload, with the limits of one, or found for a built-in robot."""

import dataclasses

from ik_service.api.errors.exceptions import MjcfRefusedError
from ik_service.api.schema.limits import MAX_ACTIVE_DOFS, MAX_LOOP_COUNT
from ik_service.errors import RobotFileError
from ik_service.robots import RobotModel, builtin_robot_names, builtin_urdf, load_robot, load_urdf

_IGNORED = b'\n<?ik_service constraints="ignore"?>\n'  # a processing instruction, which other readers pass over


def built_in_urdf(name: str, model: RobotModel) -> bytes | None:
    """Return the URDF of a model where it is the built-in robot of that name, None otherwise."""
    if name not in builtin_robot_names():
        return None
    return builtin_urdf(name) if load_robot(name).content_hash == model.content_hash else None


def without_constraints(text: bytes) -> bytes:
    """Return the text of a URDF whose constraints are not to be read: with a line at its end that says so."""
    return text if text.endswith(_IGNORED) else text + _IGNORED


def read_uploaded(text: bytes) -> RobotModel:
    """Return the robot in a URDF that was put.

    Raises:
        MjcfRefusedError: The text is MJCF.
        RobotFileError: The text is no robot, or one with too many DOFs.
    """
    try:
        model = load_urdf(text, constraints="ignore" if text.endswith(_IGNORED) else "read")
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
        return dataclasses.replace(kept, warnings=(*model.warnings, warning))
    return model
