"""The solves of one solver, with further solves that help some of their problems.

    starts with loops opened -> the solve -> combinations of islands in contact -> targets alone -> repair -> result

What is found after the solve is taken only where it succeeds, and only where one solution of each problem is wanted.
Exports, solves on the device and `IKSolver.solve_as_recorded` have the solve alone.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.mechanism.caller_order import CallerOrder
from ik_service.robots import RobotModel
from ik_service.solver.construction import SolverSetup
from ik_service.solver.core import SolverCore
from ik_service.solver.given.options import SolverOptions
from ik_service.solver.given.targets import Target
from ik_service.solver.launches.deadline import TIME_LEFT_MIN_S, with_time_left
from ik_service.solver.launches.result import IKResult, ResultHead, replace_by_successes
from ik_service.solver.problem_batch import ProblemBatch, can_be_parted
from ik_service.solver.rows.binding import is_secondary
from ik_service.solver.second_tries.collision_repair import CollisionRepair
from ik_service.solver.second_tries.free_combinations import FreeCombinations
from ik_service.solver.second_tries.opened_loops import OpenedLoops
from ik_service.solver.second_tries.targets_alone import Fallback, TargetsAlone, TargetSolve
from objectives import IKObjective


class AssistedSolves:
    """A solver's core, and what else is solved for its problems."""

    def __init__(
        self,
        robot: RobotModel,
        targets: Sequence[Target | str],
        objectives: Sequence[IKObjective],
        setup: SolverSetup,
    ) -> None:
        core = SolverCore(robot, targets, objectives, setup)
        # core: rows, arrays and engine
        # rehearses: whether a solve does all further solves, so that their code is loaded; its answers are not to be
        # used
        self.core, self.rehearses = core, False
        self._opened = OpenedLoops(robot, partial(_solver_of_targets, replace(setup, join=False), alone=True))
        hard_limits = setup.options.joint_limits == "hard"
        self._combinations, self._repair = FreeCombinations(core), CollisionRepair(core, hard_limits=hard_limits)
        self._alone: TargetsAlone | None = None
        if targets and objectives and all(map(is_secondary, objectives)) and hard_limits:
            self._alone = TargetsAlone(core, partial(_solver_of_targets, setup, robot, alone=False))

    def solve(
        self, head: ResultHead, batch: ProblemBatch, options: SolverOptions, judged: NDArray[Any] | None = None
    ) -> IKResult | None:
        """Solve problems, or judge configurations [problems, joint_coord_count]; None for a faulty number."""
        began, guess = time.monotonic(), None
        if self.core.robot.loops and batch.start is None and batch.limits is None:
            self.core.check(batch)
            guess = self._opened.starts(self.core.targets.all, batch, options)
        own = options if guess is None else with_time_left(options, began)
        result = self.core.solve(head, batch, own, guess=guess, judged=judged)
        may_help = batch.worlds is not None or self._alone is not None
        if may_help and result is not None and judged is None and options.solutions == 1:
            self._fall_back(head, result, batch, options, began)
        return result

    def _fallbacks(self, batch: ProblemBatch, options: SolverOptions) -> list[Fallback]:
        """Return the searches for answers where the solve has none, in order."""
        may_touch = batch.worlds is not None
        found: list[Fallback] = [self._combinations] if may_touch else []
        if self._alone is not None:
            found.append(self._alone)
        if may_touch and options.repair and not self.core.robot.loops:
            self._repair.load()
            found.append(self._repair)
        return found

    def _fall_back(
        self, head: ResultHead, result: IKResult, batch: ProblemBatch, options: SolverOptions, began: float
    ) -> None:
        """Look for answers of problems that are not solved, until the deadline since `began` is over."""
        core, joint_q, fallbacks = self.core, None, self._fallbacks(batch, options)
        if result.success.all() and not self.rehearses:
            return
        if not all(map(can_be_parted, core.objectives)):
            return
        without_end = replace(options, deadline_s=None)
        time_left = partial(with_time_left, without_end if self.rehearses else options, began)
        for fallback in fallbacks:
            tried = np.isin(result.status, fallback.statuses)
            tried[:1] |= self.rehearses
            rows = np.flatnonzero(tried & fallback.can_help(result, batch))
            if not len(rows) or time_left().deadline_s == TIME_LEFT_MIN_S:
                continue
            if joint_q is None:  # in the robot's order; further solves write where it is
                found = core.work.verification.read(batch.size, float64_finish=result.joint_q.dtype == np.float64)
                joint_q = np.array(found["joint_q"])
            part = batch.part(rows)
            chosen, is_found = fallback.search(part, time_left, joint_q[rows])
            if not is_found.any():
                continue
            rows, chosen = rows[is_found], chosen[is_found]
            judged, judging = fallback.judging(part.part(np.flatnonzero(is_found)), chosen, without_end)
            if options.deadline_s is not None:
                judging = replace(judging, seeds=1)
            with judged.data_of(core.targets, core.objectives):
                solved = core.solve(head, judged, judging, judged=chosen)
            assert solved is not None  # the same numbers were sound before
            replace_by_successes(result, rows, solved)


def _solver_of_targets(setup: SolverSetup, robot: RobotModel, targets: Sequence[Target], *, alone: bool) -> TargetSolve:
    """Return a solver of these targets without further rows."""
    # With `alone` it goes without further solves, and is finished as finely as the engine can
    solves = AssistedSolves(robot, targets, (), setup)
    core = solves.core
    head = ResultHead(robot, CallerOrder(robot, None), core.row_labels(), core.engine.name, str(setup.device))

    def solve(targets: tuple[Target, ...], batch: ProblemBatch, options: SolverOptions) -> IKResult | None:
        core.targets.take(targets)
        with batch.data_of(core.targets, ()):
            own = batch._replace(lines=None)
            if alone:
                return core.solve(head, own, replace(options, precision=core.engine.finish))
            return solves.solve(head, own, options)

    return solve
