"""Reasons in numbers why a pose is out of reach of an arm, by its closed form in float64."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.compiler.closed_form import ArmClass, ArmProofs, NominalArm, arm_of, nominal_arm
from ik_service.compiler.closed_form.turns import (
    LAST,
    ORIENTATION_TOLERANCE,
    POSITION_TOLERANCE,
    TARGET,
    TOOL,
    lower_name,
    upper_name,
)
from ik_service.mechanism.transforms import identity_transform
from ik_service.robots import RobotModel
from ik_service.solver.given.batch import Batch
from ik_service.solver.given.requested_limits import RequestedLimits
from ik_service.solver.given.targets import Target
from objectives.expression import evaluate

Float64Array = NDArray[np.float64]
SAMPLES = 721  # angles of the last of seven joints
BRANCH_JOINTS = 6  # joints with angles in a branch
OPEN_ANGLE = 0.01  # radius of an angle that is not determined [rad]
NO_LIMIT = 1e3  # limits that refuse nothing [rad]
LEAST_REPORTED = 1e-3  # smaller numbers are not reported [m or rad]


@lru_cache(maxsize=8)
def _proofs_of(robot: RobotModel, link: str) -> tuple[ArmProofs, NominalArm] | None:
    arm = arm_of(robot, link)
    nominal = None if arm is None else nominal_arm(arm)
    return None if nominal is None else (ArmProofs(nominal), nominal)


def why_unreachable(robot: RobotModel, target: Target, batch: Batch, k: int, problem: int) -> str | None:
    """Return why no configuration meets target `k` of a problem, in a sentence; None if not known."""
    positions, orientations_xyzw = batch.positions[k], batch.orientations_xyzw[k]
    is_whole = target.row_weights is None and target.tolerance is None and target.frame is None and not target.free
    found = _proofs_of(robot, target.link) if is_whole and target.reference_link is None else None
    if found is None or positions is None or orientations_xyzw is None:
        return None
    proofs, nominal = found
    if nominal.arm.held and batch.start is not None:  # the start may lock joints elsewhere
        return None
    tool = identity_transform() if target.offset is None else np.asarray(target.offset, np.float64)
    pose = (*positions[problem], *orientations_xyzw[problem], *(tool if tool.ndim == 1 else tool[problem]))
    values: dict[str, Any] = dict(zip((*TARGET, *TOOL), pose, strict=True))
    values |= {POSITION_TOLERANCE: 0.0, ORIENTATION_TOLERANCE: 0.0}
    lower, upper = (limit[list(nominal.arm.dofs)] for limit in _limits_of(robot, batch.limits, problem))
    beyond = float(evaluate([proofs.shell], values | _named(lower, upper))[0])
    if beyond > LEAST_REPORTED:
        return f"In this orientation link '{target.link}' is out of reach by at least {1e3 * beyond:.0f} mm."
    is_known = nominal.kind is not ArmClass.SEARCHED and len(batch.positions) == 1  # the proof is of a sole target
    return _joint_beyond(robot, proofs, nominal.arm.dofs, values, lower, upper) if is_known else None


def _joint_beyond(
    robot: RobotModel,
    proofs: ArmProofs,
    dofs: Sequence[int],
    values: dict[str, Any],
    lower: Float64Array,
    upper: Float64Array,
) -> str | None:
    """Return a sentence on the limit that is violated least among all branches; None if a branch is singular."""
    middle = np.where(np.isfinite(lower + upper), 0.5 * (lower + upper), 0.0)
    is_sampled = len(dofs) > BRANCH_JOINTS
    first, end = (lower[-1], upper[-1]) if np.isfinite(lower[-1] + upper[-1]) else (-np.pi, np.pi)
    angles = np.linspace(first, end, SAMPLES if is_sampled else 1)
    last = dict(zip(LAST, (np.cos(angles), np.sin(angles), 0.0), strict=True))
    given = values | _named(middle - NO_LIMIT, middle + NO_LIMIT) | last
    least, sentence = np.inf, None if is_sampled else "No angles of the joints give this pose, whatever their limits."
    for branch in proofs.branches:
        refused, radius, _, *joints = (np.broadcast_to(x, len(angles)) for x in evaluate(proofs.numbers(branch), given))
        q = np.column_stack(joints)
        beyond = np.maximum(lower[:BRANCH_JOINTS] - q, q - upper[:BRANCH_JOINTS])
        if not is_sampled and refused[0] <= 0.0 and not radius[0] <= OPEN_ANGLE:
            return None
        beyond[~((refused <= 0.0) & (radius <= OPEN_ANGLE))] = np.inf
        at = int(np.argmin(beyond.max(axis=1)))
        joint = int(np.argmax(beyond[at]))
        if beyond[at, joint] < least:
            least = float(beyond[at, joint])
            limit = lower[joint] if q[at, joint] < lower[joint] else upper[joint]
            name = robot.dof_names[int(robot.active_dof[dofs[joint]])]
            angle = f"{'about ' * is_sampled}{q[at, joint]:.2f}"
            sentence = f"Joint '{name}' would need {angle} rad; its limit is {limit:.2f} rad."
    return sentence if least > LEAST_REPORTED else None


def _limits_of(robot: RobotModel, limits: RequestedLimits | None, problem: int) -> tuple[Float64Array, Float64Array]:
    if limits is None:
        return robot.active_limit_lower, robot.active_limit_upper
    line = min(problem, len(limits.lower) - 1)
    return limits.lower[line], limits.upper[line]


def _named(lower: Float64Array, upper: Float64Array) -> dict[str, float]:
    names = [name(joint) for name in (lower_name, upper_name) for joint in range(len(lower))]
    return dict(zip(names, (*lower, *upper), strict=True))
