"""Proofs that no configuration within the limits meets a target within its tolerances.

    shell       the wrist is nearer to the shoulder, or further, than the limits of the elbow allow
    intervals   in every branch a step has no solution, or the interval of a joint misses its limits

Each is a number; above 0 it is a proof. It holds for every target within the tolerances of the given one, for the robot
as well as for its nominal arm, and in float32.
"""

from functools import reduce

from ik_service.compiler.closed_form import branches, shells
from ik_service.compiler.closed_form.classes import ArmClass, NominalArm
from ik_service.compiler.closed_form.scope import ArmScope
from objectives.expression import Expression, Scalar, minimum

_PROOFS = {
    ArmClass.SPHERICAL: (shells.shell_of_parallel_links, branches.spherical_wrist),
    ArmClass.PARALLEL: (shells.shell_of_parallel_links, branches.parallel_axes),
    ArmClass.SEARCHED: (shells.shell_of_parallel_links, branches.meeting_axes),
    ArmClass.SEVEN: (shells.shell_of_elbow, branches.seven_joints),
}


class ArmProofs:
    """The proofs of one arm, as expressions of one graph.

    Attributes:
        shell: The proof by the shell.
        intervals: The proof by intervals; for classes closed with a given last joint, of an interval of this joint.
    """

    def __init__(self, nominal: NominalArm) -> None:
        """Write the proofs of a nominal arm."""
        scope = ArmScope.of(nominal.arm)
        shell, branches_of = _PROOFS[nominal.kind]
        self.shell = _lifted(scope, shell(scope))
        self.intervals = _lifted(scope, reduce(minimum, branches_of(scope)))


def _lifted(scope: ArmScope, value: Scalar) -> Expression:
    return scope.graph.constant(0.0) + value
