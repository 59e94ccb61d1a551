"""The kernels of a solve one by one, with all that they work on, for whoever runs them without this package.

A solve of pose targets by the compiled engine is a list of kernels that is the same for every batch: the intake's, one
for each island, the outcome's. Their arguments are arrays of three sorts: those with a line for every problem, the few
numbers of a solve, and all others, which hold the robot and never change.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import warp as wp

from ik_service.solver.compiled.engine import CompiledEngine
from ik_service.solver.problems.arrays import Problems
from ik_service.solver.problems.best_attempts import Winners
from ik_service.solver.problems.input_kernels import Intake
from ik_service.solver.problems.partition import Partition
from ik_service.solver.results.verification import Outcome


@dataclass(frozen=True)
class RecordedStep:
    """One launch.

    Attributes:
        phase: Part of the whole to which it belongs; of a solve "read", after which the mark `fault` says whether to
            go on, "solve" for the islands, "polish" for them in float64, "judge".
        kernel: The kernel.
        arguments: What it is launched with: numbers, arrays and structs.
        per_problem: Whether it is launched with the number of problems as its dimension; else with 1.
        size: What else it is launched with, in the words of whoever runs it.
        block: Threads of a block on a GPU.
    """

    phase: str
    kernel: wp.Kernel
    arguments: tuple[Any, ...]
    per_problem: bool
    size: str = ""
    block: int = 256


@dataclass(frozen=True)
class RecordedLaunches:
    """Launches in order, and what the arrays are that change from one time to the next.

    Attributes:
        steps: The launches.
        lines: Arrays with a line for every problem, by what they hold.
        numbers: Arrays of a few numbers, such as those of a solve, by what they hold.
        data: Arrays of the objectives, which tasks hold by address.
    """

    steps: tuple[RecordedStep, ...]
    lines: dict[str, wp.array[Any]]
    numbers: dict[str, wp.array[Any]]
    data: tuple[wp.array[Any], ...]


def record_solve(
    problems: Problems,
    intake: Intake,
    outcome: Outcome,
    engine: CompiledEngine,
    objectives: Sequence[Any],
    partition: Partition,
    problem_count: int,
    wide: wp.array[Any] | None = None,
) -> RecordedLaunches:
    """Return the launches of a solve on one thread.

    Args:
        problems: Their arrays, with room for two at least.
        intake: What reads targets and starts.
        outcome: What judges.
        engine: The engine.
        objectives: The objectives.
        partition: Islands that all problems have in common.
        problem_count: Problems of the solve.
        wide: Where the answers are taken on in float64; None where they are not.
    """
    read = [_per_problem("read", launch) for launch in intake.launches(problems, 0, 1)]
    tasks = engine.tasks(problems, intake, partition, problem_count, problems.winners)
    solve = [RecordedStep("solve", one.kernel, (task, 0, 1), False) for one, task in tasks]
    polish = [] if wide is None else engine.polish_tasks(problems, intake, partition, problem_count, wide)
    solve += [RecordedStep("polish", one.kernel, (task, 0, 1), False) for one, task in polish]
    judge = [_per_problem("judge", one) for one in outcome.launches(problems, intake, partition, 0, 1, wide)]
    lines = {
        "given_positions": intake.positions.device,
        "given_orientations_xyzw": intake.orientations_xyzw.device,
        "given_joint_q": intake.starts.device,
        "every": problems.every,
        "start_joint_q": problems.start_joint_q,
        "tree_hash": problems.tree_hash,
    }
    lines |= {f"winner_{name}": getattr(problems.winners, name) for name in Winners.__annotations__}
    for k in range(len(problems.positions)):
        lines[f"target_positions_{k}"] = problems.positions[k]
        lines[f"target_orientations_xyzw_{k}"] = problems.orientations_xyzw[k]
        lines[f"target_row_weights_{k}"] = problems.row_weights[k]
    lines |= {name: mirror.device for name, mirror in outcome.columns().items()}
    numbers = {
        "settings": problems.settings,
        "tolerances": problems.tolerances,
        "judged_tolerances": outcome.tolerances.device,
        "given": intake.given.device,
        "fault": intake.fault.device,
    }
    data = tuple(objective.data(name) for objective in objectives for name in objective.data_rows())
    return RecordedLaunches((*read, *solve, *judge), lines, numbers, data)


def _per_problem(phase: str, launch: wp.Launch) -> RecordedStep:
    """The step of a recorded launch, whose arguments Warp keeps."""
    arguments: list[Any] | None = launch.fwd_args
    assert arguments is not None  # it was recorded with arguments
    return RecordedStep(phase, launch.kernel, tuple(arguments), True)
