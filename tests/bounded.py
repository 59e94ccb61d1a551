"""Waits that end: a test whose answer never comes fails, and the others go on."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

PATIENCE_S = 60.0  # far more than anything here takes on a busy machine

Outcome = TypeVar("Outcome")


def run(coroutine: Coroutine[Any, Any, Outcome], seconds: float = PATIENCE_S) -> Outcome:
    """Run a coroutine in a loop of its own; TimeoutError where it does not end."""

    async def bounded() -> Outcome:
        task = asyncio.ensure_future(coroutine)
        await asyncio.wait([task], timeout=seconds)
        if not task.done():  # to cancel it could end it just as what the test waits for
            raise TimeoutError(f"the test has not ended within {seconds} s")
        return task.result()

    return asyncio.run(bounded())


def until(condition: Callable[[], object], seconds: float = PATIENCE_S) -> None:
    """Wait until a condition holds; TimeoutError where it never does."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("what the test waits for has not come")
        time.sleep(0.002)
