"""Start configurations: the caller's, mid-range, then draws in the tangent space, by default a quasi-random sequence.

Seed s of a problem is, in this order: the caller's configuration if given, the middle of the ranges, and the points of
an additive recurrence (Roberts 2018, a generalisation of the golden-ratio sequence), one dimension per active DOF of a
tree. Every problem's sequence is shifted (Cranley and Patterson 1976) by a hash of the random seed and of the targets
on the tree, so that the sequence is independent of the rest of the batch.

Two other samplers draw by the same hash: "uniform" independently from the ranges, "gauss" around the caller's
configuration, with a sum of eight uniform numbers in place of a normal one. All arithmetic is in 32-bit integers:
exact, and the same on every device.
"""

import math
import typing
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.robots import DeviceModel, KinematicTrees
from ik_service.solver.lm.codes import GAUSS, HAS_START, NOISE_BITS, RANDOM_SEED, SAMPLER, UNIFORM

LINEAR_RANGE = 1.0  # half range of unlimited translations, in units of length
ASIDE = wp.constant(1.0e-4)  # 1/1000 of the largest step aside from a possible saddle [rad or m]
UNIT = wp.constant(2.0**-32)
EIGHT_MEAN = wp.constant(8.0 * 32767.5)  # of a sum of eight uniform numbers of 16 bits
EIGHT_DEVIATION = wp.constant(math.sqrt(8.0 * (2.0**32 - 1.0) / 12.0))
HASH_A = wp.constant(wp.uint32(0x9E3779B9))
HASH_B = wp.constant(wp.uint32(0x85EBCA6B))
HASH_C = wp.constant(wp.uint32(0xC2B2AE35))


@wp.func
@typing.no_type_check
def hash_step(state: wp.uint32, value: wp.uint32):
    """Return a hash of both values (the finaliser of MurmurHash3)."""
    h = state ^ (value * HASH_A + HASH_B + (state << wp.uint32(6)))
    h = (h ^ (h >> wp.uint32(16))) * HASH_B
    h = (h ^ (h >> wp.uint32(13))) * HASH_C
    return h ^ (h >> wp.uint32(16))


@wp.func
@typing.no_type_check
def bounded(value: Any, lower: Any, upper: Any):
    """Return a number, not NaN, clamped to an interval; `wp.clamp`, which handles NaN, takes more time."""
    above = wp.where(value < lower, lower, value)
    return wp.where(above > upper, upper, above)


def recurrence_increments(dimensions: int) -> NDArray[np.uint32]:
    """Return the increments of the additive recurrence as 32-bit fractions, shape [dimensions]."""
    # The base is the positive root of x^(d+1) = x + 1, whose powers are evenly spread in d dimensions (Roberts 2018)
    root = 2.0
    for _ in range(64):
        root = (1.0 + root) ** (1.0 / (dimensions + 1))
    return np.array([int(root**-power % 1.0 * 2**32) for power in range(1, dimensions + 1)], dtype=np.uint32)


@wp.func
@typing.no_type_check
def nearly_normal(bits: wp.uint32):
    """Return a number of mean 0 and variance 1 from a hash: a sum of eight uniform numbers, so at most 4.9."""
    total = wp.int32(0)
    for _ in range(4):
        bits = hash_step(bits, HASH_C)
        total += wp.int32(bits & wp.uint32(0xFFFF)) + wp.int32(bits >> wp.uint32(16))
    return (float(total) - EIGHT_MEAN) / EIGHT_DEVIATION


@wp.struct
class SeedRanges:
    """Ranges of start configurations, over the active DOFs."""

    lower: wp.array2d[wp.float32]  # [1 or problems, DOFs]: ends of the draws; of a rotation vector [rad]
    upper: wp.array2d[wp.float32]
    drawn: wp.array[wp.int32]  # 0 for DOFs without rows: they keep the start
    increment: wp.array[wp.uint32]  # step of the recurrence
    tree: wp.array[wp.int32]  # tree of the DOF
    place: wp.array[wp.uint32]  # its place in the tree


@dataclass(frozen=True)
class DrawSequence:
    """The sequence of seeds, over the active DOFs of a robot."""

    increment: NDArray[np.uint32]  # step of the recurrence, as 32-bit fractions
    tree: NDArray[np.int32]  # tree of each DOF
    place: NDArray[np.uint32]  # its place in the tree


def draw_sequence(trees: KinematicTrees) -> DrawSequence:
    """Return the sequence of a robot with these trees."""
    increment = np.zeros(len(trees.active_treeid), np.uint32)
    place = (trees.dof_place - trees.tree_dofadr[trees.active_treeid]).astype(np.uint32)
    for first, count in zip(trees.tree_dofadr, trees.tree_dofnum, strict=True):
        increment[trees.tree_dof[first : first + count]] = recurrence_increments(int(count))
    return DrawSequence(increment, trees.active_treeid, place)


def seed_ranges(model: DeviceModel, drawn: NDArray[np.bool_], ends: Sequence[wp.array[Any]]) -> typing.Any:
    """Return the `SeedRanges` of a robot; `drawn`: the active DOFs with rows."""
    # Ends of the draws are float32 [1 or problems, active_dof_count]
    sequence, device = draw_sequence(model.robot.trees), model.device
    ranges: typing.Any = SeedRanges()
    ranges.lower, ranges.upper = ends
    ranges.drawn = wp.array(drawn.astype(np.int32), dtype=wp.int32, device=device)
    ranges.increment = wp.array(sequence.increment, dtype=wp.uint32, device=device)
    ranges.tree = wp.array(sequence.tree, dtype=wp.int32, device=device)
    ranges.place = wp.array(sequence.place, dtype=wp.uint32, device=device)
    return ranges


class DrawRanges:
    """Ranges of starts of DOFs without limits: within one turn, or one unit of length each way."""

    def __init__(self, model: DeviceModel) -> None:
        robot, count = model.robot, model.active_dof_count
        # width: of the range of each active DOF, float32 [rad or m]
        # lowest: lower end if the DOF has no limit at all
        self.width, self.lowest = np.zeros(count, np.float32), np.zeros(count, np.float32)
        for a, d in enumerate(robot.active_dof):
            reach = LINEAR_RANGE * robot.length_unit if robot.linear_dofs[d] else math.pi
            coordinate = robot.dof_coordinate[d]
            middle = robot.mid_joint_q[coordinate] if coordinate >= 0 else 0.0
            self.width[a], self.lowest[a] = 2.0 * reach, middle - reach

    def within(
        self, lower: NDArray[np.float32], upper: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return the ends of the draws of all active DOFs within these limits, shapes [..., active_dof_count]."""
        if np.isfinite(lower).all() and np.isfinite(upper).all():
            return lower, upper
        below = np.where(np.isfinite(upper), upper - self.width, self.lowest)
        low = np.where(np.isfinite(lower), lower, below)
        return low, np.where(np.isfinite(upper), upper, low + self.width)


@wp.func
@typing.no_type_check
def seed_value(
    p: int,
    s: int,
    a: int,
    start: float,
    middle: float,
    settings: wp.array[wp.int32],
    ranges: SeedRanges,
    tree_hash: wp.array2d[wp.uint32],
):
    """Return active DOF a of seed s of problem p; its coordinate (or rotation vector) starts at `start`."""
    value = start
    if s > 0 and ranges.drawn[a] != 0:
        base = hash_step(tree_hash[p, ranges.tree[a]], wp.uint32(settings[RANDOM_SEED]))
        base = hash_step(base, ranges.place[a])
        if settings[SAMPLER] == GAUSS:
            value += wp.cast(settings[NOISE_BITS], wp.float32) * nearly_normal(hash_step(base, wp.uint32(s)))
        elif settings[HAS_START] == 1 and s == 1:
            value = middle
        else:
            bits = base + wp.uint32(s - settings[HAS_START]) * ranges.increment[a]
            if settings[SAMPLER] == UNIFORM:
                bits = hash_step(base, wp.uint32(s))
            line = wp.min(p, ranges.lower.shape[0] - 1)
            lower = ranges.lower[line, a]
            upper = ranges.upper[line, a]
            value = bounded(lower + (upper - lower) * float(bits) * UNIT, lower, upper)
    return value
