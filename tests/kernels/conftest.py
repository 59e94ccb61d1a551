"""Fixtures of tests of compiled kernels, beside those of the solver."""

import pytest
import warp as wp

from tests.fork_server import fork_server
from tests.kernels.cache_processes import IMPORTS, Processes
from tests.solver.conftest import panda, panda_targets, threads  # noqa: F401  # pytest finds fixtures by their names here


@pytest.fixture(scope="module")
def run():
    """Runs programs in processes of their own that find a cache of the test's."""
    with fork_server(IMPORTS) as server:
        yield Processes(server)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty folder that is the kernel cache of this process."""
    wp.init()
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o755)
    monkeypatch.setattr(wp.config, "kernel_cache_dir", str(folder))
    return folder
