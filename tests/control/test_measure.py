"""The singular value of a tick is NumPy's of the Jacobian of its tasks, and every task can be one of a controller."""

import numpy as np
import pytest

import objectives
from ik_service import Target, load_robot
from ik_service.control import IKController
from ik_service.robots import load_urdf
from ik_service.solver.given.targets import ROTATION_LENGTH
from tests.control.conftest import HOME, begun, last_of, pose_of, poses_of
from tests.foreign_robots import link_jacobian
from tests.solver.conftest import PLANAR_2R

WEIGHTS = np.repeat([1.0, ROTATION_LENGTH], 3)
UNIT, DOWN = (0.0, 0.0, 0.0, 1.0), (1.0, 0.0, 0.0, 0.0)
SINGULAR = 1e-6  # [m] the root of what float64 rounds off a square


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


FEW = ("panda_joint2", "panda_joint4", "panda_joint6", "panda_joint7")
MEASURED = {  # the robot, the link, the joints that are active, the rows that count, and how many configurations
    "panda": ("panda", "panda_hand", None, 6, 200),
    "ur5e": ("ur5e", "tool0", None, 6, 200),
    "iiwa14": ("iiwa14", "iiwa_link_ee", None, 6, 200),
    "free axes": ("panda", "panda_hand", None, 3, 50),  # though their rows would make the Jacobian singular
    "fewer joints than rows": ("panda", "panda_hand", FEW, 6, 1),  # which makes no arm singular
}


@pytest.mark.evidence
@pytest.mark.parametrize("case", MEASURED)
def test_the_singular_value_of_a_pose(case):
    name, link, active, rows, count = MEASURED[case]
    robot = load_robot(name) if active is None else load_robot(name, active=active)
    joint_q = robot.random_joint_q(np.random.default_rng(1), count) if active is None else robot.mid_joint_q[None]
    weights = np.where(np.arange(6) < rows, 1.0, 0.0)
    found = measured(robot, joint_q, [Target(link, row_weights=weights) if rows < 6 else link])
    expected = [np.linalg.svd((WEIGHTS[:, None] * columns(robot, q, link))[:rows])[1][-1] for q in joint_q]
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-8 if count == 200 else 0.0)
    assert found.max() > 0.05


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


HAND, FEET = "panda_hand", ["left_sole", "right_sole"]
CENTRE, HANDS = (0.1, 0.01, 0.07), ("left_panda_hand", "right_panda_hand")
TASKS = {
    "position and rotation": [
        objectives.IKObjectivePosition(HAND, (0.5, 0.1, 0.5)),
        objectives.IKObjectiveRotation(HAND, DOWN),
    ],
    "axis and line": [
        objectives.IKObjectiveAxisAlign(HAND, (0.0, 0.0, 1.0), (0.1, 0.0, -1.0)),
        objectives.IKObjectiveLine(HAND, (0.5, 0.1, 0.0), (0.0, 0.0, 1.0)),
    ],
    "plane and look-at": [
        objectives.IKObjectivePlane(HAND, (0.5, 0.0, 0.0), (1.0, 0.0, 0.0)),
        objectives.IKObjectiveLookAt(HAND, (0.5, 0.2, 0.0)),
    ],
    "relative pose": [objectives.IKObjectiveRelativePose(*HANDS, (0.1, 0.5, 0.1), UNIT)],
    "centre of mass": [objectives.IKObjectiveCenterOfMass(CENTRE)],
}
ROBOTS = {"relative pose": "dual_panda", "centre of mass": "humanoid"}


@pytest.mark.evidence
@pytest.mark.parametrize("tasks", TASKS)
def test_every_task_can_be_one_of_a_controller(tasks):
    robot, links = load_robot(ROBOTS.get(tasks, "panda")), FEET if tasks == "centre of mass" else []
    start = robot.mid_joint_q if tasks in ROBOTS else HOME
    targets = poses_of(robot, start, links) if links else None
    if links:
        targets[:, 2] += 0.05  # knees bent, or the legs are singular
    result = last_of(begun(robot, links, start, objectives=TASKS[tasks]), 1500, targets)
    assert np.abs(result.joint_qd).max() < 1e-3
    assert result.success[0]
    assert (result.sigma_min > 1e-3).all()
    if links:
        np.testing.assert_allclose(robot.center_of_mass(result.joint_q)[0], CENTRE, atol=1e-4)
