"""Data of the kernels of a clearance limit: one struct of device arrays."""

from typing import Any

import warp as wp

from ik_service.kernels.typed_warp import reference_to

# Places in `margins`
HARD = wp.constant(0)  # clearance that no tick goes below [m]
KEPT = wp.constant(1)  # clearance at which ticks end, where they do not begin with less [m]
SLOWED = wp.constant(2)  # clearance at which joints come to rest [m]
FARTHEST = wp.constant(3)  # clearance from which on nothing slows down [m]
SETTLING = wp.constant(4)  # time in which the way that is left shrinks to 1/e [s]
PARTING = wp.constant(5)  # the same of what is missing [s]
MARGINS_COUNT = 6


@wp.struct
class ClearanceTask:
    """What keeps a controller's robots clear; int32 and float64 unless said."""

    settings: wp.array[wp.int32]  # of the tick
    numbers: wp.array[wp.float64]
    margins: wp.array[wp.float64]
    # robot, by coordinate
    leader: wp.array[wp.int32]  # coordinate that it follows, its own where it leads, -1 where it stays
    follower_number: wp.array2d[wp.float64]  # [coordinates, 4]: multiplier, offset, lower and upper limit
    active: wp.array[wp.int32]  # active DOF of those that lead
    dof: wp.array[wp.int32]  # the robot's DOF, -1 in quaternions
    lever: wp.array[wp.float64]  # how far a centre of a sphere moves at most for a unit of it [m per rad or m]
    levers: wp.array2d[wp.float32]  # [links, coordinates]: the same of the spheres of each link
    farthest: wp.array[wp.float32]  # [coordinates]: how far from 0 joints may slide for that [m], far for what turns
    # limits, per active DOF
    limit_lower: wp.array[wp.float64]
    limit_upper: wp.array[wp.float64]
    velocity: wp.array[wp.float64]
    acceleration: wp.array[wp.float64]
    joint_step: wp.array[wp.float64]
    # pairs that are near where the tick starts
    count: wp.array[wp.int32]  # [robots]: how many
    gaps: wp.array2d[wp.float32]  # [robots, rows]: their distances [m]
    slopes: wp.array3d[wp.float32]  # [robots, rows, coordinates]: by how much they grow
    room: wp.array2d[wp.float64]  # [robots, rows]: how far they may come nearer [m], below 0 where they are to part
    # work
    move: wp.array2d[wp.float64]  # [robots, coordinates] of the tick
    wanted: wp.array2d[wp.float64]  # the move that joints would make without pairs that are near
    least: wp.array2d[wp.float64]  # bounds of a move
    most: wp.array2d[wp.float64]
    stopping: wp.array2d[wp.float64]  # move that brakes as hard as the joints may
    # the tick
    joint_q: wp.array2d[wp.float64]  # [robots, coordinates]: where it starts
    joint_qd: wp.array2d[wp.float64]  # [robots, DOFs]
    faulty: wp.array2d[wp.int32]  # [robots, islands]
    reference: wp.array2d[wp.float64]  # [robots, coordinates]: where the tasks lead in the end, with accelerations
    gradient: wp.array2d[wp.float64]  # [robots, coordinates]: J'r of the tasks where the tick starts
    hessian: wp.array2d[wp.float64]  # [robots, coordinates^2]: J'J there
    proposal: wp.array2d[wp.float64]  # [robots, coordinates]: in, where the tasks lead; out, where to go
    near_contact: wp.array2d[wp.int32]  # [robots, DOFs], out: 1 where clearance holds a DOF back
    clearance: wp.array[wp.float64]  # [robots], out: of where to go [m]; NaN where numbers are not finite


ClearanceTaskRef: Any = reference_to(ClearanceTask)
OF_TICK = (
    *("settings", "numbers", "joint_q", "joint_qd", "faulty", "gradient", "hessian", "proposal", "near_contact"),
    *("clearance", "limit_lower", "limit_upper", "velocity", "acceleration", "joint_step"),
)
"""Names of the arrays that are those of `TickTask`."""
OWN = ("count", "gaps", "slopes", "room", "move", "wanted", "least", "most", "stopping")
"""Names of the arrays that it works on besides."""
