"""Who works on a device that records graphs has it to itself: else launches and copies become part of a recording."""

import threading
from types import SimpleNamespace

import numpy as np
import pytest

from ik_service import IKSolver
from ik_service.kernels.device_lock import DEVICE_LOCK, device_work
from ik_service.solver import result
from ik_service.solver.given import arrays

CUDA = 2  # kDLCUDA


def is_locked():
    """Whether another thread would have to wait for the device."""
    found = []

    def ask():
        found.append(not DEVICE_LOCK.acquire(blocking=False))
        if not found[0]:
            DEVICE_LOCK.release()

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    return found[0]


@pytest.mark.parametrize("is_cuda", [False, True])
def test_a_gpu_is_taken_in_turns_and_a_cpu_is_not(is_cuda):
    with device_work(SimpleNamespace(is_cuda=is_cuda)):
        assert is_locked() is is_cuda
    assert not is_locked()


class OnGPU:
    """An array of Warp, or one that Warp makes of what another package gives it."""

    device = SimpleNamespace(is_cuda=True)

    def numpy(self):
        return np.array([is_locked()])


@pytest.mark.parametrize("array", [OnGPU(), SimpleNamespace(__dlpack__=None, __dlpack_device__=lambda: (CUDA, 0))])
def test_arrays_of_a_gpu_are_read_with_the_device_to_oneself(array, monkeypatch):
    monkeypatch.setattr(arrays, "wp", SimpleNamespace(array=OnGPU, from_dlpack=lambda value: OnGPU()))
    assert arrays.as_numpy("positions", array).tolist() == [True]
    assert not is_locked()


def test_results_go_to_a_gpu_with_the_device_to_oneself(panda, panda_targets, monkeypatch):
    solver = IKSolver(panda, ["panda_hand"], device="cpu")
    answer = solver.solve(panda_targets.positions[:2], panda_targets.orientations_xyzw[:2])
    gpu = SimpleNamespace(is_cuda=True)
    double = SimpleNamespace(get_device=lambda name: gpu, array=lambda column, **_: is_locked())
    monkeypatch.setattr(result, "wp", double)
    columns = answer.to_warp()
    assert len(columns) > 5
    assert all(columns.values())
