"""What tests of the client share: a client of a running service."""

import pytest

from ik_service.client import Client


@pytest.fixture(params=["msgpack", "json"])
def client(request, service_url):
    """A client of the running service, in each encoding."""
    with Client(service_url, encoding=request.param) as client:
        yield client
