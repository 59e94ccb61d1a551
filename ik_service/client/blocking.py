"""Code that is written once for event loops and for programs without: coroutine functions, and methods made of them."""

import inspect
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def result_of(started: Any) -> Any:
    """Return the result of a call: what is started in an event loop is awaited, a call that blocks has it already."""
    return await started if inspect.isawaitable(started) else started


def blocking(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Any, P], T]:
    """Return a method that blocks until it has the result of a coroutine function, all of whose calls block."""

    @wraps(method)
    def run(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            method(self, *args, **kwargs).send(None)
        except StopIteration as end:
            result: T = end.value
            return result
        raise RuntimeError(f"{method.__qualname__} waits for an event loop, and there is none.")

    return run
