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
    """An end effector mounted on a group."""

    parent_link: str  # link that carries the end effector
    parent_group: str  # group that moves this link; empty if the file names no group


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
    end_effectors: tuple[EndEffector, ...]  # its end effectors
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
