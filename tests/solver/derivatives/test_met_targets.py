"""Answers about targets alone, derived on packets: beside the general way, for all types of joints and rows."""

import numpy as np
import pytest

from benchmarks.accuracy.minima import Minima, differences
from ik_service import SolverOptions, Target, load_robot
from ik_service.mechanism.transforms import quaternion_exp, quaternion_multiply, transform_inverse, transform_multiply
from ik_service.solver.derivatives import linearise as linearise_module
from ik_service.solver.derivatives import target_motion
from ik_service.solver.derivatives.linearisation import DofState, Linearisation
from ik_service.solver.derivatives.target_motion import linearise_met
from objectives import IKObjectivePosture, InputError
from objectives.tasks.frame_objective import OFFSET
from tests.solver.conftest import bare_robot, cpu_solver
from tests.solver.derivatives.chain_robot import chain_robot
from tests.solver.derivatives.conftest import FIELDS, assert_same_bytes_alone, derived, values_at

COUNT, HAND = 9, ["panda_hand"]
TOOL = np.array([0.1, -0.05, 0.2, 0.5, -0.5, 0.5, 0.5])
TOOLS = TOOL + np.linspace(0.0, 0.1, COUNT)[:, None] * np.eye(7)[0]
CASES = {
    "ur5e": ("ur5e", ["tool0"]),
    "redundant": ("panda", ["panda_hand"]),
    "a tool": ("ur5e", [Target("tool0", offset=TOOL)]),
    "a tool for each problem": ("ur5e", [Target("tool0", offset=TOOLS)]),
    "some rows": ("panda", [Target("panda_hand", row_weights=[1, 0, 1, 2, 0, 0.5])]),
    "two islands": ("dual_panda", ["left_panda_hand", "right_panda_hand"]),
    "seen from another tree": ("dual_panda", [Target("left_panda_hand", TOOL, "right_panda_hand")]),
    "seen from the same tree": ("humanoid", [Target("left_grasp", reference_link="right_grasp")]),
    "targets that share joints": ("humanoid", ["left_grasp", "head"]),
    "joints of all types": ("chain", ["tip"]),
}


@pytest.fixture(params=CASES)
def case(request):
    """A solver, configurations, and values of its targets that these reach."""
    name, targets = CASES[request.param]
    robot = chain_robot() if name == "chain" else bare_robot(name)
    joint_q = robot.random_joint_q(np.random.default_rng(7), COUNT)
    return cpu_solver(robot, targets), joint_q, values_of(robot, targets, joint_q)


def values_of(robot, targets, joint_q):
    """Poses of the tools of targets, seen from where their values are given."""
    positions, orientations = [], []
    for one in targets:
        target = Target(one) if isinstance(one, str) else one
        offset = np.array([0, 0, 0, 0, 0, 0, 1.0]) if target.offset is None else target.offset
        tip = transform_multiply(poses(robot, target.link, joint_q), np.broadcast_to(offset, (len(joint_q), 7)))
        if target.reference_link is not None:
            tip = transform_multiply(transform_inverse(poses(robot, target.reference_link, joint_q)), tip)
        positions.append(tip[:, :3])
        orientations.append(tip[:, 3:])
    return np.stack(positions, axis=1), np.stack(orientations, axis=1)


def poses(robot, link, joint_q):
    return np.concatenate([values[:, 0] for values in values_at(robot, [link], joint_q)], axis=1)


def nothing_met(rows, targets, data, joint_q, islands, limits):
    """Leave all to the general way."""
    offsets = len(targets) if OFFSET in data[0] else 0
    nothing = Linearisation.nothing(rows.robot, rows.order, joint_q, len(targets), offsets)
    return np.zeros(len(joint_q), dtype=bool), nothing


@pytest.fixture
def done(monkeypatch):
    """Notes which answers are derived on packets."""
    found = []

    def noted(*arguments):
        found.append(linearise_met(*arguments))
        return found[-1]

    monkeypatch.setattr(linearise_module, "linearise_met", noted)
    return found


def assert_as_in_general(monkeypatch, solver, result, values):
    """Compare derivatives with those of the general way, and give them."""
    found = solver.linearise(result, *values)
    monkeypatch.setattr(linearise_module, "linearise_met", nothing_met)
    expected = solver.linearise(result, *values)
    for name in FIELDS:
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-6, atol=1e-7, err_msg=name)
    return found


@pytest.mark.quick_cases("ur5e", "redundant", "two islands")
def test_derivatives_are_those_of_the_general_way(case, done, monkeypatch):
    solver, start, values = case
    result = solver.solve(*values, initial_joint_q=start)
    assert result.success.all()
    assert_as_in_general(monkeypatch, solver, result, values)
    assert done[0][0].mean() > 0.5


@pytest.mark.quick_cases("ur5e", "redundant", "two islands")
def test_an_answer_has_the_same_bytes_alone_and_among_others(case):
    solver, start, values = case
    together = derived(solver, values, start)
    if np.ndim(solver.targets[0].offset) == 2:
        solver.set_target_data(0, offset=TOOLS[4:5])
    assert_same_bytes_alone(derived(solver, [part[4:5] for part in values], start[4:5]), together, 4)


def test_derivatives_have_the_tools_of_their_solve():
    robot = bare_robot("ur5e")
    declared, once = (cpu_solver(robot, [Target("tool0", offset=tool)]) for tool in (TOOLS, TOOL))
    start = robot.random_joint_q(np.random.default_rng(7), COUNT)
    values = values_of(robot, declared.targets, start)
    expected = derived(declared, values, start)
    assert expected.is_differentiable.any()
    result = once.solve(*values, initial_joint_q=start, offset=TOOLS, options={"sensitivity": "target"})
    once.solve(*values)
    found = once.linearise(result, *values)
    for name in FIELDS:
        assert getattr(found, name).tobytes() == getattr(expected, name).tobytes(), name
    assert result.joint_q_by_targets.tobytes() == found.coordinates_by(found.by_targets).tobytes()
    assert not np.array_equal(once.linearise(once.solve(*values), *values).by_targets, found.by_targets)


def test_a_joint_at_a_limit_stays_there(panda):
    start = panda.random_joint_q(np.random.default_rng(2), 4)
    start[:2, 3], start[2:, 5] = panda.joint_limit_lower[3], panda.joint_limit_upper[5]
    found = derived(cpu_solver(panda, HAND), values_at(panda, HAND, start), start)
    assert found.is_differentiable.all()
    held = found.dof_state != DofState.FREE
    assert (held[:2, 3] & held[2:, 5]).all()
    assert np.array_equal(found.one_sided, held)
    assert not found.by_targets[held].any()
    follows = panda.jacobian(found.joint_q, HAND)[:, 0] @ found.by_targets[:, :, 0]
    np.testing.assert_allclose(follows, np.broadcast_to(np.eye(6), follows.shape), atol=1e-8)
    assert found.joint_q[0, 3] == panda.joint_limit_lower[3]


def test_rows_that_are_not_told_apart_are_left_to_the_general_way(done):
    robot, links = load_robot("ur5e"), ["tool0"]
    start = np.array([[0.3, -1.2, 0.0, -0.5, 0.4, 0.2], [0.3, -1.2, 1.1, -0.5, 0.4, 0.2]])  # the first is stretched
    values, solver = values_at(robot, links, start), cpu_solver(robot, links)
    found = derived(solver, values, start)
    assert done[0][0].tolist() == [False, True]
    assert_same_bytes_alone(derived(solver, [part[1:] for part in values], start[1:]), found, 1)
    assert found.rank[1] == 6


def test_large_islands_are_left_to_the_general_way(panda, monkeypatch):
    start, solver = panda.random_joint_q(np.random.default_rng(0), 2), cpu_solver(panda, HAND)
    values = values_at(panda, HAND, start)
    expected = derived(solver, values, start)
    monkeypatch.setattr(target_motion, "MOST_DOFS", 6)
    monkeypatch.setattr(target_motion, "launch", None)
    np.testing.assert_allclose(derived(solver, values, start).by_targets, expected.by_targets, atol=1e-7)


@pytest.mark.parametrize("weight", [0.0, 0.05])
def test_a_target_that_is_left_out_has_no_derivatives_though_it_has_a_tool(dual_panda, weight):
    targets = ["left_panda_hand", Target("right_panda_hand", offset=TOOL)]
    start = dual_panda.random_joint_q(np.random.default_rng(0), 2)
    objectives = [IKObjectivePosture(dual_panda.mid_joint_q, weight=weight)] if weight else []
    values = [[part[:, 0], None] for part in values_of(dual_panda, targets, start)]
    found = derived(cpu_solver(dual_panda, targets, objectives=objectives), values, start)
    assert found.by_offsets.shape == (2, 14, 2, 6)
    assert not found.by_offsets.any()
    assert found.by_targets[:, :, 0].any()
    assert not found.by_targets[:, :, 1].any()


@pytest.mark.evidence_cases("chain")
@pytest.mark.parametrize("name", ["panda", "chain"])
def test_positions_alone_are_followed(name, monkeypatch):
    robot, links = (chain_robot(), ["tip"]) if name == "chain" else (bare_robot(name), HAND)
    start, solver = robot.random_joint_q(np.random.default_rng(1), 3), cpu_solver(robot, links)
    positions = values_at(robot, links, start)[0]
    found = assert_as_in_general(monkeypatch, solver, solver.solve(positions, initial_joint_q=start), [positions])
    assert (found.rank == 3).all()
    assert not found.by_targets[..., 3:].any()


def test_weights_of_0_in_different_places_are_followed_side_by_side(panda):
    start, weights = panda.random_joint_q(np.random.default_rng(1), 3), np.ones((3, 6))
    weights[0, 5], weights[1, :3] = 0.0, 0.0
    values = values_at(panda, HAND, start)
    found = derived(cpu_solver(panda, [Target("panda_hand", row_weights=weights)]), values, start)
    assert found.rank.tolist() == [5, 3, 6]
    for k, own in enumerate(weights):
        one = cpu_solver(panda, [Target("panda_hand", row_weights=own)])
        alone = derived(one, [part[k : k + 1] for part in values], start[k])
        np.testing.assert_allclose(found.by_targets[k], alone.by_targets[0], atol=1e-9)


@pytest.mark.evidence
@pytest.mark.parametrize("weight", [0.0, 0.05])
def test_tools_are_followed(weight):
    """Beside minima with tools that are a little elsewhere, with and without a posture."""
    name, link, n = ("panda", "panda_hand", 3) if weight else ("ur5e", "tool0", 3)
    robot, target = bare_robot(name), Target(link, offset=np.tile(TOOL, (n, 1)))
    start = robot.random_joint_q(np.random.default_rng(3), n)
    objectives = [IKObjectivePosture(robot.mid_joint_q, weight=weight)] if weight else []
    values = values_of(robot, [target], start)
    found = derived(
        cpu_solver(robot, [target], objectives=objectives, options=SolverOptions(precision="float64")), values, start
    )
    assert found.is_differentiable.all()
    every, reference = np.ones((n, robot.joint_dof_count), dtype=bool), robot.mid_joint_q if weight else None

    def with_tool(axis, by):
        move = by * np.eye(6)[axis]
        tool = np.hstack([TOOL[:3] + move[:3], quaternion_multiply(quaternion_exp(move[3:]), TOOL[3:])])
        return Minima(robot, [link], reference, tools=tool[None]).at(*values, found.joint_q, every)

    expected = differences(with_tool, range(6))
    scale = np.abs(expected).max(axis=1, keepdims=True)
    np.testing.assert_allclose(found.by_offsets[:, :, 0] / scale, expected / scale, atol=1e-5)
    changes = np.random.default_rng(4).normal(size=(4, n, 1, 3))
    moved = found.jvp(changes[0], changes[1], offset_positions=changes[2], offset_rotations=changes[3])
    by_q = np.random.default_rng(5).normal(size=moved.shape)
    pulled = sum((part * own).sum() for part, own in zip(found.vjp(by_q)[:4], changes, strict=True))
    np.testing.assert_allclose((moved * by_q).sum(), pulled)


def test_changes_of_tools_need_a_tool():
    robot, links = load_robot("ur5e"), ["tool0"]
    values = values_at(robot, links, robot.random_joint_q(np.random.default_rng(0), 1))
    found = derived(cpu_solver(robot, links), values)
    assert found.by_offsets.shape == (1, 6, 0, 6)
    with pytest.raises(InputError, match="No target has a tool frame"):
        found.jvp(offset_positions=np.zeros((1, 1, 3)))
