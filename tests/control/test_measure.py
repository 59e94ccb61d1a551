"""The singular value of a tick is NumPy's of the Jacobian of its tasks, and every task can be one of a controller."""

import numpy as np
import pytest

from ik_service import Target, load_robot
from ik_service.control import IKController
from ik_service.robots import load_urdf
from ik_service.solver.given.targets import ROTATION_LENGTH
from objectives import (
    IKObjectiveAxisAlign,
    IKObjectiveCenterOfMass,
    IKObjectiveLine,
    IKObjectiveLookAt,
    IKObjectivePlane,
    IKObjectivePosition,
    IKObjectiveRelativePose,
    IKObjectiveRotation,
)
from tests.control.conftest import pose_of
from tests.foreign_robots import CASES, link_jacobian, load_foreign
from tests.solver.conftest import PLANAR_2R

WEIGHTS = np.repeat([1.0, ROTATION_LENGTH], 3)
UNIT, DOWN = (0.0, 0.0, 0.0, 1.0), (1.0, 0.0, 0.0, 0.0)
SINGULAR = 1e-6  # [m] the root of what float64 rounds off a square
HOME = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.8, 0.7])


def columns(robot, joint_q, link):
    """Jacobian of a link by the active DOFs, their followers counted in, [6, active DOFs]."""
    pose = pose_of(robot, joint_q, link)
    full = link_jacobian(robot, robot.motion_subspace(joint_q[None])[0], link, pose[:3])
    active = np.zeros((6, robot.active_dof_count))
    for dof, a in enumerate(robot.dof_active):
        if a >= 0:
            active[:, a] += robot.dof_multiplier[dof] * full[:, dof]
    return active


def measured(robot, joint_q, targets):
    """Singular values of robots that stand where their targets are."""
    controller = IKController(robot, targets, robots=len(joint_q))
    poses = np.stack([[pose_of(robot, q, getattr(t, "link", t)) for t in targets] for q in joint_q])
    result = controller.step(poses, joint_q)
    np.testing.assert_allclose(result.joint_q, joint_q, atol=1e-12)
    return result.sigma_min[:, 0]


@pytest.mark.evidence
@pytest.mark.parametrize(("name", "link"), [("panda", "panda_hand"), ("ur5e", "tool0"), ("iiwa14", "iiwa_link_ee")])
def test_the_singular_value_of_a_pose(name, link):
    robot = load_robot(name)
    joint_q = robot.random_joint_q(np.random.default_rng(1), 200)
    found = measured(robot, joint_q, [link])
    expected = [np.linalg.svd(WEIGHTS[:, None] * columns(robot, q, link))[1][-1] for q in joint_q]
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-8)


@pytest.mark.evidence
def test_rows_that_do_not_count(panda):
    """Free axes leave the measure alone, though their rows would make the Jacobian singular."""
    weights = [1.0, 1.0, 1.0, 0.0, 0.0, 0.0]
    joint_q = panda.random_joint_q(np.random.default_rng(2), 50)
    found = measured(panda, joint_q, [Target("panda_hand", row_weights=weights)])
    expected = [np.linalg.svd(columns(panda, q, "panda_hand")[:3])[1][-1] for q in joint_q]
    np.testing.assert_allclose(found, expected, rtol=1e-7)


@pytest.mark.evidence
def test_an_arm_with_fewer_joints_than_rows_is_not_singular_for_that(panda):
    robot = panda.activate(["panda_joint2", "panda_joint4", "panda_joint6", "panda_joint7"])
    joint_q = robot.mid_joint_q[None]
    found = measured(robot, joint_q, ["panda_hand"])
    expected = np.linalg.svd(WEIGHTS[:, None] * columns(robot, joint_q[0], "panda_hand"))[1][-1]
    assert found[0] == pytest.approx(expected, rel=1e-7)
    assert found[0] > 0.05


def test_a_singular_configuration_is_told(panda):
    robot = panda.lock({"panda_joint3": 0.0})
    joint_q = np.array([[0.0, -0.5, 0.0, -2.0, 0.3, 3.4409924623, 0.7]])
    assert measured(robot, joint_q, ["panda_hand"])[0] < 2e-3


@pytest.mark.evidence_cases("a column of zeros")
@pytest.mark.parametrize(
    ("axes", "joint_q"),
    [(("0 0 1", "0 0 1"), [0.0, 0.0]), (("1 0 0", "0 0 1"), [0.3, 0.0])],
    ids=["a row of zeros", "a column of zeros"],
)
def test_a_row_or_a_joint_without_effect_at_one_configuration_alone_counts(axes, joint_q):
    """Stretched along x, the arm moves nothing along x, and a first joint about x does not move the tip."""
    shoulder, elbow = axes
    text = PLANAR_2R.format(elbow_lower=-3.0, elbow_upper=3.0)
    text = text.replace('"0 0 1"', f'"{shoulder}"', 1).replace('"0 0 1"', f'"{elbow}"')
    weights = [1.0, 1.0, 0.0 if shoulder == elbow else 1.0, 0.0, 0.0, 0.0]
    robot = load_urdf(text)
    rest = [[0.3, 1.0]]
    found = measured(robot, np.array([joint_q, *rest]), [Target("tip", row_weights=weights)])
    assert found[0] == pytest.approx(0.0, abs=SINGULAR)
    assert found[1] > 0.1


@pytest.mark.evidence
@pytest.mark.parametrize(("distribution", "ending", "floating"), CASES[:6:2] + CASES[12:14])
def test_robots_that_nobody_here_wrote(distribution, ending, floating):
    """The link deepest in the robot goes a little way and comes to rest there."""
    robot, _ = load_foreign(distribution, ending, floating)
    link = max(robot.link_names, key=lambda name: _ancestors(robot, name))
    joint_q = robot.mid_joint_q.copy()
    controller = IKController(robot, [link])
    controller.reset(joint_q)
    goal = robot.integrate(joint_q[None], np.full((1, robot.joint_dof_count), 0.02))[0]
    target = pose_of(robot, goal, link)
    for _ in range(400):
        result = controller.step(target)
    assert result.success[0]
    np.testing.assert_allclose(pose_of(robot, result.joint_q, link)[:3], target[:3], atol=1e-4)


def _ancestors(robot, link):
    body, count = robot.link_frame(link)[0], 0
    while body >= 0:
        body, count = int(robot.joint_parent[body]), count + 1
    return count


@pytest.mark.evidence
@pytest.mark.parametrize(
    ("name", "links", "objectives"),
    [
        ("panda", [], [IKObjectivePosition("panda_hand", (0.5, 0.1, 0.5)), IKObjectiveRotation("panda_hand", DOWN)]),
        (
            "panda",
            [],
            [
                IKObjectiveAxisAlign("panda_hand", (0.0, 0.0, 1.0), (0.1, 0.0, -1.0)),
                IKObjectiveLine("panda_hand", (0.5, 0.1, 0.0), (0.0, 0.0, 1.0)),
            ],
        ),
        (
            "panda",
            [],
            [
                IKObjectivePlane("panda_hand", (0.5, 0.0, 0.0), (1.0, 0.0, 0.0)),
                IKObjectiveLookAt("panda_hand", (0.5, 0.2, 0.0)),
            ],
        ),
        ("dual_panda", [], [IKObjectiveRelativePose("left_panda_hand", "right_panda_hand", (0.1, 0.5, 0.1), UNIT)]),
        ("humanoid", ["left_sole", "right_sole"], [IKObjectiveCenterOfMass((0.1, 0.01, 0.07))]),
    ],
    ids=["position and rotation", "axis and line", "plane and look-at", "relative pose", "centre of mass"],
)
def test_every_task_can_be_one_of_a_controller(name, links, objectives):
    """It comes to rest where all tasks are met."""
    robot = load_robot(name)
    controller = IKController(robot, links, objectives=objectives)
    start = HOME if name == "panda" else robot.mid_joint_q
    controller.reset(start)
    targets = np.stack([pose_of(robot, start, link) for link in links]) if links else None
    if links:
        targets[:, 2] += 0.05  # knees bent, or the legs are singular
    for _ in range(1500):
        result = controller.step(targets)
    assert np.abs(result.joint_qd).max() < 1e-3
    assert result.success[0]
    assert (result.sigma_min > 1e-3).all()
    if name == "humanoid":
        np.testing.assert_allclose(robot.center_of_mass(result.joint_q)[0], (0.1, 0.01, 0.07), atol=1e-4)
