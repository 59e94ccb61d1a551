"""The choice among all attempts of a problem, if every seed is run: the best attempt, and several distinct ones.

starts -> attempts [problem x seed], each with its own answer in the joints of its rows; for solutions in the order of
seeds, in rounds, until there are enough or none is new
-> each attempt on the turns nearest the start
-> per island the best by cost or nearness to the start, then the best attempt distinct from all chosen so far
-> best attempts, and solutions composed over islands
"""

import typing
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.kernels.host_device_array import HostDeviceArray
from ik_service.mechanism.coupling import complete_joint_q
from ik_service.robots import DeviceModel
from ik_service.solver.arrays.branch_starts import branch_of_seed, first_branch, number_of_branch, sole_branches
from ik_service.solver.arrays.limit_arrays import Turns, turn_towards_start
from ik_service.solver.arrays.partition import Partition
from ik_service.solver.arrays.parts import SOLVE_EXTRAS, first_problem
from ik_service.solver.arrays.problem_arrays import BestAttempts, Problems, Searches, allocate_attempts
from ik_service.solver.compiled.solution_ranking import (
    NO_SEED,
    ORDERS,
    TAKEN,
    AttemptArrays,
    attempt_value,
    coordinate_kinds,
    has_all_branches,
    has_all_solutions,
    is_distinct,
    note_solutions,
    value_left,
)
from ik_service.solver.lm.codes import SEEDS
from ik_service.solver.lm.ranking import IMPRECISE, IN_CONTACT, UNRANKED, seed_of, value_rank
from ik_service.solver.recording import KeptRecording, PartLaunches, Step, per_problem
from ik_service.solver.workspace import Workspace
from objectives import InputError

ROUND_SEEDS = 16  # of a round, for solutions in the order of seeds
LANES_ON_GPUS = 32  # threads for the choice among a problem's attempts; one on a CPU
NO_NEW_SEEDS = wp.constant(64)  # in a row without a new solution end a search


@wp.kernel(module=SOLVE_EXTRAS, enable_backward=False)
@typing.no_type_check
def _begin_choice(
    # part
    settings: wp.array[wp.int32],
    part: int,
    parts: int,
    # attempts, in and out
    tries: AttemptArrays,
    nisland: wp.array[wp.int32],  # [1 or problems]
):
    p = first_problem(settings, part, parts) + wp.tid()
    for island in range(nisland[wp.min(p, nisland.shape[0] - 1)]):
        tries.least[p, island] = UNRANKED
        for k in range(tries.choice.shape[2]):
            tries.choice[p, island, k] = UNRANKED


@wp.kernel(module=SOLVE_EXTRAS, enable_backward=False)
@typing.no_type_check
def _turn_attempts(
    # part
    settings: wp.array[wp.int32],
    part: int,
    parts: int,
    # attempts, in and out
    lanes: int,  # threads of a problem
    turns: Turns,
    tries: AttemptArrays,
    nisland: wp.array[wp.int32],  # [1 or problems]
):
    p = first_problem(settings, part, parts) + wp.tid() / lanes
    line = wp.min(p, nisland.shape[0] - 1)
    for s in range(wp.tid() % lanes, tries.made[p], lanes):
        row = p * settings[SEEDS] + s
        turn_towards_start(turns, settings, tries.start_joint_q, p, tries.attempts.joint_q, row)
        for island in range(nisland[line]):
            wp.atomic_min(tries.least, p, island, tries.attempts.rank[row, island])


@wp.kernel(module=SOLVE_EXTRAS, enable_backward=False)
@typing.no_type_check
def _choose_next(
    # part
    settings: wp.array[wp.int32],
    part: int,
    parts: int,
    # attempts, in and out
    lanes: int,  # threads of a problem
    tries: AttemptArrays,
    nisland: wp.array[wp.int32],  # [1 or problems]
    # order
    first: int,  # number of the first solution to choose, from 0
    end: int,  # and of the first one after the last; a single one where a problem has several threads
    order: wp.array[wp.int32],  # [2]: order, number of solutions
    difference: wp.array[float],  # [1]
):
    p = first_problem(settings, part, parts) + wp.tid() / lanes
    line = wp.min(p, nisland.shape[0] - 1)
    for island in range(nisland[line]):
        last = wp.int64(0)
        if first > 0:
            last = tries.choice[p, island, first - 1]
        number = int(first)
        while number < end and last < UNRANKED:
            best = int(NO_SEED)
            least = float(TAKEN)
            for s in range(wp.tid() % lanes, tries.made[p], lanes):
                row = p * settings[SEEDS] + s
                value = float(0.0)
                if number == 0:
                    value = attempt_value(tries, p, row, line, island, order[0])
                else:
                    chosen = p * settings[SEEDS] + seed_of(last)
                    value = value_left(tries, row, line, island, chosen, difference[0])
                tries.value[row, island] = value
                if value < least:
                    best = s
                    least = value
            if best != NO_SEED:
                wp.atomic_min(tries.choice, p, island, number, value_rank(best, least))
            last = tries.choice[p, island, number]
            number += 1


@wp.kernel(module=SOLVE_EXTRAS, enable_backward=False)
@typing.no_type_check
def _end_choice(
    # part
    settings: wp.array[wp.int32],
    part: int,
    parts: int,
    # attempts
    tries: AttemptArrays,
    nisland: wp.array[wp.int32],  # [1 or problems]
    # out
    difference: wp.array[float],  # [1]
    searches: Searches,
    found_out: wp.array2d[wp.int32],  # [problems, trees]: solutions of each island
    solution_count_out: wp.array[wp.int32],  # [problems]
    branch_out: wp.array2d[wp.int32],  # [problems, solutions]: number of the branch of a solution, -1 for none
    complete_out: wp.array[wp.int32],  # [problems]: 1 if there are no other solutions
):
    p = first_problem(settings, part, parts) + wp.tid()
    most = int(0)
    islands = nisland[wp.min(p, nisland.shape[0] - 1)]
    for island in range(islands):
        tries.chosen[p, island, 0] = seed_of(tries.least[p, island])
        count = int(0)
        for k in range(tries.choice.shape[2]):
            if tries.choice[p, island, k] < UNRANKED:
                tries.chosen[p, island, k] = seed_of(tries.choice[p, island, k])
                count += 1
        found_out[p, island] = count
        most = wp.max(most, count)
    solution_count_out[p] = most
    complete_out[p] = 0
    for k in range(tries.choice.shape[2]):
        branch_out[p, k] = -1
        if islands == 1 and k < most:
            branch_out[p, k] = number_of_branch(searches, p, 0, branch_of_seed(searches, p, 0, tries.chosen[p, 0, k]))
    if islands == 1:
        fits = most < tries.choice.shape[2] or sole_branches(searches, p, 0) <= most
        has_all = has_all_solutions(tries, searches, p, settings[SEEDS], most, difference[0])
        if searches.proof[p, 0] > 0 or (fits and has_all):
            complete_out[p] = 1


@wp.kernel(module=SOLVE_EXTRAS, enable_backward=False)
@typing.no_type_check
def _choose_branches(
    # part
    settings: wp.array[wp.int32],
    part: int,
    parts: int,
    # attempts from the branches of one arm, and from the start if one is given
    tries: AttemptArrays,
    # out, as of `_end_choice`
    difference: wp.array[float],  # [1]
    searches: Searches,
    found_out: wp.array2d[wp.int32],
    solution_count_out: wp.array[wp.int32],
    branch_out: wp.array2d[wp.int32],
    complete_out: wp.array[wp.int32],
    unfinished_out: wp.array[wp.int32],  # [problems]: 1 if further seeds may lead to further solutions
):
    """Choose the solutions as the other kernels do where all branches lead to solutions, or are blocked."""
    p = first_problem(settings, part, parts) + wp.tid()
    row = p * settings[SEEDS]
    line = wp.min(p, tries.tree_island.shape[0] - 1)
    count = int(0)
    finished = has_all_branches(tries, searches, p, 0, settings[SEEDS])
    s = int(0)
    while s < tries.made[p] and finished:
        rank = tries.attempts.rank[row + s, 0]
        if rank < IMPRECISE:
            if count < branch_out.shape[1]:
                if is_distinct(tries, p, line, 0, settings[SEEDS], s, count, difference[0]):
                    tries.chosen[p, 0, count] = s
                    count += 1
        elif rank < IN_CONTACT:
            finished = bool(False)  # a rank by more than the seed
        s += 1
    proven = searches.proof[p, 0] > 0
    finished = finished and count > 0
    if not finished:
        count = 0
        tries.chosen[p, 0, 0] = 0
    fits = count < branch_out.shape[1] or sole_branches(searches, p, 0) <= count
    all_found = finished and fits and has_all_solutions(tries, searches, p, settings[SEEDS], count, difference[0])
    found_out[p, 0] = count
    solution_count_out[p] = count
    complete_out[p] = wp.where(proven or all_found, 1, 0)
    unfinished_out[p] = wp.where(proven or finished, 0, 1)
    for k in range(branch_out.shape[1]):
        branch_out[p, k] = -1
        if k < count:
            branch_out[p, k] = number_of_branch(searches, p, 0, branch_of_seed(searches, p, 0, tries.chosen[p, 0, k]))


@wp.kernel(module=SOLVE_EXTRAS, enable_backward=False)
@typing.no_type_check
def _take(
    # part
    settings: wp.array[wp.int32],
    part: int,
    parts: int,
    # solutions
    number: wp.array[wp.int32],  # [problems]: solution to take; the last of an island with fewer
    tries: AttemptArrays,
    nisland: wp.array[wp.int32],  # [1 or problems]
    found: wp.array2d[wp.int32],  # [problems, trees]
    best_out: BestAttempts,
):
    p = first_problem(settings, part, parts) + wp.tid()
    line = wp.min(p, nisland.shape[0] - 1)
    for island in range(nisland[line]):
        seed = tries.chosen[p, island, wp.max(wp.min(number[p], found[p, island] - 1), 0)]
        row = p * settings[SEEDS] + seed
        best_out.rank[p, island] = tries.attempts.rank[row, island]
        best_out.cost[p, island] = tries.attempts.cost[row, island]
        best_out.seed[p, island] = seed
        best_out.iterations[p, island] = tries.attempts.iterations[row, island]
        best_out.status[p, island] = tries.attempts.status[row, island]
        best_out.met[p, island] = tries.attempts.met[row, island]
    for c in range(tries.kind.shape[0]):
        island = int(-1)
        if tries.coordinate_tree[c] >= 0:
            island = tries.tree_island[line, tries.coordinate_tree[c]]
        best_out.joint_q[p, c] = tries.start_joint_q[p, c]
        if island >= 0:
            best_out.joint_q[p, c] = tries.attempts.joint_q[p * settings[SEEDS] + best_out.seed[p, island], c]


@wp.kernel(module=SOLVE_EXTRAS, enable_backward=False)
@typing.no_type_check
def _place(
    # part
    settings: wp.array[wp.int32],
    part: int,
    parts: int,
    # solutions of one arm
    number: wp.array[wp.int32],  # [problems]: solution to place; the last of a problem with fewer
    tries: AttemptArrays,
    found: wp.array2d[wp.int32],  # [problems, trees]
    turns: Turns,
    # out
    joint_q_out: wp.array2d[float],  # [problems, joint_coord_count]
    judged_q_out: wp.array2d[wp.float64],  # [problems, joint_coord_count]; exactly the same values
):
    p = first_problem(settings, part, parts) + wp.tid()
    row = p * settings[SEEDS] + tries.chosen[p, 0, wp.max(wp.min(number[p], found[p, 0] - 1), 0)]
    for c in range(joint_q_out.shape[1]):
        joint_q_out[p, c] = tries.attempts.joint_q[row, c]
    turn_towards_start(turns, settings, tries.start_joint_q, p, joint_q_out, p)
    for c in range(joint_q_out.shape[1]):
        judged_q_out[p, c] = wp.float64(joint_q_out[p, c])


@wp.kernel(module=SOLVE_EXTRAS, enable_backward=False)
@typing.no_type_check
def _keep_verified(
    # part
    settings: wp.array[wp.int32],
    part: int,
    parts: int,
    # solutions
    number: wp.array[wp.int32],  # [problems]: verified solution; from 0, one after the other
    solution_count: wp.array[wp.int32],  # [problems]
    branch: wp.array2d[wp.int32],  # [problems, solutions]
    # its verdict
    success: wp.array[wp.bool],  # [problems]
    joint_q: wp.array2d[float],  # [problems, joint_coord_count]
    # in and out
    kept: wp.array[wp.int32],  # [problems]: number of solutions with success
    answer: wp.array[wp.int32],  # [problems]: the first of them
    kept_branch: wp.array2d[wp.int32],  # [problems, solutions]
    kept_joint_q: wp.array3d[float],  # [problems, solutions, joint_coord_count]
):
    p = first_problem(settings, part, parts) + wp.tid()
    k = number[p]
    if k == 0:
        kept[p] = 0
        answer[p] = 0
        for m in range(kept_branch.shape[1]):
            kept_branch[p, m] = -1
            for c in range(joint_q.shape[1]):
                kept_joint_q[p, m, c] = wp.nan
    if success[p] and k < wp.max(solution_count[p], 1):  # without a joint to move there is still one answer
        place = kept[p]
        if place == 0:
            answer[p] = k
        kept_branch[p, place] = branch[p, k]
        for c in range(joint_q.shape[1]):
            kept_joint_q[p, place, c] = joint_q[p, c]
        kept[p] = place + 1


@wp.kernel(module=SOLVE_EXTRAS, enable_backward=False)
@typing.no_type_check
def _begin_round(
    # part
    settings: wp.array[wp.int32],
    part: int,
    parts: int,
    # round
    first: int,  # its first seed
    size: int,
    only_branches: int,  # 1: no other seeds, in a single round
    order: wp.array[wp.int32],  # [2]: order, number of solutions
    difference: wp.array[float],  # [1]
    tries: AttemptArrays,
    nisland: wp.array[wp.int32],  # [1 or problems]
    # in and out
    found: wp.array2d[wp.int32],  # [problems, trees]: solutions of each island in the rounds before
    newest: wp.array2d[wp.int32],  # [problems, trees]: number of seeds up to the last solution
    searches: Searches,
):
    p = first_problem(settings, part, parts) + wp.tid()
    line = wp.min(p, nisland.shape[0] - 1)
    end = wp.min(first + size, settings[SEEDS])
    if first == 0:
        tries.made[p] = 0
    made = tries.made[p]
    for island in range(nisland[line]):
        if first == 0:
            found[p, island] = 0
            newest[p, island] = 0
            searches.end_seed[p, island] = 0
        before = wp.max(first - size, 0)
        ends = searches.end_seed[p, island]  # of the round before
        branches_end = first_branch(searches, p, island) + sole_branches(searches, p, island)
        of_branches = ends == branches_end and first == size and sole_branches(searches, p, island) > 0
        if ends == first or of_branches:  # not stopped before
            last = wp.min(first, made)
            note_solutions(tries, p, line, island, settings[SEEDS], before, last, order, difference, found, newest)
            has_all = of_branches and found[p, island] > 0
            if has_all:
                has_all = has_all_branches(tries, searches, p, island, settings[SEEDS])
            if found[p, island] < order[1] and first - newest[p, island] < NO_NEW_SEEDS and not has_all:
                searches.next_seed[p, island] = wp.min(ends, first)
                searches.end_seed[p, island] = end
                if searches.proof[p, island] > 0:  # out of reach: one attempt, as without further solutions
                    searches.end_seed[p, island] = 1
                elif first == 0 and (only_branches == 1 or end < settings[SEEDS]):
                    if only_branches == 1 or sole_branches(searches, p, island) > 0:
                        searches.end_seed[p, island] = branches_end  # where these suffice
                tries.made[p] = wp.max(tries.made[p], searches.end_seed[p, island])
    for s in range(made, tries.made[p]):
        row = p * settings[SEEDS] + s
        for c in range(tries.kind.shape[0]):
            tries.attempts.joint_q[row, c] = tries.start_joint_q[p, c]
        for island in range(tries.attempts.rank.shape[1]):
            tries.attempts.rank[row, island] = UNRANKED


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
    ) -> None:
        device, trees = model.device, model.robot.trees.ntree
        self.capacity, self.seeds, self.solutions, self.only_branches = capacity, seeds, solutions, only_branches
        self._device, self._problems = device, problems
        # the attempts; attempt s of problem p is in line `p * seeds + s`
        self.attempts = allocate_attempts(capacity * seeds, model.joint_coord_count, trees, device)
        # number of distinct solutions of each problem, [capacity]
        self.solution_count = HostDeviceArray((capacity,), wp.int32, device)
        # number of the branch of each solution, [capacity, solutions], and whether there are no others, [capacity]
        self.branch = HostDeviceArray((capacity, solutions), wp.int32, device)
        self.complete = HostDeviceArray((capacity,), wp.int32, device)
        # of the solutions that pass the verdict: number, first one, branches and configurations
        self.kept, self.first_kept = (HostDeviceArray((capacity,), wp.int32, device) for _ in range(2))
        self.kept_branch = HostDeviceArray((capacity, solutions), wp.int32, device)
        self.kept_joint_q = HostDeviceArray((capacity, solutions, model.joint_coord_count), wp.float32, device)
        # whether further seeds may lead to further solutions, [capacity]
        self.unfinished = HostDeviceArray((capacity,), wp.int32, device)
        self._order = HostDeviceArray((2,), wp.int32, device, per_problem=False)
        self._difference = HostDeviceArray((1,), wp.float32, device, per_problem=False)
        self._made = wp.zeros(capacity, dtype=wp.int32, device=device)
        self._least = wp.zeros((capacity, trees), dtype=wp.int64, device=device)
        self._value = wp.zeros((capacity * seeds, trees), dtype=wp.float32, device=device)
        self._choice = wp.zeros((capacity, trees, solutions), dtype=wp.int64, device=device)
        self._chosen = wp.zeros((capacity, trees, solutions), dtype=wp.int32, device=device)
        self._found = wp.zeros((capacity, trees), dtype=wp.int32, device=device)
        self._newest = wp.zeros((capacity, trees), dtype=wp.int32, device=device)
        self._first: wp.array[Any] = wp.zeros(capacity, dtype=wp.int32, device=device)
        self._number = HostDeviceArray((capacity,), wp.int32, device)
        self._robot = model.robot
        self._given = HostDeviceArray((capacity, model.joint_coord_count), wp.float32, device)
        self._arm_column: wp.array[Any] = wp.zeros(0, dtype=wp.int32, device=device)
        self._arm_length = 0.0
        self._taking, self._keeping = KeptRecording(), (KeptRecording(), KeptRecording())
        self._kind: wp.array[Any] = wp.array(coordinate_kinds(model), dtype=wp.int32, device=device)
        tree = model.robot.trees.coordinate_treeid.astype(np.int32)
        self._coordinate_tree: wp.array[Any] = wp.array(tree, dtype=wp.int32, device=device)

    def use_arm(self, columns: list[int], length: float) -> None:
        """Set coordinates and length [m] of the one arm whose branches are starts, before recording; none: empty."""
        self._arm_column, self._arm_length = wp.array(columns, dtype=wp.int32, device=self._device), length

    def set_order(self, best_of: str | None, difference: float) -> None:
        """Set the order of choice and the least difference of two solutions [m or rad], before the launches run."""
        self._order.host[:] = ORDERS[best_of], self.solutions
        self._difference.host[:] = difference

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

    def record_rounds(
        self,
        partition: Partition,
        attempts: Callable[[int, int], PartLaunches],  # records the launches of the attempts of a round
        size: int,  # seeds of a round
        part: int,
        parts: int,
    ) -> PartLaunches:
        """Record rounds of attempts, each for the problems with too few solutions so far."""
        # Attempts begin at their problems' starts: joints without rows stay there
        problems = self._problems
        tries, further = self._tries(partition), [self._found, self._newest, problems.searches]
        order = [self._order.device, self._difference.device]
        only_branches = int(self.only_branches)
        steps = [PartLaunches([self._order.push, self._difference.push])]
        for first in range(0, self.seeds, size):
            inputs = [problems.settings, part, parts, first, size, only_branches, *order, tries]
            inputs += [partition.device_nisland, *further]
            steps += [PartLaunches([self._record(_begin_round, inputs)]), attempts(part, parts)]
        return PartLaunches.joined(steps)

    def record_choice(self, partition: Partition, part: int, parts: int) -> PartLaunches:
        """Record the launches of the choice of solutions; the first becomes the answer."""
        which, tries = [self._problems.settings, part, parts], self._tries(partition)
        take = self._record(_take, [*which, self._first, *self._of_solutions(partition, tries)])
        results = self.solution_count, self.branch, self.complete
        outputs = [self._difference.device, self._problems.searches, self._found, *(one.device for one in results)]
        if self.only_branches:
            choose = self._record(_choose_branches, [*which, tries, *outputs, self.unfinished.device])
            return PartLaunches([choose, take, *(one.fetch for one in (*results, self.unfinished))])
        lanes, islands = LANES_ON_GPUS if self._device.is_cuda else 1, [tries, partition.device_nisland]
        begin = self._record(_begin_choice, [*which, *islands])
        turn = self._record(_turn_attempts, [*which, lanes, self._problems.turns, *islands], lanes)
        given = [*which, lanes, *islands]
        order = [self._order.device, self._difference.device]
        size = 1 if lanes > 1 else self.solutions
        firsts = range(0, self.solutions, size)
        choices = [self._record(_choose_next, [*given, k, k + size, *order], lanes) for k in firsts]
        end = self._record(_end_choice, [*which, *islands, *outputs])
        return PartLaunches([begin, turn, *choices, end, take, *(one.fetch for one in results)])

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
        rest = self._of_solutions(partition, self._tries(partition))
        launch = self._record(_take, [self._problems.settings, 0, 1, self._number.device, *rest])
        return PartLaunches([self._number.push, launch])

    def keep(self, work: Workspace, partition: Partition, number: int, count: int, *, judges: bool) -> None:
        """Keep the solutions of this number, from 0, with success; with `judges` they are placed and judged before."""
        self._number.host[:count] = number
        record = partial(self._record_keeping, work, partition, judges=judges)
        self._keeping[judges].prepare((work, partition, *work.verified_with), self._device, record, count)()

    def _record_keeping(self, work: Workspace, partition: Partition, *, judges: bool) -> PartLaunches:
        columns = {name: work.verification.columns[name].device for name in ("success", "joint_q", "judged_q")}
        which, number, problems = [work.problems.settings, 0, 1], self._number, work.problems
        kept, steps = (self.kept, self.first_kept, self.kept_branch, self.kept_joint_q), list[Step]([number.push])
        if judges:
            inputs = [*which, number.device, self._tries(partition), self._found, problems.turns]
            steps += [self._record(_place, [*inputs, columns["joint_q"], columns["judged_q"]])]
            steps += map(per_problem, work.verification.launches_of_success(problems, work.inputs))
        inputs = [*which, number.device, self.solution_count.device, self.branch.device]
        inputs += [columns["success"], columns["joint_q"], *(one.device for one in kept)]
        return PartLaunches([*steps, self._record(_keep_verified, inputs), *(one.fetch for one in kept)])

    def _record(self, kernel: Any, inputs: list[Any], lanes: int = 1) -> Step:
        return per_problem(wp.launch(kernel, 1, inputs, device=self._device, record_cmd=True), lanes)

    def _tries(self, partition: Partition) -> Any:
        tries: Any = AttemptArrays()
        tries.has_targets = len(self._problems.positions) > 0
        tries.kind, tries.coordinate_tree = self._kind, self._coordinate_tree
        tries.tree_island, tries.start_joint_q = partition.device_tree_island, self._problems.start_joint_q
        tries.given_joint_q = self._given.device
        tries.arm_column, tries.arm_length = self._arm_column, self._arm_length
        tries.attempts, tries.made, tries.chosen = self.attempts, self._made, self._chosen
        tries.least, tries.value, tries.choice = self._least, self._value, self._choice
        return tries

    def _of_solutions(self, partition: Partition, tries: Any) -> list[Any]:
        return [tries, partition.device_nisland, self._found, self._problems.best]
