"""Results of the clients' calls, with NumPy arrays as columns."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.result_schema import EdgeColumns


@dataclass(frozen=True, kw_only=True, eq=False)
class SolveResult(EdgeColumns):
    """Results of a batch, in the order of its problems; its columns are those of `EdgeColumns`.

    Attributes:
        robot: The robot.
        joint_names: Names of its joints.
        coordinate_names: Names of the columns of `joint_q`.
        engine: Engine that ran.
        device: Device that it ran on.
        seeds: Starts that each problem could use.
        collision: What was checked, "self", "world" or "off"; None from services that do not say so.
        timing_ms: Time in the queue, of the solve and in total [ms].
        targets: Errors per target, where there are several.
        dof_names: Names of the columns of `active_limits`, if asked for.
        constraint_names: Names of the columns of `constraint_error`, if asked for.
        closing_coordinate_names: Names of the columns of `closing_joint_q`, if asked for.
        collision_names: Links that have spheres, attached objects, objects of the world: what `closest` names, if asked
            for.
        islands: The islands of each problem, if asked for.
        advice: What to do about each problem, if asked for.
    """

    robot: str
    joint_names: tuple[str, ...]
    coordinate_names: tuple[str, ...]
    engine: str
    device: str
    seeds: int
    timing_ms: Mapping[str, float] = field(repr=False)
    collision: str | None = None
    targets: tuple[Mapping[str, Any], ...] = ()
    dof_names: tuple[str, ...] | None = None
    constraint_names: tuple[str, ...] | None = None
    closing_coordinate_names: tuple[str, ...] | None = None
    collision_names: tuple[str, ...] | None = None
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
