"""Methods that are written once for both kinds of clients, as generators.

A generator yields what is to be done, such as a request to send, and is resumed with the result. `blocking` and
`awaitable` make a method of it: the method passes everything that is yielded to `self._perform`.
"""

import inspect
from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, get_args

P = ParamSpec("P")
T = TypeVar("T")
Steps = Generator[Any, Any, T]
"""Yields what is to be done, and returns the result of the method."""


@dataclass(frozen=True)
class Wait:
    """A pause before the next request.

    Attributes:
        seconds: Its length [s].
    """

    seconds: float


def blocking(steps: Callable[Concatenate[Any, P], Steps[T]]) -> Callable[Concatenate[Any, P], T]:
    """Return a method that blocks; `_perform` of its class is a function."""

    @wraps(steps)
    def run(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        running, result = steps(self, *args, **kwargs), None
        try:
            while True:
                result = self._perform(running.send(result))
        except StopIteration as end:
            returned: T = end.value
            return returned

    _sign(run, steps)
    return run


def awaitable(steps: Callable[Concatenate[Any, P], Steps[T]]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Return a method for an event loop; `_perform` of its class is a coroutine function."""

    @wraps(steps)
    async def run(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        running, result = steps(self, *args, **kwargs), None
        try:
            while True:
                result = await self._perform(running.send(result))
        except StopIteration as end:
            returned: T = end.value
            return returned

    _sign(run, steps)
    return run


def _sign(method: Callable[..., Any], steps: Callable[..., Any]) -> None:
    """Let `help` and `inspect` show the result of a method instead of its generator."""
    signature = inspect.signature(steps)
    *_, result = get_args(signature.return_annotation)
    vars(method)["__signature__"] = signature.replace(return_annotation=result)
