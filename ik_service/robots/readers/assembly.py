"""Assembly of a model: the tree of a description is checked, ordered depth-first, and its fixed joints are folded.

Chains of mimic joints are resolved to their leaders, and contradictory limits removed. Runs once per robot.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from ik_service.errors import RobotFileError
from ik_service.mechanism.arrays import Int32Array
from ik_service.mechanism.coupling import LIMIT_SLACK, narrow_leader
from ik_service.mechanism.joint_type import JointType
from ik_service.mechanism.kinematic_robot import Robot
from ik_service.mechanism.loops import LoopConstraint, checked_constraints, unknown_links
from ik_service.mechanism.transforms import (
    MAX_NUMBER,
    Float64Array,
    identity_transform,
    quaternion_between,
    quaternion_rotate,
    transform_inverse,
    transform_multiply,
)
from ik_service.robots.model import RobotModel
from ik_service.robots.readers.description import (
    HingeDescription,
    JointDescription,
    LinkDescription,
    MimicDescription,
    ReadConstraints,
    RobotDescription,
    bounded,
    free_name,
)
from objectives.errors import InputError

FLOATING_BASE = "floating_base"  # joint above the root link with ``floating_base=True``; a taken name gets a ``_``
WORLD = "world"  # parent link of this joint; a taken name gets a ``_``
BASE = "base_link"  # link whose frame expresses the frames of cut hinges
_Named = TypeVar("_Named", LinkDescription, JointDescription)
_Z_AXIS = np.array([0.0, 0.0, 1.0])


def build_model(description: RobotDescription, *, floating_base: bool = False) -> RobotModel:
    """Turn a description into a model; joints not held by the description are free.

    Loops that the robot cannot close are left out with a warning. `floating_base` puts a floating joint
    ``floating_base`` between a new link ``world`` and the root (a taken name gets a ``_``).

    RobotFileError if the links and joints form no tree, a name is repeated or missing, couplings and limits contradict
    each other, or a number is too large.
    """
    if not description.links:
        raise RobotFileError("the robot has no <link>.")
    links = _unique(description.links, "link")
    _unique(description.joints, "joint")
    joint_of_child = _check_tree(links, description.joints)
    root = _find_root(description.links, joint_of_child)
    joints = list(description.joints)
    if floating_base:
        root = _add_floating_base(links, joints, joint_of_child, root)
    order = _depth_first(root, joints)
    if len(order) < len(links):
        reached = set(order)
        lost = next(link for name, link in links.items() if name not in reached)
        raise RobotFileError(
            f"the joints form a cycle: the link is not connected to the root '{root}'.",
            element=f"link '{lost.name}'",
            line=lost.line,
        )
    try:
        robot = _assemble(description.name, [links[name] for name in order], joints, joint_of_child)
    except RobotFileError:
        raise
    except InputError as error:  # raised by the model: too large a number, or an invalid lock
        raise RobotFileError(str(error)) from None
    return _with_constraints(robot, description.constraints)


def _with_constraints(robot: RobotModel, found: ReadConstraints) -> RobotModel:
    loops: list[LoopConstraint] = []
    warnings, links = list(found.warnings), unknown_links(frozenset(robot.link_names))
    named: list[LoopConstraint | HingeDescription] = [*found.loops, *found.hinges]
    for given in named:
        try:
            loop = given if isinstance(given, LoopConstraint) else _closing_hinge(robot, given)
            loops = [*checked_constraints(LoopConstraint, [*loops, loop], (), links)]
        except InputError as error:
            warnings.append(f"Loop '{given.name}' is left out: {error}")
    robot = robot.with_loops(loops) if loops else robot
    warnings += robot.warnings
    for one in found.coordinates:
        try:
            robot = robot.with_coordinate_constraints([*robot.coordinate_constraints, one])
        except InputError as error:
            warnings.append(f"Constraint '{one.name}' is left out: {error}")
    return dataclasses.replace(robot, warnings=bounded(warnings)) if warnings else robot


def _closing_hinge(robot: RobotModel, hinge: HingeDescription) -> LoopConstraint:
    """Give the loop of a hinge: its frame on both links when all coordinates are 0."""
    joint_q = np.zeros(robot.joint_coord_count)
    joint_q[[start + 3 for start in robot.quaternion_starts.values()]] = 1.0
    base = BASE if BASE in robot.link_names else robot.link_names[0]
    poses = robot.forward_kinematics(joint_q, [base, hinge.link, hinge.reference_link])
    links = np.concatenate([poses.positions[0], poses.orientations_xyzw[0]], axis=1)
    frame = transform_multiply(links[0], hinge.X_base)
    offset, reference_offset = (transform_multiply(transform_inverse(link), frame) for link in links[1:])
    return LoopConstraint(
        hinge.name, "revolute", hinge.link, hinge.reference_link, tuple(offset), tuple(reference_offset)
    )


def _unique(items: Iterable[_Named], what: str) -> dict[str, _Named]:
    found: dict[str, _Named] = {}
    for item in items:
        if item.name in found:
            first = f" (first in line {found[item.name].line})" if found[item.name].line else ""
            raise RobotFileError(f"the name stands twice{first}.", element=f"{what} '{item.name}'", line=item.line)
        found[item.name] = item
    return found


def _check_tree(links: dict[str, LinkDescription], joints: Iterable[JointDescription]) -> dict[str, JointDescription]:
    """Check both ends of every joint and give the joint above each link."""
    joint_of_child: dict[str, JointDescription] = {}
    for joint in joints:
        element = f"joint '{joint.name}'"
        for end, link in (("parent", joint.parent), ("child", joint.child)):
            if link not in links:
                raise RobotFileError(f"its {end} link '{link}' does not exist.", element=element, line=joint.line)
        if joint.parent == joint.child:
            raise RobotFileError(f"it joins link '{joint.child}' to itself.", element=element, line=joint.line)
        if joint.child in joint_of_child:
            other = joint_of_child[joint.child].name
            raise RobotFileError(
                f"link '{joint.child}' has two parents, through joint '{other}' too; closed chains are not read.",
                element=element,
                line=joint.line,
            )
        joint_of_child[joint.child] = joint
    return joint_of_child


def _find_root(links: Iterable[LinkDescription], joint_of_child: dict[str, JointDescription]) -> str:
    roots = [link for link in links if link.name not in joint_of_child]
    if not roots:
        joint = next(iter(joint_of_child.values()))
        raise RobotFileError(
            "the joints form a cycle: every link has a parent.", element=f"joint '{joint.name}'", line=joint.line
        )
    if len(roots) > 1:
        raise RobotFileError(
            f"no joint connects it to link '{roots[0].name}'; a robot has one root.",
            element=f"link '{roots[1].name}'",
            line=roots[1].line,
        )
    return roots[0].name


def _add_floating_base(
    links: dict[str, LinkDescription],
    joints: list[JointDescription],
    joint_of_child: dict[str, JointDescription],
    root: str,
) -> str:
    world = free_name(WORLD, links)
    joint = free_name(FLOATING_BASE, {joint.name for joint in joints})
    links[world] = LinkDescription(world)
    joint_of_child[root] = JointDescription(joint, JointType.FLOATING, world, root)
    joints.insert(0, joint_of_child[root])
    return world


def _depth_first(root: str, joints: Iterable[JointDescription]) -> list[str]:
    """Give the links below the root, parents first, subtrees together, children in document order."""
    children: dict[str, list[str]] = {}
    for joint in joints:
        children.setdefault(joint.parent, []).append(joint.child)
    order, stack = [], [root]
    while stack:
        link = stack.pop()
        order.append(link)
        stack.extend(reversed(children.get(link, ())))
    return order


class _Bodies:
    """Moving joints in body order, and the body frame of every link."""

    def __init__(self, order: list[str], joint_of_child: dict[str, JointDescription]) -> None:
        self.joints: list[JointDescription] = []
        self.parents: list[int] = []
        self.X_p: list[Float64Array] = []
        self.link_body: list[int] = []
        self.link_X_body: list[Float64Array] = []
        self.link_parent: list[int] = []
        index = {name: i for i, name in enumerate(order)}
        for name in order:
            joint = joint_of_child.get(name)
            self._place(joint, index[joint.parent] if joint else -1)

    def _place(self, joint: JointDescription | None, parent: int) -> None:
        body, T_body_link = -1, identity_transform()
        if joint is not None:
            body = self.link_body[parent]
            T_body_link = transform_multiply(self.link_X_body[parent], joint.X_parent)
        if joint is not None and joint.joint_type is not JointType.FIXED:
            self.parents.append(body)
            self.X_p.append(T_body_link)
            self.joints.append(joint)
            body, T_body_link = len(self.joints) - 1, identity_transform()
        self.link_body.append(body)
        self.link_X_body.append(T_body_link)
        self.link_parent.append(parent)


def _assemble(
    name: str,
    links: list[LinkDescription],
    joints: list[JointDescription],
    joint_of_child: dict[str, JointDescription],
) -> RobotModel:
    names = [link.name for link in links]
    bodies = _Bodies(names, joint_of_child)
    moving = bodies.joints
    dof_joint = [joint for joint in moving for _ in joint.joint_type.dof_components]
    leader, multiplier, offset = resolve_mimics(joints, moving)
    robot = RobotModel(
        name=name,
        joint_names=tuple(joint.name for joint in moving),
        link_names=tuple(names),
        link_parent=np.array(bodies.link_parent, dtype=np.int32),
        link_body=np.array(bodies.link_body, dtype=np.int32),
        link_X_body=np.array(bodies.link_X_body).reshape(-1, 7),
        link_mass=np.array([link.mass for link in links]),
        link_com=np.array([link.com for link in links]),
        joint_type=np.array([joint.joint_type for joint in moving], dtype=np.int32),
        joint_parent=np.array(bodies.parents, dtype=np.int32),
        joint_X_p=np.array(bodies.X_p).reshape(-1, 7),
        joint_axis=np.concatenate([np.zeros((0, 3)), *map(_dof_axes, moving)]),
        joint_limit_lower=np.array([joint.lower for joint in dof_joint]),
        joint_limit_upper=np.array([joint.upper for joint in dof_joint]),
        joint_velocity_limit=np.array([joint.velocity for joint in dof_joint]),
        joint_effort_limit=np.array([joint.effort for joint in dof_joint]),
        joint_acceleration_limit=np.array([joint.acceleration for joint in dof_joint]),
        dof_leader=leader,
        dof_multiplier=multiplier,
        dof_offset=offset,
    )
    _check_coordinate_names(robot)
    robot = without_contradictions(robot)
    locked = {joint.name: joint.locked_value for joint in moving if joint.locked_value is not None}
    return robot.lock(locked) if locked else robot


def _check_coordinate_names(robot: RobotModel) -> None:
    """Refuse two coordinates of one name: a joint ``base/x`` beside a planar joint ``base``, for example."""
    for names in (robot.coordinate_names, robot.dof_names):
        twice = next((name for name, count in Counter(names).items() if count > 1), None)
        if twice is not None:
            reason = "a joint of several coordinates names one of them so too; rename the joint."
            raise RobotFileError(reason, element=f"joint '{twice}'")


def _dof_axes(joint: JointDescription) -> Float64Array:
    """Give the axes of a joint's DOFs in the joint-parent frame, shape [dofs, 3]."""
    axis = np.array(joint.axis, dtype=np.float64)
    if joint.joint_type.is_scalar:
        return axis[np.newaxis]
    if joint.joint_type is JointType.PLANAR:
        return quaternion_rotate(quaternion_between(_Z_AXIS, axis), np.eye(3))
    return np.eye(3)[[*range(joint.joint_type.linear_dof_count), 0, 1, 2]]


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
