"""SRDF documents, read by names alone, and the joint groups that they name in a robot."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path

import numpy as np

from ik_service.errors import RobotFileError
from ik_service.mechanism.collision_model import LinkPair
from ik_service.mechanism.names import unknown_name
from ik_service.mechanism.transforms import Float64Array
from ik_service.mechanism.trees import moved_link, path_between, path_to_root
from ik_service.robots.model import RobotModel
from ik_service.robots.readers.xml_reader import MAX_BYTES, XmlElement, is_xml_text, read_xml, shortened
from objectives.errors import UnknownNameError


@dataclass(frozen=True)
class VirtualJoint:
    """A joint that connects a link to a frame outside the robot."""

    child_link: str  # the link
    parent_frame: str  # the frame
    kind: str  # "fixed", "floating" or "planar"


@dataclass(frozen=True, eq=False)
class SrdfDocument:
    """Content of a document."""

    groups: dict[str, XmlElement]  # elements ``<group>`` by name, in the order of the file
    states: tuple[XmlElement, ...]  # elements ``<group_state>``
    carriers: tuple[tuple[str, str], ...]  # links that carry end effectors, with their group; empty for no group
    virtual_joints: tuple[VirtualJoint, ...]  # its virtual joints
    passive_joints: frozenset[str]  # joints without a motor; groups omit them
    disabled_pairs: tuple[LinkPair, ...]  # pairs of links not checked for contact


def read_srdf(data: bytes) -> SrdfDocument:
    """Read an SRDF document, safe on untrusted bytes; RobotFileError if invalid, or if two groups share a name."""
    root = read_xml(data)
    if root.tag != "robot":
        raise root.error(f"the outermost element must be <robot>, got <{shortened(root.tag)}>.")
    groups: dict[str, XmlElement] = {}
    for one in root.all("group"):
        if groups.setdefault(one.text("name"), one) is not one:
            raise one.error("two groups have this name.")
    return SrdfDocument(
        groups=groups,
        states=tuple(root.all("group_state")),
        carriers=tuple(
            (one.text("parent_link"), one.attributes.get("parent_group", "")) for one in root.all("end_effector")
        ),
        virtual_joints=tuple(
            VirtualJoint(one.text("child_link"), one.text("parent_frame"), one.attributes.get("type", ""))
            for one in root.all("virtual_joint")
        ),
        passive_joints=frozenset(one.text("name") for one in root.all("passive_joint")),
        disabled_pairs=tuple((one.text("link1"), one.text("link2")) for one in root.all("disable_collisions")),
    )


def read_srdf_file(source: "str | PathLike[str]") -> SrdfDocument:
    """Read the text of an SRDF document, or the file at a path; UnknownNameError if the file does not exist."""
    if isinstance(source, str) and is_xml_text(source):
        return read_srdf(source.encode("utf-8", errors="surrogatepass"))
    try:
        with Path(source).open("rb") as file:
            return read_srdf(file.read(MAX_BYTES + 1))
    except FileNotFoundError:
        raise UnknownNameError(f"SRDF file '{source}' does not exist.") from None
    except OSError as error:
        raise RobotFileError(f"SRDF file '{source}' cannot be read: {error.strerror}.") from None


@dataclass(frozen=True)
class JointGroup:
    """Joints of a robot that move together, such as an arm.

    Attributes:
        name: Name of the group.
        joints: Moving joints in the robot's order; their mimic joints move, too, and are not listed.
        tips: Links for targets: the carriers of the group's end effectors, else the tips of its chains, else the last
            links moved by its joints.
        states: Coordinates of joints by joint name [m or rad], by the name of the state.
        left_out: Names in the document without a moving joint of the robot: fixed joints, unknown groups, or unknown
            ends of chains.
    """

    name: str
    joints: tuple[str, ...]
    tips: tuple[str, ...]
    states: Mapping[str, Mapping[str, tuple[float, ...]]]
    left_out: tuple[str, ...]

    def state_joint_q(self, robot: RobotModel, state: str) -> Float64Array:
        """Give a configuration with the group in a state, other joints at ``mid_joint_q``, shape [joint_coord_count].

        Raises:
            UnknownNameError: The group has no such state, or the robot no such joint.
            InputError: A joint has another number of coordinates, or the leader of a mimic joint is not in the state.
        """
        if state not in self.states:
            opening = f"Group '{self.name}' has no state '{state}'."
            raise UnknownNameError(unknown_name(opening, "State", tuple(self.states), state))
        joint_q = np.array(robot.mid_joint_q)
        for name, values in self.states[state].items():
            joint = robot.joint_index(name)
            joint_q[robot.joint_q_start[joint] : robot.joint_q_start[joint + 1]] = values
        completed: Float64Array = robot.complete_joint_q(joint_q)[0]
        return completed


def load_groups(srdf: "str | PathLike[str]", robot: RobotModel) -> dict[str, JointGroup]:
    """Read the joint groups of an SRDF document, by name, in the order of the document.

    A group contains its named joints, the parent joints of its named links, the joints of its chains, and its
    subgroups, without passive joints. ``srdf`` is the path of the file, or its text, such as the parameter
    ``robot_description_semantic`` of a ROS system.

    Raises:
        UnknownNameError: The file does not exist.
        RobotFileError: The text is not an SRDF document, a group contains itself, or a state has another number of
            values than its joint has coordinates.
    """
    return groups_of(read_srdf_file(srdf), robot)


def groups_of(document: SrdfDocument, robot: RobotModel) -> dict[str, JointGroup]:
    """Give the groups of a document; see ``load_groups``."""
    groups = _Groups(document, robot)
    return {name: groups.group(name) for name in document.groups}


def group_of(document: SrdfDocument, robot: RobotModel, name: str) -> JointGroup:
    """Give a group of a document, UnknownNameError if there is no such group; see ``load_groups``."""
    if name not in document.groups:
        raise UnknownNameError(
            unknown_name(f"The SRDF document has no group '{name}'.", "Group", tuple(document.groups), name)
        )
    return _Groups(document, robot).group(name)


@dataclass
class _Members:
    """Members of a group: indices of joints, tips of chains, and unknown names, in document order."""

    joints: set[int] = field(default_factory=set)
    tips: dict[str, None] = field(default_factory=dict)
    left_out: dict[str, None] = field(default_factory=dict)

    def add(self, other: "_Members") -> None:
        self.joints |= other.joints
        self.tips |= other.tips
        self.left_out |= other.left_out


class _Groups:
    def __init__(self, document: SrdfDocument, robot: RobotModel) -> None:
        self._document, self._robot = document, robot
        joint_of_link = {robot.link_names[moved_link(robot, j)]: j for j in range(robot.joint_count)}
        self._joint_of = {"joint": {name: j for j, name in enumerate(robot.joint_names)}, "link": joint_of_link}
        self._found: dict[str, _Members] = {}

    def group(self, name: str) -> JointGroup:
        robot, members = self._robot, self._members(name, ())
        passive = self._document.passive_joints
        leads = [
            j for j in sorted(members.joints) if robot.dof_leader[robot.joint_qd_start[j]] == robot.joint_qd_start[j]
        ]
        return JointGroup(
            name=name,
            joints=tuple(robot.joint_names[j] for j in leads if robot.joint_names[j] not in passive),
            tips=self._tips(name, members),
            states=self._states(name),
            left_out=tuple(members.left_out),
        )

    def _members(self, name: str, above: tuple[str, ...]) -> _Members:
        if name not in self._found:
            members, element = _Members(), self._document.groups[name]
            for one in element.children:
                if one.tag in self._joint_of:
                    self._add_joint(members, self._joint_of[one.tag], one.text("name"))
                elif one.tag == "chain":
                    self._add_chain(members, one)
                elif one.tag == "group":
                    self._add_subgroup(members, one, (*above, name))
            self._found[name] = members
        return self._found[name]

    def _add_subgroup(self, members: _Members, element: XmlElement, above: tuple[str, ...]) -> None:
        name = element.text("name")
        if name in above:
            raise element.error("a group cannot be in itself.")
        if name in self._document.groups:
            members.add(self._members(name, above))
        else:
            members.left_out[name] = None

    def _add_joint(self, members: _Members, joint_of: Mapping[str, int], name: str) -> None:
        if name in joint_of:
            members.joints.add(joint_of[name])
        else:
            members.left_out[name] = None

    def _add_chain(self, members: _Members, element: XmlElement) -> None:
        names = self._robot.link_names
        base, tip = element.text("base_link"), element.text("tip_link")
        if base not in names or tip not in names:
            members.left_out[f"{base} - {tip}"] = None
            return
        way, common = path_between(self._robot, names.index(base), names.index(tip))
        moved = {names[link] for link in way if link != common}
        members.joints |= {joint for link, joint in self._joint_of["link"].items() if link in moved}
        members.tips[tip] = None

    def _tips(self, name: str, members: _Members) -> tuple[str, ...]:
        carriers = dict.fromkeys(link for link, group in self._document.carriers if group == name)
        known = tuple(link for link in carriers if link in self._robot.link_names)
        if known or members.tips:
            return self._lowest(known or tuple(members.tips))
        above = set[int]()
        for joint in sorted(members.joints, reverse=True):  # those below first
            if joint not in above:
                above |= self._above(joint)
        ends = [joint for joint in sorted(members.joints) if joint not in above]
        return tuple(self._robot.link_names[moved_link(self._robot, j)] for j in ends)

    def _lowest(self, links: tuple[str, ...]) -> tuple[str, ...]:
        """Remove links above other given links, such as the end of the torso in a group of an arm."""
        names = self._robot.link_names
        above = {names[one] for link in links for one in path_to_root(self._robot, names.index(link))[1:]}
        return tuple(link for link in links if link not in above)

    def _above(self, joint: int) -> set[int]:
        found = set[int]()
        while (joint := int(self._robot.joint_ancestor[joint])) >= 0:
            found.add(joint)
        return found

    def _states(self, name: str) -> dict[str, dict[str, tuple[float, ...]]]:
        states: dict[str, dict[str, tuple[float, ...]]] = {}
        for element in self._document.states:
            if element.attributes.get("group") == name:
                states[element.text("name")] = dict(self._values(element))
        return states

    def _values(self, state: XmlElement) -> Iterator[tuple[str, tuple[float, ...]]]:
        robot = self._robot
        for one in state.all("joint"):
            name = one.text("name")
            if name in robot.joint_names:
                one.text("value")
                joint = robot.joint_index(name)
                count = int(robot.joint_q_start[joint + 1] - robot.joint_q_start[joint])
                yield name, one.numbers("value", (0.0,) * count)
