"""The kernel cache holds code: it is refused where anybody but this user and root may have put some there."""

import grp
import os
import pwd
from types import SimpleNamespace

import pytest

from ik_service import IKSolver, KernelCacheError
from ik_service.kernels import file_trust, kernel_cache
from ik_service.kernels.file_trust import why_others_may_write, why_untrusted
from ik_service.kernels.kernel_loading import explained_cache_error

GROUP = 4321
PLACES = ["", "wp_module", "wp_module/code.o", "wp_module/code.o.sha256", "ik_service_marks/mark"]


@pytest.fixture
def cache(cache):
    for name in PLACES[2:]:
        (cache / name).parent.mkdir(mode=0o755, exist_ok=True)
        (cache / name).touch(mode=0o644)
        (cache / name).chmod(0o644)
    kernel_cache._check_folder.cache_clear()
    yield cache
    kernel_cache._check_folder.cache_clear()


@pytest.fixture(autouse=True)
def groups_are_forgotten():
    yield
    file_trust._is_own_group.cache_clear()


def groups(monkeypatch, *, mine, name=None, members=(), primary_of=()):
    """Lets this process be user 'me', with these groups; group GROUP has a name and members, or is not known."""
    me = SimpleNamespace(pw_name="me", pw_gid=1)
    others = [SimpleNamespace(pw_name=other, pw_gid=GROUP) for other in primary_of]

    def group(gid):
        if name is None:
            raise KeyError(gid)
        return SimpleNamespace(gr_name=name, gr_mem=list(members))

    monkeypatch.setattr(os, "getegid", lambda: 1)
    monkeypatch.setattr(os, "getgroups", lambda: list(mine))
    monkeypatch.setattr(grp, "getgrgid", group)
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: me)
    monkeypatch.setattr(pwd, "getpwall", lambda: [me, *others])
    file_trust._is_own_group.cache_clear()


@pytest.mark.parametrize("mode", [0o002, 0o020])
@pytest.mark.parametrize("place", PLACES)
def test_a_cache_that_others_may_write_is_refused_each_time(cache, place, mode, monkeypatch):
    groups(monkeypatch, mine=[])
    path = cache / place
    path.chmod(path.stat().st_mode | mode)
    for _ in range(2):
        with pytest.raises(KernelCacheError, match="can be written by") as caught:
            kernel_cache.check_cache()
        for said in (str(path), "WARP_CACHE_PATH", "Delete it"):
            assert said in str(caught.value)


@pytest.mark.parametrize("place", PLACES)
def test_what_belongs_to_another_user_is_refused(cache, place, monkeypatch):
    own, foreign = os.stat, cache / place

    def as_if_foreign(path, **options):
        found = own(path, **options)
        if os.fspath(path) != str(foreign):
            return found
        return os.stat_result((*found[:4], os.geteuid() + 1, *found[5:10]))

    monkeypatch.setattr(os, "stat", as_if_foreign)
    with pytest.raises(KernelCacheError, match=f"'{foreign}' belongs to user {os.geteuid() + 1},"):
        kernel_cache.check_cache()


def test_the_end_of_a_link_is_looked_at_with_its_folder(cache, tmp_path):
    shipped = tmp_path / "shipped"
    shipped.mkdir(mode=0o755)
    (shipped / "code.o").touch(mode=0o644)
    (cache / "wp_module" / "linked.o").symlink_to(shipped / "code.o")
    (cache / "wp_module" / "stale.o").symlink_to(shipped / "gone.o")
    kernel_cache.check_cache()
    for path in (shipped, shipped / "code.o"):
        before = path.stat().st_mode
        path.chmod(0o777)
        kernel_cache._check_folder.cache_clear()
        with pytest.raises(KernelCacheError, match="can be written by every user"):
            kernel_cache.check_cache()
        path.chmod(before)


@pytest.mark.parametrize(
    ("believed", "group"),
    [
        (True, {"mine": [GROUP]}),  # of a container: fsGroup, without a name
        (True, {"mine": [GROUP], "name": "me"}),  # a user's private group
        (True, {"mine": [GROUP], "name": "me", "members": ["me"]}),
        (True, {"mine": [GROUP], "name": "root"}),
        (False, {"mine": []}),
        (False, {"mine": [], "name": "me"}),
        (False, {"mine": [GROUP], "name": "users"}),
        (False, {"mine": [GROUP], "name": "me", "members": ["you"]}),
        (False, {"mine": [GROUP], "name": "me", "primary_of": ["you"]}),
    ],
)
def test_a_group_counts_as_others_unless_it_is_ones_own(believed, group, monkeypatch):
    groups(monkeypatch, **group)
    found = os.stat_result((0o100664, 0, 0, 1, 0, GROUP, 0, 0, 0, 0))
    assert (why_others_may_write(found) is None) is believed
    assert why_others_may_write(os.stat_result((0o100666, *found[1:]))) is not None
    assert why_others_may_write(os.stat_result((0o100644, *found[1:]))) is None


def test_what_is_not_there_is_not_taken_for_believed(tmp_path):
    with pytest.raises(FileNotFoundError):
        why_untrusted(tmp_path / "none")


def test_errors_of_loading_and_building_are_errors_of_the_cache(cache):
    for said in ("Failed to load CPU module 'm'", "Failed to load CUDA module 'm' (device='cuda:0')"):
        assert str(cache) in str(explained_cache_error(Exception(said)))
    told = explained_cache_error(Exception("CUDA kernel build failed with error code 6"))
    assert "error code 6" in str(told)
    assert explained_cache_error(Exception("Something else")) is None


def test_what_fails_to_load_in_the_midst_of_a_solve_is_told_too(panda, monkeypatch):
    solver = IKSolver(panda, ["panda_hand"], device="cpu", engine="compiled")
    prepare = solver._core.engine.prepare

    def fail():
        raise RuntimeError("Failed to load CUDA module 'm' (device='cuda:0')")

    monkeypatch.setattr(solver._core.engine, "prepare", lambda *given: prepare(*given)._replace(run=fail))
    with pytest.raises(KernelCacheError, match="Failed to load CUDA module 'm'"):
        solver.solve([[0.4, 0.1, 0.5]], [[1, 0, 0, 0]])
