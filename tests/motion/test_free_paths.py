"""Paths that keep clear: of what a denser look by the host's float64 check finds on the ways between waypoints."""

import numpy as np
import pytest

import ik_service
from ik_service import IKSolver, SolverOptions
from ik_service.motion.metric import JointMetric
from ik_service.motion.waypoints import RESOLUTION, WayCheck, least_on_ways
from ik_service.robots import AttachedObject, Box, CollisionModel, DistanceGrid, Sphere, World, load_urdf
from ik_service.solver.given.worlds import CheckedWorlds
from ik_service.solver.lm.status import IKStatus
from objectives import InputError
from tests.robots.urdf_text import joint, urdf
from tests.solver.conftest import inside_limits

ENDS = (-1, 1, 5)
X = joint("x", "prismatic", "base", "slide", axis="1 0 0", limit=ENDS)
SLIDES = urdf("slides", "base", X, joint("z", "prismatic", "slide", "tip", axis="0 0 1", limit=ENDS))
TURN = joint("turn", "revolute", "base", "boom", axis="0 0 1", limit=(-3, 3, 5))
BOOM = urdf("boom", "base", TURN, joint("slide", "prismatic", "boom", "tip", axis="1 0 0", limit=(0, 0.1, 5)))
HAND, HOME = "panda_hand", np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.8, 0.7])
UPRIGHT = (0.0, 0.0, 0.0, 1.0)


@pytest.fixture(scope="module")
def slides():
    return load_urdf(SLIDES).with_collision_model(CollisionModel({"tip": [[0.0, 0.0, 0.0, 0.05]]}, []))


@pytest.fixture(scope="module")
def panda():
    return ik_service.load_robot("panda")


@pytest.fixture(scope="module")
def panda_solver(panda):
    return IKSolver(panda, [HAND], device="cpu")


def swing(n=120):
    """Poses of the hand while joints swing, and the joints."""
    t = np.linspace(0.0, 2.0 * np.pi, n)
    return HOME + 0.5 * (np.sin(t[:, None] + np.arange(7)) - np.sin(np.arange(7)))


def follow(solver, joint_q, **arguments):
    poses = solver.robot.forward_kinematics(joint_q, [HAND])
    return solver.follow(poses.positions, poses.orientations_xyzw, 0.05, **arguments)


def densely(joint_q, each=40):
    """Configurations on the straight ways, [ways, each + 1, coordinates]."""
    share = np.linspace(0.0, 1.0, each + 1)[None, :, None]
    return joint_q[:-1, None] + share * (joint_q[1:] - joint_q[:-1])[:, None]


def seen(robot, joint_q, world=None, attached=None):
    """Least clearance on each way by a dense look, [waypoints - 1]."""
    ways = densely(joint_q)
    found = robot.collision(ways.reshape(-1, ways.shape[-1]), world, attached=attached).clearance
    return found.reshape(ways.shape[:2]).min(axis=1)


@pytest.mark.evidence
def test_a_wall_between_two_waypoints_blocks_the_way(slides):
    positions = np.array([[0.1, 0.0, 0.0], [0.4, 0.0, 0.0], [0.4, 0.0, 0.5], [0.1, 0.0, 0.5]])
    wall = World({"wall": Box((0.002, 1.0, 0.6), (0.25, 0.0, 0.0, *UPRIGHT))})  # up to z = 0.3
    solver = IKSolver(slides, ["tip"], device="cpu")
    free = solver.follow(positions, None, 0.1)
    assert free.success.all()
    np.testing.assert_allclose(free.clearance, np.inf)
    path = solver.follow(positions, None, 0.1, world=wall)
    assert (path.success.tolist(), path.status_names[1]) == ([True, False, True, True], "blocked_by_collision")
    assert slides.collision(path.joint_q, wall).is_free.all()  # at the waypoints all is well
    assert path.clearance[1] < 0.0
    np.testing.assert_allclose(path.clearance[[0, 2]], [0.099, 0.099], atol=1e-6)
    assert 0.149 <= path.clearance[3] <= 0.166
    away = solver.follow(positions, None, 0.1, world=wall, options={"collision": "off"})
    assert away.success.all()
    assert away.clearance is None


@pytest.mark.parametrize("margin", [0.0, 0.01])
def test_ways_are_no_nearer_than_is_said(panda, panda_solver, margin):
    joint_q = swing()
    unchecked = follow(panda_solver, joint_q, options={"collision": "off"})
    elbow = panda.forward_kinematics(unchecked.joint_q, ["panda_link4"]).positions[40, 0]
    world = World({"ball": Sphere(0.05, tuple(np.add(elbow, [0.0, 0.1, 0.0])))})
    assert seen(panda, unchecked.joint_q, world).min() < 0.0
    path = follow(panda_solver, joint_q, world=world, options={"margin": margin})
    least = seen(panda, path.joint_q, world)
    good = path.success[1:]
    assert good.mean() > 0.8
    assert (least[good] > 0.0).all()
    assert (least[good] >= margin).all()
    assert (least[good] >= 0.9 * path.clearance[1:][good] - RESOLUTION).all()
    assert inside_limits(panda, path.joint_q).all()
    blocked = path.status == IKStatus.BLOCKED_BY_COLLISION
    assert (path.clearance[blocked] < margin + RESOLUTION).all()


def test_a_free_path_is_the_path_without_a_check(panda, panda_solver):
    joint_q, far = swing(), World({"ball": Sphere(0.05, (3.0, 0.0, 0.0))})
    unchecked = follow(panda_solver, joint_q, options={"collision": "off"})
    assert seen(panda, unchecked.joint_q).min() > 0.0
    path = follow(panda_solver, joint_q, world=far)
    np.testing.assert_array_equal(path.joint_q, unchecked.joint_q)
    assert path.success.all()


def test_what_is_carried_is_kept_off_and_a_start_behind_an_obstacle_blocks_the_first_way(slides):
    box = World({"box": Box((0.2, 0.2, 0.2), (0.3, 0.0, 0.4, *UPRIGHT))})
    positions = np.array([[0.0, 0.0, 0.0], [0.6, 0.0, 0.0]])
    solver, rod = IKSolver(slides, ["tip"], device="cpu"), AttachedObject("tip", [[0.0, 0.0, 0.3, 0.02]])
    assert solver.follow(positions, None, 0.1, world=box).success.all()
    path = solver.follow(positions, None, 0.1, world=box, attached={"rod": rod})
    assert path.status_names == ["converged", "blocked_by_collision"]
    passed = AttachedObject("tip", rod.spheres, ["box"])
    assert solver.follow(positions, None, 0.1, world=box, attached={"rod": passed}).success.all()
    wall = World({"wall": Box((0.002, 1.0, 0.6), (0.25, 0.0, 0.0, *UPRIGHT))})
    behind = solver.follow(positions[1:], None, 0.1, start_joint_q=np.array([0.1, 0.0]), world=wall)
    assert behind.status_names == ["blocked_by_collision"]


def test_the_least_clearance_is_found_wherever_it_is(panda):
    """Random ways; whoever is told free is free in a dense look, whoever is not is near to contact."""
    rng = np.random.default_rng(0)
    start = panda.random_free_joint_q(rng, 40)
    world = World({f"ball {k}": Sphere(0.08, tuple(rng.uniform(-0.7, 0.7, 3))) for k in range(4)})
    start = start[panda.collision(start, world).is_free]
    sent = []

    def clearance(joint_q):
        sent.append(len(joint_q))
        return panda.collision(joint_q, world).clearance

    check = WayCheck(panda.body_spheres, clearance, 1.0)
    found, is_free = least_on_ways(panda, check, JointMetric(panda), start, 0.0)
    least = seen(panda, start, world)
    assert (least[is_free] > 0.0).all()
    assert (found[~is_free] < RESOLUTION).all()
    assert 0 < is_free.sum() < len(is_free)
    assert sum(sent) < 4000 * len(start)


def test_no_way_through_a_steep_grid_is_free(slides):
    """A grid whose distances change by far more than the way between nodes: free on both sides of a thin wall."""
    values = np.full((51, 51, 51), 1.0)
    values[25] = -1.0
    world = World({"wall": DistanceGrid(values, 0.02, (-0.5, -0.5, -0.5, *UPRIGHT))})
    rng = np.random.default_rng(0)
    sides = [
        np.column_stack([rng.uniform(*side, 40), rng.uniform(-0.3, 0.3, 40)]) for side in ((-0.45, -0.15), (0.15, 0.45))
    ]
    ways = np.stack(sides, axis=1)
    check = WayCheck.of(slides, CheckedWorlds((world,), np.zeros(1, np.int32), None, {}))
    assert (slides.collision(ways.reshape(-1, 2), world).clearance > 0.5).all()
    assert not any(least_on_ways(slides, check, JointMetric(slides), way, 0.0)[1][0] for way in ways)


@pytest.mark.evidence
def test_ways_beyond_limits_that_are_not_enforced_are_judged_by_where_they_are():
    robot = load_urdf(BOOM).with_collision_model(CollisionModel({"tip": [[0.0, 0.0, 0.0, 0.05]]}, []))
    solver = IKSolver(robot, ["tip"], options=SolverOptions(joint_limits="off"), device="cpu")
    between = 2.0 * np.array([np.cos(0.5), np.sin(0.5), 0.0])
    ends = 2.0 * np.array([[1.0, 0.0, 0.0], [np.cos(1.0), np.sin(1.0), 0.0]])
    world = World({"post": Sphere(0.05, tuple(between))})
    path = solver.follow(ends, None, 0.5, world=world)
    assert not path.success.all()
    assert (path.status == IKStatus.BLOCKED_BY_COLLISION).any()


def test_a_robot_without_a_model_has_no_world():
    solver = IKSolver(ik_service.load_robot("panda", collision="ignore"), [HAND], device="cpu")
    path = follow(solver, swing(10))
    assert path.clearance is None
    with pytest.raises(InputError, match="has no collision model"):
        follow(solver, swing(10), world=World({"ball": Sphere(0.1)}))
