"""Errors of the queue in front of a solver.

IKError
├── QueueFullError   too much is waiting
├── ExpiredError     the deadline passed before there was an answer
└── ClosedError      the pool no longer takes requests
"""

from objectives.errors import IKError


class QueueFullError(IKError):
    """Too much is waiting.

    Attributes:
        retry_after_s: When it is worth trying again [s].
    """

    def __init__(self, message: str, retry_after_s: int = 1) -> None:
        """Say what is full, and when there may be room."""
        super().__init__(message)
        self.retry_after_s = retry_after_s


class ExpiredError(IKError):
    """The deadline of a request passed before there was an answer."""


class ClosedError(IKError):
    """The pool is closing and takes no more requests."""
