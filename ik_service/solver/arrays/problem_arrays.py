"""Size of a solve, its arrays per problem on the device, sized for the largest solve so far, and the best attempts."""

import typing
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.kernels.host_device_array import HostDeviceArray, HostDeviceBlock
from ik_service.linear_solve.islands import Islands, RowStructure, allocate_islands, island_lines, zeroed
from ik_service.robots import DeviceModel
from ik_service.solver.arrays.limit_arrays import LimitArrays, turns_within
from ik_service.solver.arrays.parts import SOLVE_EXTRAS, first_problem
from ik_service.solver.given.options import ATTEMPTS_MAX, SolverOptions
from ik_service.solver.given.targets import ROTATION_LENGTH, Target
from ik_service.solver.lm.codes import (
    BRANCHED_SAMPLERS,
    DEADLINE,
    NO_TARGET,
    SAMPLERS,
    SEEDS,
    SETTINGS_COUNT,
    STALLED,
    STOP,
    WANTS_SUCCESS,
)
from ik_service.solver.lm.ranking import IN_CONTACT, UNRANKED
from ik_service.solver.rows.binding import CONSTRAINT_ROW, TARGET_ROW, RowKind
from ik_service.solver.rows.blocks import Rows
from ik_service.solver.rows.weights import (
    CONSTRAINED_SHARE,
    CONSTRAINED_STAGE,
    HEAVIEST,
    SHARE,
    STAGE,
    Priorities,
    objective_scale,
    priorities_of,
    row_scale,
    scale_of_weights,
    weights_on_device,
)
from objectives import InputError
from objectives.data_field import fitting_array

NAN = wp.constant(float("nan"))
ARM_JOINTS = 6  # joints of an arm with branches
BRANCH_NUMBERS = 8 * ARM_JOINTS  # numbers of the branches of an arm; six branches of an arm with seven joints fit


@wp.struct
class BestAttempts:
    """The best attempt of every problem and island so far."""

    joint_q: wp.array2d[wp.float32]  # [problem_capacity, joint_coord_count]: its configuration
    rank: wp.array2d[wp.int64]  # its rank; like the arrays below: [problem_capacity, trees]
    cost: wp.array2d[wp.float32]  # 1/2 |r|^2
    seed: wp.array2d[wp.int32]  # its seed
    iterations: wp.array2d[wp.int32]  # its steps
    status: wp.array2d[wp.int32]  # its IKStatus or STATIONARY
    met: wp.array2d[wp.int32]  # whether its targets are met, as in `Slots`


@wp.struct
class Searches:
    """Progress of the compiled engine in the seeds of every problem and island, [problem_capacity, trees]."""

    next_seed: wp.array2d[wp.int32]  # number of seeds handed out
    end_seed: wp.array2d[wp.int32]  # first seed that cannot win
    counted: wp.array2d[wp.int32]  # costs of attempts without precise success, see `lm.ranking`
    proof: wp.array2d[wp.int32]  # proof that the targets cannot be met, 0 for none; before phase 1 also WAITS
    branches: wp.array2d[wp.int32]  # branches that are starts, see `arrays.branch_starts`
    branch_numbers: wp.array2d[wp.int32]  # numbers of these branches
    branch_radius: wp.array2d[wp.float32]  # largest radius of a joint's interval in branches within the limits [rad]
    row_starts: wp.array2d[wp.int32]  # attempts that start from the configurations in their lines, the first ones
    branch_joint_q: wp.array3d[wp.float32]  # [problem_capacity, trees, branches x joints], DOFs of a branch in sequence


def allocate_attempts(capacity: int, joint_coord_count: int, tree_count: int, device: wp.Device) -> Any:
    """Return `BestAttempts` with room for the answers of `capacity` problems."""
    return zeroed(BestAttempts, device, (capacity, tree_count), joint_q=(capacity, joint_coord_count))


@wp.func
@typing.no_type_check
def begin_search(searches: Searches, settings: wp.array[wp.int32], p: int, island: int):
    """Set a search before its first seed."""
    searches.next_seed[p, island] = 0
    searches.end_seed[p, island] = settings[SEEDS]
    searches.counted[p, island] = 0


@wp.func
@typing.no_type_check
def mark_proven(best: BestAttempts, searches: Searches, settings: wp.array[wp.int32], p: int, island: int, proof: int):
    """Record a proof for an island; return the number of attempts to be made, 0 or 1."""
    searches.proof[p, island] = proof
    if settings[WANTS_SUCCESS] == 0 or best.rank[p, island] < UNRANKED:
        return 1
    mark_without_attempt(best, p, island)
    best.met[p, island] = 0
    best.status[p, island] = STALLED
    return 0


@wp.func
@typing.no_type_check
def mark_without_attempt(best: BestAttempts, p: int, island: int):
    """Set the numbers of an island without an attempt; the entry is of another solve."""
    best.met[p, island] = NO_TARGET
    best.seed[p, island] = 0
    best.iterations[p, island] = 0
    best.cost[p, island] = NAN


@wp.func
@typing.no_type_check
def mark_deadline(best: BestAttempts, p: int, island: int):
    """Mark an unsolved island with status DEADLINE, after the deadline has ended its search."""
    rank = best.rank[p, island]
    is_minimum = best.met[p, island] == NO_TARGET and rank < UNRANKED
    if rank >= IN_CONTACT and not is_minimum:
        best.status[p, island] = DEADLINE
        if rank >= UNRANKED:
            mark_without_attempt(best, p, island)


class SolveSettings(NamedTuple):
    """Size of one solve, with its options; made by `of`."""

    problem_count: int
    seeds: int  # seeds per problem
    options: SolverOptions
    checks_collision: bool  # whether attempts are checked for collision
    # whether seeds are run after the first success: all seeds, or until there are enough solutions
    runs_all_seeds: bool
    float64_finish: bool  # whether answers are finished in float64
    only_branches: bool = False  # whether the branches of an arm are the only starts

    @classmethod
    def of(cls, problem_count: int, seeds: int, options: SolverOptions, *, checks_collision: bool) -> "SolveSettings":
        """Return the settings of a solve."""
        float64 = options.precision == "float64"
        return cls(problem_count, seeds, options, checks_collision, options.runs_all_seeds, float64)

    def require_numbers(self) -> None:
        """Check that the attempts can be numbered in 32 bits; InputError otherwise."""
        if self.problem_count * self.seeds > ATTEMPTS_MAX:
            attempts = f"{self.problem_count} problems x {self.seeds} seeds"
            raise InputError(f"{attempts} are more than {ATTEMPTS_MAX} attempts. Split the batch.")


FINISH_ITERATIONS = 4  # times the iterations of float32: at limits and singularities float64 converges slowly


class Problems:
    """Device arrays with one line per problem."""

    limits: LimitArrays  # joint limits of the problems, once the rows are known
    turns: Any  # the `Turns` of joints returned on the turn nearest the start, once the rows are known

    def __init__(
        self,
        model: DeviceModel,
        targets: Sequence[Target],
        tree_count: int,
        capacity: int,  # problems with room
        block: HostDeviceBlock | None = None,  # shared memory for small arrays uploaded together
    ) -> None:
        def floats(width: int) -> wp.array[Any]:
            return wp.zeros((capacity, width), dtype=wp.float32, device=model.device)

        self.capacity = capacity
        self.start_joint_q = floats(model.joint_coord_count)  # configurations of seed 0, [capacity, joint_coord_count]
        self.positions = [floats(3) for _ in targets]  # target positions, one [capacity, 3] per target
        self.orientations_xyzw = [floats(4) for _ in targets]  # target orientations, one [capacity, 4] per target
        self.row_weights = [floats(6) for _ in targets]  # weights of the targets' rows, one [capacity, 6] per target
        shape = (capacity, tree_count)
        # hash of the targets on a tree, uint32 [capacity, tree_count]
        self.tree_hash = wp.zeros(shape, dtype=wp.uint32, device=model.device)
        self._settings = HostDeviceArray((SETTINGS_COUNT,), wp.int32, model.device, per_problem=False, block=block)
        self._tolerances = HostDeviceArray((2,), wp.float32, model.device, per_problem=False, block=block)
        # tolerances: position and orientation tolerance
        self.settings, self.tolerances = self._settings.device, self._tolerances.device
        self._finish_settings = HostDeviceArray(
            (SETTINGS_COUNT,), wp.int32, model.device, per_problem=False, block=block
        )
        # settings of the following attempt in float64: one seed, kept in any case
        self.finish_settings = self._finish_settings.device
        # the numbers of all problems, int32
        self.every: wp.array[Any] = wp.array(np.arange(capacity), dtype=wp.int32, device=model.device)
        self._model = model

    def use_structure(self, structure: RowStructure, rows: Rows) -> None:
        """Make room for islands and answers of rows, with this relation of rows to trees."""
        model, capacity = self._model, self.capacity
        self._structure, (row_count, tree_count) = structure, structure.incidence.shape
        self.islands = allocate_islands(structure, capacity, model.device)  # of every problem, set by `find_islands`
        self._row_weight2 = wp.zeros((capacity, row_count), dtype=wp.float32, device=model.device)
        shape = (capacity, tree_count)
        # square of the least weight of any row of an island, [capacity, trees]: floors scale with it
        self.lightest2 = wp.zeros(shape, dtype=wp.float32, device=model.device)
        self.heaviest2 = wp.zeros(shape, dtype=wp.float32, device=model.device)  # square of the largest
        self.priorities = priorities_of(rows, *shape)
        # unread configurations of float64 attempts in float32, [capacity, joint_coord_count]
        self.unused_joint_q = wp.zeros_like(self.start_joint_q)
        # the best attempt of every problem and island so far
        self.best = allocate_attempts(capacity, model.joint_coord_count, tree_count, model.device)
        branch_joint_q = (*shape, BRANCH_NUMBERS if model.robot.active_dof_count >= ARM_JOINTS else 0)
        self.searches = zeroed(Searches, model.device, shape, branch_joint_q=branch_joint_q)

    @np.errstate(under="ignore", over="ignore")  # a user's weights may lie far apart
    def weights_of(self, rows: Rows, count: int) -> NDArray[np.float32]:
        """Return the weights of the rows of the first problems in units of a user's weight 1, [count, rows]."""
        found, unit = np.ones((count, rows.count), np.float32), self._model.robot.length_unit
        for k, (objective, start) in enumerate(zip(rows.objectives, rows.start, strict=True)):
            array, is_target = weights_on_device(objective), rows.kinds[k] is RowKind.TARGET
            if array is not None:
                own = np.float32(objective_scale(objective) * (unit if is_target else 1.0)) * array.numpy()
                if is_target:
                    own[:, 3:] *= np.float32(1.0 / (ROTATION_LENGTH * unit))
                found[:, start : start + own.shape[1]] = own[np.minimum(np.arange(count), len(own) - 1)]
        return found

    @np.errstate(under="ignore", over="ignore")  # squares of them, too
    def find_islands(self, weights: NDArray[np.float32], *, join: bool) -> dict[str, NDArray[np.int32]]:
        """Find and set the islands of the first problems, from `weights_of`; return the lines of `Islands`, by name.

        Rows of a weight above 0, or NaN, are enabled; with `join` all touched trees are one island.
        """
        device, lines = self._model.device, island_lines(self._structure, ~(weights <= 0.0), join=join)
        for name, values in lines.items():
            fitting_array(getattr(self.islands, name), values, wp.int32, device)
        fitting_array(self._row_weight2, weights * weights, wp.float32, device)
        inputs = [self.islands, self._row_weight2, self.priorities, self.lightest2, self.heaviest2]
        wp.launch(_weigh_islands, len(weights), inputs, device=device)
        return lines

    def set_options(self, settings: SolveSettings, *, has_start: bool) -> None:
        """Set the numbers of a solve; `inputs` are uploaded later."""
        # With a given start, seed 1 is the middle of the ranges
        options, count = settings.options, settings.problem_count
        random_seed = options.random_seed - 2**32 if options.random_seed >= 2**31 else options.random_seed
        iterations, is_near = options.max_iterations, options.approximate == "nearest"
        draws = SAMPLERS[options.sampler], np.float32(options.noise_std).view(np.int32)
        numbers = (count, settings.seeds, iterations, has_start, random_seed, settings.runs_all_seeds, is_near, False)
        tries_all = options.seeds is not None and options.deadline_s is None  # else later problems get no time
        further = options.sampler in BRANCHED_SAMPLERS, options.want == "success"
        self._settings.host[:] = *numbers, *draws, tries_all, *further
        self._finish_settings.host[:] = count, 1, FINISH_ITERATIONS * iterations, True, 0, True, *[0] * 7
        self._tolerances.host[:] = options.search_tolerances(self._model.robot.length_unit)

    def stop(self, stops: bool = True) -> None:
        """Forbid or allow new attempts; from any thread, while a solve is running."""
        self._settings.host[STOP] = stops
        if stops:
            self._settings.push_now(int(STOP))

    def use_limits(self, limits: LimitArrays, turns: Any) -> None:
        """Set limits, and the `Turns` of the joints returned on the turn nearest the start."""
        self.limits, self.turns = limits, turns_within(turns, limits.float32)

    @property
    def inputs(self) -> tuple[HostDeviceArray, ...]:
        """Input arrays of the launches of a solve."""
        return self._settings, self._finish_settings, self._tolerances


@wp.kernel(module="unique", enable_backward=False)
@typing.no_type_check
def _weigh_islands(
    islands: Islands,
    row_weight2: wp.array2d[float],  # [problem_capacity, rows]
    priorities: Priorities,
    # out
    lightest2_out: wp.array2d[float],  # [problem_capacity, trees]
    heaviest2_out: wp.array2d[float],  # [problem_capacity, trees]
):
    p = wp.tid()
    for island in range(islands.nisland[p]):
        has_target = bool(False)
        lightest = float(HEAVIEST)  # of rows except constraints and lower-priority rows beside targets
        heaviest = float(0.0)
        constraint = float(HEAVIEST)  # the lightest constraint row
        yielding = float(0.0)  # the heaviest lower-priority row
        for m in range(islands.rowadr[p, island], islands.rowadr[p, island + 1]):
            row = islands.row[p, m]
            has_target = has_target or priorities.kind[row] == TARGET_ROW
            if priorities.yields[row] == 1:
                yielding = wp.max(yielding, row_weight2[p, row])
            elif priorities.kind[row] == CONSTRAINT_ROW:
                constraint = wp.min(constraint, row_weight2[p, row])
            else:
                lightest = wp.min(lightest, row_weight2[p, row])
                heaviest = wp.max(heaviest, row_weight2[p, row])
        scale = float(1.0)
        priorities.stage[p, island] = STAGE
        priorities.first_stage[p, island] = 1.0
        if constraint < HEAVIEST and has_target:
            priorities.first_stage[p, island] = CONSTRAINED_STAGE
            scale = scale_of_weights(1.0, constraint, heaviest)
        elif constraint < HEAVIEST:
            priorities.first_stage[p, island] = CONSTRAINED_STAGE / CONSTRAINED_SHARE
            priorities.stage[p, island] = CONSTRAINED_STAGE / CONSTRAINED_SHARE
            scale = scale_of_weights(CONSTRAINED_SHARE, constraint, wp.max(heaviest, yielding))
        priorities.first_scale[p, island] = scale
        lightest *= scale * scale
        if has_target:
            scale = scale_of_weights(SHARE, lightest, yielding)
        priorities.scale[p, island] = scale
        first = wp.min(lightest, constraint)
        lightest = float(HEAVIEST)
        heaviest = float(0.0)
        for m in range(islands.rowadr[p, island], islands.rowadr[p, island + 1]):
            row = islands.row[p, m]
            scale = row_scale(priorities, p, island, row, 1.0)
            lightest = wp.min(lightest, scale * scale * row_weight2[p, row])
            heaviest = wp.max(heaviest, scale * scale * row_weight2[p, row])
        if has_target and first < HEAVIEST:  # lower-priority rows do not count
            lightest = first
        lightest2_out[p, island] = lightest
        heaviest2_out[p, island] = heaviest


def widening_launch(problems: Problems, joint_q_float64: wp.array[Any], part: int, parts: int) -> wp.Launch:
    """Record the copy of the best attempts of a part into float64."""
    inputs = [problems.settings, part, parts, problems.best.joint_q, joint_q_float64]
    launch: wp.Launch = wp.launch(_widen, 1, inputs, device=joint_q_float64.device, record_cmd=True)
    return launch


@wp.kernel(module=SOLVE_EXTRAS, enable_backward=False)
@typing.no_type_check
def _widen(
    settings: wp.array[wp.int32],
    part: int,
    parts: int,
    joint_q: wp.array2d[float],  # [problem_capacity, joint_coord_count]
    joint_q_out: wp.array2d[wp.float64],  # [problem_capacity, joint_coord_count]
):
    p = wp.max(first_problem(settings, part, parts) + wp.tid(), 0)
    for c in range(joint_q.shape[1]):
        joint_q_out[p, c] = wp.float64(joint_q[p, c])
