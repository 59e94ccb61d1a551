"""What must hold of every answer of the solver, judged from the robot's file and the numbers that were given."""

import itertools
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from ik_service import IKResult, IKStatus
from tests.fuzz.judge import SCALAR, Array, Columns, Judge
from tests.fuzz.random_problems import Problems, Task, errors_of

ROUNDING = 1e-9  # of float64 along a chain of ten joints some metres long, with much room [m or rad]
RELATIVE = 1e-12  # the same for targets a thousand kilometres away
UNIT_SLACK = 1e-6  # of the length of a quaternion of four float32
FOLLOWER_ROUNDINGS = 8.0  # of float32, in either precision: multiplier, offset, product, sum, twice
SOLUTION_DIFFERENCE = 0.1  # what makes two solutions distinct [m or rad], as the solver has it unless told
DIFFERENCE_SLACK = 0.01  # half an angle's sine is not half the angle; and rounding
HALF_STEP = 0.5  # of float32: how far a joint may be outside of a range that holds no float32

BYTES = ("joint_q", "success", "status", "position_error", "orientation_error", "cost", "iterations", "seed_index")


def spacing(values: Array) -> Array:
    return np.spacing(np.abs(values).astype(np.float32)).astype(np.float64)


def outside(joint_q: Array, lower: float, upper: float, *, single: bool) -> NDArray[np.bool_]:
    if single and lower <= upper:
        inwards = np.float32(lower)
        if float(inwards) < lower:  # of a float32 and a float, NumPy would compare roundings
            inwards = np.nextafter(inwards, np.float32(np.inf))
        if float(inwards) > upper:
            slack = HALF_STEP * spacing(np.array([max(abs(lower), abs(upper))]))
            lower, upper = lower - slack[0], upper + slack[0]
    return np.asarray((joint_q < lower) | (joint_q > upper))


def faults_of_configurations(judge: Judge, names: Iterable[str], joint_q: NDArray[np.floating]) -> list[str]:
    single = joint_q.dtype == np.float32
    columns = dict(zip(names, joint_q.astype(np.float64).T, strict=True))
    found = [f"{name} is not finite" for name, values in columns.items() if not np.isfinite(values).all()]
    spans = judge.spans()
    for joint in judge.scalars:
        values = columns[joint.name]
        for lower, upper in ((joint.lower, joint.upper), spans.get(joint.name, (-np.inf, np.inf))):
            broken = np.flatnonzero(outside(values, lower, upper, single=single))
            if broken.size:
                found.append(f"{joint.name} is {values[broken[0]]!r}, its limits are {lower!r} to {upper!r}")
    return found + faults_of_couplings(
        judge, columns, lambda size: FOLLOWER_ROUNDINGS * spacing(size), unit_slack=UNIT_SLACK
    )


def faults_of_couplings(
    judge: Judge, columns: Columns, slack: Callable[[Array], Array | float], unit_slack: float
) -> list[str]:
    """Followers that do not follow, within what numbers of a size are off, and quaternions off unit length."""
    found = []
    for joint in judge.joints.values():
        if joint.kind in SCALAR and joint.leader:
            leader, multiplier, offset = judge.follows(joint)
            size = np.abs(multiplier * columns[leader.name]) + abs(offset)
            if (np.abs(columns[joint.name] - (multiplier * columns[leader.name] + offset)) > slack(size)).any():
                found.append(f"{joint.name} does not follow {leader.name}")
        if joint.kind in ("ball", "floating"):
            length = np.linalg.norm([columns[name] for name in joint.columns[-4:]], axis=0)
            if (np.abs(length - 1) > unit_slack).any():
                found.append(f"{joint.name} has a quaternion off unit length")
    return found


def faults_of_answers(judge: Judge, tasks: list[Task], problems: Problems, result: IKResult) -> list[str]:
    found = faults_of_configurations(judge, result.coordinate_names, result.joint_q)
    columns = dict(zip(result.coordinate_names, result.joint_q.astype(np.float64).T, strict=True))
    met = np.ones(len(result), dtype=bool)
    sure = np.ones(len(result), dtype=bool)
    for k, task in enumerate(tasks):
        errors = errors_of(judge, task, columns, problems, k)
        reported = result.position_error[:, k], result.orientation_error[:, k]
        for name, error, told in zip(("position", "orientation"), errors, reported, strict=True):
            tolerance = problems.options[f"{name}_tolerance"]
            slack = ROUNDING + RELATIVE * size_of(columns, problems.positions[k])
            if (np.isnan(error) != np.isnan(told)).any():
                found.append(f"{name} error of target {k} is NaN where rows count, or a number where none does")
            off = np.abs(error - told) > slack
            if off.any():
                i = np.flatnonzero(off)[0]
                found.append(f"{name} error of target {k}, problem {i}: {told[i]!r} is told, {error[i]!r} is found")
            met &= ~(error > tolerance)
            sure &= ~(np.abs(error - tolerance) <= slack)
    for word, wrong in (("false success", result.success & ~met), ("false failure", ~result.success & met)):
        if (wrong & sure).any():
            found.append(f"{word} of problems {np.flatnonzero(wrong & sure)[:5].tolist()}")
    if ((result.status == IKStatus.CONVERGED) != result.success).any():
        found.append("success and status contradict each other")
    found += faults_of_limits(judge, problems, columns, single=result.joint_q.dtype == np.float32)
    return found + faults_of_solutions(judge, tasks, problems, result)


def faults_of_limits(judge: Judge, problems: Problems, columns: Columns, *, single: bool) -> list[str]:
    """Which limits of the solve are broken: exactly, but where no float32 lies between them."""
    found, spans, order = [], judge.spans(), list(columns)
    leaders = {joint.leader for joint in judge.scalars if joint.leader}
    for joint in judge.scalars:
        values, own = columns[joint.name], spans.get(joint.name, (-np.inf, np.inf))
        lower = np.full(len(values), max(joint.lower, own[0]))
        upper = np.full(len(values), max(lower[0], min(joint.upper, own[1])))
        start = None if problems.start is None else np.clip(problems.start[:, order.index(joint.name)], lower, upper)
        if joint.name in problems.joint_limits:
            ends = problems.joint_limits[joint.name]
            lower, upper = np.maximum(lower, ends[0]), np.minimum(upper, ends[1])
        if start is not None and joint.name in problems.max_change:
            most = problems.max_change[joint.name]
            lower, upper = np.maximum(lower, start - most), np.minimum(upper, start + most)
        if start is not None and joint.name in problems.frozen:
            stays = problems.frozen[joint.name]
            lower, upper = np.where(stays, start, lower), np.where(stays, start, upper)
        slack = np.zeros(len(values))
        if single:
            inwards = lower.astype(np.float32)
            inwards = np.where(inwards.astype(np.float64) < lower, np.nextafter(inwards, np.float32(np.inf)), inwards)
            # Where no float32 lies between them that is inside the robot's own limits; these leave followers room.
            step = spacing(np.maximum(np.abs(lower), np.abs(upper)))
            steps = FOLLOWER_ROUNDINGS if joint.name in leaders else 1.0
            is_tight = (inwards.astype(np.float64) > upper) | (upper - lower < (steps - 1.0) * step)
            slack[:] = np.where(is_tight, steps * step, 0.0)
        broken = np.flatnonzero((values < lower - slack) | (values > upper + slack))
        if broken.size:
            p = broken[0]
            found.append(
                f"{joint.name} of problem {p} is {values[p]!r}, limits of the solve {lower[p]!r} to {upper[p]!r}"
            )
    return found


def size_of(columns: dict[str, Array], positions: Array | None) -> Array:
    """How large the numbers are of which errors are differences, [n]."""
    largest = np.max([np.abs(values) for values in columns.values()], axis=0)
    return largest if positions is None else largest + np.abs(positions).max(axis=1)


def faults_of_solutions(judge: Judge, tasks: list[Task], problems: Problems, result: IKResult) -> list[str]:
    """What is wrong with the further solutions of problems: each must meet its targets, and no two be alike."""
    if result.solutions is None or result.solution_count is None:
        return []
    found = []
    given = np.arange(result.solutions.shape[1]) < result.solution_count[:, None]
    if (np.isnan(result.solutions).any(axis=2) == given).any():
        found.append("solutions are not as many as counted")
    if ((result.solution_count > 0) != result.success).any():
        found.append("a success has no solution, or a failure has one")
    first = result.solution_count > 0
    if not np.array_equal(result.solutions[first, 0], result.joint_q[first]):
        found.append("the first solution is not the answer")
    for a, b in itertools.combinations(range(result.solutions.shape[1]), 2):
        both = given[:, b]
        gap = differing(judge, result.coordinate_names, result.solutions[both, a], result.solutions[both, b])
        if (gap < SOLUTION_DIFFERENCE * (1.0 - DIFFERENCE_SLACK)).any():
            found.append(f"solutions {a} and {b} are alike")
    for number in range(result.solutions.shape[1]):
        chosen = np.flatnonzero(given[:, number])
        if not chosen.size:
            continue
        own, joint_q = problems.lines(chosen), result.solutions[chosen, number]
        found += [
            f"solution {number}: {fault}" for fault in faults_of_configurations(judge, result.coordinate_names, joint_q)
        ]
        columns = dict(zip(result.coordinate_names, joint_q.astype(np.float64).T, strict=True))
        for k, task in enumerate(tasks):
            slack = ROUNDING + RELATIVE * size_of(columns, own.positions[k])
            for name, error in zip(("position", "orientation"), errors_of(judge, task, columns, own, k), strict=True):
                if (error > own.options[f"{name}_tolerance"] + slack).any():
                    found.append(f"solution {number} misses target {k}")
    return found


def differing(judge: Judge, names: Iterable[str], joint_q: Array, other: Array) -> Array:
    """The largest difference of a joint between two configurations, angles modulo a turn [m or rad], [n]."""
    columns, others = (dict(zip(names, q.astype(np.float64).T, strict=True)) for q in (joint_q, other))
    gaps = [np.zeros(len(joint_q))]
    for joint in judge.joints.values():
        turns = joint.kind in ("revolute", "continuous")
        plain = joint.columns[:-4] if joint.kind in ("ball", "floating") else joint.columns
        for name in plain:
            gap = np.abs(columns[name] - others[name])
            gaps.append(np.abs(gap - 2 * np.pi * np.round(gap / (2 * np.pi))) if turns or "/angle" in name else gap)
        if joint.kind in ("ball", "floating"):
            cosine = np.abs(sum(columns[name] * others[name] for name in joint.columns[-4:]))
            gaps.append(2.0 * np.arccos(np.minimum(cosine, 1.0)))
    return np.asarray(np.max(gaps, axis=0))


def differences(result: IKResult, other: IKResult, lines: NDArray[np.intp]) -> list[str]:
    """Columns in which the answers to some problems are not those of another solve, byte by byte."""
    names = (*BYTES, *(("solutions", "solution_count") if result.solutions is not None else ()))
    return [name for name in names if getattr(result, name)[lines].tobytes() != getattr(other, name).tobytes()]
