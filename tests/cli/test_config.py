"""`ik-service config` and the options of `ik-service serve` say what the settings say."""

import contextlib
import json
import re

import pytest

from ik_service.cli.setting_options import NO_OPTION
from ik_service.settings import ServiceSettings

KEY = "0123456789abcdef"


def test_serve_has_an_option_for_every_setting(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    help_text = run("serve", "--help").output
    flags = set(re.findall(r"(?<!/)--([a-z0-9-]+)", help_text)) - {"help", "drain-s is"}
    expected = {name.replace("_", "-") for name in ServiceSettings.model_fields if name not in NO_OPTION}
    assert {flag for flag in flags if not flag.startswith("no-")} == expected
    for name, field in ServiceSettings.model_fields.items():
        if name not in NO_OPTION:
            assert " ".join(field.description.split()[:4]) in help_text, name


def test_options_reach_the_settings_and_stand_above_variables(run, monkeypatch, tmp_path):
    import ik_service.cli.serve as serve_module

    seen = []
    monkeypatch.setattr(serve_module, "_serve", seen.append)
    monkeypatch.setenv("IK_SERVICE_PORT", "1234")
    monkeypatch.setenv("IK_SERVICE_DRAIN_S", "7")
    run("serve", "--port", 4321, "--robots", "panda,ur5e", "--no-access-log", "--catalog-dir", tmp_path, "--insecure")
    (settings,) = seen
    assert (settings.port, settings.drain_s, settings.robots) == (4321, 7.0, ("panda", "ur5e"))
    assert (settings.access_log, settings.insecure, settings.catalog_dir) == (False, True, tmp_path)


@pytest.mark.parametrize(("mode", "warns"), [(0o444, True), (0o440, False), (0o400, False)])
def test_a_file_of_keys_that_every_user_may_read_is_said(run, monkeypatch, tmp_path, caplog, mode, warns):
    monkeypatch.setattr("ik_service.cli.serve._serve", lambda settings: None)
    monkeypatch.setattr("ik_service.cli.serve.configured_logs", lambda *_, **__: contextlib.nullcontext())
    (file := tmp_path / "keys").write_text(f"lab:{KEY}")
    file.chmod(mode)
    run("serve", "--api-keys-file", file)
    assert ("can read the API keys" in caplog.text) == warns
    assert KEY not in caplog.text


@pytest.mark.parametrize(("arguments", "variable", "warns"), [(["--api-key", KEY], None, True), ([], KEY, False)])
def test_a_key_on_the_command_line_is_warned_of_and_one_in_a_variable_is_not(
    run, monkeypatch, arguments, variable, warns
):
    seen = []
    monkeypatch.setattr("ik_service.cli.page_command.run_page", lambda *given, **named: seen.append((given, named)))
    if variable is not None:
        monkeypatch.setenv("IK_SERVICE_API_KEY", variable)
    result = run("page", *arguments)
    assert KEY in str(seen)
    assert ("set IK_SERVICE_API_KEY instead" in result.stderr) == warns
    assert KEY not in result.output


@pytest.mark.parametrize("arguments", [["--port", "99999"], ["--log-format", "xml"], ["--drain-s", "-1"], ["--no"]])
def test_options_that_are_not_allowed_are_bad_input(run, arguments):
    told = run("serve", *arguments, code=2).stderr
    assert arguments[0] in told.replace("IK_SERVICE_PORT", "--port").replace("drain_s", "--drain-s")


def test_config_shows_every_setting_with_its_source_and_no_key(run, monkeypatch):
    monkeypatch.setenv("IK_SERVICE_API_KEYS", f"lab:{KEY}")
    monkeypatch.setenv("IK_SERVICE_PORT", "1234")
    monkeypatch.setenv("IK_SERVICE_PROT", "1")
    shown = json.loads(run("config", "--json").stdout)
    assert list(shown["settings"]) == list(ServiceSettings.model_fields)
    assert shown["settings"]["port"] == {"value": 1234, "source": "IK_SERVICE_PORT"}
    assert shown["settings"]["host"] == {"value": "127.0.0.1", "source": "default"}
    assert shown["settings"]["api_keys"] == {"value": {"lab": "***"}, "source": "IK_SERVICE_API_KEYS"}
    assert shown["unknown_variables"] == ["IK_SERVICE_PROT"]
    table = run("config")
    assert KEY not in table.output
    assert re.search(r"^port +1234 +IK_SERVICE_PORT", table.stdout, re.MULTILINE)
    assert "IK_SERVICE_PROT" in table.stderr
    monkeypatch.setenv("IK_SERVICE_PORT", "high")
    assert "IK_SERVICE_PORT" in run("config", code=2).stderr  # as serve would refuse it
