"""Errors of the queue in front of a solver.

IKError
├── QueueFullError   too much is waiting
│   └── ShareExhaustedError  of the caller's own
├── ExpiredError     the deadline passed before there was an answer
└── ClosedError      the pool no longer takes requests
    └── SolverLostError  nor will it ever: the thread that solves has ended, or does not come back
"""

from typing import Literal

from objectives.errors import IKError

Refusal = Literal[
    "requests", "problems", "kinds", "wait", "lag", "deadline", "share", "streams", "connections", "bytes"
]
"""Why a request found no room: too many requests, problems or kinds of requests wait, or it would be answered too late,
because of the queue or of the event loop in front of it, or its deadline passed before it was read, or its caller has
more of something than its share, or there are too many streams, connections or bytes that nobody has read."""


class QueueFullError(IKError):
    """Too much is waiting.

    Attributes:
        reason: Of what there is too much.
        retry_after_s: When it is worth trying again [s].
    """

    def __init__(self, message: str, reason: Refusal, retry_after_s: int = 1) -> None:
        """Say what is full, and when there may be room."""
        super().__init__(message)
        self.reason, self.retry_after_s = reason, retry_after_s


class ShareExhaustedError(QueueFullError):
    """The caller would have more than its share of what callers share; others find room."""

    def __init__(self, message: str, retry_after_s: int = 1) -> None:
        """Say what the caller has, its share, and what to do."""
        super().__init__(message, "share", retry_after_s)


class ExpiredError(IKError):
    """The deadline of a request passed before there was an answer."""


class ClosedError(IKError):
    """The pool takes no more requests: it is closing, or its thread has failed."""


class SolverLostError(ClosedError):
    """The thread that solves has ended, or does not come back."""


def held_up(timeout_s: float) -> ExpiredError:
    """Return the error for who has given up a request that the solver does not come back from."""
    return ExpiredError(f"No answer came within {timeout_s:.3g} s; the solver is held up. Try again later.")
