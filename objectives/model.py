"""Protocol of a robot for objectives: `objectives` imports no robot class.

All arrays are on one device. A *DOF* is an entry of `joint_qd`, a *coordinate* an entry of `joint_q`; only
`dof_coordinate` maps DOFs to coordinates.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import warp as wp

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class BodyMass:
    """Mass of a body.

    Attributes:
        body: The body; -1 for all static links.
        mass: Mass [kg], above 0.
        com: Centre of mass in the frame of the body, or in the world frame for -1 [m].
    """

    body: int
    mass: float
    com: tuple[float, float, float]


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
