"""The kernel that proves targets out of reach before their search: a proven target gets one attempt.

Each lane of a packet has one problem. The island of a proven target keeps the kind of its proof, and its search ends
after the first attempt, unless every attempt is kept.
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
from ik_service.solver.arrays.best_attempts import Searches
from ik_service.solver.arrays.parts import first_place
from ik_service.solver.compiled.called_iteration import cpu_options
from ik_service.solver.lm.codes import KEEP_ALL, PROOF_BY_INTERVALS, PROOF_BY_SHELL
from ik_service.solver.rows.binding import RowKind
from ik_service.solver.rows.blocks import Rows
from objectives import IKObjectivePose

KERNELS_MAX = 64  # kernels kept by a process


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


TaskRef: Any = reference_to(ProofTask)


@dataclass(frozen=True)
class ProofKernel:
    """The kernel of an arm."""

    kernel: wp.Kernel
    dofs: tuple[int, ...]  # active DOF of each joint of the arm

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
    return None if nominal is None else ProofKernel(_proof_kernel(ProofSource(nominal, lanes)), nominal.arm.dofs)


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
    W, INPUTS, JOINTS = source.lanes.width, len(source.inputs), len(source.arm.arm.dofs)
    ALL = (1 << W) - 1
    Inputs: Any = wp.types.vector(INPUTS * W, wp.float32)
    InputsRef: Any = reference_to(Inputs)
    TOOL, TOLERANCES, LIMITS = 7, 14, 16  # places in the order of `ProofSource.inputs`

    @wp.func_native(source.shell_text())
    def shell(inputs: InputsRef) -> int: ...

    @wp.func_native(source.intervals_text() or "return 0;")
    def intervals(inputs: InputsRef) -> int: ...

    @wp.func
    def read(inputs: InputsRef, lane: int, task: TaskRef, p: int):
        """Give a lane the data of a problem."""
        for k in range(3):
            inputs[k * W + lane] = task.positions[p, k]
        for k in range(4):
            inputs[(3 + k) * W + lane] = task.orientations_xyzw[p, k]
        tool = task.tool[wp.min(p, task.tool.shape[0] - 1)]
        for k in range(7):
            inputs[(TOOL + k) * W + lane] = float(tool[k])
        for k in range(2):
            inputs[(TOLERANCES + k) * W + lane] = float(task.tolerances[k])
        line = wp.min(p, task.limit_lower.shape[0] - 1)
        for k in range(JOINTS):
            inputs[(LIMITS + k) * W + lane] = float(task.limit_lower[line, task.dof[k]])
            inputs[(LIMITS + JOINTS + k) * W + lane] = float(task.limit_upper[line, task.dof[k]])

    @wp.kernel(module="unique", enable_backward=False, module_options=cpu_options())
    def prove(task: ProofTask, part: int, parts: int):
        place = first_place(task.settings, task.count, task.problem, part, parts)
        end = first_place(task.settings, task.count, task.problem, part + 1, parts)
        if wp.static(W == 1):  # a thread for each problem
            place += wp.tid()
            end = wp.min(end, place + 1)
        if task.fault[part] != 0:
            end = place
        inputs = Inputs()
        while place < end:
            for lane in range(W):
                read(inputs, lane, task, task.problem[wp.min(place + lane, end - 1)])
            by_shell = shell(inputs)
            by_intervals = int(0)
            if by_shell != ALL:
                by_intervals = intervals(inputs)
            for lane in range(wp.min(W, end - place)):
                proof = int(0)
                if (by_shell >> lane) & 1 == 1:
                    proof = PROOF_BY_SHELL
                elif (by_intervals >> lane) & 1 == 1:
                    proof = PROOF_BY_INTERVALS
                if proof != 0:
                    p = task.problem[place + lane]
                    task.searches.proof[p, task.island] = proof
                    if task.settings[KEEP_ALL] == 0:
                        task.searches.end_seed[p, task.island] = wp.min(task.searches.end_seed[p, task.island], 1)
            place += W

    return prove


def proof_task(kernel: ProofKernel, device: wp.Device) -> Any:
    """Return a task with the constants of an arm."""
    task: Any = ProofTask()
    task.dof = wp.array(np.array(kernel.dofs, np.int32), dtype=wp.int32, device=device)
    return task
