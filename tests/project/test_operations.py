"""`docs/operations.md` says what the service has: every setting, metric and route."""

import re
from importlib.util import find_spec
from pathlib import Path

from fastapi.testclient import TestClient

from ik_service import load_robot
from ik_service.cli.setting_options import shown_default
from ik_service.service import create_app
from ik_service.settings import ServiceSettings

TEXT = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()


def settings_table():
    rows = [
        f"| `{name}` | {shown_default(field)} | {field.description} |"
        for name, field in ServiceSettings.model_fields.items()
    ]
    return "\n".join(["| setting | default | |", "|---|---|---|", *rows])


def test_the_table_of_settings_is_that_of_the_code():
    assert settings_table() in TEXT, f"Put this table into docs/operations.md:\n\n{settings_table()}"


def test_every_metric_is_told_and_every_one_told_is_there():
    app = create_app(ServiceSettings(device="cpu", insecure=True), robots={"panda": load_robot("panda")})
    with TestClient(app) as client:
        app.state.service.warm_up.result(300)
        client.get("/v1/robots")
        text = app.state.service.metrics.render("")[0].decode()
    there = {name for name in re.findall(r"^# TYPE (ik_service_\w+)", text, re.MULTILINE) if "_created" not in name}
    assert len(there) >= 14
    assert set(re.findall(r"`(ik_service_[a-z_]+)`", TEXT)) - {"ik_service"} == there


def test_every_path_and_script_that_is_named_exists():
    routes = {"/health/live", "/health/ready", "/openapi.json", "/docs", "/metrics"}
    assert routes <= set(re.findall(r"`(/[a-z/.]+)`", TEXT))
    programs = re.findall(r"python -m (benchmarks\.[\w.]+)", TEXT)
    assert len(programs) == 1
    assert all(find_spec(program) for program in programs)


def test_limits_of_robot_files_are_those_of_the_reader():
    from ik_service.robots.readers.urdf import MAX_COUNT
    from ik_service.robots.readers.xml_reader import MAX_BYTES

    assert f"at most {MAX_BYTES // 1_000_000} MB, {MAX_COUNT} links" in TEXT


def test_the_figures_of_sizing_are_those_of_the_benchmarks():
    rows = re.findall(r"^\| .* \| (.*) \| \[\w+\.md\]\(\.\./(benchmarks/[\w/]+\.md)\) \|$", TEXT, re.MULTILINE)
    assert len(rows) >= 9
    for measured, file in rows:
        figures = re.findall(r"\d+(?:\.\d+)?", measured)
        text = (Path(__file__).parents[2] / file).read_text()
        assert figures
        assert [
            figure for figure in figures if not re.search(rf"(?<![\d.]){re.escape(figure)}(?![\d.]*\d)", text)
        ] == []
