"""Quiet start of Warp: notes of Warp go to the log; standard output stays empty unless the application asks for lines.

Warp's native code writes notes, such as "no driver", to standard error; Warp also prints a greeting and a line per
loaded module on standard output. An application keeps its settings if Warp was started before, or if
`wp.config.log_level` differs from Warp's default. To see the lines, set `wp.config.quiet = False` before the first use,
or `wp.config.log_level = wp.LOG_INFO` after.
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
    """Start Warp, if not started; its notes are lost only if the process dies during the start.

    Without `log_notes` a process drops notes already logged by its parent; other output on standard error is passed on.
    """
    with _LOCK:
        started = wp._src.context.runtime is not None
        _quieten(started)
        if not started:
            _start(log_notes)


def _quieten(started: bool) -> None:
    """Keep Warp silent on standard output unless the application asks for lines."""
    quiet = getattr(wp.config, "quiet", None)  # absent in present Warp, but still set by applications
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
