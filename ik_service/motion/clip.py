"""Fitting of clips: the least error of targets over all frames, within limits of speed and acceleration.

    key frames alone, drawn weakly to the middle of the ranges; frames between, from the mean of their neighbours
    -> where targets are met: all frames alone; chains without jumps, forwards and backwards, the cheaper
    -> clips that keep all limits (`ClipLimits.kept`)
    -> every second frame (every third with limits of acceleration) within the room that its neighbours leave, drawn to
    their mean; then the other frames -> again, until no frame moves

No step leaves the limits, and the cost falls. Answers depend on the data alone: no start is taken.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ik_service.mechanism.transforms import Float64Array
from ik_service.motion.clip_limits import Frames, begins_of
from ik_service.motion.clip_passes import DrawnSolver, FittedClip, FramePasses
from ik_service.motion.clip_problem import ClipProblem
from ik_service.solver.given.options import SolverOptions

KEY_STRIDE = 8  # from key frame to key frame, a power of two
KEY_ITERATIONS, BETWEEN_ITERATIONS = 14, 2  # most of a key frame; of a frame between two others
# iterations of the passes over all frames, without and with held links, by the number of colours of `ClipLimits`
PASSES = {2: ((3,) * 4, (6,) * 6), 3: ((5,) * 16, (6,) * 16)}
# factors of the draw in the first passes, with held links or limits of acceleration: where frames beside each other are
# at limits, none of them can move alone
DRAWS = (100.0, 30.0)
MIDDLE_WEIGHT = 0.01  # of the draw to the middle of the ranges, or to the mean of frames beside [1/rad or 1/m]
SMOOTH_WEIGHT = 0.01  # of the draw to the mean of the neighbours, times `smoothness`
FIRST_SOLUTIONS = 8  # of the first frame of a chain, most
OVER_CHARGE = 0.1  # of a chain for a step beyond its limit [1/rad or 1/m]
NEAR_STEPS = 2.0  # times the largest step: a frame solved alone so near the frame before is taken


def fitted(problem: ClipProblem, solver: DrawnSolver, options: SolverOptions) -> FittedClip | None:
    """Return fitted clips; None for a faulty number."""
    limits, columns = problem.limits, problem.limits.columns
    first = None if problem.first is None else problem.first[columns]
    passes, weight = solver.passes(problem, options, MIDDLE_WEIGHT), SMOOTH_WEIGHT * problem.smoothness
    if passes is None:
        return None
    joint_q, costs, met = _alone(problem, passes, options.max_iterations)
    begins, clips = begins_of(problem.clip), np.split(np.arange(len(met)), begins_of(problem.clip)[1:])
    if met.any():
        firsts = [_firsts(problem, solver, options, joint_q, costs, frames) for frames in clips if met[frames[0]]]
        passes = solver.passes(problem, options, MIDDLE_WEIGHT)
        assert passes is not None  # the numbers were sound before
        for frames, ways in zip([frames for frames in clips if met[frames[0]]], firsts, strict=True):
            given = frames, joint_q[frames], costs[frames]
            joint_q[frames] = _best_chain(problem, passes, options.max_iterations, ways, *given)
    joint_q[:, columns] = limits.kept(joint_q[:, columns], begins, first)
    draws = (*DRAWS, 1.0) if problem.held or limits.colours > 2 else (1.0,)
    for number, iterations in enumerate(PASSES[limits.colours][bool(problem.held)]):
        if number < len(draws):
            solver.weigh(weight * draws[number])
            passes.set_joint_q(passes.read("joint_q") if number else joint_q)
        for colour in range(limits.colours):
            passes.run(iterations, 1, colour, limits.colours)
        if number >= len(draws) - 1 and not passes.read("left").any():
            break
    return passes.fitted()


def _alone(
    problem: ClipProblem, passes: FramePasses, iterations: int
) -> tuple[Float64Array, Float64Array, NDArray[np.bool_]]:
    """Return all frames solved alone, and by clip their costs and whether a key frame meets its targets, [frames]."""
    clip, begins = problem.clip, begins_of(problem.clip)
    keys = (np.arange(len(clip)) - begins[clip]) % KEY_STRIDE == 0
    keys[np.append(begins[1:], len(clip)) - 1] = True
    passes.run(min(iterations, KEY_ITERATIONS), marks=keys)
    is_met = passes.costs()[1] & keys
    stride = KEY_STRIDE // 2
    while stride > 0:
        passes.run(BETWEEN_ITERATIONS, stride)
        stride //= 2
    met = np.logical_or.reduceat(is_met, begins)[clip]
    if met.any():
        passes.run(iterations, marks=met)
    return passes.read("joint_q")[: len(clip)], passes.costs()[0], met


def _best_chain(
    problem: ClipProblem,
    passes: FramePasses,
    iterations: int,
    firsts: "list[tuple[int, Float64Array]]",  # of `_firsts`
    frames: Frames,  # of a clip
    alone: Float64Array,  # frames solved alone
    costs: Float64Array,  # their costs
) -> Float64Array:
    """Return configurations of a clip, each near the one before or found from there."""
    found, best = alone, _value(problem, alone, costs)
    for way, first in firsts:
        if best > 0.0:
            given = frames[::way], alone[::way], costs[::way]
            chain, chain_costs = _chain(problem, passes, iterations, first, *given)
            if (value := _value(problem, chain[::way], chain_costs)) < best:
                best, found = value, chain[::way]
    return found


def _value(problem: ClipProblem, joint_q: Float64Array, costs: Float64Array) -> float:
    """Return the costs of the frames of a clip with a charge for steps beyond their limits."""
    columns = problem.limits.columns
    points = joint_q[:, columns]
    if problem.first is not None:
        points = np.vstack([problem.first[columns], points])
    over = np.maximum(np.abs(np.diff(points, axis=0)) - problem.limits.step, 0.0).sum()
    return float(costs.sum() + OVER_CHARGE * over)


def _firsts(
    problem: ClipProblem,
    solver: DrawnSolver,
    options: SolverOptions,
    alone: Float64Array,  # all frames solved alone, [frames, joint_coord_count]
    costs: Float64Array,  # their costs, [frames]
    frames: Frames,  # of a clip
) -> list[tuple[int, Float64Array]]:
    """Return ways through a clip, forwards 1 or backwards -1, with configurations to begin chains."""
    asked, middle = replace(options, seeds=None, solutions=FIRST_SOLUTIONS), problem.robot.mid_joint_q[None]
    found = list[tuple[int, Float64Array]]()
    if _value(problem, alone[frames], costs[frames]) == 0.0:
        return found
    for way in [1] if problem.first is not None else [1, -1]:
        frame = frames[::way][:1]
        firsts = alone[frame][costs[frame] == 0.0]
        if problem.first is not None:
            firsts = np.repeat(problem.first[None], len(firsts), axis=0)
        elif solver.chooses:
            several = solver.solve(problem.batch.part(frame), asked, middle, 0.0).solutions
            assert several is not None
            firsts = np.concatenate([firsts, several[0][np.isfinite(several[0]).all(axis=1)]])
        found += [(way, first) for first in firsts]
    return found


def _chain(
    problem: ClipProblem,
    passes: FramePasses,
    iterations: int,
    first: Float64Array,  # configuration of the first frame, or before where the caller gives one
    way: Frames,  # frames in the order of the chain
    given: Float64Array,  # frames solved alone, in this order
    costs: Float64Array,  # their costs
) -> tuple[Float64Array, Float64Array]:
    """Return configurations and costs of a chain, in its order.

    A frame solved alone is taken where it is near the frame before; others are solved from the frame before.
    """
    columns, found, costs, most = problem.limits.columns, given.copy(), costs.copy(), NEAR_STEPS * problem.limits.step
    jumps = np.ones(len(way), bool)
    jumps[1:] = (np.abs(np.diff(given[:, columns], axis=0)) > most).any(axis=1)
    before, place, is_alone = first, 0, False
    if problem.first is None:
        found[0], place = first, 1
    while place < len(way):
        if is_alone and not jumps[place]:  # all frames up to the next jump
            later = np.flatnonzero(jumps[place:])
            place = place + int(later[0]) if len(later) else len(way)
            before = given[place - 1]
            continue
        is_alone = bool((np.abs(given[place] - before)[columns] <= most).all())
        if not is_alone:
            found[place], costs[place] = passes.solve(int(way[place]), before, iterations)
        before, place = found[place], place + 1
    return found, costs
