"""Loops that a robot closes: held by every answer, whatever targets and objectives ask for, or said to be open."""

import pickle

import numpy as np
import pytest

from ik_service import IKStatus, Target
from ik_service.mechanism.transforms import transform_inverse, transform_multiply
from ik_service.robots import LoopConstraint, load_urdf
from objectives import IKObjectivePosture, InputError
from tests.objectives.loop_rows import LOOP_ROWS, matrix_of
from tests.solver.conftest import EACH_ENGINE, Reachable, assert_same_bytes, bare_robot, cpu_solver, pose_of
from tests.solver.quick_objective import QuickObjective

CLOSED = 1e-6  # [m and rad]
CLOSED_FLOAT64 = 1e-10
DIFFER_MOST = 0.002  # share of the problems that one engine alone solves
ENGINES = ("compiled", "staged")
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


def two_hands(count, seed=3, **options):
    """Two arms that hold one object, and poses of both hands at random configurations in which they do."""
    arms = bare_robot("dual_panda")
    starts, n = arms.random_joint_q(np.random.default_rng(seed), count), (count, 1, 1)
    hand = cpu_solver(arms, [Target(RIGHT, reference_link=LEFT)])
    held = hand.solve(np.tile(HELD[:3], n), np.tile(HELD[3:], n), initial_joint_q=starts, options=options)
    assert held.success.mean() > 0.95
    joint_q = held.joint_q[held.success]
    robot = arms.with_loops([LoopConstraint("object", "weld", RIGHT, LEFT, reference_offset=HELD)])
    return Reachable(robot, [LEFT, RIGHT], joint_q, *arms.forward_kinematics(joint_q, [LEFT, RIGHT]))


@pytest.fixture(scope="module")
def holding():
    return two_hands(200)


@pytest.mark.evidence
@pytest.mark.parametrize("links", [[LEFT, RIGHT], [LEFT]])
def test_both_engines_close_a_loop_and_succeed_alike(holding, links):
    positions, turns = (values[:, : len(links)] for values in holding.targets)
    results = []
    for engine in ENGINES:
        solver = cpu_solver(holding.robot, links, engine=engine)
        results.append(result := solver.solve(positions, turns, options={"seeds": 256}))
        assert len(solver.islands().islands) == 1  # the loop joins the arms
        assert gaps(holding.robot, result.joint_q).max() <= CLOSED
        poses = holding.robot.forward_kinematics(result.joint_q, links)
        assert (np.linalg.norm(poses.positions - positions, axis=2)[result.success] <= 1e-3).all()
        assert result.success.mean() >= 0.99
    assert (results[0].success != results[1].success).mean() <= DIFFER_MOST
    assert gaps(holding.robot, results[1].joint_q).max() <= CLOSED_FLOAT64  # loops are closed by themselves, at last


def test_one_target_moves_both_arms_with_the_bytes_of_each_problem_alone_on_any_number_of_threads(holding, small_parts):
    positions, turns = (values[:60, :1] for values in holding.targets)
    solver = cpu_solver(holding.robot, [LEFT])
    whole = solver.solve(positions, turns)
    assert gaps(holding.robot, whole.joint_q).max() <= CLOSED
    assert whole.success.mean() >= 0.95
    assert_same_bytes(whole, cpu_solver(holding.robot, [LEFT], threads=3).solve(positions, turns))
    for p in range(0, 60, 11):
        alone = solver.solve(positions[p : p + 1], turns[p : p + 1])
        np.testing.assert_array_equal(alone.joint_q[0], whole.joint_q[p])


@pytest.mark.evidence
def test_a_loop_stays_closed_where_targets_pull_it_apart(holding):
    hands, missed = holding.part(slice(30)), []
    apart = hands.positions + np.array([[0.0, 0.0, 0.0], [0.2, 0.0, 0.0]])
    for engine in ENGINES:
        solver = cpu_solver(hands.robot, hands.links, engine=engine)
        result = solver.solve(apart, hands.orientations_xyzw, options={"seeds": 32})
        assert not result.success.any()
        assert gaps(hands.robot, result.joint_q).max() <= (CLOSED_FLOAT64 if engine == "compiled" else CLOSED)
        at_minimum = np.isin(result.status, [IKStatus.STALLED, IKStatus.BLOCKED_BY_LIMITS])
        assert at_minimum.mean() >= 0.75 or engine == "staged"  # and not out of iterations
        pulled = np.linalg.norm(hands.robot.forward_kinematics(result.joint_q, hands.links).positions - apart, axis=2)
        assert (pulled.sum(axis=1) >= 0.1).all()
        assert np.median(pulled.max(axis=1)) <= 0.15
        missed.append((result.position_error**2 + result.orientation_error**2).sum(axis=1))
    assert np.median(missed[1] / missed[0]) <= 1.02  # the same distance, summed squares within 2 %


@pytest.mark.evidence_cases("compiled-2")
@pytest.mark.parametrize(("engine", "count"), [("compiled", 2), ("staged", 1)])
def test_a_posture_costs_neither_loop_nor_targets(holding, engine, count):
    robot, links = holding.robot, holding.links[:count]
    given = [values[:60, :count] for values in holding.targets]
    posture = IKObjectivePosture(robot.mid_joint_q, weight=0.3)
    result, without = (
        cpu_solver(robot, links, objectives=objectives, engine=engine).solve(*given) for objectives in ([posture], [])
    )
    assert gaps(robot, result.joint_q).max() <= CLOSED
    assert result.success.mean() >= (0.95 if engine == "compiled" else 0.9)
    both = result.success & without.success
    near, far = (np.linalg.norm(one.joint_q[both] - robot.mid_joint_q, axis=1).mean() for one in (result, without))
    assert near < far


class OnDevice(QuickObjective):
    """Its points are on the device of the solver."""

    def init_buffers(self, model, jacobian_mode):
        super().init_buffers(model, jacobian_mode)
        self.points = self.points.to(self.device)


def test_loops_are_closed_beside_objectives_of_any_kind(holding):
    robot, n = holding.robot, 20
    body = robot.link_frame(LEFT)[0]
    points = robot.body_poses(holding.joint_q[:n])[:, body, :3]
    solver = cpu_solver(robot, objectives=[OnDevice(body, points)])
    assert solver.engine == "staged"
    result = solver.solve(problem_count=n)
    assert gaps(robot, result.joint_q).max() <= CLOSED
    assert np.linalg.norm(robot.body_poses(result.joint_q)[:, body, :3] - points, axis=1).max() <= 1e-4


def four_bar(rocker=ROCKER):
    end = (rocker, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
    loop = LoopConstraint("pin", "revolute", "coupler", "rocker", (COUPLER, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0), end)
    return load_urdf(FOUR_BAR).with_loops([loop])


@pytest.mark.evidence_cases("compiled-False")
@pytest.mark.parametrize("is_open", [False, True])
@EACH_ENGINE
def test_a_loop_that_no_joint_moves_is_judged(dual_panda, engine, is_open):
    robot = dual_panda.lock({name: 0.0 if name != "left_panda_joint4" else -1.0 for name in dual_panda.joint_names[:7]})
    at = pose_of(robot, robot.mid_joint_q[None], LEFT)[0]
    at[2] += 0.01 * is_open
    held = robot.with_loops([LoopConstraint("stand", "weld", LEFT, None, reference_offset=tuple(at))])
    goal = pose_of(robot, robot.random_joint_q(np.random.default_rng(1), 5), RIGHT)
    result = cpu_solver(held, [RIGHT], engine=engine).solve(goal[:, None, :3], goal[:, None, 3:])
    assert (result.success != is_open).all()
    assert set(result.status_names) == {"loop_open" if is_open else "converged"}


def test_a_robot_carries_its_loops(dual_panda):
    robot = four_bar()
    assert robot.content_hash != robot.with_loops([]).content_hash == load_urdf(FOUR_BAR).content_hash
    assert pickle.loads(pickle.dumps(robot)).loops == robot.loops
    assert robot.lock({"drive": 0.3}).loops == robot.loops
    assert robot.with_frame("tool", "rocker", HELD).loops == robot.loops
    assert robot.subrobot("crank").loops == ()
    both = dual_panda.with_loops([LoopConstraint("object", "weld", RIGHT, LEFT)])
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
        ({}, "Two loops have the name 'pin'"),
    ],
)
def test_a_wrong_loop_is_refused(change, words):
    given = {"name": "pin", "joint": "revolute", "link": "coupler", "reference_link": "rocker"} | change
    with pytest.raises(InputError, match=words):
        load_urdf(FOUR_BAR).with_loops([LoopConstraint(**given)] * (1 if change else 2))
