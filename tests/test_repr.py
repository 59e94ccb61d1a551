"""What is printed of robots, results and wrong arguments is a line, not the numbers in them."""

import numpy as np
import pytest

import ik_service
from ik_service.client import ForwardResult, SolveResult
from ik_service.control import IKController
from ik_service.export import Export
from ik_service.export.values import CLayout
from objectives import InputError

LINE = 200  # characters that a line may have


@pytest.fixture(scope="module")
def panda():
    return ik_service.load_robot("panda")


@pytest.fixture(scope="module")
def solver(panda):
    return ik_service.IKSolver(panda, ["panda_hand"], device="cpu")


def solved(solver, panda, count):
    poses = panda.forward_kinematics(panda.random_joint_q(np.random.default_rng(0), count), ["panda_hand"])
    return solver.solve(poses.positions, poses.orientations_xyzw)


def test_a_robot_is_a_line_of_its_name_joints_dofs_and_links(panda):
    assert repr(panda) == "<RobotModel 'panda': 7 joints, 7 DOFs (7 active), 10 links>"
    assert str(panda).splitlines()[0] == repr(panda)  # a table, see tests/robots/readers/test_sources.py
    locked = panda.lock({"panda_joint2": 0.4})
    assert repr(locked) == "<RobotModel 'panda': 7 joints, 7 DOFs (6 active), 10 links>"
    assert repr(panda.on_device("cpu")) == f"<DeviceModel on cpu of {panda!r}>"
    assert repr(ik_service.load_robot("dual_panda").trees) == "<KinematicTrees: 2 of [7, 7] active DOFs>"


def test_results_are_a_line_however_many_problems_they_have(panda, solver):
    result = solved(solver, panda, 300)
    solved_count = int(result.success.sum())
    assert solved_count > 280  # of poses of configurations some of which are in contact
    assert repr(result) == f"<IKResult: {solved_count} of 300 problems solved, 7 coordinates, engine compiled on cpu>"
    assert repr(result.islands) == "<IslandResults: 300 problems of 1 islands>"
    pose = np.tile([0.4, 0.1, 0.5], (40, 1)), np.tile([1.0, 0.0, 0.0, 0.0], (40, 1))
    path = solver.follow(*pose, 0.1)
    assert repr(path) == "<PathResult: 40 of 40 waypoints met, 7 coordinates, dt 0.1 s>"


def test_commands_are_a_line(panda):
    controller = IKController(panda, ["panda_hand"])
    controller.reset(panda.mid_joint_q)
    result = controller.step([0.4, 0.1, 0.5, 1.0, 0.0, 0.0, 0.0])
    assert repr(result) == f"<ControlResult: robots 1, coordinates 7, status {result.status_names[0]}>"
    assert len(repr(result)) < LINE


def test_answers_of_the_service_and_exports_are_a_line():
    many = np.zeros((500, 7))
    flags = np.arange(500) % 2 == 0
    columns = dict.fromkeys(
        ("position_error_m", "orientation_error_rad", "iterations", "seed_index", "cost"), many[:, 0]
    )
    names = {"robot": "panda", "joint_names": ("a",), "coordinate_names": ("a",), "engine": "compiled", "device": "cpu"}
    answer = SolveResult(**names, **columns, joint_q=many, success=flags, status=flags, seeds=64, timing_ms={})
    assert repr(answer) == "<SolveResult of 'panda': 250 of 500 problems solved, engine compiled on cpu>"
    poses = ForwardResult(
        robot="panda", links=("a", "b"), positions=np.zeros((500, 2, 3)), orientations_xyzw=np.zeros((500, 2, 4))
    )
    assert repr(poses) == "<ForwardResult of 'panda': 500 poses of a, b>"
    export = Export("panda", (), CLayout("panda"), {"a.c": b"x" * 5000, "a.o": b"\0" * 5000})
    assert repr(export) == "<Export 'panda': 2 files, 10000 bytes>"


@pytest.mark.parametrize("make", [ik_service.IKSolver, IKController])
def test_a_wrong_argument_is_told_in_a_line(panda, make):
    wrong = ["panda", "<robot>" * 10_000, [panda] * 100, panda.on_device("cpu"), None]
    for robot in wrong:
        with pytest.raises(InputError, match=r"robot is .*Allowed: a RobotModel, as load_robot\('panda'\)") as caught:
            make(robot, ["panda_hand"])
        assert len(str(caught.value)) < LINE
    for name, value in (("targets", panda), ("targets", "hand" * 1000), ("targets", np.zeros((30, 7)))):
        with pytest.raises(InputError, match=f"{name} is .*Allowed: a list of") as caught:
            make(panda, value)
        assert len(str(caught.value)) < LINE
    with pytest.raises(InputError, match=r"A target is .*Allowed: a link name") as caught:
        make(panda, [np.zeros(500)])
    assert len(str(caught.value)) < LINE
