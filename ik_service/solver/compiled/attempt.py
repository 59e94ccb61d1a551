"""Ranking and storage of a finished attempt, as functions made for one program; see `iteration`."""

import math
import typing
from typing import Any

import warp as wp

from ik_service.collision.clearance import ClearanceSize, clearance_function
from ik_service.compiler import IterationSource, coordinate_names, error_outputs
from ik_service.linear_solve.factors import elimination_in_registers
from ik_service.solver.arrays.branch_starts import CLOSE, note_close
from ik_service.solver.compiled.attempt_start import AttemptStart
from ik_service.solver.compiled.island_task import TaskRef, attempt_line, count_attempt
from ik_service.solver.compiled.iteration import coordinate_places, integers, rotation_bits
from ik_service.solver.lm.codes import (
    BLOCKED_BY_LIMITS,
    CONVERGED,
    FIRST_FAILURE,
    HAS_START,
    INVALID,
    ITERATIONS,
    KEEP_ALL,
    NO_TARGET,
    RUNNING,
    STALLED,
    STATIONARY,
)
from ik_service.solver.lm.coordinates import follow, is_at_bound
from ik_service.solver.lm.ranking import (
    FAILED,
    PRECISE_ORIENTATION,
    attempt_rank,
    chord_angle,
    contact_rank,
    is_within,
    value_rank,
)
from ik_service.solver.lm.seeds import ASIDE, bounded
from ik_service.solver.lm.termination import (
    COSINE_MAX,
    MODEL_DAMPING,
    NOT_EVALUATED,
    RESIDUAL_FLOOR2,
    UNKNOWN_GAIN,
    phase_after,
    squared_cosine,
)


class AttemptFunctions(AttemptStart):
    """The functions of attempts for one program, for use in kernels."""

    def __init__(self, source: IterationSource, collision: ClearanceSize | None = None) -> None:
        super().__init__(source)
        self._define_gain()
        self._define_status()
        self._define_nearness()
        self._define_aside()
        self._define_contact(collision)
        self._define_ranking()
        self._define_keep()

    @typing.no_type_check
    def _define_gain(self) -> None:
        StateRef: Any = self.StateRef
        at, place, program, W = self.at, self.source.state, self.source.program, self.source.lanes.width
        coupled = program.coupled if self.source.with_hessian else []
        DOFS, PAIRS = len(program.dofs), len(coupled)
        GRADIENT, DIAGONAL, HESSIAN = place.gradient, place.lengths2, place.hessian
        Bounds: Any = wp.types.vector(DOFS, int)
        Row: Any = wp.types.vector(DOFS, float)
        Square: Any = wp.types.matrix((DOFS, DOFS), float)
        ROW = integers([program.dofs.index(a) for a, _ in coupled])
        COLUMN = integers([program.dofs.index(b) for _, b in coupled])
        eliminate = elimination_in_registers(DOFS)

        @wp.func
        def predicted_gain(state: StateRef, lane: int, at_bound: Bounds):
            """Return the decrease of |r|^2 predicted for a step, see `staged.assessment`; the lane keeps J'J."""
            lower = Square()
            diagonal = Row()
            right = Row()
            for n in range(PAIRS):
                if at_bound[ROW[n]] == 0 and at_bound[COLUMN[n]] == 0:
                    lower[ROW[n], COLUMN[n]] = float(at(state, (HESSIAN + n) * W + lane))
            largest = float(0.0)
            for k in range(DOFS):
                largest = wp.max(largest, float(at(state, (DIAGONAL + k) * W + lane)))
            damping = MODEL_DAMPING * largest
            for k in range(DOFS):
                diagonal[k] = float(at(state, (DIAGONAL + k) * W + lane)) + damping
                if at_bound[k] == 0:
                    right[k] = float(at(state, (GRADIENT + k) * W + lane))
            _factor, _inverse, solved = eliminate(lower, diagonal, right, damping)
            gain = float(0.0)
            for k in range(DOFS):
                gain += solved[k] * solved[k]
            return gain

        self._predicted_gain = predicted_gain

    @typing.no_type_check
    def _define_status(self) -> None:
        StateRef: Any = self.StateRef
        at, place, program = self.at, self.source.state, self.source.program
        W = self.source.lanes.width
        DOFS = len(program.dofs)
        PLACE, ROTATIONS = coordinate_places(program), rotation_bits(program)
        Q, GRADIENT, SCALE, Real = place.q, place.gradient, place.lengths2, self.Real
        NORM2, FACTOR, STEPS = place.norm2, place.damping_factor, place.steps
        FACTOR_MAX = self.source.damping.factor_max
        Bounds: Any = wp.types.vector(DOFS, int)
        predicted_gain, STRIDE = self._predicted_gain, int(len(self.source.step.lengths2()) > 1)

        @wp.func
        def given_stride(task: TaskRef):
            return task.length_stride

        @wp.func
        def own_stride(task: TaskRef):
            return STRIDE

        length_stride = given_stride if self.source.padded else own_stride

        @wp.func
        def status_of(state: StateRef, lane: int, task: TaskRef, p: int, island: int):
            """Return the status of a finished attempt."""
            norm2 = float(at(state, NORM2 * W + lane))
            w = wp.min(p, task.lightest2.shape[0] - 1)
            blocked = int(0)
            slope = float(0.0)
            at_bound = Bounds()
            gain = float(UNKNOWN_GAIN)
            if norm2 > RESIDUAL_FLOOR2 * task.lightest2[w, island]:  # otherwise converged
                line = wp.min(p, task.limit_lower.shape[0] - 1)
                for k in range(DOFS):
                    g = float(at(state, (GRADIENT + k) * W + lane))
                    scale = float(at(state, (SCALE + length_stride(task) * k) * W + lane))
                    cosine2 = squared_cosine(g, scale, norm2)
                    stays = bool(False)
                    c = PLACE[k]
                    if c >= 0 and (ROTATIONS >> k) & 1 == 0:
                        q = at(state, (Q + c) * W + lane)
                        lower = Real(task.limit_lower[line, task.dof[k]])
                        stays = is_at_bound(q, lower, Real(task.limit_upper[line, task.dof[k]]), g)
                    if wp.static(self.source.with_hessian):
                        if stays:
                            at_bound[k] = 1
                    if stays and cosine2 > COSINE_MAX * COSINE_MAX:
                        blocked = 1
                    if not stays or not wp.isfinite(cosine2):
                        slope = wp.max(slope, cosine2)
                if wp.static(self.source.with_hessian):
                    gain = predicted_gain(state, lane, at_bound) / norm2
            ended = int(RUNNING)
            if float(at(state, FACTOR * W + lane)) > FACTOR_MAX:
                ended = STALLED
            left = task.settings[ITERATIONS] - int(at(state, STEPS * W + lane))
            status = phase_after(
                norm2, task.lightest2[w, island], task.heaviest2[w, island], slope, gain, blocked, ended, left
            )
            if norm2 >= NOT_EVALUATED:
                status = INVALID
            return status

        self._status_of = status_of

    @typing.no_type_check
    def _define_nearness(self) -> None:
        StateRef: Any = self.StateRef
        at, W, ERROR = self.at, self.source.lanes.width, self.source.state.errors
        kinds = [kind for kind, _ in error_outputs(self.source.program) if kind in ("position", "chord")]
        if self.source.padded:
            kinds = ["position", "chord"] * len(self.source.program.errors)
        ERRORS = len(kinds)
        CHORD_BITS = sum(1 << k for k, kind in enumerate(kinds) if kind == "chord")

        @wp.func
        def nearness(state: StateRef, lane: int, task: TaskRef):
            """Return whether the targets are met (NO_TARGET without any), and whether precisely."""
            met = int(NO_TARGET)
            precise = bool(True)
            for k in range(ERRORS):
                error = wp.sqrt(float(at(state, (ERROR + k) * W + lane)))
                tolerance = task.tolerances[0]
                fine = task.precise_position
                if (CHORD_BITS >> k) & 1 == 1:
                    error = chord_angle(error)
                    tolerance = task.tolerances[1]
                    fine = PRECISE_ORIENTATION
                if not is_within(error, tolerance):
                    met = 0
                elif met == NO_TARGET:
                    met = 1
                precise = precise and error <= fine
            return met, precise

        @wp.func
        def nearness_of_all(state: StateRef, lane: int, task: TaskRef):
            """Return nearness; targets do not count as met beside a row outside its tolerance."""
            met, precise = nearness(state, lane, task)
            if met == 1 and not is_within(wp.sqrt(float(at(state, (ERROR + ERRORS) * W + lane))), 1.0):
                met = 0
            return met, precise

        @wp.func
        def is_close(state: StateRef, lane: int, task: TaskRef):
            """Return whether all targets are missed by little."""
            close = bool(True)
            for k in range(ERRORS):
                error = wp.sqrt(float(at(state, (ERROR + k) * W + lane)))
                tolerance = task.tolerances[0]
                if (CHORD_BITS >> k) & 1 == 1:
                    error = chord_angle(error)
                    tolerance = task.tolerances[1]
                close = close and error <= CLOSE * tolerance
            return close

        self._is_close = is_close
        self._nearness = nearness if self.source.program.row_error2 is None else nearness_of_all

    @typing.no_type_check
    def _define_aside(self) -> None:
        StateRef: Any = self.StateRef
        Real, at, place, program = self.Real, self.at, self.source.state, self.source.program
        DOFS, W, nearness = len(program.dofs), self.source.lanes.width, self._nearness
        Q, TRIAL, FACTOR, STEPS = place.q, place.trial, place.damping_factor, place.steps
        NORM2, FLOOR2 = place.norm2, place.floor2
        PLACE, ROTATIONS, FACTOR_MAX = (
            coordinate_places(program),
            rotation_bits(program),
            self.source.damping.factor_max,
        )
        # Rejected steps of a stalled attempt; an attempt in float64 only refines the float32 answer.
        REFUSED = math.ceil(math.log(FACTOR_MAX, self.source.damping.up)) + len(program.level_norms2)
        if self.source.lanes.precision == "float64":
            REFUSED = -1

        @wp.func
        def steps_aside(state: StateRef, lane: int, task: TaskRef, p: int):
            """Let an attempt stalled at its start and off its targets step aside from a saddle; return whether."""
            if p < 0 or at(state, FACTOR * W + lane) <= Real(FACTOR_MAX) or at(state, STEPS * W + lane) > Real(REFUSED):
                return False
            met, _precise = nearness(state, lane, task)
            if met == 1 or at(state, NORM2 * W + lane) <= at(state, FLOOR2 * W + lane):
                return False
            line = wp.min(p, task.limit_lower.shape[0] - 1)
            for k in range(DOFS):
                c = PLACE[k]
                if c >= 0 and (ROTATIONS >> k) & 1 == 0:
                    q = at(state, (Q + c) * W + lane)
                    way = Real(ASIDE) * Real(500 + 309 * k % 500)
                    upper = Real(task.limit_upper[line, task.dof[k]])
                    beside = wp.where(q + way > upper, q - way, q + way)
                    state[(TRIAL + c) * W + lane] = bounded(beside, Real(task.limit_lower[line, task.dof[k]]), upper)
            state[FACTOR * W + lane] = Real(1.0)
            return True

        # lets a finished attempt go on where it may stand at a saddle; returns whether: (state, lane, task, problem)
        self.steps_aside = steps_aside

    @typing.no_type_check
    def _define_contact(self, size: ClearanceSize | None) -> None:
        StateRef: Any = self.StateRef
        at, W, Q = self.at, self.source.lanes.width, self.source.state.q
        COORDINATES = len(coordinate_names(self.source.program))

        @wp.func
        def without_contact(state: StateRef, lane: int, task: TaskRef, p: int, s: int, rank: wp.int64):
            return rank

        self._ranked_by_contact = without_contact
        if size is None:
            return
        ALL = size.coordinates
        clearance, Configuration = clearance_function(size), wp.types.vector(ALL, wp.float32)

        @wp.func
        def ranked_by_contact(state: StateRef, lane: int, task: TaskRef, p: int, s: int, rank: wp.int64):
            """Return the rank of a success: rank of contact if clearance is too small, else by most clearance."""
            joint_q = Configuration()
            for c in range(ALL):
                joint_q[c] = task.start_joint_q[p, c]
            for c in range(COORDINATES):
                joint_q[task.coordinate[c]] = float(at(state, (Q + c) * W + lane))
            for f in range(task.follower.shape[0]):
                leader = at(state, (Q + task.follower_place[f]) * W + lane)
                joint_q[task.follower[f]] = float(follow(task.follower_number, f, leader))
            least = task.clearance[0]
            most = task.clearance[1]
            found = clearance(p, joint_q, task.spheres, task.worlds, wp.max(least, most))
            if found < least:
                return contact_rank(s, least - found)
            if most > 0.0:
                return value_rank(s, wp.max(most - found, 0.0))
            return rank

        self._ranked_by_contact = ranked_by_contact

    @typing.no_type_check
    def _define_ranking(self) -> None:
        StateRef: Any = self.StateRef
        at, status_of, nearness = self.at, self._status_of, self._nearness
        ranked_by_contact = self._ranked_by_contact
        W, NORM2 = self.source.lanes.width, self.source.state.norm2
        OTHER_ROWS = 1 if self.source.program.has_other_rows else 0
        LEVELS = len(self.source.program.level_norms2)
        LEVEL = NORM2 - LEVELS  # the last errors

        @wp.func
        def judge_attempt(state: StateRef, lane: int, task: TaskRef, p: int, island: int, s: int):
            """Return rank, cost, status, whether the targets are met, and the cost used for comparison of attempts."""
            cost = 0.5 * float(at(state, NORM2 * W + lane))
            search_cost = cost
            status = status_of(state, lane, task, p, island)
            met, precise = nearness(state, lane, task)
            if status == INVALID and met == 1:
                met = 0  # never evaluated: the errors belong to the lane's attempt before
            settled = status == CONVERGED or status == STATIONARY or status == BLOCKED_BY_LIMITS
            if OTHER_ROWS == 1 and settled:
                precise = True  # the other rows hold the answer off the targets
            if s == 0 and task.settings[HAS_START] == 1:
                precise = True  # a given start asks for the nearby solution
            success = met == 1
            if met == NO_TARGET:
                success = status == CONVERGED
            rank = attempt_rank(success, precise, s, cost, task.settings[FIRST_FAILURE])
            if success:
                rank = ranked_by_contact(state, lane, task, p, s, rank)
            if LEVELS == 2:
                cost = 0.5 * (float(at(state, LEVEL * W + lane)) + float(at(state, (LEVEL + 1) * W + lane)))
            return rank, cost, status, met, search_cost

        # rank, cost, status, whether the targets are met, and the comparison cost, of a finished attempt: the same
        # arguments as start_attempt
        self.judge_attempt = judge_attempt

    @typing.no_type_check
    def _define_keep(self) -> None:
        StateRef: Any = self.StateRef
        at, place, program = self.at, self.source.state, self.source.program
        judge_attempt, is_close = self.judge_attempt, self._is_close
        W = self.source.lanes.width
        COORDINATES = len(coordinate_names(program))
        WIDE = 1 if self.source.lanes.precision == "float64" else 0
        Q, STEPS = place.q, place.steps

        @wp.func
        def write_joint_q(state: StateRef, lane: int, task: TaskRef, line: int):
            for c in range(COORDINATES):
                q = at(state, (Q + c) * W + lane)
                task.best.joint_q[line, task.coordinate[c]] = float(q)
                if wp.static(WIDE == 1):
                    task.best_joint_q_float64[line, task.coordinate[c]] = q
            for f in range(task.follower.shape[0]):
                value = follow(task.follower_number, f, at(state, (Q + task.follower_place[f]) * W + lane))
                task.best.joint_q[line, task.follower[f]] = float(value)
                if wp.static(WIDE == 1):
                    task.best_joint_q_float64[line, task.follower[f]] = value

        @wp.func
        def keep_answer(state: StateRef, lane: int, task: TaskRef, p: int, island: int, s: int):
            """Rank a finished attempt and keep the attempt if it is the best of its problem; return its rank."""
            rank, cost, status, met, search_cost = judge_attempt(state, lane, task, p, island, s)
            line = attempt_line(task, p, s)
            count_attempt(task, p, island, s, rank, search_cost, status, met)
            if rank >= FAILED and status != INVALID and task.searches.branches[p, island] != 0:
                if is_close(state, lane, task):
                    note_close(task.searches, p, island)
            if task.settings[KEEP_ALL] == 1 or rank < task.best.rank[line, island]:
                task.best.rank[line, island] = rank
                task.best.cost[line, island] = cost
                task.best.seed[line, island] = s
                task.best.iterations[line, island] = int(at(state, STEPS * W + lane))
                task.best.status[line, island] = status
                task.best.met[line, island] = met
                write_joint_q(state, lane, task, line)
            return rank

        # ranks a finished attempt, keeps the best of its problem, and returns the rank: the same arguments
        self.keep_answer = keep_answer
