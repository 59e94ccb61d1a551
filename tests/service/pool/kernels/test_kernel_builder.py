"""The process that compiles: it does the least that is needed, holds nobody up, and does not outlive its parent."""

import errno
import os
import threading
import time
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import warp as wp

from ik_service.errors import KernelCacheError
from ik_service.service.pool import kernel_builder, kernel_marks
from ik_service.service.pool.build import BuildEnd
from ik_service.service.pool.builder_process import OUTPUT_CHARACTERS_MAX, BuilderProcess, BuildFailedError, fill_caches
from ik_service.service.pool.kernel_builder import RESTARTS_MOST, KernelBuilder
from ik_service.service.pool.solver_cache import SolverCache
from ik_service.service.pool.solver_pool import SolverPool
from ik_service.service.queue.errors import CompileFailedError
from ik_service.service.queue.solve_request import SolveRequest
from ik_service.solver.given.batch import Batch
from ik_service.solver.given.targets import Target
from tests.bounded import until
from tests.service.pool.conftest import numbered

PATIENCE = 60


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


class Asked:
    """What became of a build."""

    def __init__(self):
        self.owners, self.was_looked_at, self.ended = {None}, threading.Event(), threading.Event()
        self.how = None

    def done(self, how):
        self.how = how
        self.ended.set()

    def wanted(self):
        self.was_looked_at.set()
        return self.owners


@pytest.fixture
def ask(panda, tmp_path, monkeypatch):
    monkeypatch.setattr(kernel_marks, "MARKS", str(tmp_path))

    def ask(builder, link="panda_link3", *, owner=None, patterns=1):
        asked = Asked()
        asked.owners = {owner}
        weights = np.ones((100, 6))
        weights[np.arange(100) % patterns > 0] = 0.0
        for k in range(1, patterns):
            weights[k::patterns, k - 1] = 1.0
        builder.build(panda, numbered(0, 100, link=link, weights=weights), asked.done, asked.wanted, owner=owner)
        return asked

    return ask


def test_what_nobody_waits_for_any_more_is_not_begun(processes, ask):
    builder = KernelBuilder("cpu")
    first = ask(builder)
    until(lambda: processes and processes[0].begun)
    others = [ask(builder, link) for link in ("panda_link4", "panda_link5")]
    others[0].owners = set()
    processes[0].hangs = False
    for one in (first, *others):
        assert one.ended.wait(PATIENCE)
    assert [one.how for one in (first, *others)] == [BuildEnd.COMPILED, BuildEnd.ABANDONED, BuildEnd.COMPILED]
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
    assert (hanging.how, processes[0].killed) == (BuildEnd.ABANDONED, True)
    until(lambda: len(processes) == 2)
    processes[1].hangs = False
    assert other.ended.wait(PATIENCE)
    assert other.how is BuildEnd.COMPILED
    builder.close()


def test_one_that_outstays_its_turn_is_ended_once_nobody_waits(processes, ask):
    builder = KernelBuilder("cpu", turn_s=0.05)
    hanging = ask(builder)
    until(lambda: processes and processes[0].begun)
    hanging.owners = set()
    assert hanging.ended.wait(PATIENCE)
    assert (hanging.how, processes[0].killed) == (BuildEnd.ABANDONED, True)
    builder.close()


def made_by(process):
    """What has been begun: link and number of problems."""
    return [(sample.targets[0].link.removeprefix("panda_"), sample.problem_count) for sample in process.begun]


def test_owners_have_their_turn_after_each_step_of_another_and_so_have_builds_of_one_owner(processes, ask):
    builder = KernelBuilder("cpu")
    asked = [ask(builder, "panda_link3", owner="hog", patterns=4)]
    until(lambda: processes and processes[0].begun)
    asked += [ask(builder, link, owner="hog", patterns=3) for link in ("panda_link4", "panda_link5")]
    asked += [ask(builder, link, owner="calm") for link in ("panda_link6", "panda_link7")]
    processes[0].hangs = False
    for one in asked:
        assert one.ended.wait(PATIENCE)
    builder.close()
    order = made_by(processes[0])
    assert order[:6] == [("link3", 1), ("link6", 1), ("link4", 1), ("link7", 1), ("link5", 1), ("link3", 1)]
    assert sorted(order) == sorted(
        [("link3", 1)] * 4
        + [("link3", 4)]
        + [("link4", 1), ("link5", 1)] * 3
        + [("link4", 3), ("link5", 3)]
        + [("link6", 1), ("link7", 1)]
    )
    assert [one.how for one in asked] == [BuildEnd.COMPILED] * 5
    marked = [each for each, mark in zip(order, processes[0].marks, strict=True) if mark is not None]
    assert sorted(marked) == [("link3", 4), ("link4", 3), ("link5", 3), ("link6", 1), ("link7", 1)]  # once all is there


def test_what_several_owners_want_is_built_at_the_turn_of_each(processes, ask):
    builder = KernelBuilder("cpu")
    first = ask(builder, "panda_link3", owner="hog")
    until(lambda: processes and processes[0].begun)
    asked = [ask(builder, link, owner="hog") for link in ("panda_link4", "panda_link5")]
    asked[1].owners = {"hog", "calm"}
    processes[0].hangs = False
    for one in (first, *asked):
        assert one.ended.wait(PATIENCE)
    builder.close()
    assert [link for link, _ in made_by(processes[0])] == ["link3", "link5", "link4"]


def test_how_long_it_takes_is_told_by_the_steps_of_an_owner_and_as_many_of_each_other(processes, ask):
    builder = KernelBuilder("cpu")
    step = builder.seconds_left("calm")  # of who has asked for nothing, or for what others have asked for too
    assert step > 0.0
    ask(builder, "panda_link3", owner="hog", patterns=4)
    until(lambda: processes and processes[0].begun)
    assert builder.seconds_left("hog") == pytest.approx(5 * step)
    ask(builder, "panda_link4", owner="calm")
    ask(builder, "panda_link5", owner="other")
    assert builder.seconds_left("calm") == pytest.approx(3 * step)
    assert builder.seconds_left("hog") == pytest.approx(7 * step)
    builder.close()


def test_what_cannot_be_compiled_ends_as_such_and_others_go_on_in_the_same_process(processes, ask, monkeypatch, caplog):
    monkeypatch.setattr(FakeProcess, "faulty", ("panda_link3",))
    builder = KernelBuilder("cpu")
    faulty, good = ask(builder, "panda_link3", patterns=4), ask(builder, "panda_link4")
    until(lambda: processes and processes[0].begun)
    processes[0].hangs = False
    for one in (faulty, good):
        assert one.ended.wait(PATIENCE)
    builder.close()
    assert [faulty.how, good.how] == [BuildEnd.FAILED, BuildEnd.COMPILED]
    assert made_by(processes[0]) == [("link3", 1), ("link4", 1)]
    assert len(processes) == 1
    told = [record.getMessage() for record in caplog.records if "cannot be compiled" in record.getMessage()]
    assert len(told) == 1
    assert "18361 lines" in told[0]


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


def test_what_a_compiler_says_is_one_short_line_and_nothing_is_left_in_the_cache(panda, monkeypatch, tmp_path, capfd):
    monkeypatch.setattr("ik_service.service.pool.builder_process.fill_caches", complaining)
    wp.init()  # says where the cache is
    folder = Path(str(wp.config.kernel_cache_dir))
    others = folder / f"wp_bad_1234567_p{os.getpid()}_t1"  # of a process that goes on
    others.mkdir(parents=True)
    process = BuilderProcess("cpu")
    try:
        process.begin(panda, numbered(0, 1), tmp_path / "mark")
        with pytest.raises(
            BuildFailedError, match=r"build failed .*'inff'.*\(5000 lines from the compiler\)"
        ) as caught:
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
    time.sleep(3600)


def test_what_a_process_has_left_half_done_goes_with_it(panda, monkeypatch):
    monkeypatch.setattr("ik_service.service.pool.builder_process.fill_caches", stuck)
    wp.init()  # says where the cache is
    folder = Path(str(wp.config.kernel_cache_dir))
    folder.mkdir(parents=True, exist_ok=True)
    process = BuilderProcess("cpu")
    left = f"wp_stuck_p{process._process.pid}_*"
    process.begin(panda, numbered(0, 1), None)
    until(lambda: list(folder.glob(left)))
    process.kill()
    assert not list(folder.glob(left))


def test_closing_ends_what_is_being_compiled(processes, ask):
    builder = KernelBuilder("cpu")
    hanging, waiting = ask(builder), ask(builder, "panda_link4")
    until(lambda: processes and processes[0].begun)
    builder.close()
    assert processes[0].killed
    assert not hanging.ended.is_set()
    assert not waiting.ended.is_set()


def test_a_process_that_hangs_is_killed(ask, monkeypatch):
    monkeypatch.setattr("ik_service.service.pool.builder_process.fill_caches", hang)
    builder = KernelBuilder("cpu", turn_s=0.05)
    hanging = ask(builder)
    assert hanging.was_looked_at.wait(PATIENCE)
    hanging.owners = set()
    assert hanging.ended.wait(PATIENCE)
    assert hanging.how is BuildEnd.ABANDONED
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
    assert first.how is BuildEnd.FAILED
    assert caplog.text.count("has died") == 1 + RESTARTS_MOST
    monkeypatch.setattr(kernel_builder, "BuilderProcess", FakeProcess)
    second = ask(builder)
    until(lambda: processes)
    processes[0].hangs = False
    assert second.ended.wait(PATIENCE)
    assert second.how is BuildEnd.COMPILED
    builder.close()


@pytest.mark.evidence
def test_code_of_which_processes_die_is_compiled_by_nobody_else(panda, monkeypatch, caplog):
    monkeypatch.setattr("ik_service.service.pool.builder_process.fill_caches", die)
    poses = panda.forward_kinematics(panda.mid_joint_q, links=["panda_link4"])
    request = SolveRequest((Target("panda_link4"),), Batch.of([poses.positions[0]], [poses.orientations_xyzw[0]]))
    monkeypatch.setattr(SolverCache, "solve_together", lambda *_: pytest.fail("the solver's thread has compiled"))
    pool = SolverPool("cpu")
    try:
        for _ in range(2):
            with pytest.raises(CompileFailedError):
                pool.submit(panda, request).result(PATIENCE)
    finally:
        pool.close()
    assert caplog.text.count("has died") == 1 + RESTARTS_MOST


def die(*_):
    os._exit(1)


def test_a_new_process_goes_on_where_one_has_died(processes, ask):
    builder = KernelBuilder("cpu")
    asked = ask(builder, patterns=2)
    for k in range(RESTARTS_MOST):
        until(lambda k=k: len(processes) == k + 1 and processes[k].begun)
        processes[k].dies = True
    until(lambda: len(processes) == 1 + RESTARTS_MOST)
    processes[-1].hangs = False
    assert asked.ended.wait(PATIENCE)
    builder.close()
    assert asked.how is BuildEnd.COMPILED
    assert all(one.killed for one in processes)


def unwritable(*given):
    """The process that compiles, on a disk without room."""
    SolverCache.solve = run_out_of_room
    fill_caches(*given)


def run_out_of_room(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_kernels_that_the_cache_does_not_take_are_not_compiled_by_the_solver_nor_at_once_again(
    panda, monkeypatch, caplog, tmp_path
):
    monkeypatch.setattr(kernel_marks, "MARKS", str(tmp_path))  # else an earlier run has marked them as there
    monkeypatch.setattr("ik_service.service.pool.builder_process.fill_caches", unwritable)
    monkeypatch.setattr(SolverCache, "solve_together", lambda *_: pytest.fail("the solver's thread has compiled"))
    pool = SolverPool("cpu")
    try:
        for seeds in (4, 5):  # another group of the same code
            with pytest.raises(KernelCacheError):
                pool.submit(panda, numbered(0, 1, link="panda_link5", seeds=seeds)).result(PATIENCE)
    finally:
        pool.close()
    assert caplog.text.count("cannot be kept. [Errno 28]") == 1


def test_kernels_that_are_marked_as_there_need_no_process(panda, tmp_path, monkeypatch):
    monkeypatch.setattr(kernel_marks, "MARKS", str(tmp_path))
    builder, compiled = KernelBuilder("cpu"), Asked()
    builder.build(panda, numbered(0, 1, link="panda_link5"), compiled.done)
    assert compiled.ended.wait(PATIENCE)
    builder.close()
    assert len(list(tmp_path.iterdir())) == 1

    builder, at_once = KernelBuilder("cpu"), Asked()
    monkeypatch.setattr(threading.Thread, "start", None)  # from here on none can be made
    builder.build(panda, numbered(5, 3, link="panda_link5", seeds=7), at_once.done)
    assert at_once.how is BuildEnd.COMPILED
    with pytest.raises(TypeError):
        builder.build(panda, numbered(5, 3, link="panda_link6"), at_once.done)  # of these there is no mark
