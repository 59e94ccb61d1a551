"""The solves of one solver, and second tries for unsolved problems.

    starts with loops opened -> the solve -> combinations of islands in contact -> targets alone -> repair -> result

Later results are used only where they succeed, and only if one solution of each problem is requested. Exports, solves
on the device and `IKSolver.solve_as_recorded` run the solve alone.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ik_service.mechanism.caller_order import CallerOrder
from ik_service.robots import RobotModel
from ik_service.solver.construction import SolverSetup
from ik_service.solver.deadline import TIME_LEFT_MIN_S, with_time_left
from ik_service.solver.given.batch import Batch
from ik_service.solver.given.options import SolverOptions
from ik_service.solver.given.reading import has_lines_per_problem
from ik_service.solver.given.targets import Target
from ik_service.solver.result import IKResult, ResultHead, replace_by_successes
from ik_service.solver.rows.binding import is_secondary
from ik_service.solver.second_tries.collision_repair import CollisionRepair
from ik_service.solver.second_tries.free_combinations import FreeCombinations
from ik_service.solver.second_tries.target_solves import OpenedLoops, TargetsAlone, TargetSolve
from ik_service.solver.solve import SolverCore
from objectives import IKObjective
from objectives.expression.expression_objective import ExpressionObjective

SecondTry: TypeAlias = FreeCombinations | TargetsAlone | CollisionRepair
"""A search for answers to problems that ended with certain statuses; a second solve, without the deadline, verifies the
configurations."""


class SecondTries:
    """The solves of one solver, with second tries for problems left unsolved."""

    def __init__(
        self,
        robot: RobotModel,
        targets: Sequence[Target | str],
        objectives: Sequence[IKObjective],
        setup: SolverSetup,
    ) -> None:
        core = self.core = SolverCore(robot, targets, objectives, setup)
        self.rehearses = False  # whether solves run all passes, to load code; answers are discarded
        self._opened = OpenedLoops(robot, partial(_solver_of_targets, replace(setup, join=False), exact=True))
        hard_limits = setup.options.joint_limits == "hard"
        self._combinations, self._repair = FreeCombinations(core), CollisionRepair(core, hard_limits=hard_limits)
        self._alone: TargetsAlone | None = None
        if targets and objectives and all(map(is_secondary, objectives)) and hard_limits:
            self._alone = TargetsAlone(core, partial(_solver_of_targets, setup, robot, exact=False))

    def solve(
        self, head: ResultHead, batch: Batch, options: SolverOptions, judged: NDArray[Any] | None = None
    ) -> IKResult | None:
        """Solve problems, or judge configurations [problems, joint_coord_count]; None for a faulty number."""
        if batch.targets is not None:
            with self.using_targets(batch.targets):
                return self.solve(head, batch._replace(targets=None, lines=None), options, judged)
        began = time.monotonic()
        guess = self.opened_starts(batch, options)
        own = options if guess is None else with_time_left(options, began)
        result = self.core.solve(head, batch, own, guess=guess, judged=judged)
        if result is None or judged is not None or options.solutions != 1:
            return result
        is_left = self.rehearses or not result.success.all()
        if is_left or options.repair:  # repair loads its code in every solve
            passes = self._passes(batch, options)
            if passes and is_left:
                self._improve(passes, head, result, batch, options, began)
        return result

    def opened_starts(self, batch: Batch, options: SolverOptions) -> NDArray[Any] | None:
        """Return solutions with the loops opened, the starts where none are given; None for a robot without loops."""
        if not self.core.robot.loops or batch.start is not None or batch.limits is not None:
            return None
        self.core.check(batch)
        return self._opened.starts(self.core.targets.all, batch, options)

    @contextmanager
    def using_targets(self, targets: tuple[Target, ...] | None) -> Iterator[None]:
        """Use other data of the targets in a block, None for their own; the targets of the solver stay."""
        own = self.core.targets.all
        self.core.targets.take(own if targets is None else targets)
        try:
            yield
        finally:
            self.core.targets.take(own)

    def _passes(self, batch: Batch, options: SolverOptions) -> list[SecondTry]:
        """Return the second tries of a batch, in order, with their code loaded."""
        may_touch = batch.worlds is not None
        found: list[SecondTry] = [self._combinations] if may_touch else []
        if self._alone is not None:
            found.append(self._alone)
        if may_touch and options.repair and not self.core.robot.loops:
            self._repair.load()
            found.append(self._repair)
        return found

    def _improve(
        self,
        passes: Sequence[SecondTry],
        head: ResultHead,
        result: IKResult,
        batch: Batch,
        options: SolverOptions,
        began: float,
    ) -> None:
        """Search for answers of unsolved problems, pass by pass, until the deadline since `began` is over."""
        core, joint_q = self.core, None
        if any(has_lines_per_problem(one) and not isinstance(one, ExpressionObjective) for one in core.objectives):
            return  # their data cannot be limited to some problems
        without_end = replace(options, deadline_s=None)
        time_left = partial(with_time_left, without_end if self.rehearses else options, began)
        for second_try in passes:
            tried = np.isin(result.status, second_try.statuses) & (result.proof == 0)
            tried[:1] |= self.rehearses
            rows = np.flatnonzero(tried & second_try.can_help(result, batch))
            if not len(rows) or time_left().deadline_s == TIME_LEFT_MIN_S:
                continue
            if joint_q is None:  # in the robot's order; further solves overwrite the array
                is_float64 = result.joint_q.dtype == np.float64
                found = core.work.verification.read(batch.problem_count, float64_finish=is_float64)
                joint_q = np.array(found["joint_q"])
            part = batch.part(rows)
            chosen, is_found = second_try.search(part, time_left, joint_q[rows])
            if not is_found.any():
                continue
            rows, chosen = rows[is_found], chosen[is_found]
            judged, judging = second_try.judging(part.part(np.flatnonzero(is_found)), chosen, without_end)
            if options.deadline_s is not None:
                judging = replace(judging, seeds=1)
            with core.data_of(judged):
                solved = core.solve(head, judged, judging, judged=chosen)
            assert solved is not None  # the numbers were checked in the first solve
            replace_by_successes(result, rows, solved)


def _solver_of_targets(setup: SolverSetup, robot: RobotModel, targets: Sequence[Target], *, exact: bool) -> TargetSolve:
    """Return a solver of these targets without further rows."""
    # With `exact`: with the finest finish of the engine, without second tries
    solves = SecondTries(robot, targets, (), setup)
    core = solves.core
    head = ResultHead(robot, CallerOrder(robot, None), core.row_labels(), core.engine.name, str(setup.device))

    def solve(targets: tuple[Target, ...], batch: Batch, options: SolverOptions) -> IKResult | None:
        core.targets.take(targets)
        with core.data_of(batch):
            own = batch._replace(lines=None)
            if exact:
                return core.solve(head, own, replace(options, precision=core.engine.finish))
            return solves.solve(head, own, options)

    return solve
