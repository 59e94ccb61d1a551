"""`ik-service health`: exit code 0 while a service is ready, and what it says otherwise."""

import pytest

from ik_service.cli import health_command
from ik_service.settings import load_settings


def test_a_ready_service_is_well(service_url, run):
    assert '"ready"' in run("health", service_url).stdout
    assert '"live"' in run("health", service_url + "/", "--live").stdout


def test_a_service_that_drains_is_not_ready_and_yet_alive(running_service, run):
    with running_service() as (url, server):
        server._app.state.service.admission.draining = True
        assert "shutting_down" in run("health", url, code=1).output
        run("health", url, "--live")


def test_where_nobody_listens_it_says_so(run):
    assert "No answer" in run("health", "http://127.0.0.1:9", code=1).stderr
    assert "No answer" in run("health", "nonsense", code=1).stderr


@pytest.mark.parametrize(
    ("variables", "url"),
    [
        ({}, "http://127.0.0.1:8000"),
        ({"IK_SERVICE_HOST": "0.0.0.0", "IK_SERVICE_PORT": "9000"}, "http://127.0.0.1:9000"),
        ({"IK_SERVICE_HOST": "::"}, "http://[::1]:8000"),
        ({"IK_SERVICE_PORT": "tcp://10.0.0.1:80"}, "http://127.0.0.1:8000"),
    ],
)
def test_it_asks_where_a_service_with_the_same_environment_listens(variables, url, monkeypatch):
    for name in ("IK_SERVICE_HOST", "IK_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert health_command.own_url() == url
    assert url.endswith(f":{load_settings().port}")
