"""The call that chooses among candidates, of an `IKSolver`."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from ik_service.collision.world import AttachedObject, World
from ik_service.mechanism.caller_order import CallerOrder
from ik_service.robots import RobotModel
from ik_service.solver.candidate_motions import CandidateMotions
from ik_service.solver.candidate_race import CandidateRace
from ik_service.solver.candidate_values import CandidateValues
from ik_service.solver.candidates import CandidateResult, Choice, Criterion, check_choice, read_groups, read_via
from ik_service.solver.compiled.self_motion_samples import last_dof
from ik_service.solver.deadline import with_time_left
from ik_service.solver.given.batch import Batch
from ik_service.solver.given.options import SolverOptions
from ik_service.solver.given.reading import check_one_line, raise_fault, read_problems
from ik_service.solver.result import IKResult, ResultHead
from ik_service.solver.second_tries.second_tries import SecondTries
from objectives import InputError

SAMPLED = frozenset(("limit_margin", "manipulability"))  # criteria with values of samples of self-motions


class CandidateSolving:
    """The part of a solver that chooses among candidates."""

    robot: RobotModel
    options: SolverOptions
    wxyz: bool
    _order: CallerOrder
    _solves: SecondTries
    _own_head: ResultHead

    def solve_any(  # noqa: D417  # the other arguments are those of `solve`
        self,
        positions: Any = None,
        orientations_xyzw: Any = None,
        *,
        group: Any = None,
        criterion: Criterion = "first",
        cost: Any = None,
        via: "tuple[Any, Any, float] | None" = None,
        good_enough: float | None = None,
        group_count: int | None = None,
        initial_joint_q: Any = None,
        offset: Any = None,
        row_weights: Any = None,
        tolerance: Any = None,
        constraint_enabled: Any = None,
        world: "World | Sequence[World] | None" = None,
        world_index: Any = None,
        object_enabled: Any = None,
        attached: "Mapping[str, AttachedObject] | None" = None,
        joint_limits: Any = None,
        frozen: Any = None,
        max_change: Any = None,
        options: "dict[str, object] | SolverOptions | None" = None,
    ) -> CandidateResult:
        """Choose among candidates: one answer for each group of targets, such as one grasp among thousands.

        Candidates are tried with few seeds, then with more, as long as their group may get better. A candidate that is
        proven to be out of reach or blocked costs no seed. The search is a heuristic: a better answer may exist.
        Answers do not depend on threads or on other groups, and on the order of candidates only with "first", with
        `good_enough`, and where values are equal.

        Args:
            positions: Targets of the candidates, a line each, as in `solve`.
            orientations_xyzw: Orientations, in the same way.
            group: Group of each candidate, whole numbers from 0 to n - 1, [n]; None for a single group.
            criterion: Value of an answer; lower is better, and of equal values with equal seeds the lowest index wins.
                "first" is 0 for every success; "nearest" the largest change of a joint from `initial_joint_q` [rad or
                m], whole turns counted; "clearance" minus the clearance [m]; "manipulability" minus the manipulability,
                the least of all targets; "limit_margin" minus the least distance of a moving joint from a limit [rad or
                m].
            cost: A number for each candidate, added to its value, [n]; None for 0. With "first" the candidate of least
                cost that succeeds is chosen.
            via: A second pose of each candidate, as (positions, orientations_xyzw, max_change), which has to be reached
                from the answer with no joint moving further from it than `max_change` [rad or m], in the same world and
                limits.
            good_enough: Value at which a group is done, with candidates in order of cost and index; None for the best.
            group_count: Number of groups, of which some may be empty; None for the largest of `group` and one.
            options: These and all others as in `solve`. The option `seeds` is the most for a candidate, 256 by
                default; `best_of`, `solutions` and `want` have no effect.

        Raises:
            UnknownNameError: The robot has no loop or DOF of a name, or no link that carries an object.
            InputError: A value that is not allowed, or an objective with data for every problem.
            EngineError: The compiled engine cannot hold an island of this problem.
            KernelCacheError: Compiled kernels can be neither read nor kept.
        """
        chosen = self.options if options is None else self.options.of_solve(options)
        obstacles, limits = (world, world_index, object_enabled, attached), (joint_limits, frozen, max_change)
        poses, data = (positions, orientations_xyzw, None), (offset, row_weights, tolerance)
        targets, given = self._solves.core.targets.all, (poses, data, initial_joint_q, constraint_enabled)
        batch = read_problems(self.robot, self._order, targets, chosen, *given, obstacles, limits, wxyz=self.wxyz)
        count = batch.problem_count
        second = read_via(targets, via, count, wxyz=self.wxyz)
        choice = Choice(read_groups(group, group_count, cost, count), criterion, second, good_enough)
        return self.solve_any_batch(batch, chosen, choice)

    def load_choice(self, criterion: Criterion) -> None:
        """Load the code of a choice beside the code of solves; compile missing code, errors as of `solve_any`."""
        if self._last_dof(criterion) is not None:
            self._solves.core.load_self_motions()

    def _last_dof(self, criterion: Criterion) -> int | None:
        """Return the active DOF of the last joint of an arm with sampled self-motions; None for others."""
        core = self._solves.core
        return last_dof(core.engine) if criterion in SAMPLED and not core.model.device.is_cuda else None

    def solve_any_batch(self, batch: Batch, options: SolverOptions, choice: Choice) -> CandidateResult:
        """Choose among checked candidates, as the service reads them: `solve_any` without the reading of its arrays.

        Args:
            batch: The candidates; quaternions are xyzw, and coordinates are in the robot's own order.
            options: As in `solve_any`.
            choice: Groups, criterion, second poses, and the value that ends a group.

        Raises:
            InputError: A criterion without its data, a number that is not finite, or data for every problem.
            EngineError: The compiled engine cannot hold an island of this problem.
            KernelCacheError: Compiled kernels can be neither read nor kept.
        """
        core, began, robot = self._solves.core, time.monotonic(), self.robot
        check_choice(robot, batch, choice)
        if core.engine.name == "staged" and choice.criterion != "first":
            raise InputError(f"criterion={choice.criterion!r} needs the compiled engine; this solver is staged.")
        check_one_line(core.objectives, (), "among candidates", "candidates")

        def solve(part: Batch, own: SolverOptions) -> IKResult | None:
            with core.data_of(part):
                return self._solves.solve(self._own_head, part._replace(lines=None), with_time_left(own, began))

        values = CandidateValues(robot, batch.targets or core.targets.all, batch, choice.criterion)
        last, motions, limits = self._last_dof(choice.criterion), None, batch.limits
        moves = options.seeds is None and (limits is None or bool((limits.lower < limits.upper).all()))
        if last is not None and moves:

            def sample(part: Batch) -> tuple[NDArray[Any], ...] | None:
                own = core.data_of(part) if part.targets is None else self._solves.using_targets(part.targets)
                with own:
                    return core.self_motions(part._replace(lines=None, targets=None), one_seed)

            one_seed = replace(options, seeds=1, solutions=1, best_of=None)
            motions = CandidateMotions(sample, last, values, *choice.groups[::2])
        result = CandidateRace(solve, batch, options, choice, values, motions).result(self._order)
        if result is None:
            given = [*batch.positions], [*batch.orientations_xyzw], batch.start, None
            raise_fault(robot, CallerOrder(robot, None), core.targets.all, given)
        return result
