"""Gradients of PyTorch through solves; run by `test_frameworks` where PyTorch is installed."""

import gc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

from ik_service import IKSolver, SolverOptions, load_robot
from ik_service.torch import TorchKinematics, TorchSolver
from objectives import InputError
from tests.frameworks.tool_arm import PRECISE, TOOL, arms_with_a_posture, tool_arm, tool_solver


def unit(quaternions):
    return quaternions / quaternions.norm(dim=-1, keepdim=True)


@pytest.fixture(scope="module")
def arm():
    solver, joint_q, poses = tool_arm()
    return TorchSolver(solver), torch.tensor(joint_q), torch.tensor(poses)


@pytest.fixture
def inputs(arm):
    poses = arm[2]
    given = poses[:, :3], poses[:, 3:], torch.tensor(TOOL)
    return [one.clone().requires_grad_() for one in given]


@pytest.fixture
def solve(arm):
    solver, joint_q, _ = arm

    def solve(positions, orientations, tool):
        tool = torch.cat([tool[:3], unit(tool[3:])])
        return solver(positions, unit(orientations), initial_joint_q=joint_q, offsets=tool).joint_q

    return solve


def test_gradients_are_those_of_differences(solve, inputs):
    assert torch.autograd.gradcheck(solve, inputs, eps=3e-4, atol=1e-4, rtol=1e-4)


def test_answers_are_those_of_the_solver(arm, solve, inputs):
    solver, joint_q, poses = arm
    expected = solver.solver.solve(poses[:, :3].numpy(), poses[:, 3:].numpy(), initial_joint_q=joint_q.numpy())
    with torch.no_grad():
        assert np.array_equal(solve(*inputs).numpy(), expected.joint_q)
    assert np.array_equal(solve(*inputs).detach().numpy(), expected.joint_q)


def test_compiled_programs_give_the_same(solve, inputs):
    compiled = torch.compile(solve, fullgraph=True, backend="aot_eager")
    found, expected = compiled(*inputs), solve(*inputs)
    assert torch.equal(found, expected)
    gradients = [torch.autograd.grad(one.square().sum(), inputs) for one in (found, expected)]
    for own, other in zip(*gradients, strict=True):
        torch.testing.assert_close(own, other)


def test_maps_over_problems_are_one_batch(arm, inputs):
    solver, joint_q, _ = arm
    positions, orientations, tool = inputs

    def one(position, orientation, start):
        return solver(position, orientation, initial_joint_q=start, offsets=tool).joint_q

    expected = solver(positions, orientations, initial_joint_q=joint_q, offsets=tool).joint_q
    assert torch.equal(torch.vmap(one)(positions, orientations, joint_q), expected)
    jacobian = torch.vmap(torch.func.jacrev(one))(positions, orientations, joint_q)
    for row in range(6):
        (by_positions,) = torch.autograd.grad(expected[:, row].sum(), positions, retain_graph=True)
        torch.testing.assert_close(jacobian[:, row], by_positions)


def test_any_axes_of_a_batch_stay(arm):
    solver, joint_q, poses = arm
    flat = solver(poses[:, :3], poses[:, 3:], initial_joint_q=joint_q)
    found = solver(
        poses[:, :3].reshape(2, 2, 3), poses[:, 3:].reshape(2, 2, 4), initial_joint_q=joint_q.reshape(2, 2, 6)
    )
    assert found.joint_q.shape == (2, 2, 6)
    assert found.success.shape == found.is_differentiable.shape == (2, 2)
    assert torch.equal(found.joint_q.reshape(4, 6), flat.joint_q)
    single = solver(poses[0, :3], poses[0, 3:], initial_joint_q=joint_q[0])
    assert torch.equal(single.joint_q, flat.joint_q[0])
    assert single.success.shape == ()


def test_several_targets_and_a_posture_in_single_precision():
    solver, *poses = arms_with_a_posture()
    positions, orientations = (torch.tensor(one, dtype=torch.float32).requires_grad_() for one in poses)
    answer = TorchSolver(solver)(positions, orientations)
    assert answer.joint_q.dtype == torch.float32
    weights = np.random.default_rng(2).normal(size=(3, 14))
    (answer.joint_q * torch.tensor(weights)).sum().backward()
    given = positions.detach().numpy(), orientations.detach().numpy()
    expected = solver.linearise(solver.solve(*given), *given)
    assert np.array_equal(answer.is_differentiable.numpy(), expected.is_differentiable)
    assert expected.is_differentiable.any()
    back = expected.vjp(weights)
    np.testing.assert_allclose(positions.grad.numpy(), back.positions, rtol=1e-4, atol=1e-4)
    along = (orientations.grad * orientations).sum(dim=-1)
    np.testing.assert_allclose(along.detach().numpy(), 0.0, atol=1e-4)


def test_positions_alone_and_orientations_alone(arm):
    solver, joint_q, poses = arm
    position, orientation = poses[:, :3].clone().requires_grad_(), poses[:, 3:].clone().requires_grad_()
    solver(position, initial_joint_q=joint_q).joint_q.sum().backward()
    solver(orientations_xyzw=orientation, initial_joint_q=joint_q).joint_q.sum().backward()
    assert position.grad.abs().sum() > 0
    assert orientation.grad.abs().sum() > 0


def test_a_floating_base_has_gradients_by_all_its_coordinates():
    robot = load_robot("humanoid", collision="ignore")
    solver = IKSolver(robot, ["left_grasp"], device="cpu", options=PRECISE)
    found = robot.forward_kinematics(robot.random_joint_q(np.random.default_rng(1), 2), ["left_grasp"])
    given = found.positions[:, 0], found.orientations_xyzw[:, 0]
    position = torch.tensor(given[0], requires_grad=True)
    answer = TorchSolver(solver)(position, torch.tensor(given[1]))
    derived = solver.linearise(solver.solve(*given), *given)
    for column in (0, 4, 12):
        (by_position,) = torch.autograd.grad(answer.joint_q[:, column].sum(), position, retain_graph=True)
        expected = derived.coordinates_by(derived.by_targets)[:, column, 0, :3]
        np.testing.assert_allclose(by_position.numpy(), expected, rtol=1e-9, atol=1e-12)


def test_answers_without_a_gradient_have_zeros():
    solver = TorchSolver(
        IKSolver(load_robot("panda"), ["panda_hand"], device="cpu", options=SolverOptions(max_iterations=1, seeds=1))
    )
    positions = torch.tensor([[0.4, 0.1, 0.5], [0.3, -0.2, 0.6]], requires_grad=True)
    answer = solver(positions, torch.tensor([[1.0, 0.0, 0.0, 0.0]] * 2))
    assert not answer.success.any()
    assert not answer.is_differentiable.any()
    answer.joint_q.sum().backward()
    assert not positions.grad.any()


def test_nothing_is_derived_where_no_gradient_is_wanted(arm, monkeypatch):
    solver, joint_q, poses = arm
    monkeypatch.setattr(solver.solver, "linearise", None)
    answer = solver(poses[:, :3], poses[:, 3:], initial_joint_q=joint_q)
    assert answer.success.all()
    assert not answer.is_differentiable.any()


def test_forward_derivatives_are_refused(arm):
    solver, joint_q, poses = arm
    positions = poses[:, :3]

    def by_position(positions):
        return solver(positions, poses[:, 3:], initial_joint_q=joint_q).joint_q

    with pytest.raises(RuntimeError, match="implement the jvp"):
        torch.func.jvp(by_position, (positions,), (torch.ones_like(positions),))
    with pytest.raises(RuntimeError, match="implement the jvp"):
        torch.func.jacfwd(by_position)(positions)


def test_a_gradient_shrinks_as_a_quaternion_grows(arm):
    """The answer depends on its direction alone."""
    solver, joint_q, poses = arm

    def gradient(length):
        quaternions = (length * poses[:, 3:]).requires_grad_()
        solver(poses[:, :3], quaternions, initial_joint_q=joint_q).joint_q.sum().backward()
        return quaternions.grad

    torch.testing.assert_close(gradient(1.0009), gradient(1.0) / 1.0009, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("beside", [lambda p: 0.0, lambda p: (p**3).sum()], ids=["alone", "of a sum"])
def test_a_second_derivative_is_refused(solve, inputs, beside):
    cost = solve(*inputs).sum() + beside(inputs[0])
    (first,) = torch.autograd.grad(cost, inputs[:1], create_graph=True)
    with pytest.raises(RuntimeError, match="There are first derivatives alone"):
        first.sum().backward()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "give positions or orientations_xyzw"),
        ({"positions": torch.zeros(())}, r"positions has shape \[\]"),
        ({"positions": torch.zeros(2, 1)}, r"positions has shape \[2, 1\]"),
        ({"positions": torch.zeros(2, 3), "orientations_xyzw": torch.zeros(1, 4)}, "orientations_xyzw has shape"),
        ({"positions": torch.zeros(2, 3), "initial_joint_q": torch.zeros(3, 6)}, "initial_joint_q has shape"),
        ({"positions": torch.zeros(2, 3), "offsets": torch.zeros(6)}, "offsets has shape"),
        ({"positions": torch.zeros(2, 3, dtype=torch.int64)}, "of type torch.int64"),
        ({"positions": torch.zeros(0, 3), "offsets": torch.tensor(TOOL)}, "batch is empty"),
        ({"positions": torch.full((1, 3), float("nan"))}, "positions"),
    ],
)
def test_what_cannot_be_solved_is_refused(arm, given, message):
    with pytest.raises(InputError, match=message):
        arm[0](**given)


def test_tools_of_a_call_do_not_stay(arm):
    solver, joint_q, poses = arm
    before = solver(poses[:, :3], poses[:, 3:], initial_joint_q=joint_q).joint_q
    other = torch.tensor(TOOL) + torch.linspace(0.02, 0.05, 4)[:, None] * torch.eye(7)[0]
    moved = solver(poses[:, :3], poses[:, 3:], initial_joint_q=joint_q, offsets=other).joint_q
    assert not torch.allclose(moved[0], before[0], atol=1e-3)
    assert torch.equal(solver(poses[:2, :3], poses[:2, 3:], initial_joint_q=joint_q[:2]).joint_q, before[:2])


def test_quaternions_are_xyzw_whatever_the_solver_takes(arm):
    solver, joint_q, poses = arm
    other = TorchSolver(tool_solver(solver.solver.robot, wxyz=True))
    found = []
    for own in (solver, other):
        orientations = poses[:, 3:].clone().requires_grad_()
        own(poses[:, :3], orientations, initial_joint_q=joint_q).joint_q.square().sum().backward()
        found.append(orientations.grad)
    torch.testing.assert_close(*found)


def test_a_start_that_wants_a_gradient_has_none(arm):
    solver, joint_q, poses = arm
    start = joint_q.clone().requires_grad_()
    position = poses[:, :3].clone().requires_grad_()
    assert not solver(poses[:, :3], poses[:, 3:], initial_joint_q=start).joint_q.requires_grad
    solver(position, poses[:, 3:], initial_joint_q=start).joint_q.sum().backward()
    assert start.grad is None
    assert position.grad.any()


def test_gradients_lead_through_a_map(arm):
    solver, joint_q, poses = arm
    position = poses[:, :3].clone().requires_grad_()

    def one(position, orientation, start):
        return solver(position, orientation, initial_joint_q=start).joint_q

    torch.vmap(one)(position, poses[:, 3:], joint_q).square().sum().backward()
    whole = poses[:, :3].clone().requires_grad_()
    solver(whole, poses[:, 3:], initial_joint_q=joint_q).joint_q.square().sum().backward()
    torch.testing.assert_close(position.grad, whole.grad)
    of_loss = torch.func.grad(lambda p: torch.vmap(one)(p, poses[:, 3:], joint_q).square().sum())(poses[:, :3])
    torch.testing.assert_close(of_loss, whole.grad)


def test_columns_are_in_the_order_of_the_solver(arm):
    solver, joint_q, poses = arm
    robot = solver.solver.robot
    turned = tool_solver(robot, joint_order=robot.joint_names[::-1])
    position = poses[:, :3].clone().requires_grad_()
    found = TorchSolver(turned)(position, poses[:, 3:], initial_joint_q=joint_q.flip(1)).joint_q
    assert found.is_contiguous()
    expected = solver(position, poses[:, 3:], initial_joint_q=joint_q).joint_q
    torch.testing.assert_close(found.flip(1), expected)
    gradients = [torch.autograd.grad(one.sum(), position)[0] for one in (found[:, 0], expected[:, 5])]
    torch.testing.assert_close(*gradients)


def test_batches_of_any_size_are_compiled_once(arm):
    solver, joint_q, poses = arm
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(lambda p, o, q: solver(p, o, initial_joint_q=q).joint_q, backend=counter, dynamic=True)
    for n in (2, 3, 4):
        given = poses[:n, :3], poses[:n, 3:], joint_q[:n]
        assert torch.equal(compiled(*given), solver(*given[:2], initial_joint_q=given[2]).joint_q)
    assert counter.frame_count == 1


def solved(positions):
    return TorchSolver(IKSolver(load_robot("ur5e"), ["tool0"], device="cpu"))(positions).joint_q


def placed(joint_q):
    return TorchKinematics(load_robot("panda"), ["panda_hand"])(joint_q).positions


@pytest.mark.parametrize(("made", "given"), [(solved, [[0.4, 0.1, 0.5]]), (placed, [0.0] * 7)])
def test_a_solver_and_kinematics_live_as_long_as_an_answer_of_theirs(made, given):
    inputs = torch.tensor(given, requires_grad=True)
    found = made(inputs)
    gc.collect()
    found.sum().backward()
    assert inputs.grad.any()


@pytest.mark.parametrize(
    ("name", "links"),
    [("panda", ["panda_hand"]), ("humanoid", ["left_grasp", "head"]), ("panda_gripper", ["panda_leftfinger"])],
)
def test_poses_have_gradients_by_all_coordinates(name, links):
    robot = load_robot(name, collision="ignore")
    kinematics = TorchKinematics(robot, links)
    joint_q = torch.tensor(robot.random_joint_q(np.random.default_rng(0), 3), requires_grad=True)
    found = kinematics(joint_q)
    expected = robot.forward_kinematics(joint_q.detach().numpy(), links)
    np.testing.assert_allclose(found.positions.detach(), expected.positions, atol=1e-12)
    np.testing.assert_allclose(found.orientations_xyzw.detach(), expected.orientations_xyzw, atol=1e-12)

    def poses(given):
        for first in robot.quaternion_starts.values():  # whose length counts for nothing
            given = torch.cat([given[:, :first], unit(given[:, first : first + 4]), given[:, first + 4 :]], dim=1)
        return tuple(kinematics(given))

    assert torch.autograd.gradcheck(poses, (joint_q,))
    assert torch.equal(torch.compile(lambda q: kinematics(q).positions, backend="aot_eager")(joint_q), found.positions)
    mapped = torch.vmap(torch.func.jacrev(lambda q: kinematics(q).positions[0]))(joint_q)
    whole = torch.autograd.functional.jacobian(lambda q: kinematics(q).positions[:, 0], joint_q)
    torch.testing.assert_close(mapped, torch.stack([whole[k, :, k] for k in range(3)]))


def test_configurations_of_another_robot_are_refused():
    kinematics = TorchKinematics(load_robot("panda"), ["panda_hand"])
    with pytest.raises(InputError, match=r"joint_q has shape \[2, 6\]"):
        kinematics(torch.zeros(2, 6))
    with pytest.raises(InputError, match=r"of type torch.int64"):
        kinematics(torch.zeros(7, dtype=torch.int64))
    with pytest.raises(InputError, match="a list of names"):
        TorchKinematics(load_robot("panda"), "panda_hand")
    assert kinematics(torch.zeros(7)).positions.shape == (1, 3)


def test_threads_get_the_kinematics_of_their_robots():
    robots = [load_robot("panda").with_frame("tip", "panda_hand", [0.1 * k, 0, 0, 0, 0, 0, 1]) for k in range(40)]
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda robot: TorchKinematics(robot, ["tip"]), robots))
    joint_q = np.tile(robots[0].mid_joint_q, (1, 1))
    for robot, kinematics in zip(robots, made, strict=True):
        expected = robot.forward_kinematics(joint_q, ["tip"]).positions
        np.testing.assert_allclose(kinematics(torch.tensor(joint_q)).positions, expected, atol=1e-12)
