"""The compiled engine: the answers of the staged one, at its own pace."""

import numpy as np
import pytest
import warp as wp

from ik_service import EngineError, SolverOptions, Target
from ik_service.robots import load_urdf
from ik_service.solver.compiled import island_launches
from objectives import IKObjectivePosition, IKObjectiveRelativePose
from tests.solver.conftest import Reachable, bare_robot, cpu_solver, inside_limits
from tests.solver.quick_objective import QuickObjective

pytestmark = pytest.mark.usefixtures("each_kernel")

POSITION, ORIENTATION = 1e-3, 1e-2
SAME_SEEDS = 0.95  # of the problems
DIFFERENT_AT_MOST = 0.002  # of the problems may be solved by one engine alone
ROBOTS = {
    "panda": ["panda_hand"],
    "ur5e": ["tool0"],
    "iiwa14": ["iiwa_link_ee"],
    "dual_panda": ["left_panda_hand", "right_panda_hand"],
    "panda_gripper": ["panda_hand"],
}
LINKS = ROBOTS["dual_panda"]
LIMBS = ["left_grasp", "right_grasp", "left_sole", "right_sole", "head"]


def serial_chain(count):
    """A chain of revolute joints."""
    joints = [
        f'<link name="link{k + 1}"/><joint name="joint{k}" type="revolute"><parent link="link{k}"/>'
        f'<child link="link{k + 1}"/><origin xyz="0 0 0.1"/><axis xyz="{k % 2} {1 - k % 2} 0"/>'
        '<limit lower="-2" upper="2" effort="1" velocity="1"/></joint>'
        for k in range(count)
    ]
    return load_urdf(f'<robot name="chain"><link name="link0"/>{"".join(joints)}</robot>')


def make(robot, links, engine="compiled", **arguments):
    options = arguments.pop("options", SolverOptions(seeds=16))
    return cpu_solver(robot, links, engine=engine, options=options, **arguments)


@pytest.mark.quick_cases("packets-panda", "packets-ur5e", "packets-dual_panda", "packets-panda_gripper")
@pytest.mark.parametrize("name", ROBOTS)
def test_both_engines_solve_the_same_problems(name):
    problems = Reachable.draw(bare_robot(name), ROBOTS[name], 500, random_seed=2)
    answers = {}
    for engine in ("compiled", "staged"):
        solver = make(problems.robot, ROBOTS[name], engine)
        assert solver.engine == engine
        result = answers[engine] = solver.solve(problems.positions, problems.orientations_xyzw)
        distance, angle = problems.errors(result.joint_q)
        np.testing.assert_array_equal(result.success, ((distance <= POSITION) & (angle <= ORIENTATION)).all(axis=1))
        assert inside_limits(problems.robot, result.joint_q).all()
        assert result.success.mean() >= 0.99
    compiled, staged = answers["compiled"], answers["staged"]
    assert (compiled.success != staged.success).mean() <= DIFFERENT_AT_MOST
    # One walks through what is worse and the other does not, so that some seeds lead elsewhere.
    assert (compiled.islands.seed_index == staged.islands.seed_index).mean() >= SAME_SEEDS
    assert compiled.engine == "compiled"


@pytest.fixture(scope="module")
def dual():
    return Reachable.draw(bare_robot("dual_panda"), LINKS, 60, random_seed=7)


@pytest.mark.evidence_cases("threads")
def test_alone_in_a_batch_and_permuted_give_the_same_bytes(dual):
    solver = make(dual.robot, LINKS)
    together = solver.solve(dual.positions, dual.orientations_xyzw)
    assert (together.seed_index != 0).any()
    order = np.random.default_rng(0).permutation(60)
    permuted = solver.solve(dual.positions[order], dual.orientations_xyzw[order])
    np.testing.assert_array_equal(permuted.joint_q, together.joint_q[order])
    for k in (0, 13, 59):
        alone = solver.solve(dual.positions[k : k + 1], dual.orientations_xyzw[k : k + 1])
        np.testing.assert_array_equal(alone.joint_q[0], together.joint_q[k])
    again = make(dual.robot, LINKS).solve(dual.positions, dual.orientations_xyzw)
    np.testing.assert_array_equal(again.joint_q, together.joint_q)


@pytest.mark.evidence_cases("threads")
def test_an_arm_gets_the_answer_that_it_gets_alone(dual):
    solver = make(dual.robot, LINKS)
    together = solver.solve(dual.positions, dual.orientations_xyzw)
    left = solver.solve([dual.positions[:, 0], None], [dual.orientations_xyzw[:, 0], None])
    np.testing.assert_array_equal(left.joint_q[:, :7], together.joint_q[:, :7])
    start = np.tile(dual.robot.mid_joint_q.astype(np.float32)[7:], (60, 1))
    np.testing.assert_array_equal(left.joint_q[:, 7:], start)


@pytest.mark.evidence
def test_a_batch_with_several_partitions_is_grouped(dual):
    weights = np.ones((6, 6))
    weights[::2] = 0.0
    relative = IKObjectiveRelativePose(*LINKS, [0.0, 0.0, 0.3], [1.0, 0.0, 0.0, 0.0], row_weights=weights)
    target = np.tile([0.45, 0.1, 0.5], (6, 1))
    solver = make(dual.robot, ["left_panda_hand"], objectives=[relative])
    result = solver.solve(target)
    assert result.success.all()
    poses = dual.robot.forward_kinematics(result.joint_q, LINKS).positions
    np.testing.assert_allclose(np.linalg.norm(poses[1::2, 0] - poses[1::2, 1], axis=1), 0.3, atol=2e-3)
    np.testing.assert_allclose(poses[:, 0], target, atol=1e-3)
    start = np.tile(dual.robot.mid_joint_q.astype(np.float32)[7:], (3, 1))
    np.testing.assert_array_equal(result.joint_q[::2, 7:], start)
    assert len(result.islands[1][0].joints) == 14


@pytest.mark.evidence_cases("threads")
def test_data_and_budgets_compile_nothing(panda, panda_targets, monkeypatch):
    solver = make(panda, ["panda_hand"])
    solver.solve(panda_targets.positions, panda_targets.orientations_xyzw)
    for name in ("packet_kernel", "thread_kernel"):
        monkeypatch.setattr(island_launches, name, lambda *_: pytest.fail("compiled again"))
    near = panda_targets.joint_q + 0.01
    changed = {"seeds": 3, "max_iterations": 11, "position_tolerance": 1e-4, "random_seed": 5}
    few = solver.solve(
        panda_targets.positions[:5], panda_targets.orientations_xyzw[:5], initial_joint_q=near[:5], options=changed
    )
    assert len(few) == 5
    assert (few.seed_index < 3).all()
    assert (few.iterations <= 11).all()


@pytest.mark.evidence_cases("threads-compiled")
@pytest.mark.parametrize("engine", ["compiled", "staged"])
def test_views_of_one_buffer_are_told_apart_by_their_lines(panda, engine):
    joint_q = panda.random_joint_q(np.random.default_rng(3), 7)
    wanted = panda.forward_kinematics(joint_q, links=["panda_hand"]).positions[:, 0]
    buffer = wp.array(wanted, dtype=wp.vec3, device="cpu")
    hand = IKObjectivePosition("panda_hand", buffer[:1])
    solver = cpu_solver(panda, objectives=[hand], engine=engine)
    for count, lines in ((7, slice(1)), (7, slice(7)), (5, slice(5)), (7, slice(7)), (3, slice(0, 6, 2))):
        hand.set_data("target_positions", buffer[lines])
        result = solver.solve(problem_count=count)
        reached = panda.forward_kinematics(result.joint_q, links=["panda_hand"]).positions[:, 0]
        assert result.success.all()
        assert np.linalg.norm(reached - wanted[lines], axis=1).max() < POSITION


@pytest.mark.evidence
@pytest.mark.parametrize("each_kernel", ["packets"], indirect=True)  # threads hold smaller islands
def test_a_humanoid_places_hands_feet_and_head_at_once():
    """34 DOFs in one island, its base among them."""
    problems = Reachable.draw(bare_robot("humanoid"), LIMBS, 300, random_seed=3)
    result = make(problems.robot, LIMBS, options=None).solve(problems.positions, problems.orientations_xyzw)
    distance, angle = problems.errors(result.joint_q)
    np.testing.assert_array_equal(result.success, ((distance <= POSITION) & (angle <= ORIENTATION)).all(axis=1))
    assert inside_limits(problems.robot, result.joint_q).all()
    assert result.success.mean() >= 0.99
    assert {len(islands) for islands in result.islands} == {1}


@pytest.mark.evidence_cases("threads")
def test_statuses_of_what_cannot_be_reached(planar_2r):
    far = make(planar_2r(), ["tip"]).solve([[3.0, 4.0, 0.0], [1.0, 1.0, 0.0]])
    assert far.success.tolist() == [False, True]
    assert far.position_error[0, 0] == pytest.approx(3.0, abs=1e-3)
    bent = planar_2r(elbow_lower=0.5, elbow_upper=2.0)
    blocked = make(bent, ["tip"]).solve([[2.0, 0.0, 0.0]])
    assert blocked.status_names == ["blocked_by_limits"]
    assert blocked.active_limits[0].tolist() == [False, True]


def test_a_problem_that_is_not_covered_is_refused_with_the_reason(panda, each_kernel):
    with pytest.raises(EngineError, match=r"island has 220 DOFs.*1341 entries.*engine='staged'"):
        make(serial_chain(220), ["link220"])
    if each_kernel == "threads":
        with pytest.raises(EngineError, match=r"60 DOFs.* entries; it holds 310.*engine='staged'"):
            make(serial_chain(60), ["link60"])
    end = IKObjectivePosition("link60", [1.0, 0.0, 1.0])
    with pytest.raises(EngineError, match=r"island has 60 DOFs.*1830 entries"):  # without targets all of J'J
        make(serial_chain(60), (), objectives=[end])
    quick = QuickObjective(panda.link_frame("panda_hand")[0], [(0.3, 0.2, 0.5)])
    with pytest.raises(EngineError, match="QuickObjective is not stated as expressions"):
        make(panda, (), objectives=[quick])


@pytest.mark.evidence_cases("packets-float64", "threads-float32", "threads-float64")
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_a_further_solver_of_an_equal_signature_generates_no_code(precision, monkeypatch):
    options = SolverOptions(precision=precision)
    make(bare_robot("panda"), ["panda_hand"], options=options).solve([[0.4, 0.1, 0.5]])
    monkeypatch.setattr(island_launches, "build_program", None)
    weighted = Target("panda_hand", row_weights=[1.0, 2.0, 3.0, 1.0, 1.0, 1.0])
    again = make(bare_robot("panda"), [weighted], options=options, threads=2)
    assert again.solve([[0.3, 0.2, 0.5]]).success.all()
