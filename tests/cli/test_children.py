"""A process of the service: started again after growing delays, what it counted is kept."""

import logging

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge

from ik_service.cli import children
from ik_service.cli.children import DELAY_LEAST_S, DELAY_MOST_S, LONG_LIFE_S, Child


class Clock:
    """A time that a test lets pass."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(children, "time", clock)
    return clock


def lived(child, clock, seconds):
    """Start a process that ends by itself; return the delay before the next."""
    child.start()
    clock.now += seconds
    assert child.gone() == 0
    return child.start_at - clock.now


def test_delays_grow_and_are_short_again_after_a_long_life(clock):
    child = Child("one", logging.debug, tuple)  # it ends at once
    delays = [lived(child, clock, 0.0) for _ in range(4)]
    assert delays == pytest.approx([DELAY_LEAST_S * 2.0**k for k in range(4)])
    child._delay_s = DELAY_MOST_S
    assert lived(child, clock, 1.0) == pytest.approx(DELAY_MOST_S)
    assert lived(child, clock, 1.0) == pytest.approx(DELAY_MOST_S)
    assert lived(child, clock, LONG_LIFE_S + 1.0) == pytest.approx(DELAY_LEAST_S)
    assert child.sources == []
    child.send("metrics")  # to nobody
    child.tell(15)


def test_what_a_process_has_counted_outlives_it(clock):
    registry = CollectorRegistry()
    count, size = Counter("count", "What grows.", registry=registry), Gauge("size", "What does not.", registry=registry)
    child = Child("one", logging.debug, tuple)

    def values():
        return {sample.name: sample.value for family in child.snapshot for sample in family.samples}

    for total in (3, 6, 9):
        child.start()
        assert len(child.sources) == 2
        count.reset()
        count.inc(3)
        size.set(5)
        child.keep(list(registry.collect()))
        assert (values()["count_total"], values()["size"]) == (total, 5)
        child.gone()
        assert values()["count_total"] == total
        assert "size" not in values()
