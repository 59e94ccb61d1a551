"""Content of an SRDF document by names alone, without looking up names in a robot."""

from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from ik_service.errors import RobotFileError
from ik_service.mechanism.collision_model import LinkPair
from ik_service.robots.readers.xml_reader import MAX_BYTES, XmlElement, is_xml_text, read_xml, shortened
from objectives.errors import UnknownNameError


@dataclass(frozen=True)
class EndEffector:
    """An end effector mounted on a group.

    Attributes:
        parent_link: Link that carries the end effector.
        parent_group: Group that moves this link; empty if the file names no group.
    """

    parent_link: str
    parent_group: str


@dataclass(frozen=True)
class VirtualJoint:
    """A joint that connects a link to a frame outside the robot.

    Attributes:
        child_link: The link.
        parent_frame: The frame.
        kind: "fixed", "floating" or "planar".
    """

    child_link: str
    parent_frame: str
    kind: str


@dataclass(frozen=True, eq=False)
class SrdfDocument:
    """Content of a document.

    Attributes:
        groups: Elements ``<group>`` by name, in the order of the file.
        states: Elements ``<group_state>``.
        end_effectors: Its end effectors.
        virtual_joints: Its virtual joints.
        passive_joints: Joints without a motor; groups omit them.
        disabled_pairs: Pairs of links not checked for contact.
    """

    groups: dict[str, XmlElement]
    states: tuple[XmlElement, ...]
    end_effectors: tuple[EndEffector, ...]
    virtual_joints: tuple[VirtualJoint, ...]
    passive_joints: frozenset[str]
    disabled_pairs: tuple[LinkPair, ...]


def read_srdf(data: bytes) -> SrdfDocument:
    """Read an SRDF document, safe on untrusted bytes; RobotFileError if invalid, or if two groups share a name."""
    root = read_xml(data)
    if root.tag != "robot":
        raise root.error(f"the outermost element must be <robot>, got <{shortened(root.tag)}>.")
    groups: dict[str, XmlElement] = {}
    for one in root.all("group"):
        if groups.setdefault(one.text("name"), one) is not one:
            raise one.error("two groups have this name.")
    effectors = root.all("end_effector")
    return SrdfDocument(
        groups=groups,
        states=tuple(root.all("group_state")),
        end_effectors=tuple(
            EndEffector(one.text("parent_link"), one.attributes.get("parent_group", "")) for one in effectors
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
