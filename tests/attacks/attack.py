"""Makes an attack on a service while an honest caller uses it, and reports what that caller saw.

An attack is a function `attack(service, stop)`: it runs until the event `stop` is set, or ends before, and closes what
it opened. What it returns stands in the report.
"""

import contextlib
import dataclasses
import json
import math
import pathlib
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.attacks import victim
from tests.attacks.service import KEYS, Service
from tests.attacks.victim import Call

Attack = Callable[[Service, threading.Event], Any]

MOMENT_S = 2.0  # what the default run spends on an attack
MINUTE_S = 60.0
END_TIMEOUT_S = 120.0  # an attack may have to wait for answers
RECOVERY_TIMEOUT_S = 90.0
SAMPLE_S = 0.02

for_a_moment_and_a_minute = pytest.mark.parametrize(
    "seconds", [pytest.param(MOMENT_S, id="moment"), pytest.param(MINUTE_S, id="minute", marks=pytest.mark.evidence)]
)
"""Runs a test for a short time by default and for a minute as evidence."""


@dataclasses.dataclass(frozen=True)
class Report:
    """What an honest caller saw during an attack, and what the attack cost the service.

    Attributes:
        name: Name of the attack.
        calls: The honest caller's calls that were under way during the attack.
        memory_before_mb: Memory of the service's process before [MB].
        memory_peak_mb: The most that it held during the attack and the recovery [MB].
        children_peak: The most child processes at once.
        recovery_s: Time from the attack's end until a new connection is served and a solve answered [s]; infinite
            where that did not happen in time.
        outcome: What the attack returned.
    """

    name: str
    calls: list[Call]
    memory_before_mb: float
    memory_peak_mb: float
    children_peak: int
    recovery_s: float
    outcome: Any

    def share(self, kind: str) -> float:
        """Share of the calls of a kind (`solve`, `live`, `fresh`) that were served."""
        served = [call.is_served for call in self.calls if call.kind == kind]
        assert served, f"no call of kind {kind} was made"
        return sum(served) / len(served)

    def took_s(self, kind: str, share: float) -> float:
        """The time that this share of the calls of a kind did not exceed [s], served or not."""
        times = sorted(call.took_s for call in self.calls if call.kind == kind)
        return times[min(int(share * len(times)), len(times) - 1)]

    def codes(self, kind: str) -> Counter[str]:
        """How often each code came back to calls of a kind."""
        return Counter(call.code for call in self.calls if call.kind == kind)

    @property
    def solved_share(self) -> float:
        """Share of the honest solves that were answered."""
        return self.share("solve")

    @property
    def live_share(self) -> float:
        """Share of the questions whether the service is live that were answered, over either connection."""
        served = [call.is_served for call in self.calls if call.kind != "solve"]
        return sum(served) / len(served)

    @property
    def memory_grown_mb(self) -> float:
        """How much memory the attack cost at its worst [MB]."""
        return self.memory_peak_mb - self.memory_before_mb

    def row(self) -> str:
        """The report as one line."""
        return (
            f"{self.name:<32} solved {self.solved_share:7.2%} of {sum(c.kind == 'solve' for c in self.calls):5d}, "
            f"p50 {self.took_s('solve', 0.5) * 1e3:7.1f} ms, p99 {self.took_s('solve', 0.99) * 1e3:8.1f} ms; "
            f"live {self.live_share:7.2%}, p99 {self.took_s('fresh', 0.99) * 1e3:8.1f} ms; "
            f"memory {self.memory_before_mb:5.0f} to {self.memory_peak_mb:5.0f} MB, {self.children_peak} children; "
            f"recovery {self.recovery_s:5.2f} s; not solved: "
            + (", ".join(f"{code} {n}" for code, n in self.codes("solve").items() if code != "ok") or "none")
        )


class Gauge:
    """Watches the memory and the children of a service from a thread of its own."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.memory_peak_mb, self.children_peak = service.memory_mb(), len(service.processes()) - 1
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.watch)

    def watch(self) -> None:
        while not self.stop.wait(SAMPLE_S):
            self.memory_peak_mb = max(self.memory_peak_mb, self.service.memory_mb())
            self.children_peak = max(self.children_peak, len(self.service.processes()) - 1)

    def __enter__(self) -> "Gauge":
        self.thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop.set()
        self.thread.join()


@contextlib.contextmanager
def honest_caller(service: Service) -> Iterator[list[Call]]:
    """Lets a caller with a key of its own use the service, from before the block on; gives its calls after it."""
    program = [sys.executable, str(pathlib.Path(victim.__file__)), service.host, str(service.port), KEYS["victim"]]
    calls: list[Call] = []
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().strip() == victim.READY
            yield calls
        finally:
            output, _ = process.communicate(timeout=END_TIMEOUT_S)
    assert process.returncode == 0
    calls += [Call(*json.loads(line)) for line in output.splitlines()]


def under_attack(service: Service, attack: Attack, seconds: float) -> Report:
    """Makes an attack for some seconds and reports what an honest caller saw.

    Args:
        service: The service.
        attack: What is done to it, `attack(service, stop)`. The function's name stands in the report.
        seconds: After this time `stop` is set.

    Returns:
        The report; its line has been printed.
    """
    stop = threading.Event()
    before = service.memory_mb()
    with Gauge(service) as gauge, honest_caller(service) as calls, ThreadPoolExecutor(1) as pool:
        began = time.monotonic()
        running = pool.submit(attack, service, stop)
        try:
            time.sleep(seconds)  # an attack that has done its part keeps what it has until then
        finally:
            stop.set()
        told = time.monotonic()
        outcome = running.result(END_TIMEOUT_S)
        recovery = recovery_s(service)
    during = [call for call in calls if call.began_s <= told and call.began_s + call.took_s >= began]
    name = attack.__name__.replace("_", " ")
    report = Report(name, during, before, gauge.memory_peak_mb, gauge.children_peak, recovery, outcome)
    sys.stdout.write(report.row() + "\n")
    return report


def recovery_s(service: Service) -> float:
    """Time until a new connection is served and a solve answered [s]; infinite where neither comes in time."""
    began = time.monotonic()
    while time.monotonic() < began + RECOVERY_TIMEOUT_S:
        with contextlib.closing(service.connect(RECOVERY_TIMEOUT_S)) as connection:
            if all(victim.call(connection, kind, KEYS["victim"]).is_served for kind in ("live", "solve")):
                return time.monotonic() - began
        time.sleep(SAMPLE_S)
    return math.inf
