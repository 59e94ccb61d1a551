"""The process that compiles: it does the least that is needed, holds nobody up, and does not outlive its parent."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from ik_service.batching import kernel_builder
from ik_service.batching.kernel_builder import KernelBuilder
from ik_service.batching.request import SolveRequest, TargetColumns
from ik_service.batching.solver_pool import SolverPool
from tests.batching.conftest import numbered

PATIENCE = 60
PROGRAM = """
import os, signal
from ik_service.batching.builder_process import BuilderProcess

process = BuilderProcess("cpu")
process.begin(None, None, None)
assert process.has_ended_one(100)
print(process._process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_it_ends_with_its_parent_however_that_ends():
    # The output is complete only once the last process that may write to it has ended.
    command = [sys.executable, "-c", PROGRAM]
    ended = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=120)
    assert ended.returncode == -signal.SIGKILL
    assert int(ended.stdout.splitlines()[-1]) > 0


class FakeProcess:
    """Builds nothing, and ends when it is told to; one that hangs says so of itself."""

    made: list = []  # noqa: RUF012  # emptied by the fixture

    def __init__(self, device):
        self.begun, self.killed, self.hangs = [], False, True
        self.made.append(self)

    def begin(self, robot, sample, mark):
        self.begun.append(sample)

    def has_ended_one(self, patience_s):
        time.sleep(0.01)
        return not self.hangs

    def kill(self):
        self.killed = True


@pytest.fixture
def processes(monkeypatch):
    FakeProcess.made.clear()
    monkeypatch.setattr(kernel_builder, "BuilderProcess", FakeProcess)
    return FakeProcess.made


class Asked:
    """What became of a build."""

    def __init__(self):
        self.is_wanted, self.was_looked_at, self.ended = True, threading.Event(), threading.Event()
        self.is_there = None

    def done(self, is_there):
        self.is_there = is_there
        self.ended.set()

    def wanted(self):
        self.was_looked_at.set()
        return self.is_wanted


@pytest.fixture
def ask(panda, tmp_path, monkeypatch):
    monkeypatch.setattr(kernel_builder, "MARKS", str(tmp_path))

    def ask(builder, link="panda_link3"):
        asked = Asked()
        builder.build(panda, numbered(0, 100, link=link), asked.done, asked.wanted)
        return asked

    return ask


def until(condition):
    end = time.monotonic() + PATIENCE
    while not condition() and time.monotonic() < end:
        time.sleep(0.005)
    assert condition()


def test_what_nobody_waits_for_any_more_is_not_begun(processes, ask):
    builder = KernelBuilder("cpu")
    first = ask(builder)
    until(lambda: processes and processes[0].begun)
    others = [ask(builder, link) for link in ("panda_link4", "panda_link5")]
    others[0].is_wanted = False
    processes[0].hangs = False
    for one in (first, *others):
        assert one.ended.wait(PATIENCE)
    assert [one.is_there for one in (first, *others)] == [True, False, True]
    assert [sample.targets[0].link for sample in processes[0].begun] == ["panda_link3", "panda_link5"]
    until(lambda: processes[0].killed)  # nothing is left for it
    builder.close()


def test_one_that_outstays_its_turn_is_ended_and_others_go_on(processes, ask):
    builder = KernelBuilder("cpu", turn_s=0.05)
    hanging = ask(builder)
    until(lambda: processes and processes[0].begun)
    time.sleep(0.1)
    assert not processes[0].killed  # nobody else wants the process, and somebody waits for this
    other = ask(builder, "panda_link4")
    assert hanging.ended.wait(PATIENCE)
    assert (hanging.is_there, processes[0].killed) == (False, True)
    until(lambda: len(processes) == 2)
    processes[1].hangs = False
    assert other.ended.wait(PATIENCE)
    assert other.is_there
    builder.close()


def test_one_that_outstays_its_turn_is_ended_once_nobody_waits(processes, ask):
    builder = KernelBuilder("cpu", turn_s=0.05)
    hanging = ask(builder)
    until(lambda: processes and processes[0].begun)
    hanging.is_wanted = False
    assert hanging.ended.wait(PATIENCE)
    assert (hanging.is_there, processes[0].killed) == (False, True)
    builder.close()


def test_closing_ends_what_is_being_compiled(processes, ask):
    builder = KernelBuilder("cpu")
    hanging, waiting = ask(builder), ask(builder, "panda_link4")
    until(lambda: processes and processes[0].begun)
    builder.close()
    assert processes[0].killed
    assert not hanging.ended.is_set()
    assert not waiting.ended.is_set()


def test_a_process_that_hangs_is_killed(ask, monkeypatch):
    monkeypatch.setattr("ik_service.batching.builder_process.fill_caches", hang)
    builder = KernelBuilder("cpu", turn_s=0.05)
    hanging = ask(builder)
    assert hanging.was_looked_at.wait(PATIENCE)
    hanging.is_wanted = False
    assert hanging.ended.wait(PATIENCE)
    assert hanging.is_there is False
    builder.close()


def hang(*_):
    time.sleep(3600)


def test_a_process_that_could_not_start_is_forgotten(processes, ask, monkeypatch, caplog):
    def refuses(device):
        raise OSError(24, "Too many open files")

    builder = KernelBuilder("cpu")
    monkeypatch.setattr(kernel_builder, "BuilderProcess", refuses)
    first = ask(builder)
    assert first.ended.wait(PATIENCE)
    assert first.is_there  # for the solver, which compiles itself
    assert "the solver compiles itself" in caplog.text
    monkeypatch.setattr(kernel_builder, "BuilderProcess", FakeProcess)
    second = ask(builder)
    until(lambda: processes)
    processes[0].hangs = False
    assert second.ended.wait(PATIENCE)
    assert second.is_there
    builder.close()


def test_a_process_that_dies_leaves_the_work_to_the_solver(panda, monkeypatch, caplog):
    monkeypatch.setattr("ik_service.batching.builder_process.fill_caches", die)
    poses = panda.forward_kinematics(panda.mid_joint_q, links=["panda_link4"])
    request = SolveRequest((TargetColumns("panda_link4", poses.positions[0], poses.orientations_xyzw[0]),))
    pool = SolverPool("cpu")
    try:
        assert pool.submit(panda, request).result(PATIENCE).success.all()
    finally:
        pool.close()
    assert "has died" in caplog.text


def die(*_):
    os._exit(1)


def test_kernels_that_are_marked_as_there_need_no_process(panda, tmp_path, monkeypatch):
    monkeypatch.setattr(kernel_builder, "MARKS", str(tmp_path))
    builder, compiled = KernelBuilder("cpu"), Asked()
    builder.build(panda, numbered(0, 1, link="panda_link5"), compiled.done)
    assert compiled.ended.wait(PATIENCE)
    builder.close()
    assert len(list(tmp_path.iterdir())) == 1

    builder, at_once = KernelBuilder("cpu"), Asked()
    monkeypatch.setattr(threading.Thread, "start", None)  # from here on none can be made
    builder.build(panda, numbered(5, 3, link="panda_link5", seeds=7), at_once.done)
    assert at_once.is_there
    with pytest.raises(TypeError):
        builder.build(panda, numbered(5, 3, link="panda_link6"), at_once.done)  # of these there is no mark
