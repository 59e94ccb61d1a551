"""Errors of the queue in front of a solver.

IKError
├── QueueFullError   too many requests are waiting
└── ClosedError      the pool no longer takes requests
"""

from objectives.errors import IKError


class QueueFullError(IKError):
    """Too many requests are waiting; try again after a moment."""


class ClosedError(IKError):
    """The pool is closing and takes no more requests."""
