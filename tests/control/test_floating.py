"""Robots with floating bases and ball joints: their turns keep to limits of speed too."""

import numpy as np
import pytest

from ik_service import load_robot
from ik_service.control import ControlLimits
from ik_service.solver.lm.status import IKStatus
from tests.control.conftest import begun, poses_of

DT = 1e-3
LINKS = ("left_grasp", "left_sole", "right_sole")


@pytest.fixture(scope="module")
def humanoid():
    return load_robot("humanoid")


@pytest.mark.parametrize("speed", [0.5, 5.0])
def test_turns_and_joints_keep_to_their_speeds(humanoid, speed):
    far = humanoid.random_joint_q(np.random.default_rng(3), 1)[0]
    goal, base, q, turning = (
        poses_of(humanoid, far, LINKS),
        slice(3, 7),
        humanoid.mid_joint_q,
        [],
    )  # all run as they may
    controller = begun(humanoid, LINKS, q, limits=ControlLimits(velocity=speed), position_tolerance=1e-3)
    for _ in range(300):
        result = controller.step(goal, dt=DT)
        new = result.joint_q[0]
        turning.append(2.0 * np.arccos(np.clip(abs(q[base] @ new[base]), -1.0, 1.0)) / DT)
        others = np.delete(np.abs(new - q), np.arange(3, 7)) / DT
        assert others.max() <= speed * (1 + 1e-9)
        assert np.linalg.norm(new[base]) == pytest.approx(1.0, abs=1e-12)
        spin = np.linalg.norm(result.joint_qd[0, 3:6])
        assert spin == pytest.approx(turning[-1], abs=1e-4 * speed)
        q = new.copy()
    assert max(turning) <= speed * (1 + 1e-6)
    assert max(turning) >= 0.9 * speed


def test_the_whole_body_follows(humanoid):
    controller = begun(humanoid, LINKS, humanoid.mid_joint_q)
    targets = poses_of(humanoid, humanoid.mid_joint_q, LINKS)
    for k in range(1000):
        moved = targets.copy()
        moved[0, :3] += 0.05 * np.sin(2 * np.pi * k / 1000) * np.array([1.0, 0.5, 1.0])
        result = controller.step(moved, dt=DT)
        assert result.position_error.max() < 1e-4
    assert result.status[0] == IKStatus.CONVERGED
