"""The deadline that a caller asks for by `Prefer: wait=SECONDS` (RFC 7240, section 4.3).

The standard has whole seconds; decimals are accepted too, for control loops. A preference that cannot be read is
ignored (section 2 there).
"""

import re

PREFER_HEADER = b"prefer"
_WAIT = re.compile(rb"(?:^|[,;\s])wait\s*=\s*\"?(\d{1,9}(?:\.\d{1,9})?)\"?(?=[,;\s]|$)", re.IGNORECASE)


def preferred_wait_s(value: bytes) -> float | None:
    """Return how long a caller waits [s]; None where it does not say.

    Args:
        value: Value of the header.
    """
    found = _WAIT.search(value)
    return None if found is None else float(found[1])
