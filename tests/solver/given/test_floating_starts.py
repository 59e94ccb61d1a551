"""A floating base without a start begins where a target of a whole pose asks for it, its other joints in the middle."""

import numpy as np
import pytest

from ik_service import Target
from ik_service.robots import load_urdf
from tests.solver.conftest import cpu_solver, poses_of, use_engine

COUNT = 20
SAME = 1e-5  # roundings of float32 metres and quaternions
TOOL = [0.1, -0.2, 0.3, 0.5, 0.5, 0.5, 0.5]
ONE = {"seeds": 1}
ARM = """<joint name="{0}base" type="floating"><parent link="stand"/><child link="{0}link"/>
    <origin xyz="0.3 0.2 0.1" rpy="0.4 0.5 0.6"/></joint><link name="{0}link"/>
    <joint name="{0}turn" type="revolute"><parent link="{0}link"/><child link="{0}tip"/><origin xyz="0.5 0 0"/>
    <axis xyz="0 0 1"/><limit lower="-0.5" upper="1.5" velocity="1" effort="1"/></joint><link name="{0}tip"/>"""


@pytest.fixture(scope="module")
def arms():
    return load_urdf(f'<robot name="arms"><link name="stand"/>{ARM.format("a_")}{ARM.format("b_")}</robot>')


def far_away(robot):
    """Configurations whose floating bases are metres away and turned; other joints are in the middle."""
    joint_q = np.tile(robot.mid_joint_q, (COUNT, 1))
    rng = np.random.default_rng(0)
    for first in robot.quaternion_starts.values():
        joint_q[:, first - 3 : first] = rng.normal(scale=3.0, size=(COUNT, 3))
        turn = rng.normal(size=(COUNT, 4))
        joint_q[:, first : first + 4] = turn / np.linalg.norm(turn, axis=1, keepdims=True)
    return joint_q


def same_configuration(robot, found, wanted):
    """Compare configurations; a quaternion and its negative are the same turn."""
    found = found.copy()
    for first in robot.quaternion_starts.values():
        part = slice(first, first + 4)
        found[:, part] *= np.sign((found[:, part] * wanted[:, part]).sum(axis=1))[:, None]
    np.testing.assert_allclose(found, wanted, atol=SAME)


def check(robot, result, joint_q):
    """The start is the answer."""
    assert result.success.all()
    assert not result.iterations.any()
    same_configuration(robot, result.joint_q, joint_q)


@pytest.mark.quick_cases("pelvis-auto", "pelvis-staged", "target1-staged", "target2-staged")
@pytest.mark.parametrize("engine", ["auto", "staged", "threads"])
@pytest.mark.parametrize("target", ["pelvis", Target("left_hand"), Target("head", offset=TOOL)])
def test_a_base_begins_where_its_target_asks_for_it(humanoid, engine, target, monkeypatch):
    use_engine(engine, monkeypatch)
    solver, joint_q = cpu_solver(humanoid, [target]), far_away(humanoid)
    link = solver.targets[0].link
    moved = humanoid if solver.targets[0].offset is None else humanoid.with_frame(link := "tool", "head", TOOL)
    pose = poses_of(moved, joint_q, [link])
    check(humanoid, result := solver.solve(*pose, options=ONE), joint_q)
    alone = solver.solve(pose[0][:1], pose[1][:1], options=ONE)
    assert alone.joint_q.tobytes() == result.joint_q[:1].tobytes()


@pytest.mark.evidence
def test_each_base_of_several_has_its_own_target(arms):
    joint_q = far_away(arms)
    assert arms.trees.ntree == 2
    assert len(arms.quaternion_starts) == 2
    solver = cpu_solver(arms, ["a_tip", "b_tip"])
    check(arms, solver.solve(*poses_of(arms, joint_q, ["a_tip", "b_tip"]), options=ONE), joint_q)


@pytest.mark.evidence
def test_tools_of_each_problem_count(arms):
    joint_q, tools = far_away(arms), np.tile(TOOL, (COUNT, 1))
    tools[:, 0] = np.linspace(0.0, 1.0, COUNT)
    solver = cpu_solver(arms, [Target("a_tip", offset=TOOL)])
    solver.set_target_data(0, offset=tools)
    robots = [arms.with_frame("tool", "a_tip", tool) for tool in tools]
    poses = [poses_of(robot, one[None], ["tool"]) for robot, one in zip(robots, joint_q, strict=True)]
    joint_q[:, 8:] = arms.mid_joint_q[8:]  # no target is on the other arm
    check(arms, solver.solve(*(np.concatenate(column) for column in zip(*poses, strict=True)), options=ONE), joint_q)


@pytest.mark.evidence
def test_of_several_targets_that_of_the_link_nearest_to_the_base_counts(humanoid):
    links = ["left_hand", "pelvis", "torso"]
    joint_q = humanoid.random_joint_q(np.random.default_rng(1), COUNT)
    joint_q[:, :7] = far_away(humanoid)[:, :7]
    solver = cpu_solver(humanoid, links)
    start = np.tile(humanoid.mid_joint_q, (COUNT, 1))
    start[:, :7] = joint_q[:, :7]
    given = poses_of(humanoid, joint_q, links)
    begun, told = (solver.solve(*given, initial_joint_q=one, options=ONE) for one in (None, start))
    assert begun.success.mean() > 0.5
    same_configuration(humanoid, begun.joint_q, told.joint_q)


@pytest.mark.evidence_cases("weights0")
@pytest.mark.parametrize("weights", [[1, 1, 1, 1, 1, 0], [1, 1, 1, 0, 0, 0]])
def test_a_target_of_part_of_a_pose_places_no_base(humanoid, weights):
    joint_q = far_away(humanoid)
    solver = cpu_solver(humanoid, [Target("pelvis", row_weights=weights)])
    start = np.tile(humanoid.mid_joint_q, (COUNT, 1))
    given = poses_of(humanoid, joint_q, ["pelvis"])
    begun, told = (solver.solve(*given, initial_joint_q=one, options=ONE) for one in (None, start))
    assert begun.iterations.min() > 0
    np.testing.assert_array_equal(begun.joint_q, told.joint_q)


def test_a_start_that_is_given_stays(humanoid):
    joint_q = far_away(humanoid)
    solver = cpu_solver(humanoid, ["pelvis"])
    result = solver.solve(*poses_of(humanoid, joint_q, ["pelvis"]), initial_joint_q=humanoid.mid_joint_q, options=ONE)
    assert result.iterations.min() > 0
