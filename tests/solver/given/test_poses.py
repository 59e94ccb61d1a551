"""Poses as matrices, angles, rotations of other libraries: the answers of the same numbers, or a reason why not."""

import numpy as np
import pytest

from ik_service import IKSolver, Poses, Target, load_robot
from ik_service.client.messages import SolveTarget
from ik_service.control import IKController
from ik_service.mechanism.transforms import quaternion_from_rpy, quaternion_rotate
from ik_service.robots import Box
from objectives import InputError

HANDS = ["left_panda_hand", "right_panda_hand"]
EXACT = np.array([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]])  # half turns: exact as matrices
PLACES = np.array([[0.4, 0.1, 0.5], [0.45, -0.1, 0.4], [0.5, 0.0, 0.6]])


class Rotation:
    """Stands for `scipy.spatial.transform.Rotation`."""

    def __init__(self, quaternions):
        self._quaternions = quaternions

    def as_quat(self):
        return self._quaternions


class SE3:
    """Stands for `pinocchio.SE3`."""

    def __init__(self, matrix):
        self.homogeneous = matrix


@pytest.fixture(scope="module")
def solver():
    return IKSolver(load_robot("panda", collision="ignore"), ["panda_hand"], device="cpu")


def random_poses(count):
    rng = np.random.default_rng(0)
    quaternions = rng.normal(size=(count, 4))
    return Poses(rng.normal(size=(count, 3)), quaternions / np.linalg.norm(quaternions, axis=1, keepdims=True))


FORMS = {
    "Poses": lambda poses: (poses,),
    "a list of single Poses": lambda poses: (list(poses),),
    "matrices": lambda poses: (poses.matrices,),
    "nested lists": lambda poses: (poses.matrices.tolist(),),
    "SE3": lambda poses: ([SE3(one) for one in poses.matrices],),
    "rotation matrices": lambda poses: (poses.positions, poses.matrices[:, :3, :3]),
    "a SciPy rotation": lambda poses: (poses.positions, Rotation(poses.orientations_xyzw)),
    "wxyz": lambda poses: (Poses.from_wxyz(poses.positions, poses.orientations_xyzw[:, [3, 0, 1, 2]]),),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_bytes_of_the_numbers(solver, form):
    given = FORMS[form](Poses(PLACES, EXACT))
    expected = solver.solve(PLACES, EXACT)
    assert expected.success.all()
    np.testing.assert_array_equal(solver.solve(*given).joint_q, expected.joint_q)
    path = solver.follow(given[0], given[1] if len(given) > 1 else None, 1.0)
    np.testing.assert_array_equal(path.joint_q, solver.follow(PLACES, EXACT, 1.0).joint_q)
    other = IKSolver(solver.robot, ["panda_hand"], device="cpu", wxyz=True)
    np.testing.assert_array_equal(other.solve(*given).joint_q, expected.joint_q)


def test_several_targets_take_poses_together_or_in_a_list():
    robot = load_robot("dual_panda", collision="ignore")
    solver = IKSolver(robot, HANDS, device="cpu")
    reached = robot.forward_kinematics(robot.random_joint_q(np.random.default_rng(0), 4), HANDS)
    expected = solver.solve(reached.positions, reached.orientations_xyzw)
    poses = Poses(reached.positions, reached.orientations_xyzw)
    for given in (poses, [poses[:, 0], poses[:, 1]]):
        np.testing.assert_array_equal(solver.solve(given).joint_q, expected.joint_q)
    alone = solver.solve([poses[:, 0], None])
    assert np.isnan(alone.position_error[:, 1]).all()
    assert alone.success.all()


def test_tools_shapes_frames_and_ticks_take_poses(solver):
    robot, numbers = solver.robot, [0.0, 0.1, 0.2, 0.0, 0.0, 1.0, 0.0]
    pose = Poses(numbers[:3], numbers[3:])
    for given in (pose, pose.matrices, SE3(pose.matrices)):
        np.testing.assert_array_equal(
            IKSolver(robot, [Target("panda_hand", offset=given)], device="cpu").targets[0].offset, numbers
        )
        assert Box((1.0, 1.0, 1.0), given).pose == tuple(numbers)
        framed = robot.with_frame("tool", "panda_hand", given)
        expected = robot.with_frame("tool", "panda_hand", numbers)
        np.testing.assert_array_equal(framed.link_frame("tool")[1], expected.link_frame("tool")[1])
    commands = []
    for wxyz, target in ((False, np.append(PLACES[0], EXACT[0])), (False, Poses(PLACES[0], EXACT[0])), (True, None)):
        controller = IKController(robot, ["panda_hand"], wxyz=wxyz)
        controller.reset(robot.mid_joint_q)
        given = Poses(PLACES[0], EXACT[0]).matrices if target is None else target
        commands.append(controller.step(given, dt=0.01).joint_q.copy())
    np.testing.assert_array_equal(commands[1], commands[0])
    np.testing.assert_array_equal(commands[2], commands[0])


def test_the_client_sends_poses_as_numbers():
    target = SolveTarget(link="panda_hand", positions=Poses(PLACES, EXACT).matrices)
    np.testing.assert_array_equal(target.positions, PLACES)
    np.testing.assert_array_equal(target.orientations_xyzw, EXACT)
    with pytest.raises(ValueError, match="whole poses"):
        SolveTarget(link="panda_hand", positions=Poses(PLACES, EXACT), orientations_xyzw=EXACT)


def test_matrices_and_quaternions_are_the_same_rotations():
    poses, point = random_poses(500), np.array([0.3, -0.2, 0.9])
    turned = (poses.matrices @ np.append(point, 1.0))[:, :3]
    np.testing.assert_allclose(turned, poses.positions + quaternion_rotate(poses.orientations_xyzw, point), atol=1e-12)
    again = Poses.from_matrices(poses.matrices)
    np.testing.assert_array_equal(again.positions, poses.positions)
    dots = (again.orientations_xyzw * poses.orientations_xyzw).sum(axis=1)
    np.testing.assert_allclose(np.abs(dots), 1.0, atol=1e-14)


def test_angles_are_those_of_urdf():
    angles = np.array([[0.3, -1.2, 2.5], [0.0, 0.0, -np.pi], [1.0, 0.5, 0.0]])
    found = Poses.from_rpy(PLACES, angles).orientations_xyzw
    np.testing.assert_allclose(found, [quaternion_from_rpy(*one) for one in angles], atol=1e-15)
    np.testing.assert_allclose(
        Poses.from_rpy(PLACES, np.degrees(angles), degrees=True).orientations_xyzw, found, atol=1e-15
    )


def test_poses_are_an_array_of_poses():
    poses = random_poses(6)
    assert (len(poses), repr(poses), repr(poses[2])) == (6, "<Poses: shape [6]>", "<Poses: shape []>")
    np.testing.assert_array_equal(np.asarray(poses[2:4]), poses.transforms[2:4])
    assert [np.asarray(one).shape for one in poses] == [(7,)] * 6
    with pytest.raises(TypeError, match="single pose"):
        len(poses[0])


BAD = {
    "mirrored": (lambda: Poses.from_matrices(np.diag([1.0, 1.0, -1.0, 1.0])), "left-handed"),
    "scaled": (lambda: Poses.from_matrices(np.diag([1.01, 1.01, 1.01, 1.0])), "scaled or sheared"),
    "transposed": (lambda: Poses.from_matrices(np.eye(4) + 0.5 * np.eye(4)[[3]].T @ np.eye(4)[[0]]), "transposed"),
    "nan": (lambda: Poses.from_matrices(np.full((4, 4), np.nan)), "not finite"),
    "three columns": (lambda: Poses.from_matrices(np.eye(4)[:, :3]), r"Allowed: \[..., 4, 4\]"),
    "degrees": (lambda: Poses.from_rpy([0.0, 0.0, 0.0], [0.0, 0.0, 90.0]), "degrees=True"),
    "length": (lambda: Poses([0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 2.0]), "length 2"),
    "width": (lambda: Poses([0.0, 0.0], [0.0, 0.0, 0.0, 1.0]), r"positions have shape \[2\]"),
    "rotations": (lambda: Poses([0.0, 0.0, 0.0], 2.0 * np.eye(3)), "scaled"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_no_pose_is_refused(case):
    make, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        make()


def test_a_solver_names_what_it_refuses(solver):
    poses = Poses(PLACES, EXACT)
    for given, message in (
        ((poses, EXACT), "whole poses"),
        ((np.diag([1.0, 1.0, -1.0, 1.0])[None],), r"positions: .*left-handed"),
        ((PLACES, 2.0 * poses.matrices[:, :3, :3]), r"orientations_xyzw: .*scaled"),
        ((np.zeros((2, 5, 4)),), r"positions have shape \[2, 5, 4\]"),
    ):
        with pytest.raises(InputError, match=message):
            solver.solve(*given)
    with pytest.raises(InputError, match="initial_joint_q"):
        solver.solve(poses, initial_joint_q=np.full(7, np.nan))
    with pytest.raises(InputError, match=r"Target 'panda_hand': offset: .*left-handed"):
        IKSolver(solver.robot, [Target("panda_hand", offset=np.diag([1.0, 1.0, -1.0, 1.0]))], device="cpu")
