"""The batch of the staged engine: one iteration of all slots as a list of launches, recorded and replayed."""

import typing

import numpy as np
import warp as wp

from ik_service.collision.collision_data import CollisionData
from ik_service.compiler import ATTEMPT_SLACK
from ik_service.kernels.device_lock import recording
from ik_service.kernels.kernel_loading import load_kernels_alone
from ik_service.linear_solve.block import damped_steps, normal_equations
from ik_service.linear_solve.factors import allocate_equations
from ik_service.robots import DeviceModel
from ik_service.solver.arrays.limit_arrays import LimitArrays
from ik_service.solver.arrays.problem_arrays import Problems
from ik_service.solver.deadline import stopped_after
from ik_service.solver.given.options import SolverOptions
from ik_service.solver.lm.codes import IDLE
from ik_service.solver.lm.coordinates import active_dofs, coordinates_of
from ik_service.solver.lm.ranking import UNRANKED
from ik_service.solver.lm.seeds import seed_ranges
from ik_service.solver.rows.binding import RowKind, has_row_tolerances, is_constraint
from ik_service.solver.rows.blocks import BatchState, Rows, RowTapes
from ik_service.solver.rows.layout import Support
from ik_service.solver.rows.weights import scale_jacobian, scale_residuals
from ik_service.solver.staged.assessment import accept, assess, propose
from ik_service.solver.staged.attempts import collect, idle_slots, mark_stopped, rank_ended, refill, write_seeds
from ik_service.solver.staged.hook_checks import check_jacobians, compute_on_host
from ik_service.solver.staged.targets_met import contact_kernel, meet_rows, meet_target
from objectives.expression.rows import ROW_TOLERANCES

NOT_CHECKED = -1  # in place of the version of the collision data
ITERATIONS_PER_LAUNCH = 4  # recorded iterations between two tests for the end
# Candidate k tries this factor on the damping and this share of the step.
CANDIDATE_DAMPING = (1.0, 0.1, 10.0, 1.0, 0.01, 100.0, 1.0, 0.001)
CANDIDATE_SCALE = (1.0, 1.0, 1.0, 0.5, 1.0, 1.0, 0.25, 1.0)


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def _spread(problem_idx: wp.array[wp.int32], candidates: int, problem_idx_out: wp.array[wp.int32]):
    i = wp.tid()
    problem_idx_out[i] = problem_idx[i / candidates]


class AttemptBatch:
    """A fixed number of slots for the attempts at any number of problems."""

    def __init__(
        self,
        model: DeviceModel,
        rows: Rows,  # layout of the objectives; bound to this batch here
        support: Support,
        problems: Problems,  # data and answers of the problems
        slot_count: int,  # attempts in flight
        options: SolverOptions,
        # collision geometry; None where the robot has no collision model
        collision: CollisionData | None = None,
    ) -> None:
        device, candidates = model.device, options.candidates
        self.slot_count = slot_count
        self._model, self._rows, self._support, self._problems = model, rows, support, problems
        self._active = active_dofs(model)
        self._hard_limits = options.joint_limits == "hard"
        self._limits: LimitArrays | None = None
        self.use_limits()
        self._slots = idle_slots(slot_count, model.robot.trees.ntree, device)
        own_idx, has_gradients = self._slots.problem_idx, rows.has_gradients
        self._accepted = BatchState.allocate(model, slot_count, rows.count, own_idx, requires_grad=has_gradients)
        trial_idx = self._slots.problem_idx
        if candidates > 1:
            trial_idx = wp.zeros(slot_count * candidates, dtype=wp.int32, device=device)
        self._trials = BatchState.allocate(model, slot_count * candidates, rows.count, trial_idx, requires_grad=False)
        for poses in (self._accepted, self._trials):  # slots before their first attempt are evaluated, too
            poses.joint_q.assign(np.tile(model.robot.mid_joint_q.astype(np.float32), (len(poses.joint_q), 1)))
        per_dof = (slot_count, model.joint_dof_count)
        self._joint_S_s = wp.zeros(per_dof, dtype=typing.cast(type, wp.spatial_vector), device=device)
        self._jacobian = wp.zeros((slot_count, rows.count, model.joint_dof_count), dtype=float, device=device)
        self._equations = allocate_equations(problems.islands, slot_count, candidates)
        self._tangent = wp.zeros((slot_count, model.active_dof_count), dtype=float, device=device)
        self._candidate_damping: wp.array[typing.Any] = wp.array(
            CANDIDATE_DAMPING[:candidates], dtype=float, device=device
        )
        self._step_scale: wp.array[typing.Any] = wp.array(CANDIDATE_SCALE[:candidates], dtype=float, device=device)
        trees = model.robot.trees.body_treeid
        self._body_tree: wp.array[typing.Any] = wp.array(trees, dtype=wp.int32, device=device)
        self._next_attempt = wp.zeros(1, dtype=wp.int32, device=device)
        self._running_count = wp.zeros(1, dtype=wp.int32, device=device)
        rows.bind(slot_count, self._slots.problem_idx)
        self._tapes = RowTapes(rows, self._accepted)
        self._graph: wp.Graph | None = None
        self._collision, self._checked = collision, NOT_CHECKED
        if collision is not None:
            self._contacts = contact_kernel(collision.size)
            load_kernels_alone(self._contacts.module, device)

    def check_collision(self, *, checked: bool) -> None:
        """Set whether the attempts of the next runs are checked for collision."""
        version = self._collision.version if checked and self._collision is not None else NOT_CHECKED
        if version != self._checked:
            self._checked = version
            self._slots.depth.zero_()
            self.forget_graph()

    def use_limits(self) -> None:
        """Set the present limits of the problems."""
        limits, model = self._problems.limits, self._model
        if limits is not self._limits:
            self._limits, self._ranges = limits, seed_ranges(model, self._support.active_dofs, limits.draws)
            self._coordinates = coordinates_of(model, limits.float32, hard_limits=self._hard_limits)
            self.forget_graph()

    def run(self, count: int, use_graph: bool, check: bool = False, deadline_s: float | None = None) -> None:
        """Iterate until every problem has its answer, or until the deadline, counted from the end of recording."""
        # With `check` the Jacobian is compared with finite differences at the first starts; ObjectiveError if wrong
        use_graph = use_graph and not self._rows.on_host
        if check or (use_graph and self._graph is None):
            self._begin()
        if check:
            self._rows.compute_residuals(self._accepted, self._tapes)
            self._rows.compute_jacobian(self._accepted, self._joint_S_s, self._jacobian, self._tapes)
            check_jacobians(self._model, self._rows, self._accepted, self._jacobian)
        if use_graph and self._graph is None:
            self._graph = self._record()
        if deadline_s is None:
            self._work(use_graph)
        else:
            with stopped_after(self._problems, deadline_s):
                self._work(use_graph)
                problems = self._problems
                inputs = [problems.settings, problems.islands, self._next_attempt, problems.best]
                self._launch(mark_stopped, (count,), *inputs)

    def _work(self, use_graph: bool) -> None:
        """Hand out the attempts, and iterate until none runs."""
        self._begin()
        while self._running_count.numpy()[0] > 0:
            if use_graph and self._graph is not None:
                wp.capture_launch(self._graph)
            else:
                self._iterate()

    def forget_graph(self) -> None:
        """Drop the recorded iteration, because one of its arrays has been exchanged."""
        self._graph = None

    def _begin(self) -> None:
        self._slots.phase.fill_(IDLE)
        self._slots.running.zero_()
        self._slots.problem_idx.zero_()
        self._problems.best.rank.fill_(UNRANKED)
        self._next_attempt.zero_()
        self._refill()

    def _refill(self) -> None:
        problems, slots, joint_q = self._problems, self._slots, self._accepted.joint_q
        islands, settings = problems.islands, problems.settings
        self._running_count.zero_()
        inputs = [settings, islands, problems.best, problems.start_joint_q, slots, joint_q, self._trials.joint_q]
        self._launch(refill, slots.seed.shape, *inputs, self._next_attempt, self._running_count)
        inputs = [self._coordinates, settings, self._ranges, problems.tree_hash, islands, slots, self._tangent, joint_q]
        self._launch(write_seeds, slots.phase.shape, *inputs)
        trial_idx = self._trials.problem_idx
        if trial_idx is not slots.problem_idx:
            self._launch(_spread, trial_idx.shape, slots.problem_idx, self._candidate_damping.shape[0], trial_idx)

    def _launch(self, kernel: typing.Any, dim: tuple[int, ...], *inputs: object) -> None:
        wp.launch(kernel, dim, inputs, device=self._model.device)

    def _scale(self, kernel: typing.Any, poses: BatchState, rows: "wp.array[typing.Any]") -> None:
        """Multiply lower-priority rows with their factor, if there are any."""
        if self._rows.secondary or self._rows.of_kind(RowKind.CONSTRAINT):
            inputs = [self._problems.priorities, self._problems.islands, poses.problem_idx, self._slots.stage, rows]
            self._launch(kernel, rows.shape[:1], *inputs)

    def _iterate(self) -> None:
        """Evaluate, decide, step, evaluate, accept; then give finished slots their next attempt."""
        problems, slots, equations = self._problems, self._slots, self._equations
        accepted, trials, islands, joint_q = self._accepted, self._trials, problems.islands, self._accepted.joint_q
        instances, candidates = (slots.problem_idx, slots.running), self._candidate_damping
        per_island, each_candidate = slots.phase.shape, (self.slot_count, candidates.shape[0], slots.phase.shape[1])
        self._rows.compute_residuals(accepted, self._tapes, slots.stale)
        self._rows.compute_jacobian(accepted, self._joint_S_s, self._jacobian, self._tapes)
        self._support.record_check(self._jacobian, slots.running)
        self._scale(scale_residuals, accepted, accepted.residuals)
        self._scale(scale_jacobian, accepted, self._jacobian)
        normal_equations(self._active, islands, instances, (accepted.residuals, self._jacobian), equations)
        solve = [problems.settings, problems.best, problems.lightest2, problems.heaviest2]
        rows = [islands, problems.priorities]
        self._launch(assess, per_island, self._coordinates, *rows, *solve, joint_q, slots, equations)
        for k, weights in zip(self._rows.of_kind(RowKind.TARGET), problems.row_weights, strict=True):
            target = [self._rows.start[k], weights, problems.tolerances, islands, problems.priorities]
            self._launch(meet_target, slots.seed.shape, *target, accepted.residuals, slots)
        for start, objective in zip(self._rows.start, self._rows.objectives, strict=True):
            if has_row_tolerances(objective):
                own = [start, objective.weight, objective.row_weights(), objective.data(ROW_TOLERANCES)]
                own += [ATTEMPT_SLACK if is_constraint(objective) else 1.0, islands, problems.priorities]
                self._launch(meet_rows, slots.seed.shape, *own, accepted.residuals, slots)
        if self._collision is not None and self._checked != NOT_CHECKED:
            data = self._collision
            spheres = data.spheres(range(self._model.robot.trees.ntree))
            self._launch(
                self._contacts, slots.seed.shape, islands, joint_q, spheres, data.worlds, data.clearance, slots
            )
        self._launch(rank_ended, per_island, problems.settings, slots, problems.best)
        self._launch(collect, per_island, islands, joint_q, slots, problems.best)
        damped_steps(islands, instances, (slots.damping, candidates, self._step_scale), equations)
        self._launch(propose, each_candidate, self._coordinates, islands, slots, joint_q, equations, trials.joint_q)
        self._rows.compute_residuals(trials)
        self._scale(scale_residuals, trials, trials.residuals)
        trial = [candidates, trials.joint_q, trials.body_q, trials.residuals, equations]
        self._launch(accept, per_island, islands, self._body_tree, *trial, slots, joint_q, accepted.body_q)
        self._refill()

    def _record(self) -> wp.Graph | None:
        """Run one iteration, to load every kernel, and record a few as a graph without running them."""
        # None while launches of other threads are running, or for an objective with code on the host
        self._iterate()
        with recording() as may_record:
            if not may_record:
                return None
            if self._rows.on_host is None:
                own = (self._joint_S_s, self._jacobian, self._tapes)
                self._rows.on_host = compute_on_host(self._rows, self._accepted, *own)
            if self._rows.on_host:
                return None
            with wp.ScopedCapture(device=self._model.device) as capture:
                for _ in range(ITERATIONS_PER_LAUNCH):
                    self._iterate()
        graph: wp.Graph = capture.graph
        return graph
