"""Errors that the objectives can raise, and the root of every error of this project.

IKError
├── InputError (also a ValueError)   a value that the caller gave is wrong
│   └── UnknownNameError             a robot, link, joint or option that is not there
└── ObjectiveError                   an objective breaks its contract, or is bound to a second solver

The service adds its own branches in ``ik_service/errors.py``.
"""


class IKError(Exception):
    """Root of every error that this project raises on purpose."""


class InputError(IKError, ValueError):
    """A value that the caller gave is wrong; the message names it and says what is allowed."""


class UnknownNameError(InputError):
    """A name that nothing carries: a robot, link, joint or option that is not there."""


class ObjectiveError(IKError):
    """An objective breaks the contract of its hooks, or is bound to a second solver."""
