"""Compose file and manifests agree with the image and the service: ports, paths, times, settings, rights."""

import tomllib
from copy import deepcopy
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from ik_service.kernels import kernel_cache
from ik_service.service import create_app
from ik_service.settings import ENV_PREFIX, ServiceSettings
from tests.docker.dockerfile import only, variables

DOCKER = Path(__file__).parents[2] / "docker"
KUBERNETES = DOCKER / "kubernetes"
COMPOSE = yaml.safe_load((DOCKER / "compose.yaml").read_text())
RAY = yaml.safe_load((DOCKER / "compose.ray.yaml").read_text())
PROJECT = DOCKER.parent / "pyproject.toml"
KUBERNETES_VERSION = "1.31"


def merged(base, patch):
    """A strategic merge as kustomize does one: lists of named things by name."""
    if isinstance(base, dict) and isinstance(patch, dict):
        return {**base, **{key: merged(base[key], value) if key in base else value for key, value in patch.items()}}
    if isinstance(base, list) and isinstance(patch, list) and all("name" in one for one in (*base, *patch)):
        by_name = {one["name"]: one for one in base}
        return list({**by_name, **{one["name"]: merged(by_name.get(one["name"], {}), one) for one in patch}}.values())
    return deepcopy(patch)


def manifests(overlay):
    top = yaml.safe_load((KUBERNETES / overlay / "kustomization.yaml").read_text())
    assert top["resources"] == ["../base"]
    resources = yaml.safe_load((KUBERNETES / "base" / "kustomization.yaml").read_text())["resources"]
    found = {
        one["kind"]: one for one in (yaml.safe_load((KUBERNETES / "base" / name).read_text()) for name in resources)
    }
    for patch in top["patches"]:
        change = yaml.safe_load((KUBERNETES / overlay / patch["path"]).read_text())
        assert change["metadata"]["name"] == found[change["kind"]]["metadata"]["name"]
        found[change["kind"]] = merged(found[change["kind"]], change)
    return found


def pod(overlay):
    return manifests(overlay)["Deployment"]["spec"]["template"]["spec"]


def container(overlay):
    (only_one,) = pod(overlay)["containers"]
    return only_one


def environment(overlay):
    return {one["name"]: one["value"] for one in container(overlay)["env"]}


@pytest.fixture(params=["gpu", "cpu"])
def overlay(request):
    return request.param


@pytest.fixture
def service(overlay):
    return COMPOSE["services"][overlay]


def settings_of(given):
    names = {
        name.removeprefix(ENV_PREFIX).lower(): value for name, value in given.items() if name.startswith(ENV_PREFIX)
    }
    assert set(names) <= set(ServiceSettings.model_fields), names
    return ServiceSettings.model_construct(**names)


def test_a_compose_service_is_restricted_and_has_time_to_end(service, overlay):
    assert service["profiles"] == [overlay]
    assert service["read_only"] is True
    assert (service["cap_drop"], service["security_opt"]) == (["ALL"], ["no-new-privileges:true"])
    assert service["mem_limit"] == "${IK_SERVICE_MEMORY:-4g}"
    assert 100 < service["pids_limit"] < 10_000
    assert [place.partition(":")[0] for place in service["tmpfs"]] == ["/tmp"]
    settings = settings_of(service["environment"])
    assert int(service["stop_grace_period"].removesuffix("s")) > float(settings.drain_s)
    assert service["ports"] == [f"${{IK_SERVICE_PUBLISH:-127.0.0.1:8000}}:{only('EXPOSE')}"]
    assert settings.device == {"gpu": "cuda", "cpu": "cpu"}[overlay]
    (secret,) = service["secrets"]
    assert settings.api_keys_file == f"/run/secrets/{secret}"
    assert secret in COMPOSE["secrets"]


def test_images_bear_the_version_that_they_hold():
    images = [COMPOSE["services"]["cpu"]["image"], RAY["services"]["cpu"]["image"], container("cpu")["image"]]
    tags = {image.rpartition(":")[2].removesuffix("}") for image in images}
    assert tags == {tomllib.loads(PROJECT.read_text())["project"]["version"]}


def test_only_the_gpu_profile_reserves_a_card():
    (device,) = COMPOSE["services"]["gpu"]["deploy"]["resources"]["reservations"]["devices"]
    assert device == {"driver": "nvidia", "count": 1, "capabilities": ["gpu"]}
    assert "deploy" not in COMPOSE["services"]["cpu"]


def test_volumes_of_compose_stand_where_the_service_writes(service):
    places = dict(volume.split(":") for volume in service["volumes"])
    assert places["kernels"] == service["environment"]["WARP_CACHE_PATH"]
    assert places["robots"] == service["environment"]["IK_SERVICE_CATALOG_DIR"]
    assert set(places) == set(COMPOSE["volumes"])
    assert all(place in only("RUN").partition("&&")[0] for place in places.values())


def test_what_is_applied_is_what_kubernetes_takes(overlay):
    found = manifests(overlay)
    assert set(found) == {"Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy"}
    for manifest in found.values():
        kubernetes_validate.validate(manifest, KUBERNETES_VERSION, strict=True)


def test_a_pod_is_restricted_and_has_more_time_to_end_than_the_service_takes(overlay):
    spec, one = pod(overlay), container(overlay)
    user = only("USER").split(":")
    assert [str(spec["securityContext"][name]) for name in ("runAsUser", "runAsGroup")] == user
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["automountServiceAccountToken"] is False
    settings = settings_of(environment(overlay))
    assert float(settings.drain_delay_s) > 2 * one["readinessProbe"]["periodSeconds"]
    assert spec["terminationGracePeriodSeconds"] > float(settings.drain_s) + float(settings.drain_delay_s)
    context = one["securityContext"]
    assert (context["allowPrivilegeEscalation"], context["readOnlyRootFilesystem"]) == (False, True)
    assert context["capabilities"] == {"drop": ["ALL"]}


def test_probes_ask_routes_that_there_are_on_the_port_of_the_image(overlay):
    one = container(overlay)
    (port,) = one["ports"]
    assert str(port["containerPort"]) == only("EXPOSE")
    paths = {name: one[f"{name}Probe"]["httpGet"] for name in ("startup", "readiness", "liveness")}
    assert {probe["port"] for probe in paths.values()} == {port["name"]}
    assert [probe["path"] for probe in paths.values()] == ["/health/ready", "/health/ready", "/health/live"]
    routes = create_app(ServiceSettings(device="cpu", insecure=True)).openapi()["paths"]
    assert {probe["path"] for probe in paths.values()} <= set(routes)
    service = manifests(overlay)["Service"]["spec"]
    assert [entry["targetPort"] for entry in service["ports"]] == [port["name"]]


def test_service_and_budget_select_the_pods_which_keep_apart(overlay):
    found = manifests(overlay)
    labels = found["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert found["Service"]["spec"]["selector"] == labels
    assert found["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"] == labels
    for kind in ("Deployment", "PodDisruptionBudget"):
        assert found[kind]["spec"]["selector"]["matchLabels"] == labels
    assert found["PodDisruptionBudget"]["spec"]["maxUnavailable"] < found["Deployment"]["spec"]["replicas"]
    (rule,) = pod(overlay)["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert rule["podAffinityTerm"]["topologyKey"] == "kubernetes.io/hostname"
    assert rule["podAffinityTerm"]["labelSelector"]["matchLabels"] == labels


def test_volumes_of_a_pod_stand_where_the_service_reads_and_writes(overlay):
    given, mounts = environment(overlay), {one["mountPath"]: one["name"] for one in container(overlay)["volumeMounts"]}
    assert mounts[given["WARP_CACHE_PATH"]] == "kernels"
    assert mounts[str(Path(given["IK_SERVICE_API_KEYS_FILE"]).parent)] == "api-keys"
    assert mounts[variables()["HOME"]] == "tmp"
    volumes = {one["name"]: one for one in pod(overlay)["volumes"]}
    assert set(mounts.values()) == set(volumes)
    secret = yaml.safe_load((KUBERNETES / "api_keys.example.yaml").read_text())
    assert volumes["api-keys"]["secret"]["secretName"] == secret["metadata"]["name"]
    assert set(secret["stringData"]) == {Path(given["IK_SERVICE_API_KEYS_FILE"]).name}


def test_only_the_overlay_for_gpus_asks_for_one():
    assert container("gpu")["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert "nvidia.com/gpu" not in container("cpu")["resources"]["limits"]
    assert environment("gpu")["IK_SERVICE_DEVICE"] == "cuda"
    assert environment("cpu")["IK_SERVICE_DEVICE"] == "cpu"


def mebibytes(quantity):
    return float(quantity[:-2]) * {"Mi": 1, "Gi": 1024}[quantity[-2:]]


def test_the_cache_of_kernels_stays_within_its_volume_and_that_within_the_disk_of_the_pod(overlay):
    volumes = {one["name"]: one["emptyDir"] for one in pod(overlay)["volumes"] if "emptyDir" in one}
    bound = int(variables()[kernel_cache.BOUND_VARIABLE]) * 1e6 / 2**20
    assert 0.5 * mebibytes(volumes["kernels"]["sizeLimit"]) < bound < 0.8 * mebibytes(volumes["kernels"]["sizeLimit"])
    on_disk = sum(mebibytes(one["sizeLimit"]) for one in volumes.values() if one.get("medium") != "Memory")
    assert on_disk < mebibytes(container(overlay)["resources"]["limits"]["ephemeral-storage"])


def test_only_the_port_of_the_service_is_open_and_nothing_is_called(overlay):
    policy = manifests(overlay)["NetworkPolicy"]["spec"]
    assert set(policy["policyTypes"]) == {"Ingress", "Egress"}
    (rule,) = policy["ingress"]
    (port,) = container(overlay)["ports"]
    assert rule["ports"] == [{"port": port["name"], "protocol": "TCP"}]
    assert rule["from"] == [{"podSelector": {}}]  # of this namespace
    assert policy["egress"] == []
