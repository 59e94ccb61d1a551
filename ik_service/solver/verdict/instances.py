"""Instances of frozen dataclasses from all their fields at once."""

from collections.abc import Mapping
from typing import Any, TypeVar

Instance = TypeVar("Instance")


def instance_of(kind: type[Instance], fields: Mapping[str, Any]) -> Instance:
    """Return an instance of a frozen dataclass without slots and `__post_init__`.

    Its own constructor sets fields one by one through `object.__setattr__`: for a result a tenth of a solve of one
    target.

    Args:
        kind: The class.
        fields: All its fields by name; those left out have the defaults of the class.
    """
    made = object.__new__(kind)
    vars(made).update(fields)
    return made
