"""Arrays of a robot, and derived arrays; all are read-only. ``RobotModel`` adds the functions."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from types import MappingProxyType
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ik_service.mechanism.collision_model import CollisionModel
from ik_service.mechanism.coordinates import CoordinateConstraint
from ik_service.mechanism.joint_type import JointType
from ik_service.mechanism.loops import LoopConstraint
from ik_service.mechanism.transforms import MAX_NUMBER, MAX_POSITION, UNBOUNDED, Float64Array
from ik_service.mechanism.velocities import VelocityConstraint
from objectives.errors import InputError

Int32Array = NDArray[np.int32]
_Scalar = TypeVar("_Scalar", bound=np.generic)


CONSTRAINTS = ("loops", "velocity_constraints", "coordinate_constraints")  # names of the fields with constraints
_OPTIONAL = (*CONSTRAINTS, "collision_model")


@dataclass(frozen=True, eq=False)
class RobotArrays:
    """A robot with a fixed root, all arrays read-only.

    Body ``j`` is the child link of moving joint ``j``. Bodies are in depth-first order from the root, children in
    document order: parents come first and subtrees are contiguous. Fixed joints are folded; their links stay as frames.
    ``T_world_body = T_world_parent * joint_X_p * T_joint(q)``; the first two factors are the joint-parent frame, the
    frame of axes and tangents.
    """

    name: str  # name of the robot; not part of ``content_hash``
    joint_names: tuple[str, ...]  # names of the moving joints, length joint_count
    link_names: tuple[str, ...]  # names of all links depth-first, then of added frames, length link_count
    link_parent: Int32Array  # link above each link, -1 for the root, shape [link_count]
    link_body: Int32Array  # body that carries each link, -1 for a static link, shape [link_count]
    link_X_body: Float64Array  # ``T_body_link`` (static links: ``T_world_link``) [m, xyzw], shape [link_count, 7]
    link_mass: Float64Array  # mass of each link [kg], 0 where the file gives none, shape [link_count]
    link_com: Float64Array  # centre of mass in the link's frame [m], shape [link_count, 3]
    joint_type: Int32Array  # ``JointType`` values, shape [joint_count]
    joint_parent: Int32Array  # body that carries each joint, -1 for the world, shape [joint_count]
    joint_X_p: Float64Array  # joint-parent frame in the parent body [m, xyzw], shape [joint_count, 7]
    joint_axis: Float64Array  # unit axis of each DOF in the joint-parent frame, shape [joint_dof_count, 3]
    joint_limit_lower: Float64Array  # lower limit per DOF [m or rad], -inf for none, shape [joint_dof_count]
    joint_limit_upper: Float64Array  # upper limit per DOF [m or rad], +inf for none, shape [joint_dof_count]
    joint_velocity_limit: Float64Array  # largest speed per DOF [m/s or rad/s], inf for none, shape [joint_dof_count]
    # largest force or torque per DOF [N or N m], inf for none, shape [joint_dof_count]
    joint_effort_limit: Float64Array
    # largest acceleration per DOF [m/s^2 or rad/s^2], inf for none, [joint_dof_count]
    joint_acceleration_limit: Float64Array
    # leader of each DOF (mimic joints), the DOF itself if the DOF follows none, shape [joint_dof_count]
    dof_leader: Int32Array
    # coordinate = multiplier * coordinate of the leader + offset; 1 for leaders, [joint_dof_count]
    dof_multiplier: Float64Array
    dof_offset: Float64Array  # offset of the coupling [m or rad], 0 for leaders, shape [joint_dof_count]
    # locked joints and their coordinates; followers of locked joints are locked, too
    locked: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    loops: tuple[LoopConstraint, ...] = ()  # closed loops
    # parts of the robot's file that are ignored or read differently, a sentence each; not part of ``content_hash``
    warnings: tuple[str, ...] = ()
    # names of constraints lost when this robot was cut out of another robot; not part of ``content_hash``
    dropped_constraints: tuple[str, ...] = ()
    coordinate_constraints: tuple[CoordinateConstraint, ...] = ()  # constraints between coordinates of joints
    velocity_constraints: tuple[VelocityConstraint, ...] = ()  # constraints on velocities alone
    collision_model: CollisionModel | None = None  # spheres on links, and pairs of links to check; None if unknown

    def __post_init__(self) -> None:
        """Make every array read-only, with 0.0 for -0.0, so that equal models hash equally; check sizes of numbers."""
        for item in dataclasses.fields(self):
            value = getattr(self, item.name)
            if isinstance(value, np.ndarray):
                object.__setattr__(self, item.name, read_only(value))
        object.__setattr__(self, "locked", MappingProxyType(dict(self.locked)))
        _check_numbers(self)

    def __reduce__(self) -> tuple[type["RobotArrays"], tuple[object, ...]]:
        """Pickle the constructor's arguments: the constructor makes copies read-only; device views are made anew."""
        values = {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}
        return type(self), tuple({**values, "locked": dict(self.locked)}.values())

    @cached_property
    def content_hash(self) -> str:
        """Hex digest of all fields but name, warnings and dropped constraints; equal for interchangeable models."""
        digest = sha256()
        for item in dataclasses.fields(self)[1:]:
            value = getattr(self, item.name)
            if item.name in ("warnings", "dropped_constraints") or (item.name in _OPTIONAL and not value):
                continue
            if item.name == "joint_acceleration_limit" and np.isinf(value).all():
                continue  # keeps the digests of robots from before this field existed
            if isinstance(value, CollisionModel):
                digest.update(f"{item.name} {value.content_hash}\n".encode())
            elif isinstance(value, np.ndarray):
                digest.update(f"{item.name} {value.dtype} {value.shape}\n".encode() + value.tobytes())
            else:
                words = sorted(value.items()) if isinstance(value, Mapping) else value
                digest.update(f"{item.name} {words!r}\n".encode())
        return digest.hexdigest()

    @property
    def every_constraint(self) -> tuple[LoopConstraint | CoordinateConstraint, ...]:
        """Constraints on positions in the order of results: loops, then coordinate constraints."""
        return self.loops + self.coordinate_constraints

    @property
    def has_closing_limits(self) -> bool:
        """True if a joint that closes a loop has limits."""
        return any(loop.limited for loop in self.loops)

    @property
    def joint_count(self) -> int:
        """Number of moving joints, locked ones included."""
        return len(self.joint_names)

    @property
    def body_count(self) -> int:
        """Number of bodies; equal to ``joint_count``."""
        return len(self.joint_names)

    @property
    def joint_coord_count(self) -> int:
        """Number of coordinates, the length of ``joint_q``."""
        return int(self.joint_q_start[-1])

    @property
    def joint_dof_count(self) -> int:
        """Number of DOFs, the length of ``joint_qd``."""
        return int(self.joint_qd_start[-1])

    @cached_property
    def joint_child(self) -> Int32Array:
        """Body that each joint moves, shape [joint_count]; equal to the joint's own index."""
        return read_only(np.arange(self.joint_count, dtype=np.int32))

    @property
    def joint_ancestor(self) -> Int32Array:
        """Joint above each joint, -1 for none, shape [joint_count]."""
        return self.joint_parent

    @cached_property
    def joint_articulation(self) -> Int32Array:
        """Index of each joint's subtree of the root, shape [joint_count]."""
        return read_only(np.cumsum(self.joint_parent < 0, dtype=np.int32) - np.int32(1))

    @cached_property
    def joint_q_start(self) -> Int32Array:
        """First coordinate of each joint and, last, their number, shape [joint_count + 1]."""
        return _starts([len(JointType(t).coordinate_components) for t in self.joint_type])

    @cached_property
    def joint_qd_start(self) -> Int32Array:
        """First DOF of each joint and, last, their number, shape [joint_count + 1]."""
        return _starts([len(JointType(t).dof_components) for t in self.joint_type])

    @cached_property
    def dof_joint(self) -> Int32Array:
        """Joint of each DOF, shape [joint_dof_count]."""
        return read_only(np.repeat(self.joint_child, np.diff(self.joint_qd_start)))

    @cached_property
    def joint_dof_dim(self) -> Int32Array:
        """Numbers of linear and of angular DOFs of each joint, shape [joint_count, 2]."""
        linear = np.array([JointType(t).linear_dof_count for t in self.joint_type], dtype=np.int32)
        return read_only(np.stack([linear, np.diff(self.joint_qd_start) - linear], axis=-1))

    @cached_property
    def linear_dofs(self) -> NDArray[np.bool_]:
        """Mask of the translational DOFs, shape [joint_dof_count]."""
        own = self.joint_qd_start[self.dof_joint]
        return read_only(np.arange(self.joint_dof_count) - own < self.joint_dof_dim[self.dof_joint, 0])

    @cached_property
    def quaternion_starts(self) -> dict[int, int]:
        """First coordinate of the quaternion, by joint; ball and floating joints only."""
        offsets = [JointType(t).quaternion_offset for t in self.joint_type]
        return {j: int(self.joint_q_start[j]) + offset for j, offset in enumerate(offsets) if offset is not None}

    @cached_property
    def follower_dofs(self) -> Int32Array:
        """Followers (DOFs of mimic joints), increasing, shape [followers]."""
        return read_only(np.flatnonzero(self.dof_leader != np.arange(self.joint_dof_count)).astype(np.int32))

    @cached_property
    def dof_coordinate(self) -> Int32Array:
        """Coordinate of each DOF, -1 for rotations of ball and floating joints, shape [joint_dof_count]."""
        coordinates = np.full(self.joint_qd_start[-1], -1, dtype=np.int32)
        for joint, joint_type in enumerate(map(JointType, self.joint_type)):
            start, stop = self.joint_qd_start[joint], self.joint_qd_start[joint + 1]
            if joint_type.quaternion_offset is not None:
                stop = start + joint_type.linear_dof_count
            coordinates[start:stop] = self.joint_q_start[joint] + np.arange(stop - start)
        return read_only(coordinates)


def read_only(array: NDArray[_Scalar]) -> NDArray[_Scalar]:
    """Copy an array, contiguous and read-only, with 0.0 for -0.0: equal models hash equally."""
    frozen = np.array(array, order="C")
    frozen[frozen == 0] = 0
    frozen.setflags(write=False)
    return frozen


def _starts(counts: list[int]) -> Int32Array:
    return read_only(np.cumsum([0, *counts], dtype=np.int32))


def _check_numbers(robot: RobotArrays) -> None:
    """Raise InputError for numbers that are not finite or too large; the message names joint or link, and the bound."""
    joints, links = robot.joint_names, robot.link_names
    dof_joints = [joints[joint] for joint in robot.dof_joint]
    _check("Joint", joints, "frame in its parent body", robot.joint_X_p, MAX_POSITION)
    _check("Link", links, "frame in its body", robot.link_X_body, MAX_POSITION)
    _check("Link", links, "centre of mass", robot.link_com, MAX_NUMBER)
    _check("Link", links, "mass", robot.link_mass, MAX_NUMBER)
    for what, limits, unlimited in (
        ("lower limit", robot.joint_limit_lower, -np.inf),
        ("upper limit", robot.joint_limit_upper, np.inf),
    ):
        _check("Joint", dof_joints, what, np.where(limits == unlimited, 0.0, limits), UNBOUNDED)


def _check(owner: str, names: Sequence[str], what: str, values: Float64Array, largest: float) -> None:
    outside: NDArray[np.bool_] = ~(np.abs(values) <= largest)
    if outside.any():
        place = tuple(int(i[0]) for i in np.nonzero(outside))
        raise InputError(
            f"{owner} '{names[place[0]]}': its {what} holds {values[place]:g}. Allowed: -{largest:g} to {largest:g}."
        )
