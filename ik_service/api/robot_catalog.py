"""The robots that are served: those that came with the service, and those put at run time.

Readers get a snapshot and need no lock; changes make a new one, those by other processes that share the folder too. A
request under way keeps the model that it has, and solvers are told apart by the content of a model, never by its name.
"""

import hashlib
import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Literal

from ik_service.api.errors import (
    CatalogFullError,
    MjcfRefusedError,
    NoUrdfError,
    ReadOnlyRobotError,
    RobotNameError,
    StaleRobotError,
    UploadsDisabledError,
)
from ik_service.api.limits import MAX_ACTIVE_DOFS
from ik_service.api.problems import UnknownRobotError
from ik_service.api.robot_store import ROBOT_NAME, Files, RobotStore
from ik_service.errors import RobotFileError
from ik_service.robots import RobotModel, builtin_robot_names, builtin_urdf, load_urdf
from objectives.errors import InputError

Source = Literal["built_in", "uploaded"]

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
        self._set({name: ServedRobot(model, "built_in", _urdf_of(name, model)) for name, model in models.items()})
        self._look_again()

    @property
    def robots(self) -> Mapping[str, ServedRobot]:
        """All robots, those that came with the service first."""
        self._look_again()
        return self._served

    @property
    def models(self) -> Mapping[str, RobotModel]:
        """The models of all robots."""
        self._look_again()
        return self._models

    def robot(self, name: str) -> ServedRobot:
        """Return a robot.

        Raises:
            UnknownRobotError: None of that name is served; the message lists those there are.
        """
        self._look_again()
        return self._found(name)

    def _found(self, name: str) -> ServedRobot:
        found = self._served.get(name)
        if found is None:
            raise UnknownRobotError(f"Robot {name[:100]!r} is not served. Robots: {', '.join(self._served)}.")
        return found

    def urdf(self, name: str) -> bytes:
        """Return the URDF of a robot.

        Raises:
            UnknownRobotError: None of that name is served.
            NoUrdfError: It was not read from one.
        """
        urdf = self.robot(name).urdf
        if urdf is None:
            raise NoUrdfError(f"Robot '{name}' was not read from a URDF.")
        return urdf

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
        """
        self.require_changeable(name)
        assert self._store is not None  # the catalog is open
        with self._lock, self._store.alone():
            self._read_files(self._store)
            current = self._served.get(name)
            precondition.check(name, current)
            uploaded = sum(robot.source == "uploaded" for robot in self._served.values())
            if current is None and uploaded >= self._max_uploaded:
                raise CatalogFullError(f"{uploaded} robots have been put, which is the most allowed. Delete one first.")
            robot = ServedRobot(_parsed(text), "uploaded", text)
            self._store.write(name, text)
            self._set({**self._served, name: robot})
            self._files = self._store.files()
        return robot, current is None

    def delete(self, name: str, precondition: Precondition) -> None:
        """Delete a robot that was put. Blocks for the disk.

        Raises:
            UploadsDisabledError: Robots cannot be deleted here.
            RobotNameError: No robot can have this name.
            ReadOnlyRobotError: The robot is built in.
            UnknownRobotError: None of that name is served.
            StaleRobotError: The precondition does not hold.
        """
        self.require_changeable(name)
        assert self._store is not None  # the catalog is open
        with self._lock, self._store.alone():
            self._read_files(self._store)
            precondition.check(name, self._found(name))
            self._store.delete(name)
            self._set({other: robot for other, robot in self._served.items() if other != name})
            self._files = self._store.files()

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

    def _look_again(self) -> None:
        """Take in what other processes have changed in the folder; one look at its time where nothing has."""
        if self._store is None:
            return
        try:
            changed_at = self._store.changed_at()
            if changed_at is None or changed_at != self._changed_at:
                with self._lock:
                    self._read_files(self._store)
                    self._changed_at = changed_at
        except OSError as error:
            _log.error("The folder of the catalog cannot be read: %s.", error.strerror)

    def _read_files(self, store: RobotStore) -> None:
        """Read the robots whose files are new or others than before, and forget those whose files are gone."""
        files = store.files()
        if files == self._files:
            return
        served = {name: robot for name, robot in self._served.items() if robot.source == "built_in"}
        for name, state in files.items():
            old = self._served.get(name)
            if old is not None and old.source == "uploaded" and self._files.get(name) == state:
                served[name] = old
            elif name in served or name in builtin_robot_names():
                _log.error("Robot %s of the catalog is left out: a built-in robot has its name.", name)
            elif (text := store.text(name)) is not None:
                try:
                    served[name] = ServedRobot(_parsed(text), "uploaded", text)
                except InputError as error:
                    _log.error("Robot %s of the catalog is left out, its file is not as it must be: %s", name, error)
        self._files = files
        self._set(served)

    def _set(self, served: dict[str, ServedRobot]) -> None:
        self._served = MappingProxyType(served)
        self._models = MappingProxyType({name: robot.model for name, robot in served.items()})


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
