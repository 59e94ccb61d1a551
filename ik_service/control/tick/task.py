"""Data of the kernel of an island in a tick: one struct of device arrays."""

from typing import Any, Literal

import numpy as np
import warp as wp

from ik_service.kernels.typed_warp import reference_to
from ik_service.result_schema import Column

# Indices into `settings`
ROBOTS = wp.constant(0)
ITERATIONS_NOW = wp.constant(1)  # iterations of this launch
BEGIN = wp.constant(2)  # 1 if this launch begins the tick
FINISH = wp.constant(3)  # 1 if this launch ends the tick
SCALES = wp.constant(4)  # 1 to shorten the whole step instead of joint by joint
CUT = wp.constant(5)  # 1 if the deadline ends the tick
BRAKES = wp.constant(6)  # 1 with acceleration limits
CLEARS = wp.constant(7)  # 0 without a clearance limit; else the purpose of the launch
TICK_SETTINGS_COUNT = 8
# With a clearance limit, a launch proposes a configuration, which is made free of contact; a second launch answers.
PROPOSING, ANSWERING = wp.constant(1), wp.constant(2)
# Indices into `numbers`
DT = wp.constant(0)
POSITION_TOLERANCE = wp.constant(1)
ORIENTATION_TOLERANCE = wp.constant(2)
CLEARANCE_LEAST = wp.constant(3)  # clearance below which a robot is in contact [m]
NUMBERS_COUNT = 4
# Stages of a tick: configurations of the last tick's and of this tick's tasks, then the command.
BEFORE, AFTER, COMMAND = wp.constant(0), wp.constant(1), wp.constant(2)
HOLDING = wp.constant(2)  # in `source_task`: a weight of damping
# Within the last two stages, for lower-priority rows: their configuration, then the command.
LEADING, YIELDING = wp.constant(3), wp.constant(4)
PLACES = (
    *("SCALES", "CUT", "BRAKES", "DT", "POSITION_TOLERANCE", "ORIENTATION_TOLERANCE", "CLEARANCE_LEAST"),
    *("BEFORE", "COMMAND", "HOLDING"),
)
"""Names of the constants above that packets read."""


def _column(dtype: Literal["int32", "float64"], axis: str, name: str, meaning: str) -> Column:
    return Column(name=name, dtype=dtype, axes=(axis,), meaning=meaning, null="nan" if axis == "targets" else "")


TICK_COLUMNS = {
    "joint_q_out": _column("float64", "coordinates", "joint_q", "where to go [m or rad]"),
    "joint_qd_out": _column("float64", "dofs", "joint_qd", "speeds that lead there [m/s or rad/s]"),
    "status": _column("int32", "islands", "island_status", "what became of each island"),
    "position_error": _column(
        "float64", "targets", "position_error", "distance to each target [m], NAN where positions are free"
    ),
    "orientation_error": _column("float64", "targets", "orientation_error", "angle to each target [rad]"),
    "active_limits": _column("int32", "dofs", "active_limits", "what holds each DOF back"),
    "sigma_min": _column(
        "float64", "islands", "sigma_min", "smallest singular value of the weighted rows of each island's tasks"
    ),
    "scaling": _column("float64", "islands", "scaling", "share of each island's step that was taken, 1 for all of it"),
    "iterations": _column("int32", "islands", "iterations", "steps that were tried, -1 for none"),
    "success": _column(
        "int32",
        "islands",
        "island_success",
        "1 where the island's targets are met; without any, where it is at a minimum within limits of position",
    ),
}
"""Answers of a tick, by their names in `TickTask`; columns are named as in `ControlResult` and in C."""
CLEARANCE_COLUMN = Column(
    name="clearance", dtype="float64", meaning="distance of where to go from contact [m], infinite where it is no limit"
)
"""Further column of `ControlResult`, and of C with a clearance limit."""


@wp.struct
class TickTask:
    """Arrays of the kernel of an island; int32 and float64 unless said."""

    settings: wp.array[wp.int32]
    numbers: wp.array[wp.float64]
    island: int
    # island
    dof: wp.array[wp.int32]  # active DOF of each DOF of the island
    robot_dof: wp.array[wp.int32]  # the robot's DOF of each DOF of the island
    coordinate: wp.array[wp.int32]  # column in joint_q of each coordinate of the island
    follower: wp.array[wp.int32]  # columns of mimic joints
    follower_dof: wp.array[wp.int32]
    follower_place: wp.array[wp.int32]  # their leading coordinates
    follower_number: wp.array2d[wp.float64]  # [followers, 4]: multiplier, offset, lower and upper limit
    error_target: wp.array[wp.int32]  # [errors]: target of each error of the program
    # limits, per active DOF
    limit_lower: wp.array[wp.float64]
    limit_upper: wp.array[wp.float64]
    velocity: wp.array[wp.float64]
    acceleration: wp.array[wp.float64]
    joint_step: wp.array[wp.float64]
    # data
    source: wp.array[wp.uint64]  # [inputs]: address of the first number
    source_lines: wp.array[wp.int32]  # [inputs]: 1 or one per robot; 0 for the goals of rows
    source_stride: wp.array[wp.int32]  # [inputs]: numbers from line to line
    source_wide: wp.array[wp.int32]  # [inputs]: 1 for float64
    quaternion: wp.array[wp.int32]  # first inputs of quaternions, possibly a little off unit length
    source_task: wp.array[wp.int32]  # [inputs]: 1 for a task, HOLDING, or 0
    input_before: wp.array2d[wp.float64]  # [robots, inputs and DOFs]: inputs of the last tick, then the step from the
    # robot's last resting point to the end of the step from a trial beside it; NAN at first
    # from tick to tick
    joint_q: wp.array2d[wp.float64]  # [robots, joint_coord_count]: start of the tick
    joint_qd: wp.array2d[wp.float64]  # [robots, joint_dof_count]: speeds of the last tick
    reference_before: wp.array2d[wp.float64]  # [robots, joint_coord_count]: configuration of the last tick's tasks
    approach: wp.array2d[wp.float64]  # [robots, islands]: share of the remaining distance with time to brake
    slowest: wp.array2d[wp.int32]  # [robots, islands]: the island's DOF that takes longest to brake, -1 for none
    faulty: wp.array2d[wp.int32]  # [robots, islands]
    at_bound: wp.array2d[wp.int32]  # [robots, joint_dof_count]: +-1 for a DOF pressed against an end of its range;
    # for rotations the LimitKind of an active limit
    running: wp.array2d[wp.int32]  # [packets, islands]: 1 if more iterations may help
    proposal: wp.array2d[wp.float64]  # [robots, joint_coord_count]: the command, if free of contact
    gradient: wp.array2d[wp.float64]  # [robots, joint_coord_count]: J'r at the start of the tick
    hessian: wp.array2d[wp.float64]  # [robots, joint_coord_count^2]: J'J at the start of the tick
    near_contact: wp.array2d[wp.int32]  # [robots, joint_dof_count]: 1 for a DOF held back by clearance
    clearance: wp.array[wp.float64]  # [robots]: of the command [m]
    # answers
    joint_q_out: wp.array2d[wp.float64]
    joint_qd_out: wp.array2d[wp.float64]
    status: wp.array2d[wp.int32]  # [robots, islands]
    position_error: wp.array2d[wp.float64]  # [robots, targets]
    orientation_error: wp.array2d[wp.float64]
    active_limits: wp.array2d[wp.int32]  # [robots, joint_dof_count]
    sigma_min: wp.array2d[wp.float64]  # [robots, islands]
    scaling: wp.array2d[wp.float64]
    iterations: wp.array2d[wp.int32]
    success: wp.array2d[wp.int32]


TickRef: Any = reference_to(TickTask)


def device_array(values: Any, dtype: Any, device: Any) -> "wp.array[Any]":
    """Copy values into an array on the device."""
    return wp.array(np.asarray(values, wp.dtype_to_numpy(dtype)), dtype=dtype, device=device)
