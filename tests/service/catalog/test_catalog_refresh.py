"""Requests while a catalog reads what another process has put."""

import asyncio
import threading

import pytest

from ik_service.service.catalog.catalog import CatalogRefresh
from tests.bounded import PATIENCE_S


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
def test_requests_do_not_wait_for_what_they_do_not_miss_nor_long_for_what_nobody_has_put(
    catalog, monkeypatch, name, wait_s
):
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
