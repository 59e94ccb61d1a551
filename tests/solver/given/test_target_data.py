"""Tool frames and weights are data: replaced between solves they give what a solver made with them gives."""

import numpy as np
import pytest

import objectives
from ik_service import Target
from objectives import InputError
from tests.solver.conftest import EACH_ENGINE, Reachable, cpu_solver

NAMES = ("joint_q", "success", "status", "position_error", "orientation_error", "cost", "iterations", "seed_index")
TOOL = np.array([0.0, 0.0, 0.1, 0.0, 0.0, 0.0, 1.0])


def drawn(panda, count, seed=0):
    """Poses that the hand can reach, tools on it and weights, of which none is a power of two."""
    targets = Reachable.draw(panda, ["panda_hand"], count, seed).targets
    rng = np.random.default_rng(seed)
    turns = rng.normal(size=(count, 4))
    turns /= np.linalg.norm(turns, axis=1, keepdims=True)
    return (
        [one[:, 0] for one in targets],
        np.hstack([0.1 * rng.random((count, 3)), turns]),
        0.05 + rng.random((count, 6)),
    )


def assert_same(first, second, rows=slice(None)):
    for name in NAMES:
        assert getattr(first, name)[rows].tobytes() == getattr(second, name).tobytes(), name
    assert list(first.islands)[rows] == list(second.islands)


@EACH_ENGINE
def test_replaced_data_give_what_declared_data_give(panda, engine):
    solver = cpu_solver(panda, [Target("panda_hand", TOOL, row_weights=np.ones(6))], engine=engine)
    for count, seed in ((3, 0), (5, 1), (1, 2), (4, 3)):
        targets, tools, weights = drawn(panda, count, seed)
        solver.set_target_data(0, offset=tools, row_weights=weights)
        result = solver.solve(*targets)
        fresh = cpu_solver(panda, [Target("panda_hand", tools, row_weights=weights)], engine=engine)
        assert_same(result, fresh.solve(*targets))
        assert result.success.any()


def test_rows_of_an_objective_that_are_switched_on_between_solves_count(panda):
    positions, answers = drawn(panda, 2)[0][0], []
    for first in (np.zeros(7), np.ones(7)):
        posture = objectives.IKObjectivePosture(panda.mid_joint_q, row_weights=first, weight=0.1)
        solver = cpu_solver(panda, ["panda_hand"], objectives=[posture])
        answers.append(solver.solve(positions))
    for weights, answer in zip((np.zeros(7), np.ones(7)), answers, strict=True):
        posture.set_row_weights(weights)
        assert_same(solver.solve(positions), answer)
    assert not np.array_equal(answers[0].joint_q, answers[1].joint_q)


@EACH_ENGINE
def test_data_of_one_solve_give_what_replaced_data_give_and_leave_the_targets(panda, engine):
    declared, once = (cpu_solver(panda, [Target("panda_hand", TOOL)], engine=engine) for _ in range(2))
    kept, plain = once.targets, once.solve(*drawn(panda, 4)[0])
    for count, seed in ((3, 0), (5, 1), (1, 2), (4, 3)):
        targets, tools, weights = drawn(panda, count, seed)
        declared.set_target_data(0, offset=tools, row_weights=weights)
        result = once.solve(*targets, offset=tools, row_weights=weights)
        assert_same(result, declared.solve(*targets))
        assert result.success.any()
        assert once.targets is kept
    once.warmup(*targets, offset=tools)
    assert_same(once.solve(*drawn(panda, 4)[0]), plain)
    assert not np.array_equal(result.joint_q, once.solve(*targets).joint_q)


def test_several_targets_have_data_of_one_solve_in_a_list(dual_panda):
    links, rng = ["left_panda_hand", "right_panda_hand"], np.random.default_rng(1)
    targets = Reachable.draw(dual_panda, links, 4).targets
    tools, weights = np.hstack([0.1 * rng.random((4, 3)), np.tile(TOOL[3:], (4, 1))]), 0.5 + rng.random((4, 6))
    solver = cpu_solver(dual_panda, [Target(links[0], TOOL), links[1]])
    plain = solver.solve(*targets)
    result = solver.solve(*targets, offset=[tools, None], row_weights=(None, weights))
    fresh = cpu_solver(dual_panda, [Target(links[0], tools), Target(links[1], row_weights=weights)])
    assert_same(result, fresh.solve(*targets))
    assert_same(solver.solve(*targets, offset=[None, None]), plain)
    for given in (tools, [tools], np.stack([tools, tools]), 3):
        with pytest.raises(InputError, match=r"offset is .* Allowed: a list with an entry or None for each of the 2"):
            solver.solve(*targets, offset=given)
    with pytest.raises(InputError, match="'right_panda_hand' was declared without an offset"):
        solver.solve(*targets, offset=[None, tools])
    assert_same(solver.solve(*targets), plain)


def test_refused_data_of_one_solve_leave_the_targets(panda):
    targets, tools, weights = drawn(panda, 3)
    solver = cpu_solver(panda, [Target("panda_hand", TOOL, tolerance=np.zeros(6))])
    kept, plain = solver.targets, solver.solve(*targets)
    refused = [
        ({"offset": tools[:2]}, "Target 'panda_hand': offset has 2 lines for 3 problems"),
        ({"offset": tools[:, :6]}, r"offset has shape \[3, 6\]. Allowed: \[7\] or \[n, 7\]"),
        ({"offset": "tool"}, "offset is not an array of numbers"),
        ({"row_weights": -weights}, "row_weights hold -1"),
        ({"row_weights": weights, "tolerance": np.ones((2, 6))}, "have 2 and 3 lines"),
        ({"tolerance": [1e-9] * 6}, "tolerance below that of the solve"),  # found when it begins
    ]
    for data, words in refused:
        with pytest.raises(InputError, match=words):
            solver.solve(*targets, **data)
        assert solver.targets is kept
    with pytest.raises(InputError, match="declared without a tolerance"):
        cpu_solver(panda, ["panda_hand"]).solve(*targets, tolerance=np.zeros(6))
    with pytest.raises(InputError, match="for each of the 0 targets"):
        cpu_solver(panda, objectives=[objectives.IKObjectivePosture(panda.mid_joint_q)]).solve(
            problem_count=1, offset=TOOL
        )
    assert_same(solver.solve(*targets), plain)
    tolerance = 0.01 + 0.1 * weights
    result = solver.solve(*targets, offset=tools, tolerance=tolerance)
    solver.set_target_data(0, offset=tools, tolerance=tolerance)
    assert_same(solver.solve(*targets), result)
    assert not np.array_equal(result.joint_q, plain.joint_q)


def test_values_record_nothing_anew(panda):
    solver = cpu_solver(panda, [Target("panda_hand", TOOL, row_weights=np.ones((1, 6)))])
    solver.set_target_data(0, offset=np.tile(TOOL, (8, 1)), row_weights=np.ones((8, 6)))
    solver.solve(*drawn(panda, 8)[0])
    plans = {key: id(plan) for key, plan in solver._core.engine.plans.items()}
    assert len(plans) == 1
    for count, seed in ((8, 1), (1, 2), (5, 3)):
        targets, tools, weights = drawn(panda, count, seed)
        solver.set_target_data(0, offset=tools, row_weights=weights)
        solver.solve(*targets)
        solver.solve(*targets, offset=tools[::-1], row_weights=weights[0:1])
    assert {key: id(plan) for key, plan in solver._core.engine.plans.items()} == plans


@pytest.mark.evidence
def test_other_data_of_objectives_record_nothing_anew(panda):
    posture = objectives.IKObjectivePosture(np.tile(panda.mid_joint_q, (8, 1)), row_weights=np.ones((8, 7)), weight=0.1)
    solver = cpu_solver(panda, ["panda_hand"], objectives=[posture])
    solver.solve(drawn(panda, 8)[0][0])
    plans = list(map(id, solver._core.engine.plans.values()))
    for count, seed in ((5, 1), (1, 2)):
        rng = np.random.default_rng(seed)
        reference, weights = panda.random_joint_q(rng, count), 0.1 + rng.random((count, 7))
        posture.set_reference(reference)
        posture.set_row_weights(weights)
        positions = drawn(panda, count, seed)[0][0]
        result = solver.solve(positions)
        fresh = objectives.IKObjectivePosture(reference, row_weights=weights, weight=0.1)
        assert_same(result, cpu_solver(panda, ["panda_hand"], objectives=[fresh]).solve(positions))
    assert list(map(id, solver._core.engine.plans.values())) == plans


def test_one_line_for_all_can_follow_lines_of_problems(panda):
    targets, tools, weights = drawn(panda, 6)
    solver = cpu_solver(panda, [Target("panda_hand", tools, row_weights=weights)])
    solver.solve(*targets)
    solver.set_target_data(0, offset=TOOL, row_weights=weights[0])
    fresh, many = cpu_solver(panda, [Target("panda_hand", TOOL, row_weights=weights[0])]), drawn(panda, 200, 1)[0]
    assert_same(solver.solve(*many), fresh.solve(*many))  # nothing is read beyond the line
    solver.set_target_data(0, row_weights=np.ones(6))  # the tool stays
    assert_same(solver.solve(*targets), cpu_solver(panda, [Target("panda_hand", TOOL)]).solve(*targets))


def test_what_is_not_allowed_is_refused_and_changes_nothing(panda):
    targets, tools, _ = drawn(panda, 3)
    solver = cpu_solver(panda, ["panda_hand"])
    before = solver.solve(*targets)
    refused = [
        (target, {"row_weights": np.ones(6)}, "Allowed: 0 to 0") for target in (1, -1, None, "panda_hand", 0.0, False)
    ]
    refused += [
        (0, {"offset": tools}, "declared without an offset"),
        (0, {"row_weights": -np.ones(6)}, "row_weights hold -1"),
    ]
    for target, data, words in refused:
        with pytest.raises(InputError, match=words):
            solver.set_target_data(target, **data)
    assert_same(solver.solve(*targets), before)
    solver.set_target_data(0, row_weights=np.ones((2, 6)))
    with pytest.raises(InputError, match="row_weights has 2 lines for 3 problems"):
        solver.solve(*targets)


def test_other_data_leave_the_bytes_of_a_tool(panda):
    """A quaternion that is brought to length 1 once more may be rounded to another one."""
    tools = np.random.default_rng(0).normal(size=(1000, 7))
    tools[:, 3:] /= np.linalg.norm(tools[:, 3:], axis=1, keepdims=True)
    solver = cpu_solver(panda, [Target("panda_hand", tools)])
    kept = solver.targets[0].offset.tobytes()
    solver.set_target_data(0, row_weights=np.full(6, 0.5))
    assert solver.targets[0].offset.tobytes() == kept
    solver.set_target_data(0, offset=tools)
    assert solver.targets[0].offset.tobytes() == kept
