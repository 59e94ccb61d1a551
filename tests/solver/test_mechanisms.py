"""The built-in mechanisms that close loops, held to their closed forms."""

import numpy as np
import pytest

from benchmarks.problems import mechanisms
from benchmarks.problems.mechanisms import MECHANISMS
from ik_service import Target, load_robot
from ik_service.robots import load_urdf
from tests.constraints import rounded
from tests.solver.conftest import cpu_solver, poses_of

CLOSED, CLOSED_APART = 1e-10, 1e-6  # [m], the second where targets pull
COUNT, SHARE = 1000, 0.995
PERTURBED = 0.1  # standard deviation of each coordinate [m or rad]
EACH = pytest.mark.parametrize("mechanism", MECHANISMS, ids=[one.name for one in MECHANISMS])
FOUR_BAR, FIVE_BAR, DELTA, STEWART = MECHANISMS


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


@EACH
def test_as_many_freedoms_are_left_as_there_are_drives(mechanism):
    robot, step = load_robot(mechanism.name), 1e-6
    joint_q = mechanism.configurations(1, np.random.default_rng(3))
    ways = step * np.eye(robot.joint_dof_count)
    near = [rows(robot, robot.integrate(np.tile(joint_q, (len(ways), 1)), sign * ways)) for sign in (1.0, -1.0)]
    rank = np.linalg.matrix_rank((near[0] - near[1]) / (2.0 * step), tol=1e-6)
    assert rank == near[0].shape[1]  # no row depends on the others
    assert robot.joint_dof_count - rank == len(mechanism.drives)


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


def solved_from_drives(mechanism, count=COUNT, starts=None):
    """Configurations that follow from random drives; other joints start in the middle, or where `starts` says."""
    robot = load_robot(mechanism.name)
    wanted = mechanism.configurations(count, np.random.default_rng(4))
    drives = drive_columns(robot, mechanism)
    given = np.tile(robot.mid_joint_q, (count, 1)) if starts is None else starts(robot, count)
    given[:, drives] = wanted[:, drives]
    result = cpu_solver(driven(robot, mechanism)).solve(problem_count=count, initial_joint_q=given)
    assert result.success.mean() >= SHARE
    return robot, result.joint_q[result.success], result.joint_q[result.success][:, drives]


@pytest.mark.evidence
def test_a_four_bar_follows_its_crank_in_both_modes():
    robot, joint_q, crank = solved_from_drives(
        FOUR_BAR, starts=lambda robot, count: robot.random_joint_q(np.random.default_rng(5), count)
    )
    point = poses_of(robot, joint_q, FOUR_BAR.link)[0][:, :2]
    modes = [mechanisms.four_bar(crank[:, 0], side) for side in (1.0, -1.0)]
    off = np.array([np.abs(np.angle(np.exp(1j * (joint_q[:, 2] - angle)))) for angle, _ in modes])
    assert off.min(axis=0).max() <= 1e-9
    assert 0.2 < off.argmin(axis=0).mean() < 0.8
    far = np.array([np.linalg.norm(point - place, axis=1) for _, place in modes])
    assert far.min(axis=0).max() <= 1e-9


@pytest.mark.evidence
def test_a_five_bar_has_its_tool_where_two_circles_meet_and_a_delta_its_platform_where_three_spheres_meet():
    robot, joint_q, shoulders = solved_from_drives(FIVE_BAR)
    tool = poses_of(robot, joint_q, FIVE_BAR.link)[0][:, :2]
    far = np.array([np.linalg.norm(tool - mechanisms.five_bar(shoulders, side), axis=1) for side in (1.0, -1.0)])
    assert far.min(axis=0).max() <= 1e-9
    robot, joint_q, arms = solved_from_drives(DELTA)
    assert np.linalg.norm(poses_of(robot, joint_q, DELTA.link)[0] - mechanisms.delta(arms), axis=1).max() <= 1e-9


def test_a_stewart_platform_stands_on_its_legs():
    """The legs in closed form at the pose that was found, and the pose that Newton's method finds from home."""
    robot, joint_q, lengths = solved_from_drives(STEWART)
    position, turn = poses_of(robot, joint_q, STEWART.link)
    seen = mechanisms.stewart(position, turn)
    for found, own in zip(seen, (lengths, joint_q[:, 7::3], joint_q[:, 8::3]), strict=True):
        np.testing.assert_allclose(found, own, atol=1e-9)
    other, orientation = mechanisms.stewart_platform(lengths)
    np.testing.assert_allclose(other, position, atol=1e-9)
    np.testing.assert_allclose(np.abs((orientation * turn).sum(axis=1)), 1.0, atol=1e-12)


@pytest.mark.evidence
@EACH
def test_targets_out_of_reach_are_come_to_as_near_as_loops_and_limits_allow(mechanism):
    """They are 0.2 m from the nearest of many places that are reached."""
    robot, rng = load_robot(mechanism.name), np.random.default_rng(6)
    reached = poses_of(robot, mechanism.configurations(20_000, rng), mechanism.link)[0]
    targets = mechanisms.outside(reached, 50, 0.2, rng)
    target = Target(mechanism.link, row_weights=[*mechanism.axes[:3], 0.0, 0.0, 0.0])
    result = cpu_solver(robot, [target]).solve(targets)
    assert gaps(robot, result.joint_q).max() <= CLOSED_APART
    assert np.linalg.norm(poses_of(robot, result.joint_q, mechanism.link)[0] - targets, axis=1).max() <= 1.01 * 0.2


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
