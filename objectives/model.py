"""Members of a robot that an objective may read, as a protocol: `objectives` imports no robot class.

Every array lives on one device. The word *DOF* is an entry of `joint_qd`, *coordinate* an entry of `joint_q`; only
`dof_coordinate` leads from one to the other.
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
    """The mass that a body carries."""

    body: int
    """The body; -1 for all that nothing moves."""

    mass: float
    """Mass [kg], above 0."""

    com: tuple[float, float, float]
    """Centre of that mass in the frame of the body, or in the world frame for -1 [m]."""


class IKJointType(IntEnum):
    """Type of a joint as `IKModel.joint_type` has it: names and numbers are those of `newton.JointType`."""

    PRISMATIC = 0
    """Slides along its axis."""

    REVOLUTE = 1
    """Turns about its axis, with limits or (a continuous joint) without."""

    BALL = 2
    """Turns about all axes; its coordinates are a quaternion xyzw."""

    FREE = 4
    """Moves and turns in all directions (a floating joint); a position [m] and a quaternion xyzw."""

    D6 = 6
    """Slides along its first two axes and turns about its third: a planar joint."""


class IKModel(Protocol):
    """A robot on one device: trees of bodies, one joint above each of them.

    Names, shapes and meanings are those of `newton.Model`, so that an objective that reads one can read the other.
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
        """Names of all links of the file, the static and the folded ones among them."""

    @property
    def joint_type(self) -> wp.array[wp.int32]:
        """`IKJointType` values, shape [joint_count]."""

    @property
    def joint_child(self) -> wp.array[wp.int32]:
        """Body that each joint moves, shape [joint_count]."""

    @property
    def joint_parent(self) -> wp.array[wp.int32]:
        """Body on which each joint stands, -1 for the world, shape [joint_count]."""

    @property
    def joint_articulation(self) -> wp.array[wp.int32]:
        """Index of the tree of each joint, shape [joint_count]."""

    @property
    def joint_ancestor(self) -> wp.array[wp.int32]:
        """Joint that moves the parent body of each joint, -1 if none, shape [joint_count]."""

    @property
    def articulation_count(self) -> int:
        """Number of articulations: of subtrees of the root."""

    @property
    def articulation_start(self) -> wp.array[wp.int32]:
        """First joint of each articulation and, last, their number, shape [articulation_count + 1]."""

    @property
    def joint_X_p(self) -> wp.array[Any]:
        """Joint frames in the parent bodies, at coordinates zero [m, xyzw], shape [joint_count]."""

    @property
    def joint_X_c(self) -> wp.array[Any]:
        """Joint frames in the child bodies [m, xyzw], identity: bodies stand in them, shape [joint_count]."""

    @property
    def joint_axis(self) -> wp.array[Any]:
        """Unit axes in the joint frames, shape [joint_dof_count]."""

    @property
    def body_com(self) -> wp.array[Any]:
        """Centre of mass of each body in its frame [m], zero where it has no mass, shape [body_count]."""

    @property
    def joint_q(self) -> wp.array[wp.float32]:
        """A configuration [m or rad]: the middle of the limits, locked joints at theirs, shape [joint_coord_count]."""

    @property
    def body_q(self) -> wp.array[Any]:
        """Poses of the bodies there, world frame, shape [body_count]."""

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
        """Coordinate of each DOF, -1 where a quaternion holds it, shape [joint_dof_count]."""

    @property
    def joint_limit_lower(self) -> wp.array[wp.float32]:
        """Lower limits [m or rad], -inf where there is none, shape [joint_dof_count]."""

    @property
    def joint_limit_upper(self) -> wp.array[wp.float32]:
        """Upper limits [m or rad], inf where there is none, shape [joint_dof_count]."""

    @property
    def body_masses(self) -> Sequence[BodyMass]:
        """Bodies that have mass, in their order; none where the robot's file gives no masses."""

    def link_frame(self, name: str) -> tuple[int, FloatArray]:
        """Find a link by name.

        Args:
            name: A link of the file, static or folded ones too.

        Returns:
            The body that carries the link, or -1 if nothing moves it; and T_body_link (T_world_link if the body is -1)
            as position [m] and unit quaternion xyzw, shape [7].

        Raises:
            UnknownNameError: No link has this name.
        """
