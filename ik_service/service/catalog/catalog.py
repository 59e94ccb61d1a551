"""Catalog of robots or worlds by name: built in, or put at run time into a folder.

Readers get a snapshot and need no lock. Each change makes a new snapshot; `refresh` makes a snapshot after changes by
other processes, which share the folder. The lock protects only the replacement of the snapshot; no thread holds the
lock while reading a text or waiting for the disk. A request under way keeps its own snapshot. Solvers are cached by the
content of a model, never by its name.

An event loop never waits for the disk or the parser. Each request compares the folder's time of change. If the time
differs, a thread reads the folder, once for all requests received before the read begins.
"""

import asyncio
import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from ik_service.mechanism.names import unknown_name
from ik_service.service.catalog.entries import Entry, Precondition
from ik_service.service.catalog.file_store import ENTRY_NAME, Files, FileStore, disk_errors
from ik_service.service.errors.exceptions import (
    CatalogFullError,
    KeyRightsError,
    ReadOnlyRobotError,
    UploadsDisabledError,
)
from ik_service.service.pool.side_threads import SideThreads
from objectives.errors import InputError, UnknownNameError

REFRESH_WAIT_S = 0.1
"""How long a request waits for a refresh; longer ones read what other processes put."""
MISSING_WAIT_S = 5.0
"""How much longer one waits whose entry is missing: another process may have put it."""

_logger = logging.getLogger(__name__)

AnyEntry = TypeVar("AnyEntry", bound=Entry)


class Catalog(ABC, Generic[AnyEntry]):
    """Entries by name: built-in ones, which cannot be changed, and at most `max_uploaded` put into the folder, if any.

    `uploaders` is the number of API keys with the right to put and delete entries; if several, no key may take all
    room. InputError if the folder cannot be made or read.
    """

    noun: str  # kind of entry in messages: "robot" or "world"
    most_bytes: int  # largest file of an entry
    reserved: Collection[str] = ()  # names that no entry put at run time can have
    unknown_error: type[UnknownNameError]  # error class for a name without an entry
    name_error: type[InputError]  # error class for an invalid name

    def __init__(
        self,
        folder: Path | None = None,
        built_in: Mapping[str, AnyEntry] = MappingProxyType({}),
        *,
        max_uploaded: int = 64,
        uploaders: int = 0,
    ) -> None:
        self._store = None if folder is None else FileStore(folder, self.noun, self.most_bytes)
        self._max_uploaded, self._uploaders = max_uploaded, uploaders
        self._is_unreadable = False  # True: the log has the error already
        self._lock = threading.Lock()
        self._files: Files = {}
        self._changed_at: int | None = None
        self._version = 0  # of the snapshot
        self._coming: Mapping[str, AnyEntry] = {}  # entries with a file being written
        self._set(dict(built_in))
        self.refresh()

    @abstractmethod
    def _entry_of(self, name: str, text: bytes) -> AnyEntry:
        """Return the entry in a text, under the given name; InputError if the text is not a valid entry."""

    @property
    def entries(self) -> Mapping[str, AnyEntry]:
        """All entries, built-in ones first."""
        return self._served

    def entry(self, name: str) -> AnyEntry:
        """Return an entry; UnknownNameError, with all names, if no entry has this name."""
        found = self._served.get(name)
        if found is None:
            noun, names = self.noun.capitalize(), list(self._served)
            raise self.unknown_error(unknown_name(f"{noun} {name[:100]!r} is not served.", noun, names, name[:100]))
        return found

    def serves(self, name: str) -> bool:
        """Return whether the current snapshot has an entry of this name."""
        return name in self._served

    def put(self, name: str, text: bytes, precondition: Precondition) -> tuple[AnyEntry, bool]:
        """Put or replace an entry; return the entry and whether its name is new. Blocks for the parser and the disk.

        Errors as in `require_changeable`; InputError if the text is not a valid entry; KeyRightsError if another API
        key has put the entry; CatalogFullError if all API keys together, or this key, have put as many entries as
        allowed; StaleEntryError if the precondition does not hold; CatalogStorageError if the disk refuses the file.
        """
        self.require_changeable(name)
        assert self._store is not None  # the catalog is open
        with disk_errors():
            self._check_put(self._store, name, precondition)  # before the text is read
        entry = self._entry_of(name, text)
        with disk_errors(), self._store.alone():
            self.refresh()
            is_new = self._check_put(self._store, name, precondition)
            self._coming = {name: entry}
            try:
                if is_new:
                    self._store.set_owner(name, precondition.owner)
                self._store.write(name, text)
                self._swap(self._store, name, entry)
            finally:
                self._coming = {}
                if not self.serves(name):
                    self._store.set_owner(name, None)
        return entry, is_new

    def _check_put(self, store: FileStore, name: str, precondition: Precondition) -> bool:
        """Check the precondition, the owner and the free room for an entry; return whether its name is new."""
        current = self._served.get(name)
        precondition.check(self.noun, name, current)
        if current is not None:
            self._require_own(store, name, precondition)
            return False
        uploaded = [other for other, entry in self._served.items() if entry.is_put]
        free = self._max_uploaded - len(uploaded) - 1
        if free < 0:
            raise CatalogFullError(
                f"{len(uploaded)} {self.noun}s have been put, which is the most allowed. Delete one first."
            )
        own = sum(store.owner(other) == precondition.owner for other in uploaded) if self._uploaders > 1 else 0
        if own and own + 1 > free:  # the rule of `FairCap`
            raise CatalogFullError(
                f"Your API key has put {own} {self.noun}s, which is its share of {self._max_uploaded} now. Delete one "
                "first."
            )
        return True

    def _require_own(self, store: FileStore, name: str, precondition: Precondition) -> None:
        """Refuse to change an entry of another API key."""
        if precondition.owner is not None and store.owner(name) not in (None, precondition.owner):
            raise KeyRightsError(
                f"{self.noun.capitalize()} '{name}' was put with another API key, which alone may replace or delete it."
            )

    def delete(self, name: str, precondition: Precondition) -> None:
        """Delete an uploaded entry. Blocks for the disk.

        Errors as in `require_changeable`; UnknownNameError if no entry has this name; StaleEntryError if the
        precondition does not hold; KeyRightsError if another API key has put the entry; CatalogStorageError if the disk
        refuses.
        """
        self.require_changeable(name)
        assert self._store is not None  # the catalog is open
        with disk_errors(), self._store.alone():
            self.refresh()
            precondition.check(self.noun, name, self.entry(name))
            self._require_own(self._store, name, precondition)
            self._store.delete(name)
            self._swap(self._store, name, None)

    def require_changeable(self, name: str) -> None:
        """Refuse a change that no API key can make under this name.

        UploadsDisabledError if this service accepts no changes; InputError for an invalid or built-in name.
        """
        if not self._uploaders:
            raise UploadsDisabledError(
                f"{self.noun.capitalize()}s cannot be put or deleted here; see the setting uploads_enabled."
            )
        if not ENTRY_NAME.fullmatch(name):
            raise self.name_error(
                f"{name[:100]!r} cannot be a {self.noun}'s name. Allowed: a lower-case letter, then lower-case "
                "letters, digits, '_' and '-', 64 characters at most."
            )
        served = self._served.get(name)
        if name in self.reserved or (served is not None and not served.is_put):
            raise ReadOnlyRobotError(f"Robot '{name}' is built in and stays as it is. Take another name.")

    def is_current(self) -> bool:
        """Return whether the folder is unchanged since the last refresh, by its time of change."""
        if self._store is None:
            return True
        try:
            changed_at = self._store.changed_at()
        except OSError:
            return False
        return changed_at is not None and changed_at == self._changed_at

    def refresh(self) -> None:
        """Take over changes of the folder by other processes. Blocks for the disk and the reader."""
        if self._store is None or self.is_current():
            return
        try:
            while not self._read_changes(self._store):
                pass  # the snapshot changed during the read; the files just read may be older
            self._is_unreadable = False
        except OSError as error:
            if not self._is_unreadable:  # log once, although each request checks the folder
                self._is_unreadable = True
                _logger.error("The folder of the catalog cannot be read: %s.", error.strerror)

    def _read_changes(self, store: FileStore) -> bool:
        """Read changes of the folder into a new snapshot; return False if another thread made a snapshot first."""
        version, changed_at, files = self._version, store.changed_at(), store.files()
        served = None if files == self._files else self._read(store, files)
        with self._lock:
            if self._version != version:
                return False
            self._changed_at = changed_at
            if served is not None:
                self._files, self._version = files, version + 1
                self._set(served)
        return True

    def _swap(self, store: FileStore, name: str, entry: AnyEntry | None) -> None:
        """Make a snapshot with the entry of a written file, or without the entry of a deleted file."""
        state = store.files().get(name)
        with self._lock:
            served, files = dict(self._served), dict(self._files)
            if entry is None or state is None:
                served.pop(name, None)
                files.pop(name, None)
            else:
                served[name], files[name] = entry, state
            self._files, self._version = files, self._version + 1
            self._set(served)

    def _read(self, store: FileStore, files: Files) -> dict[str, AnyEntry]:
        """Read new and changed files; drop the entries of deleted files."""
        served = {name: entry for name, entry in self._served.items() if not entry.is_put}
        noun = self.noun.capitalize()
        for name, state in files.items():
            old, coming = self._served.get(name), self._coming.get(name)
            if old is not None and old.is_put and self._files.get(name) == state:
                served[name] = old
            elif name in served or name in self.reserved:
                _logger.error("%s %s of the catalog is left out: a built-in %s has its name.", noun, name, self.noun)
            elif (text := store.text(name)) is not None:
                try:
                    is_coming = coming is not None and coming.text == text
                    served[name] = coming if is_coming and coming else self._entry_of(name, text)
                except InputError as error:
                    _logger.error(
                        "%s %s of the catalog is left out, its file is not as it must be: %s", noun, name, error
                    )
        return served

    def _set(self, served: dict[str, AnyEntry]) -> None:
        self._served: Mapping[str, AnyEntry] = MappingProxyType(served)


AnyCatalog = TypeVar("AnyCatalog", bound=Catalog[Any])


class CatalogRefresh(Generic[AnyCatalog]):
    """Refreshes a catalog for one event loop."""

    def __init__(self, catalog: AnyCatalog) -> None:
        self._catalog, self._thread = catalog, SideThreads(1, "ik-look")
        self._running: asyncio.Task[None] | None = None
        self._next: asyncio.Task[None] | None = None  # has not begun yet
        self._until = 0.0  # when requests stop waiting for the running one

    async def current(self, name: str | None = None) -> AnyCatalog:
        """Return the catalog, current if the refresh is fast; `name` is the entry in the request, if any."""
        if not self._catalog.is_current():
            if self._next is None:
                self._next = asyncio.create_task(self._refresh(self._running))
            loop, reading = asyncio.get_running_loop(), self._next
            until = self._until if self._running is not None else loop.time() + REFRESH_WAIT_S
            await asyncio.wait([reading], timeout=max(0.0, until - loop.time()))
            if name is not None and not self._catalog.serves(name):
                await asyncio.wait([reading], timeout=MISSING_WAIT_S)
        return self._catalog

    def close(self) -> None:
        """End the thread."""
        self._thread.close()

    async def _refresh(self, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait([before])
        self._running, self._next = self._next, None
        self._until = asyncio.get_running_loop().time() + REFRESH_WAIT_S
        try:
            await self._thread.run(None, self._catalog.refresh)
        finally:
            self._running = None
