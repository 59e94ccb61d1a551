"""Protocol of a robot for objectives (`objectives` imports no robot class), index arrays on the host, and look-ups.

All arrays are on one device. A *DOF* is an entry of `joint_qd`, a *coordinate* an entry of `joint_q`; only
`dof_coordinate` maps DOFs to coordinates.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import warp as wp

from objectives.errors import InputError, UnknownNameError, near_names

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class BodyMass:
    """Mass of a body."""

    body: int  # the body; -1 for all static links
    mass: float  # mass [kg], above 0
    com: tuple[float, float, float]  # centre of mass in the frame of the body, or in the world frame for -1 [m]


class IKJointType(IntEnum):
    """Type of a joint, a value of `IKModel.joint_type`, with names and numbers of `newton.JointType`.

    Attributes:
        PRISMATIC: Translates along its axis.
        REVOLUTE: Rotates about its axis, with limits or (a continuous joint) without limits.
        BALL: Rotates about all axes; the coordinates are a quaternion xyzw.
        FREE: A floating joint; the coordinates are a position [m] and a quaternion xyzw.
        D6: A planar joint: translates along the first two axes and rotates about the third axis.
    """

    PRISMATIC = 0
    REVOLUTE = 1
    BALL = 2
    FREE = 4
    D6 = 6


class IKModel(Protocol):
    """A robot on one device: trees of bodies, one joint above each body.

    Names, shapes and meanings are those of `newton.Model`: the same objective can read both classes.
    """

    @property
    def joint_count(self) -> int:
        """Number of joints."""

    @property
    def body_count(self) -> int:
        """Number of moving bodies."""

    @property
    def joint_coord_count(self) -> int:
        """Number of coordinates, the length of `joint_q`."""

    @property
    def joint_dof_count(self) -> int:
        """Number of DOFs, the length of `joint_qd`."""

    @property
    def device(self) -> Any:
        """Warp device of the arrays."""

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Names of the joints, length joint_count."""

    @property
    def link_names(self) -> tuple[str, ...]:
        """Names of all links of the file, also of static and folded links."""

    @property
    def joint_type(self) -> wp.array[wp.int32]:
        """`IKJointType` values, shape [joint_count]."""

    @property
    def joint_child(self) -> wp.array[wp.int32]:
        """Body that each joint moves, shape [joint_count]."""

    @property
    def joint_parent(self) -> wp.array[wp.int32]:
        """Parent body of each joint, -1 for the world, shape [joint_count]."""

    @property
    def joint_articulation(self) -> wp.array[wp.int32]:
        """Index of the tree of each joint, shape [joint_count]."""

    @property
    def joint_ancestor(self) -> wp.array[wp.int32]:
        """Joint that moves the parent body of each joint, -1 if none, shape [joint_count]."""

    @property
    def articulation_count(self) -> int:
        """Number of articulations (subtrees of the root)."""

    @property
    def articulation_start(self) -> wp.array[wp.int32]:
        """First joint of each articulation and, last, joint_count, shape [articulation_count + 1]."""

    @property
    def joint_X_p(self) -> wp.array[Any]:
        """Joint frames in the parent bodies, at coordinates zero [m, xyzw], shape [joint_count]."""

    @property
    def joint_X_c(self) -> wp.array[Any]:
        """Joint frames in the child bodies [m, xyzw], always identity, shape [joint_count]."""

    @property
    def joint_axis(self) -> wp.array[Any]:
        """Unit axes in the joint frames, shape [joint_dof_count]."""

    @property
    def body_com(self) -> wp.array[Any]:
        """Centre of mass of each body in the body's frame [m], zero without mass, shape [body_count]."""

    @property
    def joint_q(self) -> wp.array[wp.float32]:
        """Configuration in the middle of the limits, locked joints locked [m or rad], shape [joint_coord_count]."""

    @property
    def body_q(self) -> wp.array[Any]:
        """Poses of the bodies at `joint_q`, world frame, shape [body_count]."""

    @property
    def joint_q_start(self) -> wp.array[wp.int32]:
        """First coordinate of each joint, shape [joint_count + 1]."""

    @property
    def joint_qd_start(self) -> wp.array[wp.int32]:
        """First DOF of each joint, shape [joint_count + 1]."""

    @property
    def joint_dof_dim(self) -> wp.array[wp.int32]:
        """Numbers of linear and of angular DOFs of each joint, shape [joint_count, 2]."""

    @property
    def dof_coordinate(self) -> wp.array[wp.int32]:
        """Coordinate of each DOF, -1 for rotations with a quaternion, shape [joint_dof_count]."""

    @property
    def joint_limit_lower(self) -> wp.array[wp.float32]:
        """Lower limits [m or rad], -inf for none, shape [joint_dof_count]."""

    @property
    def joint_limit_upper(self) -> wp.array[wp.float32]:
        """Upper limits [m or rad], inf for none, shape [joint_dof_count]."""

    @property
    def body_masses(self) -> Sequence[BodyMass]:
        """Bodies with mass, in order; empty for a robot without masses."""

    def link_frame(self, name: str) -> tuple[int, FloatArray]:
        """Find a link by name, also a static or folded link; UnknownNameError for an unknown name.

        Returns:
            The body that carries the link, -1 for a static link; and T_body_link (T_world_link for -1) as position [m]
            and unit quaternion xyzw, shape [7].
        """


IDENTITY = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])


@dataclass(frozen=True)
class BodyFrame:
    """A frame fixed to a body, such as a frame at the centre of mass; body -1 for the world.

    `T_body_frame` is a position [m] and a unit quaternion xyzw.
    """

    body: int
    T_body_frame: tuple[float, float, float, float, float, float, float]


def _on_host(array: Any) -> npt.NDArray[np.int32]:
    return np.asarray(array if isinstance(array, np.ndarray) else array.numpy())


class RobotIndices:
    """Index arrays of a model on the host; made when an objective is bound, never in a solve."""

    def __init__(self, model: IKModel) -> None:
        self.model = model
        self.ancestor, self.child = _on_host(model.joint_ancestor), _on_host(model.joint_child)
        self.q_start, self.qd_start = _on_host(model.joint_q_start), _on_host(model.joint_qd_start)
        self.dof_dim, self.dof_coordinate = _on_host(model.joint_dof_dim), _on_host(model.dof_coordinate)

    def frame(self, link: str | int | BodyFrame) -> tuple[int, FloatArray]:
        """Give the body of a link and T_body_link, shape [7]; an int is a body index, with the body's own frame."""
        if isinstance(link, str):
            return self.model.link_frame(link)
        if isinstance(link, BodyFrame):
            return link.body, np.array(link.T_body_frame)
        if not 0 <= link < self.model.body_count:
            raise InputError(f"Body index {link} is not in the robot; allowed: 0 to {self.model.body_count - 1}.")
        return link, IDENTITY

    def moves(self, body: int) -> BoolArray:
        """Give a mask of the DOFs that move a body, shape [joint_dof_count]; none move the world, body -1."""
        moving = np.zeros(self.model.joint_dof_count, dtype=bool)
        for joint in self.way_to(body):
            moving[self.dofs(joint)] = True
        return moving

    def way_to(self, body: int) -> list[int]:
        """Give the joints from the base to a body; none for the world, body -1."""
        joint = int(np.flatnonzero(self.child == body)[0]) if body >= 0 else -1
        way: list[int] = []
        while joint >= 0:
            way.append(joint)
            joint = int(self.ancestor[joint])
        return way[::-1]

    def linear_dofs(self) -> BoolArray:
        """Give a mask of the translational DOFs, shape [joint_dof_count]."""
        linear = np.zeros(self.model.joint_dof_count, dtype=bool)
        for start, (count, _) in zip(self.qd_start[:-1], self.dof_dim, strict=True):
            linear[start : start + count] = True
        return linear

    def dofs(self, joint: int) -> range:
        """Give the DOFs of a joint."""
        return range(int(self.qd_start[joint]), int(self.qd_start[joint + 1]))

    def scalar_dofs(self, joints: Iterable[int]) -> list[int]:
        """Give the DOFs with a scalar coordinate, of some joints."""
        return [dof for joint in joints for dof in self.dofs(joint) if self.dof_coordinate[dof] >= 0]

    def has_quaternion(self, joint: int) -> bool:
        """Return True for a ball or floating joint; its last four coordinates are a quaternion."""
        return bool(self.q_start[joint + 1] - self.q_start[joint] > len(self.dofs(joint)))

    def first_quaternion_coordinate(self, joint: int) -> int:
        """Give the first coordinate of a joint's quaternion."""
        return int(self.q_start[joint + 1]) - 4

    def first_angular_dof(self, joint: int) -> int:
        """Give the first angular DOF of a joint."""
        return int(self.qd_start[joint] + self.dof_dim[joint, 0])

    def select_joints(self, names: Sequence[str] | None, objective: str) -> list[int]:
        """Give the indices of named joints in the order of the robot; None selects all, InputError for a string."""
        known = self.model.joint_names
        if names is None:
            return list(range(len(known)))
        if isinstance(names, str):
            raise InputError(f"{objective}: joints is the string '{names}'; allowed: a sequence of joint names.")
        for name in names:
            if name not in known:
                close = near_names(name, known)
                hint = f"Did you mean '{close[0]}'? " if close else ""
                raise UnknownNameError(
                    f"{objective}: joint '{name}' is not in the robot. {hint}Joints: {', '.join(known)}."
                )
        return [joint for joint, name in enumerate(known) if name in names]
