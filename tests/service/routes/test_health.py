"""Health routes: they answer whatever the solver does."""

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from types import SimpleNamespace

import httpx2
import pytest

from ik_service.errors import KernelCacheError
from ik_service.service import create_app
from ik_service.service.routes import health as health_routes
from ik_service.service.warm_up import warm_up
from ik_service.settings import ServiceSettings
from objectives.errors import InputError
from tests.bounded import until
from tests.service.conftest import service_of
from tests.service.messages import problem

PATIENCE_S = 300.0  # the first solve of a kind compiles kernels, on a machine that may be busy
GOOD = {"targets": [{"link": "panda_hand", "positions": [[0.4, 0.1, 0.5]]}]}


@pytest.mark.parametrize("path", ["/health/live", "/health/ready", "/metrics", "/v1/robots/panda", "/docs"])
def test_head_answers_as_get_does(running_service, path):
    with running_service(robots=("panda",)) as (url, _):
        head, get = httpx2.head(url + path), httpx2.get(url + path)
    assert (head.status_code, head.content) == (get.status_code, b"") == (200, b"")
    assert head.headers["content-type"] == get.headers["content-type"]
    assert "health" not in path or get.json() == {"status": path.rpartition("/")[2]}


def test_health_answers_while_a_solve_runs(client, monkeypatch):
    cache = client.app.state.service.pool._runner.solver_cache
    solve, started, release = cache.solve_together, threading.Event(), threading.Event()

    def slow(*arguments):
        started.set()
        assert release.wait(PATIENCE_S)
        return solve(*arguments)

    monkeypatch.setattr(cache, "solve_together", slow)
    with ThreadPoolExecutor(1) as caller:
        reply = caller.submit(client.post, "/v1/robots/panda/solve", json=GOOD)
        try:
            assert started.wait(PATIENCE_S)
            assert client.get("/health/ready").status_code == 200
            assert not reply.done()
        finally:
            release.set()
        assert reply.result(PATIENCE_S).json()["success"] == [True]


def test_ready_is_503_before_the_first_solve_and_after_it_failed(client, monkeypatch):
    first: Future = Future()
    monkeypatch.setattr(client.app.state.service, "warm_up", first)
    waiting = client.get("/health/ready")
    problem(waiting, 503, "not_ready")
    assert waiting.headers["retry-after"]
    first.set_exception(RuntimeError("secret"))
    failed = client.get("/health/ready")
    assert failed.status_code == 503
    assert "secret" not in failed.text
    assert client.get("/health/live").status_code == 200


def test_the_first_solve_may_take_longer_than_requests_may():
    """With an empty kernel cache it compiles first, whatever deadline requests have."""
    with service_of(robots="panda", request_timeout_s=0.001) as client:
        assert client.app.state.service.warm_up.result().result.success.all()
        assert client.get("/health/ready").status_code == 200


def test_a_first_solve_that_fails_is_logged(client, caplog):
    service, failed = client.app.state.service, Future()
    failed.set_exception(KernelCacheError("the disk is full"))
    pool = SimpleNamespace(submit=lambda *_, **__: failed)
    with pytest.raises(KernelCacheError):
        warm_up(service, pool, ["panda"]).result(PATIENCE_S)
    until(lambda: "will not become ready: the disk is full" in caplog.text)


def test_a_service_whose_solver_is_lost_says_so(monkeypatch):
    with service_of(robots=("panda",)) as other:
        assert other.get("/health/live").status_code == 200
        with monkeypatch.context() as patch:
            patch.setattr(health_routes, "STUCK_S", -1.0)  # as if the batch took longer
            problem(other.get("/health/live"), 503, "solver_lost")
        other.app.state.service.pool.close()
        for path in ("/health/live", "/health/ready"):
            problem(other.get(path), 503, "solver_lost")


def test_a_catalog_may_start_without_robots(tmp_path):
    with service_of(robots=",", catalog_dir=tmp_path) as client:
        assert client.get("/health/ready").status_code == 200
        assert client.get("/v1/robots").json()["robots"] == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"robots": ","}, "IK_SERVICE_ROBOTS"),
        ({"robots": ()}, "IK_SERVICE_ROBOTS"),
        ({"device": "cuda:0,cuda:1"}, "One process solves on one device, and setting device is 'cuda:0,cuda:1'"),
    ],
)
def test_an_application_needs_a_robot_and_one_device(settings, message):
    with pytest.raises(InputError, match=message):
        create_app(ServiceSettings(**{"device": "cpu", "robots": "panda", "insecure": True, **settings}))
