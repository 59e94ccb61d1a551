"""Timeouts of asynchronous code, as asyncio has them from Python 3.11 on; they raise `asyncio.TimeoutError`."""

import sys

if sys.version_info >= (3, 11):
    from asyncio import timeout, timeout_at
else:
    from async_timeout import timeout, timeout_at

__all__ = ["timeout", "timeout_at"]
