"""Makes an attack on a service while an honest caller uses it, and reports what that caller saw.

An attack is a function `attack(service, stop)`: it runs until the event `stop` is set, or ends before, and closes what
it opened. What it returns stands in the report.
"""

import contextlib
import dataclasses
import json
import pathlib
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.attacks import victim
from tests.attacks.service import KEYS, Service
from tests.attacks.victim import Call
from tests.bounded import until

Attack = Callable[[Service, threading.Event], Any]

ATTACK_S = 5.0  # longer than the timeouts of services attacked by callers who wait
END_TIMEOUT_S = 600.0  # an attack may have to wait for answers
RECOVERY_TIMEOUT_S = 90.0
SAMPLE_S = 0.02


@dataclasses.dataclass(frozen=True)
class Report:
    """What an honest caller saw during an attack, what this cost the service, and what the attack returned.

    The peak of the memory is that of the attack and of the recovery, whose time counts from the attack's end until a
    new connection is served and a solve answered.
    """

    calls: list[Call]
    memory_before_mb: float
    memory_peak_mb: float
    recovery_s: float
    outcome: Any

    @property
    def memory_grown_mb(self) -> float:
        """How much memory the attack cost at its worst [MB]."""
        return self.memory_peak_mb - self.memory_before_mb

    def share(self, *kinds: str) -> float:
        """Share of the calls of some kinds (`solve`, `live`, `fresh`) that were served."""
        served = [call.is_served for call in self.calls if call.kind in kinds]
        assert served, f"no call of kind {kinds} was made"
        return sum(served) / len(served)

    def row(self, name: str) -> str:
        """The report as one line."""
        times = sorted(call.took_s * 1e3 for call in self.calls if call.kind == "solve")
        lost = Counter(call.code for call in self.calls if call.kind == "solve" and not call.is_served)
        return (
            f"{name:<32} solved {self.share('solve'):7.2%} of {len(times):5d}, p50 {times[len(times) // 2]:.1f} ms; "
            f"live {self.share('live', 'fresh'):7.2%}; not solved: {dict(lost)}; recovery {self.recovery_s:.2f} s; "
            f"memory {self.memory_before_mb:.0f} to {self.memory_peak_mb:.0f} MB"
        )


@contextlib.contextmanager
def watched(service: Service) -> Iterator[list[float]]:
    """Watches the memory of a service [MB] from a thread of its own; gives what it held."""
    held, stop = [service.memory_mb()], threading.Event()

    def watch() -> None:
        while not stop.wait(SAMPLE_S):
            held.append(service.memory_mb())

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield held
    finally:
        stop.set()
        thread.join()


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


def under_attack(service: Service, attack: Attack, *, seconds: float = ATTACK_S, least: float = 1.0) -> Report:
    """Makes an attack for some seconds, or until the attack sets its event; its name stands in the line printed.

    At least this share of the honest caller's solves, and of its questions whether the service is live, has to be
    served, and afterwards a new connection.
    """
    stop = threading.Event()
    with watched(service) as held, honest_caller(service) as calls, ThreadPoolExecutor(1) as pool:
        before, began = held[0], time.monotonic()
        running = pool.submit(attack, service, stop)
        try:
            stop.wait(seconds)  # an attack that has done its part keeps what it has until then
        finally:
            stop.set()
        told = time.monotonic()
        outcome = running.result(END_TIMEOUT_S)
        recovered_from = time.monotonic()
        until(lambda: is_served(service), RECOVERY_TIMEOUT_S)
        recovery_s = time.monotonic() - recovered_from
    during = [call for call in calls if call.began_s <= told and call.began_s + call.took_s >= began]
    report = Report(during, before, max(held), recovery_s, outcome)
    sys.stdout.write(report.row(attack.__name__.replace("_", " ")) + "\n")
    assert report.share("solve") >= least
    assert report.share("live", "fresh") >= least
    return report


def is_served(service: Service) -> bool:
    """Whether a new connection is served and a solve answered."""
    with contextlib.closing(service.connect(RECOVERY_TIMEOUT_S)) as connection:
        return all(victim.call(connection, kind, KEYS["victim"]).is_served for kind in ("live", "solve"))
