"""Robots on which the objectives are tried, and the arrays around an objective that a solver would hold."""

from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
import pytest
import warp as wp

from ik_service.kinematics.device_kinematics import forward_kinematics, integrate, motion_subspace
from ik_service.robots import RobotModel
from ik_service.robots.readers.catalog import load_robot, load_urdf
from objectives import IKJacobianType, IKObjective
from tests.robots.urdf_text import joint, urdf

GUARD, POISON = 3, 777.0  # rows around an objective's block, and what stands there

FLOATING = urdf(
    "floating",
    "world",
    joint("base", "floating", "world", "a", "0.1 0.2 0.3", "0.3 0.2 0.1"),
    joint("slide", "planar", "a", "b", "0 0 0.2", "0.5 0 0", "0 1 1"),
    joint("turn", "continuous", "b", "c", "0.1 0 0.2", axis="1 2 3"),
    joint("lift", "prismatic", "c", "d", axis="0 1 1", limit=(-0.2, 0.4, 1)),
    joint("bend", "revolute", "b", "e", "0 0.3 0", axis="0 -1 0", limit=(-1, 2, 1)),
    joint("round", "ball", "e", "f", "0 0 0.3", "0 0.4 0"),
)
TWO_TREES = urdf(
    "two_trees",
    "ground",
    joint("left_1", "revolute", "ground", "l1", "0 0.4 0.2", axis="0 0 1", limit=(-2, 2, 1)),
    joint("left_2", "revolute", "l1", "l2", "0.1 0 0.3", "1 0 0", "0 1 0", (-1, 2.5, 1)),
    joint("left_3", "revolute", "l2", "l3", "0.3 0 0", "", "1 0 1", (-2, 2, 1), ("left_2", -0.5, 0.2)),
    joint("left_mount", "fixed", "l3", "l_tool", "0.15 0.1 0", "0 0.7 0.2"),
    joint("right_1", "ball", "ground", "r1", "0 -0.4 0.2"),
    joint("right_2", "continuous", "r1", "r2", "0 0 0.4", "0 1 0", "1 0 0"),
    joint("right_3", "prismatic", "r2", "r3", "0.2 0 0", axis="0 0 1", limit=(-0.1, 0.3, 1)),
    joint("right_mount", "fixed", "r3", "r_tool", "0 0.1 0"),
)


@dataclass(frozen=True)
class Scene:
    """A robot and the links that the objectives use on it."""

    name: str
    robot: RobotModel
    tip: str
    other: str
    root: str  # a link that nothing moves
    inner_joints: tuple[str, ...]  # some of its joints


def weighed(robot: RobotModel) -> RobotModel:
    """The same robot with masses made up for it: of static, moving and folded links, and some links without."""
    rng, count = np.random.default_rng(17), len(robot.link_names)
    masses = np.where(np.arange(count) % 4 == 3, 0.0, rng.uniform(0.5, 3.0, count))
    return replace(robot, link_mass=masses, link_com=rng.normal(0.0, 0.1, (count, 3)))


@cache
def scene(name: str) -> Scene:
    if name == "fixed":
        panda = weighed(load_robot("panda", collision="ignore"))
        return Scene(name, panda, "panda_hand", "panda_link3", "panda_link0", ("panda_joint2",))
    if name == "floating":
        return Scene(name, weighed(load_urdf(FLOATING)), "d", "f", "world", ("base", "lift"))
    return Scene(name, weighed(load_urdf(TWO_TREES)), "l_tool", "r_tool", "ground", ("left_3", "right_1"))


@pytest.fixture
def panda():
    return scene("fixed").robot


@dataclass
class Workplace:
    """What a solver holds for one objective: a block inside larger arrays, on the CPU."""

    robot: RobotModel
    objective: IKObjective
    joint_q: np.ndarray  # [n, joint_coord_count]
    problem_idx: np.ndarray  # [n]
    arrays: dict = field(default_factory=dict)

    def __post_init__(self):
        self.joint_q = np.atleast_2d(self.joint_q).astype(np.float32)
        self.model = self.robot.on_device("cpu")
        self.objective.bind_solver(self)
        self.objective.bind_model(self.model)
        self.rows = self.objective.residual_dim()
        self.index = wp.array(np.asarray(self.problem_idx), dtype=wp.int32, device="cpu")

    def bind(self, mode):
        """Call the hooks in their order."""
        self.objective.set_batch_layout(self.rows + 2 * GUARD, GUARD, len(self.joint_q))
        self.objective.bind_device("cpu")
        self.objective.bind_problem_index(self.index)
        self.objective.init_buffers(self.model, mode)

    def poses(self, joint_q, *, requires_grad=False):
        n, model = joint_q.shape[0], self.model
        body_q = wp.zeros((n, model.body_count), dtype=wp.transform, device="cpu", requires_grad=requires_grad)
        forward_kinematics(model, joint_q, body_q)
        return body_q

    def compute_residuals(self, joint_q, *, requires_grad=False, index=None):
        n = joint_q.shape[0]
        poisoned = np.full((n, self.rows + 2 * GUARD), POISON, dtype=np.float32)
        out = wp.array(poisoned, dtype=float, device="cpu", requires_grad=requires_grad)
        body_q = self.poses(joint_q, requires_grad=requires_grad)
        self.objective.compute_residuals(
            body_q, joint_q, self.model, out, GUARD, self.index if index is None else index
        )
        return out

    def residuals(self):
        """Residuals with their guard columns, [n, GUARD + rows + GUARD]."""
        self.bind(IKJacobianType.ANALYTIC)
        return self.compute_residuals(wp.array(self.joint_q, dtype=float, device="cpu")).numpy().copy()

    def analytic(self):
        """Analytic Jacobian with its guard rows, [n, GUARD + rows + GUARD, joint_dof_count]."""
        self.bind(IKJacobianType.ANALYTIC)
        joint_q = wp.array(self.joint_q, dtype=float, device="cpu")
        body_q = self.poses(joint_q)
        shape = (len(self.joint_q), self.model.joint_dof_count)
        joint_S_s = wp.zeros(shape, dtype=wp.spatial_vector, device="cpu")
        motion_subspace(self.model, body_q, joint_S_s)
        jacobian = self.empty_jacobian()
        self.objective.compute_jacobian_analytic(body_q, joint_q, self.model, jacobian, joint_S_s, GUARD)
        return jacobian.numpy().copy()

    def autodiff(self, *, graph=False):
        """Jacobian by autodiff with its guard rows, [n, GUARD + rows + GUARD, joint_dof_count]."""
        self.bind(IKJacobianType.AUTODIFF)
        start = wp.array(self.joint_q, dtype=float, device="cpu")
        shape = (len(self.joint_q), self.model.joint_dof_count)
        dq = wp.zeros(shape, dtype=float, device="cpu", requires_grad=True)
        joint_q = wp.zeros(self.joint_q.shape, dtype=float, device="cpu", requires_grad=True)
        jacobian = self.empty_jacobian()
        tape = wp.Tape()
        with tape:
            integrate(self.model, start, dq, joint_q)
            residuals = self.compute_residuals(joint_q, requires_grad=True)
        tape.outputs = [residuals.flatten()]
        recorded = wp.ScopedCapture(device="cpu") if graph else nullcontext()
        with recorded:
            self.objective.compute_jacobian_autodiff(tape, self.model, jacobian, GUARD, dq)
        if graph:
            assert (jacobian.numpy()[:, GUARD:-GUARD] == 0.0).all()  # recorded, not run
            wp.capture_launch(recorded.graph)
        assert all(not gradient.numpy().any() for gradient in tape.gradients.values())
        return jacobian.numpy().copy()

    def empty_jacobian(self):
        values = np.full((len(self.joint_q), self.rows + 2 * GUARD, self.model.joint_dof_count), POISON, np.float32)
        values[:, GUARD:-GUARD] = 0.0
        return wp.array(values, dtype=float, device="cpu")


@pytest.fixture
def workplace():
    """The class, for tests that place an objective themselves."""
    return Workplace
