"""Rows of priority 1 beside targets: a tick meets the targets as without them, and lowers these rows in the rest.

A target with tolerances is kept within them, and leaves that much more open.
"""

import numpy as np
import pytest
import warp as wp

from ik_service import IKStatus, Target, load_robot
from ik_service.control import ControlLimits, IKController
from objectives import IKObjectiveCenterOfMass, IKObjectiveLookAt, IKObjectivePosture, InputError
from tests.control.conftest import ARMS, LINK, assert_within_limits, begun, distances, follow, pose_of, poses_of
from tests.objectives.loop_rows import matrix_of

HOME = np.array([0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785])
POSTURE = HOME + np.array([0.4, 0.3, -0.5, 0.2, 0.6, -0.3, 0.8])
WEIGHTS = [1e-3, 0.03, 1.0]
LIMITS = {
    "speed": {},
    "acceleration": {"limits": ControlLimits(acceleration=10.0)},
    "whole step": {"scale_direction": True},
}
CONE, TICKS = np.radians(15.0), 2000  # of tests of tolerances
LEAST = 1.11149  # distance to POSTURE at rest with the hand where HOME has it, of its local minimum next to HOME
ROUNDING = 1e-9  # [m]; rows that yield weigh about a millionth of a target's rows, so they move it by its square


def circle(robot, ticks, start=HOME, radius=0.1):
    """Poses on a circle of 2 s with a smooth start, [ticks, 7]."""
    time = 1e-3 * np.arange(ticks)
    size = radius * (0.5 - 0.5 * np.cos(np.pi * np.minimum(time / 0.5, 1.0)))
    poses = np.tile(pose_of(robot, start, LINK), (ticks, 1))
    poses[:, 1] += size * (np.cos(np.pi * time) - 1.0)
    poses[:, 2] += size * np.sin(np.pi * time)
    return poses


def with_posture(weight, kind="objective", priority=1, **options):
    """Give options of a controller that is drawn to POSTURE."""
    if kind == "option":
        return {"posture": POSTURE, "posture_weight": weight, **options}
    objective = IKObjectivePosture(POSTURE, weight=weight)
    objective.priority = priority
    return {"objectives": [objective], **options}


@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("kind", ["objective", "option"])
@pytest.mark.parametrize("weight", WEIGHTS)
def test_at_rest_a_posture_of_any_weight_leaves_the_hand_where_it_is_to_be(panda, weight, kind, limits):
    """It takes the way that the hand leaves open to its end."""
    poses = np.tile(pose_of(panda, HOME, LINK), (4000, 1))
    run = follow(IKController(panda, [LINK], **with_posture(weight, kind, **LIMITS[limits])), HOME, poses)
    off = distances(panda, run.joint_q, poses)
    assert off.max() < 1e-6
    assert off[-1] < ROUNDING
    assert (run.status == IKStatus.CONVERGED).all()
    assert np.linalg.norm(HOME - POSTURE) > LEAST + 0.1
    assert abs(np.linalg.norm(run.joint_q[-1] - POSTURE) - LEAST) < 1e-3
    assert np.abs(run.joint_qd[-1]).max() < 1e-4


@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("weight", WEIGHTS)
def test_a_moving_target_is_followed_as_without_a_posture(panda, weight, limits):
    """Where limits of acceleration hold the robot back either way, it is late by about as much."""
    poses, options = circle(panda, 3000, radius=0.05), LIMITS[limits]
    plain = follow(IKController(panda, [LINK], **options), HOME, poses)
    drawn = follow(IKController(panda, [LINK], **with_posture(weight, **options)), HOME, poses)
    without, beside = (distances(panda, run.joint_q, poses)[500:] for run in (plain, drawn))
    assert without.mean() > 1e-8  # it does lag behind
    assert beside.mean() < 1.05 * without.mean()
    assert beside.max() < 1.05 * without.max()
    far, near = (np.linalg.norm(run.joint_q - POSTURE, axis=1).mean() for run in (plain, drawn))
    assert near < far - 0.02


@pytest.mark.evidence
def test_a_posture_of_priority_0_competes_by_weight(panda):
    poses = np.tile(pose_of(panda, HOME, LINK), (1500, 1))
    found = {}
    for priority in (0, 1):
        run = follow(IKController(panda, [LINK], **with_posture(0.1, priority=priority)), HOME, poses)
        found[priority] = distances(panda, run.joint_q[-1:], poses[-1:])[0], run.status[-1]
    assert found[0][0] > 1e-2
    assert found[0][1] != IKStatus.CONVERGED
    assert found[1][0] < ROUNDING
    assert found[1][1] == IKStatus.CONVERGED


def test_without_a_target_rows_of_both_priorities_are_weighed_together(panda):
    found = []
    for priority in (0, 1):
        gaze = IKObjectiveLookAt(LINK, (0.6, 0.4, 0.2))
        gaze.priority = 0
        posture = IKObjectivePosture(POSTURE, weight=0.1)
        posture.priority = priority
        controller = begun(panda, (), HOME, objectives=[gaze, posture])
        found.append([controller.step().joint_q.tobytes() for _ in range(100)])
    assert len(set(found[0])) > 10
    assert found[0] == found[1]


@pytest.mark.parametrize("limits", ["speed", "acceleration"])
def test_all_limits_hold_beside_a_strong_posture(panda, limits):
    """Joint 4 is drawn far beyond its range."""
    far = POSTURE.copy()
    far[3] = 2.0
    poses = circle(panda, 3000)
    options = LIMITS[limits] | {"objectives": [IKObjectivePosture(far)]}
    run = follow(IKController(panda, [LINK], **options), HOME, poses)
    assert_within_limits(panda, run.joint_q, HOME, 1e-3, 10.0 if limits == "acceleration" else None)
    assert (np.abs(run.speeds(HOME, 1e-3)) / panda.joint_velocity_limit).max() > 0.05
    assert distances(panda, run.joint_q, poses)[1000:].max() < 2e-6


def test_with_limits_of_acceleration_a_posture_is_reached_without_running_past_it(panda):
    """Along the way the distance to it falls from tick to tick."""
    poses = np.tile(pose_of(panda, HOME, LINK), (3000, 1))
    run = follow(IKController(panda, [LINK], **with_posture(1.0, **LIMITS["acceleration"])), HOME, poses)
    left = np.linalg.norm(run.joint_q - POSTURE, axis=1)
    assert left[0] - left[-1] > 0.1
    assert np.diff(left).max() < 1e-7


def test_out_of_reach_the_status_is_that_of_the_target(panda):
    """The posture neither moves the hand from its nearest point nor decides what blocks it."""
    poses = np.tile(pose_of(panda, HOME, LINK, [2.0, 0.0, 0.0]), (3000, 1))
    plain = follow(IKController(panda, [LINK]), HOME, poses)
    drawn = follow(IKController(panda, [LINK], **with_posture(1.0)), HOME, poses)
    assert plain.status[-1] == drawn.status[-1] != IKStatus.CONVERGED
    ends = [distances(panda, run.joint_q[-1:], poses[-1:])[0] for run in (plain, drawn)]
    assert abs(ends[0] - ends[1]) < 1e-4
    assert np.abs(drawn.joint_qd[-1]).max() < 1e-2


def test_the_singular_value_is_of_the_rows_that_come_first(panda):
    pose, options = pose_of(panda, HOME, LINK), ({}, with_posture(1.0))
    plain, drawn = (begun(panda, [LINK], HOME, **one).step(pose).sigma_min[0, 0] for one in options)
    assert plain > 0.01
    assert drawn == pytest.approx(plain, rel=1e-3)


@pytest.mark.evidence
def test_each_arm_yields_in_its_own_island(dual):
    """A posture of the left arm leaves every byte of the right one alone."""
    left = [name for name in dual.joint_names if name.startswith("left")]
    start, found = np.concatenate([HOME, HOME]), {}
    targets = poses_of(dual, start, ARMS)
    for weight in (0.0, 1.0):
        posture = [IKObjectivePosture(start + 0.3, weight=weight, joints=left)] if weight else []
        controller = begun(dual, ARMS, start, objectives=posture)
        for tick in range(1500):
            moved = targets.copy()
            moved[:, 2] += 0.05 * np.sin(4e-3 * tick)
            result = controller.step(moved)
        found[weight] = result.joint_q[0].copy()
        assert np.linalg.norm(poses_of(dual, result.joint_q, ARMS) - moved, axis=1).max() < 1e-5
    assert result.island_status.shape == (1, 2)
    assert found[0.0][7:].tobytes() == found[1.0][7:].tobytes()
    assert np.abs(found[0.0][:7] - found[1.0][:7]).max() > 0.01


@pytest.mark.evidence
@pytest.mark.parametrize("acceleration", [None, 10.0])
def test_a_centre_of_mass_yields_to_the_feet_of_a_humanoid(acceleration):
    """Its base floats: turns go along, by quaternions."""
    robot, goal, feet = load_robot("humanoid"), np.array([0.1, 0.01, 0.07]), ["left_sole", "right_sole"]
    start, options = robot.mid_joint_q, {"limits": ControlLimits(acceleration=acceleration)}
    controller = begun(robot, feet, start, objectives=[IKObjectiveCenterOfMass(goal, weight=3.0)], **options)
    targets = poses_of(robot, start, feet)
    for tick in range(2500):
        lifted = targets.copy()
        lifted[:, 2] += 0.05 * min(tick / 500.0, 1.0)  # knees bent, or the legs are singular
        result = controller.step(lifted)
    assert result.success[0]
    np.testing.assert_allclose(poses_of(robot, result.joint_q, feet)[:, :3], lifted[:, :3], atol=ROUNDING)
    assert np.linalg.norm(robot.center_of_mass(start[None])[0] - goal) > 0.02
    np.testing.assert_allclose(robot.center_of_mass(result.joint_q)[0], goal, atol=1e-6)
    assert np.abs(result.joint_qd).max() < 1e-3


def test_weights_of_0_leave_the_robots_where_targets_alone_lead_them(panda):
    """Weights change from tick to tick; the rows stay there."""
    posture, poses = IKObjectivePosture(POSTURE, row_weights=np.ones((2, len(HOME)))), circle(panda, 300)
    controller = begun(panda, [LINK], HOME, objectives=[posture], robots=2)
    posture.set_row_weights(np.repeat([[1.0], [0.0]], len(HOME), axis=1))
    plain = follow(IKController(panda, [LINK]), HOME, poses)
    found = np.array([controller.step(pose).joint_q.copy() for pose in poses])
    np.testing.assert_allclose(found[:, 1], plain.joint_q, rtol=0, atol=1e-6)
    assert np.abs(found[-1, 0] - plain.joint_q[-1]).max() > 0.01


def test_an_array_that_takes_the_place_of_a_posture_is_read_from_then_on(panda):
    target = pose_of(panda, HOME, LINK)
    exchanged = IKObjectivePosture(HOME)
    found = []
    for posture in (IKObjectivePosture(POSTURE), exchanged):
        controller = IKController(panda, [LINK], objectives=[posture])
        if posture is exchanged:
            posture.set_reference(wp.array(POSTURE[None], dtype=wp.float32, device="cpu"))
        controller.reset(HOME)
        found.append(np.array([controller.step(target).joint_q[0].copy() for _ in range(50)]))
    assert np.abs(found[0][-1] - HOME).max() > 1e-3
    assert found[0].tobytes() == found[1].tobytes()


def test_a_deadline_that_has_passed_leaves_the_target_to_come_first(panda):
    controller, target = begun(panda, [LINK], HOME, **with_posture(1.0)), pose_of(panda, HOME, LINK)
    found = np.array([controller.step(target, deadline_ns=0).joint_q[0].copy() for _ in range(1500)])
    assert distances(panda, found, np.tile(target, (len(found), 1))).max() < 1e-6
    assert abs(np.linalg.norm(found[-1] - POSTURE) - LEAST) < 1e-3


def tilts(robot, joint_q, poses):
    """Angles between the z axes of the hand and of where it is to be [rad]."""
    tool = matrix_of(robot.forward_kinematics(joint_q, [LINK]).orientations_xyzw[:, 0])[:, :, 2]
    aim = matrix_of(poses[:, 3:])[:, :, 2]
    return np.arctan2(np.linalg.norm(np.cross(tool, aim), axis=1), (tool * aim).sum(axis=1))


@pytest.mark.evidence
@pytest.mark.parametrize("tolerance", [0.0, CONE])
def test_the_axis_of_the_tool_stays_in_its_cone_on_a_circle(panda, tolerance):
    poses = circle(panda, TICKS)
    target = Target(LINK, free=["rz"], tolerance=[0.0, 0.0, 0.0, tolerance, tolerance, 0.0])
    run = follow(IKController(panda, [target], posture=POSTURE, posture_weight=0.1), HOME, poses)
    assert (run.status[100:] == IKStatus.CONVERGED).all()
    assert distances(panda, run.joint_q, poses)[100:].max() < 1e-4
    tilt = tilts(panda, run.joint_q, poses)
    assert tilt.max() <= max(tolerance, 1e-3)
    if tolerance:
        assert tilt[-1] > 0.9 * CONE  # the posture draws the hand to the edge


@pytest.mark.evidence
def test_what_is_open_lowers_the_cost_of_the_posture(panda):
    poses = np.tile(pose_of(panda, HOME, LINK), (TICKS, 1))
    targets = LINK, Target(LINK, free=["rz"]), Target(LINK, free=["rz"], tolerance=[0, 0, 0, CONE, CONE, 0])
    runs = [follow(IKController(panda, [one], posture=POSTURE, posture_weight=0.1), HOME, poses) for one in targets]
    far = [np.linalg.norm(run.joint_q[-1] - POSTURE) for run in runs]
    assert far[0] > far[1] + 0.05
    assert far[1] > far[2] + 0.05


def test_a_tolerance_below_that_of_the_controller_is_refused(panda):
    with pytest.raises(InputError, match="Allowed: 0, or from position_tolerance"):
        IKController(panda, [Target(LINK, tolerance=[1e-5] * 6)])
