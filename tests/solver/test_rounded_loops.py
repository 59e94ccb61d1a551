"""Mechanisms from files with rounded angles, solved: what is met with all digits is met, by either engine."""

import numpy as np
import pytest

from ik_service.robots import load_urdf
from tests.constraints import rounded
from tests.solver.conftest import cpu_solver

COUNT = 20
CLOSED = 1e-6  # [m and rad] beyond the slack that is told
REACHED = 1e-3  # [m], the tolerance
CASES = [("compiled", "pins", 7), ("compiled", "gripper", 4), ("staged", "pins", 4)]


@pytest.mark.evidence_cases("compiled-gripper-4", "compiled-pins-7")
@pytest.mark.parametrize(("engine", "name", "digits"), CASES)
def test_targets_of_the_exact_mechanism_are_met_with_rounded_angles(engine, name, digits):
    exact, robot = (load_urdf(rounded.MECHANISMS[name](one)) for one in (None, digits))
    found = exact.constraints.close(exact.random_joint_q(np.random.default_rng(0), COUNT))
    assert found.closed.all()
    wanted = exact.forward_kinematics(found.joint_q, ["point"]).positions[:, 0]
    assert np.ptp(wanted, axis=0).max() > 0.1
    result = cpu_solver(robot, ["point"], engine=engine).solve(wanted)
    assert result.success.all()
    assert result.constraint_error.max() <= CLOSED
    for loop in robot.loops:
        off = np.abs(robot.constraints.error(result.joint_q)[:, robot.constraints.error_rows(loop.name)]).max()
        assert off <= 2.0 * max(dict(loop.slack).values()) + CLOSED
    reached = robot.forward_kinematics(result.joint_q, ["point"]).positions[:, 0]
    assert np.linalg.norm(reached - wanted, axis=1).max() <= REACHED
