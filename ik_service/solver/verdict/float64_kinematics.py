"""Forward kinematics in float64 on the device, for verification: from base to link, joint by joint.

The code reads the robot as numbers and is independent of the engines, whose answers it verifies. On a CPU several
problems run side by side, in the lanes of a SIMD packet.
"""

import typing
from collections.abc import Sequence
from typing import Any

import numpy as np
import warp as wp

from ik_service.compiler import Lanes, cpu_target, function_lines
from ik_service.kernels import typed_warp
from ik_service.mechanism.joint_type import JointType
from ik_service.mechanism.transforms import identity_transform
from ik_service.mechanism.trees import joints_to
from ik_service.robots import DeviceModel
from ik_service.solver.arrays.parts import first_problem
from ik_service.template_files import TemplateFolder
from objectives.expression.graph import Operation

JOINT_TYPES = ("PRISMATIC", "REVOLUTE", "CONTINUOUS", "PLANAR", "FLOATING")
TEMPLATES = TemplateFolder("ik_service.solver.verdict")
ON_CPU, ON_GPU = Lanes.on_cpu("float64"), Lanes(1, "float64")
TWO_PACKETS = Lanes(2 * ON_CPU.width, "float64")  # side by side: faster for errors of targets


@wp.struct
class Kinematics:
    """The robot in float64, and the links of requested poses."""

    joint_type: wp.array[wp.int32]
    joint_q_start: wp.array[wp.int32]
    joint_qd_start: wp.array[wp.int32]
    joint_X_p: wp.array[wp.transformd]
    joint_axis: wp.array[wp.vec3d]
    path_start: wp.array[wp.int32]  # [links + 1]: joints from the base to each link
    path_joint: wp.array[wp.int32]
    link_offset: wp.array[wp.transformd]  # [links]: T_body_link; identity for the world


KinematicsRef: Any = typed_warp.reference_to(Kinematics)


def packet_function(
    *names: str, folder: TemplateFolder = TEMPLATES, line: str = "", lanes: Lanes = ON_CPU, **words: object
) -> str:
    """Return a function's body for Warp, from templates of a folder, for a SIMD packet of problems."""
    # Its arguments begin with (p, place, left, robot, joint_q): a problem, its place among the problems of the launch,
    # and the number of problems from there on. Only the first problem of each packet has an effect. With `line` the
    # packet has configurations of problem p, from `place` on: the expression gives the line of configuration `own`.
    texts = [folder.filled(f"{name}.cpp", words) for name in names]
    wide, single = ("\n".join(_packet_lines(lanes, texts, line)) for lanes in (lanes, ON_GPU))
    return f"\n#if defined(__clang__) && !defined(__CUDA_ARCH__)\n{wide}\n#else\n{single}\n#endif\n"


def _packet_lines(lanes: Lanes, texts: Sequence[str], line: str) -> list[str]:
    kinds = ", ".join(f"{name} = {JointType[name].value}" for name in JOINT_TYPES)
    lines = ["{", *lanes.prologue(), "typedef double Real;", f"enum {{ WIDTH = {lanes.width}, {kinds} }};"]
    lines += ["const F zero = F{};", "const F one = zero + 1.0;"]
    lines.append(f"const auto square_root = [](F x) -> F {{ return {lanes.sqrt('x')}; }};")
    lines.append(f"const auto holds = [](auto condition) -> bool {{ return {lanes.any('condition')}; }};")
    for name, operation in (("sine", Operation.SIN), ("cosine", Operation.COS)):
        body = [*function_lines(lanes, operation, ["x"], "found"), "return found;"]
        lines += [f"const auto {name} = [](F x) -> F {{", *body, "};"]
    body = [*function_lines(lanes, Operation.ATAN2, ["y", "x"], "found"), "return found;"]
    lines += ["const auto arc_tangent = [](F y, F x) -> F {", *body, "};"]
    lines += ["if (place % WIDTH != 0) return;", "const int lanes = left < WIDTH ? left : WIDTH;"]
    lines += ["int row[WIDTH], problem[WIDTH]; /* lines of configurations, and of numbers of their problems */"]
    own = "const int own = (lane < lanes ? lane : lanes - 1)"
    own += f" + place; row[lane] = {line}; problem[lane] = p;" if line else "; row[lane] = problem[lane] = p + own;"
    lines.append(f"for (int lane = 0; lane < WIDTH; ++lane) {{ {own} }}")
    return [*lines, TEMPLATES.filled("float64_kinematics.cpp", {}), *texts, "}"]


@wp.func
@typing.no_type_check
def problems_left(settings: wp.array[wp.int32], part: int, parts: int, p: int):
    """Return the number of problems of a part from problem p on."""
    return first_problem(settings, part + 1, parts) - p


@typed_warp.func_native(packet_function("body_poses"))
def write_body_poses(
    p: int,
    place: int,
    left: int,
    robot: KinematicsRef,
    joint_q: wp.array2d[wp.float64],
    joint_parent: wp.array[wp.int32],
    body_q_out: wp.array2d[wp.transformd],
) -> None:
    """Write the poses of all bodies."""


@wp.kernel(module="unique", enable_backward=False, module_options={"cpu_compiler_flags": cpu_target().flags})
@typing.no_type_check
def body_poses(
    settings: wp.array[wp.int32],
    part: int,
    parts: int,
    robot: Kinematics,
    joint_parent: wp.array[wp.int32],  # [joint_count]
    joint_q: wp.array2d[wp.float64],  # [problem_capacity, joint_coord_count]
    # out
    body_q_out: wp.array2d[wp.transformd],  # [problem_capacity, body_count]
    missed_out: wp.array2d[wp.int32],  # [problem_capacity, trees + 1]; zeroed
):
    """Write the poses of all bodies in the world, parents before their children."""
    p = wp.max(first_problem(settings, part, parts) + wp.tid(), 0)
    for k in range(missed_out.shape[1]):
        missed_out[p, k] = 0
    write_body_poses(p, wp.tid(), problems_left(settings, part, parts, p), robot, joint_q, joint_parent, body_q_out)


def float64_kinematics(model: DeviceModel, links: Sequence[str | None]) -> Any:
    """Return the `Kinematics` of a robot with the paths to links; None is the world."""
    robot, starts, joints, offsets = model.robot, [0], list[int](), list[Any]()
    for link in links:
        body, offset = (-1, identity_transform()) if link is None else robot.link_frame(link)
        joints += joints_to(robot, body)
        starts.append(len(joints))
        offsets.append(offset)
    found: Any = Kinematics()
    device = model.device
    found.joint_type, found.joint_q_start = model.joint_kind, model.joint_q_start
    found.joint_qd_start = model.joint_qd_start
    found.joint_X_p = wp.array(robot.joint_X_p, dtype=wp.transformd, device=device)
    found.joint_axis = wp.array(robot.joint_axis, dtype=wp.vec3d, device=device)
    found.path_start = wp.array(starts, dtype=wp.int32, device=device)
    found.path_joint = wp.array(joints, dtype=wp.int32, device=device)
    found.link_offset = wp.array(np.array(offsets, np.float64).reshape(-1, 7), dtype=wp.transformd, device=device)
    return found
