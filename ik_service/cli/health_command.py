"""`ik-service health`: one question to a running service.

This command runs every few seconds, so only two settings are read here; loading all settings would load Warp.
"""

import os
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener

from ik_service.cli.console import message_console, output_console

LIVE, READY = "/health/live", "/health/ready"
HOST, PORT = "127.0.0.1", "8000"  # where a service listens by default


def print_health(url: str | None, *, live: bool, timeout_s: float) -> bool:
    """Request the health of a service and print the answer; return whether the service is healthy.

    None in place of the URL is this machine, on the port of the settings. `live` requests the live route instead of
    the ready route. `timeout_s` is the longest time for the answer [s].
    """
    try:
        address = (own_url() if url is None else url).rstrip("/") + (LIVE if live else READY)
        # No proxy: a proxy would connect to its own loopback address.
        with build_opener(ProxyHandler({})).open(address, timeout=timeout_s) as reply:
            output_console().out(reply.read().decode(errors="replace").strip(), highlight=False)
        return True
    except HTTPError as error:
        message_console().print(error.read().decode(errors="replace").strip(), markup=False)
    except (OSError, HTTPException, ValueError) as error:
        message_console().print(f"No answer: {error}", markup=False)
    return False


def own_url() -> str:
    """Return where a service with the environment of this process listens, as seen from this machine."""
    host = os.environ.get("IK_SERVICE_HOST") or HOST
    port = os.environ.get("IK_SERVICE_PORT", "")
    # Kubernetes may have put an address of its own under the name of the port.
    return reachable_url(host, port if port.isdecimal() else PORT)


def reachable_url(host: str, port: int | str) -> str:
    """Return the URL of a service for callers on this machine."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
