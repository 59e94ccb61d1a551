"""Whoever solves gives the same answers to the same questions, and says in words why there is none."""

import json
import os
import shlex
import subprocess
import sys
from dataclasses import replace
from html import escape
from pathlib import Path

import httpx2
import numpy as np
import pytest

from ik_service import load_robot
from ik_service.page import LocalSolving, PageError, RemoteSolving
from ik_service.page.geometry import Role, robot_parts
from ik_service.page.local_solving import BROUGHT_MOST
from ik_service.page.posed_robot import PosedRobot
from ik_service.page.request_texts import c_text, curl_text, export_text, python_text, request_document, request_html
from ik_service.page.words import NO_MODEL, random_html, status_html
from ik_service.robots import builtin_urdf
from tests.bounded import PATIENCE_S

NOTHING = {"any_branch": False, "options": {}, "objects": {}}
BOX = {"wall": {"shape": "box", "size": [0.2, 0.2, 0.2], "position": [0.6, 0.0, 0.4]}}
ROOT = Path(__file__).parents[2]
ROUNDED = 1e-3  # [rad or m] requests that are shown are rounded
SAME_M = 1e-6  # [m or rad] the service reads float64 starts, and its answers are float32


@pytest.fixture(scope="module")
def local():
    return LocalSolving("cpu")


@pytest.fixture(scope="module")
def remote(service_url):
    solving = RemoteSolving(service_url)
    yield solving
    solving.close()


def pulled(posed, way, free=()):
    for link, target in posed.targets.items():
        posed.change(link, pose=target.pose + np.array([*way, 0.0, 0.0, 0.0, 0.0]), free=free or target.free)
    return posed


def moved(name, *, free=(), objects=None, options=None):
    posed = pulled(PosedRobot(name, load_robot(name)), [0.02, 0.0, 0.01], free)
    return posed.question(any_branch=False, options=options or {}, objects=objects or {})


def questions():
    open_bar = PosedRobot("four_bar", load_robot("four_bar"))
    open_bar.keeps_loops = False
    yield pulled(open_bar, [0.05, 0.0, 0.2]).question(**NOTHING)
    for name, free, objects, options in (
        ("panda", (), {}, {}),
        ("panda", ("rz",), {}, {}),
        ("panda", ("rx", "ry", "rz"), {}, {}),
        ("panda", (), BOX, {}),
        ("panda", (), {}, {"collision": "off"}),
        ("dual_panda", (), {}, {"solutions": 3}),
    ):
        posed = pulled(PosedRobot(name, load_robot(name)), [0.05, 0.02, -0.06], free)
        yield posed.question(any_branch="solutions" in options, options=options, objects=objects, alone=False)


@pytest.mark.parametrize("question", list(questions()))
def test_this_process_and_a_service_answer_alike(local, remote, question):
    here, there = local.solve(question), remote.solve(question)
    assert here.status == there.status
    assert np.abs(here.joint_q - there.joint_q).max() < SAME_M
    assert here.solutions.shape == there.solutions.shape
    assert (here.branches.tolist(), here.is_complete) == (there.branches.tolist(), there.is_complete)
    for name in ("position_error", "orientation_error"):
        ours, theirs = getattr(here, name), getattr(there, name)
        assert ours.shape == theirs.shape == (1, len(question.targets))
        assert np.array_equal(np.isnan(ours), np.isnan(theirs))
        assert np.nanmax(np.abs(ours - theirs), initial=0.0) < SAME_M
    assert np.array_equal(here.active_limits, there.active_limits)
    assert (here.closest, here.advice) == (there.closest, there.advice)
    assert here.clearance == pytest.approx(there.clearance, abs=SAME_M)


def all_of_an_arm(count):
    posed = pulled(PosedRobot("ur5e", load_robot("ur5e")), [0.05, 0.02, -0.06])
    return posed.question(any_branch=True, options={"solutions": count}, objects={}, alone=False)


@pytest.mark.parametrize("count", [8, "all"])
def test_branches_come_over_http_too(local, remote, count):
    here, there = (solving.solve(all_of_an_arm(count)) for solving in (local, remote))
    assert here.is_complete
    assert there.is_complete
    assert here.branches.tolist() == there.branches.tolist()
    assert len(set(here.branches.tolist())) == len(here.solutions) > 1


def test_proofs_come_over_http_too(local, remote):
    posed = pulled(PosedRobot("ur5e", load_robot("ur5e")), [2.0, 0.0, 0.0])
    for solving in (local, remote):
        assert solving.solve(posed.question(**NOTHING)).proof.tolist() == [1]


def test_frozen_dofs_stay_over_http_too(remote):
    posed = PosedRobot("dual_panda", load_robot("dual_panda"))
    posed.take(remote.solve(posed.question(**NOTHING)))
    before = posed.joint_q.copy()
    pose = posed.targets["left_panda_hand"].pose.copy()
    pose[:3] += 0.02
    posed.change("left_panda_hand", pose=pose)
    posed.take(remote.solve(posed.question(**NOTHING)))
    assert posed.joint_q[7:].tobytes() == before[7:].tobytes()
    assert (posed.joint_q[:7] != before[:7]).all()


def test_what_is_wrong_is_said(local, service_url, running_service):
    with pytest.raises(PageError, match="no robot 'nobody'"):
        local.robot("nobody")
    with pytest.raises(PageError, match="does not answer") as caught:
        RemoteSolving("http://127.0.0.1:9")
    assert caught.value.may_pass
    with running_service(api_keys={"lab": "0123456789abcdef"}, robots=("panda",)) as (url, _):
        with pytest.raises(PageError, match="--api-key") as caught:
            RemoteSolving(url)
        assert not caught.value.may_pass
        solving = RemoteSolving(url, "0123456789abcdef")
        assert solving.robots == ("panda",)
        solving.close()


def test_a_robot_that_is_brought_beside_a_service_is_solved_for_here(
    remote, service_url, tmp_path, monkeypatch, capsys
):
    name = remote.add_robot("my arm.urdf", builtin_urdf("ur5e"))
    posed = PosedRobot(name, remote.robot(name))
    question = posed.question(**NOTHING)
    answer = remote.solve(question)
    assert answer.success[0]
    assert "HTTP" not in answer.ran_on
    assert name not in remote.robots
    file = remote.files[name]
    assert curl_text(question, service_url, file) == (
        f"# {service_url} has no such robot. Where robots may be put: PUT /v1/robots/NAME with 'my arm.urdf'"
    )
    (tmp_path / file).write_bytes(builtin_urdf("ur5e"))
    monkeypatch.chdir(tmp_path)
    exec(compile(python_text(question, file), "shown", "exec"), {})
    assert "converged" in capsys.readouterr().out
    with pytest.raises(PageError, match="cannot be shown"):
        remote.add_robot("broken.urdf", b"<robot")
    for k in range(BROUGHT_MOST):
        remote.add_robot("other.urdf", builtin_urdf("ur5e").replace(b"</robot>", f"<!-- {k} --></robot>".encode()))
    assert len(remote.files) <= BROUGHT_MOST


def test_a_robot_from_a_file_comes_first(tmp_path):
    (tmp_path / "mine.urdf").write_bytes(builtin_urdf("ur5e"))
    solving = LocalSolving("cpu", str(tmp_path / "mine.urdf"))
    assert solving.robots[0] == "mine"
    posed = PosedRobot("mine", solving.robot("mine"))
    assert solving.solve(posed.question(**NOTHING)).success[0]


def test_links_have_the_meshes_that_their_file_names_and_that_are_there(tmp_path):
    import trimesh

    trimesh.creation.box((0.1, 0.2, 0.4)).export(tmp_path / "arm.stl")
    shapes = (
        '<visual><origin xyz="0 0 0.2"/><geometry><mesh filename="arm.stl" scale="1 1 -1"/></geometry></visual>',
        '<visual><geometry><mesh filename="nowhere.stl"/></geometry></visual>',
    )
    links = "".join(f'<link name="{name}">{shape}</link>' for name, shape in zip("ab", shapes, strict=True))
    joint = '<axis xyz="0 0 1"/><limit lower="-1" upper="1"/><origin xyz="0 0 0.4"/>'
    joint = f'<joint name="j" type="revolute"><parent link="a"/><child link="b"/>{joint}</joint>'
    (tmp_path / "mine.urdf").write_text(f'<robot name="mine">{links}{joint}</robot>')
    solving = LocalSolving("cpu", str(tmp_path / "mine.urdf"))
    assert solving.meshes("mine").keys() == {"a"}
    (mesh,) = solving.meshes("mine")["a"]
    assert mesh.vertices.min(axis=0) == pytest.approx([-0.05, -0.1, 0.0], abs=SAME_M)
    robot = solving.robot("mine")
    (_, _, part) = robot_parts(robot, solving.meshes("mine"))
    assert part.body.tolist() == [-1]
    without, having = robot_parts(robot), robot_parts(robot, solving.meshes("mine"))
    assert (without[0].role == Role.ROD).sum() == 1 + (having[0].role == Role.ROD).sum()
    assert solving.meshes("panda") == {}


def posed_at(name, links, joint_q):
    """A robot whose targets are where a configuration has these links."""
    posed = PosedRobot(name, load_robot(name))
    for link in links - posed.targets.keys():
        posed.pick(link)
    there = posed.robot.forward_kinematics(posed.joint_q + joint_q, list(posed.targets))
    for k, link in enumerate(posed.targets):
        posed.change(link, pose=np.concatenate([there.positions[0, k], there.orientations_xyzw[0, k]]))
    return posed


def picked():
    return posed_at("panda", {"panda_hand", "panda_link4"}, 0.05).question(**NOTHING)


def frozen():
    change = np.linspace(0.02, 0.08, 14)
    change[2] = 0.0  # left_panda_joint3
    question = posed_at("dual_panda", set(), change).question(**NOTHING, alone=False)
    return replace(question, frozen=("left_panda_joint3",))


@pytest.mark.parametrize("question", [*questions(), picked(), frozen()])
def test_the_request_that_is_shown_asks_the_same(local, service_url, question, capsys):
    found = local.solve(question)
    words = shlex.split(curl_text(question, service_url))
    assert words[2] == f"{service_url}/v1/robots/{question.robot}/solve"
    body = json.loads(words[-1])
    assert body == json.loads(json.dumps(request_document(question)))
    answer = httpx2.post(words[2], json=body, timeout=PATIENCE_S).json()
    assert tuple(answer["status"]) == found.status
    assert np.abs(np.array(answer["joint_q"]) - found.joint_q).max() < 1e-3  # the request is rounded
    exec(compile(python_text(question), "shown", "exec"), {})
    assert found.status[0] in capsys.readouterr().out


@pytest.mark.evidence
@pytest.mark.parametrize(
    "question",
    [moved("panda"), moved("four_bar"), moved("dual_panda", free=("rx",), objects=BOX), picked(), frozen()],
    ids=["one target", "a loop", "two targets and a box", "a link that turns freely", "a joint that stays"],
)
def test_the_c_that_is_shown_compiles_and_gives_the_same_joints(local, question, tmp_path):
    for name, call in (("python", ""), ("ik-service", " -c 'from ik_service.cli import main; main()'")):
        (tmp_path / name).write_text(f'#!/bin/sh\nexec {sys.executable}{call} "$@"\n')
        (tmp_path / name).chmod(0o755)
    (tmp_path / "call.c").write_text(c_text(question, local.robot(question.robot)))
    command = export_text(question).replace("cc -O2", "gcc -Wall -Wextra -Werror -O2")
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    printed = subprocess.check_output(["sh", "-e", "-c", command], cwd=tmp_path, env=environment, text=True)
    said, _, numbers = printed.splitlines()[-1].partition(":")
    found = local.solve(question)
    assert said == ("reached" if found.success[0] else "not reached")
    assert np.abs(np.array(numbers.split(), float) - found.joint_q[0]).max() < ROUNDED
    assert np.abs(found.joint_q[0] - question.initial_joint_q[0]).max() > 10.0 * ROUNDED


def test_what_was_asked_is_in_the_export(local):
    off = moved("panda", options={"collision": "off"})
    assert "options=ik_service.SolverOptions(collision='off')" in export_text(off)
    assert "world=World({" in export_text(moved("panda", objects=BOX))
    command = export_text(moved("panda"), "/a folder/it's mine.urdf")
    assert shlex.split(command.splitlines()[0])[:3] == ["ik-service", "export", "/a folder/it's mine.urdf"]
    named = load_robot("panda").with_frame("the tool", "panda_hand", [0, 0, 0, 0, 0, 0, 1])
    question = PosedRobot("panda", named).question(**NOTHING)
    assert "the tool" in shlex.split(export_text(question).splitlines()[0])
    for text in (export_text(off), c_text(off, local.robot("panda"))):
        assert escape(text) in request_html(off, local.robot("panda"), local)


def test_c_tries_other_starts_where_any_branch_will_do(local):
    posed = PosedRobot("panda", local.robot("panda"))
    texts = [
        c_text(posed.question(any_branch=is_free, options={}, objects={}), posed.robot) for is_free in (False, True)
    ]
    for option in ("options.seeds = 1;", "options.approximate_nearest = 1;"):
        assert [option in text for text in texts] == [True, False]


def test_c_is_refused_where_loops_are_left_open(local):
    posed = PosedRobot("four_bar", local.robot("four_bar"))
    posed.keeps_loops = False
    question = posed.question(**NOTHING)
    assert c_text(question, posed.robot) == ""
    assert "Keep loops closed" in export_text(question)


def test_words_say_status_errors_limits_and_advice(local):
    posed = PosedRobot("panda", load_robot("panda"))
    assert "Posed by hand" in status_html(posed)
    posed.take(local.solve(pulled(posed, [1.0, 0.0, 0.0]).question(**NOTHING)))
    text = status_html(posed)
    assert "Reached" not in text
    assert escape(posed.answer.advice) in text
    assert f"{1e3 * posed.error['panda_hand'][0]:.3f} mm" in text
    assert "iterations" in text
    assert "1000 of 1000 reached" in random_html(local.solve(posed.random_question(0, {}, {})))


@pytest.mark.parametrize(("collision", "is_said"), [("read", False), ("ignore", True)])
def test_words_say_that_collision_is_not_checked(local, collision, is_said):
    posed = PosedRobot("panda", load_robot("panda", collision=collision))
    assert (NO_MODEL in status_html(posed)) == is_said
    posed.take(local.solve(posed.question(**NOTHING)))
    assert (NO_MODEL in status_html(posed)) == is_said


def test_names_cannot_put_elements_into_the_panel():
    posed = PosedRobot("panda", load_robot("panda").with_frame("<b>tool</b>", "panda_hand", [0, 0, 0, 0, 0, 0, 1]))
    assert "<b>tool</b>" in posed.targets
    assert "<b>" not in status_html(posed, "<b>bold</b>")
