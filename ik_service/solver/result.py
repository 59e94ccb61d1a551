"""What a solve returns."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.solver.island_results import IslandResults
from ik_service.solver.status import IKStatus


@dataclass(frozen=True, eq=False)
class IKResult:
    """Answers of a batch of problems, arrays on the host.

    Attributes:
        joint_q: Configurations [m or rad, quaternions xyzw], [n, joint_coord_count]; float32, or float64 where that
            precision was asked for.
        success: Whether every target is met within its tolerance, judged in float64 on `joint_q`, bool [n]. With
            objectives alone: whether the gradient test says stationary.
        status: IKStatus codes, int8 [n].
        position_error: [m], float64 [n, targets]; NaN where the target leaves the position free.
        orientation_error: [rad], float64 [n, targets]; NaN where the target leaves the orientation free.
        cost: 1/2 |r|^2 of the winning attempts, summed over islands, float32 [n].
        iterations: Steps of the winning attempt, the most of any island, int32 [n].
        seed_index: Its seed, int32 [n]; -1 where islands chose different ones.
        active_limits: DOFs that sit at a limit, bool [n, joint_dof_count].
        joint_names: Names of the joints, in the order of the model.
        coordinate_names: Names of the columns of `joint_q`.
        engine: The engine that ran.
        device: The device it ran on.
        seeds: Seeds a problem could have used.
        islands: The islands of every problem.
        solutions: Where several were asked for: distinct configurations that succeed, the winner first, [n, solutions,
            joint_coord_count]; NaN past the last one found.
        solution_count: How many were found, int32 [n].
    """

    joint_q: NDArray[np.floating]
    success: NDArray[np.bool_]
    status: NDArray[np.int8]
    position_error: NDArray[np.float64]
    orientation_error: NDArray[np.float64]
    cost: NDArray[np.float32]
    iterations: NDArray[np.int32]
    seed_index: NDArray[np.int32]
    active_limits: NDArray[np.bool_]
    joint_names: tuple[str, ...]
    coordinate_names: tuple[str, ...]
    engine: str
    device: str
    seeds: int
    islands: IslandResults
    solutions: NDArray[np.floating] | None = None
    solution_count: NDArray[np.int32] | None = None

    def __len__(self) -> int:
        """Return the number of problems."""
        return len(self.success)

    @property
    def status_names(self) -> list[str]:
        """Status of every problem as a lower-case word."""
        return [IKStatus(int(code)).name.lower() for code in self.status]

    def to_warp(self) -> dict[str, wp.array[Any]]:
        """Return the columns as new Warp arrays on the device that solved, by name."""
        names = ("joint_q", "success", "status", "position_error", "orientation_error", "cost", "iterations")
        columns = {name: getattr(self, name) for name in (*names, "seed_index", "active_limits")}
        return {name: wp.array(column, device=self.device) for name, column in columns.items()}
