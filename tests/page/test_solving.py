"""Whoever solves gives the same answers to the same questions, and says in words why there is none."""

import json
import shlex
from html import escape

import httpx2
import numpy as np
import pytest

from ik_service import load_robot
from ik_service.page import LocalSolving, PageError, RemoteSolving
from ik_service.page.geometry import OWN, robot_parts, visible_bodies
from ik_service.page.local_solving import BROUGHT_MOST
from ik_service.page.posed_robot import PosedRobot
from ik_service.page.request_texts import curl_text, python_text, request_document, request_html
from ik_service.page.words import NO_MODEL, random_html, status_html
from ik_service.robots import builtin_urdf
from tests.bounded import PATIENCE_S

NOTHING = {"any_branch": False, "options": {}, "objects": {}}
BOX = {"wall": {"shape": "box", "size": [0.2, 0.2, 0.2], "position": [0.6, 0.0, 0.4]}}
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


def questions():
    for name, free, objects, options, *way in (
        ("ur5e", (), {}, {"solutions": 8}),
        ("ur5e", (), {}, {"solutions": "all"}),
        ("ur5e", (), {}, {}, 2.0, 0.0, 0.0),  # beyond reach
        ("panda", (), {}, {}),
        ("panda", ("rz",), {}, {}),
        ("panda", ("rx", "ry", "rz"), {}, {}),
        ("panda", (), BOX, {}),
        ("panda", (), {}, {"collision": "off"}),
        ("dual_panda", (), {}, {"solutions": 3}),
    ):
        posed = pulled(PosedRobot(name, load_robot(name)), way or [0.05, 0.02, -0.06], free)
        yield posed.question(any_branch="solutions" in options, options=options, objects=objects)


@pytest.mark.parametrize("question", list(questions()))
def test_this_process_and_a_service_answer_alike(local, remote, question):
    here, there = local.solve(question), remote.solve(question)
    assert here.status == there.status
    assert np.abs(here.joint_q - there.joint_q).max() < SAME_M
    assert here.solutions.shape == there.solutions.shape
    assert (here.branches.tolist(), here.is_complete) == (there.branches.tolist(), there.is_complete)
    assert here.proof.tolist() == there.proof.tolist()
    if question.robot == "ur5e":
        assert here.is_complete or here.proof.tolist() == [1]
        assert len(set(here.branches.tolist())) == len(here.solutions)
    for name in ("position_error", "orientation_error"):
        ours, theirs = getattr(here, name), getattr(there, name)
        assert ours.shape == theirs.shape == (1, len(question.targets))
        assert np.array_equal(np.isnan(ours), np.isnan(theirs))
        assert np.nanmax(np.abs(ours - theirs), initial=0.0) < SAME_M
    assert (here.closest, here.advice) == (there.closest, there.advice)
    assert here.clearance == pytest.approx(there.clearance, abs=SAME_M)


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


def test_a_robot_brought_beside_a_service_is_solved_for_here(remote, service_url, tmp_path, monkeypatch, capsys):
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
    assert solving.robots[0] == "mine"
    assert solving.bodies["mine"].keys() == {"a"}
    (body,) = solving.bodies["mine"]["a"]
    assert body.color is None
    assert body.shape.vertices.min(axis=0) == pytest.approx([-0.05, -0.1, 0.0], abs=SAME_M)
    robot = solving.robot("mine")
    without, having = robot_parts(robot), robot_parts(robot, solving.bodies["mine"])
    (mesh,) = (part for part in having if len(part.mesh.vertices) == 8)
    assert mesh.body.tolist() == [-1]
    rods = [sum(int((part.share == OWN).sum()) for part in parts) for parts in (without, having)]
    assert rods[0] > rods[1]


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


@pytest.mark.parametrize("question", [*questions(), picked()])
def test_the_request_that_is_shown_asks_the_same(local, service_url, question, capsys):
    found = local.solve(question)
    words = shlex.split(curl_text(question, service_url))
    assert words[2] == f"{service_url}/v1/robots/{question.robot}/solve"
    assert escape(python_text(question)) in request_html(question, local)
    body = json.loads(words[-1])
    assert body == json.loads(json.dumps(request_document(question)))
    answer = httpx2.post(words[2], json=body, timeout=PATIENCE_S).json()
    assert tuple(answer["status"]) == found.status
    assert np.abs(np.array(answer["joint_q"]) - found.joint_q).max() < 1e-3  # the request is rounded
    exec(compile(python_text(question), "shown", "exec"), {})
    assert found.status[0] in capsys.readouterr().out


def test_words_say_status_errors_limits_and_advice(local):
    posed = PosedRobot("panda", load_robot("panda"))
    assert "Posed by hand" in status_html(posed)
    posed.take(local.solve(pulled(posed, [1.0, 0.0, 0.0]).question(**NOTHING)))
    text = status_html(posed)
    assert "Reached" not in text
    assert escape(posed.answer.advice) in text
    assert f"{1e3 * posed.error['panda_hand'][0]:.3f} mm" in text
    assert "iterations" in text
    assert "1000 of 1000 reached" in random_html(local.solve(posed.random_question(0, options={}, objects={})))


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


LOOKS = b"""<robot name="arm"><material name="joint"><color rgba="0 0.5 9 1"/></material>
<link name="a"><visual><geometry><box size="0.1 0.1 0.2"/></geometry><material name="joint"/></visual>
<visual><geometry><mesh filename="arm.stl"/></geometry></visual></link></robot>"""


def test_looks_are_no_reason_to_refuse_a_robot():
    (body,) = visible_bodies(LOOKS)["a"]  # no mesh: its file is not there
    assert (body.material, body.color) == ("joint", (0, 128, 255))
    assert visible_bodies(LOOKS.replace(b"0 0.5 9 1", b"blue")) == {}
