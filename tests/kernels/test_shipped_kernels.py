"""Kernels that came with an installation are found in another cache: linked, replaced where stale, never copied."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest
import warp as wp

from ik_service.kernels.shipped_kernels import SHIPPED_VARIABLE, link_kernels, use_shipped_kernels


@pytest.fixture
def shipped(tmp_path):
    folder = tmp_path / "shipped" / str(wp.config.version)
    for name in ("wp_a/a.o", "wp_a/a.meta", "wp_b/b.o", "marks/m"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return folder


@pytest.fixture
def cache(tmp_path):
    folder = tmp_path / "cache"
    folder.mkdir()
    return folder


def texts(folder):
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_every_file_is_linked_once(shipped, cache):
    assert link_kernels(shipped, cache) == 4
    assert texts(cache) == texts(shipped) != {}
    assert all(path.is_symlink() for path in cache.rglob("*") if not path.is_dir())
    assert link_kernels(shipped, cache) == 0


def test_what_the_cache_has_of_its_own_stays(shipped, cache):
    (cache / "wp_a").mkdir()
    (cache / "wp_a" / "a.o").write_text("own")
    link_kernels(shipped, cache)
    assert texts(cache)["wp_a/a.o"] == "own"
    assert texts(cache)["wp_b/b.o"] == "wp_b/b.o"


def test_a_link_that_leads_nowhere_is_replaced(shipped, cache):
    link_kernels(shipped, cache)
    moved = shipped.rename(shipped.with_name("later"))
    assert texts(cache) == {}
    assert link_kernels(moved, cache) == 4
    assert texts(cache) == texts(moved)


def test_a_cache_that_is_the_shipped_one_stays_as_it_is(shipped):
    before = texts(shipped)
    assert link_kernels(shipped, shipped) == 0
    assert texts(shipped) == before


def test_several_may_link_at_once(shipped, cache):
    for k in range(100):
        (shipped / "wp_a" / f"{k}.cubin").write_text(str(k))
    with ThreadPoolExecutor(4) as executor:
        list(executor.map(lambda _: link_kernels(shipped, cache), range(4)))
    assert texts(cache) == texts(shipped)


def test_the_variable_names_the_folder_as_warp_does(shipped, cache, monkeypatch):
    monkeypatch.setattr(wp.config, "kernel_cache_dir", str(cache))
    monkeypatch.setenv(SHIPPED_VARIABLE, str(shipped.parent))
    use_shipped_kernels.__wrapped__()
    assert texts(cache) == texts(shipped)


def test_a_cache_that_cannot_be_written_is_an_error_with_its_name(shipped, cache, monkeypatch):
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(PermissionError(13, "no", str(cache / "x"))))
    with pytest.raises(PermissionError, match="cache"):
        link_kernels(shipped, cache)
