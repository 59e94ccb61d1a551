"""The compose file for Ray agrees with the image, with the service and with Ray."""

import importlib
from pathlib import Path

import pytest
import yaml

from ik_service.integrations import ray_serve
from ik_service.settings import ENV_PREFIX, ServiceSettings
from tests.docker.dockerfile import only, variables

DOCKER = Path(__file__).parents[2] / "docker"
COMPOSE = yaml.safe_load((DOCKER / "compose.ray.yaml").read_text())
PLAIN = yaml.safe_load((DOCKER / "compose.yaml").read_text())


@pytest.fixture(params=["gpu", "cpu"])
def profile(request):
    return request.param


@pytest.fixture
def service(profile):
    return COMPOSE["services"][profile]


def test_it_is_as_restricted_as_the_plain_service(service, profile):
    plain = PLAIN["services"][profile]
    assert service["mem_limit"].startswith("${IK_SERVICE_MEMORY:-")
    assert service["pids_limit"] > plain["pids_limit"]
    for name in ("read_only", "cap_drop", "security_opt", "init", "ports", "secrets", "restart", "logging", "profiles"):
        assert service[name] == plain[name], name
    assert COMPOSE["secrets"] == PLAIN["secrets"]


def test_its_image_is_built_with_ray(service):
    lock = DOCKER.parent / service["build"]["args"]["REQUIREMENTS"]
    assert "ray==" in lock.read_text()
    assert service["image"] != PLAIN["services"]["cpu"]["image"]


def test_it_runs_the_configuration_of_its_device(service, profile):
    places = dict(volume.split(":")[:2] for volume in service["volumes"])
    assert service["entrypoint"] + service["command"] == ["serve", "run", places[f"./ray/{profile}.yaml"]]
    configuration = yaml.safe_load((DOCKER / "ray" / f"{profile}.yaml").read_text())
    assert str(configuration["http_options"]["port"]) == only("EXPOSE")  # where the image's health check asks
    assert configuration["applications"][0]["args"]["device"] == service["environment"]["IK_SERVICE_DEVICE"]
    assert places["robots"] == service["environment"]["IK_SERVICE_CATALOG_DIR"]
    assert places["kernels"] == service["environment"]["WARP_CACHE_PATH"]


def test_only_the_gpu_profile_reserves_cards_and_then_all(service, profile):
    devices = service.get("deploy", {}).get("resources", {}).get("reservations", {}).get("devices", [])
    wanted = {"driver": "nvidia", "count": "all", "capabilities": ["gpu"]}
    assert devices == ([wanted] if profile == "gpu" else [])


def test_it_ends_by_the_signal_that_ray_drains_on_and_has_time_to(service):
    assert service["stop_signal"] == "SIGINT"
    longest_s = ServiceSettings.model_fields["request_timeout_s"].default + ray_serve.SHUTDOWN_S
    assert int(service["stop_grace_period"].removesuffix("s")) > longest_s + 30  # Ray gives its controller 30 s


def test_its_environment_is_made_of_settings_and_of_what_ray_reads(service):
    given = {**variables(), **service["environment"]}
    settings = {name.removeprefix(ENV_PREFIX).lower() for name in service["environment"] if name.startswith(ENV_PREFIX)}
    assert settings <= set(ServiceSettings.model_fields)
    folder = Path(importlib.import_module("ray").__file__).parent
    read = "".join(path.read_text() for path in folder.glob("serve/_private/constants*.py"))
    names = [name for name in given if name.startswith("RAY_SERVE_")]
    assert len(names) >= 3
    assert [name for name in names if name not in read] == []
    assert (given["RAY_USAGE_STATS_ENABLED"], given["RAY_AUTH_MODE"]) == ("0", "token")


def test_no_request_waits_for_a_replica_for_ever(service, profile):
    configuration = yaml.safe_load((DOCKER / "ray" / f"{profile}.yaml").read_text())
    bound_s = configuration["http_options"]["request_timeout_s"]
    assert bound_s > ServiceSettings.model_fields["request_timeout_s"].default
    assert float(service["environment"]["RAY_SERVE_HAPROXY_TIMEOUT_SERVER_S"]) == bound_s


def test_the_layer_of_the_proxies_is_where_it_says(service):
    module, _, name = service["environment"]["RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH"].rpartition(".")
    (layer,) = getattr(importlib.import_module(module), name)()
    assert layer.cls.__module__ == module
