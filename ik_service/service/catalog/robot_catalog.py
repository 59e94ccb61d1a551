"""Catalog of robots: built in, or uploaded as URDF at run time."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ik_service.robots import RobotModel, builtin_robot_names
from ik_service.robots.readers.xml_reader import MAX_BYTES
from ik_service.service.catalog.catalog import Catalog
from ik_service.service.catalog.entries import ServedRobot
from ik_service.service.catalog.uploaded_urdf import built_in_urdf, read_uploaded
from ik_service.service.errors.exceptions import RobotNameError, UnknownRobotError


class RobotCatalog(Catalog[ServedRobot]):
    """Robots by name; see `Catalog`.

    Args:
        models: Built-in robots, by name.
        folder: Folder of uploaded robots; None: no robot can be uploaded.
        max_uploaded: Largest number of uploaded robots.
        uploaders: Number of API keys with the right to put and delete robots.
    """

    noun, most_bytes, reserved = "robot", MAX_BYTES, builtin_robot_names()
    unknown_error, name_error = UnknownRobotError, RobotNameError

    def __init__(
        self,
        models: Mapping[str, RobotModel],
        folder: Path | None = None,
        *,
        max_uploaded: int = 64,
        uploaders: int = 0,
    ) -> None:
        built_in = {name: ServedRobot(built_in_urdf(name, model), model, "built_in") for name, model in models.items()}
        super().__init__(built_in, folder, max_uploaded=max_uploaded, uploaders=uploaders)

    def _entry_of(self, name: str, text: bytes) -> ServedRobot:
        return ServedRobot(text, replace(read_uploaded(text), name=name), "uploaded")  # the name in the URL
