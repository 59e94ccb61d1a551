"""Immutable host model of a robot.

``load_robot`` makes a model; ``lock``, ``activate``, ``with_frame`` and ``subrobot`` derive new models. Threads may
share a model. Its float64 kinematics judge every solution; kernels read the ``DeviceModel``.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ik_service.collision.colliding_robot import CollidingRobot
from ik_service.constraints.constraint_set import ConstraintSet
from ik_service.constraints.rounding import with_slack
from ik_service.kinematics import host_poses, host_tangent, manipulability
from ik_service.kinematics.host_poses import LinkPoses
from ik_service.kinematics.manipulability import Motion
from ik_service.mechanism import coupling, names
from ik_service.mechanism.coordinates import CoordinateConstraint
from ik_service.mechanism.joint_type import JointType
from ik_service.mechanism.kinematic_robot import ActiveMap, JointStep, KinematicTrees
from ik_service.mechanism.loops import LoopConstraint, checked_constraints, unknown_links
from ik_service.mechanism.names import DofInfo, table
from ik_service.mechanism.transforms import Float64Array
from ik_service.mechanism.trees import kinematic_trees, length_unit
from ik_service.mechanism.velocities import VelocityConstraint
from ik_service.robots import variants
from objectives.model import BodyMass

if TYPE_CHECKING:
    from ik_service.mechanism.device_model import DeviceModel


@dataclass(frozen=True, eq=False)
class RobotModel(CollidingRobot):
    """Robot model: arrays (see ``RobotArrays``), float64 kinematics, and methods that derive other models.

    Methods accept configurations ``joint_q`` of shape [joint_coord_count] (then n = 1) or [n, joint_coord_count] and
    normalise their quaternions. A wrong shape, a non-finite value or a quaternion of length zero raises InputError; the
    name of an unknown link or joint raises UnknownNameError. ``links`` are names; None means all ``link_names``.
    """

    def __repr__(self) -> str:
        dofs = f"{self.joint_dof_count} DOFs ({self.active_dof_count} active)"
        return f"<RobotModel '{self.name}': {self.joint_count} joints, {dofs}, {len(self.link_names)} links>"

    def __str__(self) -> str:
        """Give a table of the DOFs (names, types, limits, leaders) and a line about collision, at most a screen."""
        return f"{table(self, repr(self))}\n{self.collision_words}"

    @cached_property
    def active_map(self) -> ActiveMap:
        """The DOFs that a solver may move, their limits, and the mid-range configuration."""
        return coupling.active_map(self)

    @cached_property
    def length_unit(self) -> float:
        """Characteristic length [m]: 1 for robots of usual size, otherwise about the reach."""
        return length_unit(self)

    @cached_property
    def trees(self) -> KinematicTrees:
        """Kinematic trees over the active DOFs."""
        return kinematic_trees(self)

    @cached_property
    def body_masses(self) -> tuple[BodyMass, ...]:
        """Bodies with mass, fixed links included; body -1 comes first if static links have mass."""
        return host_poses.body_masses(self)

    @cached_property
    def coordinate_names(self) -> tuple[str, ...]:
        """Name of each coordinate: the joint's name, with a suffix such as ``/x`` for joints of several coordinates."""
        return names.coordinate_names(self)

    @cached_property
    def dof_names(self) -> tuple[str, ...]:
        """Name of each DOF: the joint's name, with a suffix such as ``/vx`` for joints of several DOFs."""
        return names.dof_names(self)

    @cached_property
    def constraint_names(self) -> tuple[str, ...]:
        """Name of each constraint: ``loops`` first, then ``coordinate_constraints``."""
        return tuple(one.name for one in self.every_constraint)

    @cached_property
    def closing_coordinate_names(self) -> tuple[str, ...]:
        """Name of each coordinate of the loop-closing joints; these coordinates are not in ``joint_q``."""
        return names.closing_coordinate_names(self.loops)

    @cached_property
    def joint_steps(self) -> tuple[JointStep, ...]:
        """Constants of the joints for forward kinematics, computed once."""
        return host_poses.joint_steps(self)

    def dof_at(self, index: int) -> DofInfo:
        """Describe DOF ``index``; InputError if the robot has no such DOF."""
        return names.dof_at(self, index)

    def link_index(self, name: str) -> int:
        """Give the index of a link in ``link_names``."""
        return names.index_of(self, "Link", self.link_names, name)

    def joint_index(self, name: str) -> int:
        """Give the index of a moving joint in ``joint_names``."""
        return names.index_of(self, "Joint", self.joint_names, name)

    def show(self, joint_q: ArrayLike | None = None, *, spheres: bool = False) -> Any:
        """Draw configurations, by default `mid_joint_q`, in a browser or a notebook; needs the extra `page`.

        Args:
            joint_q: Configurations; all after the first are ghosts.
            spheres: Whether the spheres of the collision model are drawn, too.

        Returns:
            A view with an address (`url`), shown in a notebook as output of a cell; `close()` ends it.

        Raises:
            ModuleNotFoundError: The extra `page` is not installed.
        """
        page = import_module("ik_service.page.robot_view")  # by name: the page is above, and optional
        return page.RobotView(self, self.mid_joint_q if joint_q is None else joint_q, spheres=spheres)

    def forward_kinematics(self, joint_q: ArrayLike, links: Sequence[str] | None = None) -> LinkPoses:
        """Give positions [m], [n, links, 3], and orientations, [n, links, 4], of links in the world, in float64."""
        return host_poses.forward_kinematics(self, joint_q, links)

    def body_poses(self, joint_q: ArrayLike) -> Float64Array:
        """Give ``T_world_body`` [m, xyzw] of every body, shape [n, body_count, 7]."""
        return host_poses.body_poses(self, joint_q)

    def center_of_mass(self, joint_q: ArrayLike) -> Float64Array:
        """Give the centre of mass of all links, static links included, in the world frame [m], shape [n, 3].

        Raises:
            InputError: The robot has no masses, or ``joint_q`` is not valid.
        """
        return host_poses.center_of_mass(self, joint_q)

    def motion_subspace(self, joint_q: ArrayLike) -> Float64Array:
        """Give the twist per unit of each DOF in the world frame, shape [n, joint_dof_count, 6].

        The linear part comes first: velocity of the body-fixed point at the world origin; then the angular velocity.
        """
        return host_tangent.body_motion(self, joint_q).S

    def jacobian(self, joint_q: ArrayLike, links: Sequence[str] | None = None) -> Float64Array:
        """Give the Jacobian of links in float64, shape [n, links, 6, joint_dof_count].

        Each column is the velocity of the link's origin, then the angular velocity, in the world frame [m or 1, and 1/m
        or 1], per unit of a DOF. The column of a leader includes its mimic joints; the columns of mimic joints are
        zero. The Jacobian times velocities ``joint_qd`` is the twist of the link, also for joints of several DOFs.
        """
        return host_tangent.jacobian(self, joint_q, links)

    def jacobian_dot(self, joint_q: ArrayLike, joint_qd: ArrayLike, links: Sequence[str] | None = None) -> Float64Array:
        """Give the time derivative of ``jacobian`` at velocities ``joint_qd``, of the same shape.

        Args:
            joint_q: Configurations.
            joint_qd: Velocities [m/s or rad/s], shape [joint_dof_count] or [n, joint_dof_count]; the velocity of a
                mimic joint must equal the leader's velocity times the multiplier.
            links: Names of links.
        """
        return host_tangent.jacobian_dot(self, joint_q, joint_qd, links)

    def manipulability(
        self, joint_q: ArrayLike, link: str, motion: Motion = "pose", offset: ArrayLike | None = None
    ) -> Float64Array:
        """Give Yoshikawa's manipulability sqrt(det(J J^T)) of a frame in float64, shape [n]; without unit.

        J is the Jacobian by the active DOFs, velocities over the length of the chain from the first of these DOFs to
        the link [1/m], as in `IKObjectiveManipulability`. 0: singular, or fewer DOFs than rows.

        Args:
            joint_q: Configurations.
            link: Name of the link.
            motion: Rows of J: "pose" (6), "position" or "orientation" (3).
            offset: `T_link_tool`, position [m] and quaternion xyzw, shape [7] or [n, 7]; None is the link frame.

        Returns:
            NaN where no active DOF moves the link.

        Raises:
            UnknownNameError: The robot has no such link.
            InputError: A value is not allowed.
        """
        return manipulability.manipulability(self, joint_q, link, motion, offset)

    def integrate(self, joint_q: ArrayLike, dq: ArrayLike) -> Float64Array:
        """Move configurations along tangents on the manifold, shape [n, joint_coord_count]; quaternions come out unit.

        ``dq`` are tangents, shape [joint_dof_count] or [n, joint_dof_count]; mimic and locked joints move, too.
        """
        return host_tangent.integrate(self, joint_q, dq)

    def random_joint_q(self, rng: np.random.Generator, n: int) -> Float64Array:
        """Draw configurations uniformly inside the limits, shape [n, joint_coord_count].

        Unlimited angles are drawn from +-pi, unlimited lengths from +-1 m, quaternions uniformly over all rotations.
        """
        return host_tangent.random_joint_q(self, rng, n)

    def complete_joint_q(self, joint_q: ArrayLike) -> Float64Array:
        """Set mimic joints from their leaders in copies, shape [n, joint_coord_count]; locked joints stay."""
        return coupling.complete_joint_q(self, joint_q)

    def clamp_joint_q(self, joint_q: ArrayLike) -> Float64Array:
        """Clamp copies into the limits, locked joints included, and complete mimic joints, [n, joint_coord_count]."""
        return coupling.clamp_joint_q(self, joint_q)

    def lock(self, values: Mapping[str, float | Sequence[float]]) -> "RobotModel":
        """Give a model with joints locked at coordinates; their mimic joints are locked with them.

        Solvers and controllers treat a locked joint as a weld at `values`. A start given to a solve (`initial_joint_q`)
        or a position given to a controller overrides `values`, per problem, clamped into the limits.

        Args:
            values: Coordinates [m or rad] by joint name, one number per coordinate of the joint.

        Raises:
            UnknownNameError: The robot has no such joint.
            InputError: The joint is a mimic joint, the count is wrong, or a value is outside the limits.
        """
        return variants.lock(self, values)

    def activate(self, joints: Sequence[str]) -> "RobotModel":
        """Give a model in which only these joints and their mimic joints move; all other joints are locked.

        Joints that were locked keep their values. The others are locked at ``mid_joint_q``, or at a given start (see
        ``lock``).

        Raises:
            UnknownNameError: The robot has no such joint.
            InputError: A joint is a mimic joint of a leader that is not named.
        """
        return variants.activate(self, joints)

    def with_frame(self, name: str, link: str, offset: ArrayLike) -> "RobotModel":
        """Give a model with one more link, fixed to another link: a tool frame (TCP), for example.

        Args:
            name: Name of the new link.
            link: Link that carries the new link.
            offset: ``T_link_frame``, position [m] and quaternion xyzw, shape [7].

        Raises:
            UnknownNameError: The robot has no carrying link of this name.
            InputError: The new name is taken, or the offset is not a transform.
        """
        return variants.with_frame(self, name, link, offset)

    def subrobot(
        self,
        root: str,
        branches: Sequence[str] | None = None,
        stop_at: Sequence[str] | None = None,
        constraints: Sequence[str] | None = None,
    ) -> "RobotModel":
        """Cut out a part of the robot; its root link becomes the fixed base, and the root's frame the world frame.

        Args:
            root: Link that becomes the root; only links below the root are kept.
            branches: Keep only the paths to these links and all links below them; None keeps every branch.
            stop_at: Links that become ends: links below them are removed; None removes nothing.
            constraints: Names of constraints to keep; None keeps each constraint whose links are in the part
                (constraints to the world only if the root is static). ``dropped_constraints`` names the others.

        Returns:
            The part; locked joints stay locked. ``subrobot(a, [b], [b])`` is the chain from a to b.

        Raises:
            UnknownNameError: The robot has no such link or constraint.
            InputError: A link is not below the root, the leader of a kept mimic joint is removed, or a named constraint
                does not fit into the part.
        """
        return variants.subrobot(self, root, branches, stop_at, constraints)

    def aggregate(self, constraints: Sequence[str], *, with_velocity: bool = True) -> "RobotModel":
        """Cut out the smallest part that contains constraints: their links and all links on paths between them.

        Paths run through joints and through other constraints, kept in the part, too. The topmost link is the root.

        Args:
            constraints: Names of the constraints.
            with_velocity: Paths may run through velocity constraints, too.

        Raises:
            UnknownNameError: The robot has no such constraint.
            InputError: No constraint is named, or the leader of a kept mimic joint is removed.
        """
        return variants.aggregate(self, constraints, with_velocity=with_velocity)

    @cached_property
    def constraints(self) -> ConstraintSet:
        """The closed-loop constraints, and their kinematics without targets."""
        return ConstraintSet(self)

    def with_loops(self, loops: Sequence[LoopConstraint]) -> "RobotModel":
        """Give a model that closes these loops instead of its present loops.

        A solver closes loops before all targets and objectives, to 1e-6 m and rad, or reports ``LOOP_OPEN``. ``lock``
        and ``activate`` keep loops; ``subrobot`` keeps loops inside the part. Rows that are redundant except for
        rounded numbers get a ``slack``, and ``warnings`` says so.

        Raises:
            InputError: Two loops have one name or are equal, or the robot has no link of a name.
        """
        found = checked_constraints(LoopConstraint, loops, (), unknown_links(self.link_names))
        other = with_slack(dataclasses.replace(self, loops=found))
        return other.with_coordinate_constraints(self.coordinate_constraints)

    def with_coordinate_constraints(self, constraints: Sequence[CoordinateConstraint]) -> "RobotModel":
        """Give a model with these constraints between coordinates of joints instead of its present ones.

        Solvers meet, enable and report these constraints like loops; ``subrobot`` keeps a constraint with both joints.

        Raises:
            InputError: Two constraints have one name, or a joint is not in the robot or has several coordinates.
        """
        joints = zip(self.joint_names, self.joint_type, strict=True)
        scalar = {name for name, kind in joints if JointType(kind).is_scalar}
        names = [loop.name for loop in self.loops]

        def faults(one: CoordinateConstraint) -> Iterator[str]:
            for joint in one.joints:
                if joint not in scalar:
                    fault = "has several coordinates" if joint in self.joint_names else "is not in the robot"
                    yield f"joint '{joint}', which {fault}"

        found = checked_constraints(CoordinateConstraint, constraints, names, faults)
        other = dataclasses.replace(self, coordinate_constraints=found)
        return other.with_velocity_constraints(self.velocity_constraints)

    def with_velocity_constraints(self, constraints: Sequence[VelocityConstraint]) -> "RobotModel":
        """Give a model with these velocity constraints instead of its present ones.

        Velocity constraints hold no position: velocities and accelerations meet them, ``constraints.close`` ignores
        them. Solvers and controllers refuse a robot with velocity constraints.

        Raises:
            InputError: Two constraints have one name or are equal, or the robot has no link of a name.
        """
        links = unknown_links(self.link_names)
        found = checked_constraints(VelocityConstraint, constraints, self.constraint_names, links)
        return dataclasses.replace(self, velocity_constraints=found)

    def on_device(self, device: str) -> "DeviceModel":
        """Give the model that kernels read on a Warp device (``"cpu"``, ``"cuda:0"``), made once per device.

        Raises:
            InputError: There is no such device.
        """
        from ik_service.mechanism.device_model import on_device  # reading a robot alone should not wait for Warp

        return on_device(self, device)
