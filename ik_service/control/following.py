"""Following a path tick by tick: each waypoint is the target of one tick, within all limits of the controller."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.control.result import ControlResult
from ik_service.motion.result import WaypointAnswers
from ik_service.solver.given.arrays import as_numpy, by_target
from ik_service.solver.given.reading import check_targets
from ik_service.solver.given.targets import Target
from ik_service.solver.lm.status import IKStatus
from objectives import InputError

Float64Array = NDArray[np.float64]


def waypoint_targets(targets: Sequence[Target], positions: Any, orientations: Any) -> Float64Array:
    """Return the targets of every tick for `IKController.step`, [waypoints, targets, 7]; quaternions keep their order.

    Positions are [n, 3] for one target, else [n, targets, 3]; unit quaternions [n, 4] or [n, targets, 4]. InputError
    for a wrong shape or number, or a target without positions or orientations.
    """
    positions, orientations = as_numpy("positions", positions), as_numpy("orientations_xyzw", orientations)
    given = check_targets(targets, positions, orientations, None)
    poses = np.empty((given.problem_count, len(targets), 7))
    # Quaternions as given: the tick normalises them, and normalising twice changes the last bit.
    quaternions = by_target("orientations_xyzw", orientations, len(targets), 4)
    for k, (position, orientation) in enumerate(zip(given.positions, quaternions, strict=True)):
        if position is None or orientation is None:
            raise InputError(
                f"Target '{targets[k].link}' lacks positions or orientations_xyzw. Row weights of 0 leave axes free."
            )
        poses[:, k, :3], poses[:, k, 3:] = position, orientation
    return poses


def ticks_along_path(
    step: Callable[[Float64Array], ControlResult], joint_q: Float64Array, poses: Float64Array
) -> tuple[Float64Array, WaypointAnswers]:
    """Move one robot along poses [waypoints, targets, 7]; return commands [waypoints, coordinates] and verdicts.

    `step` takes a tick towards targets [targets, 7] and leaves its command in `joint_q`.
    """
    commands = np.empty((len(poses), len(joint_q)))
    status = np.empty(len(poses), np.int8)
    errors = np.empty((2, len(poses), poses.shape[1]))
    for tick, pose in enumerate(poses):
        result = step(pose)
        commands[tick], status[tick] = joint_q, result.status[0]
        errors[:, tick] = result.position_error[0], result.orientation_error[0]
    return commands, WaypointAnswers(status == int(IKStatus.CONVERGED), status, errors[0], errors[1])
