"""A robot and its enlarged copy are solved alike: what is small and what is near follows from its size."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from benchmarks.problems.compared_robots import BUILTIN
from ik_service.control import IKController
from ik_service.mechanism.trees import reach
from ik_service.robots import load_urdf
from ik_service.robots.readers.catalog import builtin_robot_names
from tests.solver.conftest import Reachable, bare_robot, cpu_solver

LINK = "panda_hand"


def panda_of_size(factor):
    """All its joints turn: their places are its only lengths."""
    robot = ElementTree.parse(BUILTIN / "panda.urdf").getroot()
    for origin in robot.iter("origin"):
        origin.set("xyz", " ".join(repr(factor * float(number)) for number in origin.get("xyz", "0 0 0").split()))
    return load_urdf(ElementTree.tostring(robot, encoding="unicode"))


def solve(factor, count, **options):
    drawn = Reachable.draw(panda_of_size(factor), [LINK], count)
    solver = cpu_solver(drawn.robot, [LINK])
    tolerance = {"position_tolerance": 1e-3 * factor}
    result = solver.solve(drawn.positions, drawn.orientations_xyzw, options=tolerance | options)
    return drawn, result


@pytest.mark.parametrize("name", builtin_robot_names())
def test_robots_of_usual_size_count_in_metres(name):
    robot = bare_robot(name)
    assert 0.1 < reach(robot) < 3.0 or (name == "stewart" and reach(robot) == 0.0)  # its legs are slides
    assert robot.length_unit == 1.0


def test_the_reach_is_the_longest_way_to_a_link():
    """The stretched Panda: shoulder to elbow, elbow to wrist, wrist to hand."""
    assert reach(panda_of_size(1.0)) == pytest.approx(0.316 + 0.0825 + np.hypot(0.0825, 0.384) + 0.088 + 0.107)
    assert panda_of_size(1.0).lock({"panda_joint2": 0.0}).length_unit == 1.0
    assert [panda_of_size(factor).length_unit for factor in (0.02, 60.0, 2.0**-10, 1024.0)] == [1, 1, 2.0**-10, 1024]


@pytest.mark.evidence_cases("auto-1000.0", "threads-0.001", "threads-1000.0")
@pytest.mark.usefixtures("each_way")
@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_tiny_and_huge_robots_are_solved_as_those_of_usual_size(factor):
    drawn, result = solve(factor, 300)
    distance, angle = drawn.errors(result.joint_q)
    assert result.success.mean() >= 0.995
    np.testing.assert_array_equal(result.success[:, None], (distance <= 1e-3 * factor) & (angle <= 1e-2))
    assert np.median(distance) <= 1e-6 * factor
    assert np.maximum(result.seed_index, 0).mean() < 1.0


@pytest.mark.quick_cases("staged-0.0009765625", "staged-1024.0")
@pytest.mark.usefixtures("each_way")
@pytest.mark.parametrize("factor", [2.0**-10, 2.0**10])
def test_a_power_of_two_of_the_size_changes_no_bit(factor):
    (_, plain), (_, scaled) = (solve(size, 60, seeds=1) for size in (1.0, factor))
    assert plain.success.mean() > 0.5
    np.testing.assert_array_equal(scaled.joint_q, plain.joint_q)
    np.testing.assert_array_equal(scaled.status, plain.status)
    np.testing.assert_array_equal(scaled.cost, plain.cost * np.float32(factor**2))


@pytest.mark.evidence_cases("1000.0")
@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_float64_finishes_tiny_and_huge_robots(factor):
    _, result = solve(factor, 200, precision="float64", orientation_tolerance=1e-8)
    assert result.success.mean() >= 0.99
    assert np.quantile(result.position_error, 0.99) <= 1e-8 * factor


@pytest.mark.evidence
@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_a_controller_goes_the_same_way_at_any_size(factor):
    start = bare_robot("panda").mid_joint_q + 0.1
    commands = []
    for size in (1.0, factor):
        robot = panda_of_size(size)
        pose = robot.forward_kinematics(start + 0.2, [LINK])
        target = np.concatenate([pose.positions[0, 0], pose.orientations_xyzw[0, 0]])
        controller = IKController(robot, [LINK], position_tolerance=1e-4 * size)
        controller.reset(start)
        commands.append([controller.step(target).joint_q[0].copy() for _ in range(400)])
        assert controller.step(target).success.all()
    np.testing.assert_allclose(commands[1], commands[0], atol=1e-3)
