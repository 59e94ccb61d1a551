"""The status while a question is answered: it never says of an old answer that the new target is reached."""

import functools

import pytest

from ik_service.page import LocalSolving, words
from tests.page.guests import Guest, scene_server


@pytest.fixture
def guest():
    with scene_server() as server:
        yield Guest(server, LocalSolving("cpu"), "panda")


def _watched(guest, ask, said, during):
    @functools.wraps(ask)
    def asked(*arguments):
        during()
        said.append(guest.visitor.panel.status.content)
        return ask(*arguments)

    return asked


def watch_status(guest, monkeypatch, during=lambda: None):
    """Note what the status says while a question is answered; `during` is done meanwhile."""
    said = []
    for name in ("solve", "follow"):
        ask = getattr(guest.visitor._solving, name)
        monkeypatch.setattr(guest.visitor._solving, name, _watched(guest, ask, said, during))
    return said


def test_what_may_compile_is_said_before_and_the_old_status_does_not_stand(guest, monkeypatch):
    visitor = guest.visitor
    guest.drag("panda_hand", [0.01, 0.0, 0.0])
    said = watch_status(guest, monkeypatch)
    guest.drag("panda_hand", [0.01, 0.0, 0.0])
    assert "Reached" in said[-1]  # nothing new: an answer takes less than a millisecond
    for action in ("solutions", "random"):
        visitor.enqueue(action)
        guest.work()
        assert "Solving ..." in said[-1]
        assert "Reached" not in said[-1]
        assert "Reached" in visitor.panel.status.content
    visitor.panel.record.value = True
    guest.drag("panda_hand", [0.01, 0.0, 0.0])
    visitor.enqueue("follow")
    guest.work()
    assert "Solving ..." in said[-1]
    for kind in ("box", "ball"):
        guest.click(visitor.panel.obstacle, kind)
        assert "Solving ..." in said[-1]
        assert "Reached" not in said[-1]
    guest.click(visitor.panel.obstacle, "none")


def test_a_target_that_waits_for_a_slow_answer_is_not_said_to_be_reached(guest, monkeypatch):
    visitor = guest.visitor
    visitor.enqueue("random")
    guest.work()
    assert "Reached" in visitor.panel.status.content

    drags = [visitor.dragged]

    def drag():
        visitor._asked_at -= 10.0  # as if it had been asked long ago
        while drags:
            drags.pop()()

    said = watch_status(guest, monkeypatch, drag)
    visitor.enqueue("random")
    guest.waiting.get().work()
    assert words.WAITING in said[0]
    assert "Reached" not in said[0]
    guest.work()
    assert "Reached" in visitor.panel.status.content
