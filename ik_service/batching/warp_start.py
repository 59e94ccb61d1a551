"""The start of Warp, whose native code writes notes, such as that a GPU has no driver, straight to standard error.

A service writes a line for each event there, which others read by machine; so the notes go into the log instead.
"""

import logging
import os
import sys
import tempfile
from contextlib import suppress

import warp as wp

STDERR = 2
"""File descriptor of standard error."""

_log = logging.getLogger(__name__)


def start_warp(*, log_notes: bool = True) -> None:
    """Start Warp, where that has not been done; nothing that it says is lost unless the process dies of it.

    Args:
        log_notes: Whether its notes are logged; a process whose parent has logged them drops them. What others write to
            standard error meanwhile is passed on as it is.
    """
    if wp._src.context.runtime is not None:
        return
    try:
        kept = os.dup(STDERR)
    except OSError:  # there is none
        wp.init()
        return
    with tempfile.TemporaryFile() as caught:
        with suppress(AttributeError, OSError, ValueError):
            sys.stderr.flush()
        os.dup2(caught.fileno(), STDERR)
        try:
            wp.init()
        finally:
            os.dup2(kept, STDERR)
            os.close(kept)
            caught.seek(0)
            _pass_on(caught.read().decode(errors="replace"), log_notes)


def _pass_on(text: str, log_notes: bool) -> None:
    for line in filter(str.strip, text.splitlines()):
        if not line.startswith("Warp "):
            with suppress(OSError):
                os.write(STDERR, f"{line}\n".encode())
        elif log_notes:
            _log.warning("%s", line.strip())
