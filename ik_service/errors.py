"""Errors of the service, below those of the objectives.

IKError                              root; in objectives/errors.py
├── InputError (also a ValueError)   a value that the caller gave is wrong; in objectives/errors.py
│   ├── UnknownNameError             an unknown robot, link, joint or option; in objectives/errors.py
│   └── RobotFileError               an unreadable robot description; names the element and the line
├── ObjectiveError                   an objective breaks its contract; in objectives/errors.py
├── EngineError                      the requested engine cannot run this problem
├── KernelCacheError                 compiled kernels cannot be read, stored or trusted
│   └── KernelBuildError             kernels cannot be compiled
└── PageError                        the page cannot be shown or answered; in ik_service/page/questions.py

A failure to converge is not an error, but a status of the result.
"""

from objectives.errors import IKError, InputError


class RobotFileError(InputError):
    """An unreadable robot description.

    Attributes:
        reason: The fault and the allowed values, without the place.
        element: The element at fault, as ``joint 'elbow'`` or ``<limit> of joint 'elbow'``; None if unknown.
        line: Line of the element in the file, from 1; None if unknown.
    """

    def __init__(self, reason: str, *, element: str | None = None, line: int | None = None) -> None:
        """Put the place in front of the reason."""
        self.reason = reason
        self.element = element
        self.line = line
        place = ", ".join(part for part in (None if line is None else f"line {line}", element) if part)
        super().__init__(f"{place}: {reason}" if place else reason)


class EngineError(IKError):
    """The requested engine cannot run this problem; the message names a suitable engine."""


class KernelCacheError(IKError):
    """Compiled kernels cannot be read or stored; the message names the folder and gives advice."""


class KernelBuildError(KernelCacheError):
    """Kernels cannot be compiled; the message quotes the compiler's error."""


def in_a_line(value: object, length: int = 60) -> str:
    """Return a wrong value as one short line for a message."""
    text = " ".join(repr(value).split())
    return text if len(text) <= length else text[: length - 3] + "..."
