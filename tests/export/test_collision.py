"""Exported solvers that check for collision: the bytes of the solver in Python, and no success in contact."""

import numpy as np
import pytest

from ik_service import IKSolver, IKStatus, SolverOptions, load_robot
from ik_service.export import export_solver
from ik_service.robots import Box, Sphere, World
from objectives import InputError
from tests.control.clearance.test_clearance_limit import cell
from tests.export.c_library import COLUMNS, CLibrary, columns_of, run_example

COUNT = 500
ARMS = {"panda": ["panda_hand"], "dual_panda": ["left_panda_hand", "right_panda_hand"]}


def reachable(robot, links):
    poses = robot.forward_kinematics(robot.random_joint_q(np.random.default_rng(5), COUNT), links)
    return poses.positions, poses.orientations_xyzw


def column(columns, name, dtype):
    return np.frombuffer(columns[name], dtype)


@pytest.mark.evidence
@pytest.mark.parametrize(("name", "world"), [("panda", None), ("panda", cell()), ("dual_panda", None)])
def test_answers_have_the_bytes_of_the_solver_in_python(name, world, tmp_path):
    robot, links = load_robot(name), ARMS[name]
    solver, targets = IKSolver(robot, links, device="cpu"), reachable(robot, links)
    library = CLibrary.of(solver, "clear", tmp_path, world=world, problem_count=100)
    columns = library.require(solver.solve_as_recorded(*targets, world=world), *targets)
    if name == "panda":
        assert columns == columns_of(solver.solve(*targets, world=world))
    success, joint_q = column(columns, "success", np.bool_), column(columns, "joint_q", np.float32)
    check = robot.collision(joint_q.reshape(COUNT, -1), world)
    np.testing.assert_allclose(column(columns, "clearance", np.float64), check.clearance, atol=1e-9)
    assert success.mean() > 0.7
    assert check.is_free[success].all()
    assert not check.is_free[~success].any()
    assert (column(columns, "status", np.int8)[~success] == IKStatus.BLOCKED_BY_COLLISION).any()
    run_example(tmp_path, "clear", limit="ulimit -s 64 &&")


@pytest.mark.evidence
def test_the_margin_goes_with_it(tmp_path):
    robot, margin = load_robot("panda"), 0.03
    solver = IKSolver(robot, ["panda_hand"], device="cpu", options=SolverOptions(margin=margin))
    targets = reachable(robot, ["panda_hand"])
    columns = CLibrary.of(solver, "clear", tmp_path, problem_count=10).require(solver.solve(*targets), *targets)
    clearance, success = column(columns, "clearance", np.float64), column(columns, "success", np.bool_)
    assert clearance[success].min() >= margin
    assert ((clearance > 0.0) & ~success).any()


def test_without_the_check_there_is_no_clearance(tmp_path):
    robot = load_robot("panda")
    solver = IKSolver(robot, ["panda_hand"], device="cpu", options=SolverOptions(collision="off"))
    targets = reachable(robot, ["panda_hand"])
    columns = CLibrary.of(solver, "plain", tmp_path, problem_count=10).require(solver.solve(*targets), *targets)
    assert set(columns) == set(COLUMNS)
    assert "clearance" not in (tmp_path / "plain_ik.h").read_text()


def test_a_world_needs_a_model():
    solver = IKSolver(load_robot("panda", collision="ignore"), ["panda_hand"], device="cpu")
    with pytest.raises(InputError, match="has no collision model"):
        export_solver(solver, world=cell())


def test_targets_at_which_the_hand_touches_an_object_are_proven_blocked_in_c(tmp_path):
    robot, rng = load_robot("panda"), np.random.default_rng(1)
    world = World({"table": Box((0.7, 1.2, 0.1), (0.7, 0.0, 0.15, 0, 0, 0, 1)), "ball": Sphere(0.1, (0.5, 0.2, 0.4))})
    orientations_xyzw = rng.normal(size=(60, 1, 4))
    orientations_xyzw /= np.linalg.norm(orientations_xyzw, axis=-1, keepdims=True)
    targets = rng.uniform([0.3, -0.4, 0.1], [0.8, 0.4, 0.75], (60, 1, 3)), orientations_xyzw
    solver = IKSolver(robot, ["panda_hand"], device="cpu")
    library = CLibrary.of(solver, "blocked", tmp_path, problem_count=60, world=world)
    columns = library.require(solver.solve(*targets, world=world), *targets)
    assert {0, 1, 4} <= set(column(columns, "proof", np.int32).tolist())
