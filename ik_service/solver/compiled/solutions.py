"""The choice among all attempts of a problem: the best attempt, and several distinct ones.

starts -> attempts [problem x seed], each with its own answer in the joints of its rows; for solutions from the branches
of an arm first, then in the order of seeds, in rounds, until there are enough or none is new
-> each attempt on the turns nearest the start
-> per island the best by cost or nearness to the start, then the best attempt distinct from all chosen so far
-> best attempts, and solutions composed over islands -> verdict of each solution
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.kernels.host_device_array import HostDeviceArray
from ik_service.mechanism.coupling import complete_joint_q
from ik_service.robots import DeviceModel
from ik_service.solver.arrays.partition import Partition
from ik_service.solver.arrays.problem_arrays import Problems, allocate_attempts
from ik_service.solver.compiled.branch_verdict import keep_branches
from ik_service.solver.compiled.solution_kernels import (
    begin_choice,
    begin_round,
    choose_branches,
    choose_next,
    end_choice,
    keep_verified,
    take_solution,
    turn_attempts,
)
from ik_service.solver.compiled.solution_ranking import (
    ORDERS,
    AttemptArrays,
    coordinate_kinds,
)
from ik_service.solver.recording import KeptRecording, PartLaunches, Step, per_problem
from ik_service.solver.workspace import Workspace
from objectives import InputError

ROUND_SEEDS = 16  # of a round, for solutions in the order of seeds
LANES_ON_GPUS = 32  # threads for the choice among a problem's attempts; one on a CPU


class SolutionSelection:
    """Room for all attempts of all problems, and the launches of the choice among them."""

    def __init__(
        self,
        model: DeviceModel,
        problems: Problems,
        capacity: int,  # problems with room
        seeds: int,  # attempts at each problem
        solutions: int,  # distinct solutions requested of each
        *,
        only_branches: bool,  # whether no seeds other than branches are tried
        of_arm: bool,  # whether the solutions are of one arm with one target
    ) -> None:
        device, trees = model.device, model.robot.trees.ntree
        self.capacity, self.seeds, self.solutions, self.only_branches = capacity, seeds, solutions, only_branches
        self._device, self._problems = device, problems
        # the attempts; attempt s of problem p is in line `p * seeds + s`
        self.attempts = allocate_attempts(capacity * seeds, model.joint_coord_count, trees, device)
        # number of distinct solutions of each problem, [capacity]
        self.solution_count = HostDeviceArray((capacity,), wp.int32, device)
        # branch code of each solution, [capacity, solutions], and whether there are no others, [capacity]
        self.branch = HostDeviceArray((capacity, solutions), wp.int32, device)
        self.complete = HostDeviceArray((capacity,), wp.int32, device)
        # of the solutions that pass the verdict: number, first one, branches and configurations
        self.kept, self.first_kept = (HostDeviceArray((capacity,), wp.int32, device) for _ in range(2))
        self.kept_branch = HostDeviceArray((capacity, solutions), wp.int32, device)
        self.kept_joint_q = HostDeviceArray((capacity, solutions, model.joint_coord_count), wp.float32, device)
        # whether further seeds may lead to further solutions, [capacity]
        self.unfinished = HostDeviceArray((capacity,), wp.int32, device)
        self._order = HostDeviceArray((2,), wp.int32, device, per_problem=False)
        # least difference of two solutions, [1]
        self.difference = HostDeviceArray((1,), wp.float32, device, per_problem=False)
        self._made = wp.zeros(capacity, dtype=wp.int32, device=device)
        self._least = wp.zeros((capacity, trees), dtype=wp.int64, device=device)
        self._value = wp.zeros((capacity * seeds, trees), dtype=wp.float32, device=device)
        self._choice = wp.zeros((capacity, trees, solutions), dtype=wp.int64, device=device)
        self._chosen = wp.zeros((capacity, trees, solutions), dtype=wp.int32, device=device)
        self._found = wp.zeros((capacity, trees), dtype=wp.int32, device=device)
        self._newest = wp.zeros((capacity, trees), dtype=wp.int32, device=device)
        self._first: wp.array[Any] = wp.zeros(capacity, dtype=wp.int32, device=device)
        self._number = HostDeviceArray((capacity,), wp.int32, device)
        self.of_arm, lines = of_arm, capacity * solutions if of_arm else 0  # lines: of the errors of an arm
        self._errors = [wp.zeros((lines, 1), dtype=wp.float64, device=device) for _ in range(2)]
        self._robot = model.robot
        self._given = HostDeviceArray((capacity, model.joint_coord_count), wp.float32, device)
        self._arm_column: wp.array[Any] = wp.zeros(0, dtype=wp.int32, device=device)
        self._sphere_reach = 0.0
        self._taking, self._keeping, self._keeping_branches = (KeptRecording() for _ in range(3))
        self._kind: wp.array[Any] = wp.array(coordinate_kinds(model), dtype=wp.int32, device=device)
        tree = model.robot.trees.coordinate_treeid.astype(np.int32)
        self._coordinate_tree: wp.array[Any] = wp.array(tree, dtype=wp.int32, device=device)

    def use_arm(self, columns: list[int], reach: float) -> None:
        """Set the coordinates of the one arm whose branches are starts, empty for none, and `sphere_reach` [m]."""
        self._arm_column, self._sphere_reach = wp.array(columns, dtype=wp.int32, device=self._device), reach

    def set_order(self, best_of: str | None, difference: float) -> None:
        """Set the order of choice and the least difference of two solutions [m or rad], before the launches run."""
        self._order.host[:] = ORDERS[best_of], self.solutions
        self.difference.host[:] = difference

    def measure_from(self, start: NDArray[Any] | None, count: int) -> None:
        """Set the reference configurations for changes of joints, before the launches run."""
        # Starts as given, [joint_coord_count] or [problems, joint_coord_count]; None for the middle of the ranges
        try:
            with np.errstate(over="ignore"):  # numbers beyond float32 are a fault, too
                given = self._robot.mid_joint_q if start is None else start
                self._given.host[:count] = complete_joint_q(self._robot, given)
        except InputError:  # faults are reported where starts are read
            return
        self._given.push(count)

    def describe(self, task: Any) -> None:
        """Give the task of an arm's proofs the arrays of its solutions."""
        task.attempt_joint_q, task.spacing, task.chosen = self.attempts.joint_q, self.difference.device, self._chosen
        task.solution_count, task.complete = self.solution_count.device, self.complete.device

    def record_rounds(
        self,
        partition: Partition,
        record_attempts: Callable[[int, int], PartLaunches],  # records the launches of the attempts of a round
        size: int,  # seeds of a round
        part: int,
        parts: int,
    ) -> PartLaunches:
        """Record rounds of attempts, each for the problems with too few solutions so far."""
        # Attempts begin at their problems' starts: joints without rows stay there
        problems = self._problems
        attempts, further = self._attempt_arrays(partition), [self._found, self._newest, problems.searches]
        order = [self._order.device, self.difference.device]
        only_branches = int(self.only_branches)
        steps = [PartLaunches([self._order.push, self.difference.push])]
        for first in range(0, self.seeds, size):
            inputs = [problems.settings, part, parts, first, size, only_branches, *order, attempts]
            inputs += [partition.device_nisland, *further]
            steps += [PartLaunches([self._record(begin_round, inputs)]), record_attempts(part, parts)]
        return PartLaunches.joined(steps)

    def record_choice(self, partition: Partition, part: int, parts: int) -> PartLaunches:
        """Record the launches of the choice of solutions; the first becomes the answer."""
        which, attempts = [self._problems.settings, part, parts], self._attempt_arrays(partition)
        take = self._record(take_solution, [*which, self._first, *self._of_solutions(partition, attempts)])
        results = self.solution_count, self.branch, self.complete
        outputs = [self.difference.device, self._problems.searches, self._found, *(one.device for one in results)]
        if self.only_branches:
            inputs = [*which, self._problems.turns, attempts, *outputs, self.unfinished.device]
            choose = self._record(choose_branches, inputs)
            return PartLaunches([choose, take, *(one.fetch for one in (*results, self.unfinished))])
        lanes, islands = LANES_ON_GPUS if self._device.is_cuda else 1, [attempts, partition.device_nisland]
        begin = self._record(begin_choice, [*which, *islands])
        turn = self._record(turn_attempts, [*which, lanes, self._problems.turns, *islands], lanes)
        given = [*which, lanes, *islands]
        order = [self._order.device, self.difference.device]
        size = 1 if lanes > 1 else self.solutions
        firsts = range(0, self.solutions, size)
        choices = [self._record(choose_next, [*given, k, k + size, *order], lanes) for k in firsts]
        end = self._record(end_choice, [*which, *islands, *outputs])
        return PartLaunches([begin, turn, *choices, end, take, *(one.fetch for one in results)])

    def first_attempts(self, names: Sequence[str]) -> dict[str, NDArray[Any]]:
        """Return arrays of the attempts of the first problem, a line for each seed, by name."""
        made = int(self._made[:1].numpy()[0])
        return {name: np.array(getattr(self.attempts, name)[:made].numpy()) for name in names}

    def found(self, count: int) -> NDArray[np.int32]:
        """Return the number of distinct solutions of the islands of the first problems, [count, trees]."""
        found: NDArray[np.int32] = self._found[:count].numpy()
        return found

    def take(self, partition: Partition, number: NDArray[np.int32]) -> None:
        """Make solution `number` [problems], from 0, the answer; the last solution of an island with fewer."""
        self._number.host[: len(number)] = number
        record = partial(self._record_taking, partition)
        self._taking.prepare((partition,), self._device, record, len(number), waits=False)()

    def _record_taking(self, partition: Partition) -> PartLaunches:
        rest = self._of_solutions(partition, self._attempt_arrays(partition))
        launch = self._record(take_solution, [self._problems.settings, 0, 1, self._number.device, *rest])
        return PartLaunches([self._number.push, launch])

    def keep(self, work: Workspace, partition: Partition, number: int, count: int) -> None:
        """Keep solution `number` of each problem, the answer just verified, on success."""
        self._number.host[:count] = number
        record = partial(self._record_keeping, work)
        self._keeping.prepare((work, partition, *work.verified_with), self._device, record, count)()

    def _record_keeping(self, work: Workspace) -> PartLaunches:
        kept = (self.kept, self.first_kept, self.kept_branch, self.kept_joint_q)
        inputs = [work.problems.settings, 0, 1, self._number.device, self.solution_count.device, self.branch.device]
        inputs += [*self._verdict(work), *(one.device for one in kept)]
        return PartLaunches([self._number.push, self._record(keep_verified, inputs), *(one.fetch for one in kept)])

    def keep_branches(self, work: Workspace, partition: Partition, count: int) -> None:
        """Keep the successful solutions of an arm for each problem; the first one has been verified."""
        record = partial(self._record_branches, work, partition)
        self._keeping_branches.prepare((work, partition, *work.verified_with), self._device, record, count)()

    def _record_branches(self, work: Workspace, partition: Partition) -> PartLaunches:
        verdict, problems = work.verification, work.problems
        kept = (self.kept, self.first_kept, self.kept_branch, self.kept_joint_q)
        *columns, joint_q = (one.device for one in kept)
        inputs = [problems.settings, 0, 1, problems.turns, self._attempt_arrays(partition)]
        inputs += [self.solution_count.device, self.branch.device, *self._verdict(work)]
        inputs += [verdict.tolerances.device, verdict.kinematics, *verdict.of_target(0, problems, work.inputs)]
        inputs += [*self._errors, *columns, joint_q.reshape((-1, joint_q.shape[2]))]
        return PartLaunches([self._record(keep_branches, inputs), *(one.fetch for one in kept)])

    def _verdict(self, work: Workspace) -> list[Any]:
        return [work.verification.columns[name].device for name in ("success", "joint_q")]

    def _record(self, kernel: Any, inputs: list[Any], lanes: int = 1) -> Step:
        return per_problem(wp.launch(kernel, 1, inputs, device=self._device, record_cmd=True), lanes)

    def _attempt_arrays(self, partition: Partition) -> Any:
        attempts: Any = AttemptArrays()
        attempts.has_targets = len(self._problems.positions) > 0
        attempts.kind, attempts.coordinate_tree = self._kind, self._coordinate_tree
        attempts.tree_island, attempts.start_joint_q = partition.device_tree_island, self._problems.start_joint_q
        attempts.given_joint_q = self._given.device
        attempts.arm_column, attempts.sphere_reach = self._arm_column, self._sphere_reach
        attempts.answers, attempts.made, attempts.chosen = self.attempts, self._made, self._chosen
        attempts.least, attempts.value, attempts.choice = self._least, self._value, self._choice
        return attempts

    def _of_solutions(self, partition: Partition, attempts: Any) -> list[Any]:
        return [attempts, partition.device_nisland, self._found, self._problems.best]
