"""What tests of the client share: a client of a running service, and its streams."""

import pytest

from ik_service.client import Client
from tests.bounded import PATIENCE_S


@pytest.fixture(params=["msgpack", "json"])
def client(request, service_url):
    """A client of the running service, in each encoding."""
    with Client(service_url, encoding=request.param) as client:
        yield client


def stream_of(client, robot="panda", **options):
    """A stream of a panda's hand, unless told otherwise, whose ticks may take as long as tests do."""
    link = {} if "targets" in options else {"link": "panda_hand"}
    return client.stream(robot, **{"tick_timeout_s": PATIENCE_S, **link, **options})


def refusal(error):
    """Status and code of a refusal."""
    return error.value.status, error.value.code
