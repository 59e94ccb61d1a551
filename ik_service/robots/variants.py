"""Models derived from a model: locked joints, a part of the tree, or the part that contains constraints."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ik_service.mechanism.arrays import CONSTRAINTS
from ik_service.mechanism.coordinates import CoordinateConstraint
from ik_service.mechanism.coupling import leader_limits
from ik_service.mechanism.joint_type import JointType
from ik_service.mechanism.kinematic_robot import KinematicRobot, Robot
from ik_service.mechanism.names import unknown_name
from ik_service.mechanism.transforms import (
    MAX_NUMBER,
    Float64Array,
    checked_transform,
    transform_inverse,
    transform_multiply,
)
from ik_service.mechanism.trees import (
    Constraint,
    constraint_ends,
    constraints_of,
    moved_link,
    path_between,
    path_to_root,
)
from ik_service.mechanism.velocities import VelocityConstraint
from objectives.data_field import UNIT_TOLERANCE
from objectives.errors import InputError, UnknownNameError

BoolArray = NDArray[np.bool_]


def with_frame(robot: Robot, name: str, link: str, offset: ArrayLike) -> Robot:
    """Give a model with one more link, fixed to another; see ``RobotModel.with_frame``."""
    if not name or name in robot.link_names:
        raise InputError(f"A frame needs a name that no link of robot '{robot.name}' has, got '{name}'.")
    carrier = robot.link_index(link)
    T_link_frame = checked_transform(offset, f"Frame '{name}': the offset")
    T_body_frame = transform_multiply(robot.link_X_body[carrier], T_link_frame)
    return dataclasses.replace(
        robot,
        link_names=(*robot.link_names, name),
        link_parent=np.append(robot.link_parent, np.int32(carrier)),
        link_body=np.append(robot.link_body, robot.link_body[carrier]),
        link_X_body=np.concatenate([robot.link_X_body, T_body_frame[np.newaxis]]),
        link_mass=np.append(robot.link_mass, 0.0),
        link_com=np.concatenate([robot.link_com, np.zeros((1, 3))]),
    )


def subrobot(
    robot: Robot,
    root: str,
    branches: Sequence[str] | None = None,
    stop_at: Sequence[str] | None = None,
    constraints: Sequence[str] | None = None,
) -> Robot:
    """Cut a part of the robot out; see ``RobotModel.subrobot``."""
    for names in (branches, stop_at, constraints):
        if isinstance(names, str):
            raise InputError(f"branches, stop_at and constraints must be a list of names, got the text {names!r}.")
    base = robot.link_index(root)
    kept_links = _below(robot, base)
    if branches is not None:
        kept_links &= _on_branches(robot, [_checked_link(robot, kept_links, root, link) for link in branches])
    for link in stop_at or ():
        ends = _below(robot, _checked_link(robot, kept_links, root, link))
        ends[robot.link_index(link)] = False
        kept_links &= ~ends
    return cut(robot, base, kept_links, constraints)


def _checked_link(robot: KinematicRobot, kept: BoolArray, root: str, link: str) -> int:
    index = robot.link_index(link)
    if not kept[index]:
        raise InputError(f"Link '{link}' is not in the part of robot '{robot.name}' below '{root}' that is kept.")
    return index


def _below(robot: KinematicRobot, link: int) -> BoolArray:
    """Mark a link and all links below; parents stand before children."""
    below = np.zeros(len(robot.link_names), dtype=bool)
    below[link] = True
    for index, parent in enumerate(robot.link_parent):
        below[index] |= parent >= 0 and below[parent]
    return below


def _on_branches(robot: KinematicRobot, tips: list[int]) -> BoolArray:
    """Mark the tips, the links on the paths to them, and the links below them."""
    on = np.zeros(len(robot.link_names), dtype=bool)
    for tip in tips:
        on |= _below(robot, tip)
        on[path_to_root(robot, tip)] = True
    return on


def cut(robot: Robot, base: int, kept_links: BoolArray, constraints: Sequence[str] | None = None) -> Robot:
    """Give the part of a robot with a base link (the new root) and kept links below, as `RobotModel.subrobot`."""
    links = np.flatnonzero(kept_links)
    moving = set(links.tolist()) - {base}
    # A joint stays when its moved link, the first link of its body, stays below the base.
    joints = np.array([j for j in range(robot.joint_count) if moved_link(robot, j) in moving], dtype=np.int64)
    new_body = _renumbering(robot.body_count, joints)
    T_base_body = transform_inverse(robot.link_X_body[base])
    on_base = robot.link_body[links] == robot.link_body[base]
    link_X_body, joint_X_p = robot.link_X_body[links].copy(), robot.joint_X_p[joints].copy()
    link_X_body[on_base] = transform_multiply(T_base_body, link_X_body[on_base])
    from_base = robot.joint_parent[joints] == robot.link_body[base]
    joint_X_p[from_base] = transform_multiply(T_base_body, joint_X_p[from_base])
    dofs = np.flatnonzero(np.isin(robot.dof_joint, joints))
    leader, multiplier, offset, locked = _kept_couplings(robot, dofs)
    names = tuple(robot.joint_names[j] for j in joints)
    kept = _kept_constraints(robot, base, {robot.link_names[i] for i in links}, names, constraints)
    inherited = {one.name for own in kept.values() for one in own}
    link_names = tuple(robot.link_names[i] for i in links)
    return dataclasses.replace(
        robot,
        joint_names=names,
        link_names=link_names,
        link_parent=_renumbering(len(robot.link_names), links)[robot.link_parent[links]],
        link_body=new_body[robot.link_body[links]],
        link_X_body=link_X_body,
        link_mass=robot.link_mass[links],
        link_com=robot.link_com[links],
        joint_type=robot.joint_type[joints],
        joint_parent=new_body[robot.joint_parent[joints]],
        joint_X_p=joint_X_p,
        joint_axis=robot.joint_axis[dofs],
        joint_limit_lower=robot.joint_limit_lower[dofs],
        joint_limit_upper=robot.joint_limit_upper[dofs],
        joint_velocity_limit=robot.joint_velocity_limit[dofs],
        joint_effort_limit=robot.joint_effort_limit[dofs],
        joint_acceleration_limit=robot.joint_acceleration_limit[dofs],
        dof_leader=leader,
        dof_multiplier=multiplier,
        dof_offset=offset,
        dropped_constraints=tuple(one.name for one in constraints_of(robot) if one.name not in inherited),
        collision_model=None if robot.collision_model is None else robot.collision_model.of_links(link_names),
        locked={name: values for name, values in {**robot.locked, **locked}.items() if name in names},
        **kept,
    )


def _kept_constraints(
    robot: KinematicRobot, base: int, links: set[str], joints: Sequence[str], wanted: Sequence[str] | None
) -> dict[str, Any]:
    """Give the constraints inside a part; constraints to the world only if the base is static."""
    names = _constraints_by_name(robot, wanted or ()).keys()
    stands_still = robot.link_body[base] < 0

    def is_inside(one: Constraint) -> bool:
        if isinstance(one, CoordinateConstraint):
            return set(one.joints) <= set(joints)
        return set(one.links) <= links and (stands_still or not one.is_to_world)

    outside = [one.name for one in constraints_of(robot) if not is_inside(one)]
    for name in wanted or ():
        if name in outside:
            raise InputError(
                f"Constraint '{name}' cannot be in the part of robot '{robot.name}' below '{robot.link_names[base]}': "
                "a frame or joint of it is elsewhere. Keep its links, or leave it out."
            )
    left_out = {*outside, *(() if wanted is None else names - set(wanted))}
    T_base_world = transform_inverse(robot.link_X_body[base])
    return {
        field: tuple(_seen_from(T_base_world, one) for one in getattr(robot, field) if one.name not in left_out)
        for field in CONSTRAINTS
    }


def _constraints_by_name(robot: KinematicRobot, wanted: Sequence[str]) -> dict[str, Constraint]:
    """Give the constraints of a robot by name; UnknownNameError if a wanted name is missing."""
    known = {one.name: one for one in constraints_of(robot)}
    for name in wanted:
        if name not in known:
            opening = f"Constraint '{name}' is not in robot '{robot.name}'."
            raise UnknownNameError(unknown_name(opening, "Constraint", list(known), name))
    return known


def _seen_from(T_base_world: Float64Array, one: Constraint) -> Constraint:
    """Express a constraint to the world in the base's frame."""
    if isinstance(one, CoordinateConstraint) or one.reference_link is not None:
        return one
    offset = transform_multiply(T_base_world, np.array(one.reference_offset))
    return dataclasses.replace(one, reference_offset=tuple(offset.tolist()))


def _renumbering(count: int, kept: NDArray[np.int64]) -> NDArray[np.int32]:
    """Give the new index of each old index, -1 if removed; the last entry, reached by -1, stays -1."""
    renumbering = np.full(count + 1, -1, dtype=np.int32)
    renumbering[kept] = np.arange(len(kept), dtype=np.int32)
    return renumbering


def _kept_couplings(
    robot: KinematicRobot, dofs: NDArray[np.int64]
) -> tuple[NDArray[np.int32], Float64Array, Float64Array, dict[str, tuple[float, ...]]]:
    """Give leaders, multipliers and offsets of kept DOFs, renumbered, and the coordinates of newly locked joints.

    A mimic joint whose locked leader is removed is locked at its present coordinate.
    """
    leader = _renumbering(robot.joint_dof_count, dofs)[robot.dof_leader[dofs]]
    multiplier, offset = robot.dof_multiplier[dofs].copy(), robot.dof_offset[dofs].copy()
    locked: dict[str, tuple[float, ...]] = {}
    for k in np.flatnonzero(leader < 0):
        name, other = robot.dof_names[dofs[k]], robot.dof_names[robot.dof_leader[dofs[k]]]
        if other not in robot.locked:
            link = robot.link_names[moved_link(robot, robot.joint_names.index(other))]
            raise InputError(
                f"Joint '{name}' follows '{other}', which is not in this part. Load the whole robot and cut it with "
                f"robot.subrobot(root, [..., '{link}']), or with robot.lock({{'{other}': value}}).subrobot(...)."
            )
        leader[k], multiplier[k], offset[k] = k, 1.0, 0.0
        locked[name] = (float(robot.mid_joint_q[robot.dof_coordinate[dofs[k]]]),)
    return leader, multiplier, offset, locked


def lock(robot: Robot, values: Mapping[str, float | Sequence[float]]) -> Robot:
    """Give a model with joints locked at coordinates; see ``RobotModel.lock``."""
    fixed = {name: _checked(robot, name, value) for name, value in values.items()}
    return dataclasses.replace(robot, locked={**robot.locked, **fixed})


def _checked(robot: KinematicRobot, name: str, value: float | Sequence[float]) -> tuple[float, ...]:
    joint = robot.joint_index(name)
    dof = int(robot.joint_qd_start[joint])
    if robot.dof_leader[dof] != dof:
        leader = robot.dof_names[robot.dof_leader[dof]]
        raise InputError(f"Joint '{name}' follows '{leader}' and cannot be locked alone; lock '{leader}'.")
    try:
        numbers = np.atleast_1d(np.array(value, dtype=np.float64))
    except (TypeError, ValueError):
        raise InputError(f"The locked value of joint '{name}' must be numbers, got {value!r}.") from None
    count = int(robot.joint_q_start[joint + 1] - robot.joint_q_start[joint])
    if numbers.shape != (count,) or not (np.abs(numbers) <= MAX_NUMBER).all():
        allowed = f"{count} finite number(s) within +-{MAX_NUMBER:g}"
        raise InputError(f"The locked value of joint '{name}' must be {allowed}, got {value!r}.")
    _check_limits(robot, joint, numbers)
    offset = JointType(robot.joint_type[joint]).quaternion_offset
    if offset is not None:
        length = float(np.linalg.norm(numbers[offset:]))
        if abs(length - 1.0) > UNIT_TOLERANCE:
            raise InputError(f"The locked quaternion (xyzw) of joint '{name}' has length {length:.6g}; it must be 1.")
        numbers[offset:] /= length
    return tuple(float(number) + 0.0 for number in numbers)  # -0.0 would change the content hash


def _check_limits(robot: KinematicRobot, joint: int, numbers: Float64Array) -> None:
    lower, upper = leader_limits(robot)
    for dof in range(robot.joint_qd_start[joint], robot.joint_qd_start[joint + 1]):
        coordinate = robot.dof_coordinate[dof]
        if coordinate < 0:
            continue
        number = numbers[coordinate - robot.joint_q_start[joint]]
        if not lower[dof] <= number <= upper[dof]:
            name = robot.dof_names[dof]
            raise InputError(f"Joint '{name}' cannot be locked at {number:g}: limits [{lower[dof]:g}, {upper[dof]:g}].")


def activate(robot: Robot, joints: Sequence[str]) -> Robot:
    """Give a model in which only these joints move; see ``RobotModel.activate``."""
    if isinstance(joints, str):
        raise InputError(f"The active joints must be a list of names, got the text {joints!r}.")
    chosen = {robot.joint_index(name) for name in joints}
    fixed: dict[str, tuple[float, ...]] = {}
    for joint, name in enumerate(robot.joint_names):
        dof = int(robot.joint_qd_start[joint])
        leader = int(robot.dof_joint[robot.dof_leader[dof]])
        if joint in chosen and leader not in chosen:
            other = robot.joint_names[leader]
            raise InputError(f"Joint '{name}' follows '{other}' and moves only with it; name '{other}' as active.")
        if joint not in chosen and leader == joint:
            own = slice(robot.joint_q_start[joint], robot.joint_q_start[joint + 1])
            fixed[name] = tuple(map(float, robot.mid_joint_q[own]))
    return dataclasses.replace(robot, locked=fixed)


def aggregate(robot: Robot, names: Sequence[str], *, with_velocity: bool = True) -> Robot:
    """Cut out the part that contains constraints; see ``RobotModel.aggregate``.

    A step of the tree is named by its lower link. Each constraint closes a circle of steps. Circles that share a step
    with the part belong to the part.
    """
    if isinstance(names, str) or not names:
        raise InputError(f"Constraints to aggregate must be a list of names, at least one, got {names!r}.")
    known = _constraints_by_name(robot, names)
    anchor = constraint_ends(robot, known[names[0]])[0]
    steps: set[int] = set()
    for name in names:
        steps |= _circle(robot, known[name]) | _steps(robot, anchor, constraint_ends(robot, known[name])[0])
    circles = [
        _circle(robot, one) for one in known.values() if with_velocity or not isinstance(one, VelocityConstraint)
    ]
    while grown := [circle for circle in circles if circle & steps and not circle <= steps]:
        steps = steps.union(*grown)
    kept = np.zeros(len(robot.link_names), dtype=bool)
    kept[[anchor, *steps]] = True
    kept[robot.link_parent[list(steps)]] = True
    base = int(np.flatnonzero(kept)[0])  # parents stand before children
    return cut(robot, base, kept)


def _circle(robot: KinematicRobot, constraint: Constraint) -> set[int]:
    """Give the steps that a constraint closes to a circle; a coordinate constraint adds the steps of its joints."""
    ends = constraint_ends(robot, constraint)
    return _steps(robot, *ends) | (set(ends) if isinstance(constraint, CoordinateConstraint) else set())


def _steps(robot: KinematicRobot, first: int, second: int) -> set[int]:
    path, common = path_between(robot, first, second)
    return set(path) - {common}
