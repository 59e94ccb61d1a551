"""Recorded kernels of a tick with all their arrays, for export as C."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp

from ik_service.compiler import FIXED, GOAL, TURN
from ik_service.control.clearance.limit import ClearanceLimit
from ik_service.control.control_tasks import ControlTasks
from ik_service.control.tick.arrays import TickArrays
from ik_service.control.tick_islands import TickIslands
from ik_service.solver.recorded_launches import RecordedLaunches, RecordedStep
from objectives.tasks.joints import JOINT_Q_REFERENCE

ISLAND = "tick"  # phase of the launches of islands


@dataclass(frozen=True)
class RecordedTicks:
    """The launches of a tick, and the content of its arrays."""

    # one step per island, of phase `ISLAND`, and the step of a clearance limit, of phase `KEEP_STEP`; `numbers` holds
    # all arrays that change
    launches: RecordedLaunches
    data: tuple[str, ...]  # names of the arrays with data of objectives
    unmoved_coordinates: tuple[int, ...]  # coordinates not moved by any island
    unmoved_dofs: tuple[int, ...]  # DOFs not moved by any island
    iterations: int  # most steps of a tick without a deadline


def record_ticks(
    tasks: ControlTasks, islands: TickIslands, arrays: TickArrays, iterations: int, clearance: ClearanceLimit | None
) -> RecordedTicks:
    """Return the launches of a tick on a CPU; `iterations` is the most steps of a tick without a deadline."""
    numbers = {**arrays.of_task(), "targets": arrays.targets.device}
    data = _data(tasks, islands, {array.ptr for array in numbers.values()})
    loops = [tasks.objectives[number] for number in tasks.loops]
    loop_data = tuple(one.data(field) for one in loops for field in one.data_rows())  # never changes
    steps = []
    for k, island in enumerate(islands.islands):
        steps.append(RecordedStep(ISLAND, island.kernel, (island.task, island.states), False, str(island.states.size)))
        numbers |= {f"input_before_{k}": island.task.input_before, f"states_{k}": island.states}
    if clearance is not None:
        step, further = clearance.recorded()
        steps.append(step)
        numbers |= further
    return RecordedTicks(
        RecordedLaunches(tuple(steps), {}, numbers | data, loop_data),
        data=tuple(data),
        unmoved_coordinates=tuple(int(c) for c in islands.unmoved_coordinates()),
        unmoved_dofs=tuple(int(dof) for dof in np.flatnonzero(islands.unmoved_dofs())),
        iterations=iterations,
    )


def _data(tasks: ControlTasks, islands: TickIslands, others: set[int]) -> dict[str, "wp.array[Any]"]:
    """Give the arrays with data of objectives, except `others`, by name."""
    inputs = [
        one
        for island in islands.islands
        for one in island.program.inputs
        if one.field not in (GOAL, TURN, FIXED) and one.objective not in tasks.loops
    ]
    arrays = {_label(tasks, one.objective, one.field): islands.data.array(one) for one in inputs}
    found: dict[str, wp.array[Any]] = {}
    for label, array in sorted(arrays.items()):
        if array.ptr not in others | {one.ptr for one in found.values()}:
            found[label] = array
    return found


def _label(tasks: ControlTasks, number: int, field: str) -> str:
    targets = len(tasks.targets)
    if number < targets:
        return f"target_{number}_{field}"
    if number < tasks.task_count:
        return f"objective_{number - targets}_{field}"
    posture = tasks.posture is not None and number == tasks.loops.stop
    if posture and field == JOINT_Q_REFERENCE:
        return "posture"
    return f"{'posture' if posture else 'damping'}_{field}"
