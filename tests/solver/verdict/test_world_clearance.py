"""Clearance from objects alone, beside the host's check of a robot whose links are no pairs."""

from dataclasses import replace

import numpy as np
import pytest

from ik_service.collision.distance_grid import DistanceGrid
from ik_service.robots import AttachedObject, CollisionModel, World
from tests.solver.conftest import cpu_solver
from tests.solver.test_collision import HAND, SPHERES, WORLD, free_targets, panda_with_spheres

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
def test_clearance_from_objects_is_that_of_a_robot_without_pairs_and_changes_nothing_else(case):
    panda, given = panda_with_spheres(), AMONG[case]
    solver, targets = cpu_solver(panda, [HAND]), free_targets(panda, 100)
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
