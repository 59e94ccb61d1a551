"""Islands in the solver: independent where nothing couples, one where something does, and the same answers as alone."""

from itertools import pairwise

import numpy as np
import pytest
import warp as wp

from ik_service import IKStatus, SolverOptions
from ik_service.mechanism.transforms import quaternion_conjugate, quaternion_multiply
from ik_service.solver.arrays.problem_arrays import ROTATION_LENGTH
from ik_service.solver.lm.damping import DAMPING_MIN, DAMPING_SHARE
from objectives import IKObjective, IKObjectivePosition, IKObjectiveRelativePose
from tests.solver.conftest import Reachable, bare_robot, cpu_solver
from tests.solver.quick_objective import QuickObjective

pytestmark = pytest.mark.usefixtures("each_way")

LINKS = ["left_panda_hand", "right_panda_hand"]
OPTIONS = SolverOptions(seeds=16)
LEFT, RIGHT = slice(0, 7), slice(7, 14)


@pytest.fixture(scope="module")
def problems(dual_panda):
    return Reachable.draw(dual_panda, LINKS, 100, random_seed=3)


def only(arm, given):
    """Values of one arm's target, and none of the other's."""
    return [[values[:, k] if k == arm else None for k in range(2)] for values in given]


def make(robot, targets=LINKS, **arguments):
    return cpu_solver(robot, targets, options=OPTIONS, **arguments)


def test_two_arms_on_one_base_are_two_islands(dual_panda, problems):
    result = make(dual_panda).solve(*problems.targets)
    assert result.success.all()
    assert (result.islands.nisland == 2).all()
    for island, side in zip(result.islands[0], ("left", "right"), strict=True):
        assert island.joints == tuple(name for name in dual_panda.joint_names if name.startswith(side))
        assert (island.rows, island.success, island.status) == (
            (f"target {side}_panda_hand",),
            True,
            IKStatus.CONVERGED,
        )
    assert 0 < (result.seed_index == -1).sum() < len(result)
    for k in range(100):
        seeds = {island.seed_index for island in result.islands[k]}
        assert result.seed_index[k] == (seeds.pop() if len(seeds) == 1 else -1)
        assert result.iterations[k] == max(island.iterations for island in result.islands[k])
        assert result.cost[k] == pytest.approx(sum(island.cost for island in result.islands[k]), rel=1e-6, abs=1e-12)


@pytest.mark.evidence_cases("auto", "threads")
def test_trees_and_dofs_tell_their_island(dual_panda, problems):
    locked, few = dual_panda.lock({dual_panda.joint_names[2]: 0.0}), problems.part(slice(2)).targets
    islands = make(locked, [LINKS[0]]).solve(*(values[:, :1] for values in few)).islands
    assert islands.tree_island.tolist() == [[0, -1]] * 2
    assert islands.dof_island.dtype == np.int32
    assert islands.dof_island.tolist() == [[0, 0, -1, 0, 0, 0, 0, *[-1] * 7]] * 2
    both, joined = (make(dual_panda, islands=apart).solve(*few).islands for apart in (True, False))
    assert both.dof_island.tolist() == [[0] * 7 + [1] * 7] * 2
    assert joined.dof_island.tolist() == [[0] * 14] * 2


@pytest.mark.parametrize("mode", ["analytic", "autodiff"])
def test_every_arm_gets_to_the_bit_the_answer_that_it_gets_alone(dual_panda, problems, mode):
    count = 100 if mode == "analytic" else 10
    solver = cpu_solver(dual_panda, LINKS, options=SolverOptions(seeds=16, jacobian_mode=mode))
    given = problems.part(slice(count)).targets
    together = solver.solve(*given)
    for arm, own, other in ((0, LEFT, RIGHT), (1, RIGHT, LEFT)):
        alone = solver.solve(*only(arm, given))
        np.testing.assert_array_equal(alone.joint_q[:, own], together.joint_q[:, own])
        np.testing.assert_array_equal(alone.islands.cost[:, 0], together.islands.cost[:, arm])
        np.testing.assert_array_equal(alone.iterations, together.islands.iterations[:, arm])
        assert (alone.islands.nisland == 1).all()
        untouched = np.broadcast_to(dual_panda.mid_joint_q.astype(np.float32)[other], (count, 7))
        np.testing.assert_array_equal(alone.joint_q[:, other], untouched)


@pytest.mark.parametrize(("missed", "own"), [(1, LEFT), (0, RIGHT)])
def test_an_arm_out_of_reach_does_not_disturb_the_other(dual_panda, missed, own):
    reachable, solver, arm = Reachable.draw(dual_panda, LINKS, 300, random_seed=11), make(dual_panda), 1 - missed
    reachable.positions[:, missed] += [0.0, 0.0, 5.0]
    result = solver.solve(*reachable.targets)
    solved = (result.position_error[:, arm] <= 1e-3) & (result.orientation_error[:, arm] <= 1e-2)
    assert solved.mean() >= 0.99
    assert not result.success.any()
    assert (result.islands.success[:, arm] == solved).all()
    alone = solver.solve(*only(arm, reachable.targets))
    np.testing.assert_array_equal(alone.joint_q[:, own], result.joint_q[:, own])
    assert result.status_names[0] == result.islands[0][missed].status.word


def coupled_arms():
    """Two trees of seven joints: both hands have a target, and a pose to one another."""
    relative = IKObjectiveRelativePose(*LINKS, [0.0, 0.0, 0.3], [1.0, 0.0, 0.0, 0.0], weight=0.05)
    return bare_robot("dual_panda"), LINKS, [relative]


def coupled(tips, row_weights, weight):
    """Relative poses of each link and the next one."""
    return [
        IKObjectiveRelativePose(*pair, [0, 0, 0], [0, 0, 0, 1], row_weights=row_weights, weight=weight)
        for pair in pairwise(tips)
    ]


def coupled_fingers():
    """Four fingers of four joints, each held to the next by its tip."""
    robot = bare_robot("allegro")
    tips = [name for name in robot.link_names if name.endswith("_tip")]
    return robot, tips, coupled(tips, [1, 1, 1, 0, 0, 0], 0.05)


@pytest.mark.quick_cases("staged-arms", "staged-fingers")
@pytest.mark.parametrize(
    ("make_coupled", "trees"),
    [(coupled_arms, 2), (coupled_fingers, 4)],
    ids=["arms", "fingers"],
)
def test_trees_that_rows_couple_fully_are_the_dense_solve(make_coupled, trees):
    answers = []
    for islands in (True, False):
        robot, links, objectives = make_coupled()
        assert robot.trees.ntree == trees
        solver = cpu_solver(robot, links, objectives=objectives, islands=islands)
        positions = Reachable.draw(robot, links, 20, random_seed=9).positions
        options = {"seeds": 4, "position_tolerance": 0.02}
        answers.append(solver.solve(list(positions.swapaxes(0, 1)), [None] * len(links), options=options))
        assert (answers[-1].islands.nisland == 1).all()
        assert set(answers[-1].islands[0][0].joints) == set(robot.joint_names)
    assert (answers[0].cost > 0.0).all()
    assert np.ptp(answers[0].iterations) > 3
    for name in ("joint_q", "status", "iterations", "cost", "seed_index", "position_error"):
        np.testing.assert_array_equal(getattr(answers[0], name), getattr(answers[1], name), err_msg=name)


def dense_step(robot, problems, joint_q, damping):
    """One damped step of a whole system in float64, without limits, [n, joint_dof_count]."""
    poses, subspace = robot.forward_kinematics(joint_q, LINKS), robot.motion_subspace(joint_q)
    steps, norm2 = np.zeros((len(joint_q), 14)), np.zeros(2)
    for i in range(len(joint_q)):
        jacobian, residual = np.zeros((12, 14)), np.zeros(12)
        for k, own in enumerate((LEFT, RIGHT)):
            rows, turning = slice(6 * k, 6 * k + 3), slice(6 * k + 3, 6 * k + 6)
            goal = quaternion_conjugate(problems.orientations_xyzw[i, k])
            error = quaternion_multiply(poses.orientations_xyzw[i, k], goal)
            error *= np.sign(error[3])
            linear, angular = subspace[i, own, :3], subspace[i, own, 3:]
            jacobian[rows, own] = (linear + np.cross(angular, poses.positions[i, k])).T
            jacobian[turning, own] = ROTATION_LENGTH * (error[3] * angular + np.cross(angular, error[:3])).T
            residual[rows] = poses.positions[i, k] - problems.positions[i, k]
            residual[turning] = 2.0 * ROTATION_LENGTH * error[:3]
            norm2[k] = (residual[6 * k : 6 * k + 6] ** 2).sum()
        steps[i] = np.linalg.solve(jacobian.T @ jacobian + np.diag(damping(norm2)), -jacobian.T @ residual)
    return steps


@pytest.mark.evidence_cases("auto-False", "threads-False")
@pytest.mark.parametrize("islands", [True, False])
def test_one_step_equals_a_dense_system_solved_by_numpy(dual_panda, problems, islands):
    start = dual_panda.clamp_joint_q(problems.joint_q + 0.05).astype(np.float32)
    options = SolverOptions(seeds=1, max_iterations=1)
    solver = cpu_solver(dual_panda, LINKS, islands=islands, options=options)
    result = solver.solve(problems.positions, problems.orientations_xyzw, initial_joint_q=start)

    def damping(norm2):
        shared = norm2 if islands else np.full(2, norm2.sum())  # each island has a damping of its own
        return np.repeat(float(DAMPING_SHARE) * shared + float(DAMPING_MIN), 7)

    step = dense_step(dual_panda, problems, start.astype(np.float64), damping)
    taken = result.joint_q - start.astype(np.float64)
    free = ~result.active_limits.any(axis=1) & (result.iterations == 1) & (np.abs(taken).max(axis=1) > 0.0)
    inside = (start + step > dual_panda.joint_limit_lower) & (start + step < dual_panda.joint_limit_upper)
    free &= inside.all(axis=1)
    for own in (LEFT, RIGHT):  # a rejected step leaves its island where it was
        free &= np.abs(taken[:, own]).max(axis=1) > 0.0
    assert free.sum() > 50
    np.testing.assert_allclose(taken[free], step[free], atol=1e-3 * np.abs(step[free]).max())


@pytest.mark.evidence_cases("auto", "threads")
def test_a_coupling_row_joins_the_arms_and_weight_zero_parts_them(dual_panda):
    weights, target = np.ones((6, 6)), np.tile([0.45, 0.1, 0.5], (6, 1))
    weights[3:] = 0.0
    relative = IKObjectiveRelativePose(*LINKS, [0.0, 0.0, 0.3], [1.0, 0.0, 0.0, 0.0], row_weights=weights)
    result = make(dual_panda, LINKS[:1], objectives=[relative]).solve(target)
    assert result.islands.nisland.tolist() == [1] * 6
    assert result.success.all()
    poses = dual_panda.forward_kinematics(result.joint_q, LINKS).positions
    np.testing.assert_allclose(np.linalg.norm(poses[:3, 0] - poses[:3, 1], axis=1), 0.3, atol=1e-3)
    np.testing.assert_allclose(poses[:, 0], target, atol=1e-3)
    assert set(result.islands[0][0].joints) == set(dual_panda.joint_names)
    assert set(result.islands[0][0].rows) == {"target left_panda_hand", "IKObjectiveRelativePose"}
    assert all(name.startswith("left") for name in result.islands[3][0].joints)
    start = dual_panda.mid_joint_q.astype(np.float32)[RIGHT]
    np.testing.assert_array_equal(result.joint_q[3:, RIGHT], np.tile(start, (3, 1)))
    given = [target, target + np.array([0.0, 0.0, 0.3])], [None, None]
    both = make(dual_panda, objectives=[relative.unbound_copy()]).solve(*given)
    assert both.islands.nisland.tolist() == [1, 1, 1, 2, 2, 2]


def test_objectives_that_state_no_support_are_probed(dual_panda):
    arms = [
        QuickObjective(dual_panda.link_frame(link)[0], [[0.4, y, 0.5]])
        for link, y in zip(LINKS, (0.3, -0.3), strict=True)
    ]
    result = make(dual_panda, (), objectives=arms).solve(problem_count=1)
    assert result.islands.nisland.tolist() == [2]
    assert result.success.all()


@wp.kernel
def _keep_apart(body_q: wp.array2d[wp.transform], a: int, b: int, start_idx: int, residuals: wp.array2d[float]):
    i = wp.tid()
    gap = wp.length(wp.transform_get_translation(body_q[i, a]) - wp.transform_get_translation(body_q[i, b]))
    residuals[i, start_idx] = wp.max(0.0, 0.1 - gap)


class KeepApart(IKObjective):
    """A penalty that random configurations hardly ever show: two wrists closer than 10 cm."""

    def __init__(self, a, b):
        self.bodies = (a, b)

    def residual_dim(self):
        return 1

    def compute_residuals(self, body_q, joint_q, model, residuals, start_idx, problem_idx):
        inputs = [body_q, *self.bodies, start_idx]
        wp.launch(_keep_apart, dim=body_q.shape[0], inputs=inputs, outputs=[residuals], device=body_q.device)


@pytest.mark.evidence
def test_a_dependence_that_probing_missed_is_found_while_solving(dual_panda):
    meeting = [IKObjectivePosition(link, [0.45, 0.0, 0.5]) for link in LINKS]
    apart = KeepApart(*(dual_panda.link_frame(link)[0] for link in LINKS))
    solver = make(dual_panda, (), objectives=[*meeting, apart])
    result = solver.solve(problem_count=1)
    assert result.islands.nisland.tolist() == [1]
    wrists = dual_panda.body_poses(result.joint_q)[0, list(apart.bodies), :3]
    hands = dual_panda.forward_kinematics(result.joint_q, LINKS).positions[0]
    assert np.linalg.norm(hands[0] - hands[1]) < 0.1
    assert np.linalg.norm(wrists[0] - wrists[1]) > 0.03  # pushed apart by the penalty
