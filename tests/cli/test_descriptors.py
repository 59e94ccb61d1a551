"""Open files: the server takes as many as its connections need, or fewer connections."""

import contextlib
import resource
import socket
import urllib.parse
from functools import partial

import pytest

from ik_service.cli.serve import RESERVE, with_descriptors
from ik_service.settings import ServiceSettings
from tests.cli.conftest import ServerProcess

UNLIMITED = resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("soft", "hard", "raised_to", "connections"),
    [
        (1024, 524_288, 1000 + RESERVE, 1000),
        (1024, UNLIMITED, 1000 + RESERVE, 1000),
        (1000 + RESERVE, 1000 + RESERVE, None, 1000),
        (UNLIMITED, UNLIMITED, None, 1000),
        (512, 1024, 1024, 1024 - RESERVE),
        (1024, 1024, None, 1024 - RESERVE),
        (64, 128, 128, 1),
    ],
)
def test_limits_are_raised_as_far_as_they_may_be(monkeypatch, caplog, soft, hard, raised_to, connections):
    asked = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: asked.append(limits))
    assert with_descriptors(ServiceSettings(max_connections=1000)).max_connections == connections
    assert asked == ([] if raised_to is None else [(raised_to, hard)])
    assert ("ulimit" in caplog.text) == (connections < 1000)


def test_a_server_with_few_descriptors_keeps_the_last_callers_and_answers_them(serve, monkeypatch):
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (64, {RESERVE + 10})); "
    monkeypatch.setattr(ServerProcess, "program", limit + ServerProcess.program)
    server = serve(IK_SERVICE_HEADER_TIMEOUT_S="60")
    address = urllib.parse.urlsplit(server.url)
    with contextlib.ExitStack() as stack:
        connect = partial(socket.create_connection, (address.hostname, address.port), timeout=60)
        callers = [stack.enter_context(connect()) for _ in range(400)]
        assert all(map(_is_closed, callers[:390]))  # they asked for nothing, and gave way
        for caller in callers[390:]:
            caller.sendall(b"GET /health/ready HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert caller.recv(12) == b"HTTP/1.1 200"
    assert "At most 10 connections are taken instead of 2048" in "\n".join(server.log)


def _is_closed(caller):
    try:
        return caller.recv(1) == b""
    except ConnectionResetError:
        return True
