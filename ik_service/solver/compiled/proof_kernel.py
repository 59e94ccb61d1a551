"""The kernel that proves targets out of reach and ends their search.

    phase 0    before the search: the shell, which is cheap; a proven target gets one attempt, others their first seeds
    phase 1    targets left after these seeds: the other proofs; without one the search goes on

Each lane of a packet has one problem. Where all attempts are kept (several solutions), the shell alone is tried.
On a GPU, with a thread for each problem, phase 0 is all: the shell, and intervals where no last joint is searched.
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
from ik_service.solver.arrays.parts import first_place
from ik_service.solver.arrays.problem_arrays import Searches
from ik_service.solver.compiled.iteration import cpu_options
from ik_service.solver.lm.codes import KEEP_ALL, PROOF_BY_INTERVALS, PROOF_BY_SEARCH, PROOF_BY_SHELL, SEEDS
from ik_service.solver.lm.ranking import FAILED, IMPRECISE
from ik_service.solver.rows.binding import RowKind
from ik_service.solver.rows.blocks import Rows
from objectives import IKObjectivePose

KERNELS_MAX = 64  # kernels kept by a process
# Seeds before the other proofs: most targets within reach need fewer; no number at which a round of seeds ends.
SEEDS_BEFORE_INTERVALS, SEEDS_BEFORE_SEARCH = 3, 15
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


TaskRef: Any = reference_to(ProofTask)


@dataclass(frozen=True)
class ProofKernel:
    """The kernel of an arm."""

    kernel: wp.Kernel
    dofs: tuple[int, ...]  # active DOF of each joint of the arm
    first_seeds: int  # seeds between the phases

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
    return ProofKernel(_proof_kernel(source), nominal.arm.dofs, _first_seeds(source))


def _first_seeds(source: ProofSource) -> int:
    return SEEDS_BEFORE_SEARCH if source.is_searched else SEEDS_BEFORE_INTERVALS


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
def _proof_kernel(  # noqa: C901  # it counts the branches of the functions inside as its own
    source: ProofSource,
) -> wp.Kernel:
    """Return the kernel of an arm; arguments: the task, a part of the problems, and the number of parts."""
    W, JOINTS = source.lanes.width, len(source.arm.arm.dofs)
    OTHERWISE = PROOF_BY_SEARCH if source.is_searched else PROOF_BY_INTERVALS
    Inputs: Any = wp.types.vector(len(source.inputs) * W, wp.float32)
    InputsRef: Any = reference_to(Inputs)
    TOOL, TOLERANCES, LIMITS = 7, 14, 16  # places in the order of `ProofSource.inputs`

    @wp.func_native(source.shell_text())
    def shell(inputs: InputsRef) -> int: ...

    options = {"grid_stride": False} if W == 1 else {"module_options": cpu_options()}
    Problems: Any = wp.types.vector(W, int)
    ProblemsRef: Any = reference_to(Problems)
    FIRST_SEEDS = _first_seeds(source)
    IS_WHOLE = W == 1  # on a GPU, where searches do not wait for a second phase
    prove_rest = (_search if source.is_searched else _intervals)(source, Inputs)

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
    def by_shell(inputs: InputsRef, task: TaskRef, place: int, end: int, has_rest: bool):
        """Prove the next problems by the shell, and let the others begin their search; return their number."""
        for lane in range(W):
            p = task.problem[wp.min(place + lane, end - 1)]
            read_target(inputs, lane, task, p)
            if not has_rest:
                read_rest(inputs, lane, task, p)
        proven = shell(inputs)
        proof = int(PROOF_BY_SHELL)
        count = wp.min(W, end - place)
        if wp.static(IS_WHOLE and not source.is_searched):
            if proven == 0:
                proven = prove_rest(inputs, count)
                proof = OTHERWISE
        for lane in range(count):
            p = task.problem[place + lane]
            seeds = int(task.settings[SEEDS])
            if wp.static(not IS_WHOLE):
                seeds = int(FIRST_SEEDS)
            if (proven >> lane) & 1 == 1:
                task.searches.proof[p, task.island] = proof
                seeds = int(1)
            if task.settings[KEEP_ALL] == 0:
                task.searches.end_seed[p, task.island] = wp.min(task.searches.end_seed[p, task.island], seeds)
        return count

    @wp.func
    def is_left(task: TaskRef, p: int):
        """Return whether the search of a problem waits at the end of its first seeds."""
        is_over = task.searches.end_seed[p, task.island] != FIRST_SEEDS or task.settings[SEEDS] <= FIRST_SEEDS
        return not is_over and task.settings[KEEP_ALL] == 0 and task.rank[p, task.island] >= IMPRECISE

    @wp.func
    def by_rest(inputs: InputsRef, problem: ProblemsRef, task: TaskRef, place: int, end: int):
        """Prove the next problems whose search waits, or let it go on; return the number of problems passed."""
        count = int(0)
        next_place = int(place)
        while next_place < end and count < W:
            p = task.problem[next_place]
            next_place += 1
            if is_left(task, p):
                problem[count] = p
                read_target(inputs, count, task, p)
                read_rest(inputs, count, task, p)
                count += 1
        if count > 0:
            proven = prove_rest(inputs, count)
            for lane in range(count):
                p = problem[lane]
                if (proven >> lane) & 1 == 1 and task.rank[p, task.island] >= FAILED:
                    task.searches.proof[p, task.island] = OTHERWISE
                else:
                    task.searches.end_seed[p, task.island] = task.settings[SEEDS]
        return next_place - place

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
            if phase == 0:
                place += by_shell(inputs, task, place, end, has_rest)
                has_rest = is_common
            else:
                place += by_rest(inputs, problem, task, place, end)

    return prove


@typing.no_type_check
def _intervals(source: ProofSource, Inputs: Any) -> Any:
    """Return the function (inputs, number of lanes) -> lanes with a proof by intervals, as bits."""
    InputsRef: Any = reference_to(Inputs)

    @wp.func_native(source.intervals_text())
    def intervals(inputs: InputsRef) -> int: ...

    @wp.func
    def prove(inputs: InputsRef, count: int):
        return intervals(inputs)

    return prove


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

    @wp.func_native(source.intervals_text())
    def intervals(inputs: InputsRef) -> int: ...

    @wp.func
    def prove_one(inputs: InputsRef, packet: InputsRef, lane: int):
        """Return whether all intervals of the problem of a lane have a proof."""
        for k in range(LAST):
            for m in range(W):
                packet[k * W + m] = inputs[k * W + lane]
        lower = inputs[(LIMITS + JOINTS - 1) * W + lane]
        upper = inputs[(LIMITS + 2 * JOINTS - 1) * W + lane]
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


def proof_task(kernel: ProofKernel, device: wp.Device) -> Any:
    """Return a task with the constants of an arm."""
    task: Any = ProofTask()
    task.dof = wp.array(np.array(kernel.dofs, np.int32), dtype=wp.int32, device=device)
    return task
