"""Arms of six joints, their sets of solutions, and the judge of these: exact to float64, modulo turns, within limits.

Arms are compared ones, ones from dimensions and ranges that makers publish, and made-up ones. Sets of many poses are
arrays of shape [poses, most, 6]; rows without a solution are NaN.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from benchmarks.problems.compared_robots import ARMS, MORE_ARMS
from benchmarks.problems.pose_problems import rotations
from ik_service import RobotModel, load_robot
from ik_service.compiler.closed_form import Arm, ArmClass, arm_of, nominal_arm
from tests.compiler.closed_form.arms import robot_of

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
SAME = 1e-3  # [rad] two solutions of one set count once if no joint differs by more
FOUND = 0.02  # [rad] a solution counts as found by another solver if no joint differs by more
LIMIT_SLACK = 1e-6  # [rad]
NEAR_LIMIT = 1e-3  # [rad]
NEAR_SINGULAR = 1e-3  # of the least singular value; there an error of 1e-5, as of float32, moves joints by 0.01
STEPS, STEP_MAX = 12, 0.05  # of Newton's method; largest step of a joint [rad]
DAMPING = 1e-14  # keeps the equations solvable at singular configurations
X, Y, Z = (1, 0, 0), (0, 1, 0), (0, 0, 1)
BACK, DOWN = (-1, 0, 0), (0, 0, -1)
LINK = "flange"
WITH_BRANCHES = (ArmClass.SPHERICAL, ArmClass.PARALLEL)
MADE_UP = ("spherical", "parallel")
# of each joint: origin in the frame of the joint before [m], axis, range [degrees]; then the flange
PUBLISHED: dict[str, list[tuple[tuple[float, ...], ...]]] = {
    "Puma 560": [
        ((0, 0, 0.672), Z, (-160, 160)),
        ((0, 0, 0), Y, (-225, 45)),
        ((0.4318, 0.15005, 0), Y, (-45, 225)),
        ((0.0203, 0, -0.4318), DOWN, (-110, 170)),
        ((0, 0, 0), Y, (-100, 100)),
        ((0, 0, 0), DOWN, (-266, 266)),
        ((0, 0, -0.056),),
    ],
    "KR 6 R700": [
        ((0, 0, 0.4), DOWN, (-170, 170)),
        ((0.025, 0, 0), Y, (-190, 45)),
        ((0.315, 0, 0), Y, (-120, 156)),
        ((0.365, 0, 0.035), BACK, (-185, 185)),
        ((0, 0, 0), Y, (-120, 120)),
        ((0, 0, 0), BACK, (-350, 350)),
        ((0.08, 0, 0),),
    ],
    "IRB 120": [
        ((0, 0, 0.29), Z, (-165, 165)),
        ((0, 0, 0), Y, (-110, 110)),
        ((0, 0, 0.27), Y, (-110, 70)),
        ((0.302, 0, 0.07), X, (-160, 160)),
        ((0, 0, 0), Y, (-120, 120)),
        ((0, 0, 0), X, (-400, 400)),
        ((0.072, 0, 0),),
    ],
    "xArm6": [
        ((0, 0, 0.267), Z, (-360, 360)),
        ((0, 0, 0), Y, (-118, 120)),
        ((0.0535, 0, 0.2845), Y, (-225, 11)),
        ((0.0775, 0, -0.3425), DOWN, (-360, 360)),
        ((0, 0, 0), Y, (-97, 180)),
        ((0.076, 0, -0.097), DOWN, (-360, 360)),
        ((0, 0, 0),),
    ],
}


def apart(joint_q: Floats, others: Floats) -> Floats:
    """Return the largest difference of a joint, angles taken modulo a turn [rad]."""
    difference: Floats = np.abs((joint_q - others + np.pi) % (2 * np.pi) - np.pi).max(axis=-1)
    return difference


def is_found(joint_q: Floats, among: Floats, largest: float = FOUND) -> Flags:
    """Return which solutions are in other sets of the same poses, shape [poses, most]."""
    found = np.zeros(joint_q.shape[:2], bool)
    for k in range(among.shape[1]):
        found |= apart(joint_q, among[:, k : k + 1]) < largest
    return found


def is_first(joint_q: Floats, valid: Flags) -> Flags:
    """Return which valid solutions are no repetitions of earlier ones, shape [poses, most]."""
    first = valid.copy()
    for k in range(1, joint_q.shape[1]):
        repeats = (apart(joint_q[:, :k], joint_q[:, k : k + 1]) < SAME) & first[:, :k]
        first[:, k] &= ~repeats.any(axis=1)
    return first


@dataclass(frozen=True, eq=False)
class Targets:
    """Poses of a link in the world."""

    positions: Floats  # positions [m], shape [poses, 3]
    rotations: Floats  # rotation matrices, shape [poses, 3, 3]

    @classmethod
    def of(cls, positions: Floats, orientations_xyzw: Floats) -> "Targets":
        """Return targets of positions and quaternions."""
        return cls(positions, rotations(orientations_xyzw))

    def __getitem__(self, rows: NDArray[np.int64]) -> "Targets":
        """Return some of the targets."""
        return Targets(self.positions[rows], self.rotations[rows])


@dataclass(frozen=True, eq=False)
class LimitedArm:
    """An arm and the limits of its joints."""

    arm: Arm  # its axes at zero configuration
    lower: Floats  # lower limits [rad], shape [6]; -inf for none
    upper: Floats  # upper limits [rad], shape [6]; inf for none

    @property
    def zero_rotation(self) -> Floats:
        """Rotation matrix of the link at zero configuration, shape [3, 3]."""
        return rotations(self.arm.T_world_link[3:])

    def forward(self, joint_q: Floats) -> tuple[Targets, Floats]:
        """Return the poses of the link, and the axes and points of the joints in the world, shape [n, 2, 6, 3]."""
        count = len(joint_q)
        rotation, shift = np.tile(np.eye(3), (count, 1, 1)), np.zeros((count, 3))
        joints = np.zeros((count, 2, 6, 3))
        for k, (axis, point) in enumerate(zip(self.arm.axes, self.arm.points, strict=True)):
            joints[:, 0, k], joints[:, 1, k] = rotation @ axis, rotation @ point + shift
            across = np.cross(np.eye(3), axis)  # matrix of the cross product with the axis
            sine, cosine = np.sin(joint_q[:, k, None, None]), np.cos(joint_q[:, k, None, None])
            rotation = rotation @ (np.eye(3) + sine * across + (1.0 - cosine) * (across @ across))
            shift = joints[:, 1, k] - rotation @ point
        return Targets(rotation @ self.arm.T_world_link[:3] + shift, rotation @ self.zero_rotation), joints

    def errors(self, reached: Targets, targets: Targets) -> Floats:
        """Return distances as shares of the arm's length, and rotation vectors of small turns, shape [n, 6]."""
        turn = targets.rotations @ reached.rotations.transpose(0, 2, 1)
        vector = 0.5 * np.stack([turn[:, i, j] - turn[:, j, i] for i, j in ((2, 1), (0, 2), (1, 0))], axis=-1)
        return np.concatenate([(targets.positions - reached.positions) / self.arm.length, vector], axis=1)

    def jacobian(self, reached: Targets, joints: Floats) -> Floats:
        """Return the Jacobian of `errors`' opposite, shape [n, 6, 6]."""
        axes, points = joints[:, 0], joints[:, 1]
        moved = np.cross(axes, reached.positions[:, None] - points) / self.arm.length
        return np.concatenate([moved, axes], axis=2).transpose(0, 2, 1)

    def error_size(self, joint_q: Floats, targets: Targets) -> Floats:
        """Return the larger of distance [m] and angle [rad] to the targets, shape [n]."""
        reached, _ = self.forward(joint_q)
        distance = np.linalg.norm(targets.positions - reached.positions, axis=1)
        chord = np.linalg.norm(targets.rotations - reached.rotations, axis=(1, 2)) / np.sqrt(2.0)
        return np.maximum(distance, chord)

    def refined(self, joint_q: Floats, targets: Targets) -> Floats:
        """Return configurations after Newton's method, shape [n, 6]."""
        for _ in range(STEPS):
            reached, joints = self.forward(joint_q)
            jacobian = self.jacobian(reached, joints)
            back = jacobian.transpose(0, 2, 1)
            downhill = back @ self.errors(reached, targets)[:, :, None]
            step = np.linalg.solve(back @ jacobian + DAMPING * np.eye(6), downhill)[:, :, 0]
            joint_q = joint_q + np.clip(step, -STEP_MAX, STEP_MAX)
        return joint_q

    def room(self, joint_q: Floats) -> Floats:
        """Return the least distance from a limit on the turn nearest the middle [rad], negative outside."""
        is_bounded = np.isfinite(self.lower) & np.isfinite(self.upper)
        lower, upper = (np.where(is_bounded, end, 0.0) for end in (self.lower, self.upper))
        middle, half = 0.5 * (upper + lower), 0.5 * (upper - lower)
        from_middle = np.abs((joint_q - middle + np.pi) % (2 * np.pi) - np.pi)
        least: Floats = np.where(is_bounded, half - from_middle, np.pi).min(axis=-1)
        return least

    def least_singular_values(self, joint_q: Floats) -> Floats:
        """Return the least singular value of the Jacobian, positions as shares of the arm's length, shape [n]."""
        values: Floats = np.linalg.svd(self.jacobian(*self.forward(joint_q)), compute_uv=False)[:, -1]
        return values

    def hard(self, joint_q: Floats, among: Flags) -> Flags:
        """Return which of some solutions are near a limit or a singular configuration, shape [poses, most]."""
        chosen = joint_q[among]
        hard = np.zeros(among.shape, bool)
        hard[among] = (self.room(chosen) < NEAR_LIMIT) | (self.least_singular_values(chosen) < NEAR_SINGULAR)
        return hard

    def kept(self, joint_q: Floats, targets: Targets, exact: float) -> Flags:
        """Return which solutions are exact to this [m, rad], within limits and no repetitions, [poses, most]."""
        given = np.isfinite(joint_q[..., 0])
        valid = np.zeros(given.shape, bool)
        of_pose = np.nonzero(given)[0]
        valid[given] = (self.error_size(joint_q[given], targets[of_pose]) <= exact) & (
            self.room(joint_q[given]) >= -LIMIT_SLACK
        )
        return is_first(joint_q, valid)


def published_robot(name: str) -> RobotModel:
    """Return the model of a published arm; its last link is LINK."""
    *joints, (flange,) = PUBLISHED[name]
    parts = [f'<robot name="{name}"><link name="l0"/>']
    for k, (origin, axis, ends) in enumerate(joints):
        lower, upper = np.radians(ends)
        parts.append(
            f'<link name="l{k + 1}"/><joint name="j{k + 1}" type="revolute"><parent link="l{k}"/>'
            f'<child link="l{k + 1}"/><origin xyz="{_text(origin)}"/><axis xyz="{_text(axis)}"/>'
            f'<limit lower="{lower}" upper="{upper}" effort="1" velocity="1"/></joint>'
        )
    last = f'<parent link="l{len(joints)}"/><child link="{LINK}"/><origin xyz="{_text(flange)}"/>'
    return load_robot("".join([*parts, f'<link name="{LINK}"/><joint name="end" type="fixed">{last}</joint></robot>']))


def _text(values: tuple[float, ...]) -> str:
    return " ".join(map(str, values))


@dataclass(frozen=True, eq=False)
class SixJoints:
    """A robot whose link is moved by six joints."""

    name: str  # name in the tables
    robot: RobotModel
    link: str  # the link with targets
    kind: str  # class of the arm

    @cached_property
    def limited(self) -> LimitedArm:
        """Its axes and limits."""
        arm = arm_of(self.robot, self.link)
        assert arm is not None
        limits = self.robot.active_limit_lower, self.robot.active_limit_upper
        return LimitedArm(arm, *(end[list(arm.dofs)] for end in limits))

    @cached_property
    def coordinates(self) -> NDArray[np.int64]:
        """Coordinates of its joints, from the base, shape [6]."""
        return np.asarray(self.robot.dof_coordinate[self.robot.active_dof[list(self.limited.arm.dofs)]])

    def poses(self, joint_q: Floats) -> tuple[Floats, Floats]:
        """Return positions and orientations xyzw of the link."""
        every = np.tile(self.robot.mid_joint_q, (len(joint_q), 1))
        every[:, self.coordinates] = joint_q
        poses = self.robot.forward_kinematics(every, [self.link])
        return poses.positions[:, 0], poses.orientations_xyzw[:, 0]

    def random_joint_q(self, count: int, rng: np.random.Generator) -> Floats:
        """Return joints within limits, +-pi where there are none."""
        lower, upper = self.limited.lower, self.limited.upper
        ends = np.where(np.isfinite(lower), lower, -np.pi), np.where(np.isfinite(upper), upper, np.pi)
        return rng.uniform(*ends, (count, 6))


def arms_with_branches() -> Iterator[SixJoints]:
    """Give the arms of all three kinds that have branches in closed form."""
    given = [(one.name, one.robot, one.links[0]) for one in (*ARMS, *MORE_ARMS)]
    given += [(name, published_robot(name), LINK) for name in PUBLISHED]
    given += [(f"made up, {name}", *robot_of(name)) for name in MADE_UP]
    for name, robot, link in given:
        arm = arm_of(robot, link)
        nominal = None if arm is None else nominal_arm(arm)
        if nominal is not None and nominal.kind in WITH_BRANCHES:
            yield SixJoints(name, robot, link, nominal.kind.value)


def xarm6() -> SixJoints:
    """Return an arm whose last joint is searched: the xArm6."""
    return SixJoints("xArm6", published_robot("xArm6"), LINK, ArmClass.SEARCHED.value)
