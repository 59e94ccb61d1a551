"""Solves that keep links off each other and off obstacles, judged by the host's float64 check."""

import numpy as np
import pytest

from ik_service import IKStatus
from ik_service.collision.collision_data import SPARE_VALUES, VERDICT_ROUNDING, WIDEST
from ik_service.collision.distance_grid import DistanceGrid
from ik_service.robots import Box, Capsule, CollisionModel, Cylinder, HalfSpace, Sphere, World, load_urdf
from ik_service.solver.second_tries.free_combinations import IslandSolutions, _combinations
from objectives import IKObjectivePosition, InputError
from tests.solver.conftest import STAGED_QUICK, bare_robot, cpu_solver

HAND = "panda_hand"
SPHERES = {
    "panda_link0": [[0.0, 0.0, 0.06, 0.1]],
    "panda_link1": [[0.0, 0.0, -0.08, 0.09], [0.0, -0.03, 0.0, 0.08]],
    "panda_link2": [[0.0, 0.0, 0.0, 0.08], [0.0, -0.08, 0.0, 0.08]],
    "panda_link3": [[0.0, 0.0, -0.06, 0.08], [0.06, 0.0, 0.0, 0.07]],
    "panda_link4": [[0.0, 0.0, 0.0, 0.08], [-0.06, 0.06, 0.0, 0.07]],
    "panda_link5": [[0.0, 0.06, -0.2, 0.06], [0.0, 0.03, -0.1, 0.06], [0.0, 0.0, 0.0, 0.07]],
    "panda_link6": [[0.04, 0.0, 0.0, 0.07]],
    "panda_link7": [[0.0, 0.0, 0.06, 0.06]],
    HAND: [[0.0, 0.0, 0.03, 0.05], [0.0, 0.06, 0.05, 0.04], [0.0, -0.06, 0.05, 0.04]],
}
FAR = [(a, b) for k, a in enumerate(SPHERES) for b in list(SPHERES)[k + 3 :]]
WORLD = World(
    {
        "table": Box((2.0, 2.0, 0.1), (0.0, 0.0, -0.1, 0.0, 0.0, 0.0, 1.0)),
        "post": Capsule(0.04, 1.0, (0.5, 0.3, 0.4, 0.0, 0.0, 0.0, 1.0)),
        "can": Cylinder(0.06, 0.2, (0.5, -0.2, 0.1, 0.0, 0.0, 0.0, 1.0)),
        "ball": Sphere(0.12, (-0.3, 0.4, 0.6)),
        "wall": HalfSpace((1.0, 0.0, 0.0), -0.5),
    }
)
OTHER = World({"shelf": Box((0.5, 0.6, 0.04), (0.55, 0.0, 0.5, 0.0, 0.0, 0.0, 1.0))})


def panda_with_spheres():
    return bare_robot("panda").with_collision_model(CollisionModel(SPHERES, FAR))


@pytest.fixture(scope="module")
def panda():
    return panda_with_spheres()


@pytest.fixture(scope="module")
def solver(panda):
    return cpu_solver(panda, [HAND])


def free_targets(robot, n, world=None, seed=0, attached=None, links=(HAND,)):
    """Give poses of links in configurations without contact."""
    joint_q = robot.random_joint_q(np.random.default_rng(seed), 12 * n)
    joint_q = joint_q[robot.collision(joint_q, world, attached=attached).is_free][:n]
    assert len(joint_q) == n
    poses = robot.forward_kinematics(joint_q, links)
    return [values[:, 0] if len(links) == 1 else values for values in poses]


def judged(robot, result, world=None, enabled=None, attached=None):
    """Check that clearances are those of the host and that no success is in contact; give the host's check."""
    check = robot.collision(result.joint_q.astype(float), world, enabled, attached=attached)
    np.testing.assert_allclose(result.clearance, check.clearance, atol=1e-12)
    np.testing.assert_array_equal(result.closest, check.closest)
    assert (check.clearance[result.success] > 0.0).all()
    return check


@pytest.mark.parametrize(
    ("world", "count", "options", "least"),
    [(None, 600, {}, 0.998), (WORLD, 600, {}, 0.99), (WORLD, 100, {"precision": "float64"}, 0.97)],
    ids=["itself", "world", "float64"],
)
def test_links_keep_off_each_other_and_off_objects(panda, solver, world, count, options, least):
    targets = free_targets(panda, count, world)
    unchecked = solver.solve(*targets, options={"collision": "off", **options})
    result = solver.solve(*targets, world=world, options=options)
    judged(panda, result, world)
    assert result.success.mean() >= least
    assert (result.position_error[result.success] <= 1e-3).all()
    assert unchecked.clearance is None
    clearance = panda.collision(unchecked.joint_q.astype(float), world).clearance
    assert clearance.min() < 0.0 < clearance.max()
    well_off = clearance > 1e-4
    np.testing.assert_array_equal(result.joint_q[well_off], unchecked.joint_q[well_off])


def test_a_margin_is_kept_and_obstacles_do_not_count_where_links_alone_are_asked_for(panda, solver):
    targets = free_targets(panda, 300, WORLD)
    kept, alone = (
        solver.solve(*targets, world=WORLD, options=one) for one in ({"margin": 0.03}, {"collision": "self"})
    )
    assert (judged(panda, kept, WORLD).clearance[kept.success] >= 0.03).all()
    assert kept.success.mean() > 0.5
    judged(panda, alone)
    assert not panda.collision(alone.joint_q.astype(float), WORLD).is_free.all()


def test_a_target_inside_an_obstacle_is_blocked(panda, solver):
    position, orientation = np.array([[0.5, -0.2, 0.05]]), np.array([[1.0, 0.0, 0.0, 0.0]])
    result = solver.solve(position, orientation, world=WORLD)
    assert not result.success[0]
    assert result.status[0] == IKStatus.BLOCKED_BY_COLLISION
    assert result.status_names == ["blocked_by_collision"]
    assert result.clearance[0] < 0.0
    assert result.position_error[0, 0] <= 1e-3  # what is returned meets the target all the same
    deepest = [solver.solve(position, orientation, world=WORLD, options={"seeds": k}).clearance[0] for k in (1, 4, 64)]
    assert deepest == sorted(deepest)  # of all that are refused, the one of least depth


def test_worlds_and_their_objects_differ_by_problem(panda, solver):
    positions, orientations = free_targets(panda, 90, WORLD, seed=1)
    index = np.arange(90) % 2
    enabled = np.random.default_rng(0).random((90, 5)) < 0.6
    together = solver.solve(positions, orientations, world=[WORLD, OTHER], world_index=index, object_enabled=enabled)
    for k, world in enumerate((WORLD, OTHER)):
        own = index == k
        on = enabled[own][:, : len(world.objects)]
        alone = solver.solve(positions[own], orientations[own], world=world, object_enabled=on)
        np.testing.assert_array_equal(together.joint_q[own], alone.joint_q)
        np.testing.assert_array_equal(together.clearance[own], alone.clearance)
        judged(panda, alone, world, on)


def test_links_keep_off_what_a_grid_has(panda, solver):
    both = [WORLD.objects[name] for name in ("can", "ball")]
    others = {name: shape for name, shape in WORLD.objects.items() if shape not in both}

    def nearest(points):
        return np.min([shape.signed_distance(points) for shape in both], axis=0)

    grid = DistanceGrid.sampled(nearest, (-0.6, -0.4, -0.1), (0.7, 0.6, 0.8), 0.02)
    world = World({**others, "both": grid})
    targets = free_targets(panda, 400, WORLD)
    result = solver.solve(*targets, world=world)
    check = judged(panda, result, world)
    assert (check.closest[:, 1] == check.names.index("both")).any()
    assert result.success.mean() >= 0.99
    real = panda.collision(result.joint_q[result.success].astype(float), WORLD).clearance
    assert real.min() > -0.01  # edges of the can are round in the grid
    away = solver.solve(*targets, world=World({**others, "both": grid.placed((9.0, 0, 0, 0, 0, 0, 1))}))
    assert away.joint_q.tobytes() == solver.solve(*targets, world=World(others)).joint_q.tobytes()


def test_room_for_distances_is_given_back(panda, solver):
    data = solver._core.collision
    targets = free_targets(panda, 2)
    large, small = (DistanceGrid(np.ones((side,) * 3), 0.1, (9.0, 0, 0, 0, 0, 0, 1)) for side in (160, 4))
    solver.solve(*targets, world=World({"large": large}))
    assert data.worlds.value.size >= large.values.size
    solver.solve(*targets, world=World({"small": small}))
    assert data.worlds.value.size <= SPARE_VALUES


def test_changing_a_world_compiles_nothing(panda, solver, monkeypatch):
    targets = free_targets(panda, 20, WORLD)
    solver.solve(*targets, world=WORLD)
    monkeypatch.setattr(solver._core.engine.kernels.launches, "kernel", None)  # what makes and compiles kernels
    many = World({f"ball {k}": Sphere(0.02, (0.4, 0.0, 0.02 * k)) for k in range(40)})
    judged(panda, solver.solve(*targets, world=many), many)


@pytest.mark.parametrize("world", [None, WORLD], ids=["itself", "world"])
def test_the_clearest_of_all_attempts_is_the_answer(panda, solver, world):
    targets, options = free_targets(panda, 60, world), {"seeds": 32, "solution_difference": 1e-3}
    result = solver.solve(*targets, world=world, options={**options, "best_of": "clearance"})
    judged(panda, result, world)
    every = solver.solve(*targets, world=world, options={**options, "best_of": "cost", "solutions": 32})
    for p in range(60):
        own = every.solutions[p, : every.solution_count[p]].astype(float)
        assert result.success[p] == every.success[p]
        if result.success[p]:
            assert result.clearance[p] >= min(panda.collision(own, world).clearance.max(), WIDEST) - 1e-4
    first = solver.solve(*targets, world=world)
    assert (result.clearance > first.clearance + 0.01).mean() > 0.05
    kept = solver.solve(*targets, world=world, options={**options, "best_of": "clearance", "margin": 0.02})
    clear = result.clearance >= 0.02 + 1e-4
    np.testing.assert_array_equal(kept.joint_q[clear], result.joint_q[clear])


def test_solutions_are_free_of_contact(panda, solver):
    targets = free_targets(panda, 40, WORLD)
    result = solver.solve(*targets, world=WORLD, options={"solutions": 4})
    for k in range(4):
        own = result.solution_count > k
        assert (panda.collision(result.solutions[own, k].astype(float), WORLD).clearance > 0.0).all()
    assert result.solution_count.mean() > 3.0


def test_the_staged_engine_tries_further_seeds_where_one_ends_in_contact(panda):
    solver, count = cpu_solver(panda, [HAND], engine="staged"), 150
    one, other = (free_targets(panda, count, world, seed) for world, seed in ((WORLD, 3), (OTHER, 4)))
    both = [np.concatenate(pair) for pair in zip(one, other, strict=True)]
    index = np.repeat([0, 1], count)
    plain = solver.solve(*both, options={"collision": "off"})
    worlds = [(WORLD, OTHER)[k] for k in index]
    clearance = [panda.collision(q, world).clearance[0] for q, world in zip(plain.joint_q, worlds, strict=True)]
    assert sum(np.array(clearance) <= 0.0) > 8  # what the first seeds that succeed would give
    result = solver.solve(*both, world=[WORLD, OTHER], world_index=index)
    assert result.success.mean() >= 0.97
    for k, world in enumerate((WORLD, OTHER)):
        assert panda.collision(result.joint_q[index == k], world).is_free[result.success[index == k]].all()
    free = np.array(clearance) > 2.0 * VERDICT_ROUNDING  # attempts have to be so far from contact in float32
    np.testing.assert_array_equal(result.joint_q[free], plain.joint_q[free])  # a check alone changes nothing
    again = solver.solve(*both, options={"collision": "off"})
    np.testing.assert_array_equal(again.joint_q, plain.joint_q)


@pytest.fixture(scope="module")
def arms():
    plain = bare_robot("dual_panda")
    spheres = {f"{side}_{link}": own for side in ("left", "right") for link, own in SPHERES.items()}
    pairs = [(f"left_{a}", f"right_{b}") for a in SPHERES for b in SPHERES]
    pairs += [(f"{side}_{a}", f"{side}_{b}") for side in ("left", "right") for a, b in FAR]
    return plain.with_collision_model(CollisionModel(spheres, pairs))


@pytest.mark.evidence
def test_arms_that_touch_each_other_get_the_first_combination_that_is_free(arms):
    hands = ["left_panda_hand", "right_panda_hand"]
    given, solver = free_targets(arms, 300, links=hands), cpu_solver(arms, hands)

    def check(result):  # equal arms: two pairs may be as close
        found = arms.collision(result.joint_q.astype(float))
        np.testing.assert_allclose(result.clearance, found.clearance, atol=1e-12)
        assert found.is_free[result.success].all()

    unchecked, result = solver.solve(*given, options={"collision": "off"}), solver.solve(*given)
    check(result)
    assert result.success.mean() >= 0.99
    touching = ~arms.collision(unchecked.joint_q.astype(float)).is_free
    assert touching.mean() > 0.05
    assert (result.islands.nisland == 2).all()
    np.testing.assert_array_equal(result.joint_q[~touching], unchecked.joint_q[~touching])
    # Combinations ask islands for 8 solutions each, which may touch; who asks for 8 afterwards must not get those.
    k = np.flatnonzero(touching)[:8]
    check(solver.solve(*(values[k] for values in given), options={"solutions": 8}))
    for k in np.flatnonzero(touching)[:3]:
        alone = solver.solve(*(values[k : k + 1] for values in given))
        np.testing.assert_array_equal(alone.joint_q[0], result.joint_q[k])


def test_combinations_come_by_the_sum_of_their_places_whatever_the_number_of_islands():
    assert _combinations((2, 3)).tolist() == [[0, 0], [0, 1], [1, 0], [0, 2], [1, 1], [1, 2]]
    assert _combinations((1,)).tolist() == [[0]]
    many = _combinations((16,) * 20)
    assert many.shape == (256, 20)
    assert many[:3].sum(axis=1).tolist() == [0, 1, 1]


def test_combinations_of_problems_with_other_numbers_of_solutions():
    joint_q = np.arange(24.0).reshape(3, 2, 4)  # two solutions of four coordinates
    island = np.array([[0, 1, -1, 1], [0, 1, -1, 1], [1, 0, -1, 0]], dtype=np.int32)  # the third of none
    solutions = IslandSolutions(joint_q, np.array([[2, 2], [1, 0], [1, 2]], dtype=np.int32), island)
    candidates, owners = solutions.combined(np.array([0, 2]), 1, 2)
    assert owners.tolist() == [0, 0, 2]
    assert candidates.tolist() == [[0, 5, 2, 7], [4, 1, 2, 3], [20, 17, 18, 19]]
    candidates, owners = solutions.combined(np.array([1]), 0, 4)
    assert (owners.tolist(), candidates.tolist()) == ([1], [joint_q[1, 0].tolist()])
    assert [len(rest) for rest in solutions.combined(np.array([1]), 4, 16)] == [0, 0]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"options": {"collision": "both"}}, "Option collision is 'both'"),
        ({"options": {"collision": "world"}}, "Option collision='world' needs a world"),
        ({"options": {"margin": -0.1}}, "Option margin is -0.1"),
        ({"world": [WORLD, OTHER]}, "world_index is missing: there are 2 worlds"),
        ({"world": [WORLD, OTHER], "world_index": [2]}, "world_index must be .* from 0 to 1"),
        ({"world": WORLD, "object_enabled": [True]}, "object_enabled must be truth values"),
        ({"world": ["table"]}, "world must be a World or a list of them, got str"),
        *(({"options": {"seeds": seeds}}, "Option seeds is") for seeds in (True, [1], 1.5)),
    ],
)
def test_what_makes_no_check_is_refused(panda, solver, given, reason):
    targets = free_targets(panda, 1)
    assert solver.solve(*targets, options={"seeds": 1}).seeds == 1  # equal to True
    with pytest.raises(InputError, match=reason):
        solver.solve(*targets, **given)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"world": WORLD}, "Robot 'panda' has no collision model"),
        ({"options": {"margin": 0.01}}, "margin needs a check"),
        ({"options": {"best_of": "clearance"}}, "best_of='clearance' needs a check"),
    ],
)
def test_a_robot_without_a_model_has_no_world(given, reason):
    solver, target = cpu_solver(bare_robot("panda"), [HAND]), np.array([[0.4, 0.0, 0.4]])
    assert solver.solve(target).clearance is None
    with pytest.raises(InputError, match=reason):
        solver.solve(target, **given)


def test_what_was_used_last_is_not_used_for_what_is_asked_now(panda):
    solver, targets = cpu_solver(panda, [HAND]), free_targets(panda, 30, WORLD)
    asked = [
        {},
        {"world": WORLD},
        {"world": OTHER},
        {"world": WORLD, "options": {"margin": 0.03}},
        {"world": [WORLD, OTHER], "world_index": np.arange(30) % 2},
        {"world": [OTHER, WORLD], "world_index": np.arange(30) % 2},
        {"world": WORLD, "object_enabled": np.arange(5) > 2},
        {"world": WORLD, "object_enabled": np.arange(5) < 2},
        {"options": {"collision": "off"}},
        {"world": WORLD, "options": {"best_of": "clearance", "seeds": 8}},
    ]
    expected = [cpu_solver(panda, [HAND]).solve(*targets, **arguments) for arguments in asked]
    for k in (0, 1, 1, 2, 1, 0, 3, 1, 4, 5, 4, 1, 6, 7, 6, 1, 8, 0, 9, 1, 9, 8):
        result = solver.solve(*targets, **asked[k])
        assert result.joint_q.tobytes() == expected[k].joint_q.tobytes(), k
        assert (result.clearance is None) == (k == 8)
        if k != 8:
            assert result.clearance.tobytes() == expected[k].clearance.tobytes(), k


@STAGED_QUICK
def test_objectives_alone_are_met_without_contact_too(panda, engine):
    positions, _ = free_targets(panda, 60, WORLD, seed=5)
    solver = cpu_solver(panda, objectives=[IKObjectivePosition(HAND, positions)], engine=engine)
    plain = solver.solve(problem_count=60, options={"collision": "off"})
    assert (~panda.collision(plain.joint_q, WORLD).is_free & plain.success).sum() > 3
    result = solver.solve(problem_count=60, world=WORLD)
    judged(panda, result, WORLD)
    assert result.success.mean() > 0.9


# A wagon that moves between two posts.
GANTRY = """<robot name="gantry"><link name="base"/><link name="left"/><link name="right"/><link name="beam"/>
  <link name="wagon"/>
  <joint name="on_left" type="fixed"><parent link="base"/><child link="left"/><origin xyz="0 0.5 0"/></joint>
  <joint name="on_right" type="fixed"><parent link="base"/><child link="right"/><origin xyz="0 -0.5 0"/></joint>
  <joint name="x" type="prismatic"><parent link="base"/><child link="beam"/><axis xyz="1 0 0"/>
    <limit lower="-10" upper="10" effort="1" velocity="1"/></joint>
  <joint name="y" type="prismatic"><parent link="beam"/><child link="wagon"/><axis xyz="0 1 0"/>
    <limit lower="-10" upper="10" effort="1" velocity="1"/></joint></robot>"""


def test_of_pairs_that_are_equally_near_the_first_is_named_alone_and_in_a_batch():
    robot = load_urdf(GANTRY)
    spheres = {name: [[0.0, 0.0, 0.0, 0.1]] for name in ("left", "right", "wagon")}
    robot = robot.with_collision_model(CollisionModel(spheres, [("left", "wagon"), ("right", "wagon")]))
    targets = np.array([[0.2, 0.0, 0.0], *[[0.2, -0.2, 0.0]] * 7])  # the first has both equally near
    solver = cpu_solver(robot, ["wagon"])
    batch = solver.solve(targets, initial_joint_q=targets[:, :2])
    alone = solver.solve(targets[:1], initial_joint_q=targets[:1, :2])
    assert alone.success.all()
    np.testing.assert_array_equal(batch.joint_q[0], alone.joint_q[0])
    np.testing.assert_array_equal(batch.closest[0], alone.closest[0])
    assert batch.closest[0].tolist() == robot.collision(alone.joint_q).closest[0].tolist()


@pytest.mark.evidence
def test_a_plane_that_is_almost_level_is_where_it_is():
    robot = load_urdf(GANTRY).with_collision_model(CollisionModel({"wagon": [[0.0, 0.0, 0.0, 0.1]]}, []))
    normal = np.array(HalfSpace((1.3e-6, 0.0, -1.0)).normal)
    world = World({"ceiling": HalfSpace(tuple(normal), float(-9.0 * normal[0]) - 0.1 + 1e-6)})  # 1 um too near
    result = cpu_solver(robot, ["wagon"]).solve([[-9.0, 0.0, 0.0]], world=world)
    assert result.clearance[0] == pytest.approx(-1e-6, abs=1e-8)
    assert not result.success[0]
