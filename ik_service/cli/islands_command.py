"""`ik-service islands`: a robot's kinematic trees, and the trees coupled by targets."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from ik_service.cli.console import output_console, print_json
from ik_service.cli.named_numbers import named_numbers
from ik_service.ik_solver import IKSolver
from ik_service.robots import RobotModel, load_robot
from ik_service.solver.given.targets import Target
from ik_service.solver.verdict.advice import IslandReport
from ik_service.solver.verdict.island_results import joints_of
from objectives.errors import InputError


@dataclass(frozen=True)
class TreeReport:
    """The kinematic trees of a robot."""

    robot: str  # name of the robot
    trees: tuple[tuple[str, ...], ...]  # joints of each tree
    static_links: tuple[str, ...]  # links that no active joint moves
    locked_joints: tuple[str, ...]  # joints without an active DOF

    def __str__(self) -> str:
        lines = [f"{self.robot}: {len(self.trees)} kinematic tree{'' if len(self.trees) == 1 else 's'}"]
        lines += [f"  tree {number}: {', '.join(joints)}" for number, joints in enumerate(self.trees)]
        lines += [f"  static links: {', '.join(self.static_links)}"] if self.static_links else []
        lines += [f"  locked: {', '.join(self.locked_joints)}"] if self.locked_joints else []
        return "\n".join(lines)


def print_islands(name: str, targets: Sequence[str], locks: Sequence[str], *, as_json: bool) -> None:
    """Print the islands of targets, or, without targets, the robot's trees; InputError for a wrong argument.

    Targets are LINK or LINK:REFERENCE_LINK; locks JOINT=VALUE, or JOINT=VALUE,VALUE,... for several coordinates.
    """
    robot = load_robot(name)
    locked = _parsed_locks(locks)
    if locked:
        robot = robot.lock(locked)
    report: IslandReport | TreeReport
    if targets:
        report = IKSolver(robot, [_parsed_target(robot, text) for text in targets], device="cpu").islands()
    else:
        report = report_trees(robot)
    if as_json:
        print_json(asdict(report))
    else:
        output_console().out(str(report), highlight=False)  # a line for each thing, however long


def report_trees(robot: RobotModel) -> TreeReport:
    """Return the kinematic trees of a robot."""
    trees = robot.trees
    numbers = np.arange(trees.ntree)
    static = [body < 0 or trees.body_treeid[body] < 0 for body in robot.link_body]
    first = trees.dof_treeid[robot.joint_qd_start[:-1]]
    return TreeReport(
        robot=robot.name,
        trees=tuple(joints_of(robot, numbers == tree) for tree in numbers),
        static_links=tuple(name for name, still in zip(robot.link_names, static, strict=True) if still),
        locked_joints=tuple(name for name, tree in zip(robot.joint_names, first, strict=True) if tree < 0),
    )


def _parsed_target(robot: RobotModel, text: str) -> Target:
    """Split LINK:REFERENCE_LINK; names of links may hold colons of their own."""
    if text in robot.link_names or ":" not in text:
        return Target(text)
    parts = text.split(":")
    splits = [(":".join(parts[:k]), ":".join(parts[k:])) for k in range(1, len(parts))]
    known = [split for split in splits if set(split) <= set(robot.link_names)]
    link, reference_link = (known or splits)[0]
    return Target(link, reference_link=reference_link)


def _parsed_locks(locks: Sequence[str]) -> dict[str, float | Sequence[float]]:
    locked: dict[str, float | Sequence[float]] = {}
    for text in locks:
        form = "JOINT=VALUE (several coordinates: JOINT=VALUE,VALUE,...)"
        joint, numbers = named_numbers("--lock", text, form)
        if joint in locked:
            raise InputError(f"--lock names joint '{joint}' twice.")
        locked[joint] = numbers
    return locked
