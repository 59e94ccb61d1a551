"""A robot from the texts of a ROS system: robot_description and robot_description_semantic, and its planning groups.

A group has the joints that a request may move, and its default links. Groups come from an SRDF, or from lines of a
parameter such as ``arm=base_link:tool0``.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from ik_service.mechanism.trees import joints_to, path_to_root
from ik_service.robots import RobotModel, load_robot
from ik_service.robots.readers.catalog import Collision
from ik_service.robots.readers.groups import SrdfDocument, groups_of, read_srdf_file
from ik_service.robots.readers.read_model import read_collision_model
from ik_service.robots.readers.sphere_file import read_sphere_file
from ik_service.robots.readers.xml_reader import is_xml_text
from objectives.errors import InputError


@dataclass(frozen=True)
class PlanningGroup:
    """A group of joints."""

    name: str
    joints: frozenset[str]  # joints that may move; fixed ones may be among them
    tips: tuple[str, ...] = ()  # default links of requests without link names


def joints_above(robot: RobotModel, link: str) -> list[str]:
    """Return the joints that move a link, from the root outwards, without fixed ones."""
    return [robot.joint_names[joint] for joint in joints_to(robot, robot.link_frame(link)[0])]


def groups_of_lines(robot: RobotModel, lines: Iterable[str]) -> dict[str, PlanningGroup]:
    """Read groups from a parameter; InputError for a line of another form, UnknownNameError for an unknown link.

    Lines are ``name=tip``, ``name=base:tip`` for the joints between two links, or ``name=tip,tip`` for several tips.
    """
    groups = {}
    for line in lines:
        name, equals, ends = (part.strip() for part in line.partition("="))
        base, colon, tips = ends.rpartition(":")
        chosen = tuple(tip.strip() for tip in tips.split(",") if tip.strip())
        if not name or not equals or not chosen or (colon and not base.strip()):
            raise InputError(f"Group {line!r} is none. Allowed: 'name=tip', 'name=base:tip', 'name=tip,tip'.")
        joints = {joint for tip in chosen for joint in _chain(robot, base.strip(), tip)}
        groups[name] = PlanningGroup(name, frozenset(joints), chosen)
    return groups


def read_semantic_description(
    robot: RobotModel, document: SrdfDocument
) -> tuple[dict[str, PlanningGroup], frozenset[str]]:
    """Read groups by name, and names of the frame in which the root link is fixed; see `load_groups` of the robots."""
    groups = {
        name: PlanningGroup(name, frozenset(_with_followers(robot, group.joints)), group.tips)
        for name, group in groups_of(document, robot).items()
    }
    fixed = (one for one in document.virtual_joints if one.kind == "fixed")
    frames = {one.parent_frame for one in fixed if one.child_link == robot.link_names[0]}
    return groups, frozenset(frames)


def _with_followers(robot: RobotModel, joints: Iterable[str]) -> Iterator[str]:
    leaders = {int(robot.joint_qd_start[robot.joint_index(name)]) for name in joints}
    return (
        name
        for name, dof in zip(robot.joint_names, robot.joint_qd_start, strict=False)
        if int(robot.dof_leader[dof]) in leaders
    )


def _chain(robot: RobotModel, base: str, tip: str) -> list[str]:
    """Return the moving joints between a link and a link below; all joints above the tip without a base."""
    joints = joints_above(robot, tip)
    if not base:
        return joints
    if robot.link_index(base) not in path_to_root(robot, robot.link_index(tip)):
        raise InputError(f"Link '{tip}' is not below '{base}'. A group's chain goes from a link to one below it.")
    return joints[len(joints_above(robot, base)) :]


@dataclass(frozen=True)
class DescriptionSettings:
    """Settings of the loading of a robot."""

    groups: Sequence[str] = ()  # groups in addition to the groups of the SRDF; see `groups_of_lines`
    # "shapes" makes a collision model of the robot's shapes, if all are simple shapes; "ignore" none
    collision: Collision = "shapes"
    collision_spheres: str = ""  # file of spheres for the collision model instead; empty for none
    floating_base: bool = False  # whether the root link floats


@dataclass(frozen=True)
class DescribedRobot:
    """A robot with its semantic description."""

    robot: RobotModel
    groups: Mapping[str, PlanningGroup]  # planning groups by name
    root_frames: frozenset[str]  # names of the frame in which its root link is fixed


def read_described_robot(
    urdf: str, srdf: str = "", settings: DescriptionSettings = DescriptionSettings()
) -> DescribedRobot:
    """Read a robot from the text of a URDF or MJCF file, and of an SRDF; empty for none.

    RobotFileError for an unreadable text; InputError if a setting is not allowed, or the text is none.
    """
    if settings.collision not in get_args(Collision):
        raise InputError(f"collision is {settings.collision!r}. Allowed: 'shapes', 'ignore'.")
    if not is_xml_text(urdf):
        raise InputError("robot_description is not the text of a URDF: it does not begin with '<'.")
    from_shapes = "ignore" if settings.collision_spheres else settings.collision
    robot = load_robot(urdf, collision=from_shapes, srdf=srdf or None, floating_base=settings.floating_base)
    document = read_srdf_file(srdf) if srdf else None
    if settings.collision_spheres:
        spheres = read_sphere_file(Path(settings.collision_spheres))
        disabled = () if document is None else document.disabled_pairs
        robot = robot.with_collision_model(read_collision_model(robot, {}, spheres, disabled))
    groups, root_frames = ({}, frozenset[str]()) if document is None else read_semantic_description(robot, document)
    return DescribedRobot(robot, groups | groups_of_lines(robot, settings.groups), root_frames)
