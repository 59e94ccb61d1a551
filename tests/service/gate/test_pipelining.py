"""Requests that come before the answers to earlier ones, on a connection that ends."""

import asyncio
import logging
import socket
import threading

import pytest
import uvloop

from ik_service.service.gate.connection import PIPELINED_MOST
from ik_service.settings import ServiceSettings
from tests.bounded import until
from tests.service.gate.real_server import PATIENCE_S, real_server
from tests.service.gate.test_connection import rest

SETTINGS = ServiceSettings(max_connections=8)
REQUEST = b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n"


class Application:
    """Answers a request once told to, or once the caller has gone."""

    def __init__(self):
        self.may_answer, self.begun, self.ended = threading.Event(), 0, 0

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            return
        self.begun += 1
        await receive()
        gone = asyncio.ensure_future(receive())
        while not gone.done() and not self.may_answer.is_set():
            await asyncio.sleep(0.001)
        gone.cancel()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"xx"})
        self.ended += 1


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_the_request_that_is_answered_learns_that_its_caller_has_gone(run, caplog):
    application = Application()
    with real_server(application, SETTINGS, run) as (server, address):
        with socket.create_connection(address) as connection:
            connection.sendall(2 * REQUEST)
            until(lambda: application.begun, PATIENCE_S)
        until(lambda: application.ended, PATIENCE_S)
        until(lambda: not server.server_state.connections, PATIENCE_S)
    assert (application.begun, application.ended) == (1, 1)
    assert not [line for line in caplog.records if line.levelno > logging.WARNING]


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_too_many_requests_before_their_answers_end_the_connection_and_nothing_fails(run, caplog):
    application = Application()
    with real_server(application, SETTINGS, run) as (server, address):
        with socket.create_connection(address, timeout=PATIENCE_S) as connection:
            connection.sendall((PIPELINED_MOST + 2) * REQUEST)
            assert rest(connection) == b""
        until(lambda: application.ended, PATIENCE_S)
        until(lambda: not server.server_state.connections, PATIENCE_S)
    assert (application.begun, application.ended) == (1, 1)
    assert not [line for line in caplog.records if line.levelno > logging.WARNING]


def test_as_many_requests_as_allowed_are_answered_in_their_order():
    application = Application()
    application.may_answer.set()
    with real_server(application, SETTINGS) as (_, address), socket.create_connection(address) as connection:
        connection.settimeout(PATIENCE_S)
        connection.sendall((PIPELINED_MOST + 1) * REQUEST)
        data = b""
        while data.count(b"\r\n\r\nxx") < PIPELINED_MOST + 1:
            chunk = connection.recv(65536)
            assert chunk
            data += chunk
    assert application.ended == PIPELINED_MOST + 1
