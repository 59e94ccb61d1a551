"""The process that compiles: it does the least that is needed, holds nobody up, and does not outlive its parent."""

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import warp as wp

from ik_service.errors import KernelCacheError
from ik_service.kernels import kernel_cache
from ik_service.service.pool import builder_process, kernel_builder
from ik_service.service.pool.builder_process import OUTPUT_CHARACTERS_MAX, BuilderProcess, BuildFailedError, fill_caches
from ik_service.service.pool.kernel_builder import RESTARTS_MOST, BuildEnd, KernelBuilder
from ik_service.service.pool.solver_cache import SolverCache
from ik_service.service.pool.solver_pool import SolverPool
from tests.bounded import PATIENCE_S, until
from tests.service.pool.conftest import numbered

COMPILED, FAILED, ABANDONED = BuildEnd.COMPILED, BuildEnd.FAILED, BuildEnd.ABANDONED
PROGRAM = """
import os, signal
from contextlib import suppress
from ik_service.service.pool.builder_process import BuilderProcess, BuildFailedError

process = BuilderProcess("cpu")
process.begin(None, None, None)
with suppress(BuildFailedError):
    assert process.is_finished(100)
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
    """Builds nothing, and ends when it is told to; one that hangs says so of itself, and what it cannot compile."""

    made: ClassVar[list] = []  # emptied by the fixture
    faulty: tuple = ()  # links

    def __init__(self, device, *, yields=False):
        self.begun, self.marks, self.killed, self.hangs, self.dies = [], [], False, True, False
        self.made.append(self)

    def begin(self, robot, sample, mark):
        self.begun.append(sample)
        self.marks.append(mark)

    def is_finished(self, patience_s):
        time.sleep(0.01)
        if self.dies:
            raise EOFError
        if not self.hangs and self.begun[-1].targets[0].link in self.faulty:
            raise BuildFailedError("Exception: CPU kernel build failed (18361 lines from the compiler)")
        return not self.hangs

    def kill(self):
        self.killed = True


@pytest.fixture
def processes(monkeypatch):
    FakeProcess.made.clear()
    monkeypatch.setattr(kernel_builder, "BuilderProcess", FakeProcess)
    return FakeProcess.made


@pytest.fixture
def builder(processes, request):
    made = KernelBuilder("cpu", **getattr(request, "param", {}))
    yield made
    made.close()


SHORT_TURNS = pytest.mark.parametrize("builder", [{"turn_s": 0.05}], indirect=True)


@pytest.fixture
def no_marks(tmp_path, monkeypatch):
    """Nothing is marked as compiled, whatever earlier runs have marked."""
    monkeypatch.setattr(kernel_cache, "MARKS", str(tmp_path))


@pytest.fixture
def fills(monkeypatch):
    """Has the process that compiles run another function."""
    return lambda function: monkeypatch.setattr(builder_process, "fill_caches", function)


class Asked:
    """What became of a build."""

    def __init__(self, owner=None):
        self.owners, self.was_looked_at, self.ended = {owner}, threading.Event(), threading.Event()
        self.how = None

    def done(self, how):
        self.how = how
        self.ended.set()

    def wanted(self):
        self.was_looked_at.set()
        return self.owners


def ends(*asked):
    """The ways in which builds have ended."""
    for one in asked:
        assert one.ended.wait(PATIENCE_S)
    return [one.how for one in asked]


def begun(processes, number=0):
    """A process once it has something to compile."""
    until(lambda: len(processes) > number and processes[number].begun)
    return processes[number]


@pytest.fixture
def ask(panda, no_marks):
    def ask(builder, link="panda_link3", *, owner=None, patterns=1):
        asked = Asked(owner)
        weights = np.ones((100, 6))
        weights[np.arange(100) % patterns > 0] = 0.0
        for k in range(1, patterns):
            weights[k::patterns, k - 1] = 1.0
        builder.build(panda, numbered(0, 100, link=link, weights=weights), asked.done, asked.wanted, owner=owner)
        return asked

    return ask


def test_what_nobody_waits_for_any_more_is_not_begun(processes, builder, ask):
    first = ask(builder)
    process = begun(processes)
    others = [ask(builder, link) for link in ("panda_link4", "panda_link5")]
    others[0].owners = set()
    process.hangs = False
    assert ends(first, *others) == [COMPILED, ABANDONED, COMPILED]
    assert made_by(process) == [("link3", 1), ("link5", 1)]
    until(lambda: process.killed)  # nothing is left for it


@SHORT_TURNS
@pytest.mark.parametrize("others", [True, False])
def test_one_that_outstays_its_turn_is_ended_once_others_or_nobody_wait(processes, builder, ask, others):
    hanging = ask(builder)
    process = begun(processes)
    time.sleep(0.1)
    assert not process.killed  # nobody else wants the process, and somebody waits for this
    if not others:
        hanging.owners = set()
    other = ask(builder, "panda_link4") if others else None
    assert ends(hanging) == [ABANDONED]
    assert process.killed
    if others:
        begun(processes, 1).hangs = False
        assert ends(other) == [COMPILED]


def made_by(process):
    """Links and numbers of problems of what has been begun."""
    return [(sample.targets[0].link.removeprefix("panda_"), sample.problem_count) for sample in process.begun]


def test_owners_have_their_turn_after_each_step_of_another_and_so_have_builds_of_one_owner(processes, builder, ask):
    asked = [ask(builder, "panda_link3", owner="hog", patterns=4)]
    process = begun(processes)
    asked += [ask(builder, link, owner="hog", patterns=3) for link in ("panda_link4", "panda_link5")]
    asked += [ask(builder, link, owner="calm") for link in ("panda_link6", "panda_link7")]
    process.hangs = False
    assert ends(*asked) == [COMPILED] * 5
    order, last = made_by(process), [("link3", 4), ("link4", 3), ("link5", 3), ("link6", 1), ("link7", 1)]
    assert order[:6] == [("link3", 1), ("link6", 1), ("link4", 1), ("link7", 1), ("link5", 1), ("link3", 1)]
    assert sorted(order) == sorted([("link3", 1)] * 4 + [("link4", 1), ("link5", 1)] * 3 + last)
    marked = [each for each, mark in zip(order, process.marks, strict=True) if mark is not None]
    assert sorted(marked) == last  # once all is there


def test_what_several_owners_want_is_built_at_the_turn_of_each(processes, builder, ask):
    first = ask(builder, "panda_link3", owner="hog")
    process = begun(processes)
    asked = [ask(builder, link, owner="hog") for link in ("panda_link4", "panda_link5")]
    asked[1].owners = {"hog", "calm"}
    process.hangs = False
    ends(first, *asked)
    assert [link for link, _ in made_by(process)] == ["link3", "link5", "link4"]


def test_how_long_it_takes_is_told_by_the_steps_of_an_owner_and_as_many_of_each_other(processes, builder, ask):
    step = builder.seconds_left("calm")  # of who has asked for nothing, or for what others have asked for too
    assert step > 0.0
    ask(builder, "panda_link3", owner="hog", patterns=4)
    begun(processes)
    assert builder.seconds_left("hog") == pytest.approx(5 * step)
    ask(builder, "panda_link4", owner="calm")
    ask(builder, "panda_link5", owner="other")
    assert builder.seconds_left("calm") == pytest.approx(3 * step)
    assert builder.seconds_left("hog") == pytest.approx(7 * step)


def test_what_cannot_be_compiled_fails_and_others_go_on_in_the_same_process(
    processes, builder, ask, monkeypatch, caplog
):
    monkeypatch.setattr(FakeProcess, "faulty", ("panda_link3",))
    faulty, good = ask(builder, "panda_link3", patterns=4), ask(builder, "panda_link4")
    process = begun(processes)
    process.hangs = False
    assert ends(faulty, good) == [FAILED, COMPILED]
    assert made_by(process) == [("link3", 1), ("link4", 1)]
    assert len(processes) == 1
    (told,) = [record.getMessage() for record in caplog.records if "cannot be compiled" in record.getMessage()]
    assert "18361 lines" in told


def complain(*_):
    """What a compiler does with code that it refuses: native code writes to the descriptor."""
    for _ in range(5000):
        os.write(2, b"error: use of undeclared identifier 'inff'\n")
    unfinished = Path(str(wp.config.kernel_cache_dir), f"wp_bad_1234567_p{os.getpid()}_t{threading.get_ident()}")
    unfinished.mkdir()
    (unfinished / "wp_bad.cpp").write_text("inff")
    raise RuntimeError("CPU kernel build failed with error code 1")


def complaining(*given):
    """The process that compiles, with a compiler that refuses all."""
    SolverCache.solve = complain
    fill_caches(*given)


def test_what_a_compiler_says_is_one_short_line_and_nothing_is_left_in_the_cache(panda, fills, tmp_path, capfd):
    fills(complaining)
    wp.init()  # says where the cache is
    folder = Path(str(wp.config.kernel_cache_dir))
    others = folder / f"wp_bad_1234567_p{os.getpid()}_t1"  # of a process that goes on
    others.mkdir(parents=True)
    process = BuilderProcess("cpu")
    try:
        process.begin(panda, numbered(0, 1), tmp_path / "mark")
        told = r"build failed .*'inff'.*\(5000 lines from the compiler\)"
        with pytest.raises(BuildFailedError, match=told) as caught:
            until(lambda: process.is_finished(1.0))
        assert others.exists()
        assert not list(folder.glob(f"wp_bad_*_p{process._process.pid}_*"))
        assert len(str(caught.value)) < 2 * OUTPUT_CHARACTERS_MAX
        assert not (tmp_path / "mark").exists()
    finally:
        process.kill()
        others.rmdir()
    assert "inff" not in "".join(capfd.readouterr())


def stuck(connection, *_):
    """The process that compiles, in the midst of it for ever."""
    connection.recv()
    wp.init()  # says where the cache is
    Path(str(wp.config.kernel_cache_dir), f"wp_stuck_p{os.getpid()}_t5").mkdir()
    hang()


def test_what_a_process_has_left_half_done_goes_with_it(panda, fills):
    fills(stuck)
    wp.init()  # says where the cache is
    folder = Path(str(wp.config.kernel_cache_dir))
    folder.mkdir(parents=True, exist_ok=True)
    process = BuilderProcess("cpu")
    left = f"wp_stuck_p{process._process.pid}_*"
    process.begin(panda, numbered(0, 1), None)
    until(lambda: list(folder.glob(left)))
    process.kill()
    assert not list(folder.glob(left))


def test_closing_ends_what_is_being_compiled(processes, builder, ask):
    asked = ask(builder), ask(builder, "panda_link4")
    begun(processes)
    builder.close()
    assert processes[0].killed
    assert not any(one.ended.is_set() for one in asked)


def hang(*_):
    time.sleep(3600)


def test_a_process_that_could_not_start_is_forgotten(processes, builder, ask, monkeypatch, caplog):
    def refuses(device):
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(kernel_builder, "BuilderProcess", refuses)
        assert ends(ask(builder)) == [FAILED]
    assert caplog.text.count("has died") == 1 + RESTARTS_MOST
    second = ask(builder)
    begun(processes).hangs = False
    assert ends(second) == [COMPILED]


def refused_twice(panda, monkeypatch, error):
    """Assert that a pool refuses two groups of the same code, and that its own thread compiles nothing."""
    monkeypatch.setattr(SolverCache, "solve_together", lambda *_: pytest.fail("the solver's thread has compiled"))
    pool = SolverPool("cpu")
    try:
        for seeds in (4, 5):
            with pytest.raises(error):
                pool.submit(panda, numbered(0, 1, link="panda_link5", seeds=seeds)).result(PATIENCE_S)
    finally:
        pool.close()


def test_a_new_process_goes_on_where_one_has_died(processes, builder, ask):
    asked = ask(builder, patterns=2)
    for k in range(RESTARTS_MOST):
        begun(processes, k).dies = True
    begun(processes, RESTARTS_MOST).hangs = False
    assert ends(asked) == [COMPILED]
    until(lambda: all(one.killed for one in processes))


def unwritable(*given):
    """The process that compiles, on a disk without room."""
    SolverCache.solve = run_out_of_room
    fill_caches(*given)


def run_out_of_room(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.usefixtures("no_marks")
def test_kernels_that_the_cache_does_not_take_are_not_compiled_by_the_solver_nor_again(
    panda, fills, monkeypatch, caplog
):
    fills(unwritable)
    refused_twice(panda, monkeypatch, KernelCacheError)
    assert caplog.text.count("cannot be kept. [Errno 28]") == 1


@pytest.mark.usefixtures("no_marks")
def test_kernels_that_are_marked_as_there_need_no_process(panda, tmp_path, monkeypatch):
    builder, compiled, at_once = KernelBuilder("cpu"), Asked(), Asked()
    builder.build(panda, numbered(0, 1, link="panda_link5"), compiled.done)
    ends(compiled)
    builder.close()
    assert len(list(tmp_path.iterdir())) == 1
    builder = KernelBuilder("cpu")
    monkeypatch.setattr(threading.Thread, "start", None)  # from here on none can be made
    builder.build(panda, numbered(5, 3, link="panda_link5", seeds=7), at_once.done)
    assert at_once.how is COMPILED
    with pytest.raises(TypeError):
        builder.build(panda, numbered(5, 3, link="panda_link6"), at_once.done)  # of these there is no mark
