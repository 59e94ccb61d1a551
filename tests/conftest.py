"""What holds for every test: Warp says nothing below a warning; and a service with a server, for those that ask."""

import asyncio
import faulthandler
import gc
import os
import signal
import socket
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import hypothesis
import pytest
import warp as wp

from tests.bounded import until
from tests.kept_code import code_is_kept

wp.config.log_level = wp.LOG_WARNING
os.environ["IK_SERVICE_QUIET"] = "1"  # of what is compiled nothing is said on standard error, which tests look at
gc.set_threshold(20_000, 20, 20)  # by default a tenth of a run goes into looking through all kernels for cycles
# No test fails for the time that it takes: a machine may have other work.
hypothesis.settings.register_profile(
    "patient", hypothesis.settings(), deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("patient")

SERVICE_START_S = 300.0  # the first solve on a machine compiles kernels
SERVICE_END_S = 60.0
EVIDENCE_TIMEOUT_S = 3600.0
TIMEOUT_AGAIN_S = float(os.environ.get("TIMEOUT_AGAIN_S", "5"))
PROCESS_END_S = 120.0
SHARED = ("ray_cluster", "exported")  # fixtures whose tests run in one process
LAST = (  # rooms whose tests compile much or start services, longest groups first; quicker rooms show faults before
    "export",
    "pretended_cuda",
    "gpu_code",
    "kernels",
    "motion",
    "solver",
    "control",
    "page",
    "cli",
    "integrations",
    "attacks",
)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Keep tests that share what is dear to make in one process: those of a file, of exports, or of a Ray cluster.

    Evidence may take longer than other tests. Here, because xdist reads the marks in `pytest_collection_modifyitems`,
    before hooks of ours.
    """
    shared = [name for name in SHARED if name in getattr(item, "fixturenames", ())]
    item.add_marker(pytest.mark.xdist_group(*shared or [item.nodeid.partition("::")[0]]))
    case = item.callspec.id if hasattr(item, "callspec") else ""
    slow = [case in mark.args for mark in item.iter_markers("evidence_cases")]
    slow += [case not in mark.args for mark in item.iter_markers("quick_cases")]
    if any(slow):
        item.add_marker(pytest.mark.evidence)
    if item.get_closest_marker("evidence"):
        item.add_marker(pytest.mark.timeout(EVIDENCE_TIMEOUT_S))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    _require_named_cases(items)
    place = {name: number for number, name in enumerate(LAST, start=1)}
    items.sort(key=lambda item: place.get(item.nodeid.split("/")[1], 0) if "/" in item.nodeid else 0)


def _require_named_cases(items: list[pytest.Item]) -> None:
    """Refuse a mark with the name of a missing case: the mark would have no effect, unseen."""
    named, cases = dict[str, set[str]](), dict[str, set[str]]()
    for item in items:
        if hasattr(item, "callspec"):
            function = item.nodeid.partition("[")[0]
            cases.setdefault(function, set()).add(item.callspec.id)
            for kind in ("evidence_cases", "quick_cases"):
                named.setdefault(function, set()).update(*(mark.args for mark in item.iter_markers(kind)))
    for function, names in named.items():
        if len(cases[function]) > 1 and (missing := names - cases[function]):
            raise pytest.UsageError(f"{function} has no cases {sorted(missing)}.")


@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer() -> Generator[None, bool, bool]:
    """Let the time limit strike again and again: a test that it ends may wait once more where it cleans up."""
    is_set = yield
    limit_s, _ = signal.getitimer(signal.ITIMER_REAL)
    signal.setitimer(signal.ITIMER_REAL, limit_s, TIMEOUT_AGAIN_S)
    return is_set


def pytest_unconfigure() -> None:
    """End the process even where a thread of a test that hung goes on."""
    faulthandler.dump_traceback_later(PROCESS_END_S, exit=True)


@pytest.fixture(scope="session", autouse=True)
def _code_is_kept() -> Iterator[None]:
    with code_is_kept():
        yield


@contextmanager
def running_service(**options: Any) -> Iterator[tuple[str, Any]]:
    """A service with its own server on a free port of this machine: its address and the server."""
    from ik_service.cli.service_server import ServiceServer
    from ik_service.service import create_app
    from ik_service.service.gate.connection import server_config
    from ik_service.settings import ServiceSettings

    settings = ServiceSettings(device="cpu", **options)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        app = create_app(settings, bound_to="127.0.0.1", compile_apart=False)
        server = ServiceServer(server_config(app, settings), app, settings)
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])))
        thread.start()
        try:
            until(lambda: (server.started and hasattr(app.state, "service")) or not thread.is_alive())
            assert thread.is_alive()
            app.state.service.warm_up.result(SERVICE_START_S)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", server
        finally:
            server.should_exit = True
            thread.join(SERVICE_END_S)
            assert not thread.is_alive()


@pytest.fixture(scope="session")
def service_url() -> Iterator[str]:
    with running_service() as (url, _):
        yield url


@pytest.fixture(name="running_service", scope="session")
def running_service_fixture() -> Any:
    """Runs a service of a test's own: `with running_service(**settings) as (url, server)`."""
    return running_service
