"""Who is let in, by the headers alone: how long callers wait, who is taken for whom, what the loop's lag counts for."""

import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

from ik_service import load_robot
from ik_service.service.gate.admission import LOOP_ROUNDS, TICK_S, Admission, LoopLag, preferred_wait_s
from ik_service.service.queue.errors import QueueFullError
from ik_service.service.queue.solve_request import Expected, SolveRequest
from ik_service.solver.given.batch import Batch
from ik_service.solver.given.targets import Target
from tests.service.gate.gates import Pool

PATH = b"/v1/robots/panda/solve"
LIMIT_S = 10.0
ROUNDING_S = 1e-9  # of sums of floats


@pytest.fixture
def door():
    door = Admission(LIMIT_S)
    door.pool = Pool()
    return door


@pytest.fixture(scope="module")
def panda():
    return load_robot("panda")


def request(count, link="panda_hand"):
    return SolveRequest((Target(link),), Batch.of([np.zeros((count, 3))]))


@pytest.mark.parametrize(
    ("seconds", "values"),
    [
        (5.0, [b"wait=5"]),
        (0.25, [b"wait=0.25"]),
        (7.0, [b"respond-async, wait=7", b"WAIT = 7 ; x=1", b'handling=lenient;a=b,wait="7"']),
        (0.0, [b"wait=0"]),
        (None, [b"wait=-1", b"wait=soon", b"wait=1e3", b"await=5", b"wait=5s", b"respond-async", b""]),
    ],
)
def test_how_long_a_caller_waits(values, seconds):
    assert [preferred_wait_s(value) for value in values] == [seconds] * len(values)


@pytest.mark.parametrize(("value", "seconds"), [(b"wait=2", 2.0), (b"wait=60", LIMIT_S), (b"wait=soon", LIMIT_S)])
def test_a_caller_may_wait_less_than_the_service_does_but_not_longer(door, value, seconds):
    arrival = door.admit(PATH, [(b"prefer", value)])
    assert arrival.deadline - arrival.at == pytest.approx(seconds)
    assert arrival.at == pytest.approx(time.monotonic(), abs=1.0)


def test_a_sender_is_known_by_path_key_and_size(door):
    def sender(path=PATH, **headers):
        return door.admit(path, [(name.replace("_", "-").encode(), value) for name, value in headers.items()]).sender

    known = {"content_length": b"500", "x_api_key": b"ann", "content_type": b"application/json"}
    assert sender(**known) == sender(**{**known, "content_length": b"621"}, x_request_id=b"7")
    for other in [{"content_length": b"50000"}, {"x_api_key": b"bob"}, {"content_type": b"application/msgpack"}]:
        assert sender(**known) != sender(**{**known, **other})
    assert sender(**known) != sender(b"/v1/robots/ur5e/solve", **known)


def test_a_request_is_taken_to_be_like_the_last_one_of_its_sender(door, panda):
    asked = {"ann": request(3), "bob": request(70, "panda_link7")}
    for _ in range(2):
        for name, one in asked.items():
            door.note(door.admit(PATH, [(b"x-api-key", name.encode())]), panda, one, name)
    keys = {name: (panda.content_hash, one.batch_key) for name, one in asked.items()}
    known = [Expected(keys[name], one.problem_count, name) for name, one in asked.items()]
    assert [each for each, _, _ in door.pool.asked] == [None, None, *known]


def test_senders_are_forgotten_when_there_are_too_many(panda, monkeypatch):
    monkeypatch.setattr("ik_service.service.gate.admission.SENDERS_MOST", 3)
    door = Admission(LIMIT_S)
    door.pool = Pool()
    headers = [[(b"x-api-key", b"%d" % k)] for k in range(5)]
    for each in headers:
        door.note(door.admit(PATH, each), panda, request(1), None)
    for each in headers:
        door.admit(PATH, each)
    assert [each is not None for each, _, _ in door.pool.asked] == [False] * 7 + [True] * 3


def test_refusals_are_logged_together(door, caplog):
    door.pool.error = QueueFullError("It is full.", "wait")
    for _ in range(20):
        with pytest.raises(QueueFullError):
            door.admit(PATH, [])
    assert caplog.messages == ["Too much is asked: 1 requests were refused unread lately. It is full."]


class Loop:
    """A loop whose clock the test moves."""

    def __init__(self):
        self.now, self.used, self.timers, self.clock = 100.0, 50.0, [], None

    def call_later(self, delay, callback, *arguments):
        timer = SimpleNamespace(due=self.now + delay, run=lambda: callback(*arguments))
        timer.cancel = lambda: self.timers.remove(timer)
        self.timers.append(timer)
        return timer

    def work(self, seconds):
        """Let the loop itself be at work."""
        self.now, self.used = self.now + seconds, self.used + seconds

    def round(self, seconds):
        """Let it work, then run the timers that are due, as a loop does once in a round."""
        self.work(seconds)
        for timer in [timer for timer in self.timers if timer.due <= self.now + ROUNDING_S]:
            self.timers.remove(timer)
            timer.run()


@pytest.fixture
def loop(monkeypatch):
    """A loop whose clock only this thread has: a service in another one would take the change for a lag of minutes."""
    loop, own = Loop(), threading.get_ident()
    clock = loop.clock = SimpleNamespace(
        monotonic=lambda: loop.now if threading.get_ident() == own else time.monotonic(),
        thread_time=lambda: loop.used if threading.get_ident() == own else time.thread_time(),
    )
    monkeypatch.setattr("ik_service.service.gate.admission.time", clock)
    return loop


def test_a_loop_that_keeps_up_has_no_lag(door, loop):
    assert door.lag.seconds == 0.0
    door.lag.start(loop)
    for _ in range(10):
        loop.round(TICK_S / 4)
        assert door.lag.seconds == 0.0
        assert door.admit(PATH, []).at == loop.now
    door.lag.stop()
    assert not loop.timers


def test_the_lag_of_the_loop_counts_for_the_arrival_and_for_the_way_to_go(door, loop):
    door.lag.start(loop)
    loop.work(TICK_S + 0.5)  # in the middle of a long round
    assert door.admit(PATH, []).at == pytest.approx(loop.now - 0.5)
    assert door.pool.asked[-1] == (None, pytest.approx(LIMIT_S - 0.5), pytest.approx(LOOP_ROUNDS * 0.5))
    loop.round(0.25)  # at its end, and in the next one: what is read now has come during it
    assert door.lag.seconds == pytest.approx(0.75)
    loop.round(TICK_S)
    assert door.lag.seconds == 0.0


def test_what_delays_the_loop_from_outside_counts_for_deadlines_and_not_for_refusals(door, loop):
    door.lag.start(loop)
    loop.work(TICK_S / 2)
    loop.now += TICK_S / 2 + 0.5  # other programs have the processor
    for lag_s in (0.5, 0.5 + TICK_S):
        assert door.admit(PATH, []).at == pytest.approx(loop.now - lag_s)
        assert door.pool.asked[-1][2] == pytest.approx(LOOP_ROUNDS * TICK_S / 2)
        loop.now += TICK_S
        loop.round(0.0)
    door.admit(PATH, [])
    assert door.pool.asked[-1][2] == 0.0


def test_the_solver_has_less_time_than_the_caller_gives(door, panda, monkeypatch):
    given = door.admit(PATH, [(b"prefer", b"wait=5")]), panda, request(1), None
    assert door.note(*given) == pytest.approx(5.0, abs=1.0)
    monkeypatch.setattr(LoopLag, "seconds", 1.0)
    assert door.note(*given) == pytest.approx(3.0, abs=1.0)
    monkeypatch.setattr(LoopLag, "seconds", 10.0)
    assert door.note(*given) == 0.0
