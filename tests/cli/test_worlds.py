"""`ik-service solve --world`: answers that keep off the objects of a file."""

import json

import numpy as np
import pytest

from ik_service import load_robot
from ik_service.robots import load_world

ARM = """<robot name="arm">
  <link name="base"/><link name="slide"/><link name="tip"><collision><geometry><sphere radius="0.05"/></geometry>
  </collision></link>
  <joint name="x" type="prismatic"><parent link="base"/><child link="slide"/><axis xyz="1 0 0"/>
    <limit lower="-1" upper="1" effort="1" velocity="1"/></joint>
  <joint name="z" type="prismatic"><parent link="slide"/><child link="tip"/><axis xyz="0 0 1"/>
    <limit lower="-1" upper="1" effort="1" velocity="1"/></joint>
</robot>"""
WORLD = {"objects": {"table": {"shape": "box", "size": [4, 4, 0.2], "position": [0, 0, -0.3]}}}
TARGETS = "x,y,z\n0.2,0,0.5\n0.1,0,-0.3\n0.1,0,-0.155\n"


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "arm.urdf").write_text(ARM)
    (tmp_path / "arm.collision.json").write_text(json.dumps({"spheres": {"tip": [[0, 0, 0, 0.05]]}}))
    (tmp_path / "cell.json").write_text(json.dumps(WORLD))
    (tmp_path / "targets.csv").write_text(TARGETS)
    return tmp_path


def test_answers_keep_off_a_world_and_advice_names_what_is_touched(run, files):
    result = run("solve", "arm.urdf", "targets.csv", "-o", "results.json", "--world", "cell.json", "--device", "cpu")
    answer = json.loads((files / "results.json").read_text())
    assert answer["status"] == ["converged", "blocked_by_collision", "blocked_by_collision"]
    assert "'tip' and 'table' touch, 150.0 mm deep." in result.stderr
    check = load_robot("arm.urdf").collision(np.array(answer["joint_q"]), load_world("cell.json"))
    assert check.is_free.tolist() == answer["success"]


@pytest.mark.evidence
def test_the_options_are_those_of_the_solver(run, files):
    given = ("solve", "arm.urdf", "targets.csv", "--world", "cell.json", "--device", "cpu")
    assert run(*given, "--collision", "off").stdout.count("converged") == 3
    assert "converged" not in run(*given, "--margin", "0.7", code=1).stdout  # the first is 0.65 m above the table


def test_answers_in_contact_are_moved_out_of_it(run, files):
    (files / "low.csv").write_text("x,y,z\n0.1,0,-0.1505\n")  # half a millimetre deep; a millimetre is a success
    given = ("solve", "arm.urdf", "low.csv", "--world", "cell.json", "--device", "cpu")
    assert "0 of 1 solved" in run(*given, code=1).stderr
    assert "1 of 1 solved" in run(*given, "--repair").stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["solve", "four_bar", "--link", "rocker", "--random", "2", "--world", "cell.json"], "has no collision model"),
        (["solve", "arm.urdf", "targets.csv", "--world", "none.json"], "none.json' cannot be read"),
        (["solve", "arm.urdf", "targets.csv", "--collision", "sometimes"], "collision is 'sometimes'"),
        (["solve", "arm.urdf", "targets.csv", "-o", "folder", "--world", "cell.json"], "does not go with bulk jobs"),
    ],
)
def test_what_is_wrong_is_named(run, files, arguments, message):
    result = run(*arguments, "--device", "cpu", code=2)
    assert message in " ".join(result.output.replace("│", " ").split())
