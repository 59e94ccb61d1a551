"""Words for the templates of every export, and the export's tag."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from importlib.metadata import version

import warp as wp

from ik_service.export.values import c_comment, c_string
from ik_service.robots import RobotModel
from ik_service.solver.lm.status import IKStatus
from ik_service.solver.recorded_launches import RecordedStep
from objectives import InputError

TAG = "@tag@"  # placeholder in the source for the hash of the source
TAG_DIGITS = 8


def checked_prefix(robot: RobotModel, prefix: str | None) -> str:
    """Return the prefix of all names, by default from the robot's name; InputError for an invalid identifier."""
    if prefix is None:
        prefix = re.sub(r"[^a-z0-9]+", "_", robot.name.lower()).strip("_")
        prefix = prefix if prefix[:1].isalpha() else f"robot_{prefix}"
    if not re.fullmatch(r"[a-z][a-z0-9_]*", prefix):
        raise InputError(f"The prefix is {prefix!r}. Allowed: lower-case letters, digits and _, a letter first.")
    return prefix


def robot_words(robot: RobotModel, prefix: str, tag: str) -> dict[str, object]:
    """Give words of all templates about a robot."""
    PREFIX = prefix.upper()
    return {
        "prefix": prefix,
        "PREFIX": PREFIX,
        "tag": tag,
        "robot": c_comment(robot.name),
        "version": version("ik-service"),
        "warp": wp.__version__,
        "coordinates": robot.joint_coord_count,
        "dofs": robot.joint_dof_count,
        "names": ",\n".join(f"    {c_string(name)}" for name in robot.coordinate_names),
        "statuses": ",\n".join(f"    {PREFIX}_{status.name} = {status.value}" for status in IKStatus),
    }


def tag_of(steps: Sequence[RecordedStep], texts: Mapping[str, str]) -> str:
    """Return the tag of an export: a hash of its texts, which contain `TAG`, and of its kernels."""
    kernels = [step.kernel for step in steps]
    parts = [*texts.values(), wp.__version__, *(str(kernel.module.options["cpu_compiler_flags"]) for kernel in kernels)]
    digest = hashlib.sha256("\0".join(parts).encode())
    for kernel in kernels:
        digest.update(kernel.hash or b"")
    return digest.hexdigest()[:TAG_DIGITS]
