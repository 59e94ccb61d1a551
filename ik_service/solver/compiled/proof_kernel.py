"""The kernel that finds the branches of a target as starts of its search, or proves the target out of reach.

Arms of a class with branches in closed form (without a start of the caller, or where all attempts are kept):

    phase 0    before the search: the shell, then the branches without tolerances; without one within the limits the
               intervals with tolerances. A proven target gets one attempt, others the starts from their branches
    phase 1    targets left after these: the intervals; without a proof the search goes on with drawn seeds

After a start of the caller the branches wait for phase 1. Arms with a searched last joint:

    phase 0    the shell; other targets get their first drawn seeds
    phase 1    targets left after these: intervals of the last joint

Each lane of a packet has one problem. Where all attempts are kept (several solutions), there is no phase 1. On a GPU,
with a thread for each problem, phase 0 is all: the shell, and branches and intervals where no last joint is searched.
"""

import typing
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import warp as wp

from ik_service.compiler import Lanes
from ik_service.compiler.closed_form import ProofSource, arm_of, nominal_arm
from ik_service.kernels.kernel_loading import unload_with
from ik_service.kernels.typed_warp import reference_to
from ik_service.mechanism.kinematic_robot import KinematicRobot
from ik_service.robots import DeviceModel
from ik_service.solver.arrays.parts import first_place
from ik_service.solver.arrays.problem_arrays import Searches
from ik_service.solver.compiled.branch_starts import BRANCHES_MAX, branch_functions, number_at, seeds_of_branches
from ik_service.solver.compiled.iteration import cpu_options
from ik_service.solver.lm.codes import (
    BRANCHES,
    HAS_START,
    KEEP_ALL,
    PROOF_BY_INTERVALS,
    PROOF_BY_SEARCH,
    PROOF_BY_SHELL,
    SEEDS,
    TRIES_ALL,
)
from ik_service.solver.lm.ranking import FAILED, IMPRECISE
from ik_service.solver.rows.binding import RowKind
from ik_service.solver.rows.blocks import Rows
from objectives import IKObjectivePose

KERNELS_MAX = 64  # kernels kept by a process
# Drawn seeds before phase 1: most targets within reach need fewer; no number at which a round of seeds ends.
SEEDS_BEFORE_INTERVALS, SEEDS_BEFORE_SEARCH = 3, 15
FIRST_BRANCHES = 3  # before phase 1; the best few of them are free of contact with the arm itself
FURTHER_SEEDS = 8  # after branches whose places are known
WAITS = -1  # proof of a target that is left to phase 1
# Intervals of the last joint in a search.
FIRST, SPLIT_BITS, LEVELS = 8, 2, 5
SPLIT = 1 << SPLIT_BITS
INTERVALS_MAX = 768  # tried for a problem at most
LEVEL_SHIFT, INDEX_MASK = 16, (1 << 16) - 1  # an interval is its level and its index there


@wp.struct
class ProofTask:
    """Data of the kernel; int32 unless said."""

    fault: wp.array[wp.int32]  # [parts]: 1 if the part must not be solved
    count: wp.array[wp.int32]  # number of problems, in entry 0
    problem: wp.array[wp.int32]  # [count]: problems in ascending order
    island: int  # the island's number in each
    settings: wp.array[wp.int32]
    tolerances: wp.array[wp.float64]  # [2]: of the verdict
    positions: wp.array2d[wp.float32]  # [problems, 3]: target
    orientations_xyzw: wp.array2d[wp.float32]  # [problems, 4]
    tool: wp.array[wp.transformd]  # [1 or problems]: T_link_tool
    dof: wp.array[wp.int32]  # active DOF of each joint of the arm
    limit_lower: wp.array2d[wp.float64]  # [1 or problems, active_dof_count]
    limit_upper: wp.array2d[wp.float64]
    searches: Searches
    rank: wp.array2d[wp.int64]  # [problems, trees]: rank of the best attempt so far
    place: wp.array[wp.int32]  # place of each joint of the arm among the DOFs of the island
    column: wp.array[wp.int32]  # column in joint_q of each joint of the arm
    start_joint_q: wp.array2d[wp.float32]  # [problems, joint_coord_count]
    starts: int  # 1 if branches are starts


TaskRef: Any = reference_to(ProofTask)


@dataclass(frozen=True)
class ProofKernel:
    """The kernel of an arm."""

    kernel: wp.Kernel
    dofs: tuple[int, ...]  # active DOF of each joint of the arm
    has_branches: bool  # whether branches are starts

    def __post_init__(self) -> None:
        """Unload the module when the kernel is not used any more."""
        unload_with(self, self.kernel.module)


def proof_kernel_of(robot: KinematicRobot, link: str | int, lanes: Lanes) -> ProofKernel | None:
    """Return the kernel for targets of a link; None if no class of arms fits."""
    return _kernel_of(_RobotLink(robot, robot.content_hash, link), lanes)


@dataclass(frozen=True)
class _RobotLink:
    """A link of a robot; robots are equal where their content is."""

    robot: KinematicRobot = field(compare=False, repr=False)
    content: str
    link: str | int


@lru_cache(KERNELS_MAX)
def _kernel_of(chain: _RobotLink, lanes: Lanes) -> ProofKernel | None:
    arm = arm_of(chain.robot, chain.link)
    nominal = None if arm is None else nominal_arm(arm)
    if nominal is None:
        return None
    source = ProofSource(nominal, lanes)
    return ProofKernel(_proof_kernel(source), nominal.arm.dofs, not source.is_searched)


def proven_targets(rows: Rows, island_rows: Sequence[int]) -> list[int]:
    """Return the numbers of the whole pose targets in the world among the rows of an island."""
    own, found = set(island_rows), []
    for k in rows.of_kind(RowKind.TARGET):
        objective: Any = rows.objectives[k]
        is_whole = own.issuperset(range(rows.start[k], rows.start[k] + rows.sizes[k]))
        if type(objective) is IKObjectivePose and objective.reference_link is None and is_whole:
            found.append(k)
    return found


@typing.no_type_check
def _proof_kernel(source: ProofSource) -> wp.Kernel:
    """Return the kernel of an arm; arguments: the task, a phase, a part of the problems, and the number of parts."""
    W, JOINTS = source.lanes.width, len(source.arm.arm.dofs)
    Inputs: Any = wp.types.vector(len(source.inputs) * W, wp.float32)
    InputsRef: Any = reference_to(Inputs)
    TOOL, TOLERANCES, LIMITS = 7, 14, 16  # places in the order of `ProofSource.inputs`
    options = {"grid_stride": False} if W == 1 else {"module_options": cpu_options()}
    Problems: Any = wp.types.vector(W, int)
    begin, prove_rest = (_with_search if source.is_searched else _with_branches)(source, Inputs)

    @wp.func
    def read_target(inputs: InputsRef, lane: int, task: TaskRef, p: int):
        """Give a lane the target of a problem."""
        for k in range(3):
            inputs[k * W + lane] = task.positions[p, k]
        for k in range(4):
            inputs[(3 + k) * W + lane] = task.orientations_xyzw[p, k]

    @wp.func
    def read_rest(inputs: InputsRef, lane: int, task: TaskRef, p: int):
        """Give a lane tool, tolerances and limits of a problem."""
        tool = task.tool[wp.min(p, task.tool.shape[0] - 1)]
        for k in range(7):
            inputs[(TOOL + k) * W + lane] = float(tool[k])
        for k in range(2):
            inputs[(TOLERANCES + k) * W + lane] = float(task.tolerances[k])
        line = wp.min(p, task.limit_lower.shape[0] - 1)
        for k in range(JOINTS):
            inputs[(LIMITS + k) * W + lane] = float(task.limit_lower[line, task.dof[k]])
            inputs[(LIMITS + JOINTS + k) * W + lane] = float(task.limit_upper[line, task.dof[k]])

    @wp.func
    def is_left(task: TaskRef, p: int):
        """Return whether the search of a problem waits at the end of its first seeds."""
        waits = task.searches.proof[p, task.island] == WAITS
        if waits:
            task.searches.proof[p, task.island] = 0
        return waits and task.rank[p, task.island] >= IMPRECISE

    @wp.kernel(module="unique", enable_backward=False, **options)
    def prove(task: ProofTask, phase: int, part: int, parts: int):
        place = first_place(task.settings, task.count, task.problem, part, parts)
        end = first_place(task.settings, task.count, task.problem, part + 1, parts)
        if wp.static(W == 1):  # a thread for each problem
            place += wp.tid()
            end = wp.min(end, place + 1)
        if task.fault[part] != 0:
            end = place
        inputs = Inputs()
        problem = Problems()
        is_common = task.limit_lower.shape[0] == 1 and task.tool.shape[0] == 1
        has_rest = bool(False)
        while place < end:
            count = int(0)
            while place < end and count < W:
                p = task.problem[place]
                place += 1
                if phase == 0 or is_left(task, p):
                    problem[count] = p
                    read_target(inputs, count, task, p)
                    if not has_rest:
                        read_rest(inputs, count, task, p)
                    count += 1
            if count > 0:
                lane = int(count)
                while lane < W and not has_rest:  # numbers for idle lanes
                    read_target(inputs, lane, task, problem[0])
                    read_rest(inputs, lane, task, problem[0])
                    lane += 1
                has_rest = is_common
                if phase == 0:
                    begin(inputs, problem, count, task)
                else:
                    prove_rest(inputs, problem, count, task)

    return prove


@typing.no_type_check
def _with_branches(source: ProofSource, Inputs: Any) -> tuple[Any, Any]:
    """Return the functions (inputs, problems, their number, task) of both phases for arms with branches."""
    W = source.lanes.width
    InputsRef: Any = reference_to(Inputs)
    ProblemsRef: Any = reference_to(wp.types.vector(W, int))
    Found: Any = wp.types.vector(source.branches * source.outputs * W, wp.float32)
    FoundRef: Any = reference_to(Found)
    Tolerances: Any = wp.types.vector(2 * W, wp.float32)
    TOLERANCES = 14
    IS_WHOLE = W == 1  # on a GPU, where searches do not wait for a second phase
    WAITING = not IS_WHOLE
    at, problem_at = number_at(Inputs), number_at(wp.types.vector(W, int))
    keep, is_wide = branch_functions(source, Found)

    @wp.func_native(source.shell_text())
    def shell(inputs: InputsRef) -> int: ...

    @wp.func_native(source.branches_text())
    def branches(inputs: InputsRef, found: FoundRef) -> int: ...

    @wp.func
    def branches_without_tolerances(inputs: InputsRef, found: FoundRef):
        """Find the branches of the exact targets; return the lanes without any, as bits."""
        tolerances = Tolerances()
        for k in range(2 * W):
            tolerances[k] = at(inputs, TOLERANCES * W + k)
            inputs[TOLERANCES * W + k] = 0.0
        none = branches(inputs, found)
        for k in range(2 * W):
            inputs[TOLERANCES * W + k] = tolerances[k]
        return none

    @wp.func
    def end_of_search(found: FoundRef, lane: int, task: TaskRef, p: int):
        """Return the number of seeds for a target without a proof; `found`: the branches with tolerances."""
        seeds = task.settings[SEEDS]
        if not is_wide(found, lane) and task.settings[TRIES_ALL] == 0:
            seeds = wp.min(seeds, seeds_of_branches(task.searches, task.settings, p, task.island) + FURTHER_SEEDS)
        return seeds

    @wp.func
    def begin(inputs: InputsRef, problem: ProblemsRef, count: int, task: TaskRef):
        """Prove targets out of reach, or let their searches begin."""
        exact = Found()
        found = Found()
        every = (1 << count) - 1
        by_shell = shell(inputs) & every
        seeks = task.starts == 1 and task.settings[BRANCHES] == 1
        if wp.static(not IS_WHOLE):
            seeks = seeks and (task.settings[HAS_START] == 0 or task.settings[KEEP_ALL] == 1)
        none = int(0)
        proven = int(0)
        if seeks and by_shell != every:
            none = branches_without_tolerances(inputs, exact) & every
            if (none & ~by_shell) != 0:
                proven = branches(inputs, found) & none
        for lane in range(count):
            p = problem_at(problem, lane)
            seeds = int(1)
            proof = int(WAITS)
            if (by_shell >> lane) & 1 == 1:
                proof = PROOF_BY_SHELL
            elif (proven >> lane) & 1 == 1:
                proof = PROOF_BY_INTERVALS
            elif seeks:
                keep(
                    exact,
                    lane,
                    task.searches,
                    task.settings,
                    p,
                    task.island,
                    task.place,
                    task.column,
                    task.start_joint_q,
                    wp.where(WAITING and task.settings[KEEP_ALL] == 0, FIRST_BRANCHES, BRANCHES_MAX),
                )
                if (none >> lane) & 1 == 1:
                    proof = 0
                    seeds = end_of_search(found, lane, task, p)
                else:
                    seeds = seeds_of_branches(task.searches, task.settings, p, task.island)
            elif task.starts == 0 or task.settings[BRANCHES] == 0:
                seeds = int(SEEDS_BEFORE_INTERVALS)
            if proof == WAITS and (IS_WHOLE or task.settings[KEEP_ALL] == 1):
                proof = 0
                seeds = int(task.settings[SEEDS])
            task.searches.proof[p, task.island] = proof
            if task.settings[KEEP_ALL] == 0:
                task.searches.end_seed[p, task.island] = wp.min(task.searches.end_seed[p, task.island], seeds)

    @wp.func
    def prove_rest(inputs: InputsRef, problem: ProblemsRef, count: int, task: TaskRef):
        """Prove targets out of reach that no attempt has met so far, or let their searches go on."""
        found = Found()
        if task.starts == 1 and task.settings[BRANCHES] == 1:
            branches_without_tolerances(inputs, found)
            for lane in range(count):
                keep(
                    found,
                    lane,
                    task.searches,
                    task.settings,
                    problem_at(problem, lane),
                    task.island,
                    task.place,
                    task.column,
                    task.start_joint_q,
                    BRANCHES_MAX,
                )
        proven = branches(inputs, found)
        for lane in range(count):
            p = problem_at(problem, lane)
            if (proven >> lane) & 1 == 1 and task.rank[p, task.island] >= FAILED:
                task.searches.proof[p, task.island] = PROOF_BY_INTERVALS
            elif task.searches.branches[p, task.island] == 0:
                task.searches.end_seed[p, task.island] = task.settings[SEEDS]
            else:
                task.searches.end_seed[p, task.island] = end_of_search(found, lane, task, p)

    return begin, prove_rest


@typing.no_type_check
def _with_search(source: ProofSource, Inputs: Any) -> tuple[Any, Any]:
    """Return the functions (inputs, problems, their number, task) of both phases for arms with a searched joint."""
    InputsRef: Any = reference_to(Inputs)
    ProblemsRef: Any = reference_to(wp.types.vector(source.lanes.width, int))
    IS_WHOLE = source.lanes.width == 1  # on a GPU
    search, problem_at = _search(source, Inputs), number_at(wp.types.vector(source.lanes.width, int))

    @wp.func_native(source.shell_text())
    def shell(inputs: InputsRef) -> int: ...

    @wp.func
    def begin(inputs: InputsRef, problem: ProblemsRef, count: int, task: TaskRef):
        """Prove targets out of reach by the shell, and let the others begin their search."""
        proven = shell(inputs)
        for lane in range(count):
            p = problem_at(problem, lane)
            seeds = int(task.settings[SEEDS])
            proof = int(0)
            if (proven >> lane) & 1 == 1:
                proof = PROOF_BY_SHELL
                seeds = int(1)
            elif not IS_WHOLE and task.settings[KEEP_ALL] == 0 and seeds > SEEDS_BEFORE_SEARCH:
                proof = WAITS
                seeds = int(SEEDS_BEFORE_SEARCH)
            task.searches.proof[p, task.island] = proof
            if task.settings[KEEP_ALL] == 0:
                task.searches.end_seed[p, task.island] = wp.min(task.searches.end_seed[p, task.island], seeds)

    @wp.func
    def prove_rest(inputs: InputsRef, problem: ProblemsRef, count: int, task: TaskRef):
        """Prove targets out of reach that no attempt has met so far, or let their searches go on."""
        proven = search(inputs, count)
        for lane in range(count):
            p = problem_at(problem, lane)
            if (proven >> lane) & 1 == 1 and task.rank[p, task.island] >= FAILED:
                task.searches.proof[p, task.island] = PROOF_BY_SEARCH
            elif task.searches.end_seed[p, task.island] == SEEDS_BEFORE_SEARCH:
                task.searches.end_seed[p, task.island] = task.settings[SEEDS]

    return begin, prove_rest


@typing.no_type_check
def _search(  # noqa: C901  # it counts the branches of the functions inside as its own
    source: ProofSource, Inputs: Any
) -> Any:
    """Return the function (inputs, number of lanes) -> lanes with a proof in all intervals of the last joint, as bits.

    The intervals are a tree: FIRST ones, each split in SPLIT, LEVELS deep, searched in depth. All lanes work on one
    problem. An interval of the last level without a proof ends the search.
    """
    W, JOINTS = source.lanes.width, len(source.arm.arm.dofs)
    InputsRef: Any = reference_to(Inputs)
    LIMITS, LAST = 16, 16 + 2 * JOINTS
    Stack: Any = wp.types.vector(FIRST + SPLIT * W * LEVELS, int)
    Nodes: Any = wp.types.vector(W, int)
    at = number_at(Inputs)

    @wp.func_native(source.intervals_text())
    def intervals(inputs: InputsRef) -> int: ...

    @wp.func
    def prove_one(inputs: InputsRef, packet: InputsRef, lane: int):
        """Return whether all intervals of the problem of a lane have a proof."""
        for k in range(LAST):
            for m in range(W):
                packet[k * W + m] = at(inputs, k * W + lane)
        lower = at(inputs, (LIMITS + JOINTS - 1) * W + lane)
        upper = at(inputs, (LIMITS + 2 * JOINTS - 1) * W + lane)
        if not (upper - lower < 2.0 * wp.PI):
            lower = -wp.PI
            upper = wp.PI
        stack = Stack()
        nodes = Nodes()
        waiting = int(FIRST)
        for k in range(FIRST):
            stack[k] = k
        tried = int(0)
        while waiting > 0 and tried < INTERVALS_MAX:
            taken = wp.min(waiting, W)
            for m in range(W):
                node = stack[waiting - 1 - wp.min(m, taken - 1)]
                half = 0.5 * (upper - lower) / float(FIRST << (SPLIT_BITS * (node >> LEVEL_SHIFT)))
                middle = lower + float(2 * (node & INDEX_MASK) + 1) * half
                packet[LAST * W + m] = wp.cos(middle)
                packet[(LAST + 1) * W + m] = wp.sin(middle)
                packet[(LAST + 2) * W + m] = half * 1.0001 + 1.0e-6
            proven = intervals(packet)
            waiting -= taken
            tried += taken
            left = int(0)
            for m in range(taken):
                if (proven >> m) & 1 == 0:
                    nodes[left] = stack[waiting + taken - 1 - m]
                    left += 1
            for m in range(left):
                node = nodes[left - 1 - m]
                level = (node >> LEVEL_SHIFT) + 1
                if level == LEVELS:
                    return False
                for k in range(SPLIT):
                    stack[waiting] = (level << LEVEL_SHIFT) | ((node & INDEX_MASK) * SPLIT + k)
                    waiting += 1
        return waiting == 0

    @wp.func
    def prove(inputs: InputsRef, count: int):
        found = int(0)
        packet = Inputs()
        for lane in range(count):
            if prove_one(inputs, packet, lane):
                found = found | (1 << lane)
        return found

    return prove


def proof_task(kernel: ProofKernel, model: DeviceModel) -> Any:
    """Return a task with the constants of an arm."""
    robot, dofs = model.robot, kernel.dofs
    constants = {
        "dof": dofs,
        "place": [sorted(dofs).index(dof) for dof in dofs],
        "column": [int(robot.dof_coordinate[robot.active_dof[dof]]) for dof in dofs],
    }
    task: Any = ProofTask()
    for name, values in constants.items():
        setattr(task, name, wp.array(np.array(values, np.int32), dtype=wp.int32, device=model.device))
    return task
