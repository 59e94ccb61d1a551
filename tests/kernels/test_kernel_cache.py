"""The kernel cache: what fills it, who may share it, and what becomes of a cache that is damaged or read-only."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import warp as wp

from ik_service.cli.warmup_command import compiled_objects
from ik_service.compiler import cpu_target
from ik_service.compiler.code.lanes import TARGETS
from tests.fork_server import fork_server
from tests.kept_code import kept_folder
from tests.kernels.cache_processes import COUNT, IMPORTS, SOLVES, Processes

MODULES = 4  # islands, what follows them, clearances
FAILS = """
try:
    solve()
except ik_service.KernelCacheError as error:
    report(error=str(error))
"""
WARMUP = """
import os, pathlib
from ik_service.cli import main
from tests.kept_code import code_is_kept
with code_is_kept(lambda: pathlib.Path(os.environ["KEPT"]), kernels=True):
    main()
"""
STAGED = "import ik_service.solver; make = ik_service.IKSolver\n" + FAILS.replace(
    "solve()", 'make(panda, ["panda_hand"], device="cpu", engine="staged").solve(*wanted)'
)


def files(cache):
    return sorted(path for path in cache.rglob("*") if path.is_file())


def objects(cache):
    return [path for path in files(cache) if path.suffix == ".o"]


def packet(cache):
    """The object of the islands."""
    return next(cache.glob("*/wp_packet*/*.o"))


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A cache that `ik-service warmup panda` has filled, and what it printed."""
    cache = tmp_path_factory.mktemp("filled")
    command = [sys.executable, "-c", WARMUP, "warmup", "panda", "--device", "cpu", "--json"]
    environment = os.environ | {"WARP_CACHE_PATH": str(cache), "KEPT": str(kept_folder())}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return cache, json.loads(done.stdout)


@pytest.fixture
def cache(filled, tmp_path):
    """A copy of it."""
    return shutil.copytree(filled[0], tmp_path / "cache")


@pytest.fixture
def read_only(tmp_path):
    """Takes the right to write from a folder and all in it, for as long as the test runs."""

    def close(folder):
        for path in [folder, *folder.rglob("*")]:
            path.chmod(0o555 if path.is_dir() else 0o444)
        return folder

    yield close
    for path in [tmp_path, *tmp_path.rglob("*")]:
        path.chmod(0o755)


def test_warmup_tells_what_it_compiled_and_nothing_is_compiled_after_it(run, filled, cache, read_only):
    (panda,) = filled[1]["robots"]
    assert {name: panda[name] for name in ("robot", "links", "engine", "compiled")} == {
        "robot": "panda",
        "links": ["panda_hand"],
        "engine": "compiled",
        "compiled": len(objects(cache)),
    }
    assert panda["compiled"] == MODULES
    before = files(cache)
    for prepared in (lambda folder: folder, read_only):
        found = run(SOLVES, prepared(cache))
        assert (found["compiled"], found["solved"]) == (0, COUNT)
        assert files(cache) == before


def test_data_compile_nothing_and_other_rows_do(run, cache):
    found = run(
        """
import dataclasses
from ik_service import SolverOptions, Target
lower, upper = 0.9 * panda.joint_limit_lower, 0.9 * panda.joint_limit_upper
data = [
    lambda: solve(given=(wanted[0] + 0.01, wanted[1])),
    lambda: solve(targets=[Target("panda_hand", row_weights=[1, 2, 3, 1, 1, 0.5])]),
    lambda: solve(options={"seeds": 3, "max_iterations": 7, "position_tolerance": 1e-4, "random_seed": 5}),
    lambda: solve(initial_joint_q=panda.mid_joint_q),
    lambda: solve(robot=dataclasses.replace(panda, joint_limit_lower=lower, joint_limit_upper=upper)),
]
counts = [counted(action)[0] for action in data]
rows = counted(lambda: solve(given=(wanted[0], None)))[0]
link = counted(lambda: solve(targets=["panda_link6"]))[0]
offsets = [Target("panda_hand", offset=(0, 0, z, 0, 0, 0, 1)) for z in (0.1, 0.2)]
report(data=counts, rows=rows, link=link, offsets=[counted(lambda: solve(targets=[one]))[0] for one in offsets])
""",
        cache,
    )
    assert found["data"] == [0] * 5
    assert (found["rows"], found["link"]) == (2, 1)  # the iteration and the kernel that calls it; one kernel
    assert found["offsets"] == [1, 0]


@pytest.mark.evidence
def test_processes_that_meet_in_an_empty_or_damaged_cache_all_solve(run, tmp_path):
    def solve_at_once():
        results = [run.finish(process) for process in [run.start(SOLVES, tmp_path) for _ in range(2)]]
        assert [result["solved"] for result in results] == [COUNT] * 2
        assert results[0]["joint_q"] == results[1]["joint_q"]
        assert len(objects(tmp_path)) == MODULES
        assert not [path for path in tmp_path.glob("*/*") if "_p" in path.name.rpartition("_")[0][-12:]]

    solve_at_once()
    for path in objects(tmp_path):
        path.write_bytes(path.read_bytes()[:1000])
    solve_at_once()


@pytest.mark.parametrize(
    ("spoil", "code", "words"),
    [
        (lambda cache: shutil.rmtree(packet(cache).parent), FAILS, ["ik-service warmup", "WARP_CACHE_PATH"]),
        (lambda cache: None, STAGED, ["ik-service warmup"]),
        (lambda cache: packet(cache).write_bytes(packet(cache).read_bytes()[:1000]), FAILS, []),
    ],
    ids=["lacks code", "lacks code of the staged engine", "damaged"],
)
def test_a_read_only_cache_that_has_not_what_is_needed_is_an_error(run, cache, read_only, spoil, code, words):
    spoil(cache)
    error = run(code, read_only(cache))["error"]
    for word in (str(cache), *words):
        assert word in error


@pytest.mark.parametrize("place", ["", "new/folder"])
def test_a_folder_in_which_no_cache_can_be_made_says_what_to_do(run, tmp_path, read_only, place):
    error = run(FAILS, read_only(tmp_path) / place)["error"]
    assert str(tmp_path / place) in error
    assert "WARP_CACHE_PATH" in error


@pytest.mark.evidence
def test_files_are_found_while_other_processes_make_and_remove_folders(tmp_path, monkeypatch):
    monkeypatch.setattr(wp.config, "kernel_cache_dir", str(tmp_path))
    kept, passing = tmp_path / "module" / "code.o", [tmp_path / f"module_p{k}_t1" for k in range(20)]
    kept.parent.mkdir()
    kept.touch()
    found, over = set(), threading.Event()

    def look():
        while not over.is_set():
            found.add(frozenset(compiled_objects()))

    with ThreadPoolExecutor(1) as executor:
        looking = executor.submit(look)
        for _ in range(100):
            for folder in passing:
                folder.mkdir()
            for folder in passing:
                folder.rmdir()
        over.set()
        looking.result()
    assert found == {frozenset([kept])}


def test_files_that_another_process_removes_are_compiled_again(run, tmp_path):
    found = run(
        """
from ik_service.kernels import kernel_loading
compiles, taken = kernel_loading.CachedModule.compile, []

def taken_away(module):
    compiles(module)
    if len(taken) < 2:
        taken.append(module.path.unlink())

kernel_loading.CachedModule.compile = taken_away
report(solved=int(solve().success.sum()), taken=len(taken))
""",
        tmp_path,
    )
    assert found == {"solved": COUNT, "taken": 2}


@pytest.mark.parametrize(
    ("kind", "suffix", "damage"),
    [
        ("packet", ".o", lambda content: b""),
        ("packet", ".o", lambda content: content[:64] + bytes(len(content) - 2064) + content[-2000:]),
        ("packet", ".sha256", None),
        ("ik_service_solve_io", ".sha256", None),
        ("packet", ".meta", lambda content: content[:5]),
    ],
    ids=["empty", "zeros within", "no checksum", "no checksum of what all share", "metadata"],
)
def test_what_is_damaged_is_compiled_anew(run, cache, kind, suffix, damage):
    (code,) = cache.glob(f"*/wp_{kind}*/*.o")
    (path,) = code.parent.glob(f"*{suffix}")
    before, size = code.stat().st_ino, code.stat().st_size
    content = path.read_bytes()
    path.unlink()
    if damage is not None:
        path.write_bytes(damage(content))
    assert run(SOLVES, cache)["solved"] == COUNT
    assert code.stat().st_ino != before
    assert code.stat().st_size == size
    said = code.with_name(f"{code.name}.sha256").read_text()
    assert said == hashlib.sha256(code.read_bytes()).hexdigest()
    json.loads(next(code.parent.glob("*.meta")).read_bytes())


@pytest.mark.evidence
def test_lower_targets_have_code_of_their_own_and_the_same_answers(run, cache):
    here = [target for target in TARGETS if target.machine == cpu_target().machine]
    below = here[here.index(cpu_target()) + 1 :]
    if not below:
        pytest.skip(f"{cpu_target().name}, this machine's target, is the lowest: none is below it to compile for.")
    before = len(objects(cache))
    found = run(SOLVES, cache)
    with fork_server(IMPORTS, IK_SERVICE_CPU_TARGET=below[0].name) as server:
        lower = Processes(server)(SOLVES, cache)
    assert lower["solved"] == COUNT
    if below[0].register == cpu_target().register:
        assert lower["joint_q"] == found["joint_q"]
    assert len(objects(cache)) == before + MODULES


REPLACED_LATER = """
solver = ik_service.IKSolver(panda, ["panda_hand"], device="cpu")
os.chmod(os.environ["REPLACED"], 0o666)
solve = lambda: solver.solve(*wanted)
"""


@pytest.mark.parametrize("is_later", [False, True])
def test_code_that_another_user_may_have_put_there_is_not_run(run, cache, is_later):
    path = packet(cache)
    path.chmod(0o644 if is_later else 0o666)
    error = run(REPLACED_LATER + FAILS if is_later else FAILS, cache, REPLACED=str(path))["error"]
    assert f"'{path}' can be written by every user" in error
    assert "WARP_CACHE_PATH" in error


def test_what_is_compiled_is_for_its_user_to_write_whatever_the_umask(run, tmp_path):
    found = run("os.umask(0o002)\n" + SOLVES, tmp_path)
    assert found["compiled"] == MODULES
    modes = {path.stat().st_mode & 0o022 for path in tmp_path.glob("*/**/*")}
    assert modes == {0}


@pytest.mark.evidence
def test_what_is_compiled_takes_the_place_of_what_was_used_longest_ago(run, cache):
    old = cache / wp.config.version / "wp_old_robot"
    old.mkdir()
    (old / "code.o").write_bytes(bytes(2_000_000))
    os.utime(old / "code.o", (0, 0))
    found = run(SOLVES, cache, IK_SERVICE_KERNEL_CACHE_MB="2")
    assert (found["compiled"], old.exists()) == (0, True)  # only who compiles removes
    shutil.rmtree(packet(cache).parent)
    found = run(SOLVES, cache, IK_SERVICE_KERNEL_CACHE_MB="2")
    assert (found["solved"], old.exists()) == (COUNT, False)
    assert len(objects(cache)) == MODULES
