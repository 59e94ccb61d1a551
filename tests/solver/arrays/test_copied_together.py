"""Arrays that go between host and device: small ones side by side, in one copy, others in one of their own."""

from itertools import pairwise

import numpy as np
import pytest
import warp as wp

from ik_service.kernels import host_device_array
from ik_service.kernels.host_device_array import (
    ARRAY_ALIGNMENT,
    BLOCK_BYTES,
    HostDeviceArray,
    block_on,
    copied_together,
)
from tests.solver.conftest import Reachable, assert_same_bytes, cpu_solver, use_threads

CPU = wp.get_device("cpu")


@pytest.fixture
def apart(monkeypatch):
    """Host and device do not share arrays."""
    monkeypatch.setattr(host_device_array, "has_host_copy", lambda device: True)


@pytest.mark.usefixtures("apart")
def test_arrays_of_a_block_are_copied_at_once_and_keep_to_themselves():
    block = block_on(CPU)
    specs = [((3, 2), wp.float64), ((5,), wp.int8), ((4,), wp.bool), ((2,), wp.int64), ((7, 1), wp.float32)]
    arrays = [HostDeviceArray(shape, dtype, CPU, block=block) for shape, dtype in specs]
    alone = HostDeviceArray((4,), wp.int32, CPU, per_problem=False)
    assert copied_together([arrays[0], alone, *arrays[1:]]) == [block, alone]
    places = sorted((array.device.ptr, array.device.ptr + array.host.nbytes) for array in arrays)
    assert all(first % ARRAY_ALIGNMENT == places[0][0] % ARRAY_ALIGNMENT for first, _ in places)
    assert all(end <= following for (_, end), (following, _) in pairwise(places))
    rng = np.random.default_rng(0)
    given = [rng.integers(0, 2, array.host.shape).astype(array.host.dtype) + 0 for array in arrays]
    for array, values in zip(arrays, given, strict=True):
        array.host[:] = values
        assert not array.device.numpy().any()
    block.push(1)
    for array, values in zip(arrays, given, strict=True):
        np.testing.assert_array_equal(array.device.numpy(), values)
        array.host[:] = 0
    block.fetch(1)
    for array, values in zip(arrays, given, strict=True):
        np.testing.assert_array_equal(array.host, values)


@pytest.mark.usefixtures("apart")
def test_what_has_no_room_in_a_block_stands_alone():
    block = block_on(CPU)
    shapes = (BLOCK_BYTES // 8 + 1,), (0, 3), (2,)
    large, empty, small = (HostDeviceArray(shape, wp.float64, CPU, block=block) for shape in shapes)
    assert (large.block, empty.block, small.block) == (None, None, block)
    assert copied_together([large, small]) == [large, block]


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
