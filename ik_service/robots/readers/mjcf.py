"""MJCF into a robot description, through the optional ``mujoco`` package.

MuJoCo compiles the file (defaults, includes, angles); the description is read from the compiled model. Bodies and sites
become links under the link ``world``. A body with several joints, or with a joint away from its origin, gets links in
between. Coordinates equal MuJoCo's ``qpos``, except that quaternions are xyzw. MuJoCo opens all files that an MJCF
refers to: only for trusted local files, never for uploads.
"""

import copy
import io
import math
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError, iterparse

import numpy as np

from ik_service.collision.shapes import BoundedShape, Box, Capsule, Cylinder, LinkShapes, Sphere
from ik_service.errors import RobotFileError
from ik_service.extras import how_to_install
from ik_service.mechanism.joint_type import JointType
from ik_service.mechanism.transforms import (
    UNBOUNDED,
    UNBOUNDED_RATE,
    Float64Array,
    identity_transform,
    quaternion_from_axis_angle,
    transform_multiply,
)
from ik_service.robots.readers.description import (
    JointDescription,
    LinkDescription,
    MimicDescription,
    ReadConstraints,
    RobotDescription,
    free_name,
)
from ik_service.robots.readers.mjcf_equalities import MjcfEqualities
from ik_service.robots.readers.xml_reader import shortened, with_declaration_passed_over
from objectives.errors import InputError, UnknownNameError


def read_body_shapes(mujoco: Any, model: Any, body: int) -> LinkShapes:
    """Give the shapes of a body with a contact type or affinity."""
    shapes: list[BoundedShape] = []
    unread: list[str] = []
    first, count = int(model.body_geomadr[body]), int(model.body_geomnum[body])
    for geom in range(first, first + count) if body > 0 else ():
        if not (model.geom_contype[geom] or model.geom_conaffinity[geom]):
            continue
        shape = _shape(mujoco.mjtGeom, model, geom)
        if shape is None:
            unread.append(mujoco.mjtGeom(int(model.geom_type[geom])).name.removeprefix("mjGEOM_").lower())
        else:
            shapes.append(shape)
    return LinkShapes(tuple(shapes), tuple(unread))


def _shape(kinds: Any, model: Any, geom: int) -> BoundedShape | None:
    a, b, c = map(float, model.geom_size[geom])
    w, x, y, z = map(float, model.geom_quat[geom])
    position = tuple(map(float, model.geom_pos[geom]))
    pose = (*position, x, y, z, w)
    kind = int(model.geom_type[geom])
    if kind == kinds.mjGEOM_SPHERE:
        return Sphere(a, position)
    if kind == kinds.mjGEOM_CAPSULE:
        return Capsule(a, 2.0 * b, pose)
    if kind == kinds.mjGEOM_CYLINDER:
        return Cylinder(a, 2.0 * b, pose)
    return Box((2.0 * a, 2.0 * b, 2.0 * c), pose) if kind == kinds.mjGEOM_BOX else None


def read_mjcf(path: Path, *, reads_constraints: bool = True) -> RobotDescription:
    """Read an MJCF file with its includes; InputError without ``mujoco``, or the error of an unreadable file."""
    mujoco = _mujoco()
    if not path.is_file():
        raise UnknownNameError(f"Robot file '{path}' does not exist.")
    _check_root(path)
    try:
        model = mujoco.MjModel.from_xml_path(str(path))
    except ValueError as error:
        raise RobotFileError(f"MuJoCo cannot compile '{path.name}': {error}") from None
    return _Conversion(mujoco, model, path.stem, reads_constraints=reads_constraints).description()


def read_mjcf_text(text: str, *, reads_constraints: bool = True) -> RobotDescription:
    """Read the text of an MJCF file, as `read_mjcf` does; MuJoCo resolves paths in the text."""
    mujoco = _mujoco()
    try:
        model = mujoco.MjModel.from_xml_string(text)
    except ValueError as error:
        raise RobotFileError(f"MuJoCo cannot compile the text: {error}") from None
    return _Conversion(mujoco, model, "mjcf", reads_constraints=reads_constraints).description()


def read_mjmodel(model: Any, *, reads_constraints: bool = True) -> RobotDescription:
    """Read a compiled MuJoCo model without changing the model."""
    return _Conversion(_mujoco(), copy.copy(model), "mujoco", reads_constraints=reads_constraints).description()


def _mujoco() -> Any:
    try:
        import mujoco
    except ImportError:
        raise InputError(f"MJCF files are read through MuJoCo. {how_to_install('mujoco')}") from None
    return mujoco


def _check_root(path: Path) -> None:
    """Refuse a URDF: MuJoCo compiles a URDF, too, but drops welded links."""
    try:
        data = with_declaration_passed_over(path.read_bytes())
        _, root = next(iterparse(io.BytesIO(data), events=("start",)))
    except (ParseError, StopIteration) as error:
        raise RobotFileError(f"'{path.name}' is not well-formed XML: {error}") from None
    if root.tag != "mujoco":
        raise RobotFileError(
            "the outermost element must be <mujoco>; the name of a URDF must end in .urdf.",
            element=f"<{shortened(root.tag)}>",
        )


class _Conversion:
    def __init__(self, mujoco: Any, model: Any, name: str, *, reads_constraints: bool) -> None:
        if not reads_constraints:
            model.eq_active0[:] = 0
        self._mujoco, self._model, self._name = mujoco, model, name
        self._joint_names = self._unique_names("joint", model.njnt, set())
        self._link_names: set[str] = set()
        self._body_names = self._unique_names("body", model.nbody, self._link_names)
        self._links: list[str] = []
        self._joints: list[JointDescription] = []
        self._equalities = MjcfEqualities(mujoco, model)
        self._warnings: list[str] = []

    def description(self) -> RobotDescription:
        self._links.append(self._body_names[0])
        for body in range(1, self._model.nbody):
            self._add_body(body)
        loops = self._equalities.loops(self._body_names, self._add_sites())
        coordinates = self._equalities.coordinates(self._joint_names)
        return RobotDescription(
            self._name,
            tuple(map(self._describe_link, self._links)),
            tuple(self._joints),
            ReadConstraints(loops, (*self._warnings, *self._equalities.warnings), coordinates=coordinates),
        )

    def _describe_link(self, name: str) -> LinkDescription:
        """Give a link with the mass of its body; sites, and links between joints of a body, have no mass."""
        if name not in self._body_names:
            return LinkDescription(name)
        body = self._body_names.index(name)
        x, y, z = map(float, self._model.body_ipos[body])
        shapes = read_body_shapes(self._mujoco, self._model, body)
        return LinkDescription(name, mass=float(self._model.body_mass[body]), com=(x, y, z), shapes=shapes)

    def _unique_names(self, kind: str, count: int, taken: set[str]) -> list[str]:
        """Name every object: its own name, a repeated name with a suffix, or its kind and number."""
        names = []
        for index in range(count):
            name = getattr(self._model, kind)(index).name or f"{kind}_{index}"
            while name in taken:
                name = f"{name}_{kind}"
            taken.add(name)
            names.append(name)
        return names

    def _add_body(self, body: int) -> None:
        """Add a body as a chain: one joint per MuJoCo joint at its anchor, and a weld from the last anchor back."""
        model = self._model
        parent, name = self._body_names[model.body_parentid[body]], self._body_names[body]
        X = _transform(model.body_pos[body], model.body_quat[body])
        first, count = int(model.body_jntadr[body]), int(model.body_jntnum[body])
        kinds = self._mujoco.mjtJoint
        for joint in range(first, first + count):
            anchor = model.jnt_pos[joint].astype(np.float64)
            ends_here = joint == first + count - 1 and not anchor.any()
            child = name if ends_here else self._new_link(f"{name}/{self._joint_names[joint]}")
            if kinds(int(model.jnt_type[joint])) == kinds.mjJNT_FREE:
                X = identity_transform()  # its coordinates are the pose itself, not a displacement from it
            X = transform_multiply(X, _translation(anchor))
            self._joints.append(self._describe_joint(joint, parent, child, X))
            parent, X = child, _translation(-anchor)
        if parent != name:
            self._joints.append(JointDescription(f"{name}/weld", JointType.FIXED, parent, name, X_parent=X))
        self._links.append(name)

    def _new_link(self, name: str) -> str:
        name = free_name(name, self._link_names)
        self._link_names.add(name)
        self._links.append(name)
        return name

    def _describe_joint(self, joint: int, parent: str, child: str, X: Float64Array) -> JointDescription:
        model, name = self._model, self._joint_names[joint]
        kinds = self._mujoco.mjtJoint
        joint_type = {
            kinds.mjJNT_FREE: JointType.FLOATING,
            kinds.mjJNT_BALL: JointType.BALL,
            kinds.mjJNT_SLIDE: JointType.PRISMATIC,
            kinds.mjJNT_HINGE: JointType.REVOLUTE if model.jnt_limited[joint] else JointType.CONTINUOUS,
        }[kinds(int(model.jnt_type[joint]))]
        if joint_type is JointType.BALL and model.jnt_limited[joint]:
            self._warnings.append(f"Joint '{name}' turns without limits: the range of a ball joint is not kept.")
        if not joint_type.is_scalar:
            return JointDescription(name, joint_type, parent, child, X_parent=X)
        axis = model.jnt_axis[joint].astype(np.float64)
        reference = float(model.qpos0[model.jnt_qposadr[joint]])
        start = _translation(-reference * axis)
        if joint_type is not JointType.PRISMATIC:
            start = np.concatenate([np.zeros(3), quaternion_from_axis_angle(axis, -reference)])
        lower, upper = map(float, model.jnt_range[joint]) if model.jnt_limited[joint] else (-math.inf, math.inf)
        lower, upper = (-math.inf if lower <= -UNBOUNDED else lower), (math.inf if upper >= UNBOUNDED else upper)
        effort = float(model.jnt_actfrcrange[joint].max()) if model.jnt_actfrclimited[joint] else math.inf
        effort = effort if effort < UNBOUNDED_RATE else math.inf
        couplings = self._equalities.couplings
        own = couplings.following.get(joint)
        return JointDescription(
            name=name,
            joint_type=joint_type,
            parent=parent,
            child=child,
            X_parent=transform_multiply(X, start),
            axis=(float(axis[0]), float(axis[1]), float(axis[2])),
            lower=lower,
            upper=upper,
            effort=effort,
            mimic=None if own is None else MimicDescription(self._joint_names[own.leader], own.multiplier, own.offset),
            locked_value=couplings.held.get(joint),
        )

    def _add_sites(self) -> list[str]:
        model, names = self._model, self._unique_names("site", self._model.nsite, self._link_names)
        for site, name in enumerate(names):
            body = self._body_names[model.site_bodyid[site]]
            X = _transform(model.site_pos[site], model.site_quat[site])
            self._joints.append(JointDescription(f"{name}/site", JointType.FIXED, body, name, X_parent=X))
            self._links.append(name)
        return names


def _transform(position: Float64Array, quaternion_wxyz: Float64Array) -> Float64Array:
    return np.concatenate([position, np.roll(quaternion_wxyz, -1)]).astype(np.float64)


def _translation(position: Float64Array) -> Float64Array:
    return np.concatenate([position, identity_transform()[3:]])
