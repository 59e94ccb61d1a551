from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from fastapi.testclient import TestClient

from ik_service import load_robot
from ik_service.client import Client
from ik_service.robots import RobotModel
from ik_service.service import create_app
from ik_service.service.catalog.entries import ServedRobot
from ik_service.service.pool.solver_cache import SolverCache
from ik_service.settings import ServiceSettings
from ik_service.solver.result import join_results
from tests.solver.test_collision import panda_with_spheres

READY_TIMEOUT_S = 300.0  # the first solve on a machine compiles kernels
COLUMNS = ("joint_q", "success", "status", "position_error", "cost", "iterations", "seed_index", "active_limits")


@contextmanager
def service_of(served: Any = None, **settings: Any) -> Iterator[TestClient]:
    """The client of a service of a test's own: robots by name, and settings."""
    given = ServiceSettings(device="cpu", insecure="api_keys" not in settings, **settings)
    app = create_app(given, robots=served, compile_apart=False)
    with TestClient(app, raise_server_exceptions=False) as client:
        app.state.service.warm_up.result(READY_TIMEOUT_S)
        yield client


@pytest.fixture(scope="session")
def client() -> Iterator[TestClient]:
    with service_of() as client:
        yield client


@pytest.fixture(scope="session")
def panda() -> RobotModel:
    return load_robot("panda")


@pytest.fixture
def one_pose() -> dict[str, Any]:
    target = {"link": "panda_hand", "positions": [[0.4, 0.1, 0.5]], "orientations_xyzw": [[1, 0, 0, 0]]}
    return {"targets": [target]}


@contextmanager
def serving(client: TestClient, name: str, robot: RobotModel) -> Iterator[None]:
    """Serve a robot besides the others for as long as the block runs."""
    catalog = client.app.state.service.catalog
    before = dict(catalog._served)
    catalog._set({**before, name: ServedRobot(None, robot, "built_in")})
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


def in_process(client: TestClient, encoding: str = "msgpack") -> Client:
    """A client of the project that speaks to the service of a test client."""
    return Client("http://testserver", transport=client._transport, encoding=encoding)


def assert_one_batch(robot: RobotModel, requests: Any, columns: Any = COLUMNS) -> SolverCache:
    """Assert that requests are solved together with the bytes of each alone; gives the cache that did so."""
    assert len({request.batch_key for request in requests}) == 1
    assert requests[0].batch_key is not None
    cache = SolverCache("cpu")
    together, row = cache.solve_together(robot, requests), 0
    for request in requests:
        rows = slice(row, row + request.problem_count)
        row, cut = rows.stop, join_results([(together, rows)])
        for alone in (cache.solve(robot, request), SolverCache("cpu").solve(robot, request)):
            for name in columns:
                assert getattr(cut, name).tobytes() == getattr(alone, name).tobytes(), name
            assert list(cut.islands) == list(alone.islands)
    assert row == len(together)
    assert len(cache) == 1
    return cache
