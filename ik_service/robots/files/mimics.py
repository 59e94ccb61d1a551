"""Mimic couplings of a file: chains of followers resolved to their leaders, and checked against the limits."""

from collections.abc import Mapping, Sequence

import numpy as np

from ik_service.errors import RobotFileError
from ik_service.robots.arrays import Int32Array
from ik_service.robots.files.description import JointDescription, MimicDescription
from ik_service.robots.kinematic_robot import KinematicRobot
from ik_service.robots.number_bounds import MAX_NUMBER
from ik_service.robots.structure.coupling import LIMIT_SLACK, narrow_leader
from ik_service.robots.transforms import Float64Array


def resolve_mimics(
    joints: Sequence[JointDescription], moving: Sequence[JointDescription]
) -> tuple[Int32Array, Float64Array, Float64Array]:
    """Give leader, multiplier and offset of every DOF, chains resolved.

    Args:
        joints: All joints of the description.
        moving: The joints that are not fixed, in body order.

    Returns:
        Leader DOF, multiplier and offset, each of shape [joint_dof_count].

    Raises:
        RobotFileError: A chain closes on itself, or its multipliers or offsets amount to numbers out of proportion.
    """
    by_name = {joint.name: joint for joint in joints}
    starts = np.cumsum([0, *(len(joint.joint_type.dof_components) for joint in moving)])
    dof_of = {joint.name: int(start) for joint, start in zip(moving, starts[:-1], strict=True)}
    leader = np.arange(starts[-1], dtype=np.int32)
    multiplier, offset = np.ones(starts[-1]), np.zeros(starts[-1])
    resolved: dict[str, MimicDescription] = {}
    for joint in moving:
        if joint.mimic is not None:
            _resolve(joint, by_name, resolved)
            dof = dof_of[joint.name]
            leader[dof] = dof_of[resolved[joint.name].leader]
            multiplier[dof], offset[dof] = resolved[joint.name].multiplier, resolved[joint.name].offset
    return leader, multiplier, offset


def _resolve(
    follower: JointDescription, by_name: Mapping[str, JointDescription], resolved: dict[str, MimicDescription]
) -> None:
    """Climb from a follower to the joint that leads itself, or to one resolved before, and resolve all on the way."""
    chain: list[tuple[str, MimicDescription]] = []
    joint, seen = follower, {follower.name}
    while joint.mimic is not None and joint.name not in resolved:
        chain.append((joint.name, joint.mimic))
        joint = by_name[joint.mimic.leader]
        if joint.name in seen:
            raise _mimic_error(*chain[-1], f"it follows itself through '{joint.name}'.")
        seen.add(joint.name)
    following = resolved.get(joint.name, MimicDescription(joint.name, 1.0, 0.0))
    for name, mimic in reversed(chain):
        multiplier, offset = mimic.multiplier * following.multiplier, mimic.multiplier * following.offset + mimic.offset
        following = MimicDescription(following.leader, multiplier, offset)
        _check_proportion(name, mimic, following)
        resolved[name] = following


def _check_proportion(name: str, mimic: MimicDescription, following: MimicDescription) -> None:
    """Refuse what overflows float32 where code is generated from it, or vanishes there."""
    leader, multiplier, offset = following.leader, following.multiplier, following.offset
    size = abs(multiplier)
    if not (size == 0.0 or 1.0 / MAX_NUMBER <= size <= MAX_NUMBER):
        number, allowed = f"multiplier {multiplier:g}", f"0, or {1.0 / MAX_NUMBER:g} to {MAX_NUMBER:g} in size"
    elif not abs(offset) <= MAX_NUMBER:
        number, allowed = f"offset {offset:g}", f"-{MAX_NUMBER:g} to {MAX_NUMBER:g}"
    else:
        return
    through = "" if leader == mimic.leader else f" through '{mimic.leader}'"
    reason = f"it follows '{leader}'{through} with {number}, which is out of proportion. Allowed: {allowed}."
    raise _mimic_error(name, mimic, reason)


def _mimic_error(name: str, mimic: MimicDescription, reason: str) -> RobotFileError:
    return RobotFileError(reason, element=f"<mimic> of joint '{name}'", line=mimic.line)


def check_couplings(robot: KinematicRobot, lines: Mapping[str, int | None]) -> None:
    """Check that every leader can move to somewhere all its followers may be.

    Args:
        robot: The model.
        lines: Line of each joint in its file, by name.

    Raises:
        RobotFileError: Limits of a leader and its followers have no value in common.
    """
    lower, upper = robot.joint_limit_lower.copy(), robot.joint_limit_upper.copy()
    for dof in robot.follower_dofs:
        leader = narrow_leader(robot, int(dof), lower, upper)
        if lower[leader] > upper[leader] + LIMIT_SLACK:
            names = robot.dof_names
            raise RobotFileError(
                f"its limits [{robot.joint_limit_lower[dof]:g}, {robot.joint_limit_upper[dof]:g}], multiplier "
                f"{robot.dof_multiplier[dof]:g} and offset {robot.dof_offset[dof]:g} leave its leader '{names[leader]}'"
                " no value inside its own limits.",
                element=f"joint '{names[dof]}'",
                line=lines.get(names[dof]),
            )
