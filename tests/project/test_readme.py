"""What the README and the documents show is what happens: their code runs, their curl works, their commands exist."""

import importlib.util
import json
import re
import shlex
import sys
import tomllib
from contextlib import chdir
from pathlib import Path

import httpx2
import numpy as np
import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner
from websockets.sync.client import connect

import objectives
from ik_service import IKStatus, builtin_robot_names, load_robot
from ik_service.cli.app import app as command_line
from ik_service.service import create_app
from ik_service.settings import ServiceSettings
from tests.bounded import PATIENCE_S

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
COMMAND_LINE = (ROOT / "docs" / "command_line.md").read_text()
INSTALL = (ROOT / "docs" / "install.md").read_text()
HTTP_API = (ROOT / "docs" / "http_api.md").read_text()
CONVENTIONS = (ROOT / "docs" / "conventions.md").read_text()
ONE_PROGRAM = [  # documents whose blocks are one program each
    "adding_an_objective",
    "closed-chains",
    "collision",
    "conventions",
    "embedding",
    "from_mink",
    "from_moveit",
    "from_newton",
    "gradients",
    "http_api",
    "python",
    "recipes/best-grasp",
    "recipes/reach-map",
    "recipes/teleoperation",
    "robots",
]
SHOWN_ERROR = 1e-5  # [m and rad] the answer shown need not be the one of this machine, but it must be one


def blocks(text: str, language: str) -> list[str]:
    found = re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert found
    return found


def run_as_module(name: str, code: str, folder: Path) -> None:
    """Runs code from a file: Warp reads the source of kernels."""
    path = folder / f"{name}.py"
    path.write_text(code)
    specification = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    try:
        with chdir(folder):
            specification.loader.exec_module(module)
    finally:
        del sys.modules[name]


@pytest.mark.parametrize("number", range(len(blocks(README, "python"))))
def test_a_python_block_of_the_readme_runs_by_itself(number, tmp_path, capsys):
    recipe = (ROOT / "docs" / "recipes" / "my-own-robot.md").read_text()
    run_as_module("arm", blocks(recipe, "python")[0], tmp_path)  # writes arm.urdf
    run_as_module(f"readme_{number}", blocks(README, "python")[number], tmp_path)
    assert capsys.readouterr().out.strip()


def test_the_figures_of_speed_are_those_of_the_results():
    section = README.partition("## Speed")[2].partition("\n## ")[0]
    reports = ("arms/RESULTS", "accuracy/branches", "collision/free_answers", "collision/motion_bench_maker")
    results = "".join((ROOT / "benchmarks" / f"{name}.md").read_text() for name in reports)
    figures = re.findall(r"\d+\.\d+", section.partition("![")[0].replace("0.01 rad", ""))
    assert len(figures) > 10
    assert [figure for figure in figures if figure not in results] == []


@pytest.mark.evidence_cases("collision", "from_mink", "robots")
@pytest.mark.parametrize("document", [name for name in ONE_PROGRAM if name != "http_api"])
def test_the_python_blocks_of_a_document_run_as_one_program(document, tmp_path, capsys):
    text = (ROOT / "docs" / f"{document}.md").read_text()
    run_as_module(Path(document).name, "\n\n".join(blocks(text, "python")), tmp_path)
    assert capsys.readouterr().out.strip()


def test_the_python_blocks_of_the_http_api_run_as_one_program(service_url, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("SERVICE_URL", service_url)
    run_as_module("http_api", "\n\n".join(blocks(HTTP_API, "python")), tmp_path)
    printed = capsys.readouterr().out
    assert "converged" in printed
    assert "422 not_finite /targets/0/positions/0/1" in printed


def test_the_json_blocks_of_the_http_api_are_taken(service_url):
    documents = [json.loads(block) for block in blocks(HTTP_API, "json")]
    messages = [document for document in documents if document.keys() & {"type", "seq"}]
    bodies = [document for document in documents if document not in messages]
    assert len(bodies) >= 2
    with httpx2.Client(base_url=service_url, timeout=PATIENCE_S) as client:
        for body in bodies:
            assert all(client.post("/v1/robots/panda/solve", json=body).json()["success"])
    with connect(service_url.replace("http", "ws", 1) + "/v1/robots/panda/stream") as stream:
        types = []
        for message in messages:
            stream.send(json.dumps(message))
            types.append(json.loads(stream.recv(PATIENCE_S))["type"])
    assert types == ["configured", "answer"]


def test_the_routes_and_options_of_the_http_api_are_those_of_the_schema():
    document = create_app(ServiceSettings(device="cpu", insecure=True)).openapi()
    for path in re.findall(r"`(?:GET|POST|PUT|DELETE) (/v1[^`]*)`", HTTP_API):
        assert path in document["paths"], path
    told = set(re.findall(r"`(GET|POST|PUT|DELETE) (/[^`]*)`", HTTP_API.partition("\n\n##")[0]))
    paths = document["paths"].items()
    assert told == {(method.upper(), path) for path, methods in paths for method in methods}
    options = document["components"]["schemas"]["SolveOptions"]["properties"]
    assert [name for name in options if f"`{name}`" not in HTTP_API] == []
    objectives = document["components"]["schemas"]["SolveRequestBody"]["properties"]["objectives"]["items"]
    kinds = objectives["discriminator"]["mapping"]
    assert len(kinds) >= 10
    for kind, place in kinds.items():
        model = document["components"]["schemas"][place.rpartition("/")[2]]
        absent = [name for name in (kind, *model["properties"]) if f"`{name}`" not in HTTP_API]
        assert absent == [], kind


@pytest.mark.parametrize("path", [*sorted(ROOT.glob("docs/**/*.md")), ROOT / "README.md"], ids=lambda path: path.name)
def test_what_is_to_be_installed_can_be(path):
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    text = path.read_text()
    assert "ik-service[" not in text  # in no index
    named = [name for group in re.findall(r"pip install '\.\[([^\]]*)\]'", text) for name in group.split(",")]
    assert set(named) <= set(extras)


def test_the_page_on_installing_names_every_extra_of_users():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert [name for name in extras if name not in ("test", "oldest", "dev") and f"`{name}`" not in INSTALL] == []


def test_the_curl_of_the_readme_gets_the_answer_shown():
    command = next(block for block in blocks(README, "sh") if block.startswith("curl"))
    arguments = shlex.split(command)
    url, body = next(word for word in arguments if word.startswith("http")), arguments[arguments.index("-d") + 1]
    settings = ServiceSettings(device="cpu", robots="panda", insecure=True)
    with TestClient(create_app(settings)) as client:
        path = url.removeprefix("http://127.0.0.1:8000")
        reply = client.post(path, content=body, headers={"Content-Type": "application/json"})
    assert reply.status_code == 200, reply.text
    shown, real = json.loads(blocks(README, "json")[0]), reply.json()
    assert list(shown) == list(real)
    for column in ("robot", "joint_names", "coordinate_names", "success", "status"):
        assert shown[column] == real[column], column
    assert shown["resolved"]["seeds"] == real["resolved"]["seeds"]
    assert shown["resolved"]["engine"] == real["resolved"]["engine"]
    reached = load_robot("panda").forward_kinematics(shown["joint_q"], links=["panda_hand"])
    assert np.linalg.norm(reached.positions[0, 0] - [0.4, 0.1, 0.5]) < SHOWN_ERROR
    assert np.linalg.norm(reached.orientations_xyzw[0, 0, 1:]) < SHOWN_ERROR


def test_the_commands_of_the_command_line_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("targets.csv").write_text(blocks(COMMAND_LINE, "csv")[0])
    lines = [line for block in blocks(COMMAND_LINE, "sh") for line in block.splitlines()]
    commands = [shlex.split(line)[1:] for line in lines if line.startswith("ik-service ")]
    assert len(commands) >= 4
    for arguments in commands:
        result = CliRunner().invoke(command_line, arguments)
        assert result.exit_code == 0, (arguments, result.output)
    assert len(Path("results.csv").read_text().splitlines()) == len(blocks(COMMAND_LINE, "csv")[0].splitlines())


def test_the_make_targets_of_the_readme_exist():
    makefile = (ROOT / "Makefile").read_text()
    targets = re.findall(r"^make (\w+)", "\n".join(blocks(README, "sh")), re.MULTILINE)
    assert targets == ["run", "test", "docs"]
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)


def test_every_objective_and_robot_is_named():
    built_in = [name for name in objectives.__all__ if name.startswith("IKObjective") and name != "IKObjective"]
    assert len(built_in) >= 7
    library = (ROOT / "docs" / "python.md").read_text()
    assert [name for name in built_in if f"`{name}`" not in library] == []
    assert [name for name in builtin_robot_names() if f"`{name}`" not in README] == []


def test_links_between_documents_lead_somewhere():
    links = [
        path.parent / target
        for path in (*ROOT.glob("docs/**/*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md")
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text())
    ]
    assert len(links) > 50
    assert [str(link) for link in links if not link.exists()] == []


def test_the_status_table_is_that_of_the_code():
    for status in IKStatus:
        line = f"| `{status.word}` | {int(status)} | {status.advice} | {status.moveit_error_code} `"
        assert line in CONVENTIONS


def test_every_reference_cited_is_listed_and_every_one_listed_is_cited():
    key = r"[A-Z][a-z]+[0-9]{4}"
    body, table = CONVENTIONS.split("## References")
    cited = {found for bracket in re.findall(r"\[([^\]]*)\]", body) for found in re.findall(key, bracket)}
    assert cited == set(re.findall(rf"^\| ({key}) \|", table, re.MULTILINE))
