"""Starts at or beside a solution, in both engines, paths and ticks: lower-priority rows are lowered from all."""

import numpy as np
import pytest

from ik_service.control import IKController
from objectives import IKObjectiveManipulability, IKObjectivePosition, IKObjectivePosture
from tests.solver.conftest import EACH_ENGINE, STAGED_QUICK, bare_robot, cpu_solver, inside_limits, poses_of
from tests.warm_starts import LINK as IIWA_LINK
from tests.warm_starts import warm_starts

LINK = "panda_hand"
COUNT = 40
BESIDE = 1e-3  # [rad]
OFFSETS = {"at a solution": 0.0, "1e-6 beside one": 1e-6, "1e-3 beside one": BESIDE}  # [rad]
MOVED = 1e-4  # [rad] that a joint goes at least, where a row has something to gain: more than float32 rounds away
AS_LOW = 0.01  # share by which means of costs, of a few dozen attempts that may take other ways, differ
NEAR_POSTURE = 3e-3  # [rad] that the posture of a test is off its start, along what the target leaves open
POSTURE_REACHED = 0.1  # largest share of the way left; float32 loses light rows at about 2e-4 rad
TICKS = 300  # of 0.01 s, in which a controller arrives

OBJECTIVES = {
    "manipulability": lambda panda: IKObjectiveManipulability(LINK),
    "elbow": lambda panda: IKObjectivePosition("panda_link4", [0.0, 0.5, 0.6], weight=0.3),
    "posture": lambda panda: IKObjectivePosture(panda.mid_joint_q, weight=0.1),
}


@pytest.fixture(scope="module")
def iiwa():
    return bare_robot("iiwa14")


@pytest.fixture(scope="module")
def solutions(panda):
    """Configurations, the last quarter of which has a joint at a limit."""
    joint_q = panda.random_joint_q(np.random.default_rng(0), COUNT)
    for row, k in enumerate(range(3 * COUNT // 4, COUNT)):
        dof = row % panda.joint_dof_count
        joint_q[k, dof] = (panda.joint_limit_lower, panda.joint_limit_upper)[row % 2][dof]
    return joint_q


def beside(robot, joint_q, offset):
    signs = np.random.default_rng(1).choice([-1.0, 1.0], joint_q.shape)
    return robot.clamp_joint_q(joint_q + offset * signs)


@pytest.mark.evidence_cases(
    "elbow-compiled-at a solution",
    "manipulability-compiled-at a solution",
    "manipulability-staged-at a solution",
    "posture-compiled-at a solution",
)
@pytest.mark.parametrize("offset", OFFSETS.values(), ids=OFFSETS)
@EACH_ENGINE
@pytest.mark.parametrize("name", OBJECTIVES)
def test_from_a_solution_rows_that_yield_come_as_low_as_from_beside_it(panda, solutions, name, engine, offset):
    solver = cpu_solver(panda, [LINK], objectives=[OBJECTIVES[name](panda)], engine=engine)
    targets = poses_of(panda, solutions, LINK)
    found = solver.solve(*targets, initial_joint_q=beside(panda, solutions, offset))
    reference = solver.solve(*targets, initial_joint_q=beside(panda, solutions, BESIDE))
    assert found.success.all()
    assert inside_limits(panda, found.joint_q).all()
    moved = np.abs(found.joint_q - solutions).max(axis=1)
    if offset < BESIDE:  # from further off an answer may come back to the solution
        assert (moved[: 3 * COUNT // 4] > MOVED).all()  # a limit may hold the others where they are
    assert moved[3 * COUNT // 4 :].max() > MOVED
    assert found.cost.mean() == pytest.approx(reference.cost.mean(), rel=AS_LOW)
    if offset == 0.0:
        alone = solver.solve(targets[0][:1], targets[1][:1], initial_joint_q=solutions[0])
        np.testing.assert_array_equal(alone.joint_q[0], found.joint_q[0])


@pytest.mark.evidence_cases("0.1-compiled", "10.0-compiled")
@EACH_ENGINE
@pytest.mark.parametrize("weight", [1e-3, 0.1, 10.0])
def test_a_posture_next_to_a_solution_is_reached(panda, engine, weight):
    """Light rows have a floor of their own: that of targets would end the attempt at once."""
    start = panda.mid_joint_q
    still = np.linalg.svd(panda.jacobian(start[None], [LINK])[:, 0])[2][0, -1]  # leaves the hand where it is
    posture = IKObjectivePosture(goal := start + NEAR_POSTURE * still, weight=weight)
    solver = cpu_solver(panda, [LINK], objectives=[posture], engine=engine)
    result = solver.solve(*poses_of(panda, start[None], LINK), initial_joint_q=start)
    assert result.success.all()
    assert np.linalg.norm(result.joint_q[0] - goal) < POSTURE_REACHED * NEAR_POSTURE


@STAGED_QUICK
def test_rows_of_priority_0_are_weighed_from_a_solution_as_from_beside_it(panda, solutions, engine):
    posture = IKObjectivePosture(panda.mid_joint_q, weight=1e-3)
    posture.priority = 0
    solver = cpu_solver(panda, [LINK], objectives=[posture], engine=engine)
    targets = poses_of(panda, solutions, LINK)
    found, reference = (
        solver.solve(*targets, initial_joint_q=beside(panda, solutions, offset)) for offset in (0.0, BESIDE)
    )
    assert found.success.all()
    assert np.median(np.abs(found.joint_q - solutions).max(axis=1)) > MOVED
    assert found.cost.mean() == pytest.approx(reference.cost.mean(), rel=AS_LOW)


@pytest.mark.parametrize(
    ("engine", "precision"), [("compiled", "float32"), ("compiled", "float64"), ("staged", "float32")]
)
def test_solves_answer_all_warm_starts_nearby(iiwa, engine, precision):
    starts = warm_starts(iiwa)
    solver = cpu_solver(iiwa, [IIWA_LINK], engine=engine)
    given = starts.positions, starts.orientations_xyzw
    result = solver.solve(*given, initial_joint_q=starts.joint_q, options={"seeds": 1, "precision": precision})
    assert result.success.all()
    starts.check(iiwa, result.joint_q)


def test_paths_begin_near_all_warm_starts_and_a_controller_comes_to_their_targets(iiwa):
    starts, controller = warm_starts(iiwa), IKController(iiwa, [IIWA_LINK])
    solver, begun, arrived = cpu_solver(iiwa, [IIWA_LINK]), [], []
    for start, position, orientation in zip(*starts[1:4], strict=True):
        path = solver.follow(np.tile(position, (3, 1)), np.tile(orientation, (3, 1)), 0.1, start_joint_q=start)
        assert path.success.all()
        begun.append(path.joint_q[0])
        controller.reset(start)
        for _ in range(TICKS):
            result = controller.step(np.concatenate([position, orientation]), dt=0.01)
        assert result.success.all()
        arrived.append(result.joint_q[0].copy())
    for found in (begun, arrived):
        starts.check(iiwa, found)
