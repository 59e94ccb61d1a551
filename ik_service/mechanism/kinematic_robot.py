"""The abstract class below `RobotModel`, which functions on robots take, and the records that it names.

The functions stand in `structure`, `host_kinematics` and `variants`; `RobotModel` implements the class by them.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from ik_service.mechanism.arrays import Int32Array, RobotArrays
from ik_service.mechanism.joint_type import JointType
from ik_service.mechanism.transforms import Float64Array
from objectives.model import BodyMass


@dataclass(frozen=True, eq=False)
class JointStep:
    """Constants of one joint.

    With the parent's quaternion p: the child's is ``turn[:4] @ p`` at angle zero, and
    ``cos(angle / 2) * turn[:4] @ p + sin(angle / 2) * turn[4:] @ p`` in general.

    Attributes:
        joint_type: Its type.
        parent: Body that carries it, -1 for the world.
        coordinates: Where its coordinates stand in joint_q.
        origin: Origin of the joint-parent frame in the parent body [m], shape [3].
        axes: Axes of its DOFs in the parent body, shape [dofs, 3].
        turn: Two right-multiplications by constant quaternions, one above the other, shape [8, 4].
    """

    joint_type: JointType
    parent: int
    coordinates: slice
    origin: Float64Array
    axes: Float64Array
    turn: Float64Array


@dataclass(frozen=True, eq=False)
class KinematicTrees:
    """The trees of a robot, numbered by their first active DOF.

    Attributes:
        ntree: Number of trees.
        tree_dofadr: First entry of each tree in `tree_dof`, shape [ntree].
        tree_dofnum: Number of active DOFs of each tree, shape [ntree].
        tree_dof: Active DOFs, those of a tree together and increasing within it, shape [active_dof_count].
        dof_place: Where each active DOF stands in `tree_dof`, shape [active_dof_count].
        active_treeid: Tree of each active DOF, shape [active_dof_count].
        dof_treeid: Tree that moves each DOF, -1 where locked, shape [joint_dof_count].
        body_treeid: Tree of each body, -1 where static, shape [body_count].
        coordinate_treeid: Tree that moves each coordinate, -1 where none does, shape [joint_coord_count].
    """

    ntree: int
    tree_dofadr: Int32Array
    tree_dofnum: Int32Array
    tree_dof: Int32Array
    dof_place: Int32Array
    active_treeid: Int32Array
    dof_treeid: Int32Array
    body_treeid: Int32Array
    coordinate_treeid: Int32Array

    def __repr__(self) -> str:
        return f"<KinematicTrees: {self.ntree} of {self.tree_dofnum.tolist()} active DOFs>"


@dataclass(frozen=True, eq=False)
class ActiveMap:
    """The DOFs that a solver may move, all arrays read-only; see the properties of `KinematicRobot`."""

    dof_active: Int32Array
    active_dof: Int32Array
    active_limit_lower: Float64Array
    active_limit_upper: Float64Array
    mid_joint_q: Float64Array


class KinematicRobot(RobotArrays, ABC):
    """A robot's arrays and what is computed from them; `RobotModel` documents each abstract member."""

    @property
    @abstractmethod
    def active_map(self) -> ActiveMap:
        """The DOFs that a solver may move, their limits, and the configuration in the middle."""

    @property
    def active_dof_count(self) -> int:
        """Number of DOFs that a solver may move: neither locked nor followers."""
        return len(self.active_dof)

    @property
    def dof_active(self) -> Int32Array:
        """Active DOF that moves each DOF, -1 where locked, shape [joint_dof_count]."""
        return self.active_map.dof_active

    @property
    def active_dof(self) -> Int32Array:
        """DOF of each active DOF, increasing, shape [active_dof_count]."""
        return self.active_map.active_dof

    @property
    def active_limit_lower(self) -> Float64Array:
        """Lower limit of each active DOF, its followers' limits counted in, shape [active_dof_count]."""
        return self.active_map.active_limit_lower

    @property
    def active_limit_upper(self) -> Float64Array:
        """Upper limit of each active DOF, its followers' limits counted in, shape [active_dof_count]."""
        return self.active_map.active_limit_upper

    @property
    def mid_joint_q(self) -> Float64Array:
        """The middle of the limits, 0 (clamped) without; locked joints where they are, shape [joint_coord_count]."""
        return self.active_map.mid_joint_q

    @property
    @abstractmethod
    def length_unit(self) -> float:
        """Length that counts as a metre does for robots of usual size [m]."""

    @property
    @abstractmethod
    def trees(self) -> KinematicTrees:
        """Kinematic trees over the active DOFs."""

    @property
    @abstractmethod
    def body_masses(self) -> tuple[BodyMass, ...]:
        """Bodies that have mass."""

    @property
    @abstractmethod
    def coordinate_names(self) -> tuple[str, ...]:
        """Name of each coordinate."""

    @property
    @abstractmethod
    def dof_names(self) -> tuple[str, ...]:
        """Name of each DOF."""

    @property
    @abstractmethod
    def joint_steps(self) -> tuple[JointStep, ...]:
        """Constants of each joint for forward kinematics."""

    @cached_property
    def device_models(self) -> dict[str, Any]:
        """Views of the robot for kernels (`DeviceModel`) that `on_device` has made, by device."""
        return {}

    @property
    @abstractmethod
    def body_spheres(self) -> Any:
        """The spheres of the collision model (`BodySpheres`)."""

    @abstractmethod
    def joint_index(self, name: str) -> int:
        """Give the index of a moving joint."""

    @abstractmethod
    def link_index(self, name: str) -> int:
        """Give the index of a link."""

    def link_frame(self, name: str) -> tuple[int, Float64Array]:
        """Give the body that carries a link and ``T_body_link`` [m, xyzw], shape [7].

        The body is -1 for a static link, and the transform ``T_world_link`` then.

        Raises:
            UnknownNameError: The robot has no such link.
        """
        index = self.link_index(name)
        return int(self.link_body[index]), self.link_X_body[index]

    @abstractmethod
    def body_poses(self, joint_q: ArrayLike) -> Float64Array:
        """Give ``T_world_body`` of every body, shape [n, body_count, 7]."""

    @abstractmethod
    def clamp_joint_q(self, joint_q: ArrayLike) -> Float64Array:
        """Clamp copies into the limits and complete them, shape [n, joint_coord_count]."""

    @abstractmethod
    def random_joint_q(self, rng: np.random.Generator, n: int) -> Float64Array:
        """Draw configurations uniformly inside the limits, shape [n, joint_coord_count]."""


Robot = TypeVar("Robot", bound=KinematicRobot)
"""The class of a robot from which another of the same class is derived."""
