from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from ik_service.api import create_app
from ik_service.settings import ServiceSettings

READY_TIMEOUT_S = 300.0  # the first solve on a machine compiles kernels


@pytest.fixture(scope="session")
def client() -> Iterator[TestClient]:
    app = create_app(ServiceSettings(device="cpu", insecure=True), compile_apart=False)
    with TestClient(app, raise_server_exceptions=False) as client:
        app.state.service.warm_up.result(READY_TIMEOUT_S)
        yield client


@pytest.fixture
def one_pose() -> dict[str, Any]:
    target = {"link": "panda_hand", "positions": [[0.4, 0.1, 0.5]], "orientations_xyzw": [[1, 0, 0, 0]]}
    return {"targets": [target]}
