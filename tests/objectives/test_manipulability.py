"""Manipulability beside the Jacobian of the host: rows, derivatives, and what joints and motions count."""

import numpy as np
import pytest

import objectives
from ik_service import load_robot
from objectives import InputError, UnknownNameError
from tests.objectives.conftest import GUARD, Workplace, scene
from tests.objectives.manipulability_rows import WEIGHT, differences, expected_rows
from tests.robots.urdf_text import joint, urdf

COUNT = 6
OFFSET = np.array([0.1, -0.05, 0.2, 0.0, np.sin(0.3), 0.0, np.cos(0.3)])
SLIDING = urdf(
    "sliding",
    "base",
    joint("rail", "prismatic", "base", "a", axis="0 0 -1", limit=(0, 0.5, 1)),
    joint("pan", "revolute", "a", "b", "0 0.1 0.4", axis="1 2 3", limit=(-2, 2, 1)),
    joint("tilt", "continuous", "b", "c", "0.5 0 0", "0.3 0.2 0.1", "0 1 0"),
    joint("reach", "prismatic", "c", "d", "0.2 0 0", axis="1 0 0", limit=(0, 0.3, 1)),
)
FEW = ["panda_joint1", "panda_joint2", "panda_joint4"]
CASES = {
    "pose": ("fixed", "panda_hand", {}),
    "pose_offset": ("fixed", "panda_hand", {"offset": OFFSET}),
    "position_part": ("fixed", "panda_link6", {"motion": "position", "joints": FEW}),
    "orientation": ("fixed", "panda_link4", {"motion": "orientation"}),
    "sliding": (None, "d", {"motion": "position", "row_weights": [0.5, 1.0, 2.0]}),
}


@pytest.fixture(params=CASES)
def case(request):
    name, link, options = CASES[request.param]
    robot = load_robot(SLIDING) if name is None else scene(name).robot
    joint_q = robot.random_joint_q(np.random.default_rng(1), COUNT).astype(np.float32)
    objective = objectives.IKObjectiveManipulability(link, weight=WEIGHT, **options)
    return robot, link, options, joint_q.astype(np.float64), Workplace(robot, objective, joint_q, np.zeros(COUNT, int))


@pytest.mark.quick_cases("position_part")
def test_rows_are_those_of_a_cholesky_factor(case):
    """Half the squared residual is a constant less the logarithm of the manipulability, which the robot gives, too."""
    robot, link, options, joint_q, place = case
    expected, measure, bounds = expected_rows(robot, link, joint_q, options)
    rows = place.residuals()[:, GUARD:-GUARD]
    np.testing.assert_allclose(rows, expected, atol=2e-4)
    rows = rows / (WEIGHT * np.array(options.get("row_weights", 1.0)))
    constant = (0.5 * np.log(bounds) + 0.5).sum()
    np.testing.assert_allclose(0.5 * (rows**2).sum(axis=1), constant - np.log(measure), atol=2e-4)
    counted = robot.activate(options["joints"]) if "joints" in options else robot
    found = counted.manipulability(joint_q, link, options.get("motion", "pose"), options.get("offset"))
    np.testing.assert_allclose(found, measure, rtol=1e-6)  # objectives read lengths in float32


@pytest.mark.quick_cases("position_part")
def test_derivatives_are_those_of_differences(case):
    robot, link, options, joint_q, place = case
    expected = differences(robot, link, joint_q, options)
    tolerance = 5e-4 * max(1.0, np.abs(expected).max())  # a pivot near 0 has few digits in float32
    np.testing.assert_allclose(place.analytic()[:, GUARD:-GUARD], expected, atol=tolerance)
    np.testing.assert_allclose(place.autodiff()[:, GUARD:-GUARD], expected, atol=tolerance)


@pytest.mark.evidence
def test_a_singular_configuration_has_finite_rows_and_derivatives():
    robot = scene("fixed").robot
    straight = np.zeros((1, 7))  # the elbow is stretched, the wrist in line
    objective = objectives.IKObjectiveManipulability("panda_hand")
    place = Workplace(robot, objective, straight, np.zeros(1, int))
    assert np.isfinite(place.residuals()).all()
    assert np.isfinite(place.analytic()).all()
    assert place.residuals()[:, GUARD:-GUARD].max() > 4.0


@pytest.mark.parametrize(
    ("link", "options", "error", "message"),
    [
        ("panda_link5", {}, InputError, "5 joints of one DOF carry 'panda_link5'"),
        ("panda_hand", {"joints": ["panda_joint1"]}, InputError, "1 joints of one DOF"),
        ("panda_link0", {"motion": "position"}, InputError, "0 joints of one DOF"),
        ("panda_hand", {"motion": "twist"}, InputError, "allowed: pose, position, orientation"),
        ("panda_hand", {"joints": ["elbow"]}, UnknownNameError, "joint 'elbow' is not in the robot"),
    ],
)
def test_a_frame_that_can_never_move_in_all_directions_is_refused(link, options, error, message):
    with pytest.raises(error, match=message):
        Workplace(scene("fixed").robot, objectives.IKObjectiveManipulability(link, **options), np.zeros((1, 7)), [0])
