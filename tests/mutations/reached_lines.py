"""A plugin of pytest for `try_suite.py`: one context of coverage per test, or the tests of a list in its order.

With REACHED_TO, a folder: each test is a context of coverage, in its processes too, and its seconds stand there.
With CHOSEN_TESTS, a file: only the tests that it names run, in its order, and the one that fails is written beside it.
"""

import json
import os
import time
from collections.abc import Generator
from pathlib import Path

import pytest

CONTEXT = "REACHED_BY"  # coverage of processes that a test starts has its value as context


def name_of(item: pytest.Item) -> str:
    group = item.get_closest_marker("xdist_group")
    return item.nodeid.removesuffix(f"@{group.args[0]}") if group else item.nodeid


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, bool, bool]:
    if (folder := os.environ.get("REACHED_TO")) is None:
        return (yield)
    import coverage

    name = name_of(item)
    os.environ[CONTEXT] = name
    coverage.Coverage.current().switch_context(name)
    begin = time.monotonic()
    try:
        return (yield)
    finally:
        with Path(folder, f"seconds.{os.getpid()}.jsonl").open("a") as file:
            file.write(json.dumps([name, round(time.monotonic() - begin, 3)]) + "\n")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if (chosen := os.environ.get("CHOSEN_TESTS")) is None:
        return
    place = {name: number for number, name in enumerate(json.loads(Path(chosen).read_text()))}
    left_out = [item for item in items if name_of(item) not in place]
    items[:] = sorted((item for item in items if name_of(item) in place), key=lambda item: place[name_of(item)])
    config.hook.pytest_deselected(items=left_out)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed and (chosen := os.environ.get("CHOSEN_TESTS")):
        Path(f"{chosen}.failed").write_text(json.dumps([report.nodeid, report.longreprtext[-300:]]))


def pytest_collectreport(report: pytest.CollectReport) -> None:
    pytest_runtest_logreport(report)
