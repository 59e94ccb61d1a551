"""Constraints between coordinates of joints: polynomials, for cams and for gears inside loops."""

from dataclasses import dataclass

from ik_service.mechanism.loops import numbers_of
from objectives.errors import InputError
from objectives.tasks.loop import IKObjectiveCoupling


@dataclass(frozen=True)
class CoordinateConstraint:
    """A constraint: the coordinate of a joint is a polynomial in the coordinate of a reference joint.

    A solver treats this constraint like a loop closure. Linear couplings may be mimic joints instead (URDF's `mimic`):
    a mimic joint costs nothing, but cannot be disabled per problem, and no loop may force both joints.

    Attributes:
        name: Name of the constraint.
        joint: Name of the joint.
        reference_joint: Name of the reference joint.
        coefficients: Coefficients of the polynomial, the constant first; for a gear: offset and ratio.
    """

    name: str
    joint: str
    reference_joint: str
    coefficients: tuple[float, ...]
    kind = "polynomial"

    def __post_init__(self) -> None:
        """Convert coefficients to floats; InputError for equal joints, or not 2 to 16 finite coefficients."""
        given = numbers_of(f"Constraint '{self.name}': coefficients", self.coefficients)
        object.__setattr__(self, "coefficients", given)
        try:
            self.rows()
        except InputError as error:
            raise InputError(f"Constraint '{self.name}': {error}") from None

    def rows(self, weight: float = 1.0) -> IKObjectiveCoupling:
        """Make the objective of the constraint's row, unbound, with a factor [1/m or 1/rad]."""
        return IKObjectiveCoupling(self.joint, self.reference_joint, self.coefficients, weight=weight)

    @property
    def content(self) -> str:
        """The name: constraints of other names may say the same."""
        return self.name

    @property
    def joints(self) -> tuple[str, str]:
        """Names of the joint and of the reference joint."""
        return self.joint, self.reference_joint
