"""The status while a question is answered: it never says of an old answer that the new target is reached."""

import functools
from types import SimpleNamespace

import numpy as np
import pytest

from ik_service.kernels.kernel_loading import KernelsFor, compiling_notice
from ik_service.page import LocalSolving, PageError, words
from ik_service.page.visitor import Visitor
from ik_service.robots import builtin_urdf
from tests.bounded import until
from tests.page.guests import Guest, drawn_colors

SOLVING = "Solving ..."


@pytest.fixture
def guest(guest):
    guest.panel.record.value = True
    guest.drag("panda_hand", [0.01, 0.0, 0.0])
    return guest


def slow(guest, monkeypatch, meanwhile=lambda: None):
    """Let answers take until the status says that they are awaited; return what it said, and `meanwhile`'s answers."""
    said = []

    def wrapped(ask):
        @functools.wraps(ask)
        def asked(*arguments, **given):
            panel = guest.panel
            until(lambda: SOLVING in panel.status.content)
            said.append((panel.status.content, meanwhile()))
            return ask(*arguments, **given)

        return asked

    for name in ("solve", "call"):
        monkeypatch.setattr(guest.visitor._solving, name, wrapped(getattr(guest.visitor._solving, name)))
    return said


def colors(guest):
    return drawn_colors(guest.stage.drawing)


@pytest.mark.parametrize("action", ["robot", "box", "solutions", "follow", "fit", "try", "random", "restart", "branch"])
def test_nothing_of_an_old_answer_is_shown_while_one_is_awaited(guest, monkeypatch, action):
    assert "Reached" in guest.status
    assert words.GOOD in colors(guest)

    said = slow(guest, monkeypatch, lambda: words.GOOD in colors(guest))
    guest.do(action, "ur5e")
    assert len(said) >= 1
    for status, is_green in said:
        assert "Reached" not in status
        assert "mm" not in status
        assert not is_green
    assert SOLVING not in guest.status
    assert "mm" in guest.status


@pytest.mark.parametrize(
    ("action", "of"),
    [("random", "random"), ("follow", "path"), ("fit", "path"), ("solutions", "found"), ("try", "found")],
)
def test_what_was_found_before_is_taken_away(guest, monkeypatch, action, of):
    guest.do(action)
    count = len(guest.visitor.others)
    assert getattr(guest.panel, of).content
    assert bool(count) == (action == "solutions")
    said = slow(guest, monkeypatch, lambda: (getattr(guest.panel, of).content, len(guest.visitor.others)))
    guest.do(action)
    assert said[0][1] == ("", 0)
    assert (bool(getattr(guest.panel, of).content), len(guest.visitor.others)) == (True, count)


def test_the_old_robot_is_not_green_while_the_next_is_read(guest, monkeypatch):
    said, robot = [], guest.visitor._solving.robot

    def read(name):
        said.append((SOLVING in guest.status, words.GOOD in colors(guest)))
        return robot(name)

    monkeypatch.setattr(guest.visitor._solving, "robot", read)
    guest.do("robot", "ur5e")
    assert said[0] == (True, False)
    assert "Reached" in guest.status


def test_a_question_that_may_pass_is_asked_again(guest, monkeypatch):
    fails = [lambda: (_ for _ in ()).throw(PageError("The service <compiles>.", may_pass=True))]
    slow(guest, monkeypatch, lambda: fails and next(fails.pop()()))
    guest.do("solutions")
    assert "The service &lt;compiles&gt;." in guest.status
    assert "Reached" not in guest.status
    assert SOLVING not in guest.status
    assert words.GOOD not in colors(guest)
    assert guest.panel.found.content == ""
    until(lambda: guest.work() or guest.panel.found.content)
    assert len(guest.visitor.others)
    assert "Reached" in guest.status


def test_who_waits_for_another_visitor_is_told(guest):
    visitor = guest.visitor
    visitor.enqueue("branch")  # nobody works
    until(lambda: SOLVING in guest.status)
    guest.work()
    assert "Reached" in guest.status
    assert words.GOOD in colors(guest)


def test_a_target_that_comes_during_a_slow_answer_is_not_said_to_be_reached(guest, monkeypatch):
    visitor, drags = guest.visitor, [guest.visitor.dragged]
    slow(guest, monkeypatch, lambda: drags and drags.pop()())
    visitor.enqueue("random")
    guest.waiting.get().work()
    assert SOLVING in guest.status
    guest.work()
    assert "Reached" in guest.status


def test_a_robot_that_nothing_has_been_solved_for_is_not_said_to_be_anywhere(server, solving):
    visitor = Visitor(Guest.client_of(server), solving, lambda _: None)
    visitor.enter("panda")
    assert SOLVING in visitor.panel.status.content
    assert words.GOOD not in drawn_colors(visitor.stage.drawing)
    visitor.work()
    assert "Reached" in visitor.panel.status.content
    visitor.leave()


def test_the_wait_has_seconds_and_the_reason(guest, monkeypatch):
    visitor = guest.visitor
    assert "Solving ... 3 s" in words.waiting_html(guest.posed, 3.9)
    assert f"{SOLVING}<" in words.waiting_html(guest.posed, 0.9)

    def compiles():
        monkeypatch.setattr(visitor._solving, "compiling", "Compiling code for <panda>.")
        until(lambda: "Compiling code for &lt;panda&gt;." in guest.status)

    slow(guest, monkeypatch, compiles)
    guest.do("box")
    assert "Compiling" not in guest.status


@pytest.mark.parametrize("content", [b"<robot", b"<mujoco/>", b" " * 1_000_001])
def test_a_failed_upload_leaves_the_robot_and_is_never_said_to_be_reached(guest, content):
    posed, joint_q, is_good = guest.posed, guest.posed.joint_q.copy(), words._dark(words.GOOD)
    assert is_good in guest.status
    guest.do("file", SimpleNamespace(name="<mine>.urdf", content=content))
    assert "&lt;mine&gt;.urdf" in guest.status
    for _ in range(2):  # also after further actions without an answer
        assert guest.posed is posed
        assert np.array_equal(posed.joint_q, joint_q)
        assert "No answer" in guest.status
        assert is_good not in guest.status
        assert "Reached" not in guest.status
        assert colors(guest) == {words.BY_HAND}
        guest.do("grab")
    guest.do("branch")
    assert "Reached" in guest.status


def test_a_robot_that_is_brought_is_shown(guest):
    guest.do("file", SimpleNamespace(name="mine.urdf", content=builtin_urdf("ur5e")))
    assert guest.posed.name.startswith("mine ")
    assert guest.posed.answer.success[0]
    assert guest.panel.robot.options[0] == guest.posed.name


def test_what_is_compiled_for_an_answer_is_known_while_it_is(monkeypatch, tmp_path):
    monkeypatch.setattr("warp.config.kernel_cache_dir", str(tmp_path))
    solving = LocalSolving("cpu")
    with solving._explained(), KernelsFor("'panda' (panda_hand)"), compiling_notice(1):
        assert solving.compiling == "Compiling code for 'panda' (panda_hand); later runs find it."
    assert solving.compiling == ""
    with KernelsFor("'panda'"), compiling_notice(1):
        assert solving.compiling == ""  # for somebody else
