"""The robots that are served: built-in ones, and those put at run time.

Readers get a snapshot and need no lock. A change makes a new snapshot; `refresh` makes one of changes by other
processes that share the folder. The lock protects the replacement of the snapshot alone and is not held while the
parser or the disk works. A request under way keeps the model that it has. Solvers are cached by the content of a model,
never by its name.
"""

import logging
import threading
from collections.abc import Mapping
from types import MappingProxyType

from ik_service.api.catalog.robot_store import ROBOT_NAME, Files, RobotStore, disk_errors
from ik_service.api.catalog.served_robot import Precondition, ServedRobot
from ik_service.api.catalog.uploaded_urdf import built_in_urdf, read_uploaded
from ik_service.api.errors.exceptions import (
    CatalogFullError,
    ReadOnlyRobotError,
    RobotNameError,
    UnknownRobotError,
    UploadsDisabledError,
)
from ik_service.robots import RobotModel, builtin_robot_names
from objectives.errors import InputError

_logger = logging.getLogger(__name__)


class RobotCatalog:
    """Robots by name.

    Args:
        models: Built-in robots, by name.
        store: Folder of robots put at run time; None: there are none.
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
        self._coming: ServedRobot | None = None  # its file is being written
        self._set({name: ServedRobot(model, "built_in", built_in_urdf(name, model)) for name, model in models.items()})
        self.refresh()

    @property
    def robots(self) -> Mapping[str, ServedRobot]:
        """All robots, built-in ones first."""
        return self._served

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
        """Return whether a robot of a name is served, by the current snapshot."""
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
        self._check_put(name, precondition)  # before the text is parsed
        robot = ServedRobot(read_uploaded(text), "uploaded", text)
        with disk_errors(), self._store.alone():
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
        with disk_errors(), self._store.alone():
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
        """Return whether the folder is unchanged since the last refresh, by its time of change."""
        if self._store is None:
            return True
        try:
            changed_at = self._store.changed_at()
        except OSError:
            return False
        return changed_at is not None and changed_at == self._changed_at

    def refresh(self) -> None:
        """Take over changes of the folder by other processes. Blocks for the disk and the parser."""
        if self._store is None or self.is_current():
            return
        try:
            while not self._read_changes(self._store):
                pass  # the snapshot changed meanwhile; what was read may be older
        except OSError as error:
            _logger.error("The folder of the catalog cannot be read: %s.", error.strerror)

    def _read_changes(self, store: RobotStore) -> bool:
        """Read changes of the folder into a new snapshot; return False where another was made meanwhile."""
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
        """Make a snapshot with a robot whose file was written, or without one whose file was deleted."""
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
        """Read the robots whose files are new or changed, and leave out those whose files are gone."""
        served = {name: robot for name, robot in self._served.items() if robot.source == "built_in"}
        for name, state in files.items():
            old, coming = self._served.get(name), self._coming
            if old is not None and old.source == "uploaded" and self._files.get(name) == state:
                served[name] = old
            elif name in served or name in builtin_robot_names():
                _logger.error("Robot %s of the catalog is left out: a built-in robot has its name.", name)
            elif (text := store.text(name)) is not None:
                try:
                    is_coming = coming is not None and coming.urdf == text
                    served[name] = (
                        coming if is_coming and coming else ServedRobot(read_uploaded(text), "uploaded", text)
                    )
                except InputError as error:
                    _logger.error("Robot %s of the catalog is left out, its file is not as it must be: %s", name, error)
        return served

    def _set(self, served: dict[str, ServedRobot]) -> None:
        self._served = MappingProxyType(served)
