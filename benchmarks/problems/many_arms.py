"""Robots of many Pandas on one static base, and reachable pose targets of their hands."""

import tempfile
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import ik_service
from benchmarks.problems.pose_problems import PoseProblems
from ik_service.mechanism.transforms import quaternion_conjugate, quaternion_multiply, quaternion_rotate
from objectives import IKObjectiveRelativePose

PANDA = Path(ik_service.__file__).with_name("robots") / "builtin" / "panda.urdf"
SPACING = 0.6  # [m] between neighbours


def many_arms_urdf(count: int) -> str:
    """Return a robot of `count` Pandas side by side on one base; names get the prefixes arm0_, arm1_ and so on."""
    robot = ElementTree.Element("robot", name=f"panda_x{count}")
    ElementTree.SubElement(robot, "link", name="base")
    for arm in range(count):
        prefix = f"arm{arm}_"
        mount = ElementTree.SubElement(robot, "joint", name=f"{prefix}mount", type="fixed")
        ElementTree.SubElement(mount, "parent", link="base")
        ElementTree.SubElement(mount, "child", link=f"{prefix}panda_link0")
        ElementTree.SubElement(mount, "origin", xyz=f"0 {arm * SPACING:g} 0", rpy="0 0 0")
        for element in ElementTree.parse(PANDA).getroot():
            element.set("name", prefix + element.attrib["name"])
            for end in (*element.findall("parent"), *element.findall("child")):
                end.set("link", prefix + end.attrib["link"])
            robot.append(element)
    return ElementTree.tostring(robot, encoding="unicode")


def many_arms(count: int) -> tuple[ik_service.RobotModel, list[str]]:
    """Return the robot and the links of its hands."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"panda_x{count}.urdf")
        path.write_text(many_arms_urdf(count), encoding="utf-8")
        return ik_service.load_robot(path), [f"arm{arm}_panda_hand" for arm in range(count)]


@dataclass(frozen=True)
class HandProblems:
    """Reachable pose targets of several links, one problem set per link.

    Attributes:
        robot: The robot.
        links: The links.
        per_link: Targets of each link.
    """

    robot: ik_service.RobotModel
    links: list[str]
    per_link: list[PoseProblems]

    @classmethod
    def random(cls, robot: ik_service.RobotModel, links: list[str], count: int, random_seed: int) -> "HandProblems":
        """Return the poses that the links take together in random configurations inside the limits."""
        joint_q = robot.random_joint_q(np.random.default_rng(random_seed), count)
        poses = robot.forward_kinematics(joint_q, links)
        each = zip(links, poses.positions.swapaxes(0, 1), poses.orientations_xyzw.swapaxes(0, 1), strict=True)
        return cls(robot, links, [PoseProblems(robot, link, p, q) for link, p, q in each])

    def first(self, count: int) -> "HandProblems":
        """Return the first `count` problems."""
        each = [(p.link, p.positions[:count], p.orientations_xyzw[:count]) for p in self.per_link]
        return HandProblems(self.robot, self.links, [PoseProblems(self.robot, *values) for values in each])

    @property
    def positions(self) -> NDArray[np.float64]:
        """Target positions in the world frame [m], shape [n, links, 3]."""
        return np.stack([problems.positions for problems in self.per_link], axis=1)

    @property
    def orientations_xyzw(self) -> NDArray[np.float64]:
        """Target orientations in the world frame, shape [n, links, 4]."""
        return np.stack([problems.orientations_xyzw for problems in self.per_link], axis=1)

    def judge(self, joint_q: NDArray[np.floating], position: float, orientation: float) -> NDArray[np.bool_]:
        """Return which links meet both tolerances [m, rad] with all joints inside the limits, shape [n, links]."""
        return np.stack([problems.judge(joint_q, position, orientation) for problems in self.per_link], axis=1)

    def couplings(
        self, pairs: list[tuple[int, int]], switched_on: NDArray[np.bool_]
    ) -> tuple[IKObjectiveRelativePose, ...]:
        """Return objectives that hold pairs of links at the relative poses of their targets, of the targets' priority.

        Args:
            pairs: Reference and link of each objective.
            switched_on: In which problems they have weight, shape [n].
        """
        row_weights = np.repeat(switched_on[:, None].astype(np.float32), 6, axis=1)
        objectives = []
        for reference, other in pairs:
            a, b = self.per_link[reference], self.per_link[other]
            inverse = quaternion_conjugate(a.orientations_xyzw)
            position = quaternion_rotate(inverse, b.positions - a.positions).astype(np.float32)
            turn = quaternion_multiply(inverse, b.orientations_xyzw).astype(np.float32)
            objective = IKObjectiveRelativePose(b.link, a.link, position, turn, row_weights=row_weights)
            objective.priority = 0
            objectives.append(objective)
        return tuple(objectives)


def solved(
    problems: HandProblems, joint_q: NDArray[np.floating], tolerance: tuple[float, float], limit_slack: float = 0.0
) -> NDArray[np.bool_]:
    """Return for which problems every link meets both tolerances [m, rad], judged in float64, inside the limits."""
    judged = [each.judge(joint_q, *tolerance, limit_slack) for each in problems.per_link]
    return np.asarray(np.all(judged, axis=0))
