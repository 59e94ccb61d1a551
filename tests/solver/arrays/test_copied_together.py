"""Arrays that go between host and device: small ones side by side, in one copy, others in one of their own."""

import numpy as np
import pytest
import warp as wp

from ik_service.kernels import host_device_array
from ik_service.kernels.host_device_array import (
    BLOCK_BYTES,
    HostDeviceArray,
    block_on,
)
from tests.solver.conftest import Reachable, assert_same_bytes, cpu_solver, use_threads

CPU = wp.get_device("cpu")


@pytest.fixture
def apart(monkeypatch):
    """Host and device do not share arrays."""
    monkeypatch.setattr(host_device_array, "has_host_copy", lambda device: True)


def test_memory_lives_as_long_as_an_array_in_it(request):
    assert block_on(CPU) is None  # the host sees the device
    request.getfixturevalue("apart")
    block = block_on(CPU)
    array = HostDeviceArray((1000,), wp.float64, CPU, block=block)
    array.host[:] = 7.0
    block.push(1)
    kept = array.device[10:20]
    del array, block
    others = [wp.full(BLOCK_BYTES, value=3, dtype=wp.uint8, device="cpu") for _ in range(20)]
    assert len(others) == 20
    np.testing.assert_array_equal(kept.numpy(), 7.0)


@pytest.mark.parametrize("count", [1, 40])
def test_a_solve_takes_three_copies_whatever_its_answers(panda, count, monkeypatch):
    problems = Reachable.draw(panda, ["panda_hand"], count, random_seed=4)
    use_threads(monkeypatch)
    results, copied, copy = [], [], wp.copy

    def counted(*arrays, **more):
        copied.append(arrays)
        copy(*arrays, **more)

    for size, copies in ((BLOCK_BYTES, 3), (0, 25)):
        monkeypatch.setattr(host_device_array, "BLOCK_BYTES", size)
        solver = cpu_solver(panda, ["panda_hand"], engine="compiled")
        solver.solve(*problems.targets)
        copied.clear()
        with monkeypatch.context() as patch:
            patch.setattr(wp, "copy", counted)
            results.append(solver.solve(*problems.targets))
        assert len(copied) == copies
    assert_same_bytes(*results)
    assert results[0].success.any()
