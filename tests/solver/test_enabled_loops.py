"""Loops that are closed in some problems only, the errors of all, and the coordinates of the joints that close them."""

import numpy as np
import pytest

from ik_service import Target
from ik_service.mechanism.transforms import transform_inverse, transform_multiply
from ik_service.robots import LoopConstraint
from objectives import IKObjectivePosture, InputError
from objectives.errors import UnknownNameError
from tests.objectives.loop_rows import LOOP_SIZES, matrix_of
from tests.solver.conftest import assert_same_bytes, bare_robot, cpu_solver
from tests.solver.test_loops import CLOSED, HELD, LEFT, RIGHT, gaps, pose_of

COUNT = 5
ON_OFF = np.array([True, False, True, False, True])
BYTES = ("joint_q", "success", "status", "cost", "iterations", "seed_index", "position_error", "constraint_error")


@pytest.fixture(scope="module")
def arms():
    return bare_robot("dual_panda")


@pytest.fixture(scope="module")
def holding(arms):
    """Two arms that hold one object, and targets of which those of odd problems cannot be reached with it."""
    robot = arms.with_loops([LoopConstraint("object", "weld", RIGHT, LEFT, reference_offset=HELD)])
    starts = arms.random_joint_q(np.random.default_rng(3), COUNT)
    hand = cpu_solver(arms, [Target(RIGHT, reference_link=LEFT)])
    held = hand.solve(np.tile(HELD[:3], (COUNT, 1, 1)), np.tile(HELD[3:], (COUNT, 1, 1)), initial_joint_q=starts)
    assert held.success.all()
    poses = arms.forward_kinematics(held.joint_q, [LEFT, RIGHT])
    positions = poses.positions.copy()
    positions[~ON_OFF, 1, 0] += 0.05
    return robot, positions, poses.orientations_xyzw


@pytest.mark.evidence
@pytest.mark.parametrize("given", [ON_OFF[:, None], {"object": ON_OFF}, ON_OFF[:, None].tolist()])
def test_a_batch_of_both_kinds_has_the_bytes_of_its_problems_alone_and_compiles_nothing(holding, given, monkeypatch):
    robot, positions, turns = holding
    solver = cpu_solver(robot, [LEFT, RIGHT])
    alone = [
        solver.solve(positions[p : p + 1], turns[p : p + 1], constraint_enabled=[on]) for p, on in enumerate(ON_OFF)
    ]
    monkeypatch.setattr(solver._core.engine.kernels.launches, "kernel", None)  # what makes and compiles kernels
    mixed = solver.solve(positions, turns, constraint_enabled=given)
    for p, one in enumerate(alone):
        for name in BYTES:
            assert getattr(one, name)[0].tobytes() == getattr(mixed, name)[p].tobytes(), name
    assert mixed.islands.nisland.tolist() == np.where(ON_OFF, 1, 2).tolist()
    assert mixed.success.all()  # what the loop does not allow is met where it is not closed
    assert (gaps(robot, mixed.joint_q)[ON_OFF] <= CLOSED).all()
    assert (gaps(robot, mixed.joint_q)[~ON_OFF] >= 0.03).all()


@pytest.mark.evidence
def test_a_loop_that_is_closed_nowhere_leaves_the_bytes_of_a_robot_without_it(arms, holding):
    robot, positions, turns = holding
    solver = cpu_solver(robot, [LEFT, RIGHT])
    result = solver.solve(positions, turns, constraint_enabled=np.array([False]))
    without = cpu_solver(arms, [LEFT, RIGHT])
    assert_same_bytes(result, without.solve(positions, turns, options={"precision": "float64"}))
    again = solver.solve(positions, turns)
    assert_same_bytes(again, cpu_solver(robot, [LEFT, RIGHT]).solve(positions, turns))
    assert not again.success[~ON_OFF].any()


@pytest.mark.evidence
def test_loops_are_enabled_each_by_itself(arms):
    stand = pose_of(arms, arms.mid_joint_q[None], LEFT)[0]
    loops = [
        LoopConstraint("object", "weld", RIGHT, LEFT, reference_offset=HELD),
        LoopConstraint("stand", "spherical", LEFT, None, reference_offset=tuple(stand)),
    ]
    robot = arms.with_loops(loops)
    posture = IKObjectivePosture(robot.mid_joint_q, weight=1e-3)
    solver = cpu_solver(robot, objectives=[posture])
    enabled = np.array([[True, True], [True, False], [False, True], [False, False]])
    result = solver.solve(problem_count=4, constraint_enabled=enabled)
    assert (result.constraint_error[enabled] <= CLOSED).all()
    assert result.constraint_error[1, 1] > 1e-3 < result.constraint_error[2:, 0].min()
    assert result.constraint_names == ("object", "stand")
    assert result.success.all()
    named = solver.solve(problem_count=4, constraint_enabled={"stand": enabled[:, 1], "object": enabled[:, 0]})
    assert_same_bytes(named, result)


def test_errors_of_constraints_are_those_of_the_answers(holding):
    robot, positions, turns = holding
    result = cpu_solver(robot, [LEFT, RIGHT]).solve(positions, turns, constraint_enabled=[False])
    np.testing.assert_allclose(result.constraint_error[:, 0], gaps(robot, result.joint_q), rtol=1e-6, atol=1e-12)
    assert (result.constraint_error > 0.0).all()
    plain = bare_robot("panda")
    none = cpu_solver(plain, ["panda_hand"]).solve([[0.4, 0.1, 0.5]])
    assert none.constraint_error.shape == none.closing_joint_q.shape == (1, 0)


@pytest.mark.evidence
def test_reports_call_a_loop_by_its_name(holding):
    robot, positions, turns = holding
    solver = cpu_solver(robot, [LEFT, RIGHT])
    rows = (f"target {LEFT}", f"target {RIGHT}", "constraint object")
    assert [island.rows for island in solver.islands().islands] == [rows]
    result = solver.solve(positions, turns, constraint_enabled=ON_OFF[:, None])
    assert [island.rows for island in result.islands[0]] == [rows]
    assert [island.rows for island in result.islands[1]] == [rows[:1], rows[1:2]]
    assert len(solver.islands().islands) == 1  # of all loops, whatever the last solve has closed


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
    robot, positions, turns = holding
    solver = cpu_solver(robot, [LEFT, RIGHT])
    with pytest.raises(error, match=words):
        solver.solve(positions, turns, constraint_enabled=given)


def matrices(axis, angles):
    """Rotations about a coordinate axis, [n, 3, 3]."""
    return matrix_of(np.stack([*(np.sin(angles / 2) * (k == axis) for k in range(3)), np.cos(angles / 2)], axis=1))


def placed(joint, names, values):
    """Position and rotation matrix of a frame in its reference, from the coordinates of the joint between them."""
    at = dict(zip(names, values.T, strict=True))
    none = np.zeros(len(values))
    position = np.stack([at.get("x", none), at.get("y", none), at.get("z", none)], axis=1)
    turn = matrices(2, at.get("angle", none))
    if joint == "revolute":
        turn = matrices(2, at[""])
    elif joint == "prismatic":
        position[:, 2] = at[""]
    elif joint == "helical":
        position[:, 2], turn = LOOP_SIZES["helical"]["pitch"] * at[""], matrices(2, at[""])
    elif joint == "universal":
        turn = matrices(2, at["angle_z"]) @ matrices(0, at["angle_x"])
    elif joint == "spherical":
        turn = matrix_of(values)
    return position, turn


@pytest.mark.quick_cases("spherical")
@pytest.mark.parametrize(
    "joint", ["revolute", "prismatic", "helical", "cylindrical", "universal", "spherical", "planar", "weld", "distance"]
)
def test_coordinates_of_a_closing_joint_place_its_frame(joint):
    robot, n = bare_robot("ur5e"), 30
    rng = np.random.default_rng(5)
    offset = np.array([0.05, 0.02, 0.1, 0.0, 0.0, 0.6, 0.8])
    base = transform_multiply(pose_of(robot, robot.random_joint_q(rng, 1), "tool0"), offset[np.newaxis])[0]
    loop = LoopConstraint("pin", joint, "tool0", None, offset, base, **LOOP_SIZES.get(joint, {}))
    closed = robot.with_loops([loop])
    solver = cpu_solver(closed, objectives=[IKObjectivePosture(robot.mid_joint_q, weight=1e-3)])
    result = solver.solve(problem_count=n, initial_joint_q=robot.random_joint_q(rng, n))
    good = result.constraint_error[:, 0] <= CLOSED
    assert good.sum() >= 20
    names = tuple(name.removeprefix("pin").removeprefix("/") for name in result.closing_coordinate_names)
    assert result.closing_joint_q.shape == (n, len(names))
    assert result.closing_joint_q.dtype == np.float64
    if joint in ("weld", "distance"):
        assert names == ()
        return
    frame = transform_multiply(pose_of(robot, result.joint_q, "tool0"), np.tile(offset, (n, 1)))
    seen = transform_multiply(transform_inverse(np.tile(base, (n, 1))), frame)[good]
    position, turn = placed(joint, names, result.closing_joint_q[good])
    np.testing.assert_allclose(position, seen[:, :3], atol=1e-6)
    np.testing.assert_allclose(turn, matrix_of(seen[:, 3:]), atol=1e-6)
    assert np.abs(result.closing_joint_q[good]).max() > 0.05  # not of a frame that stands on its reference
