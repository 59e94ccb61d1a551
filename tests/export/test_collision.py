"""Exported solvers that check for collision: the bytes of the solver in Python, and no success in contact."""

import numpy as np
import pytest

from ik_service import IKSolver, IKStatus, SolverOptions, load_robot
from ik_service.export import export_solver
from objectives import InputError
from tests.control.clearance.test_clearance_limit import cell
from tests.export.c_library import C99, COLUMNS, OK, WARNINGS, CLibrary, columns_of, run

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
    solver = IKSolver(robot, links, device="cpu")
    export_solver(solver, prefix="clear", world=world, problem_count=100).write(tmp_path)
    library, targets = CLibrary("clear", tmp_path, checks=True), reachable(robot, links)
    code, columns = library.solve(*targets)
    assert code == OK
    expected = solver.solve_as_recorded(*targets, world=world)
    assert columns == columns_of(expected)
    if name == "panda":
        assert columns == columns_of(solver.solve(*targets, world=world))
    success, joint_q = column(columns, "success", np.bool_), column(columns, "joint_q", np.float32)
    check = robot.collision(joint_q.reshape(COUNT, -1), world)
    np.testing.assert_allclose(column(columns, "clearance", np.float64), check.clearance, atol=1e-9)
    assert success.mean() > 0.7
    assert check.is_free[success].all()
    assert not check.is_free[~success].any()
    assert (column(columns, "status", np.int8)[~success] == IKStatus.BLOCKED_BY_COLLISION).any()

    sources = ["example.c", "clear_ik.c", "clear_io.o", "clear_islands.o", "clear_verdict.o"]
    run(["gcc", *C99, *WARNINGS, *sources, "-lm", "-o", "example"], tmp_path)
    said = run(["sh", "-c", "ulimit -s 64 && ./example problems.bin"], tmp_path)
    assert "same bytes as in Python: yes" in said


@pytest.mark.evidence
def test_the_margin_goes_with_it(tmp_path):
    robot, margin = load_robot("panda"), 0.03
    solver = IKSolver(robot, ["panda_hand"], device="cpu", options=SolverOptions(margin=margin))
    export_solver(solver, prefix="clear", problem_count=10).write(tmp_path)
    targets = reachable(robot, ["panda_hand"])
    code, columns = CLibrary("clear", tmp_path, checks=True).solve(*targets)
    assert code == OK
    assert columns == columns_of(solver.solve(*targets))
    clearance, success = column(columns, "clearance", np.float64), column(columns, "success", np.bool_)
    assert clearance[success].min() >= margin
    assert ((clearance > 0.0) & ~success).any()


def test_without_the_check_there_is_no_clearance(tmp_path):
    robot = load_robot("panda")
    solver = IKSolver(robot, ["panda_hand"], device="cpu", options=SolverOptions(collision="off"))
    done = export_solver(solver, prefix="plain", problem_count=10)
    assert "clearance" not in done.files["plain_ik.h"].decode()
    done.write(tmp_path)
    targets = reachable(robot, ["panda_hand"])
    code, columns = CLibrary("plain", tmp_path).solve(*targets)
    assert code == OK
    assert columns == columns_of(solver.solve(*targets))
    assert set(columns) == set(COLUMNS)


def test_a_world_needs_a_model():
    solver = IKSolver(load_robot("panda", collision="ignore"), ["panda_hand"], device="cpu")
    with pytest.raises(InputError, match="has no collision model"):
        export_solver(solver, world=cell())
