"""Tolerances of targets: what is allowed, and what a solve takes as no error."""

import numpy as np
import pytest

from ik_service import Target
from ik_service.solver.given.targets import as_target
from ik_service.solver.given.tolerances import FREE_CHORD, FREE_DISTANCE
from objectives import InputError
from tests.solver.conftest import bare_robot, cpu_solver

POSITION, ORIENTATION = 1e-3, 1e-2  # of the solve
ASKED = [0.01, 0.02, 0.0, 0.3, 0.2, 0.1]


@pytest.fixture(scope="module")
def dual_panda():
    return bare_robot("dual_panda")


def chord(angle):
    return 2.0 * np.sin(angle / 2.0)


def test_free_rows_have_no_weight_and_are_of_the_tool(panda):
    target = as_target(Target("panda_hand", free=["z", "rx", "ry"], row_weights=[1, 2, 3, 4, 5, 6]), panda)
    assert target.frame == "tool"
    assert target.weights().tolist() == [1, 2, 0, 0, 0, 6]
    assert as_target(Target("panda_hand", free="rz"), panda).weights().tolist() == [1, 1, 1, 1, 1, 0]


def test_without_tolerances_rows_are_of_the_reference_frame(panda):
    target = as_target(Target("panda_hand", row_weights=[1, 1, 1, 1, 1, 0]), panda)
    assert target.frame is None
    assert target.tolerance is None


def test_a_tolerance_of_infinity_frees_a_row_in_its_problem(panda):
    asked = np.tile(ASKED, (2, 1))
    asked[1, 4] = np.inf
    asked[1, 5] = 0.3
    target = as_target(Target("panda_hand", tolerance=asked, frame="target"), panda)
    assert target.weights().tolist() == [[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 1]]
    assert target.frame == "target"


def test_errors_count_from_the_tolerance_less_that_of_the_solve(panda):
    (found,) = as_target(Target("panda_hand", tolerance=ASKED), panda).deadband(POSITION, ORIENTATION)
    np.testing.assert_allclose(found[:3], [0.009, 0.019, 0.0], rtol=1e-6)
    np.testing.assert_allclose(found[3:6], chord(np.array(ASKED[3:])) - chord(ORIENTATION), rtol=1e-6)
    assert found[6] == 0.0
    assert (found[:3].astype(np.float64) <= np.maximum(np.array(ASKED[:3]) - POSITION, 0.0)).all()


def test_beside_a_free_rotation_the_others_share_a_cone(panda):
    asked = Target("panda_hand", tolerance=[0, 0, 0, 0.2, 0.2, 0], free=["rz"])
    (found,) = as_target(asked, panda).deadband(POSITION, ORIENTATION)
    np.testing.assert_allclose(found, [0, 0, 0, 0, 0, FREE_CHORD, chord(0.2) - chord(ORIENTATION)], rtol=1e-6)
    by_weight = Target("panda_hand", tolerance=[0, 0, 0, 0.2, 0.2, 0], row_weights=[1, 1, 1, 1, 1, 0])
    np.testing.assert_array_equal(as_target(by_weight, panda).deadband(POSITION, ORIENTATION)[0], found)


def test_free_positions_and_two_free_rotations_leave_intervals(panda):
    asked = Target("panda_hand", tolerance=[0.01, 0, 0, 0, 0, 0.5], free=["y", "rx", "ry"])
    (found,) = as_target(asked, panda).deadband(POSITION, ORIENTATION)
    expected = [0.009, FREE_DISTANCE, 0, FREE_CHORD, FREE_CHORD, chord(0.5) - chord(ORIENTATION), 0]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"free": ["yaw"]}, "Allowed: a list of x, y, z, rx, ry, rz"),
        ({"free": [1]}, "Allowed: a list of x"),
        ({"free": 3}, "Allowed: a list of x"),
        ({"tolerance": [0.1] * 5}, r"Allowed: \[6\] or \[n, 6\]"),
        ({"tolerance": [-0.1, 0, 0, 0, 0, 0]}, "Allowed: 0 and above"),
        ({"tolerance": [-np.inf, 0, 0, 0, 0, 0]}, "finite numbers"),
        ({"tolerance": [np.nan, 0, 0, 0, 0, 0]}, "finite numbers"),
        ({"tolerance": [0, 0, 0, 3.2, 0, 0]}, "an angle above pi"),
        ({"tolerance": [0, 0, 0, 0.1, 0.2, 0], "free": ["rz"]}, "the same tolerance for both"),
        ({"tolerance": [0.1] * 6, "frame": "hand"}, "Allowed: reference, target, tool, world"),
        ({"tolerance": np.zeros((2, 6)), "row_weights": np.ones((3, 6))}, "have 2 and 3 lines"),
        ({"frame": np.array(["tool", "world"])}, "Allowed: reference, target, tool, world"),
        ({"frame": 3}, "Allowed: reference, target, tool, world"),
    ],
)
def test_what_is_not_allowed_is_refused(panda, asked, message):
    with pytest.raises(InputError, match=message):
        cpu_solver(panda, [Target("panda_hand", **asked)])


def test_a_tolerance_below_that_of_the_solve_is_refused(panda):
    pose = panda.forward_kinematics(panda.mid_joint_q[None], ["panda_hand"])
    solver = cpu_solver(panda, [Target("panda_hand", tolerance=[5e-4] * 3 + [0.0] * 3)])
    with pytest.raises(InputError, match=r"Allowed: 0, or from position_tolerance \(0.001 m\)"):
        solver.solve(pose.positions[:, 0], pose.orientations_xyzw[:, 0])
    finer = {"position_tolerance": 1e-4}
    assert solver.solve(pose.positions[:, 0], pose.orientations_xyzw[:, 0], options=finer).success.all()


def test_axes_of_a_target_need_its_orientations(panda):
    solver = cpu_solver(panda, [Target("panda_hand", frame="target")])
    with pytest.raises(InputError, match="give its orientations"):
        solver.solve([[0.4, 0.1, 0.5]])


@pytest.mark.evidence_cases("compiled")
@pytest.mark.parametrize("engine", ["compiled", "staged"])
def test_after_data_that_are_refused_the_next_solve_keeps_the_tolerances_given_before(dual_panda, engine):
    links = ["left_panda_hand", "right_panda_hand"]
    wide = [0.5, 0.5, 0.5, 0.0, 0.0, 0.0]
    poses = dual_panda.forward_kinematics(dual_panda.random_joint_q(np.random.default_rng(0), 8), links)
    targets = [Target(links[0], tolerance=wide, frame="world"), Target(links[1], tolerance=wide, frame="world")]
    solver = cpu_solver(dual_panda, targets, engine=engine)
    solver.solve(*poses)
    solver.set_target_data(0, tolerance=np.tile([0.002] * 3 + [0.0] * 3, (8, 1)))  # a larger array
    solver.set_target_data(1, tolerance=[1e-9] * 6)
    with pytest.raises(InputError, match="below that of the solve"):
        solver.solve(*poses)
    solver.set_target_data(1, tolerance=wide)
    result = solver.solve(*poses)
    reached = dual_panda.forward_kinematics(result.joint_q, links[:1]).positions[:, 0]
    assert result.success.mean() > 0.5
    assert np.abs(reached - poses.positions[:, 0])[result.success].max() <= 0.002
