"""The server of the page: a visitor for every browser, and the threads that solve for all visitors.

viser answers every Host and every Origin, so a website in a browser on this machine could use the page. viser also
keeps uploaded files in memory until they are complete. Both are limited here through undocumented names of viser, so
`pyproject.toml` fixes the version series of viser.
"""

import contextlib
import http
import io
import ipaddress
import queue
import re
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import viser
import viser.infra._infra as viser_server
from viser import _messages

from ik_service.page.local_solving import LocalSolving
from ik_service.page.posed_robot import PosedRobot
from ik_service.page.questions import PageError
from ik_service.page.visitor import Visitor

LOOPBACK = "127.0.0.1"
THREADS_END_S = 60.0
"""Time that the end of the page waits for its threads [s]: a process that ends while code is compiled may not end."""

UPLOAD_MOST = 1 << 20  # bytes of an uploaded file
MESSAGE_MOST = 4 * UPLOAD_MOST  # bytes of a message that a browser sends; parts of files are smaller
UPLOADS_MOST = 2  # uploads of a browser at a time
SCHEME = re.compile(r"/scheme/(\d{1,9})/(dark|light)")  # path of a picture, see `words.page_html`
HOST = re.compile(r"(?:\[([\da-fA-F:.]+)\]|([^\[\]:/@]+))(?::\d+)?")
"""The header Host: an IPv6 address in brackets, or a name or IPv4 address; then a port."""


class Page(contextlib.AbstractContextManager["Page"]):
    """A served page; ends with `close`, which closes the source of answers, too.

    None in place of the first robot of a visitor is the first in the list; port 0 is a free one. PageError if there is
    no such robot, or the address cannot be used.
    """

    def __init__(
        self,
        solving: LocalSolving,
        robot: str | None = None,
        *,
        host: str = LOOPBACK,
        port: int = 0,
        is_dark: bool = False,
    ) -> None:
        self._solving, self._first, self._is_dark = solving, robot or solving.robots[0], is_dark
        solving.robot(self._first)
        self._waiting: queue.SimpleQueue[Visitor | None] = queue.SimpleQueue()
        self.visitors: dict[int, Visitor] = {}  # by connection number of the browser
        port = _free_port(host, port)
        guard = guarded_server(host, self._tell_scheme)
        with contextlib.redirect_stdout(io.StringIO()), guard:  # viser prints a greeting
            self._server = viser.ViserServer(host=host, port=port, verbose=False)
        self.url = f"http://{host}:{self._server.get_port()}"
        self._threads = [
            threading.Thread(target=self._work, name=f"ik-page-{k}", args=(k == 0,), daemon=True)
            for k in range(solving.workers)
        ]
        for thread in self._threads:
            thread.start()
        self._server.on_client_connect(self._come)
        self._server.on_client_disconnect(self._leave)

    def close(self) -> None:
        """Send everybody away and stop."""
        for _ in self._threads:
            self._waiting.put(None)
        for visitor in list(self.visitors.values()):
            visitor.leave()
        with contextlib.redirect_stdout(io.StringIO()):
            self._server.stop()
        for thread in self._threads:
            thread.join(THREADS_END_S)
        self._solving.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _tell_scheme(self, client_id: int, is_dark: bool) -> None:
        """Pass on whether the system of a browser is dark."""
        visitor = self.visitors.get(client_id)
        if visitor is not None:
            visitor.enqueue("scheme", is_dark)

    def _come(self, client: viser.ClientHandle) -> None:
        """Make a visitor for a new browser; runs in a thread of viser."""
        bound_uploads(client)
        visitor = Visitor(client, self._solving, self._waiting.put, is_dark=self._is_dark)
        self.visitors[client.client_id] = visitor
        visitor.enter(self._first)
        if client.client_id not in self._server.get_clients():
            self._leave(client)

    def _leave(self, client: viser.ClientHandle) -> None:
        visitor = self.visitors.pop(client.client_id, None)
        if visitor is not None:
            visitor.leave()

    def _work(self, solves_first: bool) -> None:
        """Do the actions of visitors, one after another; one thread compiles before the first question."""
        if solves_first:
            with contextlib.suppress(PageError):  # a visitor is told
                posed = PosedRobot(self._first, self._solving.robot(self._first))
                self._solving.solve(posed.question(any_branch=False, options={}, objects={}))
        while (visitor := self._waiting.get()) is not None:
            visitor.work()


def _free_port(host: str, port: int) -> int:
    """Return the port to listen on, or raise; viser would silently take the next port if this one is in use."""
    try:
        with socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET) as trial:
            return int(trial.getsockname()[1])
    except OSError as error:
        raise PageError(
            f"Cannot listen on {host}:{port}: {error.strerror or error}. Give another port for the page: "
            "--page-port of `ik-service serve` and `make run`, --port of `ik-service page`."
        ) from error


@contextlib.contextmanager
def guarded_server(host: str, tell_scheme: Callable[[int, bool], None]) -> Iterator[None]:
    """Make the viser server started in this block refuse foreign origins and hosts with 403.

    `tell_scheme` is called with a connection and whether its system is dark (see `words.page_html`).
    """
    server = viser_server.websockets.asyncio.server
    serve = server.serve

    def guarded(*arguments: Any, process_request: Callable[..., Any], **options: Any) -> Any:
        def process(connection: Any, request: Any) -> Any:
            names = request.headers.get_all("Host"), request.headers.get_all("Origin")
            if not is_admitted(host, *names):
                return connection.respond(http.HTTPStatus.FORBIDDEN, "This page does not answer other websites.\n")
            if scheme := SCHEME.fullmatch(request.path):
                tell_scheme(int(scheme[1]), scheme[2] == "dark")
                return connection.respond(http.HTTPStatus.NO_CONTENT, "")
            return process_request(connection, request)

        return serve(*arguments, process_request=process, **{**options, "max_size": MESSAGE_MOST})

    server.serve = guarded
    try:
        yield
    finally:
        server.serve = serve


def is_admitted(bound_to: str, hosts: list[str], origins: list[str]) -> bool:
    """Return whether a request comes from this page or from no website at all, from its headers Host and Origin.

    A page on a loopback address answers only loopback names, so no other name can be pointed at the page.
    """
    if len(hosts) != 1 or len(origins) > 1:
        return False
    host = HOST.fullmatch(hosts[0])
    if host is None or (_is_loopback(bound_to) and not _is_loopback(host[1] or host[2])):
        return False
    return not origins or urlsplit(origins[0]).netloc == hosts[0]


def bound_uploads(client: viser.ClientHandle) -> None:
    """Drop uploads of a browser above the limits of count and size."""
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
