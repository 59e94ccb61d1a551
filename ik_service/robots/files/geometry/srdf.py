"""Pairs of links in an SRDF file that are not checked: its elements ``<disable_collisions>``."""

from ik_service.robots.collision.model import LinkPair
from ik_service.robots.files.xml_reader import read_xml, shortened


def read_disabled_pairs(data: bytes) -> list[LinkPair]:
    """Read the pairs of an SRDF document.

    Raises:
        RobotFileError: It is no such document, or a link is missing.
    """
    root = read_xml(data)
    if root.tag != "robot":
        raise root.error(f"the outermost element must be <robot>, got <{shortened(root.tag)}>.")
    return [(one.text("link1"), one.text("link2")) for one in root.all("disable_collisions")]
