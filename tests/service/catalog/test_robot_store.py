"""The folder of robots: whole files or none, whatever is in it and whatever ends the process."""

import asyncio
import logging
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from ik_service.errors import RobotFileError
from ik_service.robots import builtin_urdf, load_robot
from ik_service.robots.readers.sphere_file import model_document
from ik_service.service.catalog.catalog import CatalogRefresh
from ik_service.service.catalog.entries import Precondition
from ik_service.service.catalog.file_store import FileStore
from ik_service.service.catalog.robot_catalog import RobotCatalog
from ik_service.service.errors.exceptions import (
    CatalogFullError,
    CatalogStorageError,
    CatalogStorageFullError,
    KeyRightsError,
    ReadOnlyRobotError,
    RobotNameError,
    StaleEntryError,
    UnknownRobotError,
)
from ik_service.service.schema.limits import MAX_ACTIVE_DOFS
from objectives.errors import InputError
from tests.bounded import PATIENCE_S
from tests.service.pool.conftest import chain_urdf

ANY, ANN, BOB = Precondition(), Precondition(owner="ann"), Precondition(owner="bob")
UR5E, IIWA = builtin_urdf("ur5e"), builtin_urdf("iiwa14")
PANDA = {"panda": load_robot("panda")}


def catalog_of(folder, **options):
    return RobotCatalog(PANDA, folder, **{"uploaders": 1, **options})


def failing(number):
    """A function of the system that fails."""

    def fail(*_):
        raise OSError(number, "the reason", "/srv/secret")

    return fail


def fresh(catalog):
    """A catalog that has taken in what others have changed."""
    catalog.refresh()
    return catalog


def test_spheres_beside_a_robot_are_its_collision_model(tmp_path, caplog):
    model = load_robot("ur5e").collision_model
    assert model is not None
    (tmp_path / "arm.urdf").write_bytes(UR5E)
    (tmp_path / "arm.collision.json").write_text(model_document(model, "a test"))
    (tmp_path / "bare.urdf").write_bytes(UR5E)
    catalog = catalog_of(tmp_path)
    arm, bare = catalog.entries["arm"], catalog.entries["bare"]
    assert arm.model.collision_model.content_hash == model.content_hash
    assert bare.model.collision_model is None
    assert arm.text == bare.text == UR5E
    assert arm.etag != bare.etag
    FileStore(tmp_path, "world", 100).files()
    assert not caplog.records

    fewer = model.without_pairs(model.pairs[1:], "a test")
    (tmp_path / "arm.collision.json").unlink()
    (tmp_path / "arm.collision.yaml").write_text(model_document(fewer, "a test"))
    replaced = fresh(catalog).entries["arm"]
    assert replaced.model.collision_model.pairs == model.pairs[:1]
    assert replaced.etag not in (arm.etag, bare.etag)
    assert catalog.entries["bare"] is bare

    (tmp_path / "bare.collision.json").write_text('{"spheres": {"wrist": [[0, 0, 0, 0.1]]}}')
    assert list(fresh(catalog).entries) == ["panda", "arm"]
    assert "bare" in caplog.text
    assert "Link 'wrist'" in caplog.text
    with pytest.raises(InputError, match="Link 'wrist'"):
        catalog.put("bare", UR5E, ANY)

    catalog.delete("arm", ANY)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bare.collision.json", "bare.urdf"]
    assert catalog.put("arm", UR5E, ANY)[0].model.collision_model is None


def test_what_is_put_is_there_after_a_restart_and_what_is_deleted_is_not(tmp_path):
    catalog = catalog_of(tmp_path / "made")
    before = catalog.entries
    robot, is_new = catalog.put("arm", UR5E, ANY)
    assert is_new
    assert "arm" not in before  # who has a snapshot keeps it
    assert catalog.put("other", IIWA, ANY)[1]
    assert not catalog.put("arm", UR5E + b"\n", ANY)[1]
    again = catalog_of(tmp_path / "made")
    assert list(again.entries) == ["panda", "arm", "other"]
    assert again.entries["arm"].model.content_hash == robot.model.content_hash
    assert fresh(again).entries["arm"].text == UR5E + b"\n"
    assert [robot.source for robot in again.entries.values()] == ["built_in", "uploaded", "uploaded"]
    again.delete("arm", ANY)
    assert list(catalog_of(tmp_path / "made").entries) == ["panda", "other"]


def test_a_damaged_file_is_logged_and_the_others_are_served(tmp_path, caplog):
    catalog_of(tmp_path).put("good", UR5E, ANY)
    damaged = {"torn": UR5E[:500], "empty": b"", "noise": os.urandom(1000), "large": UR5E + b" " * 2_000_000}
    damaged |= {"panda": UR5E, "Not a name": UR5E, "dofs": chain_urdf(MAX_ACTIVE_DOFS + 1)}
    for name, text in damaged.items():
        (tmp_path / f"{name}.urdf").write_bytes(text)
    (tmp_path / "folder.urdf").mkdir()
    (cut_off := tmp_path / ".good.0123456789abcdef.unfinished").write_bytes(IIWA[:300])
    (tmp_path / "README").write_text("not a robot")
    with caplog.at_level(logging.WARNING):
        catalog = catalog_of(tmp_path)
    assert list(catalog.entries) == ["panda", "good"]
    for name in (*damaged, "folder", "README"):
        assert any(name in record.getMessage() for record in caplog.records), name
    assert catalog.entries["panda"].source == "built_in"
    assert fresh(catalog).entries["good"].text == UR5E
    assert not cut_off.exists()


@pytest.mark.parametrize("place", ["os.fsync", "os.replace", "ik_service.service.catalog.file_store.FileStore.write"])
def test_a_disk_that_fails_leaves_what_was_there(tmp_path, monkeypatch, place):
    catalog = catalog_of(tmp_path)
    catalog.put("arm", UR5E, ANY)
    monkeypatch.setattr(place, failing(28))
    if place == "os.replace":
        monkeypatch.setattr("pathlib.Path.replace", failing(28))
    for name in ("arm", "new"):
        with pytest.raises(CatalogStorageFullError, match="no room"):
            catalog.put(name, IIWA, ANN)
    monkeypatch.undo()
    assert fresh(catalog).entries["arm"].text == fresh(catalog_of(tmp_path)).entries["arm"].text == UR5E
    assert [path.name for path in tmp_path.iterdir()] == ["arm.urdf"]


@pytest.mark.parametrize(
    "name", ["", "../x", "a/b", "a\\b", ".hidden", "A", "1a", "a" * 65, "a.b", "a\n", "é", "a\x00", "%2e"]
)
def test_names_that_could_be_paths_are_refused(tmp_path, name):
    with pytest.raises(RobotNameError, match="lower-case"):
        catalog_of(tmp_path).put(name, UR5E, ANY)
    assert list(tmp_path.iterdir()) == []


def test_built_in_robots_stay_as_they_are_served_or_not(tmp_path):
    catalog = catalog_of(tmp_path)
    for name in ("panda", "ur5e"):
        with pytest.raises(ReadOnlyRobotError, match="built in"):
            catalog.put(name, IIWA, ANY)
        with pytest.raises(ReadOnlyRobotError, match="built in"):
            catalog.delete(name, ANY)


def test_the_catalog_holds_so_many_and_one_of_several_keys_cannot_take_all_room(tmp_path):
    for folder, uploaders, message in (
        ("one", 1, "2 robots"),
        ("several", 2, "Your API key has put 2 robots, which is its share of 4 now"),
    ):
        catalog = catalog_of(tmp_path / folder, uploaders=uploaders, max_uploaded=2 * uploaders)
        catalog.put("a", UR5E, ANN)
        catalog.put("b", UR5E, ANN)
        with pytest.raises(CatalogFullError, match=message):
            catalog.put("c", UR5E, ANN)
        catalog.put("b", IIWA, ANN)  # replacing one needs no room
        catalog.delete("a", ANN)
        catalog.put("c", UR5E, ANN)
        if uploaders > 1:
            catalog.put("d", UR5E, BOB)


def test_preconditions_tell_who_was_first(tmp_path):
    catalog = catalog_of(tmp_path)
    first = catalog.put("a", UR5E, Precondition(if_none_match="*"))[0]
    with pytest.raises(StaleEntryError, match="exists"):
        catalog.put("a", IIWA, Precondition(if_none_match="*"))
    with pytest.raises(StaleEntryError, match="no robot"):
        catalog.put("b", IIWA, Precondition(if_match="*"))
    second = catalog.put("a", IIWA, Precondition(if_match=f'"x", {first.etag}'))[0]
    assert second.etag != first.etag
    for change in (lambda p: catalog.put("a", UR5E, p), lambda p: catalog.delete("a", p)):
        with pytest.raises(StaleEntryError, match="changed"):
            change(Precondition(if_match=first.etag))
    catalog.delete("a", Precondition(if_match=second.etag))
    with pytest.raises(UnknownRobotError, match="'a' is not served"):
        catalog.delete("a", ANY)


def test_catalogs_of_several_processes_share_a_folder(tmp_path):
    one, other = catalog_of(tmp_path, max_uploaded=2), catalog_of(tmp_path, max_uploaded=2)
    one.put("arm", UR5E, ANY)
    assert fresh(other).entries["arm"].text == UR5E
    assert list(fresh(other).entries) == ["panda", "arm"]
    model = other.entries["arm"].model
    other.put("more", IIWA, ANY)
    assert other.entries["arm"].model is model  # not read again
    with pytest.raises(CatalogFullError):
        one.put("third", IIWA, ANY)
    with pytest.raises(StaleEntryError, match="exists"):
        one.put("more", UR5E, Precondition(if_none_match="*"))
    other.put("arm", IIWA, Precondition(if_match=fresh(one).entry("arm").etag))
    assert fresh(one).entries["arm"].text == IIWA
    other.delete("arm", ANY)
    with pytest.raises(UnknownRobotError):
        fresh(one).entry("arm")
    assert list(one.entries) == ["panda", "more"]


def test_changes_in_the_same_moment_are_not_missed(tmp_path):
    one, other = catalog_of(tmp_path), catalog_of(tmp_path)
    for k in range(50):  # however coarse the folder's time of change is
        text = (UR5E, IIWA)[k % 2]
        one.put("arm", text, ANY)
        assert fresh(other).entries["arm"].text == text


def test_an_upload_is_not_swept_away_by_a_process_that_starts(tmp_path, monkeypatch):
    one, executor, started = catalog_of(tmp_path), ThreadPoolExecutor(1), []
    fsync = os.fsync

    def slow(descriptor):
        if not started:
            started.append(executor.submit(catalog_of, tmp_path))
            time.sleep(0.2)
            assert not started[0].done()
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", slow)
    one.put("arm", UR5E, ANY)
    assert list(started[0].result(60).entries) == ["panda", "arm"]
    executor.shutdown()


def test_a_folder_that_cannot_be_used_is_bad_input(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="catalog_dir"):
        RobotCatalog({}, tmp_path / "file")


def test_a_robot_of_more_dofs_than_allowed_is_refused(tmp_path):
    catalog = catalog_of(tmp_path)
    catalog.put("a", chain_urdf(MAX_ACTIVE_DOFS), ANY)
    with pytest.raises(RobotFileError, match=f"has {MAX_ACTIVE_DOFS + 1} active DOFs. Allowed: {MAX_ACTIVE_DOFS}"):
        catalog.put("b", chain_urdf(MAX_ACTIVE_DOFS + 1), ANY)
    assert not catalog.serves("b")


def test_nobody_waits_for_the_parser_or_the_disk(tmp_path, monkeypatch):
    one, other = catalog_of(tmp_path), catalog_of(tmp_path)
    seen = []
    fsync = os.fsync

    def slow(descriptor):
        (tmp_path / "late.urdf").write_bytes(IIWA)
        seen.append((list(fresh(one).entries), one.is_current(), one._lock.locked()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", slow)
    one.put("arm", UR5E, ANY)
    assert seen[0] == (["panda", "late"], False, False)
    assert set(one.entries) == {"panda", "late", "arm"}
    assert set(fresh(other).entries) == {"panda", "late", "arm"}


def test_a_look_that_began_before_a_change_does_not_take_it_back(tmp_path, monkeypatch):
    catalog = catalog_of(tmp_path)
    (tmp_path / "late.urdf").write_bytes(IIWA)
    text = FileStore.text

    def slow(store, name):
        if "arm" not in catalog.entries:
            monkeypatch.setattr(FileStore, "text", text)
            catalog.put("arm", UR5E, ANY)
        return text(store, name)

    monkeypatch.setattr(FileStore, "text", slow)
    assert set(fresh(catalog).entries) == {"panda", "arm", "late"}


@pytest.mark.parametrize(("number", "error"), [(28, CatalogStorageFullError), (30, CatalogStorageError)])
def test_a_disk_that_cannot_be_written_is_said(tmp_path, monkeypatch, caplog, number, error):
    catalog = catalog_of(tmp_path)
    catalog.put("arm", UR5E, ANY)
    monkeypatch.setattr(FileStore, "alone", failing(number))
    for change in (lambda: catalog.put("arm", IIWA, ANY), lambda: catalog.delete("arm", ANY)):
        with pytest.raises(error) as caught:
            change()
        assert "secret" not in str(caught.value)
        assert "the reason" in caplog.text
    assert catalog.entries["arm"].text == UR5E


def test_another_key_cannot_change_what_a_key_has_put_also_after_a_restart(tmp_path):
    catalog_of(tmp_path, uploaders=2).put("arm", UR5E, ANN)
    again = catalog_of(tmp_path, uploaders=2)
    for change in (lambda: again.put("arm", IIWA, BOB), lambda: again.delete("arm", BOB)):
        with pytest.raises(KeyRightsError, match="Robot 'arm' was put with another API key"):
            change()
    assert again.entry("arm").text == UR5E
    assert not again.put("arm", IIWA, ANN)[1]
    again.delete("arm", ANN)
    assert list(tmp_path.iterdir()) == []
    assert again.put("arm", UR5E, BOB)[1]  # a name that is free belongs to nobody
    again.delete("arm", BOB)
    (tmp_path / "arm.urdf").write_bytes(UR5E)  # of nobody, also once a key has changed it
    fresh(again).put("arm", IIWA, ANN)
    again.put("arm", UR5E, BOB)
    again.delete("arm", ANN)
    assert list(again.entries) == ["panda"]


def test_a_folder_that_is_gone_is_logged_once_until_it_is_back(tmp_path, caplog):
    folder = tmp_path / "made"
    catalog = catalog_of(folder)
    for _ in range(2):
        folder.rmdir()
        for _ in range(3):
            assert list(fresh(catalog).entries) == ["panda"]
        folder.mkdir()
        (folder / "arm.urdf").write_bytes(UR5E)
        assert "arm" in fresh(catalog).entries
        (folder / "arm.urdf").unlink()
        assert "arm" not in fresh(catalog).entries
    assert caplog.text.count("The folder of the catalog cannot be read") == 2


def test_a_pipe_in_the_folder_holds_up_nobody(tmp_path):
    os.mkfifo(tmp_path / "pipe.urdf")
    catalog = catalog_of(tmp_path)
    catalog.put("arm", UR5E, ANY)
    assert list(fresh(catalog).entries) == ["panda", "arm"]


# ---------------------------------------------------------------------- requests while a catalog is read
class SlowCatalog:
    """A catalog whose folder has one entry more than it knows; reading it ends when a test says so."""

    def __init__(self):
        self.names, self.may_read = {"panda"}, threading.Event()

    def is_current(self):
        return "arm" in self.names

    def serves(self, name):
        return name in self.names

    def refresh(self):
        assert self.may_read.wait(PATIENCE_S)
        self.names = {"panda", "arm"}


@pytest.fixture
def catalog():
    made = SlowCatalog()
    yield made
    made.may_read.set()


def run(catalog, ask):
    async def asking():
        refresh = CatalogRefresh(catalog)
        try:
            return await ask(refresh)
        finally:
            catalog.may_read.set()
            refresh.close()

    return asyncio.run(asking())


@pytest.mark.parametrize(
    ("name", "wait_s"), [(None, PATIENCE_S), ("panda", PATIENCE_S), ("leg", 0.01)], ids=["any", "there", "nowhere"]
)
def test_requests_do_not_wait_for_what_they_have_nor_long_for_what_nobody_has_put(catalog, monkeypatch, name, wait_s):
    monkeypatch.setattr("ik_service.service.catalog.catalog.MISSING_WAIT_S", wait_s)

    async def ask(refresh):
        return set((await refresh.current(name)).names)

    assert run(catalog, ask) == {"panda"}


def test_a_request_for_what_has_just_been_put_waits_for_it(catalog, monkeypatch):
    monkeypatch.setattr("ik_service.service.catalog.catalog.MISSING_WAIT_S", PATIENCE_S)

    async def ask(refresh):
        asked = asyncio.create_task(refresh.current("arm"))
        await refresh.current()  # gives up waiting
        assert not asked.done()
        catalog.may_read.set()
        return set((await asked).names)

    assert run(catalog, ask) == {"panda", "arm"}
