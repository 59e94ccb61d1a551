"""Clearance of one configuration in float32, and the closest spheres, as functions for kernels of one robot.

    bodies, joint by joint -> bounds of links -> near pairs of links: their spheres -> near objects: their spheres

Spheres of near links are checked one SIMD packet at a time; on a GPU one by one.
"""

import typing
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import warp as wp

from ik_service.collision.arrays import CollisionSpheres, CollisionWorlds, ObjectKind
from ik_service.compiler import Lanes, function_lines
from ik_service.mechanism.joint_type import JointType
from ik_service.template_files import TemplateFolder
from objectives.expression.graph import Operation

JOINT_TYPES = ("PRISMATIC", "REVOLUTE", "CONTINUOUS", "PLANAR", "FLOATING")
TEMPLATES = TemplateFolder("ik_service.collision")
VECTOR_IN_REGISTER = "typedef float V __attribute__((vector_size(16)));"
VECTOR = """struct V {
    float x, y, z, w;
    CUDA_CALLABLE V operator+(V b) const { return {x + b.x, y + b.y, z + b.z, 0}; }
    CUDA_CALLABLE V operator-(V b) const { return {x - b.x, y - b.y, z - b.z, 0}; }
    CUDA_CALLABLE V operator*(float by) const { return {x * by, y * by, z * by, 0}; }
    CUDA_CALLABLE float operator[](int k) const { return k == 0 ? x : k == 1 ? y : z; }
};"""
"""Vectors of three numbers: Clang keeps four numbers in a register."""


@dataclass(frozen=True)
class ClearanceSize:
    """Sizes in the generated code of a check; the sphere count of a link is data, within a total of blocks."""

    coordinates: int  # coordinates of a configuration
    bodies: int  # bodies of the robot
    links: int  # capacity for links with spheres
    blocks: int  # capacity for blocks of spheres
    lanes: Lanes  # SIMD lanes; a block has one sphere per lane
    with_grids: bool = True  # whether objects that are distance grids are checked


@lru_cache
@typing.no_type_check
def clearance_function(size: ClearanceSize) -> Any:
    """Return the Warp function (p, joint_q, spheres, worlds, least) -> the clearance if below `least`, else `least`.

    The arguments are the problem, a vector of coordinates, `CollisionSpheres`, `CollisionWorlds` and a distance [m].
    """
    warp: Any = wp
    Configuration: Any = warp.ref[wp.types.vector(size.coordinates, wp.float32)]
    Spheres: Any = warp.ref[CollisionSpheres]
    Worlds: Any = warp.ref[CollisionWorlds]

    @wp.func_native(_text(size, "places", "grid", "clearance", "scan", result="least"))
    def clearance(p: int, joint_q: Configuration, spheres: Spheres, worlds: Worlds, least: float) -> float: ...

    return clearance


@lru_cache
@typing.no_type_check
def approaches_function(size: ClearanceSize) -> Any:
    """Return the Warp function (p, joint_q, spheres, worlds, least, gaps, slopes) -> the count of near spheres.

    Arguments as in `clearance_function`. The function finds spheres nearer than `least` to another link or an object,
    up to four per pair and 32 in all, and writes them in order of distance: distances into `gaps` [robots, most], and
    derivatives by every coordinate into `slopes` [robots, most, coordinates], in m per rad or m; 0 for coordinates of
    ball and floating joints.
    """
    warp: Any = wp
    Configuration: Any = warp.ref[wp.types.vector(size.coordinates, wp.float32)]
    Spheres: Any = warp.ref[CollisionSpheres]
    Worlds: Any = warp.ref[CollisionWorlds]

    @wp.func_native(_text(size, "places", "grid", "approaches", "scan", "approach_slopes", result="count"))
    def approaches(
        p: int,
        joint_q: Configuration,
        spheres: Spheres,
        worlds: Worlds,
        least: float,
        gaps: wp.array2d[wp.float32],
        slopes: wp.array3d[wp.float32],
    ) -> int: ...

    return approaches


@lru_cache
@typing.no_type_check
def time_to_contact_function(size: ClearanceSize) -> Any:
    """Return the Warp function (p, joint_q, spheres, worlds, levers, farthest, speeds, kept, longest) -> a time [s].

    The first arguments are described in `clearance_function`. Until the returned time, at most `longest`, every
    clearance stays above `kept` [m] if no joint moves faster than `speeds`.

    `levers`, [links, coordinates], are the largest motions of a link's spheres per unit of a coordinate, 0 without
    influence. `farthest`, [coordinates], bounds the sliding coordinates for which `levers` hold.
    """
    warp: Any = wp
    Configuration: Any = warp.ref[wp.types.vector(size.coordinates, wp.float32)]
    Spheres: Any = warp.ref[CollisionSpheres]
    Worlds: Any = warp.ref[CollisionWorlds]

    @wp.func_native(_text(size, "places", "grid", "time_to_contact", "scan", result="longest"))
    def time_to_contact(
        p: int,
        joint_q: Configuration,
        spheres: Spheres,
        worlds: Worlds,
        levers: wp.array2d[wp.float32],
        farthest: wp.array[wp.float32],
        speeds: Configuration,
        kept: float,
        longest: float,
    ) -> float: ...

    return time_to_contact


def _text(size: ClearanceSize, *templates: str, result: str) -> str:
    lanes = size.lanes
    kinds = [f"{name} = {JointType[name].value}" for name in JOINT_TYPES]
    kinds += [f"{kind.name} = {kind.value}" for kind in ObjectKind]
    words = {
        "bodies": size.bodies,
        "angles": -(-max(size.bodies, 1) // lanes.width) * lanes.width,
        "links": max(size.links, 1),
        "skipped": "" if size.with_grids else " || worlds.kind.data[object] == GRID",
        "blocks": max(size.blocks, 1),
        "kinds": ", ".join(kinds),
        "vector": VECTOR_IN_REGISTER if lanes.width > 1 else VECTOR,
    }
    functions = [
        f"enum {{ WIDTH = {lanes.width} }};",
        f"const auto square_root = [](F value) -> F {{ return {lanes.sqrt('value')}; }};",
        "const auto absolute = [](F value) -> F { return value < F{} ? -value : value; };",
        "const auto larger = [](F one, F other) -> F { return one < other ? other : one; };",
    ]
    for name, operation in (("sine", Operation.SIN), ("cosine", Operation.COS)):
        body = [*function_lines(lanes, operation, ["x"], "found"), "return found;"]
        functions += [f"const auto {name} = [](F x) -> F {{", *body, "};"]
    filled = [TEMPLATES.filled(f"{name}.cpp", words) for name in templates]
    return "\n".join(["{", *lanes.prologue(), *functions, *filled, f"return {result};", "}"])
