"""The server of the page: a visitor for every browser, and the threads that solve for all of them."""

import contextlib
import io
import queue
import socket
import threading

import viser

from ik_service.page.guard import bound_uploads, guarded_server
from ik_service.page.posed_robot import PosedRobot
from ik_service.page.solving.questions import PageError, Solving
from ik_service.page.visitor import Visitor

LOOPBACK = "127.0.0.1"
THREADS_END_S = 60.0
"""How long the end of the page waits for its threads [s]: a process that ends while code is compiled may not end."""


class Page:
    """A page that is served until it is closed.

    Args:
        solving: Who solves; the page closes it.
        robot: The robot that a visitor sees first; None is the first one.
        host: Address to listen on.
        port: Port to listen on; 0 is a free one.
        is_dark: Whether the page begins dark.

    Attributes:
        visitors: Those who are there, by the number of their browser's connection.

    Raises:
        PageError: There is no such robot, or the address cannot be used.
    """

    def __init__(
        self, solving: Solving, robot: str | None = None, *, host: str = LOOPBACK, port: int = 0, is_dark: bool = False
    ) -> None:
        self._solving, self._first, self._is_dark = solving, robot or solving.robots[0], is_dark
        solving.robot(self._first)
        self._waiting: queue.SimpleQueue[Visitor | None] = queue.SimpleQueue()
        self.visitors: dict[int, Visitor] = {}
        port = _free_port(host, port)
        with contextlib.redirect_stdout(io.StringIO()), guarded_server(host):  # viser greets with a table of its own
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

    def __enter__(self) -> "Page":
        """Return the page."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def _come(self, client: viser.ClientHandle) -> None:
        """Make a state for a browser that has connected; runs in a thread of viser's."""
        bound_uploads(client)
        visitor = Visitor(client, self._solving, self._first, self._waiting.put, is_dark=self._is_dark)
        self.visitors[client.client_id] = visitor
        if client.client_id not in self._server.get_clients():
            self._forget(client.client_id)

    async def _leave(self, client: viser.ClientHandle) -> None:
        """Forget a browser that has gone."""
        self._forget(client.client_id)

    def _forget(self, client_id: int) -> None:
        visitor = self.visitors.pop(client_id, None)
        if visitor is not None:
            visitor.leave()

    def _work(self, solves_first: bool) -> None:
        """Do what visitors have asked for, one after another, until None comes.

        Args:
            solves_first: Whether to solve once before anybody asks, so that code is compiled by then.
        """
        if solves_first:
            with contextlib.suppress(PageError):  # a visitor is told
                posed = PosedRobot(self._first, self._solving.robot(self._first))
                self._solving.solve(posed.question(any_branch=False, options={}, objects={}))
        while (visitor := self._waiting.get()) is not None:
            visitor.work()


def _free_port(host: str, port: int) -> int:
    """Return the port to listen on: viser takes the next one where it is in use, and says so to nobody.

    Raises:
        PageError: The address cannot be used.
    """
    try:
        with socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET) as trial:
            return int(trial.getsockname()[1])
    except OSError as error:
        raise PageError(
            f"Cannot listen on {host}:{port}: {error.strerror or error}. Give another port for the page: "
            "--page-port of `ik-service serve` and `make run`, --port of `ik-service page`."
        ) from error
