"""What the connections use of uvicorn without its promise: a new version of uvicorn is compared with this list."""

import ast
import inspect

import pytest
from uvicorn.protocols.http import httptools_impl
from uvicorn.protocols.websockets import websockets_sansio_impl

from ik_service.service.gate.connection import LimitedConnection
from ik_service.service.gate.stream_connection import StreamConnection

OVERRIDDEN = {
    LimitedConnection: """__init__ connection_made connection_lost data_received eof_received pause_writing
        resume_writing on_message_begin on_header on_headers_complete on_body on_message_complete on_response_complete
        handle_websocket_upgrade send_400_response timeout_keep_alive_handler _start_asgi_task""",
    StreamConnection: """__init__ connection_lost data_received pause_writing resume_writing receive send shutdown
        handle_ping handle_pong handle_cont handle_close handle_events send_receive_event_to_app""",
}
USED = {
    LimitedConnection: "connections cycle flow headers loop pipeline server_state transport url",
    StreamConnection: """close_sent conn curr_msg_data_type frames handle_parser_exception loop read_paused transport
        writable""",
}
USED_OF_PARTS = {
    LimitedConnection: {
        "cycle": "keep_alive more_body response_complete response_started scope",
        "flow": "pause_reading resume_reading write_paused",
        "server_state": "default_headers",
    },
    StreamConnection: {"conn": "debug fail handshake_exc", "frames": "", "writable": "is_set"},
}
MODULES = {LimitedConnection: httptools_impl, StreamConnection: websockets_sansio_impl}
KINDS = [LimitedConnection, StreamConnection]


def attributes(kind, owner):
    """Names behind `self.` or behind `self.PART.` in the text of a class; locals named as the part count too."""
    found = set()
    for node in ast.walk(ast.parse(inspect.getsource(kind))):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in (owner, owner.removeprefix("self.")):
            found.add(node.attr)
    return found


def own_names(kind):
    assigned = {
        node.attr
        for node in ast.walk(ast.parse(inspect.getsource(kind)))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self"
    }
    return assigned | set(vars(kind)) | set(inspect.get_annotations(kind))


@pytest.mark.parametrize("kind", KINDS)
def test_the_methods_of_uvicorn_that_are_overridden_are_those_listed(kind):
    overridden = {name for name in vars(kind) if callable(getattr(kind, name)) and hasattr(kind.__base__, name)}
    assert overridden == set(OVERRIDDEN[kind].split())


@pytest.mark.parametrize("kind", KINDS)
def test_the_names_of_uvicorn_that_are_used_are_those_listed(kind):
    assert attributes(kind, "self") - own_names(kind) == set(USED[kind].split())
    for part, names in USED_OF_PARTS[kind].items():
        assert attributes(kind, f"self.{part}") == set(names.split()), part


@pytest.mark.parametrize("kind", KINDS)
def test_the_names_that_are_listed_are_there(kind):
    text = inspect.getsource(MODULES[kind])
    missing = [name for name in USED[kind].split() if f"self.{name}" not in text]
    assert not missing
    assert httptools_impl.STATUS_LINE[503].startswith(b"HTTP/1.1 503 ")
    for name in USED_OF_PARTS[LimitedConnection]["cycle"].split():
        assert f"self.{name} = " in inspect.getsource(httptools_impl.RequestResponseCycle)
