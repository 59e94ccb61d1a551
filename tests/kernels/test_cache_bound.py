"""The kernel cache stays within its bound: what has not been used for longest goes first."""

import os

import pytest
import warp as wp

from ik_service.kernels.kernel_cache import BOUND_VARIABLE, MARKS, bound_bytes, check_cache, keep_bound, note_use
from objectives import InputError

SIZE = 400_000  # bytes of each module
NAMES = ["wp_a", "wp_b", "wp_c", "wp_d"]


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Modules of which each was last used a second after the one before."""
    for second, name in enumerate(NAMES):
        folder = tmp_path / name
        folder.mkdir()
        for file in ("code.o", "code.cpp"):
            (folder / file).write_bytes(bytes(SIZE // 2))
            os.utime(folder / file, (second, second))
    (tmp_path / MARKS).mkdir()
    (tmp_path / MARKS / "mark").touch()
    monkeypatch.setattr(wp.config, "kernel_cache_dir", str(tmp_path))
    return tmp_path


def modules(cache):
    return sorted(path.name for path in cache.glob("wp_*"))


@pytest.mark.parametrize(("megabytes", "kept"), [(2, 4), (1, 2)])
def test_the_oldest_go_until_the_rest_fits(cache, monkeypatch, megabytes, kept):
    monkeypatch.setenv(BOUND_VARIABLE, str(megabytes))
    assert [path.name for path in keep_bound()] == NAMES[: 4 - kept]
    assert modules(cache) == NAMES[4 - kept :]
    assert (cache / MARKS).exists() is (kept == 4)  # marks of what is gone would be wrong
    assert keep_bound() == []


def test_what_is_used_stays(cache, monkeypatch):
    monkeypatch.setenv(BOUND_VARIABLE, "1")
    note_use(cache / "wp_a" / "code.o")
    os.utime(cache / "wp_b" / "code.o", ns=((10**18), 0))  # read, as far as the file system notes it
    keep_bound()
    assert modules(cache) == ["wp_a", "wp_b"]


def test_without_a_bound_nothing_goes(cache, monkeypatch):
    monkeypatch.delenv(BOUND_VARIABLE, raising=False)
    assert keep_bound() == []
    assert modules(cache) == NAMES


def test_links_and_what_they_lead_to_stay_and_count_for_nothing(cache, monkeypatch, tmp_path_factory):
    monkeypatch.setenv(BOUND_VARIABLE, "1")
    shipped = tmp_path_factory.mktemp("shipped") / "code.o"
    shipped.write_bytes(bytes(10 * SIZE))
    os.utime(shipped, (0, 0))
    (cache / "wp_shipped").mkdir()
    (cache / "wp_shipped" / "code.o").symlink_to(shipped)
    keep_bound()
    assert modules(cache) == ["wp_c", "wp_d", "wp_shipped"]
    assert shipped.exists()


def test_other_files_count_and_are_never_removed(cache, monkeypatch):
    monkeypatch.setenv(BOUND_VARIABLE, "1")
    (cache / "lto").write_bytes(bytes(SIZE))
    keep_bound()
    assert modules(cache) == ["wp_d"]
    assert (cache / "lto").exists()


@pytest.mark.parametrize("given", ["0", "-1", "1.5", "1 GB", "²"])
def test_a_bound_that_is_no_number_is_refused_at_once(cache, monkeypatch, given):
    monkeypatch.setenv(BOUND_VARIABLE, given)
    with pytest.raises(InputError, match=f"{BOUND_VARIABLE} is "):
        check_cache()


def test_the_bound_is_read_in_millions_of_bytes(monkeypatch):
    monkeypatch.setenv(BOUND_VARIABLE, "768")
    assert bound_bytes() == 768_000_000
