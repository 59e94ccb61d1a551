from contextlib import contextmanager

import pytest

from ik_service.robots import builtin_urdf
from tests.service.conftest import service_of

KEY, READER_KEY, OTHER_KEY = "0123456789abcdef", "fedcba9876543210", "0f1e2d3c4b5a6978"
XML = {"Content-Type": "application/xml"}
UR5E = builtin_urdf("ur5e")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("catalog")


@pytest.fixture(scope="module")
def open_client(folder):
    keys = {"api_keys": f"lab:{KEY},reader:{READER_KEY},other:{OTHER_KEY}", "uploaders": "lab,other"}
    with service_of(robots="panda", catalog_dir=folder, max_uploaded_robots=6, uploads_enabled=True, **keys) as client:
        client.headers["X-API-Key"] = KEY
        yield client


@contextmanager
def kept(client, url, content=UR5E, **options):
    """Put a robot, or a world given as a document, for as long as the block runs; gives the reply."""
    body = {"json": content} if isinstance(content, dict) else {"content": content, "headers": XML}
    reply = client.put(url, **body, **options)
    assert reply.status_code == 201, reply.text
    yield reply
    assert client.delete(url.partition("?")[0]).status_code == 204
