"""Ticks on a device whose memory the host does not see, and which does what it is told later: as a GPU does.

The device is played by the CPU: arrays have two halves, copies and launches wait in a queue until the controller waits.
"""

import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from ik_service.control import ControlLimits, IKController
from ik_service.control.tick import arrays as tick_arrays
from ik_service.kernels import device_lock, host_device_array
from ik_service.robots import HalfSpace, World
from ik_service.solver.lm.status import IKStatus
from tests.control.conftest import HOME, LINK, begun, pose_of

WORK_NS = 1000  # that a launch takes on the device that is played
FIELDS = ("joint_q", "joint_qd", "status", "position_error", "orientation_error", "active_limits", "iterations")
FIELDS += ("clearance",)


class LateDevice:
    """Keeps what it is told until somebody waits; its clock goes on by its launches alone.

    Another thread tells whether the device is locked meanwhile.
    """

    def __init__(self, monkeypatch, other):
        self.queue, self.now, self.holders, self.other = deque(), 0, [], other
        array = host_device_array.HostDeviceArray
        push, fetch = array.push, array.fetch
        monkeypatch.setattr(host_device_array, "has_host_copy", lambda device: True)
        monkeypatch.setattr(array, "push", lambda one, count: self.take(lambda: push(one, count)))
        monkeypatch.setattr(array, "fetch", lambda one, count: self.take(lambda: fetch(one, count)))
        monkeypatch.setattr(tick_arrays, "wait", lambda device: self.wait())
        monkeypatch.setattr(tick_arrays.time, "monotonic_ns", lambda: self.now)

    def take(self, work):
        self.holders.append(self.other.submit(is_locked).result())
        self.queue.append(work)

    def wait(self):
        self.holders.append(self.other.submit(is_locked).result())
        while self.queue:
            self.queue.popleft()()

    def controller(self, *arguments, **options):
        """A controller whose launches go into the queue; what was told before has been done."""
        controller = IKController(*arguments, **options)
        self.wait()
        launches = controller._launches
        launches.launches = tuple(self.late(launch) for launch in launches.launches)
        if controller._clearance is not None:
            controller._clearance.keep = self.late(controller._clearance.keep)
        self.holders.clear()
        return controller

    def late(self, launch):
        def work():
            self.now += WORK_NS
            launch()

        return lambda: self.take(work)


def is_locked():
    """Whether this thread would have to wait for the device."""
    free = device_lock.DEVICE_LOCK.acquire(blocking=False)
    if free:
        device_lock.DEVICE_LOCK.release()
    return not free


@pytest.fixture
def device(monkeypatch):
    with ThreadPoolExecutor(1) as other:
        yield LateDevice(monkeypatch, other)


def ticks(controller, start, targets, count, dt=1e-3):
    controller.reset(start)
    return [controller.step(targets, dt=dt).copy() for _ in range(count)]


def test_clearance_is_kept_as_on_a_device_that_the_host_sees(device, panda):
    target, limits = pose_of(panda, HOME, LINK, [0.4, 0.2, -0.3]), ControlLimits(clearance=0.01, acceleration=10.0)
    options = {"limits": limits, "world": World({"wall": HalfSpace((-1.0, 0.0, 0.0), -0.6)})}
    late = ticks(device.controller(panda, [LINK], **options), HOME, target, 200, dt=4e-3)
    with pytest.MonkeyPatch.context() as undone:
        undone.setattr(host_device_array, "has_host_copy", lambda device: False)
        seen = ticks(IKController(panda, [LINK], **options), HOME, target, 200, dt=4e-3)
    for one, other in zip(late, seen, strict=True):
        for name in FIELDS:
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    assert late[-1].clearance[0] < 0.05
    assert late[-1].status.tolist() == [IKStatus.BLOCKED_BY_COLLISION]


def test_a_robot_that_is_lost_brakes_from_its_last_command(device, panda):
    controller = device.controller(panda, [LINK], limits=ControlLimits(acceleration=10.0))
    last = ticks(controller, HOME, pose_of(panda, HOME + 0.5, LINK), 50)[-1]
    assert np.abs(last.joint_qd).max() > 0.1
    lost = controller.step(joint_q=np.full(7, np.nan))
    assert lost.status.tolist() == [IKStatus.INVALID]
    assert np.abs(lost.joint_qd - last.joint_qd).max() <= 10.0 * 1e-3 * (1 + 1e-9)
    controller.reset(HOME, 0.3)
    lost = controller.step(joint_q=np.full(7, np.nan))
    np.testing.assert_allclose(lost.joint_qd, 0.3 - 10.0 * 1e-3, rtol=1e-9)  # from the speed that reset has told


def test_nothing_is_written_that_has_yet_to_be_copied(device, panda):
    """A tick whose deadline has passed is cut: what says so is copied before it is taken back."""
    controller = device.controller(panda, [LINK])
    controller.reset(HOME)
    target = pose_of(panda, HOME, LINK, 0.5)
    for _ in range(3):
        result = controller.step(target, dt=0.05, deadline_ns=0)
        assert (result.status.tolist(), result.iterations.tolist()) == ([IKStatus.DEADLINE], [[2]])
    assert controller.step(target, dt=0.05).status[0] != IKStatus.DEADLINE


@pytest.mark.parametrize("launches", [4, 5, 6, 7])
def test_a_tick_on_a_late_device_ends_by_its_deadline(device, panda, launches):
    """An iteration takes as long as the device works on it, not as long as telling it."""
    controller = device.controller(panda, [LINK], limits=ControlLimits(velocity=1e6))
    far = np.array([-0.5, 0.3, 0.4, 0.0, 1.0, 0.0, 0.0])
    for _ in range(2):  # what an iteration and an answer take is known by then
        controller.reset(HOME)
        controller.step(far, deadline_ns=device.now + 3 * WORK_NS)
    controller.reset(HOME)
    begun = device.now
    result = controller.step(far, deadline_ns=begun + launches * WORK_NS + 1)
    assert result.status.tolist() == [IKStatus.DEADLINE]
    assert device.now - begun == launches * WORK_NS
    assert result.iterations.tolist() == [[launches]]  # the first launch makes two steps, the last writes the answer


def test_a_device_that_records_graphs_is_locked_while_a_tick_works_on_it(device, panda):
    controller = device.controller(panda, [LINK])
    controller.reset(HOME)
    for deadline in (None, 0):
        controller.step(pose_of(panda, HOME, LINK), deadline_ns=deadline)
    assert len(device.holders) > 10
    assert all(device.holders)


def test_ticks_on_a_cpu_wait_for_nobody(panda):
    """A loop in real time does not stand still while a solver compiles or records."""
    controller = begun(panda, [LINK], HOME)
    held, done = threading.Event(), threading.Event()

    def hold():
        with device_lock.DEVICE_LOCK:
            held.set()
            done.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    try:
        result = controller.step(pose_of(panda, HOME, LINK))
    finally:
        done.set()
        holder.join()
    assert result.success.all()
