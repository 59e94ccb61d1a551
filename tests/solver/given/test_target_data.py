"""Tool frames and weights are data: replaced between solves they give what a solver made with them gives."""

import numpy as np
import pytest

import objectives
from ik_service import Target
from ik_service.solver.given.batch import Batch
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


@pytest.mark.parametrize("threads", [1, 2])
def test_each_problem_has_the_bytes_that_it_has_alone(panda, threads):
    targets, tools, weights = drawn(panda, 600)
    weights[::3, 5] = 0.0  # two patterns, so islands are found per problem
    solver = cpu_solver(panda, [Target("panda_hand", TOOL)], threads=threads)
    solver.set_target_data(0, offset=tools, row_weights=weights)
    mixed = solver.solve(*targets)
    for pattern in (np.arange(600) % 3 == 0, np.arange(600) % 3 != 0):
        solver.set_target_data(0, offset=tools[pattern], row_weights=weights[pattern])
        alike = solver.solve(*(column[pattern] for column in targets))
        for name in NAMES:
            assert getattr(alike, name).tobytes() == getattr(mixed, name)[pattern].tobytes(), name
    for k in (0, 1, 599):
        one = cpu_solver(panda, [Target("panda_hand", tools[k], row_weights=weights[k])])
        assert_same(mixed, one.solve(*(column[k : k + 1] for column in targets)), slice(k, k + 1))


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


def test_data_of_one_solve_are_of_its_problems_alone_in_a_batch_and_in_parts(panda):
    targets, tools, weights = drawn(panda, 40)
    solver = cpu_solver(panda, [Target("panda_hand", TOOL)])
    data = {"offset": tools, "row_weights": weights}
    together = solver.solve(*targets, **data)
    for k in (0, 39):
        own = [column[k : k + 1] for column in targets]
        assert_same(together, solver.solve(*own, offset=tools[k], row_weights=weights[k : k + 1]), slice(k, k + 1))
    assert_same(solver.solve(*targets, offset=TOOL), solver.solve(*targets))  # one for all
    batch = Batch.of(*([column] for column in targets))._replace(targets=together.targets)
    for part, rows in (
        (batch.part(slice(0, 15)), slice(0, 15)),
        (batch.part(np.arange(30, 40)), slice(30, 40)),
        (batch.part(np.arange(30, 40)).part(slice(0, 2)), slice(30, 32)),
    ):
        assert_same(together, solver.solve_batch(part, solver.options), rows)


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


@pytest.mark.evidence
def test_weights_of_an_objective_that_go_from_lines_to_one_hold_for_more_problems(panda):
    targets, _, _ = drawn(panda, 7)
    posture = objectives.IKObjectivePosture(panda.mid_joint_q, weight=0.1)
    solver = cpu_solver(panda, ["panda_hand"], objectives=[posture])
    expected = solver.solve(*targets)
    posture.set_row_weights(np.full((3, 7), 0.5))
    solver.solve(*(column[:3] for column in targets))
    posture.set_row_weights(np.ones(7))
    assert_same(solver.solve(*targets), expected)


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
    fresh = cpu_solver(panda, [Target("panda_hand", TOOL, row_weights=weights[0])])
    assert_same(solver.solve(*targets), fresh.solve(*targets))
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


@pytest.mark.evidence
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_one_line_serves_more_problems_than_there_were_lines(panda, precision):
    """Of a tool and of tolerances: nothing is read beyond their lines, in answers and in their judgement."""
    targets, tools, _ = drawn(panda, 2)
    allowed = np.array([[0.02, 0.02, 0.02, 0.05, 0.05, np.inf], [0.01, 0.02, 0.03, 0.2, 0.2, np.inf]])
    options = {"precision": precision}
    solver = cpu_solver(panda, [Target("panda_hand", tools, tolerance=allowed, frame="tool")])
    solver.solve(*targets, options=options)
    many = drawn(panda, 200, 1)[0]
    solver.set_target_data(0, offset=TOOL, tolerance=allowed[0])
    fresh = cpu_solver(panda, [Target("panda_hand", TOOL, tolerance=allowed[0], frame="tool")])
    assert_same(solver.solve(*many, options=options), fresh.solve(*many, options=options))


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
