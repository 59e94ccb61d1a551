"""The pieces of a path, one after the other.

Tracks are carried from several solutions of the first waypoint; the farthest track is a piece. Where all tracks end,
the next piece begins, and a roadmap searches for a motion from the begin of the first to the end of the second.
"""

import numpy as np

from ik_service.mechanism.transforms import Float64Array
from ik_service.motion.filling import filled
from ik_service.motion.roadmap import connected, distinct
from ik_service.motion.tracks import STRIDE, GroupSolver, Piece, Tracks

SMALLER = 4  # factor between strides
MORE = 4  # times the tracks, where all have ended
SEARCHED = 16  # pieces with a full search; later pieces have one track each
FILLED = 4  # best tracks, tried in turn
STARTS_PER_SOLUTION = 16  # random starts of the tracks of a piece


def find_pieces(
    solver: GroupSolver,
    first: Float64Array,  # a solution of each place, [places, coordinates]
    starts: Float64Array,  # random configurations, [n, coordinates]
    solutions: int,  # tracks of a piece
    difference: float,  # least difference of two tracks at their start [rad or m]
    before: Float64Array | None,  # configuration one time step before the first waypoint, [coordinates], or None
) -> list[Piece]:
    """Return the pieces of a path, in order; a step from piece to piece is beyond the speed limits."""
    pieces: list[Piece] = []
    at, last = 0, len(solver.layers) - 1
    tracks: Tracks | None = None  # of the piece before
    while at <= last:
        is_searched = len(pieces) < SEARCHED  # poses without a path have a piece each
        for count in (solutions, MORE * solutions) if is_searched else (1,):
            ahead = Tracks(solver, at, _begins(solver, at, first[at], starts, count, difference, before), 1)
            ahead.carry(last)
            if ahead.farthest == last:
                break
        joined = None
        if tracks is not None and is_searched:
            joined = connected(solver, pieces[-1], tracks, ahead, starts, difference)
            if joined is None and _end(pieces[-1]) == tracks.farthest:
                while tracks.go_faster(last):  # all tracks, also the slower ones
                    tracks.carry(last)
                again = _piece(solver, tracks) if tracks.farthest >= ahead.farthest else pieces[-1]
                joined = again if _end(again) >= ahead.farthest else None
        if joined is not None:
            pieces[-1] = joined
        else:
            pieces.append(_piece(solver, ahead))
            tracks = ahead
        at = int(pieces[-1].place[-1]) + 1
    return pieces


def _begins(
    solver: GroupSolver,
    at: int,
    first: Float64Array,
    starts: Float64Array,
    count: int,
    difference: float,
    before: Float64Array | None,
) -> Float64Array:
    """Return at most `count` solutions of a place, to begin tracks from, [n, coordinates]."""
    if at == 0 and before is not None:
        near = _from(solver, before)
        if near is not None:
            return near
    tried = np.concatenate([first[None], starts[: STARTS_PER_SOLUTION * count]])
    found, met = solver.solved(np.full(len(tried), at, np.intp), tried)
    begins = distinct(solver, found[met], count, difference) if met.any() else first[None]
    if at == 0 and before is not None:  # the nearest first, of equal tracks
        gap = np.abs(solver.change(before[None], begins)).max(axis=1, initial=0.0)
        begins = begins[np.argsort(gap, kind="stable")]
    return begins


def _piece(solver: GroupSolver, tracks: Tracks) -> Piece:
    """Return the piece of the best track; where a place between its nodes is not met, smaller strides go on.

    Last, steps beyond the speed limits.
    """
    nodes = tracks.nodes()
    tried = [nodes[track] for track in tracks.best()[:FILLED].tolist()]
    piece, stride, last = filled(solver, tried[0]), STRIDE, tracks.farthest
    for other in tried[1:]:
        if piece.place[-1] < last:
            piece = max(piece, filled(solver, other), key=_end)
    while piece.place[-1] < last and stride > 1:
        stride //= SMALLER
        more = Tracks(solver, int(piece.place[-1]), piece.joint_q[-1:], 1)
        more.carry(last, stride)
        ahead = filled(solver, more.nodes()[0])
        place, joint_q = np.concatenate([piece.place, ahead.place[1:]]), np.vstack([piece.joint_q, ahead.joint_q[1:]])
        piece = Piece(place, joint_q)
    if piece.place[-1] < last:
        piece = max(piece, filled(solver, tried[0], faster=True), key=_end)
    return piece


def _end(piece: Piece) -> int:
    return int(piece.place[-1])


def _from(solver: GroupSolver, before: Float64Array) -> Float64Array | None:
    """Return the solution of the first place near the configuration before, [1, coordinates]; None where none is."""
    time = float(solver.layers[0] + 1)
    for most in (solver.step, solver.faster):
        at = before[None, solver.columns]
        found, met = solver.solved(np.zeros(1, np.intp), before[None], (at - time * most, at + time * most))
        if met[0]:
            return found
    return None
