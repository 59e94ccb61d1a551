"""Loops that a robot closes: held by every answer, whatever targets and objectives ask for, or said to be open."""

import pickle

import numpy as np
import pytest

import ik_service
from ik_service import IKStatus, SolverOptions, Target
from ik_service.mechanism.transforms import transform_inverse, transform_multiply
from ik_service.robots import LoopConstraint
from ik_service.robots.readers.catalog import load_urdf
from objectives import IKObjectivePosture, InputError
from tests.objectives.loop_rows import LOOP_ROWS, LOOP_SIZES, matrix_of
from tests.solver.conftest import assert_same_bytes, bare_robot, cpu_solver

CLOSED = 1e-6  # [m and rad]
CLOSED_FLOAT64 = 1e-10
LEFT, RIGHT = "left_panda_hand", "right_panda_hand"
HELD = (0.0, 0.0, 0.3, 1.0, 0.0, 0.0, 0.0)
FOUR_BAR = """<robot name="four_bar">
  <link name="ground"/><link name="crank"/><link name="coupler"/><link name="rocker"/>
  <joint name="drive" type="continuous"><parent link="ground"/><child link="crank"/><axis xyz="0 0 1"/></joint>
  <joint name="elbow" type="continuous"><parent link="crank"/><child link="coupler"/><origin xyz="0.2 0 0"/>
    <axis xyz="0 0 1"/></joint>
  <joint name="swing" type="continuous"><parent link="ground"/><child link="rocker"/><origin xyz="0.5 0 0"/>
    <axis xyz="0 0 1"/></joint>
</robot>"""
CRANK, COUPLER, ROCKER, GROUND = 0.2, 0.5, 0.4, 0.5


def pose_of(robot, joint_q, link):
    """Poses of a link [n, 7]; of the world, for None."""
    if link is None:
        return np.tile([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0], (len(joint_q), 1))
    poses = robot.forward_kinematics(joint_q, [link])
    return np.concatenate([poses.positions[:, 0], poses.orientations_xyzw[:, 0]], axis=1)


def gaps(robot, joint_q):
    """The largest row of any loop, by rotation matrices, [n]."""
    found = []
    for loop in robot.loops:
        pairs = ((loop.link, loop.offset), (loop.reference_link, loop.reference_offset))
        frame, base = (
            transform_multiply(pose_of(robot, joint_q, link), np.tile(offset, (len(joint_q), 1)))
            for link, offset in pairs
        )
        seen = transform_multiply(transform_inverse(base), frame)
        rows = LOOP_ROWS[loop.joint](seen[:, :3], matrix_of(seen[:, 3:]), seen[:, 3:])
        found.append(np.abs(np.concatenate(rows, axis=1)).max(axis=1))
    return np.max(found, axis=0)


@pytest.fixture(scope="module")
def holding():
    """Two arms that hold one object, targets that they reach together, and those configurations."""
    robot = bare_robot("dual_panda").with_loops([LoopConstraint("object", "weld", RIGHT, LEFT, reference_offset=HELD)])
    open_chain = cpu_solver(robot.with_loops([]), [Target(RIGHT, reference_link=LEFT)])
    starts = robot.random_joint_q(np.random.default_rng(3), 60)
    held = open_chain.solve(np.tile(HELD[:3], (60, 1, 1)), np.tile(HELD[3:], (60, 1, 1)), initial_joint_q=starts)
    assert held.success.all()
    poses = robot.forward_kinematics(held.joint_q, [LEFT, RIGHT])
    return robot, poses.positions, poses.orientations_xyzw


@pytest.mark.evidence
def test_targets_that_the_loop_allows_are_met_with_it(holding):
    robot, positions, turns = holding
    solver = cpu_solver(robot, [LEFT, RIGHT])
    result = solver.solve(positions, turns)
    assert gaps(robot, result.joint_q).max() <= CLOSED
    assert result.success.mean() >= 0.95
    assert len(solver.islands().islands) == 1  # the loop joins the arms
    poses = robot.forward_kinematics(result.joint_q, [LEFT, RIGHT])
    distance = np.linalg.norm(poses.positions - positions, axis=2).max(axis=1)
    assert (distance[result.success] <= 1e-3).all()


@pytest.mark.evidence
def test_loops_close_to_what_float64_resolves_beside_joints_at_their_limits(holding):
    robot, _, _ = holding
    hand = cpu_solver(robot.with_loops([]), [Target(RIGHT, reference_link=LEFT)])
    n = 300
    starts = robot.random_joint_q(np.random.default_rng(4), n)
    held = hand.solve(np.tile(HELD[:3], (n, 1, 1)), np.tile(HELD[3:], (n, 1, 1)), initial_joint_q=starts)
    poses = robot.forward_kinematics(held.joint_q, [LEFT, RIGHT])  # float32: hands are off by some 1e-6
    result = cpu_solver(robot, [LEFT, RIGHT]).solve(poses.positions, poses.orientations_xyzw)
    assert (result.active_limits != 0).any(axis=1).sum() >= 20
    assert gaps(robot, result.joint_q).max() <= CLOSED_FLOAT64


def test_one_target_moves_both_arms(holding):
    robot, positions, turns = holding
    result = cpu_solver(robot, [LEFT]).solve(positions[:, :1], turns[:, :1])
    assert gaps(robot, result.joint_q).max() <= CLOSED
    assert result.success.mean() >= 0.95


@pytest.mark.evidence
def test_a_loop_stays_closed_where_targets_pull_it_apart(holding):
    robot, positions, turns = holding
    apart = positions[:20].copy()
    apart[:, 1, 0] += 0.2
    solver = cpu_solver(robot, [LEFT, RIGHT], options=SolverOptions(seeds=16))
    result = solver.solve(apart, turns[:20])
    assert not result.success.any()
    assert gaps(robot, result.joint_q).max() <= CLOSED_FLOAT64
    at_minimum = np.isin(result.status, [IKStatus.STALLED, IKStatus.BLOCKED_BY_LIMITS])
    assert at_minimum.mean() >= 0.75  # and not out of iterations
    poses = robot.forward_kinematics(result.joint_q, [LEFT, RIGHT])
    pulled = np.linalg.norm(poses.positions - apart, axis=2)
    assert (pulled.sum(axis=1) >= 0.1).all()  # nobody gets what both ask for,
    assert np.median(pulled.max(axis=1)) <= 0.15  # and they share what is left


@pytest.mark.evidence
def test_a_posture_costs_neither_loop_nor_targets(holding):
    robot, positions, turns = holding
    posture = IKObjectivePosture(robot.mid_joint_q, weight=0.3)
    result = cpu_solver(robot, [LEFT, RIGHT], objectives=[posture]).solve(positions, turns)
    assert gaps(robot, result.joint_q).max() <= CLOSED
    assert result.success.mean() >= 0.95
    without = cpu_solver(robot, [LEFT, RIGHT]).solve(positions, turns)
    both = result.success & without.success
    near, far = (np.linalg.norm(one.joint_q[both] - robot.mid_joint_q, axis=1).mean() for one in (result, without))
    assert near < far


def test_bytes_are_those_of_each_problem_alone_on_any_number_of_threads(holding, monkeypatch):
    robot, positions, turns = holding
    monkeypatch.setattr(ik_service.solver.arrays.parts, "PART_MIN", 8)
    solver = cpu_solver(robot, [LEFT])
    whole = solver.solve(positions[:, :1], turns[:, :1])
    several = cpu_solver(robot, [LEFT], threads=3).solve(positions[:, :1], turns[:, :1])
    assert_same_bytes(whole, several)
    for p in range(0, 60, 11):
        alone = solver.solve(positions[p : p + 1, :1], turns[p : p + 1, :1])
        np.testing.assert_array_equal(alone.joint_q[0], whole.joint_q[p])


@pytest.mark.evidence
@pytest.mark.parametrize("joint", ["weld", "revolute", "helical", "universal", "distance"])
def test_joints_close_a_loop_to_the_world(joint):
    robot = bare_robot("ur5e")
    rng = np.random.default_rng(5)
    offset = np.array([0.05, 0.02, 0.1, 0.0, 0.0, 0.6, 0.8])
    place = transform_multiply(pose_of(robot, robot.random_joint_q(rng, 1), "tool0"), offset[np.newaxis])[0]
    loop = LoopConstraint("loop", joint, "tool0", None, offset, place, **LOOP_SIZES.get(joint, {}))
    closed = robot.with_loops([loop])
    starts = robot.random_joint_q(rng, 40)
    posture = IKObjectivePosture(robot.mid_joint_q, weight=1e-3)
    solver = cpu_solver(closed, objectives=[posture])
    result = solver.solve(problem_count=40, initial_joint_q=starts)
    is_open = gaps(closed, result.joint_q) > CLOSED
    assert is_open.mean() <= 0.05
    assert (result.status[is_open] == IKStatus.LOOP_OPEN).all()
    assert not result.success[is_open].any()
    assert (result.status[~is_open] != IKStatus.LOOP_OPEN).all()


def four_bar(rocker=ROCKER):
    end = (rocker, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
    loop = LoopConstraint("pin", "revolute", "coupler", "rocker", (COUPLER, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0), end)
    return load_urdf(FOUR_BAR).with_loops([loop])


@pytest.mark.evidence
def test_a_four_bar_follows_its_crank_in_both_modes():
    robot, n = four_bar(), 200
    rng = np.random.default_rng(8)
    starts = robot.random_joint_q(rng, n)
    drive = starts[:, 0]
    crank_turn = np.column_stack([np.zeros((n, 2)), np.sin(0.5 * drive), np.cos(0.5 * drive)])[:, np.newaxis]
    target = Target("crank", row_weights=[0, 0, 0, 0, 0, 1])
    result = cpu_solver(robot, [target]).solve(orientations_xyzw=crank_turn, initial_joint_q=starts)
    assert result.success.all()
    assert gaps(robot, result.joint_q).max() <= CLOSED
    # The rocker's angle in closed form: the triangle of the crank's pin, the rocker's foot and the coupler's pin.
    pin = CRANK * np.column_stack([np.cos(drive), np.sin(drive)])
    arm = pin - [GROUND, 0.0]
    reach = np.linalg.norm(arm, axis=1)
    bend = np.arccos((ROCKER**2 + reach**2 - COUPLER**2) / (2.0 * ROCKER * reach))
    middle = np.arctan2(arm[:, 1], arm[:, 0])
    swing = robot.coordinate_names.index("swing")
    off = np.stack([np.angle(np.exp(1j * (result.joint_q[:, swing] - middle - way * bend))) for way in (1, -1)])
    assert np.abs(off).min(axis=0).max() <= 1e-5
    modes = np.abs(off).argmin(axis=0)
    assert 0 < modes.sum() < n


@pytest.mark.evidence
def test_a_loop_that_cannot_close_is_said_to_be_open():
    robot = four_bar(rocker=1.5)  # longer than crank, coupler and ground together
    solver = cpu_solver(robot, objectives=[IKObjectivePosture(robot.mid_joint_q)])
    result = solver.solve(problem_count=3)
    assert result.status_names == ["loop_open"] * 3
    assert not result.success.any()
    assert (gaps(robot, result.joint_q) > 0.1).all()


@pytest.mark.evidence_cases("False")
@pytest.mark.parametrize("is_open", [False, True])
def test_a_loop_that_no_joint_moves_is_judged(is_open):
    robot = bare_robot("dual_panda")
    robot = robot.lock({name: 0.0 if name != "left_panda_joint4" else -1.0 for name in robot.joint_names[:7]})
    at = pose_of(robot, robot.mid_joint_q[None], LEFT)[0]
    at[2] += 0.01 * is_open
    held = robot.with_loops([LoopConstraint("stand", "weld", LEFT, None, reference_offset=tuple(at))])
    goal = pose_of(robot, robot.random_joint_q(np.random.default_rng(1), 5), RIGHT)
    result = cpu_solver(held, [RIGHT]).solve(goal[:, None, :3], goal[:, None, 3:])
    assert (result.success != is_open).all()
    assert set(result.status_names) == {"loop_open" if is_open else "converged"}


def test_a_robot_carries_its_loops():
    robot = four_bar()
    assert robot.content_hash != robot.with_loops([]).content_hash == load_urdf(FOUR_BAR).content_hash
    assert pickle.loads(pickle.dumps(robot)).loops == robot.loops
    assert robot.lock({"drive": 0.3}).loops == robot.loops
    assert robot.with_frame("tool", "rocker", HELD).loops == robot.loops
    assert robot.subrobot("crank").loops == ()
    both = bare_robot("dual_panda").with_loops([LoopConstraint("object", "weld", RIGHT, LEFT)])
    assert both.subrobot(both.link_names[0]).loops == both.loops


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"joint": "hinge"}, "joint is 'hinge'. Allowed: 'weld'"),
        ({"link": "hand"}, "link 'hand', which the robot does not have"),
        ({"joint": "helical"}, "joint 'helical' needs pitch"),
        ({"distance": 0.1}, "joint 'revolute' has no distance"),
        ({"offset": (0.0, 0.0, 0.0)}, "seven finite numbers"),
        ({"offset": (0.0, 0.0, np.nan, 0.0, 0.0, 0.0, 1.0)}, "seven finite numbers"),
    ],
)
def test_a_wrong_loop_is_refused(change, words):
    given = {"name": "pin", "joint": "revolute", "link": "coupler", "reference_link": "rocker"} | change
    with pytest.raises(InputError, match=words):
        load_urdf(FOUR_BAR).with_loops([LoopConstraint(**given)])


def test_names_of_loops_are_different():
    loop = LoopConstraint("pin", "revolute", "coupler", "rocker")
    with pytest.raises(InputError, match="Two loops have the name 'pin'"):
        load_urdf(FOUR_BAR).with_loops([loop, loop])
