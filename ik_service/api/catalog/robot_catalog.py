"""The robots that are served: those that came with the service, and those put at run time.

Readers get a snapshot and need no lock; changes make a new one, those by other processes that share the folder too,
which are taken in by `look`. The lock protects only the swap: nobody holds it while the parser or the disk is at work.
A request under way keeps the model that it has, and solvers are told apart by the content of a model, never by its
name.
"""

import errno
import hashlib
import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

from ik_service.api.catalog.robot_store import ROBOT_NAME, Files, RobotStore
from ik_service.api.errors.exceptions import (
    CatalogFullError,
    CatalogStorageError,
    CatalogStorageFullError,
    MjcfRefusedError,
    ReadOnlyRobotError,
    RobotNameError,
    StaleRobotError,
    UnknownRobotError,
    UploadsDisabledError,
)
from ik_service.api.schema.limits import MAX_ACTIVE_DOFS
from ik_service.api.schema.robot import Source
from ik_service.errors import RobotFileError
from ik_service.robots import RobotModel, builtin_robot_names, builtin_urdf, load_urdf
from objectives.errors import InputError

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class ServedRobot:
    """A robot that is served.

    Attributes:
        model: The robot.
        source: Where it came from.
        urdf: Its URDF, as it was put; None where it was not read from one.
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
    """What a caller believes about a robot that is to change (RFC 9110, section 13).

    Attributes:
        if_match: Entity tags, one of which it has; `*`: it is there.
        if_none_match: `*`: it is not there.
    """

    if_match: str | None = None
    if_none_match: str | None = None

    def check(self, name: str, current: ServedRobot | None) -> None:
        """Refuse a change to a robot that is not as the caller believes.

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


class RobotCatalog:
    """Robots by name.

    Args:
        models: Robots that came with the service, by name.
        store: Folder of those put at run time; None: there are none.
        max_uploaded: Robots that may be put.
        is_open: Whether robots may be put and deleted.
    """

    def __init__(
        self,
        models: Mapping[str, RobotModel],
        store: RobotStore | None = None,
        *,
        max_uploaded: int = 64,
        is_open: bool = False,
    ) -> None:
        self._store, self._max_uploaded, self._is_open = store, max_uploaded, is_open
        self._lock = threading.Lock()
        self._files: Files = {}
        self._changed_at: int | None = None
        self._version = 0  # of the snapshot
        self._coming: ServedRobot | None = None  # whose file is being written here
        self._set({name: ServedRobot(model, "built_in", _urdf_of(name, model)) for name, model in models.items()})
        self.refresh()

    @property
    def robots(self) -> Mapping[str, ServedRobot]:
        """All robots, those that came with the service first."""
        return self._served

    @property
    def models(self) -> Mapping[str, RobotModel]:
        """The models of all robots."""
        return self._models

    def robot(self, name: str) -> ServedRobot:
        """Return a robot.

        Raises:
            UnknownRobotError: None of that name is served; the message lists those there are.
        """
        found = self._served.get(name)
        if found is None:
            raise UnknownRobotError(f"Robot {name[:100]!r} is not served. Robots: {', '.join(self._served)}.")
        return found

    def serves(self, name: str) -> bool:
        """Tell whether a robot of a name is served, as far as this process has seen."""
        return name in self._served

    def put(self, name: str, text: bytes, precondition: Precondition) -> tuple[ServedRobot, bool]:
        """Put a robot, or replace one; return it, and whether its name is new. Blocks for the parser and the disk.

        Raises:
            UploadsDisabledError: Robots cannot be put here.
            RobotNameError: No robot can have this name.
            ReadOnlyRobotError: A built-in robot has this name.
            CatalogFullError: As many robots as allowed have been put.
            StaleRobotError: The precondition does not hold.
            MjcfRefusedError: The text is MJCF.
            RobotFileError: The text is no robot.
            CatalogStorageError: The disk does not take it; a CatalogStorageFullError where it has no room.
        """
        self.require_changeable(name)
        assert self._store is not None  # the catalog is open
        self._check_put(name, precondition)  # before the parser has work with it
        robot = ServedRobot(_parsed(text), "uploaded", text)
        with _kept_in_folder(), self._store.alone():
            self.refresh()
            is_new = self._check_put(name, precondition)
            self._coming = robot
            try:
                self._store.write(name, text)
                self._swap(self._store, name, robot)
            finally:
                self._coming = None
        return robot, is_new

    def _check_put(self, name: str, precondition: Precondition) -> bool:
        """Refuse to put a robot that may not be; return whether its name is new."""
        current = self._served.get(name)
        precondition.check(name, current)
        uploaded = sum(robot.source == "uploaded" for robot in self._served.values())
        if current is None and uploaded >= self._max_uploaded:
            raise CatalogFullError(f"{uploaded} robots have been put, which is the most allowed. Delete one first.")
        return current is None

    def delete(self, name: str, precondition: Precondition) -> None:
        """Delete a robot that was put. Blocks for the disk.

        Raises:
            UploadsDisabledError: Robots cannot be deleted here.
            RobotNameError: No robot can have this name.
            ReadOnlyRobotError: The robot is built in.
            UnknownRobotError: None of that name is served.
            StaleRobotError: The precondition does not hold.
            CatalogStorageError: The disk does not let it go.
        """
        self.require_changeable(name)
        assert self._store is not None  # the catalog is open
        with _kept_in_folder(), self._store.alone():
            self.refresh()
            precondition.check(name, self.robot(name))
            self._store.delete(name)
            self._swap(self._store, name, None)

    def require_changeable(self, name: str) -> None:
        """Refuse to change a robot that cannot be put or deleted at all.

        Raises:
            UploadsDisabledError: Robots cannot be put or deleted here.
            RobotNameError: No robot can have this name.
            ReadOnlyRobotError: A built-in robot has this name, served or not.
        """
        if not self._is_open:
            raise UploadsDisabledError("Robots cannot be put or deleted here; see the setting uploads_enabled.")
        if not ROBOT_NAME.fullmatch(name):
            raise RobotNameError(
                f"{name[:100]!r} cannot be a robot's name. Allowed: a lower-case letter, then lower-case letters, "
                "digits, '_' and '-', 64 characters at most."
            )
        served = self._served.get(name)
        if name in builtin_robot_names() or (served is not None and served.source == "built_in"):
            raise ReadOnlyRobotError(f"Robot '{name}' is built in and stays as it is. Take another name.")

    def is_current(self) -> bool:
        """Tell whether nobody has changed the folder since the last look, by one look at its time of change."""
        if self._store is None:
            return True
        try:
            changed_at = self._store.changed_at()
        except OSError:
            return False
        return changed_at is not None and changed_at == self._changed_at

    def refresh(self) -> None:
        """Take in what other processes have changed in the folder. Blocks for the disk and the parser."""
        if self._store is None or self.is_current():
            return
        try:
            while not self._taken_in(self._store):
                pass  # the snapshot has changed meanwhile, so that what was read may be older
        except OSError as error:
            _log.error("The folder of the catalog cannot be read: %s.", error.strerror)

    def _taken_in(self, store: RobotStore) -> bool:
        """Read what is new in the folder and swap it in; return whether the snapshot was still the same then."""
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

    def _swap(self, store: RobotStore, name: str, robot: ServedRobot | None) -> None:
        """Serve a robot whose file is in the folder, or no more one whose file is gone."""
        state = store.files().get(name)
        with self._lock:
            served, files = dict(self._served), dict(self._files)
            if robot is None or state is None:
                served.pop(name, None)
                files.pop(name, None)
            else:
                served[name], files[name] = robot, state
            self._files, self._version = files, self._version + 1
            self._set(served)

    def _read(self, store: RobotStore, files: Files) -> dict[str, ServedRobot]:
        """Read the robots whose files are new or others than before, and leave out those whose files are gone."""
        served = {name: robot for name, robot in self._served.items() if robot.source == "built_in"}
        for name, state in files.items():
            old, coming = self._served.get(name), self._coming
            if old is not None and old.source == "uploaded" and self._files.get(name) == state:
                served[name] = old
            elif name in served or name in builtin_robot_names():
                _log.error("Robot %s of the catalog is left out: a built-in robot has its name.", name)
            elif (text := store.text(name)) is not None:
                try:
                    is_coming = coming is not None and coming.urdf == text
                    served[name] = coming if is_coming and coming else ServedRobot(_parsed(text), "uploaded", text)
                except InputError as error:
                    _log.error("Robot %s of the catalog is left out, its file is not as it must be: %s", name, error)
        return served

    def _set(self, served: dict[str, ServedRobot]) -> None:
        self._served = MappingProxyType(served)
        self._models = MappingProxyType({name: robot.model for name, robot in served.items()})


@contextmanager
def _kept_in_folder() -> Iterator[None]:
    """Say of errors of the disk what they mean to who puts or deletes a robot."""
    try:
        yield
    except OSError as error:
        _log.error("The folder of the catalog cannot be written: %s.", error.strerror)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise CatalogStorageFullError(
                "The service's disk has no room for the robot. Nothing was changed."
            ) from error
        raise CatalogStorageError(
            "The service's disk did not take the change. The fault is logged on its side."
        ) from error


def _urdf_of(name: str, model: RobotModel) -> bytes | None:
    """The URDF of a model that came with the service, where it is the built-in one of that name."""
    if name not in builtin_robot_names():
        return None
    text = builtin_urdf(name)
    return text if load_urdf(text).content_hash == model.content_hash else None


def _parsed(text: bytes) -> RobotModel:
    try:
        return _bounded(load_urdf(text))
    except RobotFileError as error:
        if (error.element or "").startswith(("mujoco '", "<mujoco>")):
            raise MjcfRefusedError("This is MJCF. Put a URDF; MJCF is read from local files only.") from None
        raise


def _bounded(model: RobotModel) -> RobotModel:
    if model.active_dof_count > MAX_ACTIVE_DOFS:
        raise RobotFileError(
            f"The robot has {model.active_dof_count} active DOFs. Allowed: {MAX_ACTIVE_DOFS}; make joints fixed that "
            "are not to move."
        )
    return model
