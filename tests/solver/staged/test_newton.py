"""Objects of newton.ik run unchanged, and the cases of its Levenberg-Marquardt tests hold here.

Its custom objective comes from its examples, and the objectives of its Jacobian tests from its suite. Its other tests
build robots by `newton.ModelBuilder` and call its solver; the same cases stand here on robots of ours. Cases for joints
that we do not have (D6 with three angles, DISTANCE, loop joints) and for L-BFGS have no counterpart; forward kinematics
by Newton's own kernel is in tests/robots/test_device_model.py.
"""

import newton.ik
import newton.tests.test_ik as suite
import newton.tests.test_ik_fk_kernels as kernel_suite
import numpy as np
import pytest
import warp as wp
from newton.examples.ik.example_ik_custom import CollisionSphereAvoidObjective

from ik_service import SolverOptions
from ik_service.robots import load_urdf
from ik_service.solver.rows.blocks import BatchState, Rows, RowTapes
from objectives import IKJacobianType, IKObjectivePose, IKObjectivePosition
from tests.solver.conftest import STAGED_QUICK, Reachable, cpu_solver

MODES = ["analytic", "autodiff", "mixed"]
DIFFERENCE = 1e-3  # [rad] a step over which float32 residuals of about 1 differ by some 1e4 roundings
BY_DIFFERENCES = 1e-3  # rounding of float32 over that step, and the curvature along it
SUITE_TOLERANCE = 1e-4  # that of Newton's own suite
FREE_AND_REVOLUTE = """
<robot name="free_and_revolute">
  <link name="world"/><link name="body"/><link name="arm"/>
  <joint name="free" type="floating"><parent link="world"/><child link="body"/></joint>
  <joint name="hinge" type="revolute"><parent link="body"/><child link="arm"/><origin xyz="0.5 0 0"/><axis xyz="0 0 1"/>
    <limit lower="-3" upper="3" effort="1" velocity="1"/></joint>
</robot>
"""
DESCENDANT_FREE = """
<robot name="descendant_free">
  <link name="world"/><link name="base"/><link name="body"/>
  <joint name="turn" type="continuous"><parent link="world"/><child link="base"/>
    <origin xyz="0.2 -0.1 0.3" rpy="0.15 0.1 0.5"/><axis xyz="0 0 1"/></joint>
  <joint name="free" type="floating"><parent link="base"/><child link="body"/>
    <origin xyz="0.7 -0.2 0.4" rpy="0.1 0.6 -0.2"/></joint>
</robot>
"""


def options(mode, **changes):
    return SolverOptions(jacobian_mode=mode, **changes)


@pytest.mark.evidence
@pytest.mark.parametrize("mode", MODES)
def test_newton_position_and_rotation_objectives_converge(panda, mode):
    problems, (body, offset) = Reachable.draw(panda, ["panda_hand"], 20), panda.link_frame("panda_hand")
    positions = wp.array(problems.positions[:, 0], dtype=wp.vec3, device="cpu")
    orientations = wp.array(problems.orientations_xyzw[:, 0], dtype=wp.vec4, device="cpu")
    pose = [
        newton.ik.IKObjectivePosition(body, wp.vec3(*offset[:3]), positions),
        newton.ik.IKObjectiveRotation(body, wp.quat(*offset[3:]), orientations),
    ]
    near = problems.joint_q + np.random.default_rng(1).uniform(-0.15, 0.15, problems.joint_q.shape)
    solver = cpu_solver(panda, objectives=pose, options=options(mode, seeds=1))
    result = solver.solve(problem_count=20, initial_joint_q=near)
    distance, angle = problems.errors(result.joint_q)
    assert problems.errors(panda.clamp_joint_q(near))[0].max() > 0.05
    assert distance.max() < 1e-4
    assert angle.max() < 1e-3
    assert result.success.all()


@pytest.mark.evidence
@pytest.mark.parametrize("mode", MODES)
def test_newton_limit_objective_holds_back_a_target_past_the_limit(planar_2r, mode):
    robot = planar_2r(elbow_lower=-2.0, elbow_upper=1.0)
    model = robot.on_device("cpu")
    target = wp.array([[0.0, 1.2, 0.0]] * 3, dtype=wp.vec3, device="cpu")  # asks for an elbow of 1.85
    body, offset = robot.link_frame("tip")

    def solve(weight):
        objectives = [
            newton.ik.IKObjectivePosition(body, wp.vec3(*offset[:3]), target),
            newton.ik.IKObjectiveJointLimit(model.joint_limit_lower, model.joint_limit_upper, weight=weight),
        ]
        chosen = options(mode, joint_limits="off", seeds=1)
        solver = cpu_solver(robot, objectives=objectives, options=chosen)
        return solver.solve(problem_count=3, initial_joint_q=[0.3, 0.5])

    free, held = solve(1e-6), solve(100.0)
    assert (free.joint_q[:, 1] > 1.5).all()
    np.testing.assert_allclose(held.joint_q[:, 1], 1.0, atol=1e-3)
    assert held.success.all()


def free_and_hinge(planar_2r):
    return load_urdf(FREE_AND_REVOLUTE), IKObjectivePosition("arm", [1.0, 1.0, 0.0], offset=(1, 0, 0, 0, 0, 0, 1)), None


def below_a_rotated_anchor(planar_2r):
    tool = (0.15, -0.05, 0.2, 0.0, 0.0, np.sin(0.45), np.cos(0.45))
    pose = IKObjectivePose("body", [0.3, 0.5, 0.8], [0.0, np.sin(0.6), 0.0, np.cos(0.6)], offset=tool)
    return load_urdf(DESCENDANT_FREE), pose, None


def planar_arm_from_zero(planar_2r):
    return planar_2r(), IKObjectivePosition("tip", [1.5, 1.0, 0.0]), [0.0, 0.0]


@pytest.mark.quick_cases(*(f"planar_arm_from_zero-{mode}" for mode in MODES))
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "case", [planar_arm_from_zero, free_and_hinge, below_a_rotated_anchor], ids=lambda case: case.__name__
)
def test_objectives_of_ours_converge(planar_2r, case, mode):
    """A free base with a hinge, and a free joint below a rotated anchor, among them."""
    robot, objective, start = case(planar_2r)
    solver = cpu_solver(robot, objectives=[objective], options=options(mode, seeds=1))
    result = solver.solve(problem_count=1, initial_joint_q=start)
    assert result.success.all()
    assert result.cost[0] < 1e-8
    for first in robot.quaternion_starts.values():
        np.testing.assert_allclose(np.linalg.norm(result.joint_q[:, first : first + 4], axis=1), 1.0, atol=1e-6)


@STAGED_QUICK
def test_frozen_joints_stay_to_the_bit_and_the_free_one_reaches_its_optimum(planar_2r, engine):
    """The case of `joint_dof_mask`: what is masked stays where each problem has it."""
    start = np.array([[0.4, 0.0], [-0.2, 0.1]], np.float32)
    targets = np.array([[1.0, 1.0, 0.0], [0.5, 1.2, 0.0]])
    robot = planar_2r().lock({"shoulder": 0.0})
    result = cpu_solver(robot, ["tip"], engine=engine).solve(targets, initial_joint_q=start)
    np.testing.assert_array_equal(result.joint_q[:, 0], start[:, 0])
    for k in range(2):
        elbow = np.linspace(-3.1, 3.1, 20001)
        x = np.cos(start[k, 0]) + np.cos(start[k, 0] + elbow)
        y = np.sin(start[k, 0]) + np.sin(start[k, 0] + elbow)
        best = np.hypot(x - targets[k, 0], y - targets[k, 1]).min()
        assert best - 1e-6 <= result.position_error[k, 0] < best + 1e-3


def test_all_joints_active_equals_no_choice_at_all(planar_2r):
    robot = planar_2r()
    both = robot, robot.activate(["shoulder", "elbow"])
    np.testing.assert_array_equal(*(cpu_solver(one, ["tip"]).solve([[0.7, 0.9, 0.0]]).joint_q for one in both))


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
    return CollisionSphereAvoidObjective(
        link_index=body,
        link_offset=wp.vec3(*offset[:3]),
        link_radius=0.10,
        obstacle_centers=wp.array([[0.45, 0.0, 0.5]] * 4, dtype=wp.vec3, device="cpu"),
        obstacle_radii=wp.array([0.08] * 4, dtype=wp.float32, device="cpu"),
        weight=weight,
    )


@pytest.mark.evidence
@pytest.mark.parametrize("mode", list(IKJacobianType))
def test_the_custom_objective_of_newton_is_differentiated_in_every_mode(panda, mode):
    """It has no backward pass of its own: that of newton.ik.IKObjective raises."""
    with pytest.raises(NotImplementedError):
        sphere(panda).compute_jacobian_autodiff(None, None, None, 0, None)
    joint_q = panda.random_joint_q(np.random.default_rng(2), 4)
    _, by_tape = jacobian(panda, [newton_position(panda), sphere(panda)], mode, joint_q)
    for dof in range(panda.joint_dof_count):
        step = np.zeros(panda.joint_dof_count)
        step[dof] = DIFFERENCE
        ends = [jacobian(panda, [sphere(panda)], mode, panda.integrate(joint_q, s * step))[0] for s in (1.0, -1.0)]
        expected = (ends[0] - ends[1])[:, 0] / (2.0 * DIFFERENCE)
        np.testing.assert_allclose(by_tape[:, 3, dof], expected, atol=BY_DIFFERENCES)
    assert np.abs(by_tape[:, 3]).max() > 0.1
    assert np.abs(by_tape[:, :3]).max() > 0.1


def newton_position(robot, count=4):
    body, offset = robot.link_frame("panda_hand")
    targets = wp.array([[0.45, 0.0, 0.5]] * count, dtype=wp.vec3, device="cpu")
    return newton.ik.IKObjectivePosition(body, wp.vec3(*offset[:3]), targets)


@pytest.mark.evidence
@pytest.mark.parametrize("mode", MODES)
def test_the_custom_objective_of_newton_keeps_the_hand_off_the_sphere(panda, mode):
    model, start = panda.on_device("cpu"), np.tile(panda.mid_joint_q, (4, 1))

    def solve(weight):
        limits = newton.ik.IKObjectiveJointLimit(model.joint_limit_lower, model.joint_limit_upper, weight=10.0)
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


def by_both(robot, make, joint_q):
    """Jacobians by a tape and by the objectives' own kernels."""
    modes = IKJacobianType.AUTODIFF, IKJacobianType.ANALYTIC
    found = [jacobian(robot, make(), mode, joint_q)[1] for mode in modes]
    np.testing.assert_allclose(*found, atol=SUITE_TOLERANCE)
    return found[0]


@pytest.mark.evidence
@pytest.mark.parametrize(
    "build", [suite._pos_objective_builder, suite._rot_objective_builder, suite._jl_objective_builder]
)
def test_jacobians_of_the_suite_of_newton_agree(planar_2r, build):
    robot = planar_2r()
    found = by_both(robot, lambda: build(robot.on_device("cpu"), 3), [[0.0, 0.0], [1.2, -1.7], [-2.0, 0.5]])
    assert np.abs(found).max() > 0.05


@pytest.mark.evidence
def test_jacobians_of_a_translated_floating_body_agree():
    robot, targets = load_urdf(FREE_AND_REVOLUTE), wp.zeros(4, dtype=wp.vec3, device="cpu")
    joint_q = np.zeros((4, robot.joint_coord_count))
    joint_q[:, 0], joint_q[:, 6] = (0.0, 1.0, 5.0, 20.0), 1.0
    found = by_both(robot, lambda: [newton.ik.IKObjectivePosition(0, wp.vec3(), targets)], joint_q)
    np.testing.assert_allclose(found[:, :, :3], np.tile(-np.eye(3), (4, 1, 1)), atol=SUITE_TOLERANCE)


def test_an_objective_of_the_suite_that_writes_its_own_jacobian_is_called(planar_2r):
    """It overrides both hooks, so neither is replaced."""
    called = []

    class Watched(kernel_suite._NoopObjective):
        def compute_jacobian_autodiff(self, *arguments):
            called.append(len(arguments))

    jacobian(planar_2r(), [Watched()], IKJacobianType.AUTODIFF, [[0.1, 0.2]])
    assert called == [5]
