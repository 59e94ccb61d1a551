"""Hundreds of alike rows in a solve: both engines and threads find the same, judged by kinematics of the host."""

from functools import cache

import numpy as np
import pytest

from tests.objectives.conftest import scene
from tests.objectives.objectives_of_tests import Spheres, sphere_pairs
from tests.solver.conftest import Reachable, cpu_solver, inside_limits, use_engine

COUNT, PAIRS, MARGIN = 100, 240, 0.02
TOLERANCE = 0.005  # [m] of a row: so much nearer than the margin spheres may be


@cache
def given():
    """Targets, and spheres that often touch on the way there but leave nearly all of them to be reached."""
    robot = scene("fixed").robot
    problems = Reachable.draw(robot, ["panda_hand"], COUNT, random_seed=8)
    return problems, sphere_pairs(robot, PAIRS, radii=(0.1, 0.2), apart=5)


WAYS = {
    "compiled": ("auto", {}),
    "staged": ("staged", {}),
    "threads": ("threads", {}),
    "float64": ("auto", {"precision": "float64"}),
}


def solved(way, monkeypatch):
    (problems, elements), (engine, options) = given(), WAYS[way]
    spheres = Spheres(elements, MARGIN)
    spheres.set_row_tolerances(TOLERANCE)
    use_engine(engine, monkeypatch)
    solver = cpu_solver(problems.robot, problems.links, objectives=[spheres])
    assert solver.engine == ("staged" if way == "staged" else "compiled")
    return solver.solve(*problems.targets, options={"seeds": 16, **options})


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


@pytest.mark.evidence_cases("threads", "float64")
@pytest.mark.parametrize("way", WAYS)
def test_success_means_that_no_spheres_are_too_near(way, monkeypatch):
    problems, result = given()[0], solved(way, monkeypatch)
    q = result.joint_q.astype(np.float64)
    np.testing.assert_array_equal(
        result.success, problems.met(q) & (worst_rows(problems.robot, q) <= np.float32(TOLERANCE))
    )
    assert inside_limits(problems.robot, result.joint_q).all()
    assert result.success.mean() > 0.5
    assert (worst_rows(problems.robot, problems.joint_q) > TOLERANCE).mean() > 0.05  # spheres do matter
    if way == "staged":  # a minimum between spheres may be found or missed
        assert (solved("compiled", monkeypatch).success != result.success).mean() <= 0.05
