import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.attacks.service import Service, running

SMALL = {"memory_bytes": 64 << 20, "answer_timeout_s": 2.0}


@pytest.fixture(scope="module")
def start_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Service]]:
    """Starts services with settings of their own, `start_service(max_connections=64)`; they end with the file."""
    with contextlib.ExitStack() as stack:

        def start(**settings: Any) -> Service:
            return stack.enter_context(running(tmp_path_factory.mktemp("service"), **settings))

        yield start


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service whose requests may hold little memory, and answers that nobody reads not for long."""
    with running(tmp_path_factory.mktemp("service"), **SMALL) as one:
        yield one
