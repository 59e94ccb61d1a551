"""Joint limits of one call of `PREFIX_solve`, in C.

    kernels read limits of one line, or a line per problem; the frame has the number of lines
    without given limits -> the robot's limits, as constants of one line; nothing is computed
    else, in C, for each line: the caller's limits -> limits of the active DOFs, mimic joints included -> checked
    against
    the robot's limits -> rounded inwards to float32 -> all forms of `LimitArrays`, and clamped starts

The C code computes the same as `LimitReading` and `LimitArrays.take`, in the same order, with the same bits.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.export.call_frame import FrameArray, indented
from ik_service.export.structs import filled
from ik_service.export.values import Constants, c_scalar
from ik_service.ik_solver import IKSolver
from ik_service.robots import RobotModel
from ik_service.solver.arrays.limit_arrays import LIMIT_TYPES, LimitArrays
from ik_service.solver.given.arrays import NUMBER_MAX

ENDS = ("lower", "upper")
MEMBERS = ["size_t limit_lines;"]  # members of the frame besides arrays
LABEL = "limits"  # prefix of the constants' names


def limit_frame_arrays(limits: LimitArrays) -> dict[str, FrameArray]:
    """Return the arrays of the limits, as members of a frame."""
    arrays = [
        (f"{end}_{form}", array) for form in LIMIT_TYPES for end, array in zip(ENDS, getattr(limits, form), strict=True)
    ]
    return {name: FrameArray(array, ("f->limit_lines",)) for name, array in arrays}


def limit_source(
    solver: IKSolver, prefix: str, limits: LimitArrays, members: Mapping[str, FrameArray], constants: Constants
) -> str:
    """Return the functions that set the limits of a call in a frame; `members` are the limit arrays in the frame."""
    own = {name: constants.name(item.array, LABEL) for name, item in members.items()}
    taken = [f"f->{name} = ({c_scalar(members[name].array)} *){constant};" for name, constant in own.items()]
    exact = [f"f->{end}_float64[n * LIMITED_DOFS + a] = {end}[a];" for end in ENDS if f"{end}_float64" in own]
    tables = {name: constants.name(_filled(values), LABEL) for name, values in _tables(solver.robot, limits).items()}
    counts = {"reads": len(_reads(solver.robot)), "active": solver.robot.active_dof_count}
    words: dict[str, object] = {f"own_{name}": constant for name, constant in own.items()}
    words |= tables | counts | {"prefix": prefix, "PREFIX": prefix.upper()}
    words["number_max"] = repr(NUMBER_MAX)
    words["is_hard"] = int(solver.options.joint_limits == "hard")
    words |= {
        "taken": "\n".join(indented(indented(taken))),
        "exact": "".join(f"\n{line}" for line in indented(indented(exact))),
    }
    return filled("solve/limits.c", words)


def _reads(robot: RobotModel) -> NDArray[np.intp]:
    """Give the DOFs with limits open to callers: active ones with a coordinate, and their mimic joints."""
    active = robot.active_dof[robot.dof_coordinate[robot.active_dof] >= 0]
    followers = robot.follower_dofs[robot.dof_active[robot.follower_dofs] >= 0]
    return np.concatenate([active, followers])


def _tables(robot: RobotModel, limits: LimitArrays) -> dict[str, NDArray[Any]]:
    """Give the robot's numbers used by the limit code, by their names in the template."""
    reads, follows = _reads(robot), np.zeros(robot.joint_dof_count, dtype=bool)
    follows[robot.follower_dofs] = True
    is_turn = np.ones(robot.joint_coord_count, np.uint8)
    is_turn[robot.dof_coordinate[robot.dof_coordinate >= 0]] = 0
    return {
        "is_turn": is_turn,
        "read_coordinate": robot.dof_coordinate[reads].astype(np.int32),
        "read_active": robot.dof_active[reads].astype(np.int32),
        "multiplier": np.where(follows, robot.dof_multiplier, 1.0)[reads],
        "offset": np.where(follows, robot.dof_offset, 0.0)[reads],
        "coordinate": robot.dof_coordinate[robot.active_dof].astype(np.int32),
        "dof": robot.active_dof.astype(np.int32),
        "robot_lower": robot.active_limit_lower,
        "robot_upper": robot.active_limit_upper,
        "width": limits.draw_ranges.width,
        "lowest": limits.draw_ranges.lowest,
        "middle": robot.mid_joint_q,
    }


def _filled(values: NDArray[Any]) -> "wp.array[Any]":
    """Give an array on the host, at least one number long, because C has no empty arrays."""
    return wp.array(values if len(values) else np.zeros(1, values.dtype), device="cpu")
