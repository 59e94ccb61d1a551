"""Hundreds of alike rows in a solve: both engines and threads find the same, judged by kinematics of the host."""

from functools import cache

import numpy as np
import pytest

from ik_service import SolverOptions
from tests.objectives.conftest import scene
from tests.objectives.objectives_of_tests import Spheres, sphere_pairs
from tests.solver.conftest import Reachable, cpu_solver, inside_limits

COUNT, PAIRS, MARGIN = 100, 240, 0.02
TOLERANCE = 0.005  # [m] of a row: so much nearer than the margin spheres may be
OPTIONS = SolverOptions(seeds=16)


@cache
def given():
    """Targets, and spheres that often touch on the way there but leave nearly all of them to be reached."""
    robot = scene("fixed").robot
    problems = Reachable.draw(robot, ["panda_hand"], COUNT, random_seed=8)
    return problems, sphere_pairs(robot, PAIRS, radii=(0.1, 0.2), apart=5)


def solved(engine):
    problems, elements = given()
    spheres = Spheres(elements, MARGIN)
    spheres.set_row_tolerances(TOLERANCE)
    solver = cpu_solver(problems.robot, ["panda_hand"], objectives=[spheres], engine=engine, options=OPTIONS)
    return solver, solver.solve(problems.positions, problems.orientations_xyzw)


def centres(robot, q, body, offset):
    """Where a point of a body is, [n, 3]."""
    if body < 0:
        return np.broadcast_to(offset, (len(q), 3))
    bodies = {robot.link_frame(name)[0]: name for name in reversed(robot.link_names)}
    poses = robot.forward_kinematics(q, [bodies[body]])
    back = robot.link_frame(bodies[body])[1]
    assert np.abs(back - [0, 0, 0, 0, 0, 0, 1]).max() < 1e-12
    turn = poses.orientations_xyzw[:, 0]
    u = turn[:, :3]
    spin = 2.0 * np.cross(u, np.broadcast_to(offset, u.shape))
    return poses.positions[:, 0] + offset + turn[:, 3:] * spin + np.cross(u, spin)


def worst_rows(robot, q):
    """The largest row of each configuration, by one pair after the other."""
    found = np.zeros(len(q))
    for element in given()[1]:
        a, b = (centres(robot, q, frame.body, np.array(frame.T_body_frame[:3])) for frame in element.frames)
        distance = np.sqrt(((a - b) ** 2).sum(axis=1) + 1e-8)
        found = np.maximum(found, np.float32(MARGIN) + element.constants[0] - distance)
    return found


def require_right(result):
    problems, _ = given()
    q = result.joint_q.astype(np.float64)
    distance, angle = problems.errors(q)
    met = (distance[:, 0] <= 1e-3) & (angle[:, 0] <= 1e-2)
    np.testing.assert_array_equal(result.success, met & (worst_rows(problems.robot, q) <= np.float32(TOLERANCE)))
    assert inside_limits(problems.robot, result.joint_q).all()


def test_success_means_that_no_spheres_are_too_near():
    compiled, by_code = solved("compiled")
    _, by_launches = solved("staged")
    assert compiled.engine == "compiled"
    for result in (by_code, by_launches):
        require_right(result)
        assert result.success.mean() > 0.5
    assert (by_code.success != by_launches.success).mean() <= 0.05  # a minimum between spheres may be found or missed
    assert (worst_rows(given()[0].robot, given()[0].joint_q) > TOLERANCE).mean() > 0.05  # spheres do matter


@pytest.mark.evidence
@pytest.mark.usefixtures("threads")
def test_threads_find_it_too():
    _, result = solved("compiled")
    require_right(result)
    assert result.success.mean() > 0.5


@pytest.mark.evidence
def test_answers_in_float64_keep_them_apart():
    problems, elements = given()
    spheres = Spheres(elements, MARGIN)
    spheres.set_row_tolerances(TOLERANCE)
    options = SolverOptions(seeds=16, precision="float64")
    solver = cpu_solver(problems.robot, ["panda_hand"], objectives=[spheres], options=options)
    result = solver.solve(problems.positions, problems.orientations_xyzw)
    require_right(result)
    assert result.success.mean() > 0.5
