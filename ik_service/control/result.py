"""Result of a tick."""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.control.limits import LimitKind
from ik_service.solver.lm.status import STATUS_WORDS, IKStatus

Float64Array = NDArray[np.float64]
Int32Array = NDArray[np.int32]


@dataclass(eq=False, slots=True)
class ControlResult:
    """The commands of one tick, one line per robot.

    The arrays belong to the controller, the same in every tick. They are valid until its next step or reset, and
    read-only, because the next tick starts from them. `copy` makes a lasting copy.

    Attributes:
        joint_q: Commanded configuration, [robots, coordinates]; names are `IKController.coordinate_names`.
        joint_qd: Speeds of the command [m/s or rad/s], [robots, DOFs]; names are `IKController.dof_names`.
        island_status: Status of every island, `IKStatus`, [robots, islands].
        position_error: Distance to each target [m], [robots, targets]; NaN only if all position rows have weight 0.
            Rows that no joint can move count like others.
        orientation_error: Angle to each target [rad], in the same form, [robots, targets].
        active_limits: Active limit of each DOF, `LimitKind`, negative at the lower end, [robots, DOFs]; without limits
            that only affect lower-priority rows.
        sigma_min: Smallest singular value of the weighted rows of the island's tasks, [robots, islands], without rows
            of weight 0, lower-priority rows, and rows of directions (look-at, axis alignment); infinite if no row is
            left.
        scaling: Share of the island's step taken, 1 for the whole step, [robots, islands].
        iterations: Steps tried, -1 for none, [robots, islands]; without steps of lower-priority rows.
        island_success: 1 if the targets of an island are met within tolerance; without targets, if the island is at a
            minimum, possibly at position limits, [robots, islands].
        clearance: Distance of the commanded configuration from contact [m], capped about 0.1 m above the kept
            clearance; infinite without a clearance limit, NaN for an unknown position of the robot, [robots].
        seconds: Time from call to answer [s].
        dof_names: Names of the DOFs.
    """

    joint_q: Float64Array
    joint_qd: Float64Array
    island_status: Int32Array
    position_error: Float64Array
    orientation_error: Float64Array
    active_limits: Int32Array
    sigma_min: Float64Array
    scaling: Float64Array
    iterations: Int32Array
    island_success: Int32Array
    dof_names: tuple[str, ...]
    clearance: Float64Array
    seconds: float = 0.0

    def __repr__(self) -> str:
        names = ", ".join(sorted(set(self.status_names)))
        return f"<ControlResult: robots {len(self.joint_q)}, coordinates {self.joint_q.shape[1]}, status {names}>"

    @property
    def status(self) -> Int32Array:
        """Worst status of the islands of each robot, `IKStatus`, [robots]."""
        return np.asarray(self.island_status.max(axis=1, initial=int(IKStatus.CONVERGED)))

    @property
    def status_names(self) -> list[str]:
        """Status of every robot as a lower-case word."""
        return [STATUS_WORDS[code] for code in self.status.tolist()]

    @property
    def success(self) -> NDArray[np.bool_]:
        """True if all targets are met within tolerance; without targets, if all islands are at a minimum, [robots]."""
        return np.asarray((self.island_success != 0).all(axis=1))

    def blocking(self, robot: int = 0) -> dict[str, LimitKind]:
        """Return the active limits of a robot's joints, by names of DOFs."""
        line = self.active_limits[robot]
        return {self.dof_names[k]: LimitKind(abs(int(line[k]))) for k in np.flatnonzero(line)}

    def copy(self) -> "ControlResult":
        """Return a copy independent of later ticks."""
        arrays: dict[str, Any] = {
            field.name: getattr(self, field.name).copy()
            for field in fields(self)
            if isinstance(getattr(self, field.name), np.ndarray)
        }
        return replace(self, **arrays)
