"""Entries of a catalog by name, and preconditions of a caller who changes an entry."""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from ik_service.mechanism.names import leaf_links
from ik_service.robots import RobotModel, World
from ik_service.service.errors.exceptions import StaleEntryError
from ik_service.service.queue.fair_cap import Owner
from ik_service.service.schema.robot import Source


class Entry(Protocol):
    """Something that is kept by name."""

    @property
    def is_put(self) -> bool:
        """Return whether the entry was put at run time."""

    @property
    def text(self) -> bytes | None:
        """Return the text of the entry's file, if the entry was put."""

    @property
    def etag(self) -> str:
        """Its entity tag: equal tags mean equal files."""


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

    @property
    def is_put(self) -> bool:
        """Return whether the entry was put at run time."""
        return self.source == "uploaded"

    @property
    def text(self) -> bytes | None:
        """Its URDF."""
        return self.urdf

    @cached_property
    def etag(self) -> str:
        """Its entity tag: equal tags mean equal URDFs."""
        return _tag_of(self.urdf if self.urdf is not None else self.model.content_hash.encode())

    @cached_property
    def ends(self) -> str:
        """Its links that carry no other, as text; the first page of the service asks for them with every call."""
        return ", ".join(leaf_links(self.model))


@dataclass(frozen=True, eq=False)
class KeptWorld:
    """A world that was put.

    Attributes:
        world: The world.
        text: It as MessagePack.
    """

    world: World
    text: bytes

    @property
    def is_put(self) -> bool:
        """All are."""
        return True

    @cached_property
    def etag(self) -> str:
        """Its entity tag: equal tags mean equal worlds."""
        return _tag_of(self.text)


def _tag_of(text: bytes) -> str:
    return f'"{hashlib.sha256(text).hexdigest()[:32]}"'


@dataclass(frozen=True)
class Precondition:
    """Preconditions of a caller who changes or reads an entry (RFC 9110, section 13), and the caller.

    Attributes:
        if_match: Entity tags, one of which it has; `*`: it exists.
        if_none_match: Entity tags, none of which it has; `*`: it does not exist.
        owner: Name of the caller's API key; None for the service itself, which may change every entry.
    """

    if_match: str | None = None
    if_none_match: str | None = None
    owner: Owner = None

    def check(self, noun: str, name: str, current: Entry | None) -> None:
        """Refuse to change an entry that is not as expected.

        Args:
            noun: What it is, for the message.
            name: Its name.
            current: The entry; None where there is none of the name.

        Raises:
            StaleEntryError: It is not.
        """
        one = f"{noun.capitalize()} '{name}'"
        if current is not None and _names(self.if_none_match, current):
            raise StaleEntryError(f"{one} exists already.")
        if self.if_match is not None:
            if current is None:
                raise StaleEntryError(f"There is no {noun} '{name}' to replace.")
            if not _names(self.if_match, current):
                raise StaleEntryError(f"{one} has changed: its ETag is {current.etag}.")

    def is_known(self, noun: str, name: str, current: Entry) -> bool:
        """Return whether the caller has an entry that is to be shown; `if_match` is checked as for a change."""
        Precondition(self.if_match).check(noun, name, current)
        return _names((self.if_none_match or "").replace("W/", ""), current)  # for GET, weak tags do as well


def _names(header: str | None, entry: Entry) -> bool:
    return header is not None and not {"*", entry.etag}.isdisjoint(tag.strip() for tag in header.split(","))
