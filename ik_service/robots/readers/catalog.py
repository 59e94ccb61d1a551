"""Robots by name or by file: the built-in robots, and URDF and MJCF files of the caller."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from ik_service.collision.shapes import LinkShapes
from ik_service.errors import RobotFileError
from ik_service.mechanism.collision_model import CollisionModel
from ik_service.mechanism.names import unknown_name
from ik_service.robots.model import RobotModel
from ik_service.robots.readers.assembly import build_model
from ik_service.robots.readers.constraint_file import read_beside, read_closures_beside, read_constraints
from ik_service.robots.readers.description import RobotDescription
from ik_service.robots.readers.groups import SrdfDocument, group_of, read_srdf, read_srdf_file
from ik_service.robots.readers.read_model import read_collision_model, why_no_spheres
from ik_service.robots.readers.ros_packages import expand_xacro
from ik_service.robots.readers.sphere_file import SphereDocument, read_sphere_file, read_spheres_beside
from ik_service.robots.readers.urdf import read_urdf
from ik_service.robots.readers.xml_reader import MAX_BYTES, is_xml_text, outermost_tag
from objectives.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable  # Python 3.11

Constraints = Literal["read", "ignore"]
TextCollision = Literal["read", "shapes", "ignore"]  # texts may be from anybody: no mesh is opened
Collision = Literal["read", "shapes", "spheres", "ignore"]
MJCF_SUFFIXES = (".xml", ".mjcf")
FILES_OF_SPHERES = (".json", ".yaml", ".yml")
_BUILTIN = files("ik_service.robots") / "builtin"


@cache
def builtin_robot_names() -> tuple[str, ...]:
    """Give the names of the built-in robots, sorted."""
    return tuple(sorted(item.name.removesuffix(".urdf") for item in _BUILTIN.iterdir() if item.name.endswith(".urdf")))


def builtin_urdf(name: str) -> bytes:
    """Give the URDF of a built-in robot; UnknownNameError if there is no robot of this name."""
    if name not in builtin_robot_names():
        opening = f"Robot '{name}' is not built in."
        raise UnknownNameError(unknown_name(opening, "Built-in robot", builtin_robot_names(), name))
    return (_BUILTIN / f"{name}.urdf").read_bytes()


def load_robot(
    source: "str | PathLike[str] | Any",
    *,
    base: str | None = None,
    tip: str | None = None,
    locked: Mapping[str, float | Sequence[float]] | None = None,
    active: Sequence[str] | None = None,
    group: str | None = None,
    srdf: "str | PathLike[str] | None" = None,
    floating_base: bool = False,
    constraints: Constraints = "read",
    collision: "Collision | str | PathLike[str]" = "read",
    xacro_arguments: Mapping[str, str] | None = None,
    package_dirs: "Sequence[str | PathLike[str]]" = (),
) -> RobotModel:
    """Load a robot.

    Loop closures are read from the equalities of an MJCF file, from a URDF, and from ``NAME.constraints.yaml``,
    ``NAME.constraints.json`` or ``loop_closures.yaml`` beside the robot file. Bad constraints never prevent loading:
    ``robot.warnings`` names the constraints left out.

    The collision model is read from ``NAME.collision.json`` or ``.yaml`` beside the robot file, or made of collision
    shapes if all are spheres, capsules, cylinders or boxes. ``NAME.srdf`` beside the robot file names joint groups and
    pairs of links excluded from collision checks.

    Args:
        source: A built-in name; the path of a URDF (``.urdf``), xacro (``.xacro``) or MJCF (``.xml``, ``.mjcf``) file;
            the text of a URDF or MJCF, such as the parameter ``robot_description`` of a ROS system; a
            ``mujoco.MjModel``; or a ``newton.Model`` of one world. A text or a model has no files beside it. MJCF and
            xacro are for trusted sources: both may open files, and xacro evaluates expressions.
        base: Link that becomes the fixed base, its frame the world frame; None keeps the root. See ``subrobot``.
        tip: Link at which the robot ends: only the joints between base and tip are kept; None keeps all branches.
        locked: Joints to lock, with their coordinates [m or rad]. A start given to a solve overrides these coordinates,
            per problem; see ``RobotModel.lock``.
        active: Joints that may move; all other joints are locked at ``locked``, or else at mid-range.
        group: Joint group of the SRDF document: its joints may move, all others are locked as with ``active``.
            ``load_groups`` gives its tips and states.
        srdf: Path or text of an SRDF document, such as ``robot_description_semantic`` of a ROS system; None reads
            ``NAME.srdf`` beside the robot file.
        floating_base: Let the root link float: a joint ``floating_base`` under a new link ``world``.
        constraints: "read" or "ignore".
        xacro_arguments: Values of the arguments of a xacro file, by name.
        package_dirs: Packages, or folders of packages, for ``$(find NAME)`` of a xacro file; searched before the
            folders above the file, ROS_PACKAGE_PATH and AMENT_PREFIX_PATH. Also for meshes with collision="spheres".
        collision: "read" the collision model; the path of a collision file (``.json``, ``.yaml`` or ``.yml``) that
            replaces the file beside the robot; "shapes" covers collision shapes by spheres if there is no collision
            file (slow); "spheres" fits about 12 spheres a link to shapes and meshes if there is no collision file, and
            keeps the model in the cache folder of the user; "ignore" gives no collision model.

    Raises:
        UnknownNameError: There is no such built-in robot, file, link, joint or group.
        RobotFileError: The robot file, the SRDF document or the collision file is invalid.
        InputError: The tip is not below the base, a locked value is invalid, a joint is both locked and active,
            ``group`` is given with ``active``, ``base`` or ``tip`` or without an SRDF document, ``constraints`` or
            ``collision`` is not an allowed word, ``xacro_arguments`` are given without a xacro file, or the package
            for MJCF, xacro or meshes is not installed; with "spheres", a mesh is missing or no tried configuration is
            free of contact.
    """
    if group is not None and not (active is None and base is None and tip is None):
        raise InputError("group cannot be given together with active, base or tip.")
    fits = collision == "spheres"
    described = () if fits and xacro_arguments is None and not _is_xacro(source) else package_dirs
    description = _describe(source, _reads(constraints), xacro_arguments, described)
    spheres = _sphere_document(source, collision)
    robot = build_model(description, floating_base=floating_base)
    document = _srdf_document(source, srdf) if collision != "ignore" or group is not None else None
    if collision != "ignore":
        shapes = {link.name: link.shapes for link in description.links if collision == "shapes"}
        pairs = () if document is None else document.disabled_pairs
        if fits and spheres is None:
            spheres = _fitted(robot, description, source, package_dirs)
        model = read_collision_model(robot, shapes, spheres, pairs)
        robot = _with_model(robot, model, shapes if collision == "shapes" else None)
    if group is not None:
        if document is None:
            raise InputError(f"group is {group!r}, but there is no SRDF document: give srdf, its path or text.")
        active = group_of(document, robot, group).joints
    if both := sorted({*(locked or ())} & {*(active or ())}):
        raise InputError(f"Joint '{both[0]}' stands in 'locked' and in 'active'; it can be in one of them.")
    if base is not None or tip is not None:
        ends = None if tip is None else [tip]
        robot = robot.subrobot(robot.link_names[0] if base is None else base, ends, ends)
    if locked:
        robot = robot.lock(locked)
    return robot if active is None else robot.activate(active)


def _fitted(
    robot: RobotModel, description: RobotDescription, source: Any, package_dirs: "Sequence[str | PathLike[str]]"
) -> SphereDocument:
    """Give the spheres fitted to the shapes of a robot file, or the kept ones of an earlier fit."""
    from ik_service.robots.readers.fitted_spheres import fitted_spheres  # Warp measures distances from meshes

    file = Path("robot") if is_xml_text(source) or not isinstance(source, str | PathLike) else Path(source)
    shapes = {link.name: link.shapes for link in description.links}
    return fitted_spheres(robot, shapes, file, [*map(Path, package_dirs)])


def _with_model(robot: RobotModel, model: CollisionModel | None, shapes: Mapping[str, LinkShapes] | None) -> RobotModel:
    """Give the robot with a collision model, or with a warning if its shapes give no model."""
    if model is None and shapes is not None:
        return replace(robot, warnings=(*robot.warnings, why_no_spheres(shapes)))
    return robot.with_collision_model(model)


def link_shapes(source: str | PathLike[str]) -> Mapping[str, LinkShapes]:
    """Give the collision shapes in a robot file, by link; sources as in ``load_robot``."""
    return {link.name: link.shapes for link in _describe(source, reads_them=False).links}


def load_urdf(
    text: bytes | str,
    constraint_text: bytes | str | None = None,
    *,
    floating_base: bool = False,
    constraints: Constraints = "read",
    collision: TextCollision = "read",
) -> RobotModel:
    """Load a robot from the text of a URDF (bytes: UTF-8); safe on untrusted text. Options as for ``load_robot``.

    ``constraint_text`` is the content of a constraint file. A text has no collision file, so only "shapes" gives a
    collision model.

    Raises:
        RobotFileError: The text is not a valid robot.
        InputError: ``constraints`` or ``collision`` is not an allowed word.
    """
    reads = _reads(constraints)
    _check_word("collision", collision, get_args(TextCollision))
    data = text.encode("utf-8", errors="surrogatepass") if isinstance(text, str) else text
    description = read_urdf(data, reads_constraints=reads)
    if reads and constraint_text is not None:
        description = description.with_constraints(read_constraints(constraint_text, "constraints"))
    robot = build_model(description, floating_base=floating_base)
    if collision != "shapes":
        return robot
    shapes = {link.name: link.shapes for link in description.links}
    return _with_model(robot, read_collision_model(robot, shapes), shapes)


def _reads(constraints: str) -> bool:
    _check_word("constraints", constraints, get_args(Constraints))
    return constraints == "read"


def _check_word(name: str, value: str, words: Sequence[str]) -> None:
    if value not in words:
        raise InputError(f"{name} is {value!r}. Allowed: {', '.join(map(repr, words))}.")


def _sphere_document(source: Any, collision: "str | PathLike[str]") -> SphereDocument | None:
    """Read the given file of spheres, or the file beside the robot file; None if no file is read."""
    if isinstance(collision, PathLike) or (isinstance(collision, str) and collision.endswith(FILES_OF_SPHERES)):
        path = Path(collision)
        if not path.is_file():
            raise UnknownNameError(f"There is no file '{path}', which collision names.")
        return read_sphere_file(path)
    _check_word("collision", collision, get_args(Collision))
    place = _place(source) if collision != "ignore" else None
    return None if place is None else read_spheres_beside(*place)


def _srdf_document(source: Any, srdf: "str | PathLike[str] | None") -> SrdfDocument | None:
    """Read the given SRDF document, or the document beside the robot file; None if there is none."""
    if srdf is not None:
        return read_srdf_file(srdf)
    place = _place(source)
    path = None if place is None else place[0] / f"{place[1]}.srdf"
    return read_srdf(path.read_bytes()) if path is not None and path.is_file() else None


def _place(source: Any) -> "tuple[Traversable, str] | None":
    """Give the folder of a robot file and the stem of the files beside it; None for texts and models."""
    if is_xml_text(source) or not isinstance(source, str | PathLike):
        return None
    if isinstance(source, str) and source in builtin_robot_names():
        return _BUILTIN, source
    return Path(source).parent, _stem(Path(source))


def _stem(path: Path) -> str:
    """Give the stem of the files beside a robot file: ``arm`` for ``arm.urdf`` and ``arm.urdf.xacro``."""
    return path.stem.removesuffix(".urdf") if path.suffix.lower() == ".xacro" else path.stem


def _is_xacro(source: Any) -> bool:
    return not is_xml_text(source) and isinstance(source, str | PathLike) and Path(source).suffix.lower() == ".xacro"


def _describe(
    source: Any,
    reads_them: bool,
    xacro_arguments: Mapping[str, str] | None = None,
    package_dirs: "Sequence[str | PathLike[str]]" = (),
) -> RobotDescription:
    is_xacro = _is_xacro(source)
    if (xacro_arguments is not None or package_dirs) and not is_xacro:
        raise InputError("xacro_arguments and package_dirs are for the path of a .xacro file.")
    if is_xml_text(source):
        data = source.encode("utf-8", errors="surrogatepass")
        if outermost_tag(data) != "mujoco":
            return read_urdf(data, reads_constraints=reads_them)
        from ik_service.robots.readers.mjcf import read_mjcf_text

        return read_mjcf_text(source, reads_constraints=reads_them)
    if not isinstance(source, str | PathLike):
        return _describe_model(source, reads_them)
    if isinstance(source, str) and source in builtin_robot_names():
        description = read_urdf(builtin_urdf(source), reads_constraints=reads_them)
        return description.with_constraints(read_beside(_BUILTIN, source)) if reads_them else description
    path = Path(source)
    if path.suffix.lower() not in (".urdf", ".xacro", *MJCF_SUFFIXES):
        opening = f"Robot '{source}' is neither built in nor the path of a .urdf, .xacro, .xml or .mjcf file."
        raise UnknownNameError(unknown_name(opening, "Built-in robot", builtin_robot_names(), source))
    if path.suffix.lower() in MJCF_SUFFIXES:
        from ik_service.robots.readers.mjcf import read_mjcf  # the mujoco package is optional

        return read_mjcf(path, reads_constraints=reads_them)
    data = _bytes_of(path)  # reports errors of the file itself
    if is_xacro:
        data = expand_xacro(path, xacro_arguments or {}, [*map(Path, package_dirs)])
    description = read_urdf(data, reads_constraints=reads_them)
    if not reads_them:
        return description
    beside = read_beside(path.parent, _stem(path))
    return description.with_constraints(beside.joined(read_closures_beside(path.absolute().parent)))


def _describe_model(source: Any, reads_them: bool) -> RobotDescription:
    library = type(source).__module__.partition(".")[0]
    if library == "mujoco":
        from ik_service.robots.readers.mjcf import read_mjmodel

        return read_mjmodel(source, reads_constraints=reads_them)
    if library == "newton" and hasattr(source, "joint_X_p"):
        from ik_service.robots.readers.newton_model import read_newton_model

        return read_newton_model(source)
    allowed = "a built-in name, a path, the text of a URDF or MJCF file, a mujoco.MjModel or a newton.Model"
    raise InputError(f"Robot is of type {type(source).__name__}. Allowed: {allowed}.")


def _bytes_of(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise UnknownNameError(f"Robot file '{path}' does not exist.") from None
    except OSError as error:
        raise RobotFileError(f"robot file '{path}' cannot be read: {error.strerror}.") from None
