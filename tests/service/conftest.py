from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from fastapi.testclient import TestClient

from ik_service.robots import RobotModel
from ik_service.service import create_app
from ik_service.service.catalog.entries import ServedRobot
from ik_service.settings import ServiceSettings
from tests.solver.test_collision import panda_with_spheres

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


@contextmanager
def serving(client: TestClient, name: str, robot: RobotModel) -> Iterator[None]:
    """Serve a robot besides the others for as long as the block runs."""
    catalog = client.app.state.service.catalog
    before = dict(catalog._served)
    catalog._set({**before, name: ServedRobot(robot, "built_in", None)})
    try:
        yield
    finally:
        catalog._set(before)


@pytest.fixture(scope="session")
def cell() -> RobotModel:
    """A Panda with few spheres."""
    return panda_with_spheres()


@pytest.fixture(scope="module")
def served_cell(client: TestClient, cell: RobotModel) -> Iterator[TestClient]:
    """The client of a service that serves that robot, as `cell`."""
    with serving(client, "cell", cell):
        yield client
