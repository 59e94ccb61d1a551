"""What callers give as constraints, checked before it is looked at."""

from collections.abc import Iterable
from numbers import Real
from typing import TypeVar

from ik_service.errors import in_a_line
from objectives.errors import InputError

Constraint = TypeVar("Constraint")


def all_of(kind: type[Constraint], values: object) -> list[Constraint]:
    """Return constraints of a kind.

    Raises:
        InputError: They are no list of such.
    """
    given = list(values) if isinstance(values, Iterable) else []
    found = [one for one in given if isinstance(one, kind)]
    if not isinstance(values, Iterable) or len(found) < len(given):
        raise InputError(f"The constraints are {in_a_line(values)}. Allowed: a list of {kind.__name__}.")
    return found


def numbers_of(what: str, values: object) -> tuple[float, ...]:
    """Return numbers as floats.

    Raises:
        InputError: They are no list of numbers.
    """
    given = list(values) if isinstance(values, Iterable) else []
    found = [float(one) for one in given if isinstance(one, Real)]
    if not isinstance(values, Iterable) or len(found) < len(given):
        raise InputError(f"{what} is {in_a_line(values)}. Allowed: a list of numbers.")
    return tuple(found)


def require_number(what: str, value: object) -> None:
    """Refuse what is neither a number nor None.

    Raises:
        InputError: It is.
    """
    if value is not None and not isinstance(value, Real):
        raise InputError(f"{what} is {in_a_line(value)}. Allowed: a number.")
