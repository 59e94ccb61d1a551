"""Errors of the queue in front of a solver.

IKError
├── QueueFullError   too much is waiting
│   ├── ShareExhaustedError  of this caller
│   └── RateExceededError    too many requests per second of this caller
├── ExpiredError     the deadline passed before the answer
│   └── CompilingError  while the code for requests of this kind was being compiled
├── CompileFailedError  the code for requests of this kind cannot be compiled
└── ClosedError      the pool takes no more requests
    └── SolverLostError  because the solver's thread has ended, or its device works no more
"""

from typing import Literal

from objectives.errors import IKError

RefusalReason = Literal[
    "requests", "problems", "kinds", "wait", "lag", "deadline", "share", "rate", "streams", "connections", "bytes"
]
"""Why a request was refused: too many requests, problems or kinds of requests wait ("requests", "problems", "kinds");
the wait in the queue ("wait") or before it ("lag") would be too long; its deadline passed before it was read
("deadline"); its caller exceeds its share ("share") or rate ("rate"); too many streams, connections or bytes held."""


class QueueFullError(IKError):
    """The queue, or another bounded resource, is full.

    Attributes:
        reason: Key of the exhausted resource, see `RefusalReason`.
        retry_after_s: Time after which to try again [s].
    """

    def __init__(self, message: str, reason: RefusalReason, retry_after_s: int = 1) -> None:
        super().__init__(message)
        self.reason, self.retry_after_s = reason, retry_after_s


class ShareExhaustedError(QueueFullError):
    """The caller would exceed its share; other callers still find room."""

    def __init__(self, message: str, retry_after_s: int = 1) -> None:
        super().__init__(message, "share", retry_after_s)


class RateExceededError(QueueFullError):
    """The caller sends more requests per second than an API key may."""


class ExpiredError(IKError):
    """The deadline of a request passed before its answer."""


class CompilingError(ExpiredError):
    """The deadline passed while code for requests of this kind was being compiled.

    Attributes:
        retry_after_s: Time after which to try again [s].
    """

    def __init__(self, message: str, retry_after_s: int = 1) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class CompileFailedError(IKError):
    """Code for requests of this kind cannot be compiled."""

    def __init__(self, robot: str) -> None:
        super().__init__(
            f"The code for this kind of request and robot '{robot}' cannot be compiled; the service's log says why. "
            "Ask for other links or rows, or look for numbers in the robot's description that are far from all others."
        )


class ClosedError(IKError):
    """The pool takes no more requests: it is closing, or its thread has ended."""


class SolverLostError(ClosedError):
    """The solver thread has ended with an error, such as a failed device."""
