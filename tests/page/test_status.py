"""The status while a question is answered: it never says of an old answer that the new target is reached."""

import functools

import pytest

from ik_service.kernels.kernel_loading import KernelsFor, _Notice
from ik_service.page import LocalSolving, PageError, words
from tests.bounded import until
from tests.page.guests import Guest, scene_server

SOLVING = "Solving ..."


@pytest.fixture
def guest():
    with scene_server() as server:
        guest = Guest(server, LocalSolving("cpu"), "panda")
        guest.visitor.panel.record.value = True
        guest.drag("panda_hand", [0.01, 0.0, 0.0])
        yield guest


def slow(guest, monkeypatch, meanwhile=lambda: None):
    """Let answers take until the status says that they are awaited; return what it said, and `meanwhile`'s answers."""
    said = []

    def wrapped(ask):
        @functools.wraps(ask)
        def asked(*arguments):
            panel = guest.visitor.panel
            until(lambda: SOLVING in panel.status.content)
            said.append((panel.status.content, meanwhile()))
            return ask(*arguments)

        return asked

    for name in ("solve", "follow"):
        monkeypatch.setattr(guest.visitor._solving, name, wrapped(getattr(guest.visitor._solving, name)))
    return said


def colors(guest):
    """The colours of the robot's joints."""
    return {tuple(color) for color in guest.visitor.stage.drawing._drawn[0][1].batched_colors.tolist()}


@pytest.mark.parametrize("action", ["robot", "obstacle", "solutions", "follow", "random", "restart", "branch"])
def test_nothing_of_an_old_answer_is_shown_while_one_is_awaited(guest, monkeypatch, action):
    visitor = guest.visitor
    assert "Reached" in visitor.panel.status.content
    assert words.GOOD in colors(guest)

    def seen():
        button = visitor.panel._buttons.get(action, (None, False))[0]
        return words.GOOD in colors(guest), button is None or button.disabled

    said = slow(guest, monkeypatch, seen)
    visitor.panel.obstacle.value = "box"
    visitor.enqueue(action, "ur5e")
    guest.work()
    assert len(said) >= 1
    for status, (is_green, is_busy) in said:
        assert "Reached" not in status
        assert "mm" not in status
        assert not is_green
        assert is_busy
    assert SOLVING not in visitor.panel.status.content
    assert "mm" in visitor.panel.status.content
    assert not any(button.disabled for button, _ in visitor.panel._buttons.values())


def test_what_was_counted_before_is_taken_away(guest, monkeypatch):
    visitor = guest.visitor
    for action, of in (("random", "random"), ("follow", "path")):
        visitor.enqueue(action)
        guest.work()
        assert words._badge("", words.GOOD)[:40] in getattr(visitor.panel, of).content
        with monkeypatch.context() as patch:
            said = slow(guest, patch, lambda of=of: getattr(visitor.panel, of).content)
            visitor.enqueue(action)
            guest.work()
        assert said[0][1] == ""
        assert getattr(visitor.panel, of).content


def test_a_question_without_an_answer_ends_the_wait(guest, monkeypatch):
    visitor = guest.visitor

    def fails():
        raise PageError("The service <rests>.")

    slow(guest, monkeypatch, fails)
    visitor.enqueue("solutions")
    guest.work()
    assert "The service &lt;rests&gt;." in visitor.panel.status.content
    assert SOLVING not in visitor.panel.status.content
    assert not visitor.panel.others.disabled
    assert words.GOOD in colors(guest)  # the robot stands as it stood


def test_who_waits_for_another_visitor_is_told(guest):
    visitor = guest.visitor
    visitor.enqueue("branch")  # nobody works
    until(lambda: SOLVING in visitor.panel.status.content)
    guest.work()
    assert "Reached" in visitor.panel.status.content
    assert words.GOOD in colors(guest)


def test_a_target_that_comes_during_a_slow_answer_is_not_said_to_be_reached(guest, monkeypatch):
    visitor, drags = guest.visitor, [guest.visitor.dragged]
    slow(guest, monkeypatch, lambda: drags and drags.pop()())
    visitor.enqueue("random")
    guest.waiting.get().work()
    assert SOLVING in visitor.panel.status.content
    guest.work()
    assert "Reached" in visitor.panel.status.content


def test_the_first_visitor_is_told_before_there_is_a_panel(guest):
    visitor = guest.visitor
    visitor._show("panda")
    visitor.enqueue("rest")
    until(lambda: visitor._status is not None and SOLVING in visitor._status.content)
    told = visitor._status
    guest.work()
    assert visitor.panel.status is told
    assert "Reached" in told.content


def test_the_wait_has_seconds_and_the_reason(guest, monkeypatch):
    visitor = guest.visitor
    assert "Solving ... 3 s" in words.waiting_html(visitor.posed, 3.9, [])
    assert f"{SOLVING}<" in words.waiting_html(visitor.posed, 0.9, [])

    def compiles():
        monkeypatch.setattr(visitor._solving, "compiling", "Compiling code for <panda>.")
        until(lambda: "Compiling code for &lt;panda&gt;." in visitor.panel.status.content)

    said = slow(guest, monkeypatch, compiles)
    guest.click(visitor.panel.obstacle, "box")
    assert words.COMPILING in said[0][0]
    assert "Compiling" not in visitor.panel.status.content


def test_what_is_compiled_for_an_answer_is_known_while_it_is(monkeypatch, tmp_path):
    monkeypatch.setattr("warp.config.kernel_cache_dir", str(tmp_path))
    solving = LocalSolving("cpu")
    with solving._explained(), KernelsFor("'panda' (panda_hand)"), _Notice(1):
        assert solving.compiling == "Compiling code for 'panda' (panda_hand); later runs find it."
    assert solving.compiling == ""
    with KernelsFor("'panda'"), _Notice(1):
        assert solving.compiling == ""  # for somebody else
