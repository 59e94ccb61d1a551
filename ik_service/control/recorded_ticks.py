"""The kernels of a tick with all the arrays that they work on: the export writes them as C."""

from collections.abc import Iterator
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
from objectives.tasks.posture import JOINT_Q_REFERENCE

ISLAND = "tick"
"""Phase of the launches of islands."""


@dataclass(frozen=True)
class RecordedTicks:
    """The launches of a tick, and what stands in its arrays."""

    # a step for each island, of the phase `ISLAND`, and where clearance is a limit what keeps a tick clear, of the
    # phase `KEEP`; arrays that change are all among its numbers
    launches: RecordedLaunches
    data: tuple[str, ...]  # names of the arrays with data of objectives
    unmoved_coordinates: tuple[int, ...]  # coordinates that no island moves
    unmoved_dofs: tuple[int, ...]  # DOFs that no island moves
    iterations: int  # most steps that a tick without a deadline tries


def record_ticks(
    tasks: ControlTasks, islands: TickIslands, arrays: TickArrays, iterations: int, clearance: ClearanceLimit | None
) -> RecordedTicks:
    """Return the launches of a tick on a CPU; `iterations` is the most that a tick without a deadline tries."""
    numbers = {**arrays.of_task(), "targets": arrays.targets.device}
    data = _data(tasks, islands, {array.ptr for array in numbers.values()})
    steps = []
    for k, island in enumerate(islands.islands):
        steps.append(RecordedStep(ISLAND, island.kernel, (island.task, island.states), False, str(island.states.size)))
        numbers |= {f"input_before_{k}": island.task.input_before, f"states_{k}": island.states}
    if clearance is not None:
        step, further = clearance.recorded()
        steps.append(step)
        numbers |= further
    return RecordedTicks(
        RecordedLaunches(tuple(steps), {}, numbers | data, tuple(_loop_data(tasks))),
        data=tuple(data),
        unmoved_coordinates=tuple(int(c) for c in islands.unmoved_coordinates()),
        unmoved_dofs=tuple(int(dof) for dof in np.flatnonzero(islands.unmoved_dofs())),
        iterations=iterations,
    )


def _data(tasks: ControlTasks, islands: TickIslands, others: set[int]) -> dict[str, "wp.array[Any]"]:
    """Arrays from which the kernels read data of objectives, without some others, by what they hold."""
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


def _loop_data(tasks: ControlTasks) -> Iterator["wp.array[Any]"]:
    """Arrays with data of loops, which never change."""
    for number in tasks.loops:
        objective = tasks.objectives[number]
        yield from (objective.data(field) for field in objective.data_rows())


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
