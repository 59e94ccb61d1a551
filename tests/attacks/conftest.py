import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.attacks.service import Service, running


@pytest.fixture(scope="module")
def start_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Service]]:
    """Starts services with settings of their own, `start_service(max_connections=64)`; they end with the file."""
    with contextlib.ExitStack() as stack:

        def start(**settings: Any) -> Service:
            return stack.enter_context(running(tmp_path_factory.mktemp("service"), **settings))

        yield start


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with the settings that it comes with, for all attacks that leave nothing behind."""
    with running(tmp_path_factory.mktemp("service")) as one:
        yield one
