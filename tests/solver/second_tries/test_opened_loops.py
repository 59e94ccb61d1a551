"""Starts where loops are open: poses that follow from targets through welds, and answers that begin there."""

import numpy as np
import pytest

from ik_service import Target
from ik_service.mechanism.transforms import transform_inverse, transform_multiply
from ik_service.robots import LoopConstraint
from ik_service.solver.given.batch import Batch
from ik_service.solver.given.targets import as_target
from ik_service.solver.second_tries.target_solves import OpenedProblem
from objectives import InputError
from tests.solver.conftest import EACH_ENGINE, assert_same_bytes, bare_robot, cpu_solver
from tests.solver.test_loops import CLOSED, HELD, LEFT, RIGHT, gaps, pose_of, two_hands

COUNT = 60
TOOL = np.array([0.02, -0.01, 0.1, 0.0, 0.6, 0.0, 0.8])
FRAME = np.array([0.05, 0.02, 0.1, 0.0, 0.0, 0.6, 0.8])


@pytest.fixture(scope="module")
def holding():
    """Two dual_panda that hold one object, and poses of both hands in which they do, [60, 2, 7]."""
    hands = two_hands(COUNT, precision="float64")
    assert len(hands.joint_q) == COUNT
    return hands.robot, np.concatenate(hands.targets, axis=2)


def welded_where_it_stands(robot, joint_q, pairs):
    """The robot with welds between pairs of links that one configuration closes."""
    loops = []
    for link, other in pairs:
        place = transform_multiply(pose_of(robot, joint_q, link), FRAME[None])
        offset = transform_multiply(transform_inverse(pose_of(robot, joint_q, other)), place)[0]
        loops.append(LoopConstraint(f"{link} {other}", "weld", link, other, FRAME, tuple(offset)))
    return robot.with_loops(loops)


@pytest.mark.parametrize("reference", [None, "pelvis"])
def test_poses_follow_through_one_weld_after_another(reference):
    robot = bare_robot("humanoid")
    links = ("left_hand", "right_hand", "left_foot")
    joint_q = robot.random_joint_q(np.random.default_rng(1), 1)
    closed = welded_where_it_stands(robot, joint_q, [links[:2], links[:0:-1]])
    target = as_target(Target(links[0], TOOL, reference), closed)
    problem = OpenedProblem.of(closed, [target])
    assert [pose.link for pose in problem.poses] == list(links)
    assert problem.is_open.all()
    assert problem.robot.loops == ()
    tool = transform_multiply(pose_of(robot, joint_q, links[0]), TOOL[None])
    to_reference = transform_inverse(pose_of(robot, joint_q, reference))
    wanted = transform_multiply(to_reference, tool)
    given = problem.given(Batch((wanted[:, :3],), (wanted[:, 3:],), 1))
    for k, link in enumerate(links):
        pose = transform_multiply(to_reference, pose_of(robot, joint_q, link))
        np.testing.assert_allclose(given.positions[k], pose[:, :3], atol=1e-12)
        turn = given.orientations_xyzw[k]
        np.testing.assert_allclose(turn * np.sign(turn[:, 3:] * pose[:, 6:]), pose[:, 3:], atol=1e-12)


@pytest.mark.evidence
def test_nothing_follows_from_half_a_pose_or_through_other_joints(dual_panda, holding):
    robot, poses = holding
    part = Target(LEFT, row_weights=[1, 1, 1, 1, 1, 0]), Target(LEFT, free=("rz",)), Target("left_panda_link4")
    for target in part:
        assert OpenedProblem.of(robot, [as_target(target, robot)]) is None
    pin = dual_panda.with_loops([LoopConstraint("object", "revolute", RIGHT, LEFT, reference_offset=HELD)])
    assert OpenedProblem.of(pin, [Target(LEFT)]) is None
    problem = OpenedProblem.of(robot, [Target(LEFT)])
    assert problem.given(Batch((poses[:, 0, :3],), (None,), COUNT)) is None
    relative = OpenedProblem.of(robot, [Target(LEFT, reference_link=RIGHT)])
    assert relative is None  # the other hand stands still in its own frame


@pytest.mark.evidence_cases("links1-compiled", "links2-compiled")
@EACH_ENGINE
@pytest.mark.parametrize("links", [(LEFT,), (RIGHT,), (LEFT, RIGHT)])
def test_the_first_start_closes_the_loop(holding, links, engine):
    robot, poses = holding
    wanted = poses[:, [(LEFT, RIGHT).index(link) for link in links]]
    solver = cpu_solver(robot, links, engine=engine)
    result = solver.solve(wanted[..., :3], wanted[..., 3:])
    assert result.success.all()
    assert (result.seed_index == 0).all()
    assert gaps(robot, result.joint_q).max() <= CLOSED
    middle = np.tile(robot.mid_joint_q, (COUNT, 1))
    given = solver.solve(wanted[..., :3], wanted[..., 3:], initial_joint_q=middle, options={"seeds": 1})
    assert given.success.mean() <= 0.9  # not from one that a caller gives


@pytest.mark.evidence
def test_tools_may_be_exchanged(holding):
    robot, poses = holding
    solver = cpu_solver(robot, [Target(LEFT, TOOL)])
    for tool in (TOOL, FRAME):
        solver.set_target_data(0, offset=tool)
        wanted = transform_multiply(poses[:, 0], np.tile(tool, (COUNT, 1)))
        result = solver.solve(wanted[:, :3], wanted[:, 3:])
        assert result.success.all()
        assert (result.seed_index == 0).all()
    solver.set_target_data(0, row_weights=[1, 1, 1, 1, 1, 0])  # nothing follows now
    turned = solver.solve(wanted[:, :3], wanted[:, 3:])
    assert turned.seed_index.max() > 0
    new = cpu_solver(robot, [Target(LEFT, FRAME, row_weights=[1, 1, 1, 1, 1, 0])])
    assert_same_bytes(turned, new.solve(wanted[:, :3], wanted[:, 3:]))
    once = cpu_solver(robot, [Target(LEFT, TOOL)])
    assert once.solve(wanted[:, :3], wanted[:, 3:], offset=FRAME).success.all()
    assert_same_bytes(turned, once.solve(wanted[:, :3], wanted[:, 3:], offset=FRAME, row_weights=[1, 1, 1, 1, 1, 0]))


def test_loops_that_are_not_enabled_change_no_start(dual_panda, holding):
    robot, poses = holding
    given, on = (poses[:8, :1, :3], poses[:8, :1, 3:]), np.arange(8) % 2 == 0
    result = cpu_solver(robot, [LEFT]).solve(*given, constraint_enabled=on[:, None])
    without = cpu_solver(dual_panda, [LEFT]).solve(*given, options={"precision": "float64"})
    assert result.success.all()
    assert (gaps(robot, result.joint_q)[on] <= CLOSED).all()
    np.testing.assert_array_equal(result.joint_q[~on], without.joint_q[~on])


def test_the_deadline_is_one_for_both_solves_and_faulty_numbers_are_refused(holding):
    robot, poses = holding
    solver, wanted = cpu_solver(robot, [LEFT]), poses[:3, :1].copy()
    assert not solver.solve(wanted[..., :3], wanted[..., 3:], options={"deadline_s": 1e-9}).success.any()
    wanted[1, 0, 2] = np.nan
    with pytest.raises(InputError, match="nan"):
        solver.solve(wanted[..., :3], wanted[..., 3:])
