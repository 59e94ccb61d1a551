"""Mimic couplings of a file: chains of mimic joints resolved to their leaders, and contradictory limits removed."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from ik_service.errors import RobotFileError
from ik_service.mechanism.arrays import Int32Array
from ik_service.mechanism.coupling import LIMIT_SLACK, narrow_leader
from ik_service.mechanism.kinematic_robot import Robot
from ik_service.mechanism.transforms import MAX_NUMBER, Float64Array
from ik_service.robots.readers.description import JointDescription, MimicDescription


def resolve_mimics(
    joints: Sequence[JointDescription], moving: Sequence[JointDescription]
) -> tuple[Int32Array, Float64Array, Float64Array]:
    """Give leader, multiplier and offset of every DOF, chains resolved, each of shape [joint_dof_count].

    `moving` are the joints that are not fixed, in body order. RobotFileError if a chain closes on itself, or if its
    multiplier or offset is out of proportion.
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
    """Climb from a mimic joint to its leader, or to a resolved joint, and resolve all joints on the path."""
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
    """Refuse multipliers and offsets that overflow or vanish in the float32 of generated code."""
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


def without_contradictions(robot: Robot) -> Robot:
    """Remove limits of mimic joints that leave their leader no motion, for example by a wrong sign; add a warning."""
    own = np.stack([robot.joint_limit_lower, robot.joint_limit_upper])
    kept, left_out = own.copy(), list[int]()
    for dof in robot.follower_dofs:
        leader = robot.dof_leader[dof]
        low, high = kept[:, leader]
        narrow_leader(robot, int(dof), *kept)
        left = kept[1, leader] - kept[0, leader]
        if left < -LIMIT_SLACK or left <= LIMIT_SLACK < high - low:
            kept[:, leader] = low, high
            left_out.append(int(dof))
    warnings = [*robot.warnings]
    for dof in left_out:
        leader = robot.dof_leader[dof]
        warnings.append(
            f"Limits [{own[0, dof]:g}, {own[1, dof]:g}] of joint '{robot.dof_names[dof]}' are left out: they leave its "
            f"leader '{robot.dof_names[leader]}' no motion, with multiplier {robot.dof_multiplier[dof]:g} and offset "
            f"{robot.dof_offset[dof]:g}. The leader moves within [{kept[0, leader]:g}, {kept[1, leader]:g}]."
        )
    own[:, left_out] = [[-np.inf], [np.inf]]
    return dataclasses.replace(robot, joint_limit_lower=own[0], joint_limit_upper=own[1], warnings=tuple(warnings))
