"""Open files: the server takes as many as its connections need, or fewer connections."""

import resource
import socket
import urllib.parse

import pytest

from ik_service.cli.descriptors import RESERVE, with_descriptors
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


def test_a_server_with_few_descriptors_refuses_callers_and_answers_others(serve, monkeypatch):
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (64, {RESERVE + 10})); "
    monkeypatch.setattr(ServerProcess, "program", limit + ServerProcess.program)
    server = serve(IK_SERVICE_HEADER_TIMEOUT_S="60")
    address = urllib.parse.urlsplit(server.url)
    callers = [socket.create_connection((address.hostname, address.port), timeout=60) for _ in range(400)]
    refused = sum(caller.recv(12) == b"HTTP/1.1 503" for caller in callers[10:])
    assert refused == 390
    callers[9].sendall(b"GET /health/ready HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert callers[9].recv(12) == b"HTTP/1.1 200"
    for caller in callers:
        caller.close()
    assert "At most 10 connections are taken instead of 2048" in "\n".join(server.log)
