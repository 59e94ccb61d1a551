"""Solves with objects that links carry, judged by the host's float64 check."""

from dataclasses import replace

import numpy as np
import pytest

from ik_service import IKStatus, load_robot
from ik_service.collision.distance_grid import DistanceGrid
from ik_service.robots import AttachedObject, Box, CollisionModel, World
from objectives import InputError
from tests.solver.conftest import bare_robot, cpu_solver, use_engine
from tests.solver.test_collision import HAND, SPHERES, WORLD, free_targets, judged, panda_with_spheres

ROD = AttachedObject(HAND, [[0.0, 0.0, 0.1 + 0.04 * k, 0.03] for k in range(6)])
BAG = AttachedObject(
    "panda_link4", [[0.12 + 0.06 * k, 0.15, 0.0, 0.05] for k in range(3)], ["panda_link3", "panda_link5"]
)
PLATE = AttachedObject(HAND, [[x, y, 0.13, 0.03] for x in (-0.1, 0.0, 0.1) for y in (-0.1, 0.0, 0.1)])


@pytest.fixture(scope="module")
def panda():
    return panda_with_spheres()


@pytest.fixture(scope="module")
def solver(panda):
    return cpu_solver(panda, [HAND])


@pytest.mark.parametrize("engine", ["auto", "staged", "threads"])
def test_what_links_carry_keeps_off_the_arm_and_the_world(panda, engine, monkeypatch):
    use_engine(engine, monkeypatch)
    count, held = 40 if engine == "staged" else 300, {"rod": ROD, "bag": BAG}
    solver, targets = cpu_solver(panda, [HAND]), free_targets(panda, count, WORLD, 3, held)
    empty = solver.solve(*targets, world=WORLD)
    assert not panda.collision(empty.joint_q.astype(float), WORLD, attached=held).is_free.all()
    result = solver.solve(*targets, world=WORLD, attached=held)
    check = judged(panda, result, WORLD, attached=held)
    assert result.success.mean() >= 0.97
    assert {"rod", "bag"} <= {name for pair in check.closest_pairs for name in pair}
    clear = panda.collision(empty.joint_q.astype(float), WORLD, attached=held).clearance > 1e-4
    np.testing.assert_array_equal(result.joint_q[clear & empty.success], empty.joint_q[clear & empty.success])


def test_what_it_may_touch_is_not_looked_at(panda, solver):
    """A plate is put down on a table, which it may touch and the hand may not."""
    table = World({"table": Box((2.0, 2.0, 0.1), (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0))})
    position, down = np.array([[0.45, 0.1, 0.05 + 0.13]]), np.array([[1.0, 0.0, 0.0, 0.0]])
    result = solver.solve(position, down, world=table, attached={"plate": PLATE})
    assert result.status[0] == IKStatus.BLOCKED_BY_COLLISION
    assert result.clearance[0] == pytest.approx(-0.03, abs=2e-3)
    on_it = AttachedObject(HAND, PLATE.spheres, ["table"])
    result = solver.solve(position, down, world=table, attached={"plate": on_it})
    assert result.success[0]
    judged(panda, result, table, attached={"plate": on_it})
    lower = solver.solve(position - [0.0, 0.0, 0.12], down, world=table, attached={"plate": on_it})
    assert not lower.success[0]  # the hand
    other = World({**table.objects, "book": Box((0.3, 0.3, 0.02), (0.45, 0.1, 0.06, 0.0, 0.0, 0.0, 1.0))})
    assert not solver.solve(position, down, world=other, attached={"plate": on_it}).success[0]


def test_worlds_differ_in_what_may_be_touched_by_name(panda, solver):
    boxes = [Box((2.0, 2.0, 0.1), (0.0, 0.0, z, 0.0, 0.0, 0.0, 1.0)) for z in (0.0, -0.5)]
    worlds = [World({"shelf": boxes[1], "table": boxes[0]}), World({"table": boxes[1], "shelf": boxes[0]})]
    held = {"plate": AttachedObject(HAND, PLATE.spheres, ["table"])}
    given = [[0.45, 0.1, 0.05 + 0.13]] * 2, [[1.0, 0.0, 0.0, 0.0]] * 2
    assert solver.solve(*given, world=worlds, world_index=[0, 1], attached=held).success.tolist() == [True, False]


def test_changing_what_is_attached_compiles_nothing(panda, solver, monkeypatch):
    held = [{}, {"rod": ROD}, {"plate": PLATE, "rod": ROD}, {"plate": PLATE}]
    targets = free_targets(panda, 20, WORLD, 3, held[2])
    expected = [cpu_solver(panda, [HAND]).solve(*targets, world=WORLD, attached=one) for one in held]
    solver.solve(*targets, world=WORLD)
    monkeypatch.setattr(solver._core.engine.kernels.launches, "kernel", None)  # what makes and compiles kernels
    for k in (1, 2, 1, 3, 0, 2, 2, 0):
        result = solver.solve(*targets, world=WORLD, attached=held[k])
        assert result.joint_q.tobytes() == expected[k].joint_q.tobytes(), k
        assert result.clearance.tobytes() == expected[k].clearance.tobytes(), k


def test_most_that_can_be_attached_has_room(panda, solver):
    held = {f"rod {k}": AttachedObject(HAND, [[0.0, 0.0, 0.1 + 0.01 * i, 0.02] for i in range(16)]) for k in range(4)}
    judged(panda, solver.solve(*free_targets(panda, 20, None, 3, held), attached=held), attached=held)
    counts = {f"panda_link{k + 4}": 1 + 20 * (k == 0) for k in range(4)}
    odd = {f"on {link}": AttachedObject(link, [[0.0, 0.0, 0.0, 0.01]] * n) for link, n in counts.items()}
    judged(panda, solver.solve(*free_targets(panda, 20, None, 3, {"rod": ROD}), attached=odd), attached=odd)


def test_arms_keep_off_what_the_other_carries():
    robot = load_robot("dual_panda")
    hands = ["left_panda_hand", "right_panda_hand"]
    held = {"rod": AttachedObject(hands[0], ROD.spheres)}
    targets = free_targets(robot, 200, None, 3, held, hands)
    solver = cpu_solver(robot, hands)
    empty = solver.solve(*targets)
    assert not robot.collision(empty.joint_q.astype(float), attached=held).is_free.all()
    result = solver.solve(*targets, attached=held)
    check = robot.collision(result.joint_q.astype(float), attached=held)
    np.testing.assert_allclose(result.clearance, check.clearance, atol=1e-12)
    assert check.is_free[result.success].all()
    assert result.success.mean() >= 0.98


def test_without_a_check_nothing_is_attached(solver):
    target, held = np.array([[0.4, 0.0, 0.4]]), {"rod": ROD}
    with pytest.raises(InputError, match="has no collision model"):
        cpu_solver(bare_robot("panda"), [HAND]).solve(target, attached=held)
    assert solver.solve(target, attached=held, options={"collision": "off"}).clearance is None


GRID = DistanceGrid.sampled(WORLD.objects["ball"].signed_distance, (-0.5, 0.2, 0.4), (-0.1, 0.6, 0.8), 0.02)
STICK = {"stick": AttachedObject(HAND, [[0.0, 0.0, 0.12, 0.03], [0.0, 0.0, 0.2, 0.03]], ["can"])}
AMONG = {
    "itself": {},
    "objects": {"world": WORLD},
    "grid": {"world": World({"ball": GRID, "can": WORLD.objects["can"]})},
    "some": {"world": WORLD, "object_enabled": np.random.default_rng(4).random((100, 5)) < 0.4},
    "carried": {"world": WORLD, "attached": STICK},
}


@pytest.mark.parametrize("case", AMONG)
def test_clearance_from_objects_is_that_of_a_robot_without_pairs_and_changes_nothing_else(panda, solver, case):
    given, targets = AMONG[case], free_targets(panda, 100)
    plain, result = (solver.solve(*targets, **given, options={"world_clearance": asked}) for asked in (False, True))
    held = {name: replace(one, touches=[*one.touches, *SPHERES]) for name, one in given.get("attached", {}).items()}
    robot = panda.with_collision_model(CollisionModel(SPHERES, ()))  # and what is attached may touch all links
    around = given.get("world"), given.get("object_enabled")
    alone = robot.collision(result.joint_q.astype(float), *around, attached=held).clearance
    np.testing.assert_allclose(result.world_clearance, alone, atol=1e-12)
    assert (result.world_clearance > result.clearance).any() or case == "grid"
    assert np.isfinite(alone).any() == (case != "itself")
    assert plain.world_clearance is None
    for column in ("joint_q", "success", "status", "clearance", "closest"):
        assert getattr(plain, column).tobytes() == getattr(result, column).tobytes(), column
