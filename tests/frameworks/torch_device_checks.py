"""Tensors that stay on a solver's device; run by `test_frameworks` where PyTorch is installed."""

import numpy as np
import pytest
import torch

from ik_service import IKSolver, SolverOptions, Target, load_robot
from ik_service.torch import TorchSolver, operators
from objectives import IKObjectivePosture, InputError
from tests.frameworks.tool_arm import HANDS, TOOL


class Devices:
    """A solver on the CPU in the place of one on a GPU: tensors stay where they are."""

    def __init__(self, monkeypatch, solver, derives=True):
        self.calls = 0
        own = operators.solver_by_arrays(solver.solver, derives=derives)

        def there(given, like, *, derives):
            self.calls += 1
            return own

        monkeypatch.setattr(operators, "_solver_there", there)


def test_where_tensors_stay_answers_and_gradients_are_those_of_the_host(monkeypatch):
    robot = load_robot("panda", collision="ignore")
    solver = TorchSolver(IKSolver(robot, ["panda_hand"], device="cpu"))
    poses = robot.forward_kinematics(robot.random_joint_q(np.random.default_rng(0), 30), ["panda_hand"])
    positions, orientations = torch.tensor(poses.positions[:, 0]), torch.tensor(poses.orientations_xyzw[:, 0])
    positions[::7] += 4.0  # out of reach: the host derives the minimum

    def derived():
        inputs = [one.clone().requires_grad_() for one in (positions, orientations)]
        answer = solver(*inputs)
        answer.joint_q.square().sum().backward()
        return answer, [one.grad for one in inputs]

    expected, gradients = derived()
    devices = Devices(monkeypatch, solver)
    found, own = derived()
    assert devices.calls == 1
    assert torch.equal(found.joint_q, expected.joint_q)
    assert torch.equal(found.success, expected.success)
    assert not found.success[::7].any()
    assert torch.equal(found.is_differentiable, expected.is_differentiable)
    for a, b in zip(own, gradients, strict=True):
        assert ((a - b).abs() <= 1e-5 * b.abs().amax()).all()
    with torch.no_grad():
        plain = solver(positions.float(), orientations.float())
    assert plain.joint_q.dtype == torch.float32
    assert plain.is_differentiable.shape == (30,)
    assert not plain.is_differentiable.any()
    positions[3, 1] = torch.nan
    for derives in (True, False):
        Devices(monkeypatch, solver, derives)
        with pytest.raises(InputError, match="positions"), torch.set_grad_enabled(derives):
            solver(positions.clone().requires_grad_(), orientations)


@pytest.mark.parametrize(
    ("name", "target", "given"),
    [
        ("panda", "panda_hand", {"options": SolverOptions(best_of="cost")}),
        ("panda", "panda_hand", {"options": SolverOptions(solutions=2)}),
        ("panda", "panda_hand", {"wxyz": True}),
        ("panda", "panda_hand", {"engine": "staged"}),
        ("panda", "panda_hand", {"objectives": [IKObjectivePosture(np.zeros(7))]}),
        ("panda", Target("panda_hand", offset=TOOL), {}),
        ("panda", Target("panda_hand", free=["rz"]), {}),
        ("delta", "platform", {}),
        ("humanoid", "left_grasp", {}),
    ],
)
def test_what_the_host_alone_answers_or_derives_goes_there(name, target, given):
    solver = IKSolver(load_robot(name, collision="ignore"), [target], device="cpu", **given)
    assert operators.solver_by_arrays(solver, derives=True) is None


def test_arms_that_can_touch_are_combined_by_the_host():
    solver = IKSolver(load_robot("dual_panda"), HANDS, device="cpu")
    assert operators.solver_by_arrays(solver, derives=True) is None
    apart = IKSolver(load_robot("dual_panda", collision="ignore"), HANDS, device="cpu")
    assert operators.solver_by_arrays(apart, derives=True) is not None
