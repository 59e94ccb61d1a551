"""A robot that is served, and what a caller expects of one that is to change."""

import hashlib
from dataclasses import dataclass
from functools import cached_property

from ik_service.api.errors.exceptions import StaleRobotError
from ik_service.api.schema.robot import Source
from ik_service.robots import RobotModel


@dataclass(frozen=True, eq=False)
class ServedRobot:
    """A robot that is served.

    Attributes:
        model: The robot.
        source: Whether it is built in or was put.
        urdf: Its URDF as it was put; None where it was not read from one.
    """

    model: RobotModel
    source: Source
    urdf: bytes | None

    @cached_property
    def etag(self) -> str:
        """Its entity tag: equal tags mean equal URDFs."""
        text = self.urdf if self.urdf is not None else self.model.content_hash.encode()
        return f'"{hashlib.sha256(text).hexdigest()[:32]}"'


@dataclass(frozen=True)
class Precondition:
    """What a caller expects of a robot that is to change (RFC 9110, section 13).

    Attributes:
        if_match: Entity tags, one of which it has; `*`: it exists.
        if_none_match: `*`: it does not exist.
    """

    if_match: str | None = None
    if_none_match: str | None = None

    def check(self, name: str, current: ServedRobot | None) -> None:
        """Refuse to change a robot that is not as expected.

        Raises:
            StaleRobotError: It is not.
        """
        if self.if_none_match is not None and current is not None:
            if self.if_none_match.strip() == "*" or current.etag in _tags(self.if_none_match):
                raise StaleRobotError(f"Robot '{name}' exists already.")
        if self.if_match is not None:
            if current is None:
                raise StaleRobotError(f"There is no robot '{name}' to replace.")
            if self.if_match.strip() != "*" and current.etag not in _tags(self.if_match):
                raise StaleRobotError(f"Robot '{name}' has changed: its ETag is {current.etag}.")


def _tags(header: str) -> list[str]:
    return [tag.strip() for tag in header.split(",")]
