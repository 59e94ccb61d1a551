"""Data of the kernels of a clearance limit: one struct of device arrays."""

from typing import Any

import warp as wp

from ik_service.kernels.typed_warp import reference_to

# Indices into `margins`
HARD = wp.constant(0)  # clearance kept by every tick [m]
KEPT = wp.constant(1)  # clearance at the end of a tick that starts with at least this clearance [m]
SLOWED = wp.constant(2)  # clearance at which joints come to rest [m]
FARTHEST = wp.constant(3)  # clearance beyond which joints are not slowed down [m]
SETTLING = wp.constant(4)  # time constant of the remaining approach [s]
PARTING = wp.constant(5)  # time constant of missing clearance [s]
MARGINS_COUNT = 6


@wp.struct
class ClearanceTask:
    """Arrays of the clearance limit; int32 and float64 unless said."""

    settings: wp.array[wp.int32]  # of the tick
    numbers: wp.array[wp.float64]
    margins: wp.array[wp.float64]
    # robot, by coordinate
    leader: wp.array[wp.int32]  # leading coordinate: its own for a leader, -1 for a fixed coordinate
    follower_number: wp.array2d[wp.float64]  # [coordinates, 4]: multiplier, offset, lower and upper limit
    active: wp.array[wp.int32]  # active DOF of leading coordinates
    dof: wp.array[wp.int32]  # the robot's DOF, -1 in quaternions
    lever: wp.array[wp.float64]  # largest motion of a sphere centre per unit of the coordinate [m per rad or m]
    levers: wp.array2d[wp.float32]  # [links, coordinates]: the same per link
    farthest: wp.array[wp.float32]  # [coordinates]: bound of sliding coordinates for the levers [m], inf for angles
    # limits, per active DOF
    limit_lower: wp.array[wp.float64]
    limit_upper: wp.array[wp.float64]
    velocity: wp.array[wp.float64]
    acceleration: wp.array[wp.float64]
    joint_step: wp.array[wp.float64]
    # pairs near contact at the start of the tick
    count: wp.array[wp.int32]  # [robots]: count of pairs
    gaps: wp.array2d[wp.float32]  # [robots, rows]: distances [m]
    slopes: wp.array3d[wp.float32]  # [robots, rows, coordinates]: derivatives of the distances
    room: wp.array2d[wp.float64]  # [robots, rows]: allowed approach [m], negative to demand separation
    # work
    move: wp.array2d[wp.float64]  # [robots, coordinates] of the tick
    wanted: wp.array2d[wp.float64]  # move of the joints without near pairs
    least: wp.array2d[wp.float64]  # bounds of a move
    most: wp.array2d[wp.float64]
    stopping: wp.array2d[wp.float64]  # move with the hardest braking
    # the tick
    joint_q: wp.array2d[wp.float64]  # [robots, coordinates]: start of the tick
    joint_qd: wp.array2d[wp.float64]  # [robots, DOFs]
    faulty: wp.array2d[wp.int32]  # [robots, islands]
    reference: wp.array2d[wp.float64]  # [robots, coordinates]: final goal of the tasks, with accelerations
    gradient: wp.array2d[wp.float64]  # [robots, coordinates]: J'r of the tasks at the start of the tick
    hessian: wp.array2d[wp.float64]  # [robots, coordinates^2]: J'J of the tasks at the start of the tick
    proposal: wp.array2d[wp.float64]  # [robots, coordinates]: in, the tasks' configuration; out, the command
    near_contact: wp.array2d[wp.int32]  # [robots, DOFs], out: 1 for a DOF held back by clearance
    clearance: wp.array[wp.float64]  # [robots], out: clearance of the command [m]; NaN for non-finite numbers


ClearanceTaskRef: Any = reference_to(ClearanceTask)
OF_TICK = (
    *("settings", "numbers", "joint_q", "joint_qd", "faulty", "gradient", "hessian", "proposal", "near_contact"),
    *("clearance", "limit_lower", "limit_upper", "velocity", "acceleration", "joint_step"),
)
"""Names of the arrays shared with `TickTask`."""
OWN = ("count", "gaps", "slopes", "room", "move", "wanted", "least", "most", "stopping")  # other arrays that change
