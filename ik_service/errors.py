"""Errors of the service, below those of the objectives.

IKError                              root; in objectives/errors.py
├── InputError (also a ValueError)   a value that the caller gave is wrong; in objectives/errors.py
│   ├── UnknownNameError             a robot, link, joint or option that is not there; in objectives/errors.py
│   └── RobotFileError               a robot description that cannot be read; names the element and the line
├── ObjectiveError                   an objective breaks its contract; in objectives/errors.py
├── EngineError                      the engine asked for cannot run this problem
├── KernelCacheError                 compiled kernels can be neither read nor kept, or are not to be trusted
│   └── KernelBuildError             kernels cannot be compiled
└── PageError                        the page cannot be shown or answered; in ik_service/page/questions.py

A failure to converge is not an error: it is a status of the result.
"""

from objectives.errors import IKError, InputError


class RobotFileError(InputError):
    """A robot description that cannot be read.

    Attributes:
        reason: What is wrong and what is allowed, without the place.
        element: The element at fault, as ``joint 'elbow'`` or ``<limit> of joint 'elbow'``; None where there is none.
        line: Line of that element in the file, from 1; None where the reader does not know it.
    """

    def __init__(self, reason: str, *, element: str | None = None, line: int | None = None) -> None:
        """Put the place in front of the reason.

        Args:
            reason: What is wrong and what is allowed.
            element: The element at fault.
            line: Line of that element, from 1.
        """
        self.reason = reason
        self.element = element
        self.line = line
        place = ", ".join(part for part in (None if line is None else f"line {line}", element) if part)
        super().__init__(f"{place}: {reason}" if place else reason)


class EngineError(IKError):
    """The engine asked for cannot run this problem; the message says which one can."""


class KernelCacheError(IKError):
    """Compiled kernels can be neither read nor kept; the message names the folder and says what to do."""


class KernelBuildError(KernelCacheError):
    """Kernels cannot be compiled; the message says what the compiler's error was."""


def in_a_line(value: object, length: int = 60) -> str:
    """Give what a wrong value is, in a line that is short enough for a message."""
    text = " ".join(repr(value).split())
    return text if len(text) <= length else text[: length - 3] + "..."
