"""Result of a fitted clip."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.mechanism.caller_order import CallerOrder
from ik_service.mechanism.transforms import Float64Array
from ik_service.motion.clip_limits import HOLDS, begins_of
from ik_service.motion.clip_passes import SETTLED, FittedClip
from ik_service.motion.clip_problem import ClipProblem
from ik_service.motion.metric import CHANGE_ROUNDING, JointMetric
from ik_service.motion.result import RateLimits
from ik_service.solver.given.targets import ROTATION_LENGTH
from ik_service.solver.lm.status import STATUS_WORDS, IKStatus

WORST = 5  # frames in a summary


@dataclass(frozen=True, eq=False)
class ClipResult:
    """A clip in joint space, a line per frame; columns are in the order of the caller's `joint_order`.

    Attributes:
        joint_q: Configurations [m or rad, quaternions xyzw], float64 [frames, coordinates].
        joint_qd: Speeds from the frame before [m/s or rad/s], [frames, DOFs]; in the first frame of a clip from
            `first_joint_q`, 0 without.
        position_error: Position errors [m], float64 [frames, targets]; NaN if the target leaves the position free.
        orientation_error: Orientation errors [rad], float64 [frames, targets]; NaN if the target leaves it free.
        cost: Half the sum of squared weighted errors of all targets, with the mean square of a target's weights along
            its axes, and rotations by angle t as 0.8 sin(t/2), [frames]; held links by the poses where they are held.
        status: IKStatus codes, int8 [frames]: CONVERGED, BLOCKED_BY_LIMITS where a limit of position, speed or
            acceleration holds a joint back, UNSETTLED where the fit would still move the frame.
        active_limits: What holds each DOF: 0 nothing, 1 position, 2 speed, 3 acceleration, int8 [frames, DOFs].
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
    active_limits: NDArray[np.int8]
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

    def blocking(self, frame: int) -> dict[str, str]:
        """Return the limits at joints of a frame, "position", "speed" or "acceleration", by names of DOFs."""
        line = self.active_limits[frame]
        return {self.dof_names[k]: HOLDS[line[k]] for k in np.flatnonzero(line)}

    def explain(self, frame: int | None = None) -> str:
        """Return a summary in words: statuses, errors, held links, limits, and the frames of largest cost.

        With the number of a frame: status, errors, and joints at a limit with the kind of the limit.
        """
        if frame is not None:
            held = [f"'{name}' by its limit of {kind}" for name, kind in self.blocking(frame).items()]
            errors = np.nan_to_num(self.position_error[frame])
            return (
                f"frame {frame}: {self.status_names[frame]}; held back: {', '.join(held) or 'no joint'}; largest "
                f"position error {1e3 * errors.max():.3g} mm"
            )
        counts = ", ".join(f"{word} {count}" for word, count in Counter(self.status_names).most_common())
        largest = np.argsort(-self.cost, kind="stable")[:WORST]
        errors = np.nan_to_num(self.position_error)
        lines = [
            f"{len(self)} frames, {len(self) * self.dt:.1f} s: {counts}",
            f"mean position error {1e3 * errors.mean():.3g} mm, largest {1e3 * errors.max():.3g} mm",
            *(
                f"'{link}' drifts by up to {1e3 * np.nanmax(own):.3g} mm while held"
                for link, own in zip(self.held_links, self.held_drift.T, strict=True)
                if not np.isnan(own).all()
            ),
            *(
                f"held back by limits of {kind}: " + ", ".join(f"'{name}' in {count} frames" for name, count in most)
                for kind, most in ((HOLDS[code], self._most_held(code)) for code in range(1, len(HOLDS)))
                if most
            ),
            f"largest cost in frames {', '.join(map(str, largest.tolist()))}",
        ]
        if self.clearance is not None and (touching := np.flatnonzero(self.clearance <= 0.0)).size:
            lines.append(f"in contact with itself in {touching.size} frames, first in frame {touching[0]}")
        return "\n".join(lines)

    def _most_held(self, code: int) -> list[tuple[str, int]]:
        """Return the DOFs with most frames at a kind of limit, with the numbers of frames."""
        counts = (self.active_limits == code).sum(axis=0)
        return [(self.dof_names[k], int(counts[k])) for k in np.argsort(-counts, kind="stable")[:WORST] if counts[k]]


def clip_result(
    problem: ClipProblem, found: FittedClip, judged: Mapping[str, Any], order: CallerOrder, rates: RateLimits
) -> ClipResult:
    """Return the result of a fit; `judged` has the columns of the verdict on its configurations."""
    robot, clip, joint_q = problem.robot, problem.clip, found.joint_q
    begins = np.zeros(len(clip), bool)
    begins[begins_of(clip)] = True
    before = np.concatenate([joint_q[:1], joint_q[:-1]])
    before[begins] = joint_q[begins] if problem.first is None else problem.first
    speed = JointMetric(robot).straight(before, joint_q) / rates.dt
    speed[begins] *= problem.first is not None
    change = np.diff(speed, axis=0, prepend=speed[:1])
    change[begins] = speed[begins]
    if problem.first is None:
        change[1:][begins[:-1]] = 0.0  # no speed is known before that of the second frame
    links = [target.link for target in problem.batch.targets or ()]
    drift, held = np.full((len(clip), len(problem.held)), np.nan), tuple(links[k] for k in problem.held)
    for column, (k, mask) in enumerate(problem.held.items()):
        drift[mask, column] = judged["position_error"][mask, k]
    active = np.zeros(speed.shape, np.int8)
    dofs = robot.active_dof[robot.dof_coordinate[robot.active_dof] >= 0]
    active[:, dofs] = problem.limits.active(joint_q, clip, problem.first)
    status = np.where(active.any(axis=1), IKStatus.BLOCKED_BY_LIMITS, IKStatus.CONVERGED)
    status = np.where(found.moved > SETTLED, IKStatus.UNSETTLED, status)
    turn = 2.0 * ROTATION_LENGTH * np.sin(0.5 * judged["orientation_error"])
    errors = np.nan_to_num(np.stack([judged["position_error"], turn], axis=2))
    weights2 = (problem.weights.reshape(*problem.weights.shape[:2], 2, 3) ** 2).mean(axis=3)
    return ClipResult(
        joint_q=order.coordinates_of(found.joint_q),
        joint_qd=order.dofs_of(speed),
        position_error=judged["position_error"],
        orientation_error=judged["orientation_error"],
        cost=0.5 * (weights2 * errors**2).sum(axis=(1, 2)),
        status=status.astype(np.int8),
        active_limits=order.dofs_of(active),
        over_velocity=order.dofs_of(np.abs(speed) > rates.velocity * CHANGE_ROUNDING),
        over_acceleration=order.dofs_of(np.abs(change) > rates.acceleration * rates.dt * CHANGE_ROUNDING),
        held_drift=drift,
        held_links=held,
        clearance=judged.get("clearance"),
        dt=rates.dt,
        coordinate_names=order.coordinate_names,
        dof_names=order.dof_names,
    )
