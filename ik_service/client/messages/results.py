"""Results of the client's calls, their columns as NumPy arrays."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True, eq=False)
class SolveResult:
    """Results of a batch, in the order of its problems.

    Attributes:
        robot: The robot.
        joint_names: Names of its joints.
        coordinate_names: Names of the columns of `joint_q`.
        joint_q: Configurations [rad or m], shape [n, joint_coord_count].
        success: Whether every target is met within its tolerance, shape [n].
        status: How each problem ended, such as "converged", shape [n].
        position_error_m: Worst over the targets [m], shape [n]; NaN where all leave the position free.
        orientation_error_rad: Worst over the targets [rad], shape [n]; NaN where all leave the orientation free.
        iterations: Iterations of the winning start, shape [n].
        seed_index: The winning start, shape [n]; -1 where islands chose different ones.
        cost: 1/2 |r|^2 of the weighted residuals, shape [n].
        engine: Engine that ran.
        device: Device that it ran on.
        seeds: Starts that each problem could use.
        timing_ms: Time in the queue, of the solve and in total [ms].
        targets: Errors per target, where there are several.
        solutions: Distinct solutions, shape [n, solutions, joint_coord_count], if asked for; NaN past the last one.
        solution_count: How many were found, shape [n], if asked for.
        dof_names: Names of the columns of `active_limits`, if asked for.
        active_limits: DOFs that sit at a limit, shape [n, joint_dof_count], if asked for.
        islands: The islands of each problem, if asked for.
        advice: What to do about each problem, if asked for.
    """

    robot: str
    joint_names: tuple[str, ...]
    coordinate_names: tuple[str, ...]
    joint_q: NDArray[np.floating[Any]]
    success: NDArray[np.bool_]
    status: NDArray[np.str_]
    position_error_m: NDArray[np.float64]
    orientation_error_rad: NDArray[np.float64]
    iterations: NDArray[np.integer[Any]]
    seed_index: NDArray[np.integer[Any]]
    cost: NDArray[np.floating[Any]]
    engine: str
    device: str
    seeds: int
    timing_ms: Mapping[str, float] = field(repr=False)
    targets: tuple[Mapping[str, Any], ...] = ()
    solutions: NDArray[np.floating[Any]] | None = None
    solution_count: NDArray[np.integer[Any]] | None = None
    dof_names: tuple[str, ...] | None = None
    active_limits: NDArray[np.bool_] | None = None
    islands: tuple[Any, ...] | None = None
    advice: tuple[str, ...] | None = None

    def __repr__(self) -> str:
        """Say how many problems there were and how many are solved."""
        solved = f"{int(self.success.sum())} of {len(self)} problems solved"
        return f"<SolveResult of '{self.robot}': {solved}, engine {self.engine} on {self.device}>"

    def __len__(self) -> int:
        """Return the number of problems."""
        return len(self.success)


@dataclass(frozen=True, kw_only=True, eq=False)
class ForwardResult:
    """Where links are, in the world frame.

    Attributes:
        robot: The robot.
        links: The links.
        positions: [m], shape [n, links, 3].
        orientations_xyzw: Unit quaternions, shape [n, links, 4].
    """

    robot: str
    links: tuple[str, ...]
    positions: NDArray[np.float64]
    orientations_xyzw: NDArray[np.float64]

    def __repr__(self) -> str:
        """Say how many poses of which links there are."""
        return f"<ForwardResult of '{self.robot}': {len(self.positions)} poses of {', '.join(self.links)}>"
