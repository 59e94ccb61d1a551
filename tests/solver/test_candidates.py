"""The best of many candidates, beside a solve of each of them and the host's float64 kinematics."""

import numpy as np
import pytest

from ik_service import IKStatus, SolverOptions, Target
from ik_service.robots import Box, World, load_urdf
from ik_service.solver.candidate_values import largest_change
from ik_service.solver.candidates import BLOCKED, FATES, NOT_NEEDED, PROVEN_BLOCKED, PROVEN_UNREACHABLE, SOLVED
from objectives import IKObjectivePosition, InputError
from tests.solver.conftest import ORIENTATION, POSITION, Reachable, bare_robot, cpu_solver
from tests.solver.test_collision import HAND, WORLD, panda_with_spheres

GROUPS, EACH = 5, 40
FAR_AWAY = np.array([0.0, 0.0, 2.0])  # [m], added to a target: out of reach
CRITERIA = ("nearest", "clearance", "manipulability", "limit_margin")


@pytest.fixture(scope="module")
def panda():
    return panda_with_spheres()


@pytest.fixture(scope="module")
def solver(panda):
    return cpu_solver(panda, [HAND])


@pytest.fixture(scope="module")
def poses(panda):
    """Targets of candidates, a fifth out of reach, and their groups."""
    drawn = Reachable.draw(panda, [HAND], GROUPS * EACH)
    positions = drawn.positions[:, 0].copy()
    positions[::5] += FAR_AWAY
    return positions, drawn.orientations_xyzw[:, 0], np.repeat(np.arange(GROUPS), EACH)


@pytest.fixture(scope="module")
def start(panda):
    return panda.mid_joint_q


def chosen(solver, poses, start, **given):
    positions, orientations, group = poses
    return solver.solve_any(positions, orientations, group=group, initial_joint_q=start, world=WORLD, **given)


def of_each(solver, poses, start, criterion):
    """The value of each candidate by many seeds, infinity without success."""
    best_of = criterion if criterion in ("nearest", "clearance") else None
    options = {"seeds": 64, "best_of": best_of} if best_of else {"seeds": 64, "solutions": 16}
    found = solver.solve(*poses[:2], initial_joint_q=start, world=WORLD, options=options)
    if criterion == "nearest":
        value = largest_change(solver.robot, start, found.joint_q)
    elif criterion == "clearance":
        value = -found.clearance
    else:
        several = found.solutions.astype(np.float64)
        value = np.full(several.shape[:2], np.inf)
        there = np.isfinite(several).all(axis=2)
        value[there] = -measured(solver.robot, several[there], criterion)
        value = value.min(axis=1)
    return np.where(found.success, value, np.inf)


def measured(robot, joint_q, criterion):
    if criterion == "manipulability":
        return robot.manipulability(joint_q, HAND)
    room = np.minimum(joint_q - robot.joint_limit_lower, robot.joint_limit_upper - joint_q)
    return room.min(axis=1)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_no_candidate_is_better_than_the_chosen_one(solver, poses, start, criterion):
    robot = solver.robot
    found = chosen(solver, poses, start, criterion=criterion)
    assert found.success.all()
    each = of_each(solver, poses, start, criterion).reshape(GROUPS, EACH).min(axis=1)
    assert (found.value <= each + 0.02 * np.abs(each)).all()
    # the value and the answer are as told
    joint_q = found.joint_q.astype(np.float64)
    if criterion == "clearance":
        own = -robot.collision(joint_q, WORLD).clearance
    elif criterion == "nearest":
        own = np.abs(joint_q - start).max(axis=1)
    else:
        own = -measured(robot, joint_q, criterion)
    np.testing.assert_allclose(found.value, own, atol=1e-6)
    drawn = Reachable(robot, [HAND], joint_q, *(one[found.candidate][:, None] for one in poses[:2]))
    position, orientation = drawn.errors(joint_q)
    assert (position <= POSITION).all()
    assert (orientation <= ORIENTATION).all()
    assert robot.collision(joint_q, WORLD).is_free.all()


@pytest.mark.parametrize("criterion", ["first", *CRITERIA])
def test_answers_depend_neither_on_order_nor_on_other_groups_nor_on_threads(panda, solver, poses, start, criterion):
    given = {"criterion": criterion, "cost": np.random.default_rng(1).uniform(0.0, 0.5, GROUPS * EACH)}
    found = chosen(solver, poses, start, **given)
    order = np.random.default_rng(2).permutation(GROUPS * EACH)
    mixed = [one[order] for one in poses]
    threads = cpu_solver(panda, [HAND], threads=3)
    other = chosen(threads, mixed, start, criterion=criterion, cost=given["cost"][order])
    np.testing.assert_array_equal(order[other.candidate], found.candidate)
    for name in ("joint_q", "value", "counts", "status"):
        assert getattr(other, name).tobytes() == getattr(found, name).tobytes()
    own = slice(2 * EACH, 3 * EACH)
    alone = chosen(solver, [poses[0][own], poses[1][own], None], start, criterion=criterion, cost=given["cost"][own])
    assert alone.joint_q.tobytes() == found.joint_q[2:3].tobytes()
    assert alone.candidate[0] + 2 * EACH == found.candidate[2]


def test_the_first_is_the_first_that_one_seed_solves(solver, poses, start):
    each = solver.solve(*poses[:2], initial_joint_q=start, world=WORLD, options={"seeds": 1})
    found = chosen(solver, poses, start)
    first = np.arange(GROUPS) * EACH + each.success.reshape(GROUPS, EACH).argmax(axis=1)
    np.testing.assert_array_equal(found.candidate, first)
    assert found.joint_q.tobytes() == each.joint_q[first].tobytes()
    assert (found.value == 0.0).all()
    assert (found.counts[:, NOT_NEEDED] > 0).all()


def test_the_least_cost_that_succeeds_wins(solver, poses, start):
    cost = np.random.default_rng(3).uniform(-1.0, 1.0, GROUPS * EACH)
    solvable = solver.solve(*poses[:2], initial_joint_q=start, world=WORLD).success
    found = chosen(solver, poses, start, cost=cost)
    least = np.where(solvable, cost, np.inf).reshape(GROUPS, EACH)
    np.testing.assert_array_equal(found.candidate, np.arange(GROUPS) * EACH + least.argmin(axis=1))
    np.testing.assert_array_equal(found.value, least.min(axis=1))


def test_fates_count_every_candidate(solver, poses, start):
    found = chosen(solver, poses, start, criterion="limit_margin")
    each = solver.solve(*poses[:2], initial_joint_q=start, world=WORLD)
    assert len(FATES) == found.counts.shape[1]
    counted = np.bincount(poses[2] * len(FATES) + found.fate, minlength=found.counts.size)
    assert counted.reshape(found.counts.shape).tolist() == found.counts.tolist()
    assert (found.counts.sum(axis=1) == EACH).all()
    far = (np.arange(GROUPS * EACH) % 5 == 0).reshape(GROUPS, EACH).sum(axis=1)
    assert (found.counts[:, PROVEN_UNREACHABLE] >= far).all()
    assert found.counts[:, SOLVED].sum() <= each.success.sum()
    assert found.counts[:, NOT_NEEDED].sum() == 0


def test_groups_without_answer_say_why(solver, poses, start):
    positions, orientations, group = poses
    block = World({"block": Box((4.0, 4.0, 4.0))})
    lifted = positions.copy()
    lifted[group == 1] += FAR_AWAY
    given = {"group": group, "group_count": GROUPS + 2, "initial_joint_q": start}
    found = solver.solve_any(lifted, orientations, **given)
    assert found.status_names == ["converged", "unreachable", *["converged"] * 3, *["no_candidate"] * 2]
    np.testing.assert_array_equal(found.candidate[[1, 5, 6]], -1)
    assert np.isnan(found.joint_q[[1, 5, 6]]).all()
    assert np.isnan(found.value[[1, 5, 6]]).all()
    assert found.counts[1].tolist() == [EACH, 0, 0, 0, 0, 0]
    blocked = solver.solve_any(lifted, orientations, world=block, **given)
    assert (blocked.candidate == -1).all()
    assert (blocked.status[[0, 2, 3, 4]] == IKStatus.BLOCKED_BY_COLLISION).all()
    assert (blocked.counts[:, PROVEN_BLOCKED] > 0).any()
    assert blocked.counts[:, [BLOCKED, SOLVED]].sum() == blocked.counts[:, BLOCKED].sum()


def test_the_second_pose_is_reached_from_the_answer(solver, poses, start):
    positions, orientations, group = poses
    before, most = positions + np.array([0.0, 0.0, 0.05]), 0.8
    before[group == 3] += FAR_AWAY
    found = chosen(solver, poses, start, criterion="nearest", via=(before, orientations, most))
    assert found.candidate[3] == -1
    assert found.status_names[3] == "blocked_by_limits"  # by the largest change from the answer
    there = np.flatnonzero(found.success)
    assert len(there) == GROUPS - 1
    second, own = found.via_joint_q[there].astype(np.float64), found.candidate[there]
    assert np.abs(second - found.joint_q[there]).max() <= most + 1e-6
    drawn = Reachable(solver.robot, [HAND], second, before[own][:, None], orientations[own][:, None])
    assert drawn.errors(second)[0].max() <= POSITION
    assert solver.robot.collision(second, WORLD).is_free.all()
    without = chosen(solver, poses, start, criterion="nearest")
    assert (found.value[there] >= without.value[there]).all()


def test_a_group_that_is_good_enough_is_done(solver, poses, start):
    best = chosen(solver, poses, start, criterion="nearest")
    enough = float(best.value.max()) * 1.5
    found = chosen(solver, poses, start, criterion="nearest", good_enough=enough)
    assert (found.value <= enough).all()
    assert found.counts[:, NOT_NEEDED].sum() > best.counts[:, NOT_NEEDED].sum()


def test_tools_and_limits_are_of_each_candidate(start):
    robot = bare_robot("panda")
    drawn = Reachable.draw(robot, [HAND], EACH)
    tools = np.tile([0.0, 0.0, 0.1, 0.0, 0.0, 0.0, 1.0], (EACH, 1))
    tools[:, 2] += np.linspace(0.0, 0.1, EACH)
    solver = cpu_solver(robot, [Target(HAND, offset=tools)])
    positions, orientations = drawn.positions[:, 0], drawn.orientations_xyzw[:, 0]
    group, most = np.arange(EACH) % 2, np.where(np.arange(EACH) % 2, 3.0, 2.2)
    given = {"initial_joint_q": start, "max_change": np.repeat(most[:, None], 7, axis=1)}
    found = solver.solve_any(positions, orientations, group=group, criterion="nearest", **given)
    assert found.success.all()
    each = solver.solve(positions, orientations, options={"seeds": 64, "best_of": "nearest"}, **given)
    value = np.where(each.success, largest_change(robot, start, each.joint_q), np.inf)
    for k in range(2):
        assert found.candidate[k] % 2 == k
        assert found.value[k] <= 1.02 * value[group == k].min()
        assert found.value[k] <= most[k]


def test_two_arms_choose_together():
    robot, links = bare_robot("dual_panda"), ["left_panda_hand", "right_panda_hand"]
    drawn = Reachable.draw(robot, links, 12)
    solver = cpu_solver(robot, links)
    found = solver.solve_any(drawn.positions, drawn.orientations_xyzw, criterion="manipulability")
    own = [robot.manipulability(found.joint_q, link)[0] for link in links]
    assert found.value[0] == pytest.approx(-min(own), rel=1e-6)
    errors = Reachable(
        robot, links, found.joint_q, drawn.positions[found.candidate], drawn.orientations_xyzw[found.candidate]
    )
    assert errors.errors(found.joint_q.astype(np.float64))[0].max() <= POSITION


def test_second_poses_are_judged_where_answers_leave_the_limits(panda):
    robot = bare_robot("panda")
    solver = cpu_solver(robot, [HAND], options=SolverOptions(joint_limits="off"))
    drawn, most = Reachable.draw(robot, [HAND], 60), 0.2
    positions, orientations = drawn.positions[:, 0], drawn.orientations_xyzw[:, 0]
    second = positions + np.array([0.0, 0.0, 0.02])
    found = solver.solve_any(positions, orientations, group=np.arange(60) // 2, via=(second, orientations, most))
    there = np.flatnonzero(found.success)
    assert len(there) > 5
    assert np.abs(found.via_joint_q[there] - found.joint_q[there]).max() <= most + 1e-5
    own = found.candidate[there]
    judged = Reachable(robot, [HAND], found.via_joint_q, second[own][:, None], orientations[own][:, None])
    assert judged.errors(found.via_joint_q[there].astype(np.float64))[0].max() <= POSITION


def test_a_floating_base_turns_no_further_than_allowed():
    robot = bare_robot("humanoid")
    pose = np.array([[0.0, 0.0, 0.9]])
    turned = np.array([[0.0, 0.0, np.sin(0.7), np.cos(0.7)]])
    solver = cpu_solver(robot, ["pelvis"])
    level = np.array([[0.0, 0.0, 0.0, 1.0]])
    assert solver.solve_any(pose, level, via=(pose, turned, 2.0)).success.all()
    found = solver.solve_any(pose, level, via=(pose, turned, 0.1))
    assert found.status_names == ["blocked_by_limits"]


def test_manipulability_counts_the_rows_that_a_target_has():
    robot = bare_robot("panda")
    drawn = Reachable.draw(robot, [HAND], 20)
    solver = cpu_solver(robot, [Target(HAND, row_weights=(1.0, 1.0, 1.0, 0.0, 0.0, 0.0))])
    positions, orientations = drawn.positions[:, 0], drawn.orientations_xyzw[:, 0]
    found = solver.solve_any(positions, orientations, criterion="manipulability")
    assert found.value[0] == pytest.approx(-robot.manipulability(found.joint_q, HAND, "position")[0], rel=1e-6)


def test_joints_beside_the_way_to_a_target_stay_and_do_not_count():
    robot = bare_robot("panda_gripper")
    start = robot.complete_joint_q(np.where(np.arange(robot.joint_coord_count) < 7, robot.mid_joint_q, 0.04))[0]
    drawn = Reachable.draw(robot, [HAND], 30)
    solver = cpu_solver(robot, [HAND])
    given = drawn.positions[:, 0], drawn.orientations_xyzw[:, 0]
    found = solver.solve_any(*given, criterion="limit_margin", initial_joint_q=start)
    np.testing.assert_array_equal(found.joint_q[0, 7:], start[7:].astype(np.float32))
    room = np.minimum(found.joint_q[0] - robot.joint_limit_lower, robot.joint_limit_upper - found.joint_q[0])
    assert found.value[0] == pytest.approx(-room[:7].min(), abs=1e-6)
    assert found.value[0] < -0.1


def test_mimic_joints_count_as_joints():
    robot = load_urdf(MIMIC)
    solver = cpu_solver(robot, ["tip"], options=SolverOptions(collision="off"))
    angles = np.linspace(0.1, 0.5, 20)
    positions = robot.forward_kinematics(np.column_stack([angles, 3.0 * angles]), ["tip"]).positions[:, 0]
    group, start = np.arange(20), np.zeros(2)
    found = solver.solve_any(positions, group=group, criterion="nearest", initial_joint_q=start)
    np.testing.assert_allclose(found.value, 3.0 * angles, atol=1e-2)
    second = np.roll(positions, -1, axis=0)
    via = solver.solve_any(positions, group=group, initial_joint_q=start, via=(second, None, 0.05))
    step = np.abs(via.via_joint_q - via.joint_q)[via.success]
    assert (step <= 0.05 + 1e-5).all()
    assert not via.success[:-1].all()


MIMIC = """
<robot name="mimic"><link name="base"/><link name="upper"/><link name="fore"/><link name="tip"/>
  <joint name="lead" type="revolute"><parent link="base"/><child link="upper"/><axis xyz="0 0 1"/>
    <limit lower="-1" upper="1" effort="1" velocity="1"/></joint>
  <joint name="follow" type="revolute"><parent link="upper"/><child link="fore"/><origin xyz="1 0 0"/>
    <axis xyz="0 0 1"/><mimic joint="lead" multiplier="3"/><limit lower="-3.1" upper="3.1" effort="1" velocity="1"/>
  </joint>
  <joint name="mount" type="fixed"><parent link="fore"/><child link="tip"/><origin xyz="1 0 0"/></joint>
</robot>
"""


def test_the_staged_engine_takes_the_first(start):
    robot = bare_robot("panda")
    drawn = Reachable.draw(robot, [HAND], 4)
    solver = cpu_solver(robot, [HAND], engine="staged")
    given = drawn.positions[:, 0], drawn.orientations_xyzw[:, 0]
    assert solver.solve_any(*given).success.all()
    with pytest.raises(InputError, match="needs the compiled engine"):
        solver.solve_any(*given, criterion="nearest", initial_joint_q=start)


REFUSED = [
    ({"group": [0.0] * 4}, "group is float64 of shape [4]. Allowed: [4] whole numbers"),
    ({"group": [0, 1, -1, 0]}, "group[2] is -1. Allowed: whole numbers from 0"),
    ({"group": [0, 1]}, "group is int64 of shape [2]"),
    ({"group": [0, 1, 2, 0], "group_count": 2}, "group[2] is 2. Allowed: whole numbers from 0 to 1."),
    ({"group_count": 0}, "group_count is 0. Allowed: a whole number from 1"),
    ({"cost": [0.0, np.nan, 0.0, 0.0]}, "cost[1] is nan"),
    ({"cost": [0.0]}, "cost has shape [1]. Allowed: [4]"),
    ({"criterion": "best"}, "criterion is 'best'. Allowed: 'first', 'nearest'"),
    ({"criterion": "nearest"}, "criterion='nearest' needs initial_joint_q"),
    ({"criterion": "clearance"}, "criterion='clearance' needs a check for collision"),
    ({"via": (np.zeros((3, 3)), None, 1.0)}, "via has 3 poses for 4 candidates"),
    ({"via": (np.zeros((4, 3)), None)}, "via must be (positions, orientations_xyzw, max_change)"),
    ({"via": (np.zeros((4, 3)), None, 0.0)}, "max_change of via is 0.0. Allowed: a number above 0"),
    ({"via": (np.full((4, 3), np.nan), None, 1.0)}, "nan"),
    ({"good_enough": [1.0, 2.0]}, "good_enough is [1.0, 2.0]. Allowed: one number"),
]


@pytest.mark.parametrize(("given", "message"), REFUSED, ids=[message[:24] for _, message in REFUSED])
def test_bad_arguments_are_refused(given, message):
    solver = cpu_solver(bare_robot("panda"), [HAND])
    with pytest.raises(InputError) as caught:
        solver.solve_any(np.zeros((4, 3)), **given)
    assert message in str(caught.value)


def test_faulty_targets_and_data_for_every_problem_are_refused(solver, start):
    positions = np.full((4, 3), 0.3)
    positions[2, 1] = np.inf
    with pytest.raises(InputError, match="inf"):
        solver.solve_any(positions, initial_joint_q=start)
    rows = IKObjectivePosition(HAND, np.zeros((4, 3)))
    with pytest.raises(InputError, match="data per problem"):
        cpu_solver(bare_robot("panda"), [HAND], objectives=[rows]).solve_any(np.full((4, 3), 0.3))


def test_answers_of_double_precision_are_float64(solver, poses, start):
    found = chosen(solver, poses, start, options={"precision": "float64", "seeds": 16})
    assert found.joint_q.dtype == np.float64
