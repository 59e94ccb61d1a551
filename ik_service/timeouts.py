"""Timeouts of asynchronous code, as asyncio has them from Python 3.11 on."""

import asyncio
import sys

if sys.version_info >= (3, 11):
    from asyncio import timeout, timeout_at
else:
    from async_timeout import timeout, timeout_at

TIMED_OUT = (TimeoutError, asyncio.TimeoutError)
"""What is raised when the time is over: one class from Python 3.11 on."""

__all__ = ["TIMED_OUT", "timeout", "timeout_at"]
