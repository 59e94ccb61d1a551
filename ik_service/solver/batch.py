"""The slots of a batch at work: one iteration as a list of launches, recorded once and replayed until all is done."""

import threading
import typing

import numpy as np
import warp as wp

from ik_service.linear_solve import damped_steps, normal_equations
from ik_service.robots import DeviceModel
from ik_service.solver.attempts import IDLE, UNRANKED, Slots, collect_and_refill, rank_ended
from ik_service.solver.jacobian_check import check_jacobians
from ik_service.solver.levenberg_marquardt import Equations, accept, assess, propose
from ik_service.solver.options import SolverOptions
from ik_service.solver.problems import Problems
from ik_service.solver.rows import Poses, Rows, RowTape
from ik_service.solver.seeds import SeedRanges, write_seeds
from ik_service.solver.tolerances import meet_target

ITERATIONS_PER_LAUNCH = 4  # recorded iterations between two looks at whether all is done
# Candidate k tries this factor on the damping and this share of the step.
CANDIDATE_DAMPING = (1.0, 0.1, 10.0, 1.0, 0.01, 100.0, 1.0, 0.001)
CANDIDATE_SCALE = (1.0, 1.0, 1.0, 0.5, 1.0, 1.0, 0.25, 1.0)
CAPTURE_LOCK = threading.Lock()  # Warp records one CPU graph at a time per process


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def _spread(problem_idx: wp.array[wp.int32], candidates: int, problem_idx_out: wp.array[wp.int32]):
    i = wp.tid()
    problem_idx_out[i] = problem_idx[i / candidates]


class Batch:
    """A fixed number of slots that work through the attempts of any number of problems.

    Args:
        model: The robot on the device.
        rows: Layout of the objectives; bound to this batch here.
        ranges: Where start configurations are drawn.
        target_rows: First row of every pose target.
        slot_count: Attempts in flight.
        options: The solver's options.
    """

    def __init__(
        self,
        model: DeviceModel,
        rows: Rows,
        ranges: SeedRanges,
        target_rows: list[int],
        slot_count: int,
        options: SolverOptions,
    ) -> None:
        robot, device, candidates = model.robot, model.device, options.candidates
        self.slot_count = slot_count
        self._model, self._rows, self._ranges, self._target_rows = model, rows, ranges, target_rows
        self._slots = Slots.allocate(slot_count, device)
        self._accepted = Poses.allocate(model, slot_count, rows.count, self._slots.problem_idx, requires_grad=False)
        trial_idx = self._slots.problem_idx
        if candidates > 1:
            trial_idx = wp.zeros(slot_count * candidates, dtype=wp.int32, device=device)
        self._trials = Poses.allocate(model, slot_count * candidates, rows.count, trial_idx, requires_grad=False)
        for poses in (self._accepted, self._trials):  # slots that have had no attempt yet are evaluated all the same
            poses.joint_q.assign(np.tile(robot.mid_joint_q.astype(np.float32), (len(poses.joint_q), 1)))
        per_dof = (slot_count, model.joint_dof_count)
        self._joint_S_s = wp.zeros(per_dof, dtype=typing.cast(type, wp.spatial_vector), device=device)
        shape = (slot_count, rows.count, model.joint_dof_count)
        self._jacobian = wp.zeros(shape, dtype=float, device=device)
        self._equations = Equations.allocate(slot_count, candidates, robot.active_dof_count, device)
        self._jacobian_active = self._jacobian
        if not np.array_equal(robot.active_dof, np.arange(robot.joint_dof_count)):
            self._jacobian_active = wp.zeros(
                (slot_count, rows.count, robot.active_dof_count), dtype=float, device=device
            )
        self._damping_factor: wp.array[typing.Any] = wp.array(
            CANDIDATE_DAMPING[:candidates], dtype=float, device=device
        )
        self._step_scale: wp.array[typing.Any] = wp.array(CANDIDATE_SCALE[:candidates], dtype=float, device=device)
        self._next_attempt = wp.zeros(1, dtype=wp.int32, device=device)
        self._running_count = wp.zeros(1, dtype=wp.int32, device=device)
        coordinate = robot.dof_coordinate[robot.active_dof]
        self._active_coordinate: wp.array[typing.Any] = wp.array(coordinate, dtype=wp.int32, device=device)
        self._active = _active_map(model)
        self._limits = _enforced_limits(model, options.joint_limits == "hard")
        rows.bind(slot_count, self._slots.problem_idx)
        self._tape = RowTape(rows, slot_count, self._slots.problem_idx) if any(rows.taped) else None
        self._graph: wp.Graph | None = None

    def run(self, problems: Problems, use_graph: bool, check: bool = False) -> None:
        """Work until every problem has its answer in `problems.winners`.

        Args:
            problems: Data and answers; the same object as at the last call, unless `forget_graph` was called since.
            use_graph: Whether to record an iteration and replay it.
            check: Whether to compare the Jacobian with finite differences at the first start configurations.

        Raises:
            ObjectiveError: `check` found a wrong Jacobian.
        """
        self._begin(problems)
        if check:
            self._rows.compute_residuals(self._accepted)
            self._rows.compute_jacobian(self._accepted, self._joint_S_s, self._jacobian, self._tape)
            check_jacobians(self._model, self._rows, self._accepted, self._jacobian)
        if use_graph and self._graph is None:
            self._graph = self._record(problems)
        while self._running_count.numpy()[0] > 0:
            if use_graph and self._graph is not None:
                wp.capture_launch(self._graph)
            else:
                self._iterate(problems)

    def forget_graph(self) -> None:
        """Drop the recorded iteration, because an array that it reads has been exchanged."""
        self._graph = None

    def _begin(self, problems: Problems) -> None:
        """Empty the slots and hand out the first attempts."""
        self._slots.phase.fill_(IDLE)
        self._slots.running.zero_()
        self._slots.problem_idx.zero_()
        problems.winners.rank.fill_(UNRANKED)
        self._next_attempt.zero_()
        self._refill(problems)

    def _refill(self, problems: Problems) -> None:
        self._running_count.zero_()
        counters = (self._next_attempt, self._running_count)
        collect_and_refill(problems.settings, self._slots, problems.winners, self._accepted.joint_q, counters)
        per_problem = (problems.tree_hash, problems.start_joint_q)
        out = (self._equations.gradient, self._accepted.joint_q)
        write_seeds(self._model, problems.settings, self._ranges, per_problem, self._slots, out)
        if self._trials.problem_idx is not self._slots.problem_idx:
            wp.launch(
                _spread,
                dim=self._trials.problem_idx.shape[0],
                inputs=[self._slots.problem_idx, self._damping_factor.shape[0]],
                outputs=[self._trials.problem_idx],
                device=self._model.device,
            )

    def _iterate(self, problems: Problems) -> None:
        """Evaluate, decide, step, evaluate, accept; then give the slots that are done their next attempt."""
        slots, accepted, trials, equations = self._slots, self._accepted, self._trials, self._equations
        self._rows.compute_residuals(accepted)
        self._rows.compute_jacobian(accepted, self._joint_S_s, self._jacobian, self._tape)
        normal_equations(
            self._active,
            slots.running,
            (accepted.residuals, self._jacobian),
            (self._jacobian_active, equations.hessian, equations.gradient),
        )
        coordinates = (self._active_coordinate, *self._limits[2:])
        solve = (problems.settings, problems.winners.rank)
        assess(coordinates, solve, slots, (accepted.joint_q, accepted.residuals), equations)
        for k, start in enumerate(self._target_rows):
            meet_target(k == 0, start, problems.row_weights[k], problems.tolerances, slots, accepted.residuals)
        rank_ended(slots, problems.winners, len(self._target_rows))
        damping = (slots.damping, self._damping_factor, self._step_scale)
        system = (equations.hessian, equations.gradient)
        damped_steps(slots.running, system, equations.held, damping, (equations.factor, equations.step))
        propose(self._model, self._limits, slots.running, equations, (accepted.joint_q, trials.joint_q))
        self._rows.compute_residuals(trials)
        outcome = (trials.joint_q, trials.residuals, equations.predicted)
        accept(self._damping_factor, outcome, slots, accepted.joint_q)
        self._refill(problems)

    def _record(self, problems: Problems) -> wp.Graph:
        """Run one iteration, which loads every kernel, and record a few as a graph, which does not run them."""
        self._iterate(problems)
        with CAPTURE_LOCK, wp.ScopedCapture(device=self._model.device) as capture:
            for _ in range(ITERATIONS_PER_LAUNCH):
                self._iterate(problems)
        graph: wp.Graph = capture.graph
        return graph


def _active_map(model: DeviceModel) -> tuple[wp.array[typing.Any], wp.array[typing.Any], wp.array[typing.Any]]:
    """Offsets, members and multipliers of the DOFs that each active DOF moves."""
    robot = model.robot
    members = [np.flatnonzero(robot.dof_active == a) for a in range(robot.active_dof_count)]
    start = np.cumsum([0] + [len(m) for m in members])
    flat = np.concatenate(members) if members else np.zeros(0, np.int64)
    return (
        wp.array(start, dtype=wp.int32, device=model.device),
        wp.array(flat, dtype=wp.int32, device=model.device),
        wp.array(robot.dof_multiplier[flat], dtype=wp.float32, device=model.device),
    )


def _enforced_limits(
    model: DeviceModel, hard: bool
) -> tuple[wp.array[typing.Any], wp.array[typing.Any], wp.array[typing.Any], wp.array[typing.Any]]:
    """Limits of all DOFs and of the active ones; infinite where they are not enforced."""
    if hard:
        return model.joint_limit_lower, model.joint_limit_upper, model.active_limit_lower, model.active_limit_upper

    def unlimited(count: int, value: float) -> wp.array[typing.Any]:
        return wp.full(count, value, dtype=wp.float32, device=model.device)

    dofs, active = model.joint_dof_count, model.active_dof_count
    return unlimited(dofs, -np.inf), unlimited(dofs, np.inf), unlimited(active, -np.inf), unlimited(active, np.inf)
