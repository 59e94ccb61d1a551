"""Kernel of a tick for one island of one or many robots, starting from the commands of the last tick.

A launch can do a whole tick, or begin a tick, make iterations, or end a tick, with the state kept in an array. So one
kernel serves ticks with a fixed number of iterations and ticks that iterate until a deadline, checked by the caller.
"""

import typing
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import warp as wp

from ik_service.compiler import (
    IslandProgram,
    IslandSignature,
    IterationSource,
    Lanes,
    MeasureSource,
    build_program,
    cpu_target,
)
from ik_service.control.tick.answer import TickCommand
from ik_service.control.tick.arrays import (
    AFTER,
    ANSWERING,
    BEFORE,
    BEGIN,
    BRAKES,
    CLEARS,
    COMMAND,
    FINISH,
    ITERATIONS_NOW,
    JUDGED,
    PROPOSING,
    ROBOTS,
    TickTask,
)
from ik_service.control.tick.closing import closing
from ik_service.control.tick.yielding import TickYielding
from ik_service.errors import EngineError
from ik_service.kernels.kernel_loading import unload_with
from ik_service.solver.compiled.island_launches import KERNELS_MAX, PacketLaunches
from ik_service.solver.lm.damping import TICK_DAMPING

REFERENCE_ITERATIONS = wp.constant(5)
ROBOTS_PER_BLOCK = 32  # threads of a block on a GPU, one robot each


@dataclass(frozen=True)
class TickCode:
    """Program, kernel and state type generated for an island."""

    program: IslandProgram
    kernel: wp.Kernel
    state_type: Any  # state of a packet


@lru_cache(KERNELS_MAX)
def tick_code(
    signature: IslandSignature,  # input of the island's program; the tasks are its first `goal_count` objectives
    lanes: Lanes,
    length_unit: float,  # of the robot [m]
    *,
    clears: bool,  # clearance is a limit
    smooths: bool,  # jerk is a limit
    shape: Any = None,  # native function for filters and limits of targets: task, first robot, number of robots
) -> TickCode:
    """Return the code of an island, shared by controllers with equal signatures; EngineError if it is too large."""
    program = build_program(signature)
    closing_levels = [level for level in program.levels if level.is_closing]
    priorities = [level for level in program.levels if not level.is_closing]
    damping = replace(TICK_DAMPING, bend=TICK_DAMPING.bend * length_unit)
    source = IterationSource(program, lanes, damping, in_dofs=True, first_rows=program.rows_of(closing_levels))
    if source.space.entries > PacketLaunches.step_entries_max:
        raise EngineError(
            f"An island has {len(program.dofs)} DOFs, and its steps are solved with {source.space.entries} entries; "
            f"a controller holds {PacketLaunches.step_entries_max}."
        )
    first = program.rows_of(priorities[:1])
    measured = [row for row in source.goal_rows() if row in first and program.row_independent[row]]
    measure, is_alone = MeasureSource(source, measured), len(priorities) < 2
    if is_alone:
        of = TickCommand(source, measure, apart=len(closing_levels) > 0 or smooths, clears=clears)
    else:
        weights = [objective.weight for objective in signature.objectives]
        of = TickYielding(source, measure, weights, clears=clears)
    if closing_levels:
        of.close = closing(of, measure, source.state.q if is_alone else of.commanded)
    if smooths:
        of.define_smoothing(source.state.q if is_alone else of.commanded)
    kernel, state_type = tick_kernel(of, shape)
    code = TickCode(program, kernel, state_type)
    unload_with(code, kernel.module)
    return code


@typing.no_type_check
def tick_kernel(of: TickCommand, shape: Any) -> "tuple[wp.Kernel, Any]":
    """Return the kernel and the type of a packet's state; `shape` as in `tick_code`.

    The arguments are the task and the states of the packets, [packets, 1], 2-D because Warp compiles kernels with 1-D
    arrays twice. The launch dimension is the number of packets.
    """
    State: Any = of.State
    Share: Any = of.Share
    begin, iterate_all, look_aside, W = of.begin, of.iterate_all, of.look_aside, of.source.lanes.width
    keep_reference, approach, set_goals = of.keep_reference, of.approach, of.set_goals
    settle, lower, close, read_measure, answer = of.settle, of.lower, of.close, of.measure, of.answer
    propose, take, read_data, smooth = of.propose, of.take, of.read_data, of.smooth
    for_cpu = {"block_dim": 1, "max_unroll": 1, "cpu_compiler_flags": cpu_target().flags}
    options: dict[str, Any] = {"block_dim": ROBOTS_PER_BLOCK} if W == 1 else for_cpu

    @wp.kernel(module="unique", enable_backward=False, module_options=options)
    def tick(task: TickTask, states: wp.array2d[State]):
        packet = wp.tid()
        robots = task.settings[ROBOTS]
        first = packet * W
        lanes = wp.min(W, robots - first)  # idle lanes repeat the last robot
        if wp.static(shape is not None):
            shape(task, first, lanes)
        stage = int(COMMAND)
        if task.settings[BEGIN] == 1 and task.settings[BRAKES] == 1:
            stage = BEFORE
        running = int(1)
        while stage <= COMMAND:
            if task.settings[BEGIN] == 1:
                begin(states[packet, 0], lanes, task, first, stage)
            count = wp.where(stage == COMMAND, task.settings[ITERATIONS_NOW], REFERENCE_ITERATIONS)
            if stage != COMMAND:
                iterate_all(states[packet, 0], lanes, task, first, 1)
                look_aside(states[packet, 0], lanes, task, first)
                count -= 1
            running = iterate_all(states[packet, 0], lanes, task, first, count)
            if stage == BEFORE:
                keep_reference(states[packet, 0], lanes, task, first)
            if stage == AFTER:
                approach(states[packet, 0], lanes, task, first)
                set_goals(states[packet, 0])
            stage += 1
        if task.settings[FINISH] == 0:
            task.running[packet, task.island] = running
            return
        scaling = Share()
        is_known = int(0)  # the command
        if wp.static(of.clears):
            if task.settings[CLEARS] == ANSWERING:
                take(states[packet, 0], lanes, task, first, scaling)
                is_known = 1
        if is_known == 0:
            if task.settings[BRAKES] == 0:
                look_aside(states[packet, 0], lanes, task, first)
            settle(states[packet, 0], lanes, task, first, scaling)
            lower(states[packet, 0], lanes, task, first)
            close(states[packet, 0], lanes, task, first)
        if wp.static(of.clears):
            if task.settings[CLEARS] == PROPOSING:
                propose(states[packet, 0], lanes, task, first, scaling)
                return
        smooth(states[packet, 0], lanes, task, first)
        read_data(states[packet, 0], lanes, task, first, JUDGED)
        sigma = Share()
        read_measure(states[packet, 0], sigma)
        answer(states[packet, 0], lanes, task, first, scaling, sigma)

    return tick, State
