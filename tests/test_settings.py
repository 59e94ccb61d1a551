"""Settings: where they come from, what is refused, and that no secret is shown."""

import pytest

from ik_service.settings import ServiceSettings, load_settings, setting_source, unknown_variables
from objectives.errors import InputError

KEY, OTHER_KEY = "0123456789abcdef", "fedcba9876543210"


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch):
    import os

    for name in list(os.environ):
        if name.upper().startswith("IK_SERVICE_"):
            monkeypatch.delenv(name)


def test_options_stand_above_variables_and_those_above_defaults(monkeypatch):
    monkeypatch.setenv("IK_SERVICE_PORT", "9000")
    monkeypatch.setenv("IK_SERVICE_DEVICE", "cpu")
    settings = load_settings(device="cuda")
    assert (settings.port, settings.device, settings.host) == (9000, "cuda", "127.0.0.1")
    sources = [setting_source(name, {"device": "cuda"}) for name in ("port", "device", "host")]
    assert sources == ["IK_SERVICE_PORT", "option", "default"]


def test_lists_are_words_with_commas(monkeypatch):
    monkeypatch.setenv("IK_SERVICE_ROBOTS", "panda, ur5e,")
    monkeypatch.setenv("IK_SERVICE_API_KEYS", f"lab:{KEY}, floor:{OTHER_KEY}")
    settings = load_settings()
    assert settings.robots == ("panda", "ur5e")
    assert settings.keys == {"lab": KEY, "floor": OTHER_KEY}
    assert KEY not in repr(settings)
    assert KEY not in str(settings.model_dump())


def test_keys_of_a_file_are_added_to_the_others(tmp_path):
    file = tmp_path / "keys"
    file.write_text(f"# who: key\n\nfloor:{OTHER_KEY}\n")
    assert load_settings(api_keys=f"lab:{KEY}", api_keys_file=file).keys == {"lab": KEY, "floor": OTHER_KEY}
    with pytest.raises(InputError, match="two API keys are named 'floor'"):
        load_settings(api_keys=f"floor:{KEY}", api_keys_file=file)
    with pytest.raises(InputError, match="cannot be read"):
        load_settings(api_keys_file=tmp_path / "none")


@pytest.mark.parametrize("mode", [0o602, 0o620, 0o666])
def test_a_file_of_keys_that_others_may_write_is_refused(tmp_path, mode, monkeypatch):
    monkeypatch.setattr("ik_service.kernels.file_trust._is_own_group", lambda gid: False)
    file = tmp_path / "keys"
    file.write_text(f"floor:{OTHER_KEY}\n")
    file.chmod(mode)
    with pytest.raises(InputError, match=r"others could add keys") as caught:
        load_settings(api_keys_file=file)
    assert str(file) in str(caught.value)
    assert OTHER_KEY not in str(caught.value)
    file.chmod(0o640)
    assert load_settings(api_keys_file=file).keys == {"floor": OTHER_KEY}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"port": 70000}, "IK_SERVICE_PORT"),
        ({"threads": "two"}, "IK_SERVICE_THREADS"),
        ({"body_timeout_s": 0}, "IK_SERVICE_BODY_TIMEOUT_S"),
        ({"nonsense": 1}, "IK_SERVICE_NONSENSE"),
        ({"api_keys": "secretsecretsecret"}, "is not 'name:key'"),
        ({"api_keys": "lab:secret"}, "'lab' must have 16 or more"),
        ({"api_keys": "l/ab:secretsecretsecret"}, "name"),
        ({"api_keys": "lab:secretsecretsecret,lab:secretsecretsecret"}, "two API keys"),
        ({"uploads_enabled": True}, "needs catalog_dir"),
        ({"uploaders": "lab"}, "'lab', which is no API key"),
        ({"cors_origins": "lab.example"}, "no origin"),
        ({"device": "cuda:0,cpu"}, "of one kind"),
        ({"device": "auto,auto"}, "of one kind"),
        ({"device": "cuda:0,"}, "1 to 64 names"),
        ({"device": "cuda:0, cuda:0"}, "stands in it twice"),
        ({"device": "cuda:0,cuda:1", "workers": 1}, "workers is 1, and device names 2"),
    ],
)
def test_what_is_wrong_is_named_and_no_secret_is(options, message):
    with pytest.raises(InputError, match=message) as caught:
        load_settings(**options)
    assert "secret" not in str(caught.value)


def test_there_is_a_worker_for_each_device_unless_told():
    given = ({}, {"device": "cuda:0,cuda:1"}, {"device": "cuda:0,cuda:1", "workers": 3}, {"workers": 4})
    assert [load_settings(**options).worker_count for options in given] == [1, 2, 3, 4]


def test_what_kubernetes_sets_for_a_service_of_this_name_is_passed_over(monkeypatch):
    monkeypatch.setenv("IK_SERVICE_PORT", "tcp://10.1.2.3:80")
    monkeypatch.setenv("IK_SERVICE_SERVICE_HOST", "10.1.2.3")
    monkeypatch.setenv("IK_SERVICE_PORT_80_TCP_ADDR", "10.1.2.3")
    monkeypatch.setenv("IK_SERVICE_PROT", "9000")
    monkeypatch.setenv("IK_SERVICE_CPU_TARGET", "x86-64-v3")
    assert load_settings().port == 8000
    assert load_settings(port=9000).port == 9000
    assert setting_source("port", {}) == "default"
    assert unknown_variables() == ["IK_SERVICE_PROT"]


def test_every_setting_is_described_and_bounded():
    fields = ServiceSettings.model_fields
    assert len(fields) > 25
    assert [name for name, field in fields.items() if not field.description or field.is_required()] == []
    numbers = [name for name, field in fields.items() if field.annotation in (int, float, int | None)]
    bounded = [name for name in numbers if any(hasattr(m, "ge") or hasattr(m, "gt") for m in fields[name].metadata)]
    assert bounded == numbers
