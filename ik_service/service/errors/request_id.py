"""The id of a request: from its header where that is valid, else a new one; answers and logs have it."""

import re
import secrets
from contextvars import ContextVar
from random import Random

REQUEST_ID_HEADER = b"x-request-id"
_VALID = re.compile(rb"[A-Za-z0-9._:/+=-]{1,128}")
_RANDOM = Random(secrets.randbits(128))

current_request_id: ContextVar[str | None] = ContextVar("current_request_id", default=None)
"""Id of the request that is being answered."""


def request_id(given: bytes | None) -> str:
    """Return the id in a request, or a new one.

    Args:
        given: Value of the header.
    """
    if given is not None and _VALID.fullmatch(given):
        return given.decode("ascii")
    return f"{_RANDOM.getrandbits(64):016x}"  # no secret, and no call into the kernel for each
