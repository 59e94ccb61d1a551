"""Kernels that came with an installation are found in another cache: linked, replaced where stale, never copied."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest
import warp as wp

from ik_service.kernels import kernel_cache

link_kernels = kernel_cache.use_shipped_kernels.__wrapped__


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    monkeypatch.setenv(kernel_cache.SHIPPED_VARIABLE, str(tmp_path / "shipped"))
    folder = tmp_path / "shipped" / str(wp.config.version)
    for name in ("wp_a/a.o", "wp_a/a.meta", "wp_b/b.o", "marks/m"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


def texts(folder):
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_every_file_is_linked_once_and_what_the_cache_has_of_its_own_stays(shipped, cache):
    (cache / "wp_a").mkdir()
    (cache / "wp_a" / "a.o").write_text("own")
    link_kernels()
    assert texts(cache) == texts(shipped) | {"wp_a/a.o": "own"}
    found = {path: path.lstat() for path in cache.rglob("*") if not path.is_dir()}
    assert [path.name for path in found if not path.is_symlink()] == ["a.o"]
    link_kernels()
    assert {path: path.lstat() for path in found} == found


def test_a_link_that_leads_nowhere_is_replaced(shipped, cache, monkeypatch):
    link_kernels()
    later = shipped.parent.rename(shipped.parent.with_name("later"))
    assert texts(cache) == {}
    monkeypatch.setenv(kernel_cache.SHIPPED_VARIABLE, str(later))
    link_kernels()
    assert texts(cache) == texts(later / shipped.name) != {}


def test_a_cache_that_is_the_shipped_one_stays_as_it_is(shipped, monkeypatch):
    monkeypatch.setattr(wp.config, "kernel_cache_dir", str(shipped))
    before = texts(shipped)
    link_kernels()
    assert texts(shipped) == before


def test_several_may_link_at_once(shipped, cache):
    for k in range(100):
        (shipped / "wp_a" / f"{k}.cubin").write_text(str(k))
    with ThreadPoolExecutor(4) as executor:
        list(executor.map(lambda _: link_kernels(), range(4)))
    assert texts(cache) == texts(shipped)


def test_a_cache_that_cannot_be_written_is_an_error_with_its_name(shipped, cache, monkeypatch):
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(PermissionError(13, "no", str(cache / "x"))))
    with pytest.raises(PermissionError, match="cache"):
        link_kernels()
