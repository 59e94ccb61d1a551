"""Collision models fitted to the shapes and meshes of a robot file, kept in a folder of the user.

shapes of the file -> solids of links -> key of robot, shapes and files of meshes -> kept file, or spheres fitted now
"""

import hashlib
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from ik_service.collision.covering import Solid
from ik_service.collision.link_pairs import pair_contacts
from ik_service.collision.shapes import LinkShapes
from ik_service.kernels.kernel_loading import announced
from ik_service.mechanism.collision_model import CollisionModel
from ik_service.mechanism.transforms import Float64Array
from ik_service.robots.model import RobotModel
from ik_service.robots.readers.mesh_file import find_mesh, read_mesh
from ik_service.robots.readers.mesh_solid import link_solid
from ik_service.robots.readers.sphere_file import SphereDocument, model_document, read_spheres
from ik_service.robots.readers.sphere_fit import fit_spheres
from ik_service.whole_file import write_whole
from objectives.errors import InputError

VERSION = 1  # of the fit: another one does not read files of this one
TRIED = 500  # random configurations in which a model is tried


def fitted_spheres(
    robot: RobotModel, shapes: Mapping[str, LinkShapes], robot_file: Path, packages: Sequence[Path] = ()
) -> SphereDocument:
    """Return spheres and pairs fitted to the shapes of a robot file: the kept ones, or new ones, which are kept.

    InputError if a shape is unreadable, there is none, or no tried configuration is free of contact.
    """
    kept = kept_file(robot, shapes, robot_file, packages)
    with suppress(OSError, InputError):
        document = read_spheres(kept.read_bytes())
        if document.pairs is not None and document.spheres.keys() <= set(robot.link_names):
            return document
    with announced(f"Fitting collision spheres to '{robot.name}'; later loads find them.", "Fitted"):
        solids = link_solids(shapes, robot_file, packages)
        model = fit_spheres(robot, solids, np.array([*named_configurations(robot).values()]))
        check_tried(robot, model)
    text = model_document(model, f"fitted to the collision shapes of {robot_file.name}").encode()
    with suppress(OSError):  # a home that cannot be written
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_whole(kept, lambda file: file.write(text))
    return read_spheres(text)


def check_tried(robot: RobotModel, model: CollisionModel) -> None:
    """Raise InputError, with the pairs in contact, if no random and no named configuration is free of contact."""
    drawn = robot.random_joint_q(np.random.default_rng(1), TRIED)
    tried = np.concatenate([drawn, [*named_configurations(robot).values()]])
    _, shares, is_free = pair_contacts(robot, model, tried)
    if not is_free.any():
        most = [" + ".join(model.pairs[k]) for k in np.argsort(-shares, kind="stable")[:3]]
        raise InputError(
            f"No configuration of '{robot.name}' that was tried is free of contact; most often in contact: "
            f"{', '.join(most)}. 'ik-service spheres --free Q1,Q2,...' leaves out pairs that do not touch in reality."
        )


def kept_file(robot: RobotModel, shapes: Mapping[str, LinkShapes], robot_file: Path, packages: Sequence[Path]) -> Path:
    """Return the place of a kept model, named by a digest of joints, shapes and meshes, in the user's cache folder."""
    digest = hashlib.sha256(repr((VERSION, robot.content_hash, dict(shapes))).encode())
    for address in sorted({mesh.filename for own in shapes.values() for mesh in own.meshes}):
        digest.update(find_mesh(address, robot_file, packages).read_bytes())
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "ik_service" / "spheres" / f"{digest.hexdigest()[:32]}.json"


def named_configurations(robot: RobotModel) -> dict[str, Float64Array]:
    """Return zero, or as near to zero as the limits allow, and the middle of the limits."""
    zero = np.zeros(robot.joint_coord_count)
    zero[[start + 3 for start in robot.quaternion_starts.values()]] = 1.0
    return {"zero": robot.clamp_joint_q(zero)[0], "middle": robot.mid_joint_q}


def link_solids(shapes: Mapping[str, LinkShapes], robot_file: Path, packages: Sequence[Path] = ()) -> dict[str, Solid]:
    """Return the solids of all links with shapes; InputError if a shape is unreadable, or there is none."""
    found = {}
    for link, own in shapes.items():
        if len(own.unread) > len(own.meshes):
            kinds = ", ".join(sorted({*own.unread} - {"mesh"})) or "mesh"
            raise InputError(f"Link '{link}' has shapes that cannot be read: {kinds}.")
        meshes = [read_mesh(mesh, robot_file, packages) for mesh in own.meshes]
        if own.shapes or meshes:
            found[link] = link_solid(own.shapes, meshes)
    if not found:
        raise InputError(f"Robot file '{robot_file}' has no collision shapes.")
    return found
