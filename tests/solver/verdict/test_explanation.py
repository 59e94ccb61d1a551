"""Results that explain themselves in Python, with the words that a service has for the same problems."""

import numpy as np
import pytest

from ik_service import IKSolver, load_robot
from ik_service.control import IKController
from ik_service.robots import Box, World
from ik_service.solver.result import join_results
from objectives import InputError

HAND = "panda_hand"
TABLE = World({"table": Box((2.0, 2.0, 0.1), (0.0, 0.0, -0.2, 0.0, 0.0, 0.0, 1.0))})


@pytest.fixture(scope="module")
def solver():
    return IKSolver(load_robot("panda"), [HAND], device="cpu")


@pytest.fixture(scope="module")
def result(solver):
    """Problem 1 is in millimetres, 2 is out of reach, 3 is inside the table."""
    joint_q = solver.robot.random_free_joint_q(np.random.default_rng(0), 6)
    poses = solver.robot.forward_kinematics(joint_q, [HAND])
    positions = poses.positions[:, 0].copy()
    positions[1] *= 1000.0
    positions[2] += 1.0
    positions[3] = [0.4, 0.0, -0.2]
    return solver.solve(positions, poses.orientations_xyzw[:, 0], world=TABLE)


def test_every_problem_has_its_advice(result):
    advice = result.advice
    assert len(advice) == len(result) == 6
    assert result.status_names[1:4] == ["unreachable", "unreachable", "blocked_by_collision"]
    assert " m away, and the robot reaches about 0.99 m: " in advice[1]
    assert advice[1].count("millimetres?") == 1
    assert "out of reach by at least" in advice[2]
    assert "'table'" in advice[3]
    assert advice[0] == advice[5] == "Every target is met within its tolerance."


def test_a_summary_counts_statuses_and_tells_the_worst_problems(result):
    words = result.explain().splitlines()
    assert words[0] == "3 of 6 problems solved: converged 3, unreachable 2, blocked_by_collision 1"
    told = [line.split(":")[0] for line in words if line.startswith("problem ")]
    assert sorted(told) == ["problem 1", "problem 2", "problem 3"]
    assert told[0] == "problem 1"  # of the largest cost
    far = float(np.linalg.norm(result.position_error[1]))
    assert f"  {HAND}: {far:.4g} m and {np.degrees(result.orientation_error[1, 0]):.3g} deg off" in words
    held = ", ".join(np.array(result.dof_names)[result.active_limits[1]])
    assert f"  at a limit: {held}" in words
    page = result._repr_html_()
    assert page.count("<pre") == 3
    assert "<td>unreachable</td><td>2</td>" in page
    assert "&#x27;table&#x27;" in page  # escaped


def test_one_problem_is_told_alone(solver, result):
    assert result.explain(-1).startswith("problem 5: converged. Every target")
    with pytest.raises(IndexError):
        result.explain(6)
    alone = solver.solve([[0.4, 0.0, 0.5]])  # no orientation
    assert alone.explain(0).splitlines()[1].endswith(" mm off")
    assert alone.explain() == "1 of 1 problems solved: converged 1"


def test_a_joined_result_has_no_numbers_of_the_problems(result):
    joined = join_results([(result, slice(0, 2)), (result, slice(2, 6))])
    assert joined.advice[2].startswith("Proven to be out of reach")
    assert joined.status_names == result.status_names


def test_angles_in_degrees_are_told_and_refused_where_a_robot_would_go_there(solver):
    degrees, place = [0.0, -45.0, 0.0, -135.0, 0.0, 90.0, 45.0], [[0.4, 0.0, 0.5]]
    words = solver.solve(place, initial_joint_q=degrees).explain().splitlines()
    assert words[1].startswith("initial_joint_q: 'panda_joint2' is at -45 rad, more than a turn beyond its limits.")
    assert len(solver.solve(place, initial_joint_q=np.radians(degrees)).explain().splitlines()) == 1
    controller = IKController(solver.robot, [HAND])
    controller.reset(np.radians(degrees))
    kept = controller.step().joint_q.copy()
    for call in (
        lambda: controller.reset(degrees),
        lambda: solver.follow(place, None, 0.1, start_joint_q=degrees),
        lambda: solver.fit_clip(place, None, 0.1, first_joint_q=degrees),
    ):
        with pytest.raises(InputError, match="Are the angles in degrees"):
            call()
    np.testing.assert_allclose(controller.step().joint_q, kept, atol=1e-6)
