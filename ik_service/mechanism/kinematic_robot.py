"""Abstract base class of `RobotModel`, the type of robots in lower rooms, and its records."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from ik_service.mechanism.arrays import Int32Array, RobotArrays
from ik_service.mechanism.joint_type import JointType
from ik_service.mechanism.transforms import Float64Array
from objectives.model import BodyMass, IKModel


@dataclass(frozen=True, eq=False)
class JointStep:
    """Constants of joints of one type with the same number of joints above.

    With the parent's quaternion p, the child's quaternion is
    ``cos(angle / 2) * turn[:4] @ p + sin(angle / 2) * turn[4:] @ p``.
    """

    joint_type: JointType
    joints: Int32Array  # shape [k]
    parents: Int32Array  # parent bodies, -1 for the world, shape [k]
    coordinates: Int32Array  # coordinates of the joints, shape [coordinates, k]
    origins: Float64Array  # origins of the joint-parent frames in the parent bodies [m], shape [3, k, 1]
    axes: Float64Array  # axes of the DOFs in the parent bodies, shape [dofs, 3, k, 1]
    turn: Float64Array  # matrices of two right-multiplications by constant quaternions, stacked, shape [k, 8, 4]


@dataclass(frozen=True, eq=False)
class KinematicTrees:
    """The trees of a robot, numbered by their first active DOF.

    Attributes:
        ntree: Number of trees.
        tree_dofadr: First entry of each tree in `tree_dof`, shape [ntree].
        tree_dofnum: Number of active DOFs of each tree, shape [ntree].
        tree_dof: Active DOFs, tree by tree, increasing within a tree, shape [active_dof_count].
        dof_place: Index of each active DOF in `tree_dof`, shape [active_dof_count].
        active_treeid: Tree of each active DOF, shape [active_dof_count].
        dof_treeid: Tree that moves each DOF, -1 for locked DOFs, shape [joint_dof_count].
        body_treeid: Tree of each body, -1 for static bodies, shape [body_count].
        coordinate_treeid: Tree that moves each coordinate, -1 for none, shape [joint_coord_count].
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
    """Active DOFs of a robot, all arrays read-only; see the properties of `KinematicRobot`."""

    dof_active: Int32Array
    active_dof: Int32Array
    active_limit_lower: Float64Array
    active_limit_upper: Float64Array
    mid_joint_q: Float64Array


class KinematicRobot(RobotArrays, ABC):
    """Arrays of a robot and derived members; `RobotModel` documents each abstract member."""

    @property
    @abstractmethod
    def active_map(self) -> ActiveMap:
        """Active DOFs (the DOFs that a solver may move), their limits, and the configuration in the middle."""

    @property
    def active_dof_count(self) -> int:
        """Number of active DOFs: DOFs that a solver may move, neither locked nor followers."""
        return len(self.active_dof)

    @property
    def dof_active(self) -> Int32Array:
        """Active DOF that moves each DOF, -1 for locked DOFs, shape [joint_dof_count]."""
        return self.active_map.dof_active

    @property
    def active_dof(self) -> Int32Array:
        """DOF of each active DOF, increasing, shape [active_dof_count]."""
        return self.active_map.active_dof

    @property
    def active_limit_lower(self) -> Float64Array:
        """Lower limit of each active DOF, narrowed by limits of followers, shape [active_dof_count]."""
        return self.active_map.active_limit_lower

    @property
    def active_limit_upper(self) -> Float64Array:
        """Upper limit of each active DOF, narrowed by limits of followers, shape [active_dof_count]."""
        return self.active_map.active_limit_upper

    @property
    def mid_joint_q(self) -> Float64Array:
        """Middle of the limits, 0 (clamped) without two limits; locked joints locked, shape [joint_coord_count]."""
        return self.active_map.mid_joint_q

    @property
    @abstractmethod
    def length_unit(self) -> float:
        """Unit of length of the robot [m]: 1 for robots of usual size."""

    @property
    @abstractmethod
    def trees(self) -> KinematicTrees:
        """Kinematic trees over the active DOFs."""

    @property
    @abstractmethod
    def body_masses(self) -> tuple[BodyMass, ...]:
        """Bodies with mass."""

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
        """Constants of the joints for forward kinematics, parents before children."""

    @cached_property
    def device_models(self) -> dict[str, Any]:
        """Cache of `on_device`: views of the robot for kernels (`DeviceModel`), by device."""
        return {}

    @property
    @abstractmethod
    def body_spheres(self) -> Any:
        """Spheres of the collision model (`BodySpheres`)."""

    @abstractmethod
    def joint_index(self, name: str) -> int:
        """Give the index of a moving joint."""

    @abstractmethod
    def link_index(self, name: str) -> int:
        """Give the index of a link."""

    def link_frame(self, name: str) -> tuple[int, Float64Array]:
        """Give the body that carries a link and ``T_body_link`` [m, xyzw], shape [7]; UnknownNameError: no such link.

        For a static link: -1 and ``T_world_link``.
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


def host_model(robot: KinematicRobot) -> IKModel:
    """Give a robot as the model that objectives bind to: its arrays have the same names, as NumPy arrays."""
    return cast(IKModel, robot)


Robot = TypeVar("Robot", bound=KinematicRobot)  # class of a robot, for functions that return a robot of the same class
