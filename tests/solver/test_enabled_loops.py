"""Loops that are closed in some problems only, the errors of all, and the coordinates of the joints that close them."""

import numpy as np
import pytest

from ik_service import IKStatus
from ik_service.mechanism.transforms import transform_multiply
from ik_service.robots import LoopConstraint
from objectives import IKObjectivePosture, InputError
from objectives.errors import UnknownNameError
from tests.objectives.loop_rows import LOOP_SIZES
from tests.solver.conftest import EACH_ENGINE, assert_same_bytes, bare_robot, cpu_solver
from tests.solver.test_loops import CLOSED, HELD, LEFT, RIGHT, gaps, pose_of, two_hands

COUNT = 5
ON_OFF = np.array([True, False, True, False, True])
GIVEN = ["rows", "names", "lists"]
BYTES = ("joint_q", "success", "status", "cost", "iterations", "seed_index", "position_error", "constraint_error")


@pytest.fixture(scope="module")
def holding():
    """Targets of two arms that hold one object, of which those of odd problems cannot be reached with it."""
    hands = two_hands(COUNT)
    hands.positions[~ON_OFF, 1, 0] += 0.05
    return hands


@pytest.mark.quick_cases("staged-rows")
@pytest.mark.parametrize("given", [ON_OFF[:, None], {"object": ON_OFF}, ON_OFF[:, None].tolist()], ids=GIVEN)
@EACH_ENGINE
def test_a_batch_of_both_kinds_has_the_bytes_of_its_problems_alone(holding, engine, given, monkeypatch):
    robot, solver = holding.robot, cpu_solver(holding.robot, holding.links, engine=engine)
    parts = [holding.part(slice(p, p + 1)) for p in range(COUNT)]
    alone = [solver.solve(*one.targets, constraint_enabled=[on]) for one, on in zip(parts, ON_OFF, strict=True)]
    with monkeypatch.context() as patched:
        if engine == "compiled":
            patched.setattr(solver._core.engine.kernels.launches, "kernel", None)  # what makes and compiles kernels
        mixed = solver.solve(*holding.targets, constraint_enabled=given)
    for p, one in enumerate(alone):
        for name in BYTES:
            assert getattr(one, name)[0].tobytes() == getattr(mixed, name)[p].tobytes(), name
    assert mixed.islands.nisland.tolist() == np.where(ON_OFF, 1, 2).tolist()
    assert mixed.success.all()  # what the loop does not allow is met where it is not closed
    assert (gaps(robot, mixed.joint_q)[ON_OFF] <= CLOSED).all()
    assert (gaps(robot, mixed.joint_q)[~ON_OFF] >= 0.03).all()
    again, fresh = (one.solve(*holding.targets) for one in (solver, cpu_solver(robot, holding.links, engine=engine)))
    assert_same_bytes(again, fresh)
    assert not again.success[~ON_OFF].any()


@pytest.mark.evidence
def test_loops_are_enabled_each_by_itself(dual_panda):
    stand = tuple(pose_of(dual_panda, dual_panda.mid_joint_q[None], LEFT)[0])
    robot = dual_panda.with_loops(
        [
            LoopConstraint("object", "weld", RIGHT, LEFT, reference_offset=HELD),
            LoopConstraint("stand", "spherical", LEFT, None, reference_offset=stand),
        ]
    )
    solver = cpu_solver(robot, objectives=[IKObjectivePosture(robot.mid_joint_q, weight=1e-3)])
    enabled = np.array([[True, True], [True, False], [False, True], [False, False]])
    result = solver.solve(problem_count=4, constraint_enabled=enabled)
    assert (result.constraint_error[enabled] <= CLOSED).all()
    assert result.constraint_error[1, 1] > 1e-3 < result.constraint_error[2:, 0].min()
    assert result.constraint_names == ("object", "stand")
    assert result.success.all()
    named = solver.solve(problem_count=4, constraint_enabled={"stand": enabled[:, 1], "object": enabled[:, 0]})
    assert_same_bytes(named, result)


def test_errors_of_constraints_are_those_of_the_answers(panda, holding):
    result = cpu_solver(holding.robot, holding.links).solve(*holding.targets, constraint_enabled=[False])
    found = result.constraint_error[:, 0]
    np.testing.assert_allclose(found, gaps(holding.robot, result.joint_q), rtol=1e-6, atol=1e-12)
    assert (found > 0.0).all()
    none = cpu_solver(panda, ["panda_hand"]).solve([[0.4, 0.1, 0.5]])
    assert none.constraint_error.shape == none.closing_joint_q.shape == (1, 0)


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"tray": False}, UnknownNameError, "no loop 'tray'. Loops: 'object'"),
        ({"object": 1}, InputError, "of loop 'object' is 1. Allowed: True and False"),
        ({"object": [True, False]}, InputError, r"has shape \[2\]. Allowed: True, False, or \[5\]"),
        ([True, False], InputError, r"shape \[2\]. Allowed: \[1\] or \[5, 1\]"),
        ([[True]] * 4, InputError, r"shape \[4, 1\]. Allowed: \[1\] or \[5, 1\]"),
        ([1.0], InputError, "Allowed: True and False"),
        ([[True], [True, False]], InputError, "Allowed: True and False"),
    ],
)
def test_what_enables_no_loop_is_refused(holding, given, error, words):
    with pytest.raises(error, match=words):
        cpu_solver(holding.robot, holding.links).solve(*holding.targets, constraint_enabled=given)


@pytest.mark.quick_cases("spherical")
@pytest.mark.parametrize(
    "joint", ["revolute", "prismatic", "helical", "cylindrical", "universal", "spherical", "planar", "weld", "distance"]
)
def test_a_loop_of_each_joint_is_closed_or_said_to_be_open_and_has_its_coordinates(joint):
    robot, n = bare_robot("ur5e"), 30
    rng = np.random.default_rng(5)
    offset = np.array([0.05, 0.02, 0.1, 0.0, 0.0, 0.6, 0.8])
    base = transform_multiply(pose_of(robot, robot.random_joint_q(rng, 1), "tool0"), offset[np.newaxis])[0]
    loop = LoopConstraint("pin", joint, "tool0", None, offset, base, **LOOP_SIZES.get(joint, {}))
    closed = robot.with_loops([loop])
    solver = cpu_solver(closed, objectives=[IKObjectivePosture(robot.mid_joint_q, weight=1e-3)])
    result = solver.solve(problem_count=n, initial_joint_q=robot.random_joint_q(rng, n))
    good = result.constraint_error[:, 0] <= CLOSED
    np.testing.assert_array_equal(good, gaps(closed, result.joint_q) <= CLOSED)
    np.testing.assert_array_equal(good, result.status != IKStatus.LOOP_OPEN)
    assert not result.success[~good].any()
    assert good.sum() >= 20
    names = tuple(name.removeprefix("pin").removeprefix("/") for name in result.closing_coordinate_names)
    assert result.closing_joint_q.shape == (n, len(names))
    assert result.closing_joint_q.dtype == np.float64
    whole = closed.constraints.with_closing_joints(result.joint_q.astype(float))
    np.testing.assert_allclose(result.closing_joint_q[good], whole[good, robot.joint_coord_count :], atol=1e-9)
    assert (np.abs(result.closing_joint_q[good]) > 0.05).any() == (joint not in ("weld", "distance"))
