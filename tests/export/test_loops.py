"""Exported solves of robots that close loops: the bytes of the solver in Python, in float64."""

import numpy as np
import pytest

from ik_service import IKSolver, IKStatus, load_robot
from ik_service.errors import EngineError
from ik_service.export import export_solver
from ik_service.robots import CoordinateConstraint, LoopConstraint
from objectives import IKObjectivePosture
from tests.export.c_library import CLibrary, run_example
from tests.solver.test_loops import HELD, LEFT, RIGHT, gaps

COUNT = 200


@pytest.fixture(scope="module")
def holding(tmp_path_factory):
    """Two arms that hold one object: the solver, the folder of the export, and that compiled and loaded."""
    robot = load_robot("dual_panda", collision="ignore").with_loops(
        [LoopConstraint("object", "weld", RIGHT, LEFT, reference_offset=HELD)]
    )
    solver, folder = IKSolver(robot, [LEFT], device="cpu"), tmp_path_factory.mktemp("holding")
    return solver, folder, CLibrary.of(solver, "hold", folder, problem_count=50)


def targets_of(robot, link, random_seed=4):
    poses = robot.forward_kinematics(robot.random_joint_q(np.random.default_rng(random_seed), COUNT), [link])
    return poses.positions, poses.orientations_xyzw


@pytest.mark.evidence
def test_all_columns_have_the_bytes_of_the_solver_in_python_with_starts_and_options_too(holding):
    solver, _, library = holding
    targets = targets_of(solver.robot, LEFT, 1)
    expected = solver.solve_as_recorded(*targets)
    assert 0.2 < expected.success.mean() < 0.6
    is_closed = expected.status != IKStatus.LOOP_OPEN
    assert gaps(solver.robot, expected.joint_q)[is_closed].max() <= 1e-6
    columns = library.require(expected, *targets)
    starts = solver.robot.random_joint_q(np.random.default_rng(3), COUNT)
    options = {"seeds": 3, "max_iterations": 15, "random_seed": 7}
    options |= {"position_tolerance": 1e-5, "orientation_tolerance": 2e-5}
    for start in (starts[0], starts):
        expected = solver.solve(*targets, initial_joint_q=start, options=options)
        assert library.require(expected, *targets, start, library.options(**options)) != columns


def test_the_example_gives_the_same_bytes(holding):
    run_example(holding[1], "hold")


@pytest.mark.evidence
def test_limits_of_closing_joints_go_with_it(tmp_path):
    pin = load_robot("four_bar").loops[0]
    frames = pin.link, pin.reference_link, pin.offset, pin.reference_offset
    robot = load_robot("four_bar").with_loops([LoopConstraint("pin", "revolute", *frames, limits=(0.8, 1.3))])
    solver = IKSolver(robot, ["coupler_point"], device="cpu")
    closed = robot.with_loops([pin]).constraints.close(robot.random_joint_q(np.random.default_rng(4), COUNT)).joint_q
    poses = robot.forward_kinematics(closed, ["coupler_point"])
    targets = poses.positions, poses.orientations_xyzw
    expected = solver.solve_as_recorded(*targets)
    angle = expected.closing_joint_q[:, 0]
    assert np.minimum(np.abs(angle - 0.8), np.abs(angle - 1.3)).min() < 1e-9
    assert 0.1 < expected.success.mean() < 0.9
    CLibrary.of(solver, "bar", tmp_path, problem_count=50).require(expected, *targets)


@pytest.mark.evidence
def test_constraints_between_coordinates_go_with_it(tmp_path):
    cam = CoordinateConstraint("cam", "panda_joint6", "panda_joint4", (1.0, -0.1, 0.15))
    robot = load_robot("panda", collision="ignore").with_coordinate_constraints([cam])
    solver = IKSolver(robot, ["panda_hand"], device="cpu")
    positions, _ = targets_of(robot, "panda_hand")
    expected = solver.solve(positions)
    assert expected.success.mean() > 0.5
    library = CLibrary.of(solver, "cam", tmp_path, orientations=False, problem_count=50)
    library.require(expected, positions, np.full((1, 4), np.nan))


def test_other_rows_are_refused(holding):
    solver, _, _ = holding
    posture = IKObjectivePosture(solver.robot.mid_joint_q)
    with pytest.raises(EngineError, match="no further objectives"):
        export_solver(IKSolver(solver.robot, [LEFT], objectives=[posture], device="cpu"))
