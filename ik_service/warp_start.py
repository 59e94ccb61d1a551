"""The start of Warp, quietly: its notes go into the log, and nothing to standard output unless it is asked for.

Its native code writes notes, such as that there is no driver, straight to standard error; and Warp greets, and tells of
each module that it loads, on standard output. An application that has started Warp itself keeps the settings that it
has, and so does one that has set another `wp.config.log_level` than Warp's own. One that wants the lines asks for them:
`wp.config.quiet = False` before, or `wp.config.log_level = wp.LOG_INFO` after the first use.
"""

import logging
import os
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

import warp as wp

STDERR = 2
"""File descriptor of standard error."""
NO_DRIVER = "Could not find or load the NVIDIA CUDA driver"
"""What Warp notes where there is no driver for cards, as on all machines without a card."""
NVIDIA = "0x10de"
"""Number of the vendor of cards on the PCI bus."""

_logger = logging.getLogger(__name__)
_LOCK = threading.Lock()


def start_warp(*, log_notes: bool = True) -> None:
    """Start Warp, where that has not been done; nothing that it says is lost unless the process dies of it.

    Args:
        log_notes: Whether its notes are logged; a process whose parent has logged them drops them. What others write to
            standard error meanwhile is passed on as it is.
    """
    with _LOCK:
        started = wp._src.context.runtime is not None
        _quieten(started)
        if not started:
            _start(log_notes)


def _quieten(started: bool) -> None:
    """Let Warp say nothing on standard output that nobody has asked for."""
    quiet = getattr(wp.config, "quiet", None)  # Warp of today knows it no more, but applications set it
    if quiet or (quiet is None and not started and wp.config.log_level == wp.LOG_INFO):
        wp.config.log_level = max(wp.config.log_level, wp.LOG_WARNING)


def _start(log_notes: bool) -> None:
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
            expected = NO_DRIVER in line and not _has_card()
            _logger.log(logging.DEBUG if expected else logging.WARNING, "%s", line.strip())


def _has_card() -> bool:
    """Return whether the machine has a card for a driver."""
    for vendor in Path("/sys/bus/pci/devices").glob("*/vendor"):
        with suppress(OSError):
            if vendor.read_text().strip() == NVIDIA:
                return True
    return False
