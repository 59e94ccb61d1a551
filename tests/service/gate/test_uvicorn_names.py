"""What the connections override of uvicorn is there in it: else a new version would leave a limit out unnoticed."""

import pytest

from ik_service.service.gate.connection import LimitedConnection
from ik_service.service.gate.stream_connection import StreamConnection

OWN = {LimitedConnection: {"close_now", "on_chunk_header"}, StreamConnection: set()}  # on_chunk_header: of the parser


@pytest.mark.parametrize("kind", OWN)
def test_methods_that_are_overridden_are_there(kind):
    public = {name for name in vars(kind) if not name.startswith("_") and callable(getattr(kind, name))}
    assert len(public) > 5
    assert public - set(dir(kind.__base__)) == OWN[kind]
    assert hasattr(LimitedConnection.__base__, "_start_asgi_task")
