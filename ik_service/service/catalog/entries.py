"""Entries of a catalog, and preconditions (ETags) for changes of an entry."""

import hashlib
from dataclasses import dataclass
from functools import cached_property

from ik_service.mechanism.names import leaf_links
from ik_service.robots import RobotModel, World
from ik_service.service.errors.exceptions import StaleEntryError
from ik_service.service.queue.fair_cap import Owner
from ik_service.service.schema.robot import Source


@dataclass(frozen=True, eq=False)
class Entry:
    """Robot or world in a catalog."""

    text: bytes | None  # text of the entry's file, byte for byte; None: a robot that was not read from a URDF

    @property
    def is_put(self) -> bool:
        """Return whether the entry was put at run time."""
        return True

    @property
    def content(self) -> bytes:
        """Bytes that are equal for equal entries only."""
        assert self.text is not None  # an entry that was put
        return self.text

    @cached_property
    def etag(self) -> str:
        """Its entity tag: equal tags mean equal contents."""
        return f'"{hashlib.sha256(self.content).hexdigest()[:32]}"'


@dataclass(frozen=True, eq=False)
class ServedRobot(Entry):
    """Robot in the catalog."""

    model: RobotModel
    source: Source  # origin of the robot: built in or uploaded

    @property
    def is_put(self) -> bool:
        """Return whether the robot was put at run time."""
        return self.source == "uploaded"

    @property
    def content(self) -> bytes:
        """Its URDF, and the hash of a robot without, or with spheres that a file beside the URDF may name."""
        text = b"" if self.text is None else self.text
        may_have_file = self.is_put and self.model.collision_model is not None
        return text + self.model.content_hash.encode() if may_have_file or not text else text

    @cached_property
    def ends(self) -> str:
        """Names of the leaf links, as text; cached because each call of the first page needs this text."""
        return ", ".join(leaf_links(self.model))


@dataclass(frozen=True, eq=False)
class KeptWorld(Entry):
    """Uploaded world; its text is MessagePack."""

    world: World


@dataclass(frozen=True)
class Precondition:
    """Precondition of a change or read of an entry (RFC 9110, section 13), with the caller's API key."""

    if_match: str | None = None  # allowed entity tags of the entry; `*`: the entry must exist
    if_none_match: str | None = None  # forbidden entity tags of the entry; `*`: the entry must not exist
    owner: Owner = None  # name of the caller's API key; None for the service itself, which may change every entry

    def check(self, noun: str, name: str, current: Entry | None) -> None:
        """Raise StaleEntryError if the current entry does not meet the precondition."""
        one = f"{noun.capitalize()} '{name}'"
        if current is not None and _names(self.if_none_match, current):
            raise StaleEntryError(f"{one} exists already.")
        if self.if_match is not None:
            if current is None:
                raise StaleEntryError(f"There is no {noun} '{name}' to replace.")
            if not _names(self.if_match, current):
                raise StaleEntryError(f"{one} has changed: its ETag is {current.etag}.")

    def is_known(self, noun: str, name: str, current: Entry) -> bool:
        """Return whether the caller already has this version of the entry; check `if_match` as for a change."""
        Precondition(self.if_match).check(noun, name, current)
        return _names((self.if_none_match or "").replace("W/", ""), current)  # GET accepts weak tags, too


def _names(header: str | None, entry: Entry) -> bool:
    return header is not None and not {"*", entry.etag}.isdisjoint(tag.strip() for tag in header.split(","))
