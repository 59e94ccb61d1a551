"""Errors of objectives, and the root of every error of this project.

IKError
├── InputError (also a ValueError)   a wrong value of the caller
│   └── UnknownNameError             an unknown robot, link, joint or option
└── ObjectiveError                   an objective breaks its contract, or is bound to a second solver

The service adds its own branches in ``ik_service/errors.py``.
"""

from collections.abc import Sequence
from difflib import get_close_matches

NEAR_NAME_LENGTH, NEAR_NAME_EFFORT = 64, 1 << 17
"""Longest name with a search for near names, and pairs of characters compared: about 20 ms of a core."""


class IKError(Exception):
    """Root of every intended error of this project."""


class InputError(IKError, ValueError):
    """A wrong value of the caller; the message has the value and the allowed values."""


class UnknownNameError(InputError):
    """An unknown name of a robot, link, joint or option."""


class ObjectiveError(IKError):
    """An objective breaks the contract of its hooks, or is bound to a second solver."""


def near_names(name: str, names: Sequence[str], most: int = 1) -> list[str]:
    """Find known names similar to an unknown name, best first; none for long names; of many names only the first."""
    if len(name) > NEAR_NAME_LENGTH:
        return []
    return get_close_matches(name, names[: NEAR_NAME_EFFORT // max(1, len(name)) ** 2], n=most)
