"""Robots and problems that the solver's tests share."""

import threading
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from ik_service import IKSolver, RobotModel, load_robot
from ik_service.kernels import host_device_array
from ik_service.solver import recording
from ik_service.solver.compiled import island_launches

PLANAR_2R = """
<robot name="planar_2r">
  <link name="base"/><link name="upper"/><link name="fore"/><link name="tip"/>
  <joint name="shoulder" type="revolute"><parent link="base"/><child link="upper"/><axis xyz="0 0 1"/>
    <limit lower="-3.1" upper="3.1" effort="1" velocity="1"/></joint>
  <joint name="elbow" type="revolute"><parent link="upper"/><child link="fore"/><origin xyz="1 0 0"/><axis xyz="0 0 1"/>
    <limit lower="{elbow_lower}" upper="{elbow_upper}" effort="1" velocity="1"/></joint>
  <joint name="mount" type="fixed"><parent link="fore"/><child link="tip"/><origin xyz="1 0 0"/></joint>
</robot>
"""


POSITION, ORIENTATION = 1e-3, 1e-2  # [m], [rad], the default tolerances
EACH_ENGINE = pytest.mark.parametrize("engine", ["compiled", "staged"])
STAGED_QUICK = pytest.mark.parametrize("engine", [pytest.param("compiled", marks=pytest.mark.evidence), "staged"])


@cache
def bare_robot(name):
    """A built-in robot without collision shapes, loaded once."""
    return load_robot(name, collision="ignore")


def cpu_solver(robot, targets=(), **arguments):
    return IKSolver(robot, targets, **{"device": "cpu"} | arguments)


def poses_of(robot, joint_q, links):
    """Positions and orientations of one link, [n, 3] and [n, 4], or of a list, [n, links, 3] and [n, links, 4]."""
    poses = robot.forward_kinematics(joint_q, [links] if isinstance(links, str) else list(links))
    return [one[:, 0] if isinstance(links, str) else one for one in (poses.positions, poses.orientations_xyzw)]


def pose_of(robot, joint_q, link):
    """Poses of a link, [n, 7]; of the world, for None."""
    if link is None:
        return np.tile([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0], (len(joint_q), 1))
    return np.concatenate(poses_of(robot, joint_q, link), axis=1)


@dataclass(frozen=True)
class Reachable:
    """Targets drawn by float64 forward kinematics: positions [n, links, 3] and orientations_xyzw [n, links, 4]."""

    robot: RobotModel
    links: list[str]
    joint_q: np.ndarray
    positions: np.ndarray
    orientations_xyzw: np.ndarray

    @classmethod
    def draw(cls, robot, links, count, random_seed=0):
        joint_q = robot.random_joint_q(np.random.default_rng(random_seed), count)
        poses = robot.forward_kinematics(joint_q, links)
        return cls(robot, links, joint_q, poses.positions, poses.orientations_xyzw)

    def errors(self, joint_q):
        """Position [m] and rotation [rad] errors, [n, links], written apart from the solver's own judge."""
        poses = self.robot.forward_kinematics(joint_q, self.links)
        distance = np.linalg.norm(poses.positions - self.positions, axis=-1)
        sign = np.sign((poses.orientations_xyzw * self.orientations_xyzw).sum(axis=-1, keepdims=True))
        chord = np.linalg.norm(poses.orientations_xyzw * sign - self.orientations_xyzw, axis=-1)
        return distance, 4.0 * np.arcsin(np.minimum(0.5 * chord, 1.0))

    @property
    def targets(self):
        return self.positions, self.orientations_xyzw

    def part(self, rows):
        """Some of the problems, by their numbers or a slice."""
        return Reachable(self.robot, self.links, *(one[rows] for one in (self.joint_q, *self.targets)))

    def met(self, joint_q):
        """Whether all targets of a problem are within the default tolerances, [n]."""
        distance, angle = self.errors(joint_q)
        return ((distance <= POSITION) & (angle <= ORIENTATION)).all(axis=1)

    def check_honest(self, result):
        """Check that successes are the problems whose targets are met, and that all answers are inside the limits."""
        np.testing.assert_array_equal(result.success, self.met(result.joint_q))
        assert inside_limits(self.robot, result.joint_q).all()


def assert_same_bytes(a, b):
    for name in ("joint_q", "success", "status", "cost", "iterations", "seed_index", "position_error"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)


def inside_limits(robot, joint_q):
    """Whether every coordinate with a DOF of its own is inside the float64 limits, without slack, [n]."""
    own = robot.dof_coordinate >= 0
    q = joint_q[:, robot.dof_coordinate[own]].astype(np.float64)
    return ((q >= robot.joint_limit_lower[own]) & (q <= robot.joint_limit_upper[own])).all(axis=1)


@pytest.fixture
def planar_2r(tmp_path):
    """Make a planar arm of two links of 1 m, with chosen limits of the elbow."""

    def make(elbow_lower=-3.1, elbow_upper=3.1):
        path = tmp_path / "planar_2r.urdf"
        path.write_text(PLANAR_2R.format(elbow_lower=elbow_lower, elbow_upper=elbow_upper))
        return load_robot(path)

    return make


@pytest.fixture(scope="session")
def panda():
    return bare_robot("panda")


@pytest.fixture(scope="session")
def dual_panda():
    return bare_robot("dual_panda")


@pytest.fixture(scope="session")
def humanoid():
    return bare_robot("humanoid")


@pytest.fixture(scope="session")
def panda_targets(panda):
    return Reachable.draw(panda, ["panda_hand"], 200)


@pytest.fixture
def small_parts(monkeypatch):
    """Splits few problems among threads, too."""
    monkeypatch.setattr(recording, "PART_MIN", 8)


def use_threads(monkeypatch):
    """Solve as on a GPU from here on: by threads, and with arrays that host and device do not share."""
    monkeypatch.setattr(island_launches, "in_threads", lambda device: True)
    monkeypatch.setattr(host_device_array, "has_host_copy", lambda device: True)


@pytest.fixture
def threads(monkeypatch):
    """Has the compiled engine solve as on a GPU."""
    use_threads(monkeypatch)


@pytest.fixture(params=["packets", "threads"])
def each_kernel(request, monkeypatch):
    """Runs a test with the compiled engine as on a CPU, and again as on a GPU."""
    if request.param == "threads":
        use_threads(monkeypatch)
    return request.param


def in_threads(work, count):
    """Call a function in several threads at once."""
    workers = [threading.Thread(target=work) for _ in range(count)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def use_engine(name, monkeypatch):
    if name == "threads":
        use_threads(monkeypatch)
    engine = "staged" if name == "staged" else "auto"
    monkeypatch.setitem(IKSolver.__init__.__kwdefaults__, "engine", engine)
    return name


@pytest.fixture(params=["auto", "staged"])
def each_engine(request, monkeypatch):
    """Runs a test with the engine that is chosen by itself, and again with the staged one."""
    return use_engine(request.param, monkeypatch)


@pytest.fixture(params=["auto", "staged", "threads"])
def each_way(request, monkeypatch):
    """Runs a test with the engine that is chosen by itself, and as on a GPU with the staged one and by threads."""
    if request.param == "staged":
        monkeypatch.setattr(host_device_array, "has_host_copy", lambda device: True)
    return use_engine(request.param, monkeypatch)
