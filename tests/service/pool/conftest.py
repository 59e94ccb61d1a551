"""Pools over a cache as slow or wrong as a test wants; requests whose answers tell which problem they are for."""

import threading
import time
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from ik_service import IKSolver
from ik_service.robots import load_urdf
from ik_service.service.pool.kernel_builder import BuildEnd
from ik_service.service.pool.solver_pool import SolverPool
from ik_service.service.queue.solve_request import SolveRequest
from ik_service.solver.given.batch import Batch
from ik_service.solver.given.options import SolverOptions
from ik_service.solver.given.targets import Target
from objectives.errors import InputError
from tests.bounded import PATIENCE_S


@pytest.fixture(scope="session")
def template(panda):
    """A result of one problem, to be filled with other numbers."""
    poses = panda.forward_kinematics(panda.mid_joint_q, links=["panda_hand"])
    return IKSolver(panda, ["panda_hand"], device="cpu").solve(poses.positions, poses.orientations_xyzw)


def chain_urdf(dofs):
    """A chain of revolute joints."""
    links = "".join(f'<link name="l{k}"/>' for k in range(dofs + 1))
    joints = "".join(
        f'<joint name="j{k}" type="revolute"><parent link="l{k}"/><child link="l{k + 1}"/><origin xyz="0 0 .05"/>'
        f'<axis xyz="{k % 2} {1 - k % 2} 0"/><limit lower="-1" upper="1"/></joint>'
        for k in range(dofs)
    )
    return f'<robot name="chain">{links}{joints}</robot>'.encode()


def chain(dofs):
    return load_urdf(chain_urdf(dofs))


def numbered(first, count, *, link="panda_hand", weights=None, seeds=None):
    """A request whose k-th problem asks for x = first + k."""
    positions = np.zeros((count, 3))
    positions[:, 0] = first + np.arange(count)
    arrays = Batch.of([positions], [np.tile([0.0, 0.0, 0.0, 1.0], (count, 1))])
    return SolveRequest((Target(link, row_weights=weights),), arrays, options=SolverOptions(seeds=seeds))


@dataclass
class FakeSolverCache:
    """Answers every problem with its own number in the first column of joint_q."""

    template: object
    seconds: float = 0.0
    seconds_per_problem: float = 0.0
    batches: list = field(default_factory=list)  # numbers of the problems, batch by batch
    gate: threading.Event | None = None
    entered: threading.Event = field(default_factory=threading.Event)
    error: Exception | None = None
    refused: float | None = None  # a number that is not allowed
    lost: str | None = None  # a device that works no more

    def lost_device(self):
        return self.lost

    def solve_together(self, robot, requests, owner=None):
        self.entered.set()
        if self.gate is not None:
            assert self.gate.wait(PATIENCE_S)
        if self.error is not None:
            raise self.error
        numbers = np.concatenate([request.batch.positions[0][:, 0] for request in requests])
        if self.refused is not None and self.refused in numbers:
            raise InputError("A number that is not allowed.")
        self.batches.append(numbers.tolist())
        time.sleep(self.seconds + len(numbers) * self.seconds_per_problem)
        return self.result(numbers)

    @property
    def solved(self):
        """Numbers of all problems so far."""
        return {number for batch in self.batches for number in batch}

    def result(self, numbers):
        n, one = len(numbers), self.template

        def repeated(columns, names):
            return {name: np.repeat(getattr(columns, name), n, axis=0) for name in names.split()}

        found = "success status seed_index iterations cost"
        columns = repeated(one, f"{found} position_error orientation_error active_limits limit_margin")
        islands = replace(one.islands, **repeated(one.islands, f"{found} nisland tree_island row_island"))
        joint_q = np.zeros((n, 7), np.float32)
        joint_q[:, 0] = numbers
        return replace(one, joint_q=joint_q, islands=islands, **columns)


class SlowBuilder:
    """Compiles nothing until it is told to, or has everything compiled."""

    def __init__(self, *, at_once=False):
        self.asked, self._at_once = [], at_once

    def build(self, robot, request, done, owners, *, owner):
        if self._at_once:
            done(BuildEnd.COMPILED)
        else:
            self.asked.append((robot, request, done, owners))

    def end(self, how=BuildEnd.COMPILED):
        """End the build that was asked for last."""
        self.asked.pop()[2](how)

    def seconds_left(self, owner):
        return 6.5

    def close(self):
        for _, _, done, _ in self.asked:
            done(BuildEnd.COMPILED)


class Clock:
    """The time of day for a pool, which a test lets pass."""

    def __init__(self):
        self.passed_s = 0.0

    thread_time = staticmethod(time.thread_time)

    def monotonic(self):
        return time.monotonic() + self.passed_s


@pytest.fixture
def clock(monkeypatch):
    """A clock that pools go by, where they look at the time."""
    clock = Clock()
    for module in ("solver_pool", "batch_runner", "kernel_gate"):
        monkeypatch.setattr(f"ik_service.service.pool.{module}.time", clock)
    return clock


def solved_by(pool, robot, request):
    """Submit a request and wait for its answer."""
    return pool.submit(robot, request).result(PATIENCE_S)


def numbers_of(answer):
    return answer.result.joint_q[:, 0].tolist()


def answers(*futures):
    """Numbers of the problems that futures answer."""
    return [numbers_of(future.result(PATIENCE_S)) for future in futures]


@pytest.fixture
def held(make_pool, panda):
    """Makes a pool whose thread stands in a first solve until the gate opens."""

    def make(**arguments):
        pool, cache = make_pool(gate=threading.Event(), **arguments)
        first = pool.submit(panda, numbered(-1, 1))
        assert cache.entered.wait(PATIENCE_S)
        return pool, cache, first

    return make


@pytest.fixture
def make_pool(template):
    """Pools over fake caches, closed in the end whatever happens."""
    pools = []

    def make(limits=None, observer=None, builder=None, **fake):
        pool = SolverPool("cpu", limits=limits, compile_apart=False, observer=observer)
        pool._runner.solver_cache = FakeSolverCache(template, **fake)
        if builder is not None:
            pool._gate.builder = builder
        pools.append(pool)
        return pool, pool._runner.solver_cache

    yield make
    for pool in pools:
        if pool._runner.solver_cache.gate is not None:
            pool._runner.solver_cache.gate.set()
        pool.close()
