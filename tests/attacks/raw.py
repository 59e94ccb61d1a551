"""Requests as bytes on sockets, for attacks that a client's library would not make."""

import contextlib
import socket
from collections.abc import Iterator

from tests.attacks.service import KEYS, Service

TIMEOUT_S = 30.0
SMALL_WINDOW = 4096  # of a caller who does not want to take an answer


def request_bytes(method: str, path: str, body: bytes = b"", *fields: str, key: str | None = "attacker") -> bytes:
    """A request as it goes over the wire; JSON where it has a body."""
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", *fields]
    if key is not None:
        lines.append(f"X-API-Key: {KEYS[key]}")
    if body:
        lines += [f"Content-Length: {len(body)}", "Content-Type: application/json"]
    return "\r\n".join([*lines, "", ""]).encode() + body


def opened(service: Service, window: int | None = None) -> socket.socket:
    """A connection; with a small window the service cannot get rid of an answer that nobody reads."""
    connection = socket.socket()
    if window is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
    connection.settimeout(TIMEOUT_S)
    connection.connect((service.host, service.port))
    return connection


@contextlib.contextmanager
def many(service: Service, count: int, window: int | None = None) -> Iterator[list[socket.socket]]:
    """Many connections, closed after the block."""
    connections: list[socket.socket] = []
    try:
        for _ in range(count):
            connections.append(opened(service, window))
        yield connections
    finally:
        for connection in connections:
            connection.close()


def status_of(connection: socket.socket) -> int:
    """Status of the next answer; 0 where the service has closed the connection."""
    head = b""
    with contextlib.suppress(OSError):
        while b"\r\n" not in head and (chunk := connection.recv(64)):
            head += chunk
    return int(head.split()[1]) if head.startswith(b"HTTP/1.1 ") else 0
