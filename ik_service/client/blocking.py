"""Shared code for programs with and without an event loop: coroutine functions, and blocking methods made of them."""

import inspect
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def result_of(started: Any) -> Any:
    """Return the result of a call: awaits an awaitable of an event loop; a blocking call has its result already."""
    return await started if inspect.isawaitable(started) else started


def blocking(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Any, P], T]:
    """Return a blocking method for a coroutine function in which every call blocks."""

    @wraps(method)
    def run(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            method(self, *args, **kwargs).send(None)
        except StopIteration as end:
            result: T = end.value
            return result
        raise RuntimeError(f"{method.__qualname__} waits for an event loop, and there is none.")

    return run
