"""A robot from the texts of a ROS system: robot_description and robot_description_semantic."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from ik_service.integrations.ros.groups import PlanningGroup, groups_of_lines, read_semantic_description
from ik_service.robots import RobotModel, load_robot
from ik_service.robots.readers.catalog import Collision
from ik_service.robots.readers.groups import read_srdf_file
from ik_service.robots.readers.read_model import read_collision_model
from ik_service.robots.readers.sphere_file import read_sphere_file
from ik_service.robots.readers.xml_reader import is_xml_text
from objectives.errors import InputError


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
