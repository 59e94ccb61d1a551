"""Manipulability beside the Jacobian of the host: rows, derivatives, and what joints and motions count."""

import numpy as np
import pytest

import objectives
from ik_service import load_robot
from objectives import InputError, UnknownNameError
from tests.objectives.conftest import GUARD, Workplace, scene
from tests.objectives.manipulability_rows import WEIGHT, differences, expected_rows

COUNT = 6
OFFSET = np.array([0.1, -0.05, 0.2, 0.0, np.sin(0.3), 0.0, np.cos(0.3)])
SLIDING = """<robot name="sliding">
  <link name="base"/><link name="a"/><link name="b"/><link name="c"/><link name="d"/>
  <joint name="rail" type="prismatic"><parent link="base"/><child link="a"/><axis xyz="0 0 -1"/>
    <limit lower="0" upper="0.5" effort="1" velocity="1"/></joint>
  <joint name="pan" type="revolute"><parent link="a"/><child link="b"/><origin xyz="0 0.1 0.4"/><axis xyz="1 2 3"/>
    <limit lower="-2" upper="2" effort="1" velocity="1"/></joint>
  <joint name="tilt" type="continuous"><parent link="b"/><child link="c"/><origin xyz="0.5 0 0" rpy="0.3 0.2 0.1"/>
    <axis xyz="0 1 0"/></joint>
  <joint name="reach" type="prismatic"><parent link="c"/><child link="d"/><origin xyz="0.2 0 0"/><axis xyz="1 0 0"/>
    <limit lower="0" upper="0.3" effort="1" velocity="1"/></joint>
</robot>"""
CASES = {
    "pose": ("fixed", "panda_hand", {}),
    "pose_offset": ("fixed", "panda_hand", {"offset": OFFSET}),
    "position_part": (
        "fixed",
        "panda_link6",
        {"motion": "position", "joints": ["panda_joint1", "panda_joint2", "panda_joint4"]},
    ),
    "orientation": ("fixed", "panda_link4", {"motion": "orientation"}),
    "sliding": (None, "d", {"motion": "position", "row_weights": [0.5, 1.0, 2.0]}),
}


def robot_of(name):
    return load_robot(SLIDING) if name is None else scene(name).robot


@pytest.fixture(params=CASES)
def case(request):
    name, link, options = CASES[request.param]
    robot = robot_of(name)
    joint_q = robot.random_joint_q(np.random.default_rng(1), COUNT).astype(np.float32)
    objective = objectives.IKObjectiveManipulability(link, weight=WEIGHT, **options)
    return robot, link, options, joint_q.astype(np.float64), Workplace(robot, objective, joint_q, np.zeros(COUNT, int))


@pytest.mark.quick_cases("position_part")
def test_rows_are_those_of_a_cholesky_factor(case):
    robot, link, options, joint_q, place = case
    expected, _, _ = expected_rows(robot, link, joint_q, options)
    np.testing.assert_allclose(place.residuals()[:, GUARD:-GUARD], expected, atol=2e-4)


@pytest.mark.quick_cases("position_part")
def test_half_the_squared_residual_is_a_constant_less_the_logarithm_of_the_manipulability(case):
    robot, link, options, joint_q, place = case
    _, measure, bounds = expected_rows(robot, link, joint_q, options)
    rows = place.residuals()[:, GUARD:-GUARD] / (WEIGHT * np.array(options.get("row_weights", 1.0)))
    constant = (0.5 * np.log(bounds) + 0.5).sum()
    np.testing.assert_allclose(0.5 * (rows**2).sum(axis=1), constant - np.log(measure), atol=2e-4)


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
    ("link", "options", "message"),
    [
        ("panda_link5", {}, "5 joints of one DOF carry 'panda_link5'"),
        ("panda_hand", {"joints": ["panda_joint1"]}, "1 joints of one DOF"),
        ("panda_link0", {"motion": "position"}, "0 joints of one DOF"),
    ],
)
def test_a_frame_that_can_never_move_in_all_directions_is_refused(link, options, message):
    with pytest.raises(InputError, match=message):
        Workplace(scene("fixed").robot, objectives.IKObjectiveManipulability(link, **options), np.zeros((1, 7)), [0])


def test_names_and_words_are_checked():
    with pytest.raises(InputError, match="allowed: pose, position, orientation"):
        objectives.IKObjectiveManipulability("panda_hand", motion="twist")
    objective = objectives.IKObjectiveManipulability("panda_hand", joints=["elbow"])
    with pytest.raises(UnknownNameError, match="joint 'elbow' is not in the robot"):
        Workplace(scene("fixed").robot, objective, np.zeros((1, 7)), [0])
