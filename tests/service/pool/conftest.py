"""Pools over a cache as slow or wrong as a test wants; requests whose answers tell which problem they are for."""

import threading
import time
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from ik_service import IKSolver, load_robot
from ik_service.robots import load_urdf
from ik_service.service.pool.solver_pool import SolverPool
from ik_service.service.queue.solve_request import SolveRequest
from ik_service.solver.given.batch import Batch
from ik_service.solver.given.options import SolverOptions
from ik_service.solver.given.targets import Target

PATIENCE = 60


@pytest.fixture(scope="session")
def panda():
    return load_robot("panda")


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
            assert self.gate.wait(60)
        if self.error is not None:
            raise self.error
        numbers = np.concatenate([request.batch.positions[0][:, 0] for request in requests])
        if self.refused is not None and self.refused in numbers:
            raise_input_error()
        self.batches.append(numbers.tolist())
        time.sleep(self.seconds + len(numbers) * self.seconds_per_problem)
        return self.result(numbers)

    @property
    def solved(self):
        """Numbers of all problems so far."""
        return {number for batch in self.batches for number in batch}

    def result(self, numbers):
        n, one = len(numbers), self.template
        columns = {
            name: np.repeat(getattr(one, name), n, axis=0)
            for name in ("success", "status", "position_error", "orientation_error", "cost", "iterations")
        }
        others = ("seed_index", "active_limits", "limit_margin")
        columns |= {name: np.repeat(getattr(one, name), n, axis=0) for name in others}
        island_names = ("nisland", "tree_island", "row_island", "success", "status", "seed_index", "iterations", "cost")
        islands = {name: np.repeat(getattr(one.islands, name), n, axis=0) for name in island_names}
        joint_q = np.zeros((n, 7), np.float32)
        joint_q[:, 0] = numbers
        return replace(one, joint_q=joint_q, islands=replace(one.islands, **islands), **columns)


class Clock:
    """The time of day for a pool, which a test lets pass."""

    def __init__(self):
        self.passed_s = 0.0

    def monotonic(self):
        return time.monotonic() + self.passed_s


@pytest.fixture
def clock(monkeypatch):
    """A clock that pools go by, where they look at the time."""
    clock = Clock()
    for module in ("solver_pool", "batch_runner", "kernel_gate"):
        monkeypatch.setattr(f"ik_service.service.pool.{module}.time", clock)
    return clock


def raise_input_error():
    from objectives.errors import InputError

    raise InputError("A number that is not allowed.")


def solved_by(pool, robot, request):
    """Submit a request and wait for its answer."""
    return pool.submit(robot, request).result(PATIENCE)


def numbers_of(answer):
    return answer.result.joint_q[:, 0].tolist()


@pytest.fixture
def make_pool(template):
    """Pools over fake caches, closed in the end whatever happens."""
    pools = []

    def make(limits=None, observer=None, **fake):
        pool = SolverPool("cpu", limits=limits, compile_apart=False, observer=observer)
        pool._runner.solver_cache = FakeSolverCache(template, **fake)
        pools.append(pool)
        return pool, pool._runner.solver_cache

    yield make
    for pool in pools:
        if pool._runner.solver_cache.gate is not None:
            pool._runner.solver_cache.gate.set()
        pool.close()
