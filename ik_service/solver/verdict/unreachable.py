"""Reasons in numbers why a pose is out of reach of an arm, by its closed form in float64."""

from collections.abc import Mapping, Sequence
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
from ik_service.solver.given.asked_limits import AskedLimits
from ik_service.solver.given.batch import Batch
from ik_service.solver.given.targets import Target
from objectives.expression import evaluate

Float64Array = NDArray[np.float64]
SAMPLES = 721  # angles of the last of seven joints
NO_LIMIT = 1e3  # limits that refuse nothing [rad]
LEAST_TOLD = 1e-3  # numbers below are not told [m or rad]


@lru_cache(maxsize=8)
def _proofs_of(robot: RobotModel, link: str) -> tuple[ArmProofs, NominalArm] | None:
    arm = arm_of(robot, link)
    nominal = None if arm is None else nominal_arm(arm)
    return None if nominal is None else (ArmProofs(nominal), nominal)


def why_unreachable(robot: RobotModel, targets: Sequence[Target], batch: Batch, problem: int) -> list[str]:
    """Return reasons why no configuration meets a target of a problem, a sentence each, as far as known."""
    found = list[str | None]()
    for target, *given in zip(targets, batch.positions, batch.orientations_xyzw, strict=True):
        proofs = None if target.reference_link is not None else _proofs_of(robot, target.link)
        if proofs is not None and proofs[1].arm.held and batch.start is not None:
            proofs = None  # a start may lock joints elsewhere
        if proofs is not None and all(array is not None for array in given):
            tool = identity_transform() if target.offset is None else np.asarray(target.offset, np.float64)
            tool = tool if tool.ndim == 1 else tool[problem]
            pose = np.concatenate([array[problem] for array in given if array is not None])
            values = dict(zip((*TARGET, *TOOL), (*pose, *tool), strict=True))
            found.append(_reason(robot, target.link, *proofs, values, *_limits_of(robot, batch.limits, problem)))
    return [one for one in found if one is not None]


def _reason(
    robot: RobotModel,
    link: str,
    proofs: ArmProofs,
    nominal: NominalArm,
    values: Mapping[str, Any],
    lower: Float64Array,
    upper: Float64Array,
) -> str | None:
    dofs = list(nominal.arm.dofs)
    lower, upper = lower[dofs], upper[dofs]
    values = {**values, POSITION_TOLERANCE: 0.0, ORIENTATION_TOLERANCE: 0.0}
    beyond = float(evaluate([proofs.shell], {**values, **_named(lower, upper)})[0])
    if beyond > LEAST_TOLD:
        return f"In this orientation link '{link}' is out of reach by at least {1e3 * beyond:.0f} mm."
    return None if nominal.kind is ArmClass.SEARCHED else _joint_beyond(robot, proofs, dofs, values, lower, upper)


def _joint_beyond(
    robot: RobotModel,
    proofs: ArmProofs,
    dofs: Sequence[int],
    values: Mapping[str, Any],
    lower: Float64Array,
    upper: Float64Array,
) -> str | None:
    """Return the joint that is beyond its limits in the configuration that is least beyond them."""
    middle = np.where(np.isfinite(lower + upper), 0.5 * (lower + upper), 0.0)
    angles = np.linspace(max(lower[-1], -np.pi), min(upper[-1], np.pi), SAMPLES)
    last = dict(zip(LAST, (np.cos(angles), np.sin(angles), 0.0), strict=True))
    given = {**values, **_named(middle - NO_LIMIT, middle + NO_LIMIT), **last}
    is_sampled = len(dofs) > 6
    least, told = np.inf, None if is_sampled else "No angles of the joints give this pose, whatever their limits."
    for branch in proofs.branches:
        refused, _, _, *joints = (np.broadcast_to(x, SAMPLES) for x in evaluate(proofs.numbers(branch), given))
        q = np.column_stack(joints)
        count = q.shape[1]
        beyond = np.maximum(lower[:count] - q, q - upper[:count])
        beyond[~(refused <= 0.0)] = np.inf
        at = int(np.argmin(beyond.max(axis=1)))
        joint = int(np.argmax(beyond[at]))
        if beyond[at, joint] < least:
            least = float(beyond[at, joint])
            limit = lower[joint] if q[at, joint] < lower[joint] else upper[joint]
            name = robot.dof_names[int(robot.active_dof[dofs[joint]])]
            angle = f"{'about ' * is_sampled}{q[at, joint]:.2f}"
            told = f"Joint '{name}' would need {angle} rad; its limit is {limit:.2f} rad."
    return told if least > LEAST_TOLD else None


def _limits_of(robot: RobotModel, limits: AskedLimits | None, problem: int) -> tuple[Float64Array, Float64Array]:
    if limits is None:
        return robot.active_limit_lower, robot.active_limit_upper
    line = min(problem, len(limits.lower) - 1)
    return limits.lower[line], limits.upper[line]


def _named(lower: Float64Array, upper: Float64Array) -> dict[str, float]:
    names = [name(joint) for name in (lower_name, upper_name) for joint in range(len(lower))]
    return dict(zip(names, (*lower, *upper), strict=True))
