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
    """The commands of one tick, one line for every robot.

    The arrays are the controller's own, the same in every tick: they hold until its next step or reset, and are to
    be read only, for the next tick starts from them. `copy` keeps them.

    Attributes:
        joint_q: Commanded configuration, [robots, coordinates]; names are `IKController.coordinate_names`.
        joint_qd: Speeds that lead there [m/s or rad/s], [robots, DOFs]; names are `IKController.dof_names`.
        island_status: What became of every island, `IKStatus`, [robots, islands].
        position_error: Distance to each target [m], [robots, targets]; NaN only where its position rows all have the
            weight 0. Rows that no joint can move count like others.
        orientation_error: Angle to each target [rad], alike, [robots, targets].
        active_limits: What holds each DOF back, `LimitKind`, negative at the lower end, [robots, DOFs]; of rows that
            yield to others it is not told.
        sigma_min: Smallest singular value of the weighted rows of the island's tasks, [robots, islands]; rows of weight
            0, those that yield to others, and those of directions (look-at, axis alignment) do not count, infinite
            where none does.
        scaling: Share of the island's step that was taken, 1 for all of it, [robots, islands].
        iterations: Steps that were tried, -1 for none, [robots, islands]; without those of rows that yield.
        island_success: 1 where the targets of an island are met within tolerance; where a controller has none, where
            the island is at a minimum, at limits of position too, [robots, islands].
        clearance: Distance of the commanded configuration from contact [m], up to about 0.1 m more than is kept;
            infinite where clearance is no limit, NaN where it is not known where the robot is, [robots].
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
        """The worst status of the islands of each robot, `IKStatus`, [robots]."""
        return np.asarray(self.island_status.max(axis=1, initial=int(IKStatus.CONVERGED)))

    @property
    def status_names(self) -> list[str]:
        """Status of every robot as a lower-case word."""
        return [STATUS_WORDS[code] for code in self.status.tolist()]

    @property
    def success(self) -> NDArray[np.bool_]:
        """Whether all targets are met within tolerance; without any, whether all islands are at a minimum, [robots]."""
        return np.asarray((self.island_success != 0).all(axis=1))

    def blocking(self, robot: int = 0) -> dict[str, LimitKind]:
        """Return what holds the joints of a robot back, by names of DOFs."""
        line = self.active_limits[robot]
        return {self.dof_names[k]: LimitKind(abs(int(line[k]))) for k in np.flatnonzero(line)}

    def copy(self) -> "ControlResult":
        """Return a result that later ticks leave alone."""
        arrays: dict[str, Any] = {
            field.name: getattr(self, field.name).copy()
            for field in fields(self)
            if isinstance(getattr(self, field.name), np.ndarray)
        }
        return replace(self, **arrays)
