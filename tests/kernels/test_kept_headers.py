"""Precompiled headers are kept with the kernel cache: who finds one, who makes one, and what a bad one does."""

import itertools
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import warp as wp

from ik_service.compiler import cpu_target
from ik_service.errors import KernelCacheError
from ik_service.kernels.kernel_cache import BOUND_VARIABLE, HEADERS, keep_bound
from ik_service.kernels.kernel_loading import BLOCK_DIM, CachedModule, header_at_hand

NUMBERS = itertools.count()


def new_module():
    """A module that has not been compiled, and what it is compiled with."""
    module = wp.Module(f"tests_of_headers_{next(NUMBERS)}")
    module.options["cpu_compiler_flags"] = cpu_target().flags

    @wp.kernel(module=module)
    def double(numbers: wp.array(dtype=float)):
        numbers[wp.tid()] *= 2.0

    return CachedModule(module, BLOCK_DIM, device=wp.get_device("cpu")), module.resolved_options[BLOCK_DIM]


def compiles_with_header(**changed):
    """Compile a module in a new thread, as another process would; return whether it used a precompiled header."""
    one, options = new_module()
    options |= changed
    with ThreadPoolExecutor(1) as executor:
        executor.submit(one.compile).result()
    assert one.is_whole()
    return options["use_precompiled_headers"]


def headers(cache):
    return sorted(cache.glob(f"{HEADERS}/*/*.pch"))


@pytest.mark.evidence
def test_the_first_module_makes_a_header_for_its_options_and_the_next_finds_it(cache, monkeypatch):
    assert compiles_with_header()
    (header,) = headers(cache)
    made = header.stat().st_ino
    assert compiles_with_header()
    assert [header] == headers(cache)
    assert header.stat().st_ino == made
    compiles_with_header(fuse_fp=False)
    assert len(headers(cache)) == 2
    monkeypatch.setenv(BOUND_VARIABLE, "1")
    keep_bound()
    assert headers(cache) == []


@pytest.mark.evidence
def test_while_one_thread_makes_a_header_others_do_without(cache):
    _, options = new_module()
    with header_at_hand(options):
        assert options["use_precompiled_headers"]
        assert not compiles_with_header()
    assert headers(cache) == []  # the one that was to make it has compiled nothing
    assert compiles_with_header()


@pytest.mark.evidence
def test_a_damaged_header_is_made_anew(cache):
    assert compiles_with_header()
    (header,) = headers(cache)
    whole = header.stat().st_size
    for left in (0, 9000):
        header.write_bytes(header.read_bytes()[:left])
        assert compiles_with_header()
        assert abs(header.stat().st_size - whole) < 1000  # it has times in it, which are packed


def test_a_header_that_others_may_have_written_is_refused(cache):
    assert compiles_with_header()
    (header,) = headers(cache)
    header.chmod(0o666)
    with pytest.raises(KernelCacheError, match="can be written by every user"):
        compiles_with_header()


def test_the_folder_that_warp_remembers_for_a_thread_may_be_gone(cache):
    folder = wp._src.context.runtime.get_clang_pch_dir()
    one, _ = new_module()
    shutil.rmtree(folder)  # as programs that tidy up /tmp do, or a child process that ends
    one.compile()
    assert one.is_whole()
    assert len(headers(cache)) == 1
    assert wp._src.context.runtime.get_clang_pch_dir() == folder  # what Warp itself needs is left to it


def test_a_header_that_is_not_whole_is_not_kept(cache):
    _, options = new_module()
    with header_at_hand(options):
        Path(wp._src.context.runtime.get_clang_pch_dir(), "builtin-1234.pch.tmp").write_bytes(b"begun")
    assert not any(path.is_file() for path in cache.rglob("*"))
