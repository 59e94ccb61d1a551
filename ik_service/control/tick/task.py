"""Data of the kernel of an island in a tick: one struct of device arrays."""

from typing import Any

import numpy as np
import warp as wp

from ik_service.kernels.typed_warp import reference_to
from ik_service.result_schema import Column

# Places in `settings`
ROBOTS = wp.constant(0)
ITERATIONS_NOW = wp.constant(1)  # how many to make in this launch
BEGIN = wp.constant(2)  # 1 where this launch begins the tick
FINISH = wp.constant(3)  # 1 where it ends the tick
SCALES = wp.constant(4)  # 1 where the whole step is shortened instead of joint by joint
CUT = wp.constant(5)  # 1 where the deadline ends the tick
BRAKES = wp.constant(6)  # 1 where accelerations are limited
CLEARS = wp.constant(7)  # 0 where clearance is no limit; else what a launch is for
TICK_SETTINGS_COUNT = 8
# With a limit of clearance a tick proposes where to go, and answers once that has been made free of contact.
PROPOSING, ANSWERING = wp.constant(1), wp.constant(2)
# Places in `numbers`
DT = wp.constant(0)
POSITION_TOLERANCE = wp.constant(1)
ORIENTATION_TOLERANCE = wp.constant(2)
CLEARANCE_LEAST = wp.constant(3)  # with less a robot is in contact [m]
NUMBERS_COUNT = 4
# Stages of a tick: where the tasks of the tick before and of this one lead, then the command.
BEFORE, AFTER, COMMAND = wp.constant(0), wp.constant(1), wp.constant(2)
HOLDING = wp.constant(2)  # in `source_task`: a weight of damping
# Within the last two, for the rows that yield: where they lead, then the command.
LEADING, YIELDING = wp.constant(3), wp.constant(4)
PLACES = (
    *("SCALES", "CUT", "BRAKES", "DT", "POSITION_TOLERANCE", "ORIENTATION_TOLERANCE", "CLEARANCE_LEAST"),
    *("BEFORE", "COMMAND", "HOLDING"),
)
"""Names of those of the above that packets read."""
TICK_COLUMNS = {
    "joint_q_out": Column(name="joint_q", dtype="float64", axes=("coordinates",), meaning="where to go [m or rad]"),
    "joint_qd_out": Column(
        name="joint_qd", dtype="float64", axes=("dofs",), meaning="speeds that lead there [m/s or rad/s]"
    ),
    "status": Column(name="island_status", dtype="int32", axes=("islands",), meaning="what became of each island"),
    "position_error": Column(
        name="position_error",
        dtype="float64",
        axes=("targets",),
        meaning="distance to each target [m], NAN where positions are free",
        null="nan",
    ),
    "orientation_error": Column(
        name="orientation_error", dtype="float64", axes=("targets",), meaning="angle to each target [rad]", null="nan"
    ),
    "active_limits": Column(name="active_limits", dtype="int32", axes=("dofs",), meaning="what holds each DOF back"),
    "sigma_min": Column(
        name="sigma_min",
        dtype="float64",
        axes=("islands",),
        meaning="smallest singular value of the weighted rows of each island's tasks",
    ),
    "scaling": Column(
        name="scaling",
        dtype="float64",
        axes=("islands",),
        meaning="share of each island's step that was taken, 1 for all of it",
    ),
    "iterations": Column(
        name="iterations", dtype="int32", axes=("islands",), meaning="steps that were tried, -1 for none"
    ),
    "success": Column(
        name="island_success",
        dtype="int32",
        axes=("islands",),
        meaning="1 where the island's targets are met; without any, where it is at a minimum within limits of position",
    ),
}
"""What a tick answers, by its names in `TickTask`; the names of the columns are those of `ControlResult` and of C."""
CLEARANCE_COLUMN = Column(
    name="clearance", dtype="float64", meaning="distance of where to go from contact [m], infinite where it is no limit"
)
"""What `ControlResult` has besides, and C where clearance is a limit."""


@wp.struct
class TickTask:
    """What the kernel of an island works on; int32 and float64 unless said."""

    settings: wp.array[wp.int32]
    numbers: wp.array[wp.float64]
    island: int
    # island
    dof: wp.array[wp.int32]  # active DOF of each of its DOFs
    robot_dof: wp.array[wp.int32]  # the robot's DOF of each
    coordinate: wp.array[wp.int32]  # column in joint_q of each of its coordinates
    follower: wp.array[wp.int32]  # columns that follow one of them
    follower_dof: wp.array[wp.int32]
    follower_place: wp.array[wp.int32]  # which
    follower_number: wp.array2d[wp.float64]  # [followers, 4]: multiplier, offset, lower and upper limit
    error_target: wp.array[wp.int32]  # [errors]: target of each error that the program gives
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
    source_wide: wp.array[wp.int32]  # [inputs]: 1 where they are float64
    quaternion: wp.array[wp.int32]  # first inputs of quaternions that may be a little off unit length
    source_task: wp.array[wp.int32]  # [inputs]: 1 where they are of a task, HOLDING, or 0
    input_before: wp.array2d[wp.float64]  # [robots, inputs and DOFs]: those of the tick before, then how far
    # from where the robot last stood the step from a trial beside it led; NAN at first
    # from tick to tick
    joint_q: wp.array2d[wp.float64]  # [robots, joint_coord_count]: where the tick starts
    joint_qd: wp.array2d[wp.float64]  # [robots, joint_dof_count]: speeds of the tick before
    reference_before: wp.array2d[wp.float64]  # [robots, joint_coord_count]: where the tasks of the tick before lead
    approach: wp.array2d[
        wp.float64
    ]  # [robots, islands]: share of the way that is left for which there is time to brake
    slowest: wp.array2d[wp.int32]  # [robots, islands]: the island's DOF that takes longest to brake, -1 for none
    faulty: wp.array2d[wp.int32]  # [robots, islands]
    at_bound: wp.array2d[wp.int32]  # [robots, joint_dof_count]: end of its range that tasks press a DOF against, +-1;
    # of rotations the LimitKind of those that turn as far as they may
    running: wp.array2d[wp.int32]  # [packets, islands]: 1 where more iterations may help
    proposal: wp.array2d[wp.float64]  # [robots, joint_coord_count]: where to go, if that is free of contact
    gradient: wp.array2d[wp.float64]  # [robots, joint_coord_count]: J'r where the tick starts
    hessian: wp.array2d[wp.float64]  # [robots, joint_coord_count^2]: J'J there
    near_contact: wp.array2d[wp.int32]  # [robots, joint_dof_count]: 1 where clearance holds a DOF back
    clearance: wp.array[wp.float64]  # [robots]: of where to go [m]
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
    """Return values as an array on the device."""
    return wp.array(np.asarray(values, wp.dtype_to_numpy(dtype)), dtype=dtype, device=device)
