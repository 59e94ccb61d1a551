"""File descriptors of the server: one for each allowed connection, or fewer connections.

Without free descriptors the server could not accept connections, compile, or store an uploaded robot.
"""

import logging
import resource

from ik_service.settings import ServiceSettings

_logger = logging.getLogger(__name__)

RESERVE = 256
"""Descriptors besides those of connections: libraries, kernels, robots, the compiling process, callers to refuse."""


def with_descriptors(settings: ServiceSettings) -> ServiceSettings:
    """Raise the soft limit of open files of this process if needed; return settings within the hard limit."""
    soft, hard = (_count(limit) for limit in resource.getrlimit(resource.RLIMIT_NOFILE))
    allowed = min(settings.max_connections + RESERVE, hard)
    if soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (int(allowed), -1 if hard == float("inf") else int(hard)))
    connections = max(1, int(allowed) - RESERVE)
    if connections == settings.max_connections:
        return settings
    _logger.warning(
        "At most %d connections are taken instead of %d, because this process may open only %d files (ulimit -n).",
        connections,
        settings.max_connections,
        int(allowed),
    )
    return settings.model_copy(update={"max_connections": connections})


def _count(limit: int) -> float:
    return float("inf") if limit == resource.RLIM_INFINITY else limit
