"""Compose file and manifests agree with the image and the service: ports, paths, times, settings, rights."""

import re
import tomllib
from copy import deepcopy
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from ik_service.kernels import kernel_cache
from ik_service.service import create_app
from ik_service.settings import ENV_PREFIX, ServiceSettings, load_settings
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


def manifests(overlay, *components):
    top = yaml.safe_load((KUBERNETES / overlay / "kustomization.yaml").read_text())
    assert top["resources"] == ["../base"]
    resources = yaml.safe_load((KUBERNETES / "base" / "kustomization.yaml").read_text())["resources"]
    found = {
        one["kind"]: one for one in (yaml.safe_load((KUBERNETES / "base" / name).read_text()) for name in resources)
    }
    patches = [KUBERNETES / overlay / patch["path"] for patch in top["patches"]]
    for component in components:
        added = yaml.safe_load((KUBERNETES / component / "kustomization.yaml").read_text())
        assert added["kind"] == "Component"
        for one in (yaml.safe_load((KUBERNETES / component / name).read_text()) for name in added["resources"]):
            found[one["kind"]] = one
        patches += [KUBERNETES / component / patch["path"] for patch in added["patches"]]
    for change in (yaml.safe_load(patch.read_text()) for patch in patches):
        assert change["metadata"]["name"] == found[change["kind"]]["metadata"]["name"]
        found[change["kind"]] = merged(found[change["kind"]], change)
    return found


def pod(overlay, *components):
    return manifests(overlay, *components)["Deployment"]["spec"]["template"]["spec"]


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


def test_images_of_others_are_named_by_digest():
    texts = {path: path.read_text() for path in DOCKER.rglob("*.yaml")}
    images = [image for text in texts.values() for image in re.findall(r"^\s*image:\s*(\S+)", text, re.MULTILINE)]
    images += re.findall(r"^(?:ARG BASE_IMAGE=|FROM )(\S+)", (DOCKER / "Dockerfile").read_text(), re.MULTILINE)
    assert len(images) >= 6
    own = r"\$\{IK_SERVICE_(RAY_)?IMAGE:-ik-service(-ray)?:[\d.]+\}|ik-service:[\d.]+|\$\{BASE_IMAGE\}|build|kernels"
    others = [image for image in images if not re.fullmatch(own, image)]
    assert len(others) == 1
    assert re.fullmatch(r"[\w./-]+:[\w.-]+@sha256:[0-9a-f]{64}", others[0])


def uploads_of(environment, monkeypatch):
    """The settings that a container reads from its environment, with a key named lab."""
    for name in environment:
        monkeypatch.delenv(name, raising=False)
    for name in ("UPLOADS_ENABLED", "UPLOADERS", "CATALOG_DIR"):
        monkeypatch.setenv(f"{ENV_PREFIX}{name}", environment[f"{ENV_PREFIX}{name}"])
    return load_settings(api_keys={"lab": "0123456789abcdef", "other": "0123456789abcdeg"})


@pytest.mark.parametrize("compose", [COMPOSE, RAY], ids=["compose", "ray"])
def test_compose_says_who_may_put_robots_and_keeps_kernels(overlay, compose, monkeypatch):
    service = compose["services"][overlay]
    given = dict(service["environment"])
    assert given["IK_SERVICE_UPLOADERS"] == "${IK_SERVICE_UPLOADERS:-}"
    for value, uploaders in (("", None), ("lab", ("lab",))):
        settings = uploads_of({**given, "IK_SERVICE_UPLOADERS": value}, monkeypatch)
        assert (settings.uploads_enabled, settings.uploaders) == (True, uploaders)
    assert f"kernels:{given['WARP_CACHE_PATH']}" in service["volumes"]


def test_the_component_for_uploads_has_a_volume_that_all_pods_write_and_names_who_may(overlay, monkeypatch):
    found = manifests(overlay, "uploads")
    claim = found["PersistentVolumeClaim"]
    for manifest in (claim, found["Deployment"]):
        kubernetes_validate.validate(manifest, KUBERNETES_VERSION, strict=True)
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    spec = pod(overlay, "uploads")
    (one,) = spec["containers"]
    given = {each["name"]: each["value"] for each in one["env"]}
    settings = uploads_of(given, monkeypatch)
    assert (settings.uploads_enabled, settings.uploaders) == (True, ("lab",))
    mounts = {each["name"]: each["mountPath"] for each in one["volumeMounts"]}
    assert mounts["robots"] == given["IK_SERVICE_CATALOG_DIR"]
    assert mounts["kernels"] == given["WARP_CACHE_PATH"]  # what is put has kernels that the image lacks
    volumes = {each["name"]: each for each in spec["volumes"]}
    assert set(mounts) == set(volumes)
    assert volumes["robots"]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    assert "IK_SERVICE_UPLOADERS" not in environment(overlay)  # without the component nothing can be put
    assert "IK_SERVICE_UPLOADS_ENABLED" not in environment(overlay)


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
