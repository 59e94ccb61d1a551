"""The questions of the image's trial are answered by the service, here without a container."""

import subprocess
import sys

import pytest

from ik_service.cli.warmup_command import link_sets
from ik_service.robots import builtin_robot_names, load_robot
from ik_service.solver.solve import SolverCore
from tests.docker.dockerfile import ROOT
from tests.service.conftest import service_of

sys.path.insert(0, str(ROOT / "docker"))
import trial


@pytest.fixture(scope="module")
def questions():
    command = [sys.executable, "-c", trial.QUESTIONS]
    return trial.read_questions(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


@pytest.fixture(scope="module")
def client():
    with service_of() as client:
        yield client


@pytest.mark.evidence
def test_every_leaf_link_of_every_built_in_robot_is_asked_for(questions):
    asked = {(robot, tuple(one["link"] for one in body["targets"])) for robot, body in questions}
    expected = {(name, links) for name in builtin_robot_names() for links in link_sets(load_robot(name), ())}
    assert asked == expected
    assert len(asked) > 30
    options = [body["options"] for _, body in questions]
    assert {"solutions": 2} in options
    assert {"precision": "float64"} in options
    assert set(trial.whole_poses(questions)) == set(builtin_robot_names())


def test_the_service_refuses_none_of_the_questions(questions, client, monkeypatch):
    """All but the solve itself, for which code would be compiled: that fails here, after everything is checked.

    It fails as a defect would, which the service does not remember: the questions of the next test are the same.
    """
    reached = []

    def run(core, batch, options, **_):
        reached.append(core.robot.name)
        raise ArithmeticError("Nothing is solved in this test.")

    monkeypatch.setattr(SolverCore, "run", run)
    for robot, asked in questions:
        before = len(reached)
        answer = client.post(f"/v1/robots/{robot}/solve", json=asked)
        assert answer.json()["code"] == "internal_error", (robot, asked, answer.text)
        assert reached[before:] == [robot]
    assert len(reached) == len(questions)


def test_the_questions_about_a_panda_are_answered(questions, client):
    own = [asked for robot, asked in questions if robot == "panda"]
    assert len(own) == 4
    for asked in own:
        answer = client.post("/v1/robots/panda/solve", json=asked)
        assert answer.status_code == 200, answer.text
        assert answer.json()["success"] == [True]
