"""The immutable model of a robot on the host, and what can be asked of it.

A model is made by ``load_robot`` and never changes; ``lock``, ``activate``, ``with_frame`` and ``subrobot`` give new
ones. It may be shared between threads. Its float64 kinematics judge every solution; the view that kernels read is
``DeviceModel``.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from ik_service.collision.colliding_robot import CollidingRobot
from ik_service.constraints.constraint_set import ConstraintSet
from ik_service.constraints.rounding import with_slack
from ik_service.kinematics import host_link_motion, host_poses, host_tangent
from ik_service.kinematics.host_poses import LinkPoses
from ik_service.mechanism import coupling, names
from ik_service.mechanism.coordinates import CoordinateConstraint, checked_coordinate_constraints
from ik_service.mechanism.joint_type import JointType
from ik_service.mechanism.kinematic_robot import ActiveMap, JointStep, KinematicTrees
from ik_service.mechanism.loops import LoopConstraint, checked_loops
from ik_service.mechanism.names import DofInfo
from ik_service.mechanism.table import table
from ik_service.mechanism.transforms import Float64Array
from ik_service.mechanism.trees import kinematic_trees, length_unit
from ik_service.mechanism.velocities import VelocityConstraint, checked_velocity_constraints
from ik_service.robots import variants
from objectives.model import BodyMass

if TYPE_CHECKING:
    from ik_service.mechanism.device_model import DeviceModel


@dataclass(frozen=True, eq=False)
class RobotModel(CollidingRobot):
    """A robot: its arrays (see ``RobotArrays``), its float64 kinematics, and the ways to derive others from it."""

    def __repr__(self) -> str:
        dofs = f"{self.joint_dof_count} DOFs ({self.active_dof_count} active)"
        return f"<RobotModel '{self.name}': {self.joint_count} joints, {dofs}, {len(self.link_names)} links>"

    def __str__(self) -> str:
        """Give a table of the DOFs that fits a screen: names, types, limits, what moves them; and about collision."""
        return f"{table(self, repr(self))}\n{self.collision_words}"

    @cached_property
    def active_map(self) -> ActiveMap:
        """The DOFs that a solver may move, their limits, and the configuration in the middle."""
        return coupling.active_map(self)

    @cached_property
    def length_unit(self) -> float:
        """Length that counts as a metre does for robots of usual size [m]: 1 for these, else about the reach."""
        return length_unit(self)

    @cached_property
    def trees(self) -> KinematicTrees:
        """Kinematic trees over the active DOFs."""
        return kinematic_trees(self)

    @cached_property
    def body_masses(self) -> tuple[BodyMass, ...]:
        """Bodies that have mass, with that of the links fixed to them; body -1 first if static links have any."""
        return host_poses.body_masses(self)

    @cached_property
    def coordinate_names(self) -> tuple[str, ...]:
        """Name of each coordinate: the joint's, with ``/x`` and the like where it has several."""
        return names.coordinate_names(self)

    @cached_property
    def dof_names(self) -> tuple[str, ...]:
        """Name of each DOF: the joint's, with ``/vx`` and the like where it has several."""
        return names.dof_names(self)

    @cached_property
    def constraint_names(self) -> tuple[str, ...]:
        """Name of each constraint: of ``loops``, then of ``coordinate_constraints``."""
        return tuple(one.name for one in self.every_constraint)

    @cached_property
    def closing_coordinate_names(self) -> tuple[str, ...]:
        """Name of each coordinate of the joints that close loops, which ``joint_q`` does not hold."""
        return names.closing_coordinate_names(self.loops)

    @cached_property
    def joint_steps(self) -> tuple[JointStep, ...]:
        """Constants of each joint for forward kinematics, computed once."""
        return host_poses.joint_steps(self)

    def dof_at(self, index: int) -> DofInfo:
        """Describe DOF ``index``.

        Raises:
            InputError: There is no such DOF.
        """
        return names.dof_at(self, index)

    def link_index(self, name: str) -> int:
        """Give the index of a link in ``link_names``.

        Raises:
            UnknownNameError: The robot has no such link.
        """
        return names.index_of(self, "Link", self.link_names, name)

    def joint_index(self, name: str) -> int:
        """Give the index of a moving joint in ``joint_names``.

        Raises:
            UnknownNameError: The robot has no such moving joint.
        """
        return names.index_of(self, "Joint", self.joint_names, name)

    def forward_kinematics(self, joint_q: ArrayLike, links: Sequence[str] | None = None) -> LinkPoses:
        """Give the poses of links in the world frame, in float64.

        Args:
            joint_q: Configurations, shape [joint_coord_count] (then n = 1) or [n, joint_coord_count]; quaternions in it
                are normalised.
            links: Names of the links; None for all, in the order of ``link_names``.

        Returns:
            Positions [m], shape [n, links, 3], and orientations, shape [n, links, 4].

        Raises:
            UnknownNameError: The robot has no such link.
            InputError: Wrong shape, non-finite values, or a quaternion of length zero.
        """
        return host_poses.forward_kinematics(self, joint_q, links)

    def body_poses(self, joint_q: ArrayLike) -> Float64Array:
        """Give ``T_world_body`` [m, xyzw] of every body, shape [n, body_count, 7].

        Args:
            joint_q: Configurations, shape [joint_coord_count] (then n = 1) or [n, joint_coord_count].

        Raises:
            InputError: Wrong shape, non-finite values, or a quaternion of length zero.
        """
        return host_poses.body_poses(self, joint_q)

    def center_of_mass(self, joint_q: ArrayLike) -> Float64Array:
        """Give the centre of mass of all links, static ones too, in the world frame [m], shape [n, 3].

        Args:
            joint_q: Configurations, shape [joint_coord_count] (then n = 1) or [n, joint_coord_count].

        Raises:
            InputError: The robot has no masses, or the configurations are not good ones.
        """
        return host_poses.center_of_mass(self, joint_q)

    def motion_subspace(self, joint_q: ArrayLike) -> Float64Array:
        """Give the twist per unit of each DOF, world frame, shape [n, joint_dof_count, 6].

        Linear first: the velocity of the point of the body that is at the world origin; then angular.

        Args:
            joint_q: Configurations, shape [joint_coord_count] (then n = 1) or [n, joint_coord_count].

        Raises:
            InputError: Wrong shape, non-finite values, or a quaternion of length zero.
        """
        return host_tangent.body_motion(self, joint_q).S

    def jacobian(self, joint_q: ArrayLike, links: Sequence[str] | None = None) -> Float64Array:
        """Give how links move with the DOFs, in float64, shape [n, links, 6, joint_dof_count].

        Per unit of a DOF: velocity of the link's origin, then angular velocity, both in the world frame [m or 1, and
        1/m or 1]. A DOF that others follow moves them too; the columns of followers are zero. Times velocities
        ``joint_qd`` it is the velocity of the link, also for joints of several DOFs.

        Args:
            joint_q: Configurations, shape [joint_coord_count] (then n = 1) or [n, joint_coord_count].
            links: Names of the links; None for all, in the order of ``link_names``.

        Raises:
            UnknownNameError: The robot has no such link.
            InputError: Wrong shape, non-finite values, or a quaternion of length zero.
        """
        return host_link_motion.jacobian(self, joint_q, links)

    def jacobian_dot(self, joint_q: ArrayLike, joint_qd: ArrayLike, links: Sequence[str] | None = None) -> Float64Array:
        """Give the time derivative of ``jacobian`` on the move with velocities, of the same shape.

        Args:
            joint_q: Configurations, shape [joint_coord_count] (then n = 1) or [n, joint_coord_count].
            joint_qd: Velocities [m/s or rad/s], shape [joint_dof_count] or [n, joint_dof_count]; those of followers are
                to be their leaders' times their factors.
            links: Names of the links; None for all, in the order of ``link_names``.

        Raises:
            UnknownNameError: The robot has no such link.
            InputError: Wrong shapes, non-finite values, or a quaternion of length zero.
        """
        return host_link_motion.jacobian_dot(self, joint_q, joint_qd, links)

    def integrate(self, joint_q: ArrayLike, dq: ArrayLike) -> Float64Array:
        """Move configurations along tangents on the manifold; quaternions come out unit.

        Args:
            joint_q: Configurations, shape [joint_coord_count] or [n, joint_coord_count].
            dq: Tangents, shape [joint_dof_count] or [n, joint_dof_count]; followers and locked ones are moved too.

        Returns:
            New configurations, shape [n, joint_coord_count].

        Raises:
            InputError: Wrong shapes, non-finite values, or a quaternion of length zero.
        """
        return host_tangent.integrate(self, joint_q, dq)

    def random_joint_q(self, rng: np.random.Generator, n: int) -> Float64Array:
        """Draw configurations uniformly inside the limits, shape [n, joint_coord_count].

        Unlimited angles are drawn from +-pi, unlimited lengths from +-1 m, quaternions uniformly over all rotations.
        """
        return host_tangent.random_joint_q(self, rng, n)

    def complete_joint_q(self, joint_q: ArrayLike) -> Float64Array:
        """Set followers from their leaders, in copies, shape [n, joint_coord_count]; locked joints stay where they are.

        Raises:
            InputError: Wrong shape, non-finite values, or a quaternion of length zero.
        """
        return coupling.complete_joint_q(self, joint_q)

    def clamp_joint_q(self, joint_q: ArrayLike) -> Float64Array:
        """Clamp copies into the limits, locked joints too, and complete them, shape [n, joint_coord_count].

        Raises:
            InputError: Wrong shape, non-finite values, or a quaternion of length zero.
        """
        return coupling.clamp_joint_q(self, joint_q)

    def lock(self, values: Mapping[str, float | Sequence[float]]) -> "RobotModel":
        """Give a model with joints locked at coordinates; their followers are locked with them.

        A locked joint is a weld for solvers and controllers: none moves it. Where it stands is `values`, unless the
        caller of a solve gives a start (`initial_joint_q`), of a controller a position: then it stands where that
        says, which may differ from problem to problem, clamped into its limits.

        Args:
            values: Coordinates [m or rad] by joint name; as many numbers as the joint has coordinates.

        Raises:
            UnknownNameError: The robot has no such joint.
            InputError: The joint follows another, the count is wrong, or a value is not inside the limits.
        """
        return variants.lock(self, values)

    def activate(self, joints: Sequence[str]) -> "RobotModel":
        """Give a model in which these joints (and their followers) move and all others are locked.

        Joints that were locked keep their values, the others are locked at ``mid_joint_q``, or at a start that is given
        (see ``lock``).

        Raises:
            UnknownNameError: The robot has no such joint.
            InputError: A joint follows another that is not named.
        """
        return variants.activate(self, joints)

    def with_frame(self, name: str, link: str, offset: ArrayLike) -> "RobotModel":
        """Give a model with one more link, fixed to another: a tool centre point, say.

        Args:
            name: Name of the new link.
            link: Link that carries it.
            offset: ``T_link_frame``, position [m] and quaternion xyzw, shape [7].

        Raises:
            UnknownNameError: The robot has no link of that name to carry it.
            InputError: The new name is taken, or the offset is no transform.
        """
        return variants.with_frame(self, name, link, offset)

    def subrobot(
        self,
        root: str,
        branches: Sequence[str] | None = None,
        stop_at: Sequence[str] | None = None,
        constraints: Sequence[str] | None = None,
    ) -> "RobotModel":
        """Cut a part of the robot out; its root link becomes the fixed base and its frame the world frame.

        Args:
            root: Link that becomes the root; only links below it are kept.
            branches: Keep only the paths to these links and all that is below them; None keeps every branch.
            stop_at: Links that become ends: what is below them is left out; None cuts nothing.
            constraints: Names of the constraints that the part has; None for all that it can have: those whose links it
                has, and those to the world if its root stands still. ``dropped_constraints`` names the others.

        Returns:
            The part, locked joints still locked. ``subrobot(a, [b], [b])`` is the chain from a to b.

        Raises:
            UnknownNameError: The robot has no such link or constraint.
            InputError: A link is not below the root, a kept joint follows one that is left out, or the part cannot have
                a constraint that is named.
        """
        return variants.subrobot(self, root, branches, stop_at, constraints)

    def aggregate(self, constraints: Sequence[str], *, with_velocity: bool = True) -> "RobotModel":
        """Cut the smallest part out that constraints are about: their links and all links on ways between these.

        Ways go through joints and through other constraints, which the part has too. Its root is the link above.

        Args:
            constraints: Names of the constraints.
            with_velocity: Whether ways go through constraints on velocities too.

        Raises:
            UnknownNameError: The robot has no such constraint.
            InputError: No constraint is named, or a kept joint follows one that is left out.
        """
        return variants.aggregate(self, constraints, with_velocity=with_velocity)

    @cached_property
    def constraints(self) -> ConstraintSet:
        """The constraints that close loops, and their kinematics without targets."""
        return ConstraintSet(self)

    def with_loops(self, loops: Sequence[LoopConstraint]) -> "RobotModel":
        """Give a model that closes loops, in place of those that it closes now.

        A solver meets them before all targets and objectives, to 1e-6 m and rad, or says ``LOOP_OPEN``. ``lock`` and
        ``activate`` keep loops; ``subrobot`` keeps those that the part can have. Rows that only rounded numbers keep
        from being redundant get a ``slack``, told in ``warnings``.

        Raises:
            InputError: Two loops have one name or say the same, or one names a link that the robot does not have.
        """
        other = with_slack(dataclasses.replace(self, loops=checked_loops(loops, self.link_names)))
        return other.with_coordinate_constraints(self.coordinate_constraints)

    def with_coordinate_constraints(self, constraints: Sequence[CoordinateConstraint]) -> "RobotModel":
        """Give a model with constraints between coordinates of joints, in place of those that it has now.

        They are met, enabled and reported as loops are; ``subrobot`` keeps those of which it has both joints.

        Raises:
            InputError: Two constraints have one name, or a joint is not in the robot or has several coordinates.
        """
        joints = zip(self.joint_names, self.joint_type, strict=True)
        scalar = {name for name, kind in joints if JointType(kind).is_scalar}
        names = [loop.name for loop in self.loops]
        found = checked_coordinate_constraints(constraints, self.joint_names, scalar, names)
        other = dataclasses.replace(self, coordinate_constraints=found)
        return other.with_velocity_constraints(self.velocity_constraints)

    def with_velocity_constraints(self, constraints: Sequence[VelocityConstraint]) -> "RobotModel":
        """Give a model with constraints on velocities, in place of those that it has now.

        They hold no position: ``constraints.close`` leaves them aside, velocities and accelerations meet them. No
        solver or controller takes a robot that has some.

        Raises:
            InputError: Two constraints have one name or say the same, or one names a link that the robot does not have.
        """
        found = checked_velocity_constraints(constraints, self.link_names, self.constraint_names)
        return dataclasses.replace(self, velocity_constraints=found)

    def on_device(self, device: str) -> "DeviceModel":
        """Give the view that kernels read on a Warp device (``"cpu"``, ``"cuda:0"``), made once per device.

        Raises:
            InputError: There is no such device.
        """
        from ik_service.mechanism.device_model import on_device  # reading a robot alone should not wait for Warp

        return on_device(self, device)
