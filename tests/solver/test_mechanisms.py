"""The built-in mechanisms that close loops, held to their closed forms."""

import numpy as np
import pytest

from benchmarks.problems import mechanisms
from benchmarks.problems.mechanisms import MECHANISMS
from ik_service import Target, load_robot
from ik_service.robots import load_urdf
from tests.constraints import rounded
from tests.solver.conftest import cpu_solver, poses_of

CLOSED = 1e-10  # [m]
COUNT, SHARE = 1000, 0.995
PERTURBED = 0.1  # standard deviation of each coordinate [m or rad]
EACH = pytest.mark.parametrize("mechanism", MECHANISMS, ids=[one.name for one in MECHANISMS])
STEWART = MECHANISMS[3]


def rows(robot, joint_q):
    """Rows of all loops by rotation matrices, [n, rows]."""
    found = []
    for loop in robot.loops:
        ends = []
        for link, offset in ((loop.link, loop.offset), (loop.reference_link, loop.reference_offset)):
            position, orientation = poses_of(robot, joint_q, link)
            axes = mechanisms.matrix(orientation)
            ends.append(position + axes @ offset[:3])
        seen = np.einsum("nji,nj->ni", axes, ends[0] - ends[1])
        if loop.joint == "distance":
            seen = np.linalg.norm(seen, axis=1, keepdims=True) - loop.distance
        found.append(seen[:, :2] if loop.joint == "point_on_line" else seen)
    return np.concatenate(found, axis=1)


def gaps(robot, joint_q):
    """The largest row of any loop, [n]."""
    return np.abs(rows(robot, joint_q)).max(axis=1)


def driven(robot, mechanism):
    """The robot with its drives locked: a start says where."""
    columns = drive_columns(robot, mechanism)
    return robot.lock(dict(zip(mechanism.drives, robot.mid_joint_q[columns].tolist(), strict=True)))


def drive_columns(robot, mechanism):
    return [robot.coordinate_names.index(joint) for joint in mechanism.drives]


@EACH
def test_the_robot_is_that_of_the_closed_form(mechanism):
    robot = load_robot(mechanism.name)
    assert robot.warnings == ()
    assert len(robot.loops) >= 1
    joint_q = mechanism.configurations(COUNT, np.random.default_rng(0))
    assert joint_q.shape == (COUNT, robot.joint_coord_count)
    assert gaps(robot, joint_q).max() <= 1e-11
    np.testing.assert_allclose(robot.clamp_joint_q(joint_q), joint_q, rtol=0.0, atol=1e-15)


@pytest.mark.quick_cases("False-four_bar", "True-stewart")
@EACH
@pytest.mark.parametrize("is_driven", [False, True])
def test_random_configurations_close_from_perturbed_starts(mechanism, is_driven):
    robot = load_robot(mechanism.name)
    rng = np.random.default_rng(1)
    starts = mechanism.configurations(COUNT, rng)
    drives = drive_columns(robot, mechanism)
    held = starts[:, drives]
    starts = starts + rng.normal(0.0, PERTURBED, starts.shape)
    if is_driven:
        starts[:, drives] = held
    moved = driven(robot, mechanism) if is_driven else robot
    result = cpu_solver(moved).solve(problem_count=COUNT, initial_joint_q=starts)
    assert result.success.mean() >= SHARE
    assert gaps(robot, result.joint_q[result.success]).max() <= CLOSED
    if is_driven:
        np.testing.assert_allclose(result.joint_q[:, drives], held, atol=1e-6)


@pytest.mark.evidence_cases("delta", "five_bar", "four_bar")
@EACH
def test_targets_that_the_loops_allow_are_met(mechanism):
    robot = load_robot(mechanism.name)
    wanted = mechanism.configurations(COUNT, np.random.default_rng(2))
    positions, turns = poses_of(robot, wanted, mechanism.link)
    target = Target(mechanism.link, row_weights=mechanism.axes)
    solver = cpu_solver(robot, [target])
    result = solver.solve(positions, turns if mechanism is STEWART else None)
    assert result.success.mean() >= SHARE
    assert gaps(robot, result.joint_q[result.success]).max() <= CLOSED
    reached = poses_of(robot, result.joint_q, mechanism.link)[0]
    assert np.linalg.norm(reached - positions, axis=1)[result.success].max() <= 1e-3


FEW = 20
CLOSED_BESIDE_SLACK = 1e-6  # [m and rad] beyond the slack that is told
REACHED = 1e-3  # [m], the tolerance
ROUNDED = [("compiled", "pins", 7), ("compiled", "gripper", 4), ("staged", "pins", 4)]


@pytest.mark.evidence_cases("compiled-gripper-4", "compiled-pins-7")
@pytest.mark.parametrize(("engine", "name", "digits"), ROUNDED)
def test_targets_of_the_exact_mechanism_are_met_with_rounded_angles(engine, name, digits):
    exact, robot = (load_urdf(rounded.MECHANISMS[name](one)) for one in (None, digits))
    found = exact.constraints.close(exact.random_joint_q(np.random.default_rng(0), FEW))
    assert found.closed.all()
    wanted = exact.forward_kinematics(found.joint_q, ["point"]).positions[:, 0]
    assert np.ptp(wanted, axis=0).max() > 0.1
    result = cpu_solver(robot, ["point"], engine=engine).solve(wanted)
    assert result.success.all()
    assert result.constraint_error.max() <= CLOSED_BESIDE_SLACK
    for loop in robot.loops:
        off = np.abs(robot.constraints.error(result.joint_q)[:, robot.constraints.error_rows(loop.name)]).max()
        assert off <= 2.0 * max(dict(loop.slack).values()) + CLOSED_BESIDE_SLACK
    reached = robot.forward_kinematics(result.joint_q, ["point"]).positions[:, 0]
    assert np.linalg.norm(reached - wanted, axis=1).max() <= REACHED
