"""Moves of a tick near contact: pairs near contact and their allowed approach, bounds of the joints, and the best move.

nearest pairs, their distances and slopes by every coordinate -> slopes by the leading coordinates
-> bounds of the joints' moves, braking included -> the best move within bounds
"""

import typing
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import warp as wp

from ik_service.collision.arrays import CollisionSpheres, CollisionWorlds
from ik_service.collision.clearance import ClearanceSize, approaches_function
from ik_service.compiler import Lanes
from ik_service.control.limits import KINDS
from ik_service.control.tick.arrays import BRAKES, DT
from ik_service.control.tick.packet_text import PacketText, fragments
from ik_service.kernels import typed_warp
from ik_service.kernels.typed_warp import reference_to
from ik_service.template_files import TemplateFolder

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


ZERO, ONE = wp.constant(wp.float64(0.0)), wp.constant(wp.float64(1.0))
TEMPLATES = TemplateFolder("ik_service.control.clearance")
BOUND_TOLERANCE = 1e-12  # allowed violation of a bound [m or rad]
RIDGE = 1e-6  # regularisation of joints in the null space of the tasks, relative to the square of the joint's lever
DIAGONAL_ROUNDING = 1e-12  # relative addition to the diagonal that keeps the matrix positive definite despite rounding
_ARITHMETIC = PacketText(Lanes(1, "float64"), {**KINDS, "DT": int(DT)}, {}).arithmetic()
_BRAKING = [*_ARITHMETIC, *fragments("braking_move")]


def _body(lines: Sequence[str], template: str) -> str:
    return "\n".join(["{", *lines, TEMPLATES.filled(f"{template}.cpp", {}), "}"])


@typed_warp.func_native(_body([*_BRAKING, *fragments("joint_box")], "bound_moves"))
def bound_moves(task: ClearanceTaskRef, r: int) -> None:
    """Write the bounds of the joints' moves, and the move with the hardest braking."""


@typed_warp.func_native(_body(_BRAKING, "brake"))
def brake(task: ClearanceTaskRef, r: int) -> None:
    """Write the wanted move: the largest part of the planned path with all joints able to stop at its end."""


@wp.func
@typing.no_type_check
def bound_ways(task: ClearanceTaskRef, r: int):
    """Write bounds of the joints' paths: the braking distance from full speed."""
    for c in range(task.leader.shape[0]):
        if task.leader[c] == c:
            a = task.active[c]
            q = task.joint_q[r, c]
            way = task.velocity[a] * (wp.float64(0.5) * task.velocity[a] / task.acceleration[a] + task.numbers[DT])
            if not wp.isfinite(task.velocity[a]):
                way = task.velocity[a]
            task.least[r, c] = wp.max(wp.min(task.limit_lower[a], q) - q, -way)
            task.most[r, c] = wp.min(wp.max(task.limit_upper[a], q) - q, way)


@wp.func
@typing.no_type_check
def take_proposal(task: ClearanceTaskRef, r: int):
    """Take the move of the tasks."""
    for c in range(task.leader.shape[0]):
        if task.leader[c] == c:
            task.move[r, c] = task.proposal[r, c] - task.joint_q[r, c]


@wp.func
@typing.no_type_check
def take_stopping(task: ClearanceTaskRef, r: int):
    """Take the move with the hardest braking."""
    for c in range(task.leader.shape[0]):
        if task.leader[c] == c:
            task.move[r, c] = task.stopping[r, c]


@lru_cache
@typing.no_type_check
def way_function(coordinates: int) -> Any:
    """Return the Warp function (task, r, ticks, joint_q, speeds): coordinates after ticks, and largest moves then."""
    Configuration: Any = reference_to(wp.types.vector(coordinates, wp.float32))
    text = TEMPLATES.filled("way.cpp", {"dt": int(DT)})

    @wp.func_native("\n".join(["{", text, "}"]))
    def way(task: ClearanceTaskRef, r: int, ticks: wp.float64, joint_q: Configuration, speeds: Configuration): ...

    return way


@wp.func
@typing.no_type_check
def ticks_to_rest(task: ClearanceTaskRef, r: int):
    """Return the number of ticks until all joints rest, this tick included."""
    most = ONE
    dt = task.numbers[DT]
    for c in range(task.leader.shape[0]):
        if task.leader[c] == c:
            unit = task.acceleration[task.active[c]] * dt * dt
            speed = wp.abs(task.move[r, c])
            if unit < speed:
                most = wp.max(most, wp.floor(speed / unit) + ONE)
    return most


@lru_cache
@typing.no_type_check
def planning_function(leaders: int) -> Any:
    """Return the Warp function (task, r, towards) -> the count of active bounds, negative for contradictory bounds.

    The function sets `move` to the best x with `least` <= x <= `most` and each pair's approach <= its `room`. With
    `towards` 0, x minimises x'Hx / 2 + g'x, where H = J'J and g = J'r of the tasks; otherwise x is the point nearest
    to `wanted`, in the metric of the joints' levers. `leaders` bounds the number of leading coordinates.
    """
    words = {
        "rounding": repr(DIAGONAL_ROUNDING),
        "size": max(leaders, 1),
        "rows": ROWS,
        "tolerance": repr(BOUND_TOLERANCE),
        "ridge": repr(RIDGE),
    }
    text = "\n".join(
        ["{", *(TEMPLATES.filled(f"{name}.cpp", words) for name in ("plan", "quadratic_program", "planned")), "}"]
    )

    @wp.func_native(text)
    def plan(task: ClearanceTaskRef, r: int, towards: int) -> int: ...

    return plan


ROWS = 16  # most pairs of spheres, or of a sphere and an object, with a limit in a tick: the nearest ones
FLAT = wp.constant(wp.float64(1.0e-4))  # slope below which joints do not change a distance [m per rad or m]
FREE = wp.constant(wp.float64(1.0e3))  # allowed approach of a pair with constant distance [m]
FAST = wp.constant(wp.float64(1.0))  # cap of a joint's move in a tick [m or rad]
PARTING_SHARE = wp.constant(wp.float64(0.75))  # largest share of the joints' capability demanded to part a pair


@wp.func
@typing.no_type_check
def _fold(task: ClearanceTaskRef, r: int, row: int):
    """Convert slopes by all coordinates into slopes by the leading coordinates."""
    for c in range(task.leader.shape[0]):
        leader = task.leader[c]
        if leader != c:
            if leader >= 0:
                factor = wp.float32(task.follower_number[c, 0])
                task.slopes[r, row, leader] = task.slopes[r, row, leader] + factor * task.slopes[r, row, c]
            task.slopes[r, row, c] = wp.float32(0.0)


@wp.func
@typing.no_type_check
def _room_of(task: ClearanceTaskRef, r: int, row: int):
    """Return the allowed approach of a pair in this tick, or in total if joints brake [m].

    The approach decays exponentially over the ticks, so that joints slow down; braking joints are already slowed by
    their acceleration. A negative value is the separation demanded of the pair, at most a share of the joints'
    capability.
    """
    room = wp.float64(task.gaps[r, row]) - task.margins[SLOWED]
    dt = task.numbers[DT]
    most = wp.float64(0.0)
    steepest = wp.float64(0.0)
    for c in range(task.leader.shape[0]):
        slope = wp.abs(wp.float64(task.slopes[r, row, c]))
        if slope > wp.float64(0.0):
            steepest = wp.max(steepest, slope)
            a = task.active[c]
            most += slope * wp.min(wp.min(task.velocity[a] * dt, task.joint_step[a]), FAST)
    if steepest < FLAT:
        return FREE
    if room < wp.float64(0.0):
        return wp.max(room * dt / (dt + task.margins[PARTING]), -PARTING_SHARE * most)
    if task.settings[BRAKES] == 1:
        return room
    return room * dt / (dt + task.margins[SETTLING])


@lru_cache
@typing.no_type_check
def look_function(size: ClearanceSize) -> Any:
    """Return the Warp function that finds the pairs near contact at the start of a tick: (task, spheres, worlds, r)."""
    approaches = approaches_function(size)
    Configuration: Any = wp.types.vector(size.coordinates, wp.float32)

    @wp.func
    def look(task: ClearanceTaskRef, spheres: CollisionSpheres, worlds: CollisionWorlds, r: int):
        joint_q = Configuration()
        for c in range(task.leader.shape[0]):
            joint_q[c] = wp.float32(task.joint_q[r, c])
        farthest = wp.float32(task.margins[FARTHEST])
        task.count[r] = approaches(r, joint_q, spheres, worlds, farthest, task.gaps, task.slopes)
        for row in range(task.count[r]):
            _fold(task, r, row)
            task.room[r, row] = _room_of(task, r, row)

    return look
