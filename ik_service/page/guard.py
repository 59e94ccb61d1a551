"""Guard of the page's server: who may connect, and how much an upload may hold.

viser answers every Host and every Origin, so a website in a browser on this machine could use the page. It keeps files
that are uploaded in memory until they are whole. Both are bounded here, by names of viser that it does not document;
`pyproject.toml` holds its series.
"""

import contextlib
import http
import ipaddress
import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import viser
import viser.infra._infra as viser_server
from viser import _messages

UPLOAD_MOST = 1 << 20
"""Bytes of an uploaded file."""
MESSAGE_MOST = 4 * UPLOAD_MOST
"""Bytes of a message that a browser sends; parts of files are smaller."""
UPLOADS_MOST = 2
"""Uploads of a browser at a time."""
HOST = re.compile(r"(?:\[([\da-fA-F:.]+)\]|([^\[\]:/@]+))(?::\d+)?")
"""The header Host: an IPv6 address in brackets, or a name or IPv4 address; then a port."""


@contextlib.contextmanager
def guarded_server(host: str) -> Iterator[None]:
    """Make the viser server that is started in this block refuse foreign origins and hosts with 403.

    Args:
        host: Address that the server listens on.
    """
    server = viser_server.websockets.asyncio.server
    serve = server.serve

    def guarded(*arguments: Any, process_request: Callable[..., Any], **options: Any) -> Any:
        def process(connection: Any, request: Any) -> Any:
            names = request.headers.get_all("Host"), request.headers.get_all("Origin")
            if not is_admitted(host, *names):
                return connection.respond(http.HTTPStatus.FORBIDDEN, "This page does not answer other websites.\n")
            return process_request(connection, request)

        return serve(*arguments, process_request=process, **{**options, "max_size": MESSAGE_MOST})

    server.serve = guarded
    try:
        yield
    finally:
        server.serve = serve


def is_admitted(bound_to: str, hosts: list[str], origins: list[str]) -> bool:
    """Return whether a request comes from this page or from no website at all.

    A page on a loopback address answers loopback names alone, so that no other name can be made to lead to it.

    Args:
        bound_to: Address that the server listens on.
        hosts: Values of the header Host.
        origins: Values of the header Origin.
    """
    if len(hosts) != 1 or len(origins) > 1:
        return False
    host = HOST.fullmatch(hosts[0])
    if host is None or (_is_loopback(bound_to) and not _is_loopback(host[1] or host[2])):
        return False
    return not origins or urlsplit(origins[0]).netloc == hosts[0]


def bound_uploads(client: viser.ClientHandle) -> None:
    """Drop uploads of a browser that are too many or too large."""
    uploads: dict[str, Any] = client.gui._current_file_upload_states

    def drop(_: int, message: Any) -> None:
        upload = uploads.get(message.transfer_uuid)
        if upload is not None and (
            len(uploads) > UPLOADS_MOST or max(upload["total_bytes"], upload["transferred_bytes"]) > UPLOAD_MOST
        ):
            del uploads[message.transfer_uuid]

    for kind in (_messages.FileTransferStartUpload, _messages.FileTransferPart):
        client.gui._websock_interface.register_handler(kind, drop)


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
