"""A pool in another process: the answers and errors are those of the pool, and its end is not that of its fronts."""

import asyncio
import contextlib
import threading
from concurrent.futures import Future

import numpy as np
import pytest

from ik_service.collision.shapes import Sphere
from ik_service.result_schema import ISLAND_COLUMNS, RESULT_COLUMNS
from ik_service.robots import World
from ik_service.service.pool.pool_limits import PoolLimits
from ik_service.service.pool.solver_pool import SolverPool
from ik_service.service.queue.errors import (
    ClosedError,
    ExpiredError,
    QueueFullError,
    ShareExhaustedError,
    SolverRestartingError,
)
from ik_service.service.queue.solve_request import SolveRequest
from ik_service.service.remote.messages import KnownThings
from ik_service.service.remote.pool_server import PoolServer
from ik_service.service.remote.solver_connection import SolverConnection
from ik_service.solver.given.options import SolverOptions
from ik_service.solver.given.target_arrays import TargetArrays
from ik_service.solver.given.targets import Target
from objectives.errors import InputError
from tests.bounded import run
from tests.service.pool.conftest import numbered, numbers_of

HOLDS_S = 60.0


class Service:
    """A pool behind its server, and fronts of it, in one event loop.

    Attributes:
        pool: The pool.
        forgotten: Robots that are no longer served.
    """

    def __init__(self, folder, pool):
        self.path, self.pool, self.forgotten = str(folder / "solver"), pool, []
        self._fronts = []

    async def __aenter__(self):
        self.begin()
        return self

    def begin(self):
        self.server = PoolServer(self.pool, self.forgotten.append)
        self.serving = asyncio.ensure_future(self.server.serve(self.path))

    async def break_off(self):
        """End as a process that is killed: all connections are closed."""
        self.serving.cancel()
        for end in list(self.server.ends):
            end.channel.close()
        await asyncio.sleep(0.01)

    async def front(self, limits=None):
        front, connected = SolverConnection(self.path, limits or PoolLimits()), asyncio.Event()
        self._fronts.append(front)
        front.events = []
        front.start(lambda _: (front.events.append("connected"), connected.set()), lambda: front.events.append("lost"))
        await connected.wait()
        return front

    async def __aexit__(self, *_):
        for front in self._fronts:
            front.close()
        await self.break_off()
        with contextlib.suppress(asyncio.CancelledError):
            await self.serving


def asked(panda, count, **options):
    """Reachable targets."""
    joint_q = panda.random_joint_q(np.random.default_rng(count), count)
    poses = panda.forward_kinematics(joint_q, ["panda_hand"])
    arrays = TargetArrays.of([poses.positions[:, 0]], [poses.orientations_xyzw[:, 0]])
    return SolveRequest((Target("panda_hand"),), arrays, options=SolverOptions(**options))


def assert_same(one, other, panda):
    compared = 0
    for owner, columns in ((lambda it: it, RESULT_COLUMNS), (lambda it: it.islands, ISLAND_COLUMNS)):
        for column in columns:
            left, right = getattr(owner(one), column.name), getattr(owner(other), column.name)
            assert (left is None) == (right is None)
            if left is not None:
                assert (left.dtype, left.shape, left.tobytes()) == (right.dtype, right.shape, right.tobytes())
                compared += left.size
    assert compared > 0
    for name in ("joint_names", "coordinate_names", "dof_names", "engine", "device", "seeds"):
        assert getattr(one, name) == getattr(other, name)
    assert one.islands.row_labels == other.islands.row_labels
    assert other.islands.robot is panda


def test_answers_are_those_of_the_pool(tmp_path, panda):
    pool = SolverPool("cpu", compile_apart=False)
    requests = [asked(panda, 1), asked(panda, 3), asked(panda, 5000), asked(panda, 2, solutions=3)]
    own = [pool.submit(panda, request).result(HOLDS_S).result for request in requests]

    async def ask():
        async with Service(tmp_path, pool) as service:
            front = await service.front()
            answers = await asyncio.gather(*(front.solve(panda, request) for request in requests))
            again = await front.solve(panda, requests[1])  # the other end knows the robot by now
            return [*(answer.result for answer in answers), again.result]

    remote = run(ask())
    pool.close()
    assert own[2].success.mean() > 0.9
    for one, other in zip([*own, own[1]], remote, strict=True):
        assert_same(one, other, panda)


def test_requests_of_several_fronts_are_one_batch(tmp_path, panda, make_pool):
    pool, cache = make_pool(gate=threading.Event())

    async def ask():
        async with Service(tmp_path, pool) as service:
            fronts = [await service.front() for _ in range(2)]
            first = fronts[0].solve(panda, numbered(0, 1))
            await asyncio.to_thread(cache.entered.wait, HOLDS_S)
            others = [front.solve(panda, numbered(k, 1)) for k, front in enumerate(fronts, start=1)]
            while pool.waiting_requests < 2:
                await asyncio.sleep(0.001)
            cache.gate.set()
            return [numbers_of(answer) for answer in await asyncio.gather(first, *others)]

    assert run(ask()) == [[0], [1], [2]]
    assert cache.batches == [[0.0], [1.0, 2.0]]


def test_shares_of_keys_hold_over_all_fronts(tmp_path, panda, make_pool):
    pool, cache = make_pool(limits=PoolLimits(requests=8, is_shared=True), gate=threading.Event())

    async def ask():
        async with Service(tmp_path, pool) as service:
            fronts = [await service.front() for _ in range(2)]
            begun = fronts[0].solve(panda, numbered(0, 1), owner="busy")
            await asyncio.to_thread(cache.entered.wait, HOLDS_S)
            busy = []
            for k in range(1, 7):  # in turns, one after the other
                busy.append(fronts[k % 2].solve(panda, numbered(k, 1), owner="busy"))
                while not busy[-1].done() and pool.waiting_requests < len(busy):
                    await asyncio.sleep(0.001)
            other = fronts[0].solve(panda, numbered(100, 1), owner="other")
            while pool.waiting_requests < 5:
                await asyncio.sleep(0.001)
            cache.gate.set()
            await begun
            return await asyncio.gather(*busy, return_exceptions=True), numbers_of(await other)

    busy, other = run(ask())
    kinds = [type(answer) for answer in busy if isinstance(answer, Exception)]
    assert kinds == [ShareExhaustedError] * 2  # half of 8 are free for others, whichever front asks
    assert other == [100]


@pytest.mark.parametrize(
    "error",
    [
        InputError("what the solver says"),
        QueueFullError("too much", "problems", 7),
        ExpiredError("late"),
    ],
)
def test_errors_arrive_as_they_are(tmp_path, panda, make_pool, error):
    pool, _ = make_pool(error=error)

    async def ask():
        async with Service(tmp_path, pool) as service:
            await (await service.front()).solve(panda, numbered(0, 1))

    with pytest.raises(type(error), match=str(error)) as found:
        run(ask())
    assert vars(found.value) == vars(error)


def test_an_error_that_is_none_of_ours_is_logged_where_it_was_raised(tmp_path, panda, make_pool, caplog):
    class OwnError(Exception):
        """No other process knows it."""

    pool, _ = make_pool(error=OwnError("secret"))

    async def ask():
        async with Service(tmp_path, pool) as service:
            await (await service.front()).solve(panda, numbered(0, 1))

    with pytest.raises(RuntimeError, match="OwnError: secret"):
        run(ask())
    assert any(record.exc_info and record.exc_info[0] is OwnError for record in caplog.records)


def test_what_is_cancelled_is_dropped_there_and_what_was_not_sent_stays_here(tmp_path, panda, make_pool):
    pool, cache = make_pool(gate=threading.Event())

    async def ask():
        async with Service(tmp_path, pool) as service:
            front = await service.front()
            first = front.solve(panda, numbered(0, 1))
            await asyncio.to_thread(cache.entered.wait, HOLDS_S)
            unsent, kept = front.solve(panda, numbered(7, 1)), front.solve(panda, numbered(8, 1))
            unsent.cancel()
            sent = front.solve(panda, numbered(9, 1))
            while pool.waiting_requests < 2:
                await asyncio.sleep(0.001)
            sent.cancel()
            (end,) = service.server.ends
            while len(end._open) > 2:
                await asyncio.sleep(0.001)
            cache.gate.set()
            assert numbers_of(await first) == [0]
            assert numbers_of(await kept) == [8]
            assert not front._open

    run(ask())
    assert cache.solved == {0, 8}


def test_the_end_of_the_solver_fails_what_is_under_way_and_a_new_one_is_found(tmp_path, panda, make_pool):
    pool, cache = make_pool(gate=threading.Event())
    new, _ = make_pool()

    async def ask():
        async with Service(tmp_path, pool) as service:
            front = await service.front()
            under_way = front.solve(panda, numbered(0, 1))
            await asyncio.to_thread(cache.entered.wait, HOLDS_S)
            await service.break_off()
            with pytest.raises(SolverRestartingError):
                await under_way
            assert not front.is_connected
            with pytest.raises(SolverRestartingError):
                front.require_room()
            with pytest.raises(SolverRestartingError):
                await front.solve(panda, numbered(1, 1))
            assert front.solving_s == front.waiting_requests == 0
            service.pool = new
            service.begin()
            while not front.is_connected:
                await asyncio.sleep(0.001)
            assert front.events == ["connected", "lost", "connected"]
            cache.gate.set()
            return numbers_of(await front.solve(panda, numbered(2, 1)))

    assert run(ask()) == [2]


def test_a_deadline_holds_while_the_other_process_says_nothing(tmp_path, panda):
    async def ask():
        loop = asyncio.get_running_loop()
        path = str(tmp_path / "silent")
        silent = await loop.create_unix_server(asyncio.Protocol, path)
        front, connected = SolverConnection(path, PoolLimits()), asyncio.Event()
        front.start(lambda _: connected.set(), lambda: None)
        await connected.wait()
        with pytest.raises(ExpiredError):
            await front.solve(panda, numbered(0, 1), timeout_s=0.05)
        assert front.solving_s > 0.05  # nothing was heard for as long
        front.close()
        silent.close()

    run(ask())


def test_after_its_end_a_front_says_that_the_service_ends(tmp_path, panda, make_pool):
    pool, cache = make_pool(gate=threading.Event())

    async def ask():
        async with Service(tmp_path, pool) as service:
            front = await service.front()
            under_way = front.solve(panda, numbered(0, 1))
            await asyncio.to_thread(cache.entered.wait, HOLDS_S)
            front.close()
            with pytest.raises(ClosedError, match="shutting down") as found:
                await under_way
            assert type(found.value) is ClosedError
            cache.gate.set()

    run(ask())


def test_those_without_an_event_loop_get_the_same_through_a_future(tmp_path, panda, make_pool):
    pool, _ = make_pool(refused=1.0)

    async def ask():
        async with Service(tmp_path, pool) as service:
            front = await service.front()
            futures = [front.submit(panda, numbered(k, 1), compile_here=True) for k in range(2)]
            assert all(isinstance(future, Future) for future in futures)
            return await asyncio.gather(*map(asyncio.wrap_future, futures), return_exceptions=True)

    answer, error = run(ask())
    assert numbers_of(answer) == [0]
    assert isinstance(error, InputError)


def test_robots_that_are_no_longer_served_are_forgotten_there(tmp_path, panda, make_pool):
    pool, _ = make_pool()

    async def ask():
        async with Service(tmp_path, pool) as service:
            front = await service.front()
            await front.solve(panda, numbered(0, 1), label="arm")
            assert service.server.served == {"arm"}
            front.forget("arm")
            while not service.forgotten:
                await asyncio.sleep(0.001)
            assert (service.server.served, service.forgotten) == (set(), ["arm"])

    run(ask())


def test_a_world_goes_once_and_is_the_same_for_all_its_requests(tmp_path, panda):
    worlds = []

    class Spy(SolverPool):
        def submit(self, robot, request, **options):
            worlds.append(request.world)
            assert request.batch_key is not None
            return super().submit(robot, request, **options)

    pool = Spy("cpu", compile_apart=False)
    world = World({"ball": Sphere(0.1, position=(0.0, 0.0, 2.0))})
    plain = asked(panda, 1, collision="world")
    request = SolveRequest(plain.targets, plain.arrays, options=plain.options, world=world)

    async def ask():
        async with Service(tmp_path, pool) as service:
            front = await service.front()
            own = await asyncio.wrap_future(pool.submit(panda, request))
            first, second = await front.solve(panda, request), await front.solve(panda, request)
            assert_same(own.result, first.result, panda)
            assert_same(own.result, second.result, panda)

    run(ask())
    pool.close()
    assert worlds[0] is world
    assert worlds[1] is worlds[2]
    assert worlds[1] is not world
    assert worlds[1].names == world.names


def test_both_ends_keep_the_same_things_whatever_is_used():
    here, there, sent = KnownThings(4), KnownThings(4), 0
    generator = np.random.default_rng(1)
    for key in generator.integers(0, 7, 500).tolist():
        message = here.sent(key, f"robot {key}")
        sent += message[1] is not None
        assert there.received(message) == f"robot {key}"
    assert 7 <= sent < 400
