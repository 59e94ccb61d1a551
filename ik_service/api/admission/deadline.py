"""How long a caller waits for an answer, as it says in `Prefer: wait=SECONDS` (RFC 7240, section 4.3).

The standard counts in whole seconds; a control loop has less, so decimals are taken too. A preference that cannot be
read is as good as none (section 2 there).
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
