"""The kernel cache stays within its bound: what has not been used for longest goes first."""

import os

import pytest

from ik_service.kernels.kernel_cache import BOUND_VARIABLE, MARKS, bound_bytes, check_cache, keep_bound, note_use
from objectives import InputError

SIZE = 400_000  # bytes of each module
NAMES = ["wp_a", "wp_b", "wp_c", "wp_d"]


@pytest.fixture
def cache(cache, monkeypatch):
    """Modules of which each was last used a second after the one before, with a bound of 10^6 bytes."""
    for second, name in enumerate(NAMES):
        for file in ("code.o", "code.cpp"):
            (cache / name).mkdir(exist_ok=True)
            (cache / name / file).write_bytes(bytes(SIZE // 2))
            os.utime(cache / name / file, (second, second))
    (cache / MARKS).mkdir()
    (cache / MARKS / "mark").touch()
    monkeypatch.setenv(BOUND_VARIABLE, "1")
    return cache


def modules(cache):
    return sorted(path.name for path in cache.glob("wp_*"))


@pytest.mark.parametrize(("megabytes", "kept"), [("2", 4), ("1", 2), ("", 4)])
def test_the_oldest_go_until_the_rest_fits(cache, monkeypatch, megabytes, kept):
    monkeypatch.setenv(BOUND_VARIABLE, megabytes)
    assert bound_bytes() == (int(megabytes) * 1_000_000 if megabytes else None)
    assert [path.name for path in keep_bound()] == NAMES[: 4 - kept]
    assert modules(cache) == NAMES[4 - kept :]
    assert (cache / MARKS).exists() is (kept == 4)  # marks of what is gone would be wrong
    assert keep_bound() == []


def test_what_is_used_stays(cache):
    note_use(cache / "wp_a" / "code.o")
    os.utime(cache / "wp_b" / "code.o", ns=((10**18), 0))  # read, as far as the file system notes it
    keep_bound()
    assert modules(cache) == ["wp_a", "wp_b"]


def test_links_and_what_they_lead_to_stay_and_count_for_nothing(cache, tmp_path):
    shipped = tmp_path / "code.o"
    shipped.write_bytes(bytes(10 * SIZE))
    os.utime(shipped, (0, 0))
    (cache / "wp_shipped").mkdir()
    (cache / "wp_shipped" / "code.o").symlink_to(shipped)
    keep_bound()
    assert modules(cache) == ["wp_c", "wp_d", "wp_shipped"]
    assert shipped.exists()


def test_other_files_count_and_are_never_removed(cache):
    (cache / "lto").write_bytes(bytes(SIZE))
    keep_bound()
    assert modules(cache) == ["wp_d"]
    assert (cache / "lto").exists()


@pytest.mark.parametrize("given", ["0", "-1", "1.5", "1 GB", "²"])
def test_a_bound_that_is_no_number_is_refused_at_once(cache, monkeypatch, given):
    monkeypatch.setenv(BOUND_VARIABLE, given)
    with pytest.raises(InputError, match=f"{BOUND_VARIABLE} is "):
        check_cache()
