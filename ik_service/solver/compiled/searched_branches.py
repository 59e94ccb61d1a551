"""The kernel that finds solutions of an arm whose last joint is searched, as starts of the attempts of a problem.

    six joints     samples of the last joint -> for each branch the angles where the mismatch is 0, or nearly 0
                   -> steps of bisection and the secant method -> starts
    seven joints   samples of the last joint, a quarter of `spacing` apart and even over its range -> their branches

A lane of a packet has a sample. The best start is the first: nearest to the caller's start, which is then the attempt
before, or else furthest from the limits. Each start stands in the line of its attempt.
"""

import typing
from dataclasses import dataclass
from typing import Any

import warp as wp

from ik_service.compiler.closed_form import ProofSource
from ik_service.kernels.typed_warp import reference_to
from ik_service.solver.arrays.parts import first_place
from ik_service.solver.compiled.iteration import cpu_options
from ik_service.solver.compiled.proof_task import (
    FIRST_ANGLE,
    ProofTask,
    TaskRef,
    is_as_locked,
    number_at,
    range_of_last,
    reading_of,
)
from ik_service.solver.lm.codes import HAS_START, SEEDS, STOP

BEYOND, MISMATCH, MARGIN = 0, 1, 2  # places of the numbers of a branch for an angle of the last joint
SAMPLE_PACKETS = 16  # of the last of six joints
LEAST_WIDTH = wp.constant(1.0e-4)  # between these samples [rad]
ROOTS_MAX, STEPS_MAX = 32, 8  # candidates of a problem, and steps
# numbers of a candidate: branch, angle, and two angles around it with the mismatches there
BRANCH, ANGLE, LOW, OF_LOW, HIGH, OF_HIGH = range(6)
NUMBERS = 6
TOUCHING = 0.3  # samples of the mismatch as near to 0 may be beside two solutions, or one [rad]
# mismatches of roots that need one more step, or none [rad]
NEARLY_EXACT, EXACT = wp.constant(2.0e-3), wp.constant(1.0e-5)
START_MISMATCH = wp.constant(0.05)  # of a start, at most [rad]
BEYOND_MAX = wp.constant(0.02)  # starts beyond the limits by no more may lead to solutions within tolerances [rad]
PACKET_BITS = 4
PACKETS_MAX = 1 << PACKET_BITS  # of samples of the last of seven joints
FINEST_SAMPLES = wp.constant(1.0e-3)  # least spacing of these samples [rad]


@dataclass(frozen=True)
class _Parts:
    """Numbers, types and functions of both searches."""

    width: int  # lanes
    branches: int
    outputs: int  # numbers of a branch
    Inputs: Any
    Found: Any
    Bits: Any
    solutions: Any  # finds the branches of all lanes
    keep: Any  # keeps a branch of a lane as a start
    range_of: Any  # returns the range of the last joint


@typing.no_type_check
def searched_branches_kernel(  # noqa: C901  # it counts the branches of the functions inside as its own
    source: ProofSource,
) -> wp.Kernel:
    """Return the kernel; its arguments are those of the kernel of proofs, and the phase is not used."""
    W, JOINTS = source.lanes.width, len(source.arm.arm.dofs)
    BRANCHES, OUTPUTS = source.branches_at_last_joint, source.outputs_at_last_joint
    Inputs: Any = wp.types.vector(len(source.inputs) * W, wp.float32)
    Found: Any = wp.types.vector(BRANCHES * OUTPUTS * W, wp.float32)
    Bits: Any = wp.types.vector(2 * BRANCHES, int)
    Best: Any = wp.types.vector(2, wp.float32)
    InputsRef: Any = reference_to(Inputs)
    FoundRef: Any = reference_to(Found)
    BitsRef: Any = reference_to(Bits)
    BestRef: Any = reference_to(Best)
    of_found = number_at(Found)
    read_target, read_rest = reading_of(Inputs, W, JOINTS)

    @wp.func_native(source.solutions_text())
    def solutions(inputs: InputsRef, found: FoundRef, bits: BitsRef) -> int: ...

    @wp.func
    def change_from_start(found: FoundRef, lane: int, b: int, angle: float, task: TaskRef, p: int):
        """Return the largest change of a joint from the caller's start, modulo turns [rad]."""
        largest = float(0.0)
        j = int(0)
        while j < JOINTS:
            joint = float(angle)
            if j < JOINTS - 1:
                joint = of_found(found, (b * OUTPUTS + FIRST_ANGLE + wp.min(j, JOINTS - 2)) * W + lane)
            gap = joint - task.start_joint_q[p, task.column[j]]
            largest = wp.max(largest, wp.abs(gap - 2.0 * wp.PI * wp.round(gap / (2.0 * wp.PI))))
            j += 1
        return largest

    @wp.func
    def keep(found: FoundRef, lane: int, b: int, angle: float, task: TaskRef, p: int, count: int, best: BestRef):
        """Put a branch into the line of the next attempt, if there is one; return the number of starts."""
        key = -of_found(found, (b * OUTPUTS + MARGIN) * W + lane)
        if task.settings[HAS_START] == 1:
            key = change_from_start(found, lane, b, angle, task, p)
        if count >= task.settings[SEEDS] or not wp.isfinite(key):
            return count
        row = p * task.settings[SEEDS] + count
        for c in range(task.attempt_joint_q.shape[1]):
            task.attempt_joint_q[row, c] = task.start_joint_q[p, c]
        for j in range(JOINTS - 1):
            value = of_found(found, (b * OUTPUTS + FIRST_ANGLE + j) * W + lane)
            task.attempt_joint_q[row, task.column[j]] = value
        task.attempt_joint_q[row, task.column[JOINTS - 1]] = angle
        first = task.settings[HAS_START]
        if count == first or key < best[0]:
            best[0] = key
            first += p * task.settings[SEEDS]
            for j in range(JOINTS):
                c = task.column[j]
                value = task.attempt_joint_q[first, c]
                task.attempt_joint_q[first, c] = task.attempt_joint_q[row, c]
                task.attempt_joint_q[row, c] = value
        return count + 1

    own = _Parts(W, BRANCHES, OUTPUTS, Inputs, Found, Bits, solutions, keep, range_of_last(Inputs, W, JOINTS))
    starts_of = _samples(own) if JOINTS == 7 else _roots(own, source.mismatches_text(TOUCHING))

    @wp.kernel(module="unique", enable_backward=False, module_options=cpu_options())
    def find_starts(task: ProofTask, phase: int, part: int, parts: int):
        place = first_place(task.settings, task.count, task.problem, part, parts)
        end = first_place(task.settings, task.count, task.problem, part + 1, parts)
        if task.fault[part] != 0:
            end = place
        inputs = Inputs()
        is_common = task.limit_lower.shape[0] == 1 and task.tool.shape[0] == 1
        has_rest = bool(False)
        first = task.settings[HAS_START]
        while place < end and task.settings[STOP] == 0:
            p = task.problem[place]
            place += 1
            if task.searches.proof[p, task.island] == 0 and is_as_locked(task, p):
                for lane in range(W):
                    read_target(inputs, lane, task, p)
                    if not has_rest:
                        read_rest(inputs, lane, task, p)
                has_rest = is_common
                count = starts_of(inputs, task, p, first)
                task.searches.row_starts[p, task.island] = wp.where(count > first, count, 0)

    return find_starts


@typing.no_type_check
def _samples(own: _Parts) -> Any:
    """Return the function (inputs, task, problem, attempts before) -> attempts with starts, of seven joints."""
    Inputs, Found, Bits, W, BRANCHES = own.Inputs, own.Found, own.Bits, own.width, own.branches
    solutions, keep, range_of = own.solutions, own.keep, own.range_of
    InputsRef: Any = reference_to(Inputs)
    LAST = Inputs._length_ // W - 3

    @wp.func
    def samples(inputs: InputsRef, task: TaskRef, p: int, first: int):
        found = Found()
        bits = Bits()
        best = wp.vec2()
        angles = range_of(inputs)
        wanted = 4.0 * angles[1] / (wp.max(task.spacing[0], FINEST_SAMPLES) * float(W))
        packets = int(wp.clamp(wp.ceil(wanted), 1.0, float(PACKETS_MAX)))
        count = int(first)
        packet = int(0)
        while packet < packets and count < task.settings[SEEDS]:
            shift = int(0)  # the number of the packet with its bits reversed: samples fall between earlier ones
            for k in range(PACKET_BITS):
                shift = shift | (((packet >> k) & 1) << (PACKET_BITS - 1 - k))
            packet += 1
            lowest = angles[0] + angles[1] * (float(shift) + 0.5) / float(PACKETS_MAX * W)
            for m in range(W):
                inputs[LAST * W + m] = lowest + angles[1] * float(m) / float(W)
            solutions(inputs, found, bits)
            for k in range(BRANCHES):
                for m in range(W):
                    b = (m + k) % BRANCHES
                    if (bits[b] >> m) & 1 == 0:
                        angle = lowest + angles[1] * float(m) / float(W)
                        count = keep(found, m, b, angle, task, p, count, best)
        return count

    return samples


@typing.no_type_check
def _roots(  # noqa: C901  # it counts the branches of the functions inside as its own
    own: _Parts, mismatches_text: str
) -> Any:
    """Return the function (inputs, task, problem, attempts before) -> attempts with starts, of six joints."""
    Inputs, Found, Bits, W, BRANCHES = own.Inputs, own.Found, own.Bits, own.width, own.branches
    solutions, keep, range_of, OUTPUTS = own.solutions, own.keep, own.range_of, own.outputs
    Values: Any = wp.types.vector(BRANCHES * W, wp.float32)
    Last: Any = wp.types.vector(2 * BRANCHES, wp.float32)
    Roots: Any = wp.types.vector(NUMBERS * ROOTS_MAX, wp.float32)
    InputsRef: Any = reference_to(Inputs)
    ValuesRef: Any = reference_to(Values)
    LastRef: Any = reference_to(Last)
    RootsRef: Any = reference_to(Roots)
    BitsRef: Any = reference_to(Bits)
    LAST, SAMPLES = Inputs._length_ // W - 3, SAMPLE_PACKETS * W
    of_found, of_values, of_roots = number_at(Found), number_at(Values), number_at(Roots)

    @wp.func_native(mismatches_text)
    def mismatches(inputs: InputsRef, found: ValuesRef, bits: BitsRef) -> int: ...

    @wp.func
    def value_before(values: ValuesRef, last: LastRef, b: int, m: int):
        """Return the mismatch of a lane; lanes -1 and -2 are the last ones of the packet before."""
        value = last[2 * b + wp.min(wp.max(m + 2, 0), 1)]
        if m >= 0:
            value = of_values(values, b * W + wp.max(m, 0))
        return value

    @wp.func
    def add_root(roots: RootsRef, count: int, b: int, angle: float, a: float, of_a: float, c: float, of_c: float):
        """Add a candidate of a branch between two angles with known mismatches; return the number of candidates."""
        k = NUMBERS * wp.min(count, ROOTS_MAX - 1)
        roots[k + BRANCH] = float(b)
        roots[k + ANGLE] = angle
        roots[k + LOW] = a
        roots[k + OF_LOW] = of_a
        roots[k + HIGH] = c
        roots[k + OF_HIGH] = of_c
        return wp.min(count + 1, ROOTS_MAX)

    @wp.func
    def add_extreme(
        roots: RootsRef, count: int, b: int, angle: float, width: float, older: float, old: float, value: float
    ):
        """Add the extreme of the parabola through three samples, if the middle one is nearest to 0."""
        nearest = wp.abs(old) < wp.abs(older) and wp.abs(old) <= wp.abs(value)
        if not (nearest and (older <= 0.0) == (old <= 0.0)):
            return count
        extreme = angle - width * (1.0 + 0.5 * (value - older) / (older - 2.0 * old + value))
        return add_root(roots, count, b, extreme, angle - 2.0 * width, older, angle, value)

    @wp.func
    def find_roots(inputs: InputsRef, roots: RootsRef, lowest: float, width: float):
        """Find where the mismatch of a branch vanishes, or nearly, between samples; return the number of places."""
        values = Values()
        last = Last()
        bits = Bits()
        bits_before = Bits()
        count = int(0)
        for packet in range(SAMPLE_PACKETS):
            for m in range(W):
                inputs[LAST * W + m] = lowest + width * float(packet * W + m)
            mismatches(inputs, values, bits)
            for b in range(BRANCHES):
                changes = bits[b] ^ ((bits[b] << 1) | (bits_before[b] >> (W - 1)))
                # lanes behind a sample near 0
                near = (bits[BRANCHES + b] << 1) | (bits_before[BRANCHES + b] >> (W - 1))
                if packet == 0:
                    changes = changes & ~1
                    near = near & ~3
                marked = (changes | near) & ((1 << W) - 1)
                m = int(0)
                while marked != 0:
                    if marked & 1 == 1:
                        angle = lowest + width * float(packet * W + m)
                        value = of_values(values, b * W + m)
                        old = value_before(values, last, b, m - 1)
                        if (changes >> m) & 1 == 1:
                            root = angle - width * value / (value - old)
                            count = add_root(roots, count, b, root, angle - width, old, angle, value)
                        else:
                            older = value_before(values, last, b, m - 2)
                            count = add_extreme(roots, count, b, angle, width, older, old, value)
                    marked = marked >> 1
                    m += 1
                last[2 * b] = of_values(values, b * W + W - 2)
                last[2 * b + 1] = of_values(values, b * W + W - 1)
                bits_before[b] = bits[b]
                bits_before[BRANCHES + b] = bits[BRANCHES + b]
        return count

    @wp.func
    def improve_root(roots: RootsRef, k: int, value: float):
        """Move a root between its two angles, given the mismatch at its angle; return 1 if it is not exact yet."""
        if wp.abs(value) < EXACT:
            return 0
        angle = of_roots(roots, k + ANGLE)
        before = wp.min(wp.abs(of_roots(roots, k + OF_LOW)), wp.abs(of_roots(roots, k + OF_HIGH)))
        if (value <= 0.0) == (of_roots(roots, k + OF_LOW) <= 0.0):
            roots[k + LOW] = angle
            roots[k + OF_LOW] = value
        else:
            roots[k + HIGH] = angle
            roots[k + OF_HIGH] = value
        low = of_roots(roots, k + LOW)
        width = of_roots(roots, k + HIGH) - low
        share = of_roots(roots, k + OF_LOW) / (of_roots(roots, k + OF_LOW) - of_roots(roots, k + OF_HIGH))
        if wp.abs(value) > 0.5 * before:
            share = 0.5
        roots[k + ANGLE] = low + width * share
        return wp.where(wp.abs(value) > NEARLY_EXACT, 1, 0)

    @wp.func
    def improve(inputs: InputsRef, roots: RootsRef, total: int):
        """Move all roots by one step; return their number, negative if all are nearly exact."""
        values = Values()
        bits = Bits()
        count = int(total)
        inexact = int(0)
        done = int(0)
        while done < total:
            for m in range(W):
                inputs[LAST * W + m] = of_roots(roots, NUMBERS * wp.min(done + m, total - 1) + ANGLE)
            mismatches(inputs, values, bits)
            for m in range(wp.min(W, total - done)):
                k = NUMBERS * (done + m)
                b = int(of_roots(roots, k + BRANCH))
                value = of_values(values, b * W + m)
                low = of_roots(roots, k + OF_LOW)
                high = of_roots(roots, k + OF_HIGH)
                if (low <= 0.0) == (high <= 0.0):  # around an extreme
                    if (value <= 0.0) != (low <= 0.0):  # beyond 0: roots on both sides
                        x = of_roots(roots, k + ANGLE)
                        c = of_roots(roots, k + HIGH)
                        share = value / (value - high)
                        count = add_root(roots, count, b, x + (c - x) * share, x, value, c, high)
                        inexact += improve_root(roots, k, value)
                else:
                    inexact += improve_root(roots, k, value)
            done += W
        if count > total:
            inexact += 1
        return wp.where(inexact > 0, count, -count)

    @wp.func
    def roots_of(inputs: InputsRef, task: TaskRef, p: int, first: int):
        found = Found()
        bits = Bits()
        best = wp.vec2()
        roots = Roots()
        angles = range_of(inputs)
        # beyond both ends, where solutions at the ends change the sign; a joint that is held has a width, too
        width = wp.max(angles[1] / float(SAMPLES - 3), LEAST_WIDTH)
        lowest = angles[0] + 0.5 * (angles[1] - width * float(SAMPLES - 1))
        total = find_roots(inputs, roots, lowest, width)
        step = int(0)
        while step < STEPS_MAX and total > 0:
            total = improve(inputs, roots, total)
            step += 1
        total = wp.abs(total)
        count = int(first)
        done = int(0)
        while done < total:
            for m in range(W):
                inputs[LAST * W + m] = of_roots(roots, NUMBERS * wp.min(done + m, total - 1) + ANGLE)
            solutions(inputs, found, bits)
            for m in range(wp.min(W, total - done)):
                k = NUMBERS * (done + m)
                b = int(of_roots(roots, k + BRANCH))
                is_near = wp.abs(of_found(found, (b * OUTPUTS + MISMATCH) * W + m)) < START_MISMATCH
                angle = of_roots(roots, k + ANGLE)
                beyond = wp.abs(angle - angles[0] - 0.5 * angles[1]) - 0.5 * angles[1]
                beyond = wp.max(beyond, of_found(found, (b * OUTPUTS + BEYOND) * W + m))
                if is_near and beyond <= BEYOND_MAX:
                    count = keep(found, m, b, angle, task, p, count, best)
            done += W
        return count

    return roots_of
