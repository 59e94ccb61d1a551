"""Arms of six joints: compared ones, ones from dimensions and ranges that makers publish, and made-up ones."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from benchmarks.problems.arm_solutions import Floats, LimitedArm
from benchmarks.problems.compared_robots import ARMS, MORE_ARMS
from ik_service import RobotModel, load_robot
from ik_service.compiler.closed_form import ArmClass, arm_of, nominal_arm
from tests.compiler.closed_form.arms import robot_of

X, Y, Z = (1, 0, 0), (0, 1, 0), (0, 0, 1)
BACK, DOWN = (-1, 0, 0), (0, 0, -1)
LINK = "flange"
WITH_BRANCHES = (ArmClass.SPHERICAL, ArmClass.PARALLEL)
MADE_UP = ("spherical", "parallel")
Triple = tuple[float, float, float]
PublishedArm = tuple[list[tuple[Triple, Triple, tuple[float, float]]], Triple]
# of each joint: origin in the frame of the joint before [m], axis, range [degrees]; then the flange [m]
PUMA_560: PublishedArm = (
    [
        ((0, 0, 0.672), Z, (-160, 160)),
        ((0, 0, 0), Y, (-225, 45)),
        ((0.4318, 0.15005, 0), Y, (-45, 225)),
        ((0.0203, 0, -0.4318), DOWN, (-110, 170)),
        ((0, 0, 0), Y, (-100, 100)),
        ((0, 0, 0), DOWN, (-266, 266)),
    ],
    (0, 0, -0.056),
)
KR_6_R700: PublishedArm = (
    [
        ((0, 0, 0.4), DOWN, (-170, 170)),
        ((0.025, 0, 0), Y, (-190, 45)),
        ((0.315, 0, 0), Y, (-120, 156)),
        ((0.365, 0, 0.035), BACK, (-185, 185)),
        ((0, 0, 0), Y, (-120, 120)),
        ((0, 0, 0), BACK, (-350, 350)),
    ],
    (0.08, 0, 0),
)
IRB_120: PublishedArm = (
    [
        ((0, 0, 0.29), Z, (-165, 165)),
        ((0, 0, 0), Y, (-110, 110)),
        ((0, 0, 0.27), Y, (-110, 70)),
        ((0.302, 0, 0.07), X, (-160, 160)),
        ((0, 0, 0), Y, (-120, 120)),
        ((0, 0, 0), X, (-400, 400)),
    ],
    (0.072, 0, 0),
)
XARM_6: PublishedArm = (
    [
        ((0, 0, 0.267), Z, (-360, 360)),
        ((0, 0, 0), Y, (-118, 120)),
        ((0.0535, 0, 0.2845), Y, (-225, 11)),
        ((0.0775, 0, -0.3425), DOWN, (-360, 360)),
        ((0, 0, 0), Y, (-97, 180)),
        ((0.076, 0, -0.097), DOWN, (-360, 360)),
    ],
    (0, 0, 0),
)
PUBLISHED = {"Puma 560": PUMA_560, "KR 6 R700": KR_6_R700, "IRB 120": IRB_120, "xArm6": XARM_6}


def published_robot(name: str) -> RobotModel:
    """Return the model of a published arm; its last link is LINK."""
    joints, flange = PUBLISHED[name]
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
