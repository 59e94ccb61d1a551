"""Constraints between coordinates of joints: polynomials, such as of cams and of gears inside of loops."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from ik_service.mechanism.loops import all_of, numbers_of
from objectives.errors import InputError
from objectives.tasks.coupling import IKObjectiveCoupling


@dataclass(frozen=True)
class CoordinateConstraint:
    """A joint whose coordinate is a polynomial in that of another joint.

    A solver meets it as it closes loops. What is linear can as well be eliminated, as URDF's `mimic`: then it costs
    nothing, but it is not enabled per problem, and no loop may force both joints.

    Attributes:
        name: Name of the constraint.
        joint: Name of the joint.
        reference_joint: Name of the other joint.
        coefficients: Those of the polynomial, the constant first; of a gear its offset and ratio.
    """

    name: str
    joint: str
    reference_joint: str
    coefficients: tuple[float, ...]

    def __post_init__(self) -> None:
        """Take numbers of any type as floats; InputError for one joint alone, or not 2 to 16 finite coefficients."""
        given = numbers_of(f"Constraint '{self.name}': coefficients", self.coefficients)
        object.__setattr__(self, "coefficients", given)
        try:
            self.rows()
        except InputError as error:
            raise InputError(f"Constraint '{self.name}': {error}") from None

    def rows(self, weight: float = 1.0) -> IKObjectiveCoupling:
        """Make the objective of its row, bound to nothing, with a factor [1/m or 1/rad]."""
        return IKObjectiveCoupling(self.joint, self.reference_joint, self.coefficients, weight=weight)

    @property
    def kind(self) -> str:
        """Kind of the constraint."""
        return "polynomial"

    @property
    def joints(self) -> tuple[str, str]:
        """The joints that it couples."""
        return self.joint, self.reference_joint


def checked_coordinate_constraints(
    constraints: Iterable[CoordinateConstraint], joints: Collection[str], scalar: Collection[str], names: Iterable[str]
) -> tuple[CoordinateConstraint, ...]:
    """Give constraints as a tuple; `scalar` are joints of one coordinate, `names` those of other constraints.

    Raises:
        InputError: Two constraints have one name, or a joint is not in the robot or has several coordinates.
    """
    found, taken = [], set(names)
    for one in all_of(CoordinateConstraint, constraints):
        if one.name in taken:
            raise InputError(f"Two constraints have the name '{one.name}'.")
        for joint in one.joints:
            if joint not in scalar:
                fault = "has several coordinates" if joint in joints else "is not in the robot"
                raise InputError(f"Constraint '{one.name}' is about joint '{joint}', which {fault}.")
        taken.add(one.name)
        found.append(one)
    return tuple(found)
