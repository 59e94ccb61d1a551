import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.attacks.service import Service, running


@pytest.fixture(scope="session", params=[1, pytest.param(2, marks=pytest.mark.evidence)], ids="workers={}".format)
def workers(request: pytest.FixtureRequest) -> int:
    """Number of workers of the services that are attacked."""
    count: int = request.param
    return count


@pytest.fixture(scope="module")
def start_service(tmp_path_factory: pytest.TempPathFactory, workers: int) -> Iterator[Callable[..., Service]]:
    """Starts services with settings of their own, `start_service(max_connections=64)`; they end with the file."""
    with contextlib.ExitStack() as stack:

        def start(**settings: Any) -> Service:
            return stack.enter_context(running(tmp_path_factory.mktemp("service"), workers=workers, **settings))

        yield start


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory, workers: int) -> Iterator[Service]:
    """A service with the settings that it comes with, for all attacks that leave nothing behind."""
    with running(tmp_path_factory.mktemp("service"), workers=workers) as one:
        yield one
