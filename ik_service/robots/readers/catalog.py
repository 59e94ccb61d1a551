"""Robots by name or by file: the built-in ones, and URDF and MJCF files of the caller."""

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
from ik_service.robots.readers.document import SrdfDocument, read_srdf, read_srdf_file
from ik_service.robots.readers.groups import group_of
from ik_service.robots.readers.read_model import read_collision_model, why_no_spheres
from ik_service.robots.readers.ros_packages import expand_xacro
from ik_service.robots.readers.sphere_file import SphereDocument, read_sphere_file, read_spheres_beside
from ik_service.robots.readers.urdf import read_urdf
from ik_service.robots.readers.xml_reader import MAX_BYTES, is_xml_text, outermost_tag
from objectives.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable  # Python 3.11

Constraints = Literal["read", "ignore"]
Collision = Literal["read", "shapes", "ignore"]
MJCF_SUFFIXES = (".xml", ".mjcf")
FILES_OF_SPHERES = (".json", ".yaml", ".yml")
_BUILTIN = files("ik_service.robots") / "builtin"


@cache
def builtin_robot_names() -> tuple[str, ...]:
    """Give the names of the robots that come with the package, sorted."""
    return tuple(sorted(item.name.removesuffix(".urdf") for item in _BUILTIN.iterdir() if item.name.endswith(".urdf")))


def builtin_urdf(name: str) -> bytes:
    """Give the URDF of a robot that comes with the package.

    Raises:
        UnknownNameError: There is no such built-in robot.
    """
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

    Loops that it closes are read from an MJCF file's equalities, from a URDF that names some, and from
    ``NAME.constraints.yaml``, ``NAME.constraints.json`` or ``loop_closures.yaml`` beside it. A robot is read whatever
    its constraints are: ``robot.warnings`` says what was left out.

    Its collision model is read from ``NAME.collision.json`` or ``.yaml`` beside it; or else it may be made of its
    collision shapes, if these are spheres, capsules, cylinders and boxes alone. ``NAME.srdf`` beside it says which
    links are not checked, and names groups of joints.

    Args:
        source: A built-in name; the path of a URDF (``.urdf``), xacro (``.xacro``) or MJCF (``.xml``, ``.mjcf``) file;
            the text of a URDF or MJCF, such as the parameter ``robot_description`` of a ROS system; a
            ``mujoco.MjModel``; or a ``newton.Model`` of one world. A text or a model has no files beside it. MJCF and
            xacro are for trusted sources: they may open files, and xacro evaluates expressions.
        base: Link that becomes the fixed base, with its frame as the world's; None keeps the root. See ``subrobot``.
        tip: Link at which the robot ends: only the joints on the way there are kept; None keeps all branches.
        locked: Joints to lock, with their coordinates [m or rad]. A start that is given to a solve puts them where it
            says instead, problem by problem; see ``RobotModel.lock``.
        active: Joints that may move; all others are locked at ``locked``, or else in the middle of their limits; alike.
        group: A group of joints of the SRDF document: they may move, all others are locked as with ``active``. Its tips
            and states are told by ``load_groups``.
        srdf: An SRDF document, its path or text, such as ``robot_description_semantic`` of a ROS system; None is
            ``NAME.srdf`` beside the robot's file.
        floating_base: Let the root link float: a joint ``floating_base`` under a new link ``world``.
        constraints: "read" them, or "ignore" them all.
        xacro_arguments: Values of the arguments of a xacro file, by name.
        package_dirs: Packages, or folders of packages, for ``$(find NAME)`` of a xacro file; before the folders above
            the file, ROS_PACKAGE_PATH and AMENT_PREFIX_PATH.
        collision: "read" the collision model; the path of a file of one (``.json``, ``.yaml`` or ``.yml``) in place of
            that beside the robot's; "shapes" makes one of the robot's shapes where there is no file of one, which takes
            a while; "ignore" leaves the robot without.

    Returns:
        The model.

    Raises:
        UnknownNameError: There is no such built-in robot, file, link, joint or group.
        RobotFileError: The file cannot be read as a robot, or the SRDF document or the collision model not as one.
        InputError: The tip is not below the base, a locked value does not fit, a joint is both locked and active,
            ``group`` is given with ``active``, ``base`` or ``tip`` or where there is no SRDF document,
            ``constraints`` or ``collision`` is none of what they can be, ``xacro_arguments`` go with no xacro file, or
            MJCF or xacro was asked for without the package that reads it.
    """
    if group is not None and not (active is None and base is None and tip is None):
        raise InputError("group cannot be given together with active, base or tip.")
    description = _describe(source, _reads(constraints), xacro_arguments, package_dirs)
    spheres = _sphere_document(source, collision)
    robot = build_model(description, floating_base=floating_base)
    document = _srdf_document(source, srdf) if collision != "ignore" or group is not None else None
    if collision != "ignore":
        shapes = {link.name: link.shapes for link in description.links if collision == "shapes"}
        pairs = () if document is None else document.disabled_pairs
        model = read_collision_model(robot, shapes, spheres, pairs)
        robot = _with_model(robot, model, shapes if collision == "shapes" else None)
    if group is not None:
        if document is None:
            raise InputError(f"group is {group!r}, but there is no SRDF document: give srdf, its path or text.")
        active = group_of(document, robot, group).joints
    _check_locked(locked or {}, active or ())
    if base is not None or tip is not None:
        ends = None if tip is None else [tip]
        robot = robot.subrobot(robot.link_names[0] if base is None else base, ends, ends)
    if locked:
        robot = robot.lock(locked)
    return robot if active is None else robot.activate(active)


def _with_model(robot: RobotModel, model: CollisionModel | None, shapes: Mapping[str, LinkShapes] | None) -> RobotModel:
    """Give the robot with a collision model, or with a warning where its shapes were asked for one and give none."""
    if model is None and shapes is not None:
        return replace(robot, warnings=(*robot.warnings, why_no_spheres(shapes)))
    return robot.with_collision_model(model)


def _check_locked(locked: Mapping[str, object], active: Sequence[str]) -> None:
    both = sorted(set(locked) & set(active))
    if both:
        raise InputError(f"Joint '{both[0]}' stands in 'locked' and in 'active'; it can be in one of them.")


def link_shapes(source: str | PathLike[str]) -> Mapping[str, LinkShapes]:
    """Give the shapes by which the links of a robot collide, as its file has them, by link; as ``load_robot``."""
    return {link.name: link.shapes for link in _describe(source, reads_them=False).links}


def load_urdf(
    text: bytes | str,
    constraint_text: bytes | str | None = None,
    *,
    floating_base: bool = False,
    constraints: Constraints = "read",
    collision: Collision = "read",
) -> RobotModel:
    """Load a robot from the text of a URDF; safe on untrusted text.

    Args:
        text: The document; bytes must be UTF-8.
        constraint_text: What would stand in a file of constraints beside it.
        floating_base: As for ``load_robot``.
        constraints: As for ``load_robot``.
        collision: As for ``load_robot``; a text has no file beside it, so only "shapes" gives a model.

    Raises:
        RobotFileError: The text cannot be read as a robot.
        InputError: ``constraints`` or ``collision`` is none of its words.
    """
    reads = _reads(constraints)
    _check_word("collision", collision, get_args(Collision))
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
    """Read the file of spheres that is named, or else that beside a robot's file; None where none is read."""
    if isinstance(collision, PathLike) or (isinstance(collision, str) and collision.endswith(FILES_OF_SPHERES)):
        path = Path(collision)
        if not path.is_file():
            raise UnknownNameError(f"There is no file '{path}', which collision names.")
        return read_sphere_file(path)
    _check_word("collision", collision, get_args(Collision))
    place = _place(source) if collision != "ignore" else None
    return None if place is None else read_spheres_beside(*place)


def _srdf_document(source: Any, srdf: "str | PathLike[str] | None") -> SrdfDocument | None:
    """Read the SRDF document that is given, or else that beside a robot's file; None where there is none."""
    if srdf is not None:
        return read_srdf_file(srdf)
    place = _place(source)
    path = None if place is None else place[0] / f"{place[1]}.srdf"
    return read_srdf(path.read_bytes()) if path is not None and path.is_file() else None


def _place(source: Any) -> "tuple[Traversable, str] | None":
    """Give the folder of a robot's file and what names of files beside it begin with; None for texts and models."""
    if is_xml_text(source) or not isinstance(source, str | PathLike):
        return None
    if isinstance(source, str) and source in builtin_robot_names():
        return _BUILTIN, source
    return Path(source).parent, _stem(Path(source))


def _stem(path: Path) -> str:
    """Give what names of files beside a robot's file begin with: ``arm`` for ``arm.urdf`` and ``arm.urdf.xacro``."""
    return path.stem.removesuffix(".urdf") if path.suffix.lower() == ".xacro" else path.stem


def _describe(
    source: Any,
    reads_them: bool,
    xacro_arguments: Mapping[str, str] | None = None,
    package_dirs: "Sequence[str | PathLike[str]]" = (),
) -> RobotDescription:
    is_xacro = (
        not is_xml_text(source) and isinstance(source, str | PathLike) and Path(source).suffix.lower() == ".xacro"
    )
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
    data = _bytes_of(path)  # says what is wrong with the file itself
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
