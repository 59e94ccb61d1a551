"""The files of an export, in memory until they are written."""

from dataclasses import dataclass
from pathlib import Path

from ik_service.export.objects import KernelObject
from ik_service.export.structs import CLayout
from objectives import InputError


@dataclass(frozen=True)
class Export:
    """The files of an export.

    Attributes:
        prefix: What all names begin with.
        objects: The objects.
        layout: The structs in the source.
        files: All files by their names.
    """

    prefix: str
    objects: tuple[KernelObject, ...]
    layout: CLayout
    files: dict[str, bytes]

    def __repr__(self) -> str:
        """Give the prefix, and the number and size of the files; their contents are long."""
        return f"<Export '{self.prefix}': {len(self.files)} files, {sum(map(len, self.files.values()))} bytes>"

    def write(self, folder: Path) -> None:
        """Write the files.

        Args:
            folder: Where to; made if it is not there.

        Raises:
            InputError: They cannot be written.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for name, content in self.files.items():
                (folder / name).write_bytes(content)
        except OSError as error:
            raise InputError(f"Cannot write to '{folder}': {error.strerror}.") from error
