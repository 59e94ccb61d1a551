"""The default links of commands."""

from collections.abc import Sequence

from ik_service.mechanism.names import leaf_links
from ik_service.robots import RobotModel
from objectives.errors import InputError


def default_links(robot: RobotModel, links: Sequence[str]) -> tuple[str, ...]:
    """Return the links given, or else the only leaf link; InputError if the robot has none or several."""
    leaves = leaf_links(robot)
    if not links and len(leaves) != 1:
        count = "several leaf links" if leaves else "no leaf link that moves"
        raise InputError(
            f"Robot '{robot.name}' has {count}, so none is the default. Give --link; "
            f"leaf links: {', '.join(leaves) or 'none'}."
        )
    return tuple(links or leaves)
