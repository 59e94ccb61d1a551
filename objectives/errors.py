"""Errors that the objectives can raise, and the root of every error of this project.

IKError
├── InputError (also a ValueError)   a value that the caller gave is wrong
│   └── UnknownNameError             a robot, link, joint or option that is not there
└── ObjectiveError                   an objective breaks its contract, or is bound to a second solver

The service adds its own branches in ``ik_service/errors.py``.
"""

from collections.abc import Sequence
from difflib import get_close_matches

NEAR_NAME_LENGTH, NEAR_NAME_EFFORT = 64, 1 << 17
"""Longest name for which near ones are looked for, and pairs of characters compared for it: some 20 ms of a core."""


class IKError(Exception):
    """Root of every error that this project raises on purpose."""


class InputError(IKError, ValueError):
    """A value that the caller gave is wrong; the message names it and says what is allowed."""


class UnknownNameError(InputError):
    """A name that nothing carries: a robot, link, joint or option that is not there."""


class ObjectiveError(IKError):
    """An objective breaks the contract of its hooks, or is bound to a second solver."""


def near_names(name: str, names: Sequence[str], most: int = 1) -> list[str]:
    """Give the known names most like an unknown one, best first; for a long name none, of many names the first."""
    if len(name) > NEAR_NAME_LENGTH:
        return []
    return get_close_matches(name, names[: NEAR_NAME_EFFORT // max(1, len(name)) ** 2], n=most)
