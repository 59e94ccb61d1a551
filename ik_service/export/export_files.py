"""Files of an export, in memory until written."""

from dataclasses import dataclass
from pathlib import Path

from ik_service.export.objects import KernelObject
from ik_service.export.structs import CLayout
from objectives import InputError


@dataclass(frozen=True)
class Export:
    """The files of an export.

    Attributes:
        prefix: Prefix of all names.
        objects: Objects with the kernels.
        layout: Structs in the source.
        files: All files by name.
    """

    prefix: str
    objects: tuple[KernelObject, ...]
    layout: CLayout
    files: dict[str, bytes]

    def __repr__(self) -> str:
        """Give prefix, number and size of the files, without their contents."""
        return f"<Export '{self.prefix}': {len(self.files)} files, {sum(map(len, self.files.values()))} bytes>"

    def write(self, folder: Path) -> None:
        """Write the files into a folder, made if missing.

        Raises:
            InputError: The files cannot be written.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for name, content in self.files.items():
                (folder / name).write_bytes(content)
        except OSError as error:
            raise InputError(f"Cannot write to '{folder}': {error.strerror}.") from error
