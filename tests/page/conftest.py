"""A server that nobody looks at, whoever solves, and a visitor."""

import pytest

from ik_service.page import LocalSolving
from tests.page.guests import Guest, scene_server


@pytest.fixture(scope="module")
def server():
    with scene_server() as server:
        yield server


@pytest.fixture(scope="module")
def solving():
    solving = LocalSolving("cpu")
    yield solving
    solving.close()


@pytest.fixture
def guest(server, solving):
    return Guest(server, solving, "panda")
