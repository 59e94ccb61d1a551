"""Mimic couplings, locks and limits: which DOFs a solver may move and what the others do then.

A follower's coordinate is ``multiplier * leader + offset``; chains of followers are resolved so that every leader leads
itself. Limits of followers, mapped to the leader, narrow the leader's. Runs when a model is made.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ik_service.errors import RobotFileError
from ik_service.robots.arrays import Int32Array, read_only
from ik_service.robots.files.description import MAX_NUMBER, JointDescription, MimicDescription
from ik_service.robots.joint_type import JointType
from ik_service.robots.structure.configuration import checked_joint_q
from ik_service.robots.transforms import Float64Array

if TYPE_CHECKING:
    from ik_service.robots.model import RobotModel

LIMIT_SLACK = 1e-9
"""Limits of a leader and its followers may miss each other by this much [m or rad]: decimals in files are rounded."""


@dataclass(frozen=True, eq=False)
class ActiveMap:
    """The DOFs that a solver may move, all arrays read-only; see the properties of ``RobotModel``."""

    dof_active: Int32Array
    active_dof: Int32Array
    active_limit_lower: Float64Array
    active_limit_upper: Float64Array
    mid_joint_q: Float64Array


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
        RobotFileError: A leader does not exist, is fixed or has several coordinates, a chain closes on itself, or its
            multipliers or offsets amount to numbers out of proportion.
    """
    by_name = {joint.name: joint for joint in joints}
    starts = np.cumsum([0, *(len(joint.joint_type.dof_components) for joint in moving)])
    dof_of = {joint.name: int(start) for joint, start in zip(moving, starts[:-1], strict=True)}
    leader = np.arange(starts[-1], dtype=np.int32)
    multiplier, offset = np.ones(starts[-1]), np.zeros(starts[-1])
    resolved: dict[str, _Following] = {}
    for joint in moving:
        if joint.mimic is not None:
            _resolve(joint, by_name, resolved)
            dof = dof_of[joint.name]
            leader[dof] = dof_of[resolved[joint.name].leader]
            multiplier[dof], offset[dof] = resolved[joint.name].multiplier, resolved[joint.name].offset
    return leader, multiplier, offset


class _Following(NamedTuple):
    """What a joint follows at the end of its chain."""

    leader: str
    multiplier: float
    offset: float


def _resolve(
    follower: JointDescription, by_name: Mapping[str, JointDescription], resolved: dict[str, _Following]
) -> None:
    """Climb from a follower to the joint that leads itself, or to one resolved before, and resolve all on the way."""
    chain: list[tuple[str, MimicDescription]] = []
    joint, seen = follower, {follower.name}
    while joint.mimic is not None and joint.name not in resolved:
        chain.append((joint.name, joint.mimic))
        joint = _leader_of(joint.name, joint.mimic, by_name)
        if joint.name in seen:
            raise _mimic_error(*chain[-1], f"it follows itself through '{joint.name}'.")
        seen.add(joint.name)
    following = resolved.get(joint.name, _Following(joint.name, 1.0, 0.0))
    for name, mimic in reversed(chain):
        leader, multiplier, offset = following
        following = _Following(leader, mimic.multiplier * multiplier, mimic.multiplier * offset + mimic.offset)
        _check_proportion(name, mimic, following)
        resolved[name] = following


def _check_proportion(name: str, mimic: MimicDescription, following: _Following) -> None:
    """Refuse what overflows float32 where code is generated from it, or vanishes there."""
    leader, multiplier, offset = following
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


def _leader_of(name: str, mimic: MimicDescription, by_name: Mapping[str, JointDescription]) -> JointDescription:
    leader = by_name.get(mimic.leader)
    if leader is None:
        raise _mimic_error(name, mimic, f"its leader '{mimic.leader}' does not exist.")
    if not leader.joint_type.is_scalar:
        kind = leader.joint_type.name.lower()
        raise _mimic_error(name, mimic, f"its leader '{leader.name}' is {kind}; it must have one coordinate.")
    return leader


def _mimic_error(name: str, mimic: MimicDescription, reason: str) -> RobotFileError:
    return RobotFileError(reason, element=f"<mimic> of joint '{name}'", line=mimic.line)


def check_couplings(robot: "RobotModel", lines: Mapping[str, int | None]) -> None:
    """Check that every leader can move to somewhere all its followers may be.

    Args:
        robot: The model.
        lines: Line of each joint in its file, by name.

    Raises:
        RobotFileError: Limits of a leader and its followers have no value in common.
    """
    lower, upper = robot.joint_limit_lower.copy(), robot.joint_limit_upper.copy()
    for dof in np.flatnonzero(robot.dof_leader != np.arange(robot.joint_dof_count)):
        leader = robot.dof_leader[dof]
        low, high = _mapped_limits(robot, int(dof))
        lower[leader], upper[leader] = max(lower[leader], low), min(upper[leader], high)
        if lower[leader] > upper[leader] + LIMIT_SLACK:
            names = robot.dof_names
            raise RobotFileError(
                f"its limits [{robot.joint_limit_lower[dof]:g}, {robot.joint_limit_upper[dof]:g}], multiplier "
                f"{robot.dof_multiplier[dof]:g} and offset {robot.dof_offset[dof]:g} leave its leader '{names[leader]}'"
                " no value inside its own limits.",
                element=f"joint '{names[dof]}'",
                line=lines.get(names[dof]),
            )


def _mapped_limits(robot: "RobotModel", dof: int) -> tuple[float, float]:
    """Give the limits that a follower puts on its leader."""
    multiplier, offset = robot.dof_multiplier[dof], robot.dof_offset[dof]
    ends = np.array([robot.joint_limit_lower[dof], robot.joint_limit_upper[dof]]) - offset
    if multiplier == 0.0:  # it stands still: any leader will do, or none
        return (-np.inf, np.inf) if ends[0] <= LIMIT_SLACK and ends[1] >= -LIMIT_SLACK else (np.inf, -np.inf)
    low, high = np.sort(ends / multiplier)
    return float(low), float(high)


def leader_limits(robot: "RobotModel") -> tuple[Float64Array, Float64Array]:
    """Give the limits of every DOF, those of leaders narrowed by their followers, each of shape [joint_dof_count]."""
    lower, upper = robot.joint_limit_lower.copy(), robot.joint_limit_upper.copy()
    for dof in np.flatnonzero(robot.dof_leader != np.arange(robot.joint_dof_count)):
        leader = robot.dof_leader[dof]
        low, high = _mapped_limits(robot, int(dof))
        lower[leader], upper[leader] = max(lower[leader], low), min(upper[leader], high)
    crossed = lower > upper  # by less than LIMIT_SLACK, or the model would not exist
    lower[crossed] = upper[crossed] = 0.5 * (lower[crossed] + upper[crossed])
    return lower, upper


def active_map(robot: "RobotModel") -> ActiveMap:
    """Number the DOFs that may move and give their limits and the configuration in the middle."""
    dof_count = robot.joint_dof_count
    leads = robot.dof_leader == np.arange(dof_count)
    held = np.repeat([name in robot.locked for name in robot.joint_names], np.diff(robot.joint_qd_start)).astype(bool)
    active_dof = np.flatnonzero(leads & ~held).astype(np.int32)
    number = np.full(dof_count, -1, dtype=np.int32)
    number[active_dof] = np.arange(len(active_dof), dtype=np.int32)
    lower, upper = leader_limits(robot)
    return ActiveMap(
        dof_active=read_only(number[robot.dof_leader]),
        active_dof=read_only(active_dof),
        active_limit_lower=read_only(lower[active_dof]),
        active_limit_upper=read_only(upper[active_dof]),
        mid_joint_q=read_only(_mid_joint_q(robot, lower, upper)),
    )


def _mid_joint_q(robot: "RobotModel", lower: Float64Array, upper: Float64Array) -> Float64Array:
    middle = np.clip(0.0, lower, upper)
    limited = np.isfinite(lower) & np.isfinite(upper)
    middle[limited] = 0.5 * lower[limited] + 0.5 * upper[limited]
    mid_joint_q = np.zeros(robot.joint_coord_count)
    for joint, joint_type in enumerate(map(JointType, robot.joint_type)):
        if joint_type.quaternion_offset is not None:
            mid_joint_q[robot.joint_q_start[joint] + joint_type.quaternion_offset + 3] = 1.0
    has_coordinate = robot.dof_coordinate >= 0
    mid_joint_q[robot.dof_coordinate[has_coordinate]] = middle[has_coordinate]
    for joint_name, values in robot.locked.items():
        start = robot.joint_q_start[robot.joint_index(joint_name)]
        mid_joint_q[start : start + len(values)] = values
    _set_followers(robot, mid_joint_q)
    return mid_joint_q


def _set_followers(robot: "RobotModel", joint_q: Float64Array) -> None:
    """Set the followers' coordinates from their leaders', in place."""
    follower = np.flatnonzero(robot.dof_leader != np.arange(robot.joint_dof_count))
    coordinate, leader = robot.dof_coordinate[follower], robot.dof_coordinate[robot.dof_leader[follower]]
    joint_q[..., coordinate] = robot.dof_multiplier[follower] * joint_q[..., leader] + robot.dof_offset[follower]


def complete_joint_q(robot: "RobotModel", joint_q: ArrayLike) -> Float64Array:
    """Set followers from their leaders, in copies, shape [n, joint_coord_count]; locked joints stay where they are.

    Raises:
        InputError: Wrong shape, non-finite values, or a quaternion of length zero.
    """
    completed = checked_joint_q(robot, joint_q).copy()
    _set_followers(robot, completed)
    return completed


def clamp_joint_q(robot: "RobotModel", joint_q: ArrayLike) -> Float64Array:
    """Clamp copies into the limits, locked joints too, and complete them, shape [n, joint_coord_count].

    Raises:
        InputError: Wrong shape, non-finite values, or a quaternion of length zero.
    """
    clamped = checked_joint_q(robot, joint_q).copy()
    leads = robot.dof_leader == np.arange(robot.joint_dof_count)
    limited = leads & (robot.dof_coordinate >= 0)
    lower, upper = leader_limits(robot)
    coordinate = robot.dof_coordinate[limited]
    clamped[:, coordinate] = np.clip(clamped[:, coordinate], lower[limited], upper[limited])
    completed = complete_joint_q(robot, clamped)
    follower = np.flatnonzero(~leads)
    own = robot.dof_coordinate[follower]
    # multiplier * limit + offset may pass the follower's own limit by the last bit
    completed[:, own] = np.clip(completed[:, own], robot.joint_limit_lower[follower], robot.joint_limit_upper[follower])
    return completed
