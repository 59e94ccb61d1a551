import pytest
from fastapi.testclient import TestClient

from ik_service.service import create_app
from ik_service.settings import ServiceSettings

KEY, READER_KEY, OTHER_KEY = "0123456789abcdef", "fedcba9876543210", "0f1e2d3c4b5a6978"
XML = {"Content-Type": "application/xml"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("catalog")


@pytest.fixture(scope="module")
def open_client(folder):
    settings = ServiceSettings(
        device="cpu",
        robots="panda",
        catalog_dir=folder,
        uploads_enabled=True,
        max_uploaded_robots=6,
        api_keys=f"lab:{KEY},reader:{READER_KEY},other:{OTHER_KEY}",
        uploaders="lab,other",
    )
    with TestClient(create_app(settings, compile_apart=False), headers={"X-API-Key": KEY}) as client:
        client.app.state.service.warm_up.result(300)
        yield client


def problem(reply, status, code):
    assert (reply.status_code, reply.json()["code"]) == (status, code), reply.text
    assert reply.headers["content-type"] == "application/problem+json"
