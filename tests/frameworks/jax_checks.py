"""Gradients of JAX through solves; run by `test_frameworks` where JAX is installed."""

import gc
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from ik_service import IKSolver, SolverOptions, load_robot
from ik_service.jax import JaxSolver
from objectives import InputError
from tests.frameworks.tool_arm import TOOL, arms_with_a_posture, tool_arm

jax.config.update("jax_enable_x64", True)


def unit(quaternions):
    return quaternions / jnp.linalg.norm(quaternions, axis=-1, keepdims=True)


@pytest.fixture(scope="module")
def arm():
    solver, joint_q, poses = tool_arm()
    return JaxSolver(solver), jnp.asarray(joint_q), jnp.asarray(poses)


@pytest.fixture
def solve(arm):
    solver, joint_q, _ = arm

    def solve(positions, orientations, tool):
        tool = jnp.concatenate([tool[:3], unit(tool[3:])])
        return solver(positions, unit(orientations), initial_joint_q=joint_q, offsets=tool).joint_q

    return solve


@pytest.fixture
def inputs(arm):
    return arm[2][:, :3], arm[2][:, 3:], jnp.asarray(TOOL)


def test_gradients_are_those_of_differences(solve, inputs):
    check_grads(solve, inputs, order=1, modes=["rev"], eps=3e-4, atol=1e-3, rtol=1e-3)


def test_answers_are_those_of_the_solver(arm, solve, inputs):
    solver, joint_q, poses = arm
    expected = solver.solver.solve(np.array(poses[:, :3]), np.array(poses[:, 3:]), initial_joint_q=np.array(joint_q))
    answer = solver(*inputs[:2], initial_joint_q=joint_q)
    np.testing.assert_allclose(solve(*inputs), expected.joint_q, atol=1e-9)
    assert np.array_equal(answer.joint_q, expected.joint_q)
    assert np.array_equal(answer.success, expected.success)
    assert not answer.is_differentiable.any()


def test_compiled_programs_give_the_same(solve, inputs):
    np.testing.assert_allclose(
        jax.jit(solve)(*inputs), solve(*inputs), rtol=1e-9
    )  # it rounds what comes before otherwise

    def cost(*given):
        return (solve(*given) ** 2).sum()

    compiled, plain = (jax.grad(one, argnums=(0, 1, 2)) for one in (jax.jit(cost), cost))
    for own, other in zip(compiled(*inputs), plain(*inputs), strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-9, atol=1e-9)


def test_maps_over_problems_are_one_batch(arm, inputs):
    solver, joint_q, _ = arm
    positions, orientations, tool = inputs

    def one(position, orientation, start):
        return solver(position, orientation, initial_joint_q=start, offsets=tool).joint_q

    expected = solver(positions, orientations, initial_joint_q=joint_q, offsets=tool).joint_q
    assert np.array_equal(jax.vmap(one)(positions, orientations, joint_q), expected)
    jacobian = jax.jit(jax.vmap(jax.jacrev(one)))(positions, orientations, joint_q)

    def entry(positions, row):
        return solver(positions, orientations, initial_joint_q=joint_q, offsets=tool).joint_q[:, row].sum()

    for row in range(6):
        np.testing.assert_allclose(jacobian[:, row], jax.grad(entry)(positions, row), rtol=1e-9, atol=1e-9)


def test_any_axes_of_a_batch_stay(arm):
    solver, joint_q, poses = arm
    flat = solver(poses[:, :3], poses[:, 3:], initial_joint_q=joint_q)
    square = poses.reshape(2, 2, 7)
    found = solver(square[..., :3], square[..., 3:], initial_joint_q=joint_q.reshape(2, 2, 6))
    assert found.joint_q.shape == (2, 2, 6)
    assert found.success.shape == found.is_differentiable.shape == (2, 2)
    assert np.array_equal(found.joint_q.reshape(4, 6), flat.joint_q)
    single = solver(poses[0, :3], poses[0, 3:], initial_joint_q=joint_q[0])
    assert np.array_equal(single.joint_q, flat.joint_q[0])
    assert single.success.shape == ()


def test_several_targets_and_a_posture_in_single_precision():
    solver, *poses = arms_with_a_posture()
    positions, orientations = (jnp.asarray(one, jnp.float32) for one in poses)
    weights = np.random.default_rng(2).normal(size=(3, 14))
    own = JaxSolver(solver)

    def cost(positions, orientations):
        answer = own(positions, orientations)
        assert answer.joint_q.dtype == jnp.float32
        return (answer.joint_q * weights).sum(), answer.is_differentiable

    gradient, flags = jax.grad(cost, has_aux=True)(positions, orientations)
    given = np.array(positions), np.array(orientations)
    expected = solver.linearise(solver.solve(*given), *given)
    assert np.array_equal(flags, expected.is_differentiable)
    assert expected.is_differentiable.any()
    np.testing.assert_allclose(gradient, expected.vjp(weights).positions, rtol=1e-4, atol=1e-4)


def test_positions_alone_and_orientations_alone(arm):
    solver, joint_q, poses = arm

    def of_positions(given):
        return solver(given, initial_joint_q=joint_q).joint_q.sum()

    def of_orientations(given):
        return solver(orientations_xyzw=given, initial_joint_q=joint_q).joint_q.sum()

    assert jnp.abs(jax.grad(of_positions)(poses[:, :3])).sum() > 0
    assert jnp.abs(jax.grad(of_orientations)(poses[:, 3:])).sum() > 0


def test_answers_without_a_gradient_have_zeros():
    solver = JaxSolver(
        IKSolver(load_robot("panda"), ["panda_hand"], device="cpu", options=SolverOptions(max_iterations=1, seeds=1))
    )
    positions = jnp.asarray([[0.4, 0.1, 0.5], [0.3, -0.2, 0.6]])

    def cost(positions):
        answer = solver(positions, jnp.asarray([[1.0, 0.0, 0.0, 0.0]] * 2))
        return answer.joint_q.sum(), (answer.success, answer.is_differentiable)

    gradient, (success, has_gradient) = jax.grad(cost, has_aux=True)(positions)
    assert not success.any()
    assert not has_gradient.any()
    assert not gradient.any()


def test_a_gradient_shrinks_as_a_quaternion_grows(arm):
    """The answer depends on its direction alone."""
    solver, joint_q, poses = arm

    def gradient(length):
        def total(quaternions):
            return solver(poses[:, :3], quaternions, initial_joint_q=joint_q).joint_q.sum()

        return np.asarray(jax.grad(total)(length * poses[:, 3:]))

    np.testing.assert_allclose(gradient(1.0009), gradient(1.0) / 1.0009, rtol=1e-6, atol=1e-9)


def test_a_solver_lives_as_long_as_somebody_has_it():
    solver = IKSolver(load_robot("ur5e", collision="ignore"), ["tool0"], device="cpu")
    own, alive = JaxSolver(solver), weakref.ref(solver)
    assert own(jnp.asarray([[0.4, 0.1, 0.5]])).success.all()
    del solver, own
    jax.clear_caches()
    gc.collect()
    assert alive() is None


def test_calls_one_by_one_are_traced_once(arm):
    solver, joint_q, poses = arm
    own = JaxSolver(solver.solver)
    for _ in range(5):
        own(poses[:, :3], poses[:, 3:], initial_joint_q=joint_q)
    assert own.calls._cache_size() == 1


def test_a_program_whose_solver_is_gone_says_so():
    targets = jnp.asarray([[0.4, 0.1, 0.5]])

    def compiled():
        own = JaxSolver(IKSolver(load_robot("ur5e", collision="ignore"), ["tool0"], device="cpu"))
        program = jax.jit(lambda positions: own(positions).joint_q).lower(targets).compile()
        assert program(targets).shape == (1, 6)
        return program

    program = compiled()
    jax.clear_caches()
    gc.collect()
    with pytest.raises(Exception, match="The solver of this program is gone"):
        program(targets).block_until_ready()


def test_a_second_derivative_is_refused(solve, inputs):
    def first(positions):
        return jax.grad(lambda given: solve(given, *inputs[1:]).sum())(positions).sum()

    with pytest.raises(ValueError, match="do not support JVP"):
        jax.grad(first)(inputs[0])


def test_what_cannot_be_solved_is_refused(arm):
    for given, message in (
        ((), "give positions or orientations_xyzw"),
        ((jnp.zeros(()),), "positions has shape"),
        ((jnp.zeros((1, 3), jnp.float16),), r"of type float16\. Allowed: float32, float64"),
    ):
        with pytest.raises(InputError, match=message):
            arm[0](*given)
    with pytest.raises(Exception, match="positions"):
        arm[0](jnp.full((1, 3), jnp.nan)).joint_q.block_until_ready()
