"""Recipes run as written; answers are judged by float64 forward kinematics and by the limits that recipes state."""

import re
import shlex
import subprocess
from contextlib import chdir
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import yaml
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from ik_service.cli.app import app as command_line
from ik_service.mechanism.transforms import quaternion_rotate
from ik_service.service import create_app
from ik_service.settings import ENV_PREFIX, load_settings
from tests.project.test_operations import TEXT as OPERATIONS
from tests.project.test_readme import ONE_PROGRAM

ROOT = Path(__file__).parents[2]
RECIPES = ROOT / "docs" / "recipes"
KEY = "a-key-of-24-characters.."
MET = 1e-3  # [m] the default tolerance of positions


def blocks_of(name: str) -> list[tuple[str, str]]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", (RECIPES / f"{name}.md").read_text(), re.DOTALL | re.MULTILINE)
    assert found
    return found


def followed(name: str, folder: Path) -> dict[str, object]:
    """Do what a reader does, block by block: run Python and commands, keep C++ as loop.cpp; return the names."""
    module = ModuleType(name.replace("-", "_"))
    with chdir(folder):
        for language, text in blocks_of(name):
            if language == "python":
                exec(compile(text, f"{name}.md", "exec"), module.__dict__)
            elif language == "cpp":
                Path("loop.cpp").write_text(text)
            elif text.startswith("ik-service "):
                result = CliRunner().invoke(command_line, shlex.split(text)[1:])
                assert result.exit_code == 0, result.output
            else:
                subprocess.run(["bash", "-euo", "pipefail", "-c", f"{{ {text}}} > printed"], check=True)
    return module.__dict__


def test_every_recipe_is_short_and_listed_and_run():
    names = {path.stem for path in RECIPES.glob("*.md")} - {"README"}
    listed = re.findall(r"^- \[.+\]\(([a-z-]+)\.md\)$", (RECIPES / "README.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(names)
    elsewhere = {"from-a-path-to-a-trajectory": "frameworks/test_frameworks.py"}
    for name in names - {program.removeprefix("recipes/") for program in ONE_PROGRAM}:
        place = Path(__file__).parents[1] / elsewhere.get(name, "project/test_recipes.py")
        assert re.search(rf'"(?:recipes/)?{name}(?:\.md)?"', place.read_text()), f"No test runs {name}.md."
    assert [name for name in names if len((RECIPES / f"{name}.md").read_text().splitlines()) >= 60] == []
    navigation = (ROOT / "docs" / "mkdocs.yml").read_text()
    assert [name for name in (*names, "README") if f"docs/recipes/{name}.md" not in navigation] == []


def test_my_own_robot_answers_and_is_served_with_its_spheres(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv(f"{ENV_PREFIX}API_KEYS", f"lab:{KEY}")
    monkeypatch.setenv(f"{ENV_PREFIX}DEVICE", "cpu")
    names = followed("my-own-robot", tmp_path)
    robot, result, poses, seen, both = (names[name] for name in ("robot", "result", "poses", "seen", "both"))
    assert robot.collision_model is not None
    assert result.status_names == ["converged", "unreachable"]
    assert "out of reach" in capsys.readouterr().out
    reached = robot.forward_kinematics(result.joint_q, ["tool"]).positions[:, 0]
    assert np.linalg.norm(reached - poses.positions, axis=1)[0] < MET
    assert both.success.all()
    reached = robot.forward_kinematics(both.joint_q, names["pair"]).positions
    assert reached.shape == (100, 2, 3)
    assert np.linalg.norm(reached - seen.positions, axis=2).max() < MET
    assert robot.collision(both.joint_q).is_free.all()
    assert "ik-service serve --catalog-dir robots" in (RECIPES / "my-own-robot.md").read_text()
    with TestClient(create_app(load_settings(catalog_dir=tmp_path / "robots"))) as client:
        body = {"targets": [{"link": "tool", "positions": poses.positions.tolist()}]}
        reply = client.post("/v1/robots/arm/solve", json=body, headers={"X-API-Key": KEY})
        assert client.get("/v1/robots/arm").status_code == 401
    assert reply.status_code == 200, reply.text
    answer = reply.json()
    assert answer["resolved"]["collision"] == "self"
    assert answer["success"] == [True, False]
    reached = robot.forward_kinematics(answer["joint_q"], ["tool"]).positions[0, 0]
    assert np.linalg.norm(reached - poses.positions[0]) < MET


def test_a_map_of_reach_has_places_within_and_out_of_reach(tmp_path):
    names = followed("reach-map", tmp_path)
    far = np.linalg.norm(names["places"], axis=1) > 1.3
    assert names["met"].sum() > 500
    assert far.sum() > 100
    assert not names["met"][far].any()


def test_a_hand_follows_until_the_clutch_is_released(tmp_path):
    names = followed("teleoperation", tmp_path)
    reached = names["robot"].forward_kinematics(names["result"].joint_q, ["panda_hand"]).positions[0, 0]
    assert abs(names["goal"].pose[1] - names["pose"][1] - 0.05) < MET
    assert np.linalg.norm(reached - names["goal"].pose[:3]) < MET


def test_a_retargeted_walk_keeps_feet_and_limits(tmp_path):
    names = followed("retargeting", tmp_path)
    clip, robot, positions, dt = names["clip"], names["solver"].robot, names["positions"], names["dt"]
    reached = robot.forward_kinematics(clip.joint_q, names["links"]).positions
    for k, foot in ((1, "left_foot"), (2, "right_foot")):
        ends = np.flatnonzero(np.diff(names["held"][foot].astype(int))) + 1
        stands = [run for run in np.split(np.arange(len(positions)), ends) if names["held"][foot][run[0]]]
        assert len(stands) >= 4
        for run in stands:
            assert np.ptp(reached[run, k], axis=0).max() < 1e-4
    assert np.linalg.norm(reached - positions, axis=2).mean() < 0.005
    speed = np.diff(clip.joint_q[:, 7:], axis=0) / dt
    assert np.abs(speed).max() > 1.0
    assert (np.abs(speed) <= robot.joint_velocity_limit[6:] * (1 + 1e-6)).all()
    assert np.abs(np.diff(speed, axis=0)).max() <= 100.0 * dt * (1 + 1e-6)
    assert {"converged", "blocked_by_limits", "unsettled"} >= set(clip.status_names)


def test_the_gripper_closes_to_its_widths_with_its_pins_together(tmp_path):
    names = followed("closed-chain-gripper", tmp_path)
    robot, grip = names["robot"], names["grip"]
    assert len(robot.warnings) == 2
    assert all("rounded numbers" in warning for warning in robot.warnings)
    assert grip.status_names == ["converged", "converged", "blocked_by_limits"]
    driven = names["path"].joint_q[0]
    assert np.allclose(driven[:, 0], np.linspace(0.0, 1.0, 11))
    for joint_q in (driven, grip.joint_q):
        tips = robot.forward_kinematics(joint_q, ["left_tip", "right_tip"]).positions
        across = tips[:, 0, 1] - tips[:, 1, 1]
        assert np.allclose(across, 2 * 0.06 * np.sin(joint_q[:, 0]), atol=1e-6)  # cranks of 60 mm
        for loop in robot.loops:
            ends = robot.forward_kinematics(joint_q, [loop.link, loop.reference_link])
            offsets = np.array([loop.offset[:3], loop.reference_offset[:3]])
            pins = ends.positions + quaternion_rotate(ends.orientations_xyzw, np.broadcast_to(offsets, tips.shape))
            assert np.abs(pins[:, 0] - pins[:, 1]).max() < 1e-5
    assert np.allclose(across[:2], [0.02, 0.08], atol=MET)


def test_the_cpp_loop_commands_what_the_python_controller_commands(tmp_path):
    controller = followed("cpp-controller", tmp_path)["controller"]
    printed = np.array((tmp_path / "printed").read_text().split(), np.float64)
    controller.reset([0.0, -0.5, 0.0, -2.0, 0.0, 1.8, 0.7])
    for tick in range(3000):
        result = controller.step([0.45, min(1e-4 * tick, 0.1), 0.5, 1.0, 0.0, 0.0, 0.0], dt=1e-3)
    assert printed.tolist() == result.joint_q[0].tolist()
    hand = controller.robot.forward_kinematics(printed, ["panda_hand"]).positions[0, 0]
    assert np.linalg.norm(hand - [0.45, 0.1, 0.5]) < MET


def test_the_names_of_the_service_in_production_exist():
    text = "".join(block for _, block in blocks_of("service-in-production"))
    compose = yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text())
    for path in set(re.findall(r"docker/[\w./]+", text)) - {"docker/api_keys"}:  # made by the first command
        assert (ROOT / path).exists(), path
    assert compose["secrets"]["api_keys"]["file"].endswith("./api_keys}")
    assert set(re.findall(r"--profile (\w+)", text)) <= set(compose["services"])
    variables = set(re.findall(r"IK_SERVICE_\w+(?==)", text))
    assert variables
    assert all(f"${{{name}:-" in compose["services"]["cpu"]["image"] for name in variables)
    assert compose["services"]["cpu"]["ports"] == ["${IK_SERVICE_PUBLISH:-127.0.0.1:8000}:8000"]
    deployment = yaml.safe_load((ROOT / "docker" / "kubernetes" / "base" / "deployment.yaml").read_text())
    name, container, image = re.search(r"deployment/(\S+) (\S+)=(\S+):", text).groups()
    assert (deployment["metadata"]["name"], name) == (name, image)
    assert [one["name"] for one in deployment["spec"]["template"]["spec"]["containers"]] == [container]
    metrics = re.search(r"'\^ik_service_\((.*)\)'", text)[1].split("|")
    assert len(metrics) == 3
    assert [metric for metric in metrics if f"`ik_service_{metric}`" not in OPERATIONS] == []
    titles = re.findall(r"^#+ (.+)$", OPERATIONS, re.MULTILINE)
    links = re.findall(r"operations\.md#([\w-]+)", (RECIPES / "service-in-production.md").read_text())
    assert len(links) >= 5
    assert set(links) <= {title.lower().replace(" ", "-").replace(",", "") for title in titles}


@pytest.mark.parametrize(
    ("name", "example"), [("learnt-tool-offset", "learn_tool_offset"), ("lerobot", "lerobot_so101")]
)
def test_what_a_recipe_shows_of_an_example_stands_there(name, example):
    """The examples run beside PyTorch and LeRobot in tests/frameworks."""
    lines = iter((ROOT / "examples" / f"{example}.py").read_text().splitlines())
    shown = [text for language, text in blocks_of(name) if language == "py"]
    assert len(shown) == 1
    for line in shown[0].splitlines():
        assert line == "..." or line in lines, line  # in this order
    commands = [text for language, text in blocks_of(name) if language == "sh"]
    assert [command.split()[:2] for command in commands] == [["python", f"examples/{example}.py"]]
