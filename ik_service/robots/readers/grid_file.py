"""Files of distance grids: NumPy archives with ``values``, ``spacing`` and ``pose``."""

import zipfile
import zlib
from pathlib import Path

import numpy as np

from ik_service.collision.distance_grid import MAX_NODES, DistanceGrid
from ik_service.whole_file import write_whole
from objectives.errors import InputError

MAX_MEMBER_BYTES = 8 * MAX_NODES + 4096
"""Largest array of a file: all nodes in float64, and its header."""


def write_grid(grid: DistanceGrid, path: str | Path) -> None:
    """Write a grid into a file, whole or not at all."""
    write_whole(
        Path(path),
        lambda file: np.savez_compressed(file, values=grid.values, spacing=grid.spacing, pose=np.array(grid.pose)),
    )


def read_grid(path: str | Path) -> DistanceGrid:
    """Read a grid from a file.

    Raises:
        InputError: There is none, or it is no file of `write_grid`.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            largest = max((member.file_size for member in archive.infolist()), default=0)
        if largest > MAX_MEMBER_BYTES:
            raise ValueError(f"an array of {largest} bytes")
        with np.load(path, allow_pickle=False) as arrays:
            values, spacing, pose = arrays["values"], arrays["spacing"].item(), arrays["pose"]
    except OSError as error:
        raise InputError(f"Grid '{path}' cannot be read: {error.strerror or error}.") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError, ValueError) as error:
        raise InputError(f"Grid '{path}' is no archive with values, spacing and pose: {error}.") from None
    try:
        return DistanceGrid(values, spacing, pose)
    except InputError as error:
        raise InputError(f"Grid '{path}': {error}") from None
