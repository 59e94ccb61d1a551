"""Objectives of newton.ik run unchanged: built in, custom as in the examples, and of the Jacobian tests."""

import numpy as np
import pytest
import warp as wp

from ik_service import SolverOptions
from ik_service.solver.rows.blocks import BatchState, Rows, RowTapes
from objectives import IKJacobianType
from tests.lazy_module import LazyModule
from tests.solver.conftest import Reachable, cpu_solver

newton_ik, kernel_suite = LazyModule("newton.ik"), LazyModule("newton.tests.test_ik_fk_kernels")
example = LazyModule("newton.examples.ik.example_ik_custom")

MODES = ["analytic", "autodiff", "mixed"]


def options(mode, **changes):
    return SolverOptions(jacobian_mode=mode, **changes)


@pytest.mark.evidence
@pytest.mark.parametrize("mode", MODES)
def test_newton_position_and_rotation_objectives_converge(panda, mode):
    problems, (body, offset) = Reachable.draw(panda, ["panda_hand"], 20), panda.link_frame("panda_hand")
    positions = wp.array(problems.positions[:, 0], dtype=wp.vec3, device="cpu")
    orientations = wp.array(problems.orientations_xyzw[:, 0], dtype=wp.vec4, device="cpu")
    pose = [
        newton_ik.IKObjectivePosition(body, wp.vec3(*offset[:3]), positions),
        newton_ik.IKObjectiveRotation(body, wp.quat(*offset[3:]), orientations),
    ]
    near = problems.joint_q + np.random.default_rng(1).uniform(-0.15, 0.15, problems.joint_q.shape)
    solver = cpu_solver(panda, objectives=pose, options=options(mode, seeds=1))
    result = solver.solve(problem_count=20, initial_joint_q=near)
    distance, angle = problems.errors(result.joint_q)
    assert problems.errors(panda.clamp_joint_q(near))[0].max() > 0.05
    assert distance.max() < 1e-4
    assert angle.max() < 1e-3
    assert result.success.all()


def jacobian(robot, objectives, mode, joint_q):
    """Residuals and Jacobian of objectives in a mode, as the solver's engine evaluates them."""
    model, n = robot.on_device("cpu"), len(joint_q)
    rows, index = Rows(model, [], objectives, mode), wp.array(np.arange(n), dtype=wp.int32, device="cpu")
    rows.bind(n, index)
    poses = BatchState.allocate(model, n, rows.count, index, requires_grad=rows.has_gradients)
    poses.joint_q.assign(np.asarray(joint_q, np.float32))
    tapes = RowTapes(rows, poses)
    rows.compute_residuals(poses, tapes)
    residuals = poses.residuals.numpy().copy()
    twists = wp.zeros((n, model.joint_dof_count), dtype=wp.spatial_vector, device="cpu")
    out = wp.full((n, rows.count, model.joint_dof_count), 7.0, dtype=float, device="cpu")
    rows.compute_jacobian(poses, twists, out, tapes)
    return residuals, out.numpy()


def sphere(robot, weight=3.0):
    """The objective of `newton.examples.ik.example_ik_custom`, for the hand of a Panda."""
    body, offset = robot.link_frame("panda_hand")
    return example.CollisionSphereAvoidObjective(
        link_index=body,
        link_offset=wp.vec3(*offset[:3]),
        link_radius=0.10,
        obstacle_centers=wp.array([[0.45, 0.0, 0.5]] * 4, dtype=wp.vec3, device="cpu"),
        obstacle_radii=wp.array([0.08] * 4, dtype=wp.float32, device="cpu"),
        weight=weight,
    )


def newton_position(robot, count=4):
    body, offset = robot.link_frame("panda_hand")
    targets = wp.array([[0.45, 0.0, 0.5]] * count, dtype=wp.vec3, device="cpu")
    return newton_ik.IKObjectivePosition(body, wp.vec3(*offset[:3]), targets)


@pytest.mark.evidence
@pytest.mark.parametrize("mode", MODES)
def test_the_custom_objective_of_newton_keeps_the_hand_off_the_sphere(panda, mode):
    model, start = panda.on_device("cpu"), np.tile(panda.mid_joint_q, (4, 1))

    def solve(weight):
        limits = newton_ik.IKObjectiveJointLimit(model.joint_limit_lower, model.joint_limit_upper, weight=10.0)
        objectives = [newton_position(panda), sphere(panda, weight), limits]
        solver = cpu_solver(panda, objectives=objectives, options=options(mode, seeds=1))
        result = solver.solve(problem_count=4, initial_joint_q=start)
        assert solver.engine == "staged"
        hand = panda.forward_kinematics(result.joint_q, ["panda_hand"]).positions[:, 0]
        return np.linalg.norm(hand - [0.45, 0.0, 0.5], axis=1)

    assert solve(0.0).max() < 1e-3
    # 1/2 d^2 + 1/2 (3 pen(d))^2, pen(d) = 0.12 log(1 + exp((0.18 - d) / 0.12)), the hand d away: least over a scan
    d = np.linspace(0.0, 1.0, 100_001)
    penalty = 3.0 * 0.12 * np.log1p(np.exp((0.18 - d) / 0.12))
    expected = d[np.argmin(d * d + penalty * penalty)]
    assert expected > 0.1
    np.testing.assert_allclose(solve(3.0), expected, atol=1e-3)


def test_an_objective_of_the_suite_that_writes_its_own_jacobian_is_called(planar_2r):
    """It overrides both hooks, so neither is replaced."""
    called = []

    class Watched(kernel_suite._NoopObjective):
        def compute_jacobian_autodiff(self, *arguments):
            called.append(len(arguments))

    jacobian(planar_2r(), [Watched()], IKJacobianType.AUTODIFF, [[0.1, 0.2]])
    assert called == [5]
