"""Several pools in other processes: requests go to those that are there and have the fewest problems under way."""

import asyncio
import threading
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from ik_service.service.pool.pool_limits import PoolLimits
from ik_service.service.queue.errors import SolverRestartingError
from ik_service.service.remote.remote_pool import RemotePool
from ik_service.service.remote.solver_connection import SILENT_S
from tests.bounded import run
from tests.service.pool.conftest import numbered, numbers_of
from tests.service.pool.remote.test_solver_connection import HOLDS_S, Service

COUNT = 3


@asynccontextmanager
async def pools_of(tmp_path, make_pool, *, gates=(), warm=True):
    """Give a remote pool, the services at its other ends and their caches."""
    async with AsyncExitStack() as stack:
        services, caches, connected = [], [], asyncio.Event()
        for k in range(COUNT):
            folder = tmp_path / str(k)
            folder.mkdir()
            pool, cache = make_pool(gate=gates[k] if gates else None)
            services.append(await stack.enter_async_context(Service(folder, pool)))
            caches.append(cache)
        remote, connections, lost = RemotePool([one.path for one in services], PoolLimits()), [], []

        def made(connection):
            connection.is_warm = warm
            connections.append(connection)
            if len(connections) == COUNT:
                connected.set()

        remote.start(made, lambda: lost.append(1))
        stack.callback(remote.close)
        await asyncio.wait_for(connected.wait(), HOLDS_S)
        yield remote, services, caches


def test_requests_go_where_the_fewest_problems_are_under_way(tmp_path, panda, make_pool):
    gates = [threading.Event() for _ in range(COUNT)]

    async def ask():
        async with pools_of(tmp_path, make_pool, gates=gates) as (remote, _, caches):
            sizes = (5, 3, 1, 1, 1, 1)  # to the pools 0, 1, 2, 2, 2 and 1
            futures = [remote.solve(panda, numbered(10 * k, size)) for k, size in enumerate(sizes)]
            for gate in gates:
                gate.set()
            found = [numbers_of(answer) for answer in await asyncio.gather(*futures)]
            assert found == [list(range(10 * k, 10 * k + size)) for k, size in enumerate(sizes)]
            loads = [one.load for one in remote._connections]
            return [len(cache.solved) for cache in caches], loads

    solved, loads = run(ask())
    assert solved == [5, 4, 3]
    assert loads == [0, 0, 0]


def test_what_is_cancelled_counts_no_more(tmp_path, panda, make_pool):
    gates = [threading.Event() for _ in range(COUNT)]

    async def ask():
        async with pools_of(tmp_path, make_pool, gates=gates) as (remote, _, _caches):
            futures = [remote.solve(panda, numbered(0, 4)) for _ in range(COUNT)]
            assert [one.load for one in remote._connections] == [4, 4, 4]
            futures[1].cancel()
            await asyncio.sleep(0)
            assert [one.load for one in remote._connections] == [4, 0, 4]
            for gate in gates:
                gate.set()
            await asyncio.gather(futures[0], futures[2])

    run(ask())


def test_one_that_has_ended_is_left_out_until_it_is_back(tmp_path, panda, make_pool):
    gates = [threading.Event() for _ in range(COUNT)]
    new, _ = make_pool()

    async def ask():
        async with pools_of(tmp_path, make_pool, gates=gates) as (remote, services, caches):
            futures = [remote.solve(panda, numbered(10 * k, 2)) for k in range(COUNT)]
            await asyncio.to_thread(caches[1].entered.wait, HOLDS_S)
            await services[1].break_off()
            with pytest.raises(SolverRestartingError):
                await futures[1]
            assert remote.is_connected
            remote.require_room()
            others = [remote.solve(panda, numbered(100 + k, 1)) for k in range(4)]
            for gate in gates:
                gate.set()
            answers = await asyncio.gather(futures[0], futures[2], *others)
            assert [numbers_of(answer) for answer in answers] == [[0, 1], [20, 21], *([100 + k] for k in range(4))]
            services[1].pool = new
            services[1].begin()
            while not remote._connections[1].is_connected:
                await asyncio.sleep(0.001)
            for service in services:
                await service.break_off()
            await asyncio.sleep(0.01)
            assert not remote.is_connected
            with pytest.raises(SolverRestartingError):
                remote.require_room()
            with pytest.raises(SolverRestartingError):
                await remote.solve(panda, numbered(0, 1))

    run(ask())


def test_those_that_have_nothing_to_load_come_first(tmp_path, panda, make_pool):
    async def ask():
        async with pools_of(tmp_path, make_pool, warm=False) as (remote, _, caches):
            remote._connections[2].is_warm = True
            futures = [remote.solve(panda, numbered(k, 1)) for k in range(4)]
            await asyncio.gather(*futures)
            return Counter({k: len(cache.solved) for k, cache in enumerate(caches)})

    assert run(ask()) == Counter({0: 0, 1: 0, 2: 4})


def test_one_that_is_silent_gets_nothing_while_others_speak(tmp_path, panda, make_pool):
    gates = [threading.Event() for _ in range(COUNT)]

    async def ask():
        async with pools_of(tmp_path, make_pool, gates=gates) as (remote, _, _caches):
            remote._connections[0]._status_at -= 2.0 * SILENT_S
            futures = [remote.solve(panda, numbered(k, 1)) for k in range(4)]
            loads = [one.load for one in remote._connections]
            for one in remote._connections:
                one._status_at -= 2.0 * SILENT_S
            futures.append(remote.solve(panda, numbered(9, 1)))
            loads += [one.load for one in remote._connections]
            for gate in gates:
                gate.set()
            return loads, [numbers_of(answer) for answer in await asyncio.gather(*futures)]

    assert run(ask()) == ([0, 2, 2, 1, 2, 2], [[0], [1], [2], [3], [9]])


def test_all_are_told_of_robots_that_are_served_no_more(tmp_path, make_pool):
    async def ask():
        async with pools_of(tmp_path, make_pool) as (remote, services, _):
            remote.forget("arm")
            while not all(service.forgotten for service in services):
                await asyncio.sleep(0.001)
            return [service.forgotten for service in services]

    assert run(ask()) == [["arm"]] * COUNT
