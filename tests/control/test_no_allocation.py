"""A warm controller allocates nothing, compiles nothing and waits for nothing."""

import gc
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import warp as wp
from warp._src import context

from benchmarks.problems.tick_paths import ACCELERATION, LINK, panda_paths
from ik_service.control import ControlLimits, OneEuroFilter, TeleopTarget
from tests.control.conftest import begun

TICKS = [20_000, pytest.param(100_000, marks=pytest.mark.evidence)]
PATH_TICKS = 10_000


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.fixture(params=["iterations", "deadline", "accelerations", "filter"])
def tick(request, panda, monkeypatch):
    """A tick of a warm controller, after which Warp can neither allocate, compile, launch by name nor wait."""
    path = panda_paths(panda, PATH_TICKS)["circle"]
    limits = ControlLimits(acceleration=ACCELERATION if request.param == "accelerations" else None)
    options = {"limits": limits}
    if request.param == "filter":
        options = {"limits": ControlLimits(linear_speed=5.0), "target_filter": OneEuroFilter(5000.0, 0.0)}
    controller = begun(panda, [LINK], path.joint_q, robots=3, **options)
    controller.warmup()
    targets = np.tile(path.poses[:, None, None], (1, 3, 1, 1))
    for name in ("empty", "zeros", "full", "array", "clone", "copy", "launch", "synchronize", "load_module"):
        monkeypatch.setattr(wp, name, lambda *_, **__: pytest.fail("not in a tick"))
    for owner, name in ((wp.array, "__init__"), (context.Module, "load"), (context.Module, "_compile")):
        monkeypatch.setattr(owner, name, lambda *_, **__: pytest.fail("not in a tick"))

    def run(k):
        deadline = time.monotonic_ns() + 10**9 if request.param == "deadline" else None
        return controller.step(targets[k % PATH_TICKS], deadline_ns=deadline)

    return run


def test_a_warm_controller_needs_nothing_more(tick):
    first = tick(0)
    addresses = [array.ctypes.data for array in (first.joint_q, first.joint_qd, first.island_status)]
    for k in range(1, 5000):
        tick(k)
    last = tick(5000)
    assert last is first
    assert [array.ctypes.data for array in (last.joint_q, last.joint_qd, last.island_status)] == addresses
    assert last.success.all()


@pytest.mark.parametrize("ticks", TICKS)
def test_memory_stays_flat_over_many_ticks(tick, ticks):
    for k in range(2000):
        tick(k)
    gc.collect()
    resident = resident_bytes()
    for k in range(ticks):
        tick(k)
    assert resident_bytes() - resident < 200_000
    tracemalloc.start()
    try:
        for k in range(100):
            tick(k)
        before = tracemalloc.get_traced_memory()[0]
        for k in range(ticks // 10):
            tick(k)
        assert tracemalloc.get_traced_memory()[0] - before < 2000
    finally:
        tracemalloc.stop()


def test_memory_of_a_teleoperated_target_stays_flat():
    target, device, twist = TeleopTarget([0.0] * 6 + [1.0]), np.array([0.1] * 3 + [0.0] * 3 + [1.0]), np.full(6, 0.01)
    tracemalloc.start()
    try:
        for k in range(3000):
            target.follow(device, k % 100 != 0)
            target.move(twist, 0.001, in_tool_frame=True)
            if k == 1000:
                before = tracemalloc.get_traced_memory()[0]
        assert tracemalloc.get_traced_memory()[0] - before < 2000
    finally:
        tracemalloc.stop()


@pytest.mark.evidence_cases("accelerations", "deadline")
def test_a_tick_leaves_no_garbage_to_collect(tick):
    gc.collect()
    gc.disable()
    try:
        for k in range(1000):
            tick(k)
        assert gc.collect() == 0
    finally:
        gc.enable()


@pytest.mark.parametrize("limits", [{}, {"acceleration": 10.0, "jerk": 200.0}], ids=["speeds", "jerks"])
def test_warming_up_changes_nothing(panda, limits):
    path, answers = panda_paths(panda, 1000)["circle"], []
    for warm_ups in ((), (0, 20)):
        controller, found = begun(panda, [LINK], path.joint_q, 0.01, limits=ControlLimits(**limits)), []
        for k, pose in enumerate(path.poses[:60]):
            if k in warm_ups:
                controller.warmup()
            found.append(controller.step(pose).joint_q.copy())
        answers.append(found)
    np.testing.assert_array_equal(*answers)
