"""The search for the best candidate of each group.

    candidates in the race, all or in turn -> solves with few seeds, within the room that the best answer leaves
    -> values -> the best answer with a free second pose -> fewer candidates, more seeds

The best answer so far narrows the limits of joints ("nearest", "limit_margin") or widens the margin ("clearance"), so
that most candidates without a better answer are proven to be out of reach or blocked. Candidates of one stage do not
know of each other: answers do not depend on other groups or on threads. Of equal values in a stage the lowest index
wins.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.mechanism.caller_order import CallerOrder
from ik_service.mechanism.transforms import Float64Array
from ik_service.solver.candidate_motions import MOTION_LEVELS, CandidateMotions, place_in_group
from ik_service.solver.candidate_values import CandidateValues, Rows, largest_change, limits_near, limits_of
from ik_service.solver.candidates import (
    BLOCKED,
    FATES,
    NOT_NEEDED,
    NOT_REACHED,
    PROVEN_BLOCKED,
    PROVEN_UNREACHABLE,
    SOLVED,
    CandidateResult,
    Choice,
    Via,
)
from ik_service.solver.given.batch import Batch
from ik_service.solver.given.options import SolverOptions
from ik_service.solver.lm.status import IKStatus
from ik_service.solver.result import IKResult

STAGES = ((1, 0.0), (4, 0.0), (16, 0.0), (64, 0.0), (256, 0.0))  # seeds, and share by which answers must be better
GAINS = (0.08, 0.08, 0.04, 0.04, 0.02, 0.02, 0.01, 0.01, 0.005)
CLIMB = (*STAGES[:3], *((16, gain) for gain in GAINS), STAGES[-1])  # a bound of the value narrows limits or margin
# solutions of a candidate, by stage, to choose among by manipulability, and their least difference
SEVERAL = {2: (8, 0.1), 3: (64, 0.02)}
FIRST_CHUNK = 16  # candidates of a group in the first chunk of a stage; each further chunk has twice as many
# candidates of a group that each stage leaves in the race: their share, and their least number
KEPT = ((0.1, 64), (0.1, 64), (0.1, 16), (0.1, 1))
KEPT_OF_CLEARANCE = ((1.0, 64), (0.25, 64), (0.1, 16), (0.1, 1))  # one seed says little of the largest clearance
GUESS_SLACK, FREE_SAMPLES = 1e-3, 32  # error of the value of a sample; free samples of a group at a level
SMALL_GROUP = 64  # candidates; smaller groups are solved together, without a margin of their own
VIA_CHUNK, VIA_SEEDS = 8, 16  # candidates of a group whose second pose is tried at once, and seeds of each
CHANGE_SLACK = 1e-6  # of changes in float32 [rad or m]
MOST_MARGIN = 1e5  # [m]
TOOL_CONTACT = 4  # proof of a blocked target
HOPE = np.array([0, 4, 4, 4, 5, 1, 3, 6, 2, 0], np.int8)  # how near a status is to success, by code


class CandidateRace:
    """Candidates with their fates, and the best answer of each group so far."""

    def __init__(
        self,
        # gives answers in the robot's own order of coordinates; None for a faulty number
        solve: Callable[[Batch, SolverOptions], IKResult | None],
        batch: Batch,
        options: SolverOptions,
        choice: Choice,
        values: CandidateValues,
        motions: CandidateMotions | None = None,  # samples of self-motions, where these have a value
    ) -> None:
        self._solve, self._batch, self._choice, self._values = solve, batch, choice, values
        self._options = replace(options, solutions=1, best_of=None, want="success")
        self._ends = np.inf if options.deadline_s is None else time.monotonic() + options.deadline_s
        self._robot, self._criterion = values.robot, choice.criterion
        self._group, groups, self._cost = choice.groups
        self._size = np.bincount(self._group, minlength=groups)
        dtype = np.float64 if options.precision == "float64" else np.float32
        self._best = np.full(groups, np.inf)
        self._candidate = np.full(groups, -1, np.int32)
        self._joint_q = np.full((groups, self._robot.joint_coord_count), np.nan, dtype)
        self._via_joint_q = self._joint_q.copy()
        self._status = np.full(groups, IKStatus.NO_CANDIDATE, np.int8)
        self._fate = np.full(batch.problem_count, NOT_NEEDED, np.int8)
        # order in which candidates stay in the race; -infinity for all that stay, infinity for all that go
        self._place = np.full(batch.problem_count, -np.inf)
        self._motions = None if choice.good_enough is not None else motions
        self._is_done = np.zeros(groups, bool)  # whether a group needs no stage after the self-motions
        self._is_near = np.ones(batch.problem_count, bool)  # whether a candidate stays once its group has an answer

    def result(self, order: CallerOrder) -> CandidateResult | None:
        """Return the best candidate of each group; None for a faulty number."""
        choice, stages = self._choice, CLIMB if self._criterion in ("clearance", "limit_margin") else STAGES
        if self._options.seeds is not None:
            most = self._options.seeds
            stages = tuple(dict.fromkeys((min(seeds, most), gain) for seeds, gain in (*stages, (most, 0.0))))
        in_turn = self._criterion == "first" or choice.good_enough is not None
        for stage, (seeds, gain) in enumerate(stages):
            rows = self._in_race()
            if not len(rows):
                break
            options = replace(self._options, seeds=seeds)
            for chunk in self._chunks(rows) if in_turn else [rows]:
                for own, batch, asked in self._solves(chunk, stage, gain, options):
                    is_over = (stage > 0 or in_turn) and time.monotonic() > self._ends
                    if len(own) and not is_over and self._judge(own, batch, asked, stage, gain) is None:
                        return None
            if stage == 0 and self._motions is not None and not self._follow(self._motions):
                return None
            if gain == 0.0:
                self._leave_behind(rows, stage)
        groups, fates = len(self._best), len(FATES)
        counts = np.bincount(self._group * fates + self._fate, minlength=groups * fates).reshape(groups, fates)
        found = self._candidate >= 0
        self._status[(self._status == IKStatus.NO_CANDIDATE) & (self._size > 0)] = IKStatus.DEADLINE
        return CandidateResult(
            self._candidate,
            order.coordinates_of(self._joint_q),
            np.where(found, self._best, np.nan),
            np.where(found, np.int8(IKStatus.CONVERGED), self._status),
            counts.astype(np.int32),
            self._fate,
            order.coordinate_names,
            None if choice.via is None else order.coordinates_of(self._via_joint_q),
        )

    def _in_race(self) -> Rows:
        """Return the candidates of a stage, by ascending group, cost and index."""
        proven = (self._fate == PROVEN_UNREACHABLE) | (self._fate == PROVEN_BLOCKED)
        wanted = (np.isinf(self._best)[self._group] | self._is_near) & ~self._is_done[self._group]
        rows = np.flatnonzero(wanted & ~proven & self._can_win())
        return rows[np.lexsort((rows, self._cost[rows], self._group[rows]))]

    def _can_win(self) -> NDArray[np.bool_]:
        """Return the mask of candidates that may be better than the best of a group that is not done."""
        best, enough = self._best[self._group], self._choice.good_enough
        found = best > (-np.inf if enough is None else enough)
        return found & (self._cost < best) if self._values.are_positive else found

    def _chunks(self, rows: Rows) -> Iterator[Rows]:
        """Yield candidates in turn, of groups that are not done, twice as many each time."""
        place, size, begin = place_in_group(self._group[rows]), FIRST_CHUNK, 0
        while len(rows):
            yield rows[place < begin + size]
            left = (place >= begin + size) & self._can_win()[rows]
            rows, place = rows[left], place[left]
            begin, size = begin + size, 2 * size

    def _solves(
        self, rows: Rows, stage: int, gain: float, options: SolverOptions
    ) -> Iterator[tuple[Rows, Batch, SolverOptions]]:
        """Yield the solves of a stage: candidates, their problems and options."""
        group = self._group[rows]
        best = self._best[group]
        own_value = np.where(np.isinf(best), 0.0, best - self._cost[self._candidate[group]])
        room = best - gain * np.abs(own_value) - self._cost[rows]
        if stage > 0 and self._values.narrows_limits:
            yield *self._values.narrowed(rows, room), replace(options, best_of=None if gain > 0.0 else "nearest")
        elif stage > 0 and self._criterion == "clearance":
            best_of = replace(options, best_of=None if gain > 0.0 else "clearance")
            is_small = self._size[group] < SMALL_GROUP
            if gain == 0.0:
                yield rows[is_small], self._batch.part(rows[is_small]), best_of
            for one in np.unique(group[~is_small]):  # a solve has one margin
                own, least = rows[group == one], -float(room[group == one].max())
                yield (
                    own,
                    self._batch.part(own),
                    replace(best_of, margin=float(np.clip(least, options.margin, MOST_MARGIN))),
                )
        else:
            single = options.precision == "float64" or options.repair or bool(self._robot.constraint_names)
            if stage in SEVERAL and self._criterion == "manipulability" and not single:
                is_solved = self._fate[rows] == SOLVED
                own, rows = rows[is_solved], rows[~is_solved]
                number, difference = SEVERAL[stage]
                several = replace(self._options, solutions=number, solution_difference=difference)
                yield own, self._batch.part(own), several
            yield rows, self._batch.part(rows), options

    def _judge(
        self,
        rows: Rows,
        batch: Batch,
        options: SolverOptions,
        stage: int,
        gain: float,
        guess: Float64Array | None = None,  # values of samples of self-motions
    ) -> Float64Array | None:
        """Solve candidates, note their fates, keep the best of each group; return their values, None for a fault."""
        result = self._solve(batch, options)
        if result is None:
            return None
        wanted, best = result.success, self._best[self._group[rows]]
        if guess is not None:
            wanted = wanted & (guess < best + GUESS_SLACK * np.abs(best))
        joint_q, value = self._values.of(rows, result, wanted)
        value = np.where(wanted, value + self._cost[rows], np.inf)
        is_narrowed = stage > 0 and self._criterion not in ("first", "manipulability")
        self._note_fates(rows, result, is_narrowed=is_narrowed, is_sample=guess is not None)
        better = value < best
        if not self._keep(rows[better], joint_q[better], value[better]):
            return None
        if gain == 0.0:
            best = self._best[self._group[rows]]
            self._place[rows] = self._values.places(result, value, best, self._cost[rows], stage)
        if guess is not None:
            value = np.where(result.success & ~wanted, guess, value)
        if self._motions is not None:
            self._motions.add(rows, value, joint_q)
        return value

    def _follow(self, motions: CandidateMotions) -> bool:
        """Look for better answers on the self-motions of candidates; return whether all numbers are sound."""
        options = replace(self._options, seeds=1)
        for level in MOTION_LEVELS:
            found = motions.samples(self._in_race(), level, self._best)
            if found is None:
                return True
            rows, guess, joint_q = found
            place, free, begin = place_in_group(self._group[rows]), np.zeros(len(self._best), np.intp), 0
            while len(rows) and time.monotonic() < self._ends:
                begin += level.checked
                now = place < begin
                own, batch = rows[now], self._batch.part(rows[now])._replace(start=joint_q[now])
                value = self._judge(own, batch, options, 0, 1.0, guess[now])
                if value is None:
                    return False
                free += np.bincount(self._group[own[np.isfinite(value)]], minlength=len(free))
                left = ~now & (free < FREE_SAMPLES)[self._group[rows]]
                rows, guess, joint_q, place = rows[left], guess[left], joint_q[left], place[left]
        self._is_done = np.isfinite(self._best)
        self._motions = None
        return True

    def _note_fates(self, rows: Rows, result: IKResult, *, is_narrowed: bool, is_sample: bool) -> None:
        """Note the fates of candidates, and the status of groups without an answer."""
        fate, group = np.full(len(rows), NOT_REACHED, np.int8), self._group[rows]
        fate[result.proof > 0] = PROVEN_UNREACHABLE
        fate[result.status == IKStatus.BLOCKED_BY_COLLISION] = BLOCKED
        fate[result.proof == TOOL_CONTACT] = PROVEN_BLOCKED
        fate[result.success] = SOLVED
        known = result.success | (self._fate[rows] != SOLVED)
        if is_narrowed:  # by the best answer of the group: only a success says more than was known before
            known &= result.success | np.isinf(self._best[group])
        if is_sample:
            known = result.success
        self._fate[rows[known]] = fate[known]
        for code in np.unique(result.status[known & ~result.success]):
            groups = group[known & (result.status == code)]
            self._status[groups[HOPE[code] > HOPE[self._status[groups]]]] = code

    def _keep(self, rows: Rows, joint_q: NDArray[Any], value: Float64Array) -> bool:
        """Keep the best of answers, all better than their group's best; with `via`, of answers with a second pose."""
        ordered = np.lexsort((rows, value, self._group[rows]))
        rows, joint_q, value = rows[ordered], joint_q[ordered], value[ordered]
        group, via, begin, size = self._group[rows], self._choice.via, 0, VIA_CHUNK
        place = place_in_group(group)
        while len(rows):
            now = np.flatnonzero(place < begin + size)
            second = joint_q[now]
            if via is not None:
                passed = self._passed(via, rows[now], joint_q[now])
                if passed is None:
                    return False
                is_free, second = passed
                self._status[group[now[~is_free]]] = IKStatus.BLOCKED_BY_LIMITS
                now, second = now[is_free], second[is_free]
            own, first = np.unique(group[now], return_index=True)
            best = now[first]
            self._best[own], self._candidate[own], self._joint_q[own] = value[best], rows[best], joint_q[best]
            self._via_joint_q[own] = second[first]
            left = (place >= begin + size) & ~np.isin(group, own)
            rows, joint_q, value, group, place = rows[left], joint_q[left], value[left], group[left], place[left]
            begin, size = begin + size, 2 * size
        return True

    def _passed(self, via: Via, rows: Rows, joint_q: NDArray[Any]) -> tuple[NDArray[np.bool_], NDArray[Any]] | None:
        """Return the mask of answers from which their second poses are reached, and configurations there, [n, ...]."""
        limits, second = limits_of(self._robot, self._batch.limits, rows), joint_q.copy()
        # answers without limits, or held at a rounded number, may have no room
        limits, passed = limits_near(self._robot, limits, joint_q, np.full(len(rows), via.max_change))
        own = np.flatnonzero(passed)
        if len(own):
            positions, orientations = via.batch.positions, via.batch.orientations_xyzw
            poses = self._batch._replace(positions=positions, orientations_xyzw=orientations, start=None)
            part = poses.part(rows[own])._replace(start=joint_q[own], limits=limits)
            result = self._solve(part, replace(self._options, seeds=VIA_SEEDS))
            if result is None:
                return None
            second[own] = result.joint_q
            change = largest_change(self._robot, joint_q[own], result.joint_q)  # rotations have no limits
            passed[own] = result.success & (change <= via.max_change + CHANGE_SLACK)
        return passed, second

    def _leave_behind(self, rows: Rows, stage: int) -> None:
        """Keep the best candidates of a stage in the race, a share of each group."""
        if self._criterion == "first" or not len(rows):
            return
        ranked = rows[np.isfinite(self._place[rows])]
        ordered = ranked[np.lexsort((ranked, self._place[ranked], self._group[ranked]))]
        group = self._group[ordered]
        kept_of_stages = KEPT_OF_CLEARANCE if self._criterion == "clearance" else KEPT
        share, least = kept_of_stages[min(stage, len(kept_of_stages) - 1)]
        kept = np.maximum(least, share * np.bincount(group)[group])
        self._is_near[rows] = np.isneginf(self._place[rows])
        self._is_near[ordered[place_in_group(group) < kept]] = True
        self._is_near[self._candidate[self._candidate >= 0]] = True
