"""The Dockerfile keeps its promises as far as can be read off: who runs what, and that its parts fit the package."""

import json
import re
import tomllib

import pytest

from ik_service.compiler.code.lanes import TARGETS
from ik_service.gpu_kernels import ARCHITECTURES
from ik_service.service.gate.access import require_safe_address
from ik_service.settings import load_settings, unknown_variables
from objectives import InputError
from tests.docker.dockerfile import ROOT, TEXT, instructions, only, stage, variables


def test_both_ends_stand_on_the_same_base_which_can_be_replaced():
    bases = [rest.split()[0] for word, rest in instructions() if word == "FROM"]
    assert bases == ["${BASE_IMAGE}", "build", "${BASE_IMAGE}"]
    assert instructions()[0][0] == "ARG"
    assert re.fullmatch(r"BASE_IMAGE=python:\d+\.\d+\.\d+-slim-\w+@sha256:[0-9a-f]{64}", instructions()[0][1])


def test_it_runs_as_a_number_that_is_not_root_asks_for_no_card_and_needs_no_shell():
    assert only("USER") == "10001:10001"
    assert "NVIDIA_VISIBLE_DEVICES" not in TEXT  # who starts the container says which
    assert variables()["NVIDIA_DRIVER_CAPABILITIES"] == "compute,utility"
    assert json.loads(only("ENTRYPOINT")) == ["ik-service"]
    assert json.loads(only("CMD")) == ["serve"]
    assert only("STOPSIGNAL") == "SIGTERM"
    assert json.loads(only("HEALTHCHECK").partition(" CMD ")[2]) == ["ik-service", "health"]


def test_the_labels_are_those_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    labels = dict(re.findall(r'org\.opencontainers\.image\.(\w+)="([^"]*)"', only("LABEL")))
    assert (labels["title"], labels["description"]) == (project["name"], project["description"])
    assert labels["licenses"] == project["license"]
    assert {"version", "revision"} < set(labels)


def test_packages_are_pinned_by_their_hashes_and_secrets_stay_outside():
    installs = [rest for word, rest in stage("build") if word == "RUN" and "pip install" in rest]
    assert len(installs) == 2
    assert '--require-hashes -r "${REQUIREMENTS}"' in installs[0]
    assert [rest for word, rest in stage("build") if word == "ARG"] == ["REQUIREMENTS=requirements.lock"]  # no Ray
    assert installs[0].count("--mount=type=secret") == 2
    assert "--no-index" in installs[1]


def test_what_is_copied_is_there_and_reaches_the_builder():
    sources = [name for word, rest in stage("build") if word == "COPY" for name in rest.split()[:-1]]
    assert {"requirements.lock", "requirements-ray.lock", "pyproject.toml", "ik_service", "objectives"} <= set(sources)
    assert all((ROOT / name).exists() for name in sources)
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    assert sorted(allowed) == sorted(sources)
    copied = [rest for word, rest in stage("runtime") if word == "COPY"]
    assert copied == ["--from=kernels /opt/ik-service /opt/ik-service"]


def test_kernels_are_made_for_what_they_will_run_on():
    arguments = {rest for word, rest in (*stage("kernels"), *stage("runtime")) if word == "ARG"}
    assert {rest for rest in arguments if "CPU_TARGET" in rest} == {"CPU_TARGET=x86-64-v3"}
    assert "x86-64-v3" in {target.name for target in TARGETS}
    (built,) = [rest.partition("=")[2] for rest in arguments if rest.startswith("CUDA_ARCHITECTURES=")]
    chosen = [int(number) for number in built.split(",")]
    assert chosen == [number for number in ARCHITECTURES if number in chosen]
    assert chosen[0] == ARCHITECTURES[0]  # its PTX serves all others
    assert f"# All that Warp compiles for: {','.join(map(str, ARCHITECTURES))}." in TEXT
    made, run = variables("kernels"), variables()
    for name in ("IK_SERVICE_CPU_TARGET", "WARP_CACHE_PATH"):
        assert made[name] == run[name] != ""
    assert run["IK_SERVICE_SHIPPED_KERNELS"] == made["WARP_CACHE_PATH"]


@pytest.fixture
def like_the_image(monkeypatch):
    for name, value in variables().items():
        if name.startswith("IK_SERVICE_"):
            monkeypatch.setenv(name, value)
    monkeypatch.setenv("IK_SERVICE_CPU_TARGET", "x86-64-v3")


def test_its_environment_is_made_of_settings_and_without_keys_it_does_not_answer(like_the_image, monkeypatch):
    assert unknown_variables() == []
    settings = load_settings()
    assert (settings.host, settings.port) == ("0.0.0.0", 8000)
    assert only("EXPOSE") == str(settings.port)
    monkeypatch.delenv("IK_SERVICE_API_KEYS", raising=False)
    with pytest.raises(InputError, match="no API keys"):
        require_safe_address(load_settings(), "0.0.0.0")
    monkeypatch.setenv("IK_SERVICE_API_KEYS", "lab:" + "x" * 32)
    require_safe_address(load_settings(), "0.0.0.0")
