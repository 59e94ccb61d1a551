"""Errors of the queue in front of a solver.

IKError
├── QueueFullError   too much is waiting
│   └── ShareExhaustedError  of the caller's own
├── ExpiredError     the deadline passed before there was an answer
│   └── CompilingError  and before there was code for requests of this kind
├── CompileFailedError  there will be no code for requests of this kind
└── ClosedError      the pool no longer takes requests
    └── SolverLostError  nor will it ever: the thread that solves has ended, or does not come back
"""

from typing import Literal

from objectives.errors import IKError

RefusalReason = Literal[
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

    def __init__(self, message: str, reason: RefusalReason, retry_after_s: int = 1) -> None:
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


class CompilingError(ExpiredError):
    """The deadline passed while code for requests of this kind was being compiled.

    Attributes:
        retry_after_s: When it may be there [s].
    """

    def __init__(self, message: str, retry_after_s: int = 1) -> None:
        """Say for how long nothing has come, and when to ask again."""
        super().__init__(message)
        self.retry_after_s = retry_after_s


class CompileFailedError(IKError):
    """Code for requests of this kind cannot be compiled."""


class ClosedError(IKError):
    """The pool takes no more requests: it is closing, or its thread has failed."""


class SolverLostError(ClosedError):
    """The thread that solves has ended, or does not come back."""


def solver_stuck_error(timeout_s: float) -> ExpiredError:
    """Return the error for who has given up a request that the solver does not come back from."""
    return ExpiredError(f"No answer came within {timeout_s:.3g} s; the solver is held up. Try again later.")


def compile_failed_error(robot: str) -> CompileFailedError:
    """Return the error for requests of a kind whose code cannot be compiled."""
    return CompileFailedError(
        f"The code for this kind of request and robot '{robot}' cannot be compiled; the service's log says why. Ask "
        "for other links or rows, or look for numbers in the robot's description that are far from all others."
    )
