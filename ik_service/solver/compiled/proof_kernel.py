"""The kernel that finds the branches of a target as starts of its search, or proves the target out of reach.

    phase 0    before the search
    phase 1    for targets left after the first seeds; without a proof the search goes on

`branch_phases` and `last_joint_search` say what is done in both. Each lane of a packet has one problem. Where all
attempts are kept (several solutions), and on a GPU, with a thread for each problem, phase 0 is all.
"""

import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import warp as wp

from ik_service.compiler import Lanes
from ik_service.compiler.closed_form import Arm, ProofSource, arm_of, nominal_arm
from ik_service.kernels.kernel_loading import unload_with
from ik_service.mechanism.kinematic_robot import KinematicRobot
from ik_service.solver.arrays.parts import first_place
from ik_service.solver.arrays.problem_arrays import ARM_JOINTS
from ik_service.solver.compiled.branch_phases import phases_with_branches
from ik_service.solver.compiled.complete_sets import complete_sets_kernel
from ik_service.solver.compiled.iteration import cpu_options
from ik_service.solver.compiled.last_joint_search import phases_with_search
from ik_service.solver.compiled.proof_task import WAITS, FirstPhase, ProofTask, TaskRef, is_as_locked, reading_of
from ik_service.solver.compiled.searched_branches import searched_branches_kernel
from ik_service.solver.compiled.self_motion import self_motion_kernel
from ik_service.solver.lm.ranking import IMPRECISE
from ik_service.solver.rows.binding import RowKind
from ik_service.solver.rows.blocks import Rows
from objectives import IKObjectivePose

KERNELS_MAX = 64  # kernels kept by a process


@dataclass(frozen=True)
class ProofKernel:
    """The kernel of an arm."""

    kernel: wp.Kernel
    arm: Arm
    is_searched: bool  # whether branches are found by a search over a joint
    # the chain and lanes of the kernel
    chain: "_RobotLink"
    lanes: Lanes
    has_rest: bool = True  # whether phase 1 proves more

    def __post_init__(self) -> None:
        """Unload the module when the kernel is not used any more."""
        unload_with(self, self.kernel.module)

    @property
    def of_solutions(self) -> FirstPhase | None:
        """The kernel that finds solutions as starts, where the last joint is searched."""
        return _kernel_of_sets(self.chain, self.lanes, searched_branches_kernel) if self.is_searched else None

    @property
    def of_complete_sets(self) -> FirstPhase | None:
        """The kernel that proves a set of these solutions complete, for six joints."""
        is_finite = self.is_searched and len(self.arm.dofs) == ARM_JOINTS
        return _kernel_of_sets(self.chain, self.lanes, complete_sets_kernel) if is_finite else None

    @property
    def of_self_motion(self) -> FirstPhase | None:
        """The kernel for samples of the self-motion, of seven joints."""
        has_motion = len(self.arm.dofs) > ARM_JOINTS
        return _kernel_of_sets(self.chain, self.lanes, self_motion_kernel) if has_motion else None


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
    source = _source_of(chain, lanes)
    if source is None:
        return None
    return ProofKernel(_proof_kernel(source), source.arm.arm, source.is_searched, chain, lanes)


@lru_cache(KERNELS_MAX)
def _kernel_of_sets(chain: _RobotLink, lanes: Lanes, make: Callable[[ProofSource], wp.Kernel]) -> FirstPhase:
    source = _source_of(chain, lanes)
    assert source is not None  # the robot has proofs
    found = FirstPhase(make(source))
    unload_with(found, found.kernel.module)
    return found


def _source_of(chain: _RobotLink, lanes: Lanes) -> ProofSource | None:
    arm = arm_of(chain.robot, chain.link)
    nominal = None if arm is None else nominal_arm(arm)
    return None if nominal is None else ProofSource(nominal, lanes)


def provable_targets(rows: Rows, island_rows: Sequence[int], size: int = 6) -> list[int]:
    """Return the indices of pose targets in the world, which have proofs, with `size` rows in an island."""
    own, found = set(island_rows), []
    for k in rows.of_kind(RowKind.TARGET):
        objective: Any = rows.objectives[k]
        is_whole = own.issuperset(range(rows.start[k], rows.start[k] + size))
        if type(objective) is IKObjectivePose and objective.reference_link is None and is_whole:
            found.append(k)
    return found


@typing.no_type_check
def _proof_kernel(source: ProofSource) -> wp.Kernel:
    """Return the kernel of an arm; arguments: the task, a phase, a part of the problems, and the number of parts."""
    W = source.lanes.width
    Inputs: Any = wp.types.vector(len(source.inputs) * W, wp.float32)
    options = {"grid_stride": False} if W == 1 else {"module_options": cpu_options()}
    Problems: Any = wp.types.vector(W, int)
    read_target, read_rest = reading_of(Inputs, W, len(source.arm.arm.dofs))
    begin, prove_rest = (phases_with_search if source.is_searched else phases_with_branches)(source, Inputs)

    @wp.func
    def is_left(task: TaskRef, p: int):
        """Return whether the search of a problem waits at the end of its first seeds."""
        waits = task.searches.proof[p, task.island] == WAITS
        if waits:
            task.searches.proof[p, task.island] = 0
        return waits and task.best.rank[p, task.island] >= IMPRECISE

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
                p = wp.max(task.problem[place], 0)
                place += 1
                is_open = task.searches.proof[p, task.island] <= 0 and is_as_locked(task, p)
                if is_open and (phase == 0 or is_left(task, p)):
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


def sole_arm(work: Sequence[tuple[Any, Any]]) -> list[int]:
    """Return the columns in `joint_q`, in the order of DOFs, of the one arm with branches; empty without one."""
    found = [task for kernel, task in work if isinstance(kernel, ProofKernel) and task.starts == 1]
    if len(found) != 1:
        return []
    columns = found[0].column.numpy()[np.argsort(found[0].place.numpy())]
    return [int(column) for column in columns]


def proof_task(kernel: ProofKernel, robot: KinematicRobot, device: wp.Device) -> Any:
    """Return a task with the constants of an arm."""
    dofs, held = kernel.arm.dofs, kernel.arm.held
    constants = {
        "dof": dofs,
        "place": [sorted(dofs).index(dof) for dof in dofs],
        "column": [int(robot.dof_coordinate[robot.active_dof[dof]]) for dof in dofs],
        "held": held,
    }
    task: Any = ProofTask()
    for name, values in constants.items():
        setattr(task, name, wp.array(np.array(values, np.int32), dtype=wp.int32, device=device))
    held_q = robot.mid_joint_q[list(held)].astype(np.float32)
    task.held_q = wp.array(held_q, dtype=wp.float32, device=device)
    return task
