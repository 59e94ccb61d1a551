"""Tolerances of targets: what is allowed, and what a solve takes as no error."""

import numpy as np
import pytest

from ik_service import Target
from ik_service.solver.given.targets import FREE_CHORD, FREE_DISTANCE, as_target
from objectives import InputError
from tests.solver.conftest import STAGED_QUICK, cpu_solver

POSITION, ORIENTATION = 1e-3, 1e-2  # of the solve
ASKED = [0.01, 0.02, 0.0, 0.3, 0.2, 0.1]


def chord(angle):
    return 2.0 * np.sin(angle / 2.0)


FREED = [  # what is asked for, the frame of the rows, and their weights
    ({"free": ["z", "rx", "ry"], "row_weights": [1, 2, 3, 4, 5, 6]}, "tool", [1, 2, 0, 0, 0, 6]),
    ({"free": "rz"}, "tool", [1, 1, 1, 1, 1, 0]),
    ({"row_weights": [1, 1, 1, 1, 1, 0]}, None, [1, 1, 1, 1, 1, 0]),
    (
        {"tolerance": [ASKED, [*ASKED[:4], np.inf, 0.3]], "frame": "target"},
        "target",
        [[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 1]],
    ),
]


@pytest.mark.parametrize(("asked", "frame", "weights"), FREED)
def test_free_rows_have_no_weight(panda, asked, frame, weights):
    target = as_target(Target("panda_hand", **asked), panda)
    assert (target.frame, target.weights().tolist()) == (frame, weights)
    assert (target.tolerance is None) == (frame is None)


DIFFERENCE = chord(0.2) - chord(ORIENTATION)
CONE = [0.0, 0.0, 0.0, 0.2, 0.2, 0.0]
DEADBANDS = [  # beside a free rotation the others share a cone; two free ones leave an interval
    ({"tolerance": CONE, "free": ["rz"]}, [0, 0, 0, 0, 0, FREE_CHORD, DIFFERENCE]),
    ({"tolerance": CONE, "row_weights": [1, 1, 1, 1, 1, 0]}, [0, 0, 0, 0, 0, FREE_CHORD, DIFFERENCE]),
    (
        {"tolerance": [0.01, 0, 0, 0, 0, 0.5], "free": ["y", "rx", "ry"]},
        [0.009, FREE_DISTANCE, 0, FREE_CHORD, FREE_CHORD, chord(0.5) - chord(ORIENTATION), 0],
    ),
]


@pytest.mark.parametrize(("asked", "expected"), DEADBANDS)
def test_free_axes_leave_cones_and_intervals(panda, asked, expected):
    (found,) = as_target(Target("panda_hand", **asked), panda).deadband(POSITION, ORIENTATION)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_errors_count_from_the_tolerance_less_that_of_the_solve(panda):
    (found,) = as_target(Target("panda_hand", tolerance=ASKED), panda).deadband(POSITION, ORIENTATION)
    np.testing.assert_allclose(found[:3], [0.009, 0.019, 0.0], rtol=1e-6)
    np.testing.assert_allclose(found[3:6], chord(np.array(ASKED[3:])) - chord(ORIENTATION), rtol=1e-6)
    assert found[6] == 0.0
    assert (found[:3].astype(np.float64) <= np.maximum(np.array(ASKED[:3]) - POSITION, 0.0)).all()


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


def test_a_tolerance_below_that_of_the_solve_is_refused(panda_targets):
    solver = cpu_solver(panda_targets.robot, [Target("panda_hand", tolerance=[5e-4] * 3 + [0.0] * 3)])
    given = panda_targets.part([0]).targets
    with pytest.raises(InputError, match=r"Allowed: 0, or from position_tolerance \(0.001 m\)"):
        solver.solve(*given)
    assert solver.solve(*given, options={"position_tolerance": 1e-4}).success.all()


def test_axes_of_a_target_need_its_orientations(panda):
    solver = cpu_solver(panda, [Target("panda_hand", frame="target")])
    with pytest.raises(InputError, match="give its orientations"):
        solver.solve([[0.4, 0.1, 0.5]])


@STAGED_QUICK
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
