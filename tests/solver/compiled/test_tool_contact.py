"""Targets at which what is rigid to their link touches an object: proven blocked, and never one that can be met."""

import numpy as np
import pytest

from ik_service import Target, load_robot
from ik_service.robots import AttachedObject, Box, DistanceGrid, Sphere, World
from ik_service.solver.lm.status import IKStatus
from tests.solver.conftest import cpu_solver

COUNT = 400
PROOF = 4
WORLD = World(
    {
        "table": Box((0.7, 1.2, 0.1), (0.7, 0, 0.15, 0, 0, 0, 1)),
        "shelf": Box((0.3, 1.0, 0.05), (0.6, 0, 0.6, 0, 0, 0, 1)),
        "ball": Sphere(0.1, (0.5, 0.2, 0.4)),
    }
)


@pytest.fixture(scope="module")
def panda():
    return load_robot("panda")


def drawn(random_seed, count=COUNT):
    """Poses around the objects, any orientation."""
    rng = np.random.default_rng(random_seed)
    orientations_xyzw = rng.normal(size=(count, 4))
    orientations_xyzw /= np.linalg.norm(orientations_xyzw, axis=1, keepdims=True)
    return rng.uniform([0.3, -0.4, 0.15], [0.8, 0.4, 0.75], (count, 3)), orientations_xyzw


@pytest.mark.parametrize("margin", [0.0, 0.05])
def test_no_target_that_many_seeds_meet_is_proven_blocked(panda, margin):
    solver, targets = cpu_solver(panda, ["panda_hand"]), drawn(1)
    result = solver.solve(*targets, world=WORLD, options={"margin": margin})
    blocked = result.proof == PROOF
    assert blocked.mean() > 0.05
    assert (result.status[blocked] == IKStatus.BLOCKED_BY_COLLISION).all()
    every = solver.solve(*targets, world=WORLD, options={"margin": margin, "best_of": "cost", "seeds": 64})
    assert not every.success[blocked].any()
    assert (every.success == result.success).mean() > 0.98


def test_targets_just_free_of_contact_are_not_proven_blocked(panda):
    solver, rng = cpu_solver(panda, ["panda_hand"]), np.random.default_rng(2)
    found = solver.solve(*drawn(3), world=WORLD)
    near = found.success & (found.clearance < 0.01)
    assert near.sum() > 5
    poses = panda.forward_kinematics(found.joint_q[near], ["panda_hand"])
    shift = rng.normal(size=(near.sum(), 3))
    positions = poses.positions[:, 0] + 0.9e-3 * shift / np.linalg.norm(shift, axis=1, keepdims=True)
    assert not solver.solve(positions, poses.orientations_xyzw[:, 0], world=WORLD).proof.any()


def test_attached_objects_and_tools_are_rigid_to_the_link(panda):
    targets = drawn(4)
    stick = AttachedObject("panda_hand", [(0.0, 0.0, 0.3, 0.05)], touches=["ball"])
    solver = cpu_solver(panda, [Target("panda_hand", offset=[0, 0, 0.1, 0, 0, 0, 1])])
    without = solver.solve(*targets, world=WORLD).proof == PROOF
    every = {"best_of": "cost", "seeds": 64}
    carried = solver.solve(*targets, world=WORLD, attached={"stick": stick})
    blocked = carried.proof == PROOF
    assert blocked.sum() > without.sum() > 0
    assert not solver.solve(*targets, world=WORLD, attached={"stick": stick}, options=every).success[blocked].any()
    assert not carried.success[blocked].any()


def test_two_arms_are_proven_blocked_each_for_itself():
    robot, links = load_robot("dual_panda"), ["left_panda_hand", "right_panda_hand"]
    solver, rng = cpu_solver(robot, links), np.random.default_rng(5)
    joint_q = robot.random_free_joint_q(rng, 50)
    poses = robot.forward_kinematics(joint_q, links)
    ball = World({"ball": Sphere(0.2, tuple(poses.positions[0, 0]))})
    result = solver.solve(poses.positions, poses.orientations_xyzw, world=ball)
    assert (result.proof[0], result.status[0]) == (PROOF, IKStatus.BLOCKED_BY_COLLISION)
    assert not result.success[result.proof == PROOF].any()
    assert (result.proof[result.success] == 0).all()


def test_a_distance_grid_changes_nothing_for_other_problems_and_proves_nothing(panda):
    values = np.linalg.norm(np.stack(np.meshgrid(*[np.linspace(-0.2, 0.2, 9)] * 3, indexing="ij")), axis=0) - 0.15
    grid = World({"grid": DistanceGrid(values.astype(np.float32), 0.05, (0.5, 0.0, 0.5, 0, 0, 0, 1))})
    solver, targets = cpu_solver(panda, ["panda_hand"]), drawn(6)
    alone = solver.solve(*targets, world=WORLD)
    index = np.zeros(2 * COUNT, np.int32)
    index[COUNT:] = 1
    twice = [np.concatenate([one, one]) for one in targets]
    both = solver.solve(*twice, world=[WORLD, grid], world_index=index)
    assert both.joint_q[:COUNT].tobytes() == alone.joint_q.tobytes()
    np.testing.assert_array_equal(both.proof[:COUNT], alone.proof)
    assert (alone.proof == PROOF).any()
    assert not (both.proof[COUNT:] == PROOF).any()
