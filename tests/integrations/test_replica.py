"""A replica's settings, its health, and the configurations that are shipped."""

import threading
import time
from pathlib import Path

import pytest
import yaml
from fastapi.testclient import TestClient
from ray.serve import Application
from ray.serve.schema import ServeDeploySchema

from ik_service.integrations import ray_serve
from ik_service.integrations.ray_serve import UnhealthyError, build, deployment, replica_settings, require_solving
from ik_service.robots import builtin_urdf
from ik_service.service import create_app
from ik_service.settings import ServiceSettings
from objectives import InputError
from tests.service.conftest import service_of

CONFIGURATIONS = sorted((Path(__file__).parents[2] / "docker" / "ray").glob("*.yaml"))
START_S = 300.0  # the first solve on a machine compiles kernels
IMPATIENCE_S = 0.05
KEYS = {"IK_SERVICE_API_KEYS": "lab:0123456789abcdef"}


@pytest.fixture
def keys(monkeypatch):
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("path", CONFIGURATIONS, ids=lambda path: path.stem)
def test_a_shipped_configuration_is_one_of_rays_and_fits_the_code(path, keys):
    given = yaml.safe_load(path.read_text())
    configuration = ServeDeploySchema.model_validate(given)
    (application,) = configuration.applications
    (replicas,) = application.deployments
    assert application.import_path == f"{build.__module__}:{build.__qualname__}"
    assert replicas.name == ray_serve.NAME
    settings = replica_settings(application.args)
    assert configuration.http_options.request_timeout_s > settings.request_timeout_s
    assert replicas.autoscaling_config["target_ongoing_requests"] < ray_serve.ONGOING_MOST
    wanted = replicas.ray_actor_options
    assert (settings.device, wanted.num_cpus, wanted.num_gpus) in {("cpu", 1, None), ("cuda", 1, 1)}
    assert configuration.logging_config.enable_access_log is False
    assert [one.stem for one in CONFIGURATIONS] == ["cpu", "gpu"]


def test_a_replica_takes_many_requests_and_has_time_to_end():
    made = deployment(replica_settings({"request_timeout_s": 90}))
    assert made.name == ray_serve.NAME
    assert made.max_ongoing_requests >= 100
    assert 0 < made.max_queued_requests < 10_000
    assert made._deployment_config.graceful_shutdown_timeout_s > 90  # told nowhere else


def test_without_keys_nothing_is_deployed_but_where_that_is_meant(monkeypatch):
    monkeypatch.delenv("IK_SERVICE_API_KEYS", raising=False)
    with pytest.raises(InputError, match="no API keys"):
        build({})
    assert isinstance(build({"insecure": True}), Application)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"api_keys": "lab:0123456789abcdef"}, "secret"),
        ({"port": 9000}, "no effect"),
        ({"seedz": 1}, "seedz"),
        ({"threads": 0}, "threads"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(options, said):
    with pytest.raises(InputError, match=said) as caught:
        replica_settings(options)
    assert "0123456789abcdef" not in str(caught.value)


def test_as_many_threads_solve_as_the_replica_has_cores():
    assert replica_settings({}, 3.0).threads == 3
    assert replica_settings({}, 0.5).threads == 1
    assert replica_settings({"threads": 2}, 3.0).threads == 2


@pytest.fixture
def service():
    with service_of(robots="panda") as client:
        served = client.app.state.service

        def check(patience_s=START_S):
            changed = served.settings.model_copy(update={"request_timeout_s": patience_s})
            client.portal.call(require_solving, served, changed)

        yield check, served.pool


def test_a_replica_outlives_the_robot_that_it_began_with(tmp_path, caplog):
    """Deleted while it runs, or before it starts."""
    settings = ServiceSettings(
        device="cpu",
        robots="panda",
        warm_up_robots="own",
        api_keys=KEYS["IK_SERVICE_API_KEYS"],
        catalog_dir=tmp_path,
        uploads_enabled=True,
    )
    key = {"X-API-Key": KEYS["IK_SERVICE_API_KEYS"].partition(":")[2]}
    for is_there_at_the_start in (False, True):
        app = create_app(settings, compile_apart=False)
        with TestClient(app, headers=key) as client:
            app.state.service.warm_up.result(START_S)
            if is_there_at_the_start:
                assert client.delete("/v1/robots/own").status_code == 204
            else:
                assert "Robots to warm up that are not served, or no more: own." in caplog.text
                given = {"content": builtin_urdf("ur5e"), "headers": {"content-type": "text/xml"}}
                answer = client.put("/v1/robots/own", **given)
                assert answer.status_code == 201
            client.portal.call(require_solving, app.state.service, settings)


def test_a_replica_is_healthy_until_its_solver_ends(service):
    check, pool = service
    check()
    assert pool.solving_s < START_S
    pool.close()
    with pytest.raises(UnhealthyError):
        check()


def test_a_replica_whose_solver_does_not_come_back_is_not(service, monkeypatch):
    check, pool = service
    begun, release = threading.Event(), threading.Event()

    def hang(*_):
        begun.set()
        release.wait(START_S)

    monkeypatch.setattr(ray_serve, "PROBE_S", 0.1)
    monkeypatch.setattr(pool._runner.solver_cache, "solve_together", hang)
    try:
        while not begun.is_set():  # a question may run out of its time before the solver's thread sees it
            check()
        check()  # busy is not ill
        while pool.solving_s <= IMPATIENCE_S:
            time.sleep(0.01)
        with pytest.raises(UnhealthyError):
            check(IMPATIENCE_S)
    finally:
        release.set()


def test_a_replica_whose_device_fails_is_not(service, monkeypatch):
    check, pool = service

    def fail(*_):
        raise RuntimeError("illegal address")

    monkeypatch.setattr(pool._runner.solver_cache, "solve_together", fail)
    with pytest.raises(RuntimeError, match="illegal address"):
        check()
