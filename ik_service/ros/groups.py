"""Planning groups: which joints a request may move, and which links it is for by default.

They come from an SRDF, or from lines of a parameter such as ``arm=base_link:tool0``; read once for each robot.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ik_service.errors import RobotFileError
from ik_service.robots import RobotModel
from ik_service.robots.files.xml_reader import XmlElement, read_xml
from ik_service.robots.structure.link_paths import path_to_root
from objectives.errors import InputError


@dataclass(frozen=True)
class PlanningGroup:
    """A group of joints.

    Attributes:
        name: Its name.
        joints: Joints that may move; fixed ones may be among them.
        tips: Links that a request without names of links is for.
    """

    name: str
    joints: frozenset[str]
    tips: tuple[str, ...] = ()


@dataclass(frozen=True)
class SemanticDescription:
    """What is read of an SRDF.

    Attributes:
        groups: The groups, by name.
        root_frames: Names of the frame in which the root link is fixed.
    """

    groups: Mapping[str, PlanningGroup]
    root_frames: frozenset[str] = frozenset()


def joints_above(robot: RobotModel, link: str) -> list[str]:
    """Return the joints that move a link, from the root outwards, without fixed ones.

    Raises:
        UnknownNameError: The robot has no such link.
    """
    body, found = int(robot.link_body[robot.link_index(link)]), []
    while body >= 0:
        found.append(robot.joint_names[body])
        body = int(robot.joint_parent[body])
    return found[::-1]


def groups_of_lines(robot: RobotModel, lines: Iterable[str]) -> dict[str, PlanningGroup]:
    """Read groups from a parameter.

    Args:
        robot: The robot.
        lines: ``name=tip``, ``name=base:tip`` for the joints between two links, or ``name=tip,tip`` for several tips.

    Raises:
        InputError: A line says something else.
        UnknownNameError: The robot has no such link.
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


def read_semantic_description(robot: RobotModel, text: str) -> SemanticDescription:
    """Read groups and the frame of the root from an SRDF.

    Joints and links that the robot does not have are passed over: its fixed joints are among them.

    Raises:
        RobotFileError: It is no such document, or groups contain each other.
        UnknownNameError: A chain ends at a link that the robot does not have.
    """
    root = read_xml(text.encode("utf-8", errors="surrogatepass"))
    if root.tag != "robot":
        raise root.error("the outermost element must be <robot>.")
    elements = {one.text("name"): one for one in root.all("group")}
    ends = {one.text("group"): one.text("parent_link") for one in root.all("end_effector")}
    parents = {one.attributes.get("parent_group"): one.text("parent_link") for one in root.all("end_effector")}
    reader = _GroupReader(robot, elements, frozenset(ends))
    groups = {name: reader.group(name, parents.get(name)) for name in elements}
    fixed = (one for one in root.all("virtual_joint") if one.attributes.get("type") == "fixed")
    frames = {one.text("parent_frame") for one in fixed if one.text("child_link") == robot.link_names[0]}
    return SemanticDescription(groups, frozenset(frames))


class _GroupReader:
    """Reads groups that are made of others."""

    def __init__(self, robot: RobotModel, elements: Mapping[str, XmlElement], hands: frozenset[str]) -> None:
        self._robot, self._elements, self._hands = robot, elements, hands

    def group(self, name: str, end_parent: str | None) -> PlanningGroup:
        """Return a group; `end_parent` is the link that carries an end effector of it."""
        joints, tips = self._content(name, ())
        if not tips and end_parent is not None and end_parent in self._robot.link_names:
            tips = (end_parent,)
        if not tips and name not in self._hands:
            tips = self._leaves(joints)
        return PlanningGroup(name, frozenset(joints), tips)

    def _content(self, name: str, inside: Sequence[str]) -> tuple[set[str], tuple[str, ...]]:
        element = self._elements[name]
        if name in inside:
            raise element.error("a group contains itself.")
        joints: set[str] = set()
        tips: list[str] = []
        for chain in element.all("chain"):
            tips.append(chain.text("tip_link"))
            joints.update(_chain(self._robot, chain.text("base_link"), tips[-1]))
        joints.update(one.text("name") for one in element.all("joint"))
        for one in element.all("link"):
            joints.update(self._joint_of(one.text("name")))
        for part in element.all("group"):
            if part.text("name") not in self._elements:
                raise RobotFileError(f"group '{name}' contains '{part.text('name')}', which is none.")
            more, ends = self._content(part.text("name"), [*inside, name])
            joints.update(more)
            tips.extend(ends)
        return joints & set(self._robot.joint_names), tuple(dict.fromkeys(tips))

    def _joint_of(self, link: str) -> list[str]:
        """Return the moving joint whose child a link is, if it is one's."""
        robot = self._robot
        if link not in robot.link_names:
            return []
        index = robot.link_index(link)
        body, above = int(robot.link_body[index]), int(robot.link_parent[index])
        is_child = body >= 0 and (above < 0 or int(robot.link_body[above]) != body)
        return [robot.joint_names[body]] if is_child else []

    def _leaves(self, joints: set[str]) -> tuple[str, ...]:
        """Return the last links that the last joints of a group carry, as far as no other joint moves them."""
        robot, found = self._robot, []
        bodies = {robot.joint_index(name) for name in joints}
        for body in sorted(bodies):
            below = [other for other in bodies if other != body and robot.joint_names[body] in self._above(other)]
            if not below:
                found.append(robot.link_names[int((robot.link_body == body).argmax())])
        return tuple(found)

    def _above(self, body: int) -> list[str]:
        link = self._robot.link_names[int((self._robot.link_body == body).argmax())]
        return joints_above(self._robot, link)


def _chain(robot: RobotModel, base: str, tip: str) -> list[str]:
    """Return the moving joints between a link and one below it; all above the tip where no base is given."""
    joints = joints_above(robot, tip)
    if not base:
        return joints
    if robot.link_index(base) not in path_to_root(robot, robot.link_index(tip)):
        raise InputError(f"Link '{tip}' is not below '{base}'. A group's chain goes from a link to one below it.")
    return joints[len(joints_above(robot, base)) :]
