"""Derivatives of answers that stay on the device: those of the host where targets are met, and else none."""

from types import SimpleNamespace

import numpy as np
import pytest
import warp as wp

from ik_service import EngineError, Target
from objectives import IKObjectivePosture, InputError
from tests.solver.conftest import Reachable, bare_robot, cpu_solver

COUNT = 40
CPU = "cpu"
SAME = 1e-6  # of the largest: the host goes on from float32 answers by other roundings
DERIVES = {"sensitivity": "target"}


def on_cpu(values):
    return wp.array(np.ascontiguousarray(values, np.float64), device=CPU)


def both(solver, positions, orientations=None, start=None):
    """What the device and the host say."""
    given = [positions] if orientations is None else [positions, orientations]
    first = None if start is None else on_cpu(start)
    found = solver.on_device().solve(*map(on_cpu, given), initial_joint_q=first, options=DERIVES)
    result = solver.solve(*given, initial_joint_q=start, options=DERIVES)
    np.testing.assert_array_equal(found["joint_q"].numpy(), result.joint_q)
    return *derivatives(found), result


def derivatives(found):
    return found["joint_q_by_targets"].numpy(), found["is_differentiable"].numpy()


def assert_same(by_targets, exists, result):
    np.testing.assert_array_equal(exists, result.is_differentiable & result.success)
    assert by_targets.shape == result.joint_q_by_targets.shape
    expected = np.where(exists[:, None, None, None], result.joint_q_by_targets, 0.0)
    assert (np.abs(by_targets - expected) <= SAME * np.abs(expected).max(axis=(1, 2, 3), keepdims=True)).all()


ORDER = [f"panda_joint{k}" for k in (7, 1, 2, 3, 4, 5, 6)]
ROBOTS = {
    "panda": ("panda", ["panda_hand"], {}),
    "a follower": ("panda_gripper", ["panda_rightfinger"], {}),
    "another order of joints": ("panda", ["panda_hand"], {"joint_order": ORDER}),
    "two arms": ("dual_panda", ["left_panda_hand", "right_panda_hand"], {}),
    "one hand by the other": ("dual_panda", [Target("left_panda_hand", reference_link="right_panda_hand")], {}),
    "a tool": ("ur5e", [Target("tool0", offset=[0.1, 0.0, 0.2, 0.0, 0.6, 0.0, 0.8])], {}),
}


@pytest.mark.evidence_cases("a tool", "one hand by the other")
@pytest.mark.parametrize("case", ROBOTS)
def test_they_are_those_of_the_host(case):
    name, targets, options = ROBOTS[case]
    solver = cpu_solver(bare_robot(name), targets, **options)
    drawn = Reachable.draw(solver.robot, [target.link for target in solver.targets], COUNT, random_seed=3)
    given = drawn.targets
    if case == "one hand by the other":
        place = [0.3, 0.1, 0.2] + 0.1 * np.random.default_rng(0).random((COUNT, 1, 3))
        given = place, np.tile([1.0, 0.0, 0.0, 0.0], (COUNT, 1, 1))
    by_targets, exists, result = both(solver, *given)
    assert exists.mean() > 0.7
    assert_same(by_targets, exists, result)


def test_a_joint_at_its_limit_stays_and_what_is_out_of_reach_has_none(panda):
    joint_q = panda.random_joint_q(np.random.default_rng(1), COUNT)
    joint_q[:, 5] = panda.joint_limit_lower[5]
    poses = panda.forward_kinematics(joint_q, ["panda_hand"])
    positions = poses.positions[:, 0].copy()
    positions[::4] += [3.0, 0.0, 0.0]
    solver = cpu_solver(panda, ["panda_hand"])
    by_targets, exists, result = both(solver, positions, poses.orientations_xyzw[:, 0], joint_q)
    assert not exists[::4].any()
    assert exists.any()
    np.testing.assert_array_equal(by_targets[~exists], 0.0)
    held = exists & (result.joint_q[:, 5] <= panda.joint_limit_lower[5] + 1e-6)
    assert held.sum() > 0.5 * COUNT
    np.testing.assert_array_equal(by_targets[held, 5], 0.0)
    assert_same(by_targets, exists, result)


def test_a_number_that_is_none_ends_its_own_derivative_alone(panda_targets):
    solver = cpu_solver(panda_targets.robot, panda_targets.links)
    on_device, (positions, orientations) = solver.on_device(), (one[:COUNT, 0].copy() for one in panda_targets.targets)
    positions[5, 2] = np.nan
    exists = on_device.solve(on_cpu(positions), on_cpu(orientations), options=DERIVES)["is_differentiable"].numpy()
    assert not exists[5]
    assert np.delete(exists, 5).mean() > 0.9
    turns = derivatives(on_device.solve(None, on_cpu(orientations), options=DERIVES))  # nothing is given there now
    expected = solver.solve(None, orientations, options=DERIVES)
    names = "joint_q_by_targets", "is_differentiable", "success"
    others = SimpleNamespace(**{name: np.delete(getattr(expected, name), 5, 0) for name in names})
    assert_same(*(np.delete(one, 5, 0) for one in turns), others)


def test_arrays_of_an_earlier_solve_take_them_and_others_are_refused(panda, panda_targets):
    solver = cpu_solver(panda, ["panda_hand"]).on_device()
    given = [on_cpu(one[:COUNT, 0]) for one in panda_targets.targets]
    out = solver.solve(*given, options=DERIVES)
    expected = {name: column.numpy().copy() for name, column in out.items()}
    out["joint_q_by_targets"].fill_(7.0)
    assert solver.solve(*given, options=DERIVES, out=out).keys() == out.keys()
    for name, column in out.items():
        np.testing.assert_array_equal(column.numpy(), expected[name])
    with pytest.raises(InputError, match="joint_q_by_targets"):
        solver.solve(*given, options=DERIVES, out=solver.solve(*given))


@pytest.mark.parametrize(
    ("name", "targets", "objectives", "match"),
    [
        ("panda", ["panda_hand"], [IKObjectivePosture(np.zeros(7))], "objectives"),
        ("delta", [Target("platform", row_weights=[1.0, 1.0, 1.0, 0.0, 0.0, 0.0])], [], "objectives or constraints"),
        ("humanoid", ["left_grasp"], [], "more than one DOF"),
        ("panda", [Target("panda_hand", free=["rz"])], [], "free axes"),
        ("panda", [Target("panda_hand", tolerance=[0.01] * 6)], [], "tolerances"),
    ],
)
def test_what_the_device_does_not_derive_is_said(name, targets, objectives, match):
    robot = bare_robot(name)
    solver = cpu_solver(robot, targets, objectives=objectives).on_device()
    assert match in solver.why_not_derived()
    with pytest.raises(EngineError, match=match):
        solver.solve(on_cpu(np.zeros((2, 3))), options=DERIVES)
