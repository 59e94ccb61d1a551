"""Result of a fitted clip."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.mechanism.caller_order import CallerOrder
from ik_service.mechanism.transforms import Float64Array
from ik_service.motion.clip import SETTLED, FittedClip
from ik_service.motion.clip_limits import changes
from ik_service.motion.clip_problem import ClipProblem
from ik_service.motion.result import RateLimits
from ik_service.solver.given.targets import ROTATION_LENGTH
from ik_service.solver.lm.status import STATUS_WORDS, IKStatus
from ik_service.solver.result import IKResult


@dataclass(frozen=True, eq=False)
class ClipResult:
    """A clip in joint space, a line per frame; columns are in the order of the caller's `joint_order`.

    Attributes:
        joint_q: Configurations [m or rad, quaternions xyzw], float64 [frames, coordinates].
        joint_qd: Speeds from the frame before [m/s or rad/s], [frames, DOFs]; 0 in the first frame of a clip.
        position_error: Position errors [m], float64 [frames, targets]; NaN if the target leaves the position free.
        orientation_error: Orientation errors [rad], float64 [frames, targets]; NaN if the target leaves it free.
        cost: Half the sum of squared weighted errors of all targets, with the mean of a target's weights along its
            axes, [frames].
        status: IKStatus codes, int8 [frames]: CONVERGED, BLOCKED_BY_LIMITS where a limit of position, speed or
            acceleration holds a joint back, UNSETTLED where the fit would still move the frame.
        over_velocity: DOFs beyond their speed limit, bool [frames, DOFs].
        over_acceleration: DOFs beyond their acceleration limit, bool [frames, DOFs].
        held_drift: Distance of each held link from the place where it stands [m], [frames, held links]; NaN where it is
            not held.
        held_links: Names of the columns of `held_drift`.
        clearance: Least distance from contact [m], [frames], negative in contact; None for a robot without a collision
            model. Reported alone.
        dt: Time between frames [s].
        coordinate_names: Names of the columns of `joint_q`.
        dof_names: Names of the columns of DOFs.
    """

    joint_q: Float64Array
    joint_qd: Float64Array
    position_error: Float64Array
    orientation_error: Float64Array
    cost: Float64Array
    status: NDArray[np.int8]
    over_velocity: NDArray[np.bool_]
    over_acceleration: NDArray[np.bool_]
    held_drift: Float64Array
    held_links: tuple[str, ...]
    clearance: NDArray[np.floating[Any]] | None
    dt: float
    coordinate_names: tuple[str, ...]
    dof_names: tuple[str, ...]

    def __repr__(self) -> str:
        settled = f"{int((self.status == 0).sum())} of {len(self)} frames converged"
        return f"<ClipResult: {settled}, mean cost {self.cost.mean():.3g}, dt {self.dt:g} s>"

    def __len__(self) -> int:
        return len(self.status)

    @property
    def status_names(self) -> list[str]:
        """Status of every frame as a lower-case word."""
        return [STATUS_WORDS[code] for code in self.status.tolist()]


def clip_result(
    problem: ClipProblem, found: FittedClip, judged: IKResult, order: CallerOrder, rates: RateLimits
) -> ClipResult:
    """Return the result of a fit; `judged` is the verdict on its configurations."""
    robot, limits, batch = problem.robot, problem.limits, problem.batch
    own = robot.active_dof[robot.dof_coordinate[robot.active_dof] >= 0]
    links = [target.link for target in batch.targets or ()]
    of_dofs = np.zeros((3, len(found.joint_q), robot.joint_dof_count))
    q = found.joint_q[:, limits.columns]
    of_dofs[0][:, own] = changes(q, problem.clip)[0] / rates.dt
    of_dofs[1][:, own], of_dofs[2][:, own] = limits.over(q, problem.clip)
    drift, held = np.full((len(q), len(problem.held)), np.nan), tuple(links[k] for k in problem.held)
    poses = robot.forward_kinematics(found.joint_q, list(held)).positions if held else None
    for column, (k, mask) in enumerate(problem.held.items()):
        wanted = batch.positions[k]
        if wanted is not None and poses is not None:
            drift[mask, column] = np.linalg.norm(poses[mask, column] - wanted[mask], axis=1)
    status = np.where(found.held_back, IKStatus.BLOCKED_BY_LIMITS, IKStatus.CONVERGED)
    status = np.where(found.moved > SETTLED, IKStatus.UNSETTLED, status)
    turn = 2.0 * ROTATION_LENGTH * np.sin(0.5 * judged.orientation_error)
    errors = np.nan_to_num(np.stack([judged.position_error, turn], axis=2))
    weights2 = (problem.weights.reshape(*problem.weights.shape[:2], 2, 3) ** 2).mean(axis=3)
    return ClipResult(
        joint_q=order.coordinates_of(found.joint_q),
        joint_qd=order.dofs_of(of_dofs[0]),
        position_error=judged.position_error,
        orientation_error=judged.orientation_error,
        cost=0.5 * (weights2 * errors**2).sum(axis=(1, 2)),
        status=status.astype(np.int8),
        over_velocity=order.dofs_of(of_dofs[1] > 0.0),
        over_acceleration=order.dofs_of(of_dofs[2] > 0.0),
        held_drift=drift,
        held_links=held,
        clearance=judged.clearance,
        dt=rates.dt,
        coordinate_names=order.coordinate_names,
        dof_names=order.dof_names,
    )
