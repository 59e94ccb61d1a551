"""Mesh files of a URDF: their paths, and their triangles read by trimesh."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import numpy as np
from numpy.typing import NDArray

from ik_service.collision.shapes import MeshReference
from ik_service.errors import RobotFileError
from ik_service.extras import how_to_install
from ik_service.mechanism.transforms import Float64Array, quaternion_rotate
from ik_service.robots.readers.ros_packages import package_folders
from objectives.errors import InputError

MAX_FACES = 1_000_000  # most triangles of a mesh


class Mesh(NamedTuple):
    """Triangles in the frame of a link."""

    vertices: Float64Array  # [m], shape [vertices, 3]
    faces: NDArray[np.int32]  # numbers of vertices, shape [faces, 3]


def read_mesh(reference: MeshReference, robot_file: Path, packages: Sequence[Path] = ()) -> Mesh:
    """Read a mesh of a robot file (see `find_mesh`); RobotFileError if unreadable, InputError without trimesh."""
    path = find_mesh(reference.filename, robot_file, packages)
    try:
        import trimesh
    except ImportError:
        raise InputError(f"Meshes are read by trimesh. {how_to_install('meshes')}") from None
    try:
        loaded: Any = trimesh.load_mesh(path)
    except Exception as error:  # noqa: BLE001  # readers of many formats raise anything for a file that is none
        if "pip install" in str(error):  # trimesh lacks the reader of this format
            raise InputError(f"Mesh '{path}' needs a further package. {how_to_install('meshes')}") from None
        raise RobotFileError(f"mesh '{path}' cannot be read: {error}.") from None
    vertices, faces = np.asarray(loaded.vertices, dtype=np.float64), np.asarray(loaded.faces, dtype=np.int32)
    if not 0 < len(faces) <= MAX_FACES or not np.isfinite(vertices).all():
        raise RobotFileError(f"mesh '{path}' has {len(faces)} triangles. Allowed: 1 to {MAX_FACES}, of finite numbers.")
    corners = vertices[faces] - vertices.mean(axis=0)
    is_inward = bool(loaded.is_watertight) and np.linalg.det(corners).sum() < 0.0  # six times the volume
    if is_inward != (np.prod(reference.scale) < 0.0):  # inside out, by the file or mirrored
        faces = np.ascontiguousarray(faces[:, ::-1])
    pose = np.array(reference.pose)
    return Mesh(pose[:3] + quaternion_rotate(pose[3:], vertices * np.array(reference.scale)), faces)


def find_mesh(address: str, robot_file: Path, packages: Sequence[Path] = ()) -> Path:
    """Give the file of an address in a URDF: ``package://NAME/PATH``, ``file://PATH`` or relative; RobotFileError."""
    around = robot_file.absolute()
    parts = urlsplit(address)
    if parts.scheme == "package":
        inside = unquote(parts.path).lstrip("/")
        places = [folder / inside for folder in package_folders(parts.netloc, around, packages)]
    elif parts.scheme == "file":
        places = [Path(unquote(parts.path))]
    else:
        places = [around.parent / address]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        hint = " Name the folder that has the package (--package-dir)." if parts.scheme == "package" else ""
        raise RobotFileError(f"mesh '{address}' is not there.{hint}")
    return found
