"""Proofs that no configuration within the limits meets a target within its tolerances.

    shell       the wrist is nearer to the shoulder, or further, than the limits of the elbow allow
    intervals   in every branch a step has no solution, or the interval of a joint misses its limits

Each is a number; above 0 it is a proof. It holds for every target within the tolerances of the given one, for the robot
as well as for its nominal arm, and in float32. With tolerances of 0 the centres of the intervals are the branches.
"""

from dataclasses import dataclass
from functools import reduce

from ik_service.compiler.closed_form import branches, shells
from ik_service.compiler.closed_form.classes import ArmClass, NominalArm
from ik_service.compiler.closed_form.intervals import ARC_SLACK, limited
from ik_service.compiler.closed_form.scope import ArmScope
from ik_service.compiler.closed_form.volumes import volume
from objectives.expression import Expression, Scalar, maximum, minimum, where

_PROOFS = {
    ArmClass.SPHERICAL: (shells.shell_of_parallel_links, branches.spherical_wrist),
    ArmClass.PARALLEL: (shells.shell_of_parallel_links, branches.parallel_axes),
    ArmClass.SEARCHED: (shells.shell_of_parallel_links, branches.meeting_axes),
    ArmClass.SEVEN: (shells.shell_of_elbow, branches.seven_joints),
}


@dataclass(frozen=True)
class BranchNumbers:
    """A branch within the limits.

    Attributes:
        refused: Above 0 if no configuration of the branch is within the limits and meets the target.
        radius: Largest radius of the intervals of its joints [rad].
        margin: Least distance of a joint from the nearer limit [rad].
        angles: Each joint, on the turn nearest the middle of its limits [rad]; without a searched last joint.
        beyond: As `refused`, without the angle that no joint is left to turn.
        mismatch: This angle [rad]; 0 where there is none.
        joints: As `angles`, on any turn.
    """

    refused: Scalar
    radius: Scalar
    margin: Scalar
    angles: tuple[Scalar, ...]
    beyond: Scalar = 0.0
    mismatch: Scalar = 0.0
    joints: tuple[Scalar, ...] = ()


class ArmProofs:
    """The proofs of one arm, as expressions of one graph.

    Attributes:
        shell: The proof by the shell.
        branches: The branches; for classes closed with a given last joint, for an interval of this joint.
        nearest: The branch that is refused least.
        intervals: The proof by intervals: every branch is refused.
    """

    def __init__(self, nominal: NominalArm, *, is_exact: bool = False) -> None:
        """Write the proofs of a nominal arm; `is_exact` as in `ArmScope.of`."""
        scope = ArmScope.of(nominal.arm, is_exact=is_exact)
        shell, branches_of = _PROOFS[nominal.kind]
        self.shell = _lifted(scope, shell(scope))
        self.branches = [_numbers(scope, branch) for branch in branches_of(scope)]
        self.nearest = reduce(_less_refused, self.branches)
        self.intervals = _lifted(scope, self.nearest.refused)
        self._scope = scope

    def numbers(self, branch: BranchNumbers) -> list[Expression]:
        """Return the numbers of a branch as expressions."""
        return self.expressions(branch.refused, branch.radius, branch.margin, *branch.angles)

    def volume(self, branch: BranchNumbers) -> Expression:
        """Return the manipulability of a branch of seven joints."""
        return _lifted(self._scope, volume(self._scope, branch.joints))

    def expressions(self, *values: Scalar) -> list[Expression]:
        """Return numbers as expressions of the graph."""
        return [_lifted(self._scope, value) for value in values]


def _less_refused(a: BranchNumbers, b: BranchNumbers) -> BranchNumbers:
    is_less = b.refused < a.refused

    def chosen(of_a: Scalar, of_b: Scalar) -> Scalar:
        return where(is_less, of_b, of_a)

    angles = tuple(map(chosen, a.angles, b.angles))
    return BranchNumbers(minimum(a.refused, b.refused), chosen(a.radius, b.radius), chosen(a.margin, b.margin), angles)


def _numbers(scope: ArmScope, branch: branches.Branch) -> BranchNumbers:
    joints = [limited(scope.graph, k, interval) for k, interval in enumerate(branch.joints)]
    mismatch, refused = branch.mismatch, branch.refused
    if mismatch is not None:
        refused = maximum(refused, maximum(mismatch.centre, -1.0 * mismatch.centre) - mismatch.radius - ARC_SLACK)
    return BranchNumbers(
        refused=reduce(maximum, (one.missed for one in joints), refused),
        radius=reduce(maximum, (interval.radius for interval in branch.joints)),
        margin=reduce(minimum, (one.margin for one in joints)),
        angles=tuple(one.angle for one in joints),
        beyond=reduce(maximum, (one.missed for one in joints), branch.refused),
        mismatch=0.0 if mismatch is None else mismatch.centre,
        joints=tuple(interval.centre for interval in branch.joints),
    )


def _lifted(scope: ArmScope, value: Scalar) -> Expression:
    return scope.graph.constant(0.0) + value
