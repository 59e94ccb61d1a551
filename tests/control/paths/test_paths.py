"""A Panda along paths of 10 000 ticks: limits exact in every tick, feasible paths followed, no flip, recovery."""

import numpy as np
import pytest

from benchmarks.problems.tick_paths import ACCELERATION, LINK, panda_paths
from ik_service import load_robot
from ik_service.control import ControlLimits, IKController
from tests.control.conftest import assert_within_limits, follow, pose_of

DT = 1e-3
PATHS = panda_paths(load_robot("panda"), 10_000)


@pytest.fixture(scope="module", params=[None, ACCELERATION], ids=["speeds", "accelerations"])
def limits(request):
    return ControlLimits(acceleration=request.param)


@pytest.fixture(scope="module", params=PATHS)
def run(request, panda, limits):
    path = PATHS[request.param]
    robot = path.robot(panda)
    controller = IKController(robot, [LINK], limits=limits)
    return robot, path, limits, follow(controller, path.joint_q, path.poses, DT)


@pytest.mark.evidence_cases("through a wrist singularity-accelerations", "through a wrist singularity-speeds")
def test_no_limit_is_ever_broken(run):
    robot, path, limits, found = run
    assert_within_limits(robot, found.joint_q, path.joint_q, DT, limits.acceleration)
    np.testing.assert_allclose(found.joint_qd, found.speeds(path.joint_q, DT), atol=1e-9)


@pytest.mark.parametrize("run", [name for name, path in PATHS.items() if path.feasible], indirect=True)
def test_feasible_paths_are_followed(run):
    *_, found = run
    assert found.position_error.max() < 1e-4
    assert found.orientation_error.max() < 1e-3
    assert (found.status == 0).all()


def test_errors_are_those_of_the_command(run):
    robot, path, _, found = run
    poses = robot.forward_kinematics(found.joint_q[::97], links=[LINK])
    distance = np.linalg.norm(poses.positions[:, 0] - path.poses[::97, :3], axis=1)
    np.testing.assert_allclose(found.position_error[::97, 0], distance, atol=1e-9)
    cosine = np.abs(np.sum(poses.orientations_xyzw[:, 0] * path.poses[::97, 3:], axis=1))
    np.testing.assert_allclose(np.cos(0.5 * found.orientation_error[::97, 0]), np.minimum(cosine, 1.0), atol=1e-12)


def test_nothing_flips(run):
    """A path ends where it began, and so does the elbow; joints drift only where the arm has a joint to spare."""
    _, path, _, found = run
    drift = np.abs(found.joint_q[-1] - path.joint_q)
    assert drift.max() < (1e-3 if path.held else 1.5)
    assert (found.joint_q[:, 3] < 0.0).all()  # the elbow stays on its side
    assert drift[3] < 0.1


def test_paths_that_leave_the_workspace_are_found_again(run):
    _, _, _, found = run
    assert found.position_error[-1] < 1e-9
    assert found.status[-1] == 0


@pytest.mark.parametrize("name", ["circle", "figure of eight"])
def test_limits_of_acceleration_that_a_path_keeps_to_change_nothing(panda, name):
    """No joint shakes, nor those that the task leaves free."""
    path = PATHS[name]
    limits = [ControlLimits(acceleration=acceleration) for acceleration in (None, ACCELERATION)]
    found = [follow(IKController(panda, [LINK], limits=one), path.joint_q, path.poses, DT) for one in limits]
    plain, braked = (np.abs(run.accelerations(path.joint_q, DT) / ACCELERATION).max() for run in found)
    assert braked <= plain + 0.01


@pytest.mark.evidence
def test_true_singularities_are_passed(panda):
    path = PATHS["through a wrist singularity"]
    controller = IKController(path.robot(panda), [LINK])
    found = follow(controller, path.joint_q, path.poses, DT)
    assert found.sigma_min.min() < 1e-3
    assert found.position_error.max() < 1e-5


@pytest.mark.parametrize("scale_direction", [False, True])
def test_a_jump_of_the_target_is_caught_up_with_and_not_overrun(panda, scale_direction):
    start, limits = PATHS["circle"].joint_q, ControlLimits(acceleration=ACCELERATION)
    controller = IKController(panda, [LINK], limits=limits, scale_direction=scale_direction)
    found = follow(controller, start, [pose_of(panda, start, LINK, [0.0, 0.1, 0.0])] * 1500, DT)
    assert found.position_error[-1] < 1e-9
    met = np.flatnonzero(found.position_error[:, 0] < 1e-3)[0]
    assert found.position_error[met:].max() < 2e-3  # it does not swing back
    assert np.abs(found.joint_qd[-100:]).max() < 1e-6
