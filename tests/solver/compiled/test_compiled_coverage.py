"""The compiled engine on every robot and kind of problem that it covers: the staged engine's answers, judged apart."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from ik_service import SolverOptions, Target, load_robot
from ik_service.mechanism.transforms import quaternion_conjugate, quaternion_exp, quaternion_multiply, quaternion_rotate
from ik_service.robots import JointType
from objectives import IKObjectiveLookAt, IKObjectivePosture
from tests.foreign_robots import EXAMPLE, installed
from tests.objectives.conftest import scene
from tests.solver.conftest import ORIENTATION, POSITION, Reachable, bare_robot, cpu_solver, inside_limits, use_threads

COUNT = 500  # problems per robot
DIFFERENT_AT_MOST = 0.002  # of all problems together, as the design has it
SEEDS = 16
QUICK = "panda", "ur5e", "iiwa14", "dual_panda"
SAME_SEEDS = 0.95  # of the islands
FINISHED = 1e-9  # [m or rad] of answers in float64
BORDER = 1e-9  # float64 errors by two ways of reckoning


@dataclass(frozen=True)
class Case:
    """A robot, its links, and the least share of problems that must be solved."""

    load: object
    links: tuple[str, ...]
    least: float = 0.99
    oriented: bool = True


def builtin(name, *links, **options):
    return Case(lambda: bare_robot(name), links, **options)


def foreign(file, *links, distribution=EXAMPLE, floating_base=False, **options):
    return Case(lambda: load_robot(installed(distribution, file), floating_base=floating_base), links, **options)


def locked_base(robot):
    return robot.lock({"floating_base": robot.mid_joint_q[:7]})


CASES = {
    "panda": builtin("panda", "panda_hand", least=0.995),
    "ur5e": builtin("ur5e", "tool0", least=0.995),
    "iiwa14": builtin("iiwa14", "iiwa_link_ee", least=0.995),
    "dual_panda": builtin("dual_panda", "left_panda_hand", "right_panda_hand"),
    "panda_gripper": builtin("panda_gripper", "panda_rightfinger"),  # behind a follower
    "allegro": builtin("allegro", "link_3.0_tip", "link_15.0_tip", oriented=False),
    "humanoid": builtin("humanoid", "left_grasp"),  # with its floating base
    "standing humanoid": Case(lambda: locked_base(bare_robot("humanoid")), ("left_sole", "left_grasp")),
    "ur5": foreign("ur_description/urdf/ur5_robot.urdf", "tool0"),
    "xarm7": foreign("xarm_description/urdf/xarm7.urdf", "link_eef"),
    "kinova": foreign("kinova_description/robots/kinova.urdf", "j2s6s200_link_finger_tip_1"),
    "baxter": foreign("baxter_description/urdf/baxter.urdf", "left_gripper", "right_gripper"),
    "solo12": foreign("solo_description/robots/solo12.urdf", "FL_FOOT", "HR_FOOT", oriented=False),
    "centauro": foreign("centauro_description/urdf/centauro.urdf", "ball1_tip", "ball2_tip", least=0.93),  # one island
    "romeo": foreign("romeo_description/urdf/romeo.urdf", "l_sole"),
    "iiwa14 of frax": foreign("assets/iiwa/iiwa14.urdf", "iiwa_link_7", distribution="frax"),
    "g1": foreign("assets/unitree_g1/g1_29dof_rev_1_0.urdf", "left_rubber_hand", distribution="frax"),
    "pr2": foreign("pr2_description/urdf/pr2.urdf", "r_gripper_tool_frame"),
    "talos": foreign("talos_data/robots/talos_full_v2.urdf", "left_sole_link"),
    "flying icub": foreign("icub_description/robots/icub.urdf", "l_sole", floating_base=True),
}


def first_start(robot):
    """Where a floating base starts: by itself it would be where its target asks for it, and nothing left to do."""
    floats = JointType.FLOATING in robot.joint_type and robot.dof_active[0] >= 0
    return {"initial_joint_q": robot.mid_joint_q} if floats else {}


def by_engine(engine, robot, targets, values, objectives=list, options=None, **solve):
    solver = cpu_solver(robot, targets, objectives=objectives(), engine=engine, options=options)
    result = solver.solve(*values, **(solve or first_start(robot)), options={"seeds": SEEDS})
    assert solver.engine == result.engine == engine
    assert inside_limits(robot, result.joint_q).all()
    assert np.isfinite(result.joint_q).all()
    return result


def both_engines(*case, **arguments):
    """Results of both, which solve the same problems."""
    compiled, staged = (by_engine(engine, *case, **arguments) for engine in ("compiled", "staged"))
    require_same_successes(compiled, staged)
    return compiled, staged


def of_first_priority(objective):
    objective.priority = 0
    return objective


def require_same_successes(compiled, staged):
    different = compiled.success != staged.success
    more = compiled.success & (compiled.seed_index == -1)  # by starts that the staged engine does not have
    assert (different & ~more).mean() <= DIFFERENT_AT_MOST


@cache
def outcome(name):
    case = CASES[name]
    problems = Reachable.draw(case.load(), list(case.links), COUNT, random_seed=2)
    values = problems.positions, problems.orientations_xyzw if case.oriented else None
    return problems, *(by_engine(engine, problems.robot, problems.links, values) for engine in ("compiled", "staged"))


@pytest.mark.quick_cases(*QUICK)
@pytest.mark.parametrize("name", CASES)
def test_reachable_targets_are_solved_inside_the_limits_and_judged_rightly(name):
    """No success is false, and none withheld; the engines walk through what is worse, or do not."""
    case, (problems, compiled, staged) = CASES[name], outcome(name)
    for result in (compiled, staged):
        distance, angle = problems.errors(result.joint_q)
        within = problems.met(result.joint_q) if case.oriented else (distance <= POSITION).all(axis=1)
        np.testing.assert_array_equal(result.success, within)
        assert within.mean() >= case.least
        np.testing.assert_allclose(result.position_error, distance, rtol=0.0, atol=BORDER)
        if case.oriented:
            np.testing.assert_allclose(result.orientation_error, angle, rtol=0.0, atol=BORDER)
    drawn = compiled.seed_index >= 0  # other attempts begin at a solution
    assert (compiled.iterations[drawn] == 0).sum() <= 0.01 * len(drawn)
    if name in QUICK:
        require_same_successes(compiled, staged)
        other = compiled.islands.seed_index != staged.islands.seed_index
        assert (other & (compiled.islands.seed_index >= 0)).mean() <= 1.0 - SAME_SEEDS


@pytest.mark.evidence
def test_both_engines_solve_the_same_problems_of_all_robots():
    """The same seed wins in nearly all islands, and the compiled engine takes no more iterations."""
    different = [outcome(name)[1].success != outcome(name)[2].success for name in CASES]
    assert sum(map(len, different)) == COUNT * len(CASES) >= 16 * 500
    assert np.concatenate(different).mean() <= DIFFERENT_AT_MOST
    assert not all(outcome(name)[1].success.all() for name in CASES)  # some problems are hard
    for name in CASES:
        _, compiled, staged = outcome(name)
        both = compiled.success & staged.success
        seeds = compiled.islands.seed_index[both]
        same = (seeds == staged.islands.seed_index[both]) | (seeds == -1)  # a branch, which the staged engine lacks
        assert same.mean() >= SAME_SEEDS, name
        assert compiled.iterations[both].mean() <= staged.iterations[both].mean() + 0.5, name


@dataclass(frozen=True)
class Kind:
    """Targets of a robot: how each is declared, and whether its position and orientation are given."""

    robot: str
    targets: tuple[dict, ...]
    given: str = "both"
    least: float = 0.99


PER_PROBLEM = np.random.default_rng(5)
OFFSETS = np.hstack([PER_PROBLEM.uniform(-0.2, 0.2, (COUNT, 3)), quaternion_exp(PER_PROBLEM.normal(size=(COUNT, 3)))])
WEIGHTS = 10.0 ** PER_PROBLEM.uniform(-1.0, 0.5, (COUNT, 6))
SWITCHED = WEIGHTS * np.where(np.arange(COUNT)[:, None] % 2 == 0, 1.0, [1.0, 1.0, 1.0, 0.0, 1.0, 0.0])
KINDS = {
    "position": Kind("panda", ({"link": "panda_hand"},), "position"),
    "rotation": Kind("panda", ({"link": "panda_hand"},), "rotation"),
    "a tool of every problem": Kind("panda", ({"link": "panda_hand", "offset": OFFSETS},)),
    "weights of every problem": Kind("panda", ({"link": "panda_hand", "row_weights": WEIGHTS},), least=0.95),
    "axes of some problems free": Kind("panda", ({"link": "panda_hand", "row_weights": SWITCHED},), least=0.95),
    "seen from the other arm": Kind("dual", ({"link": "left_panda_hand", "reference_link": "right_panda_hand"},)),
    "seen from a link of the arm": Kind("panda", ({"link": "panda_hand", "reference_link": "panda_link2"},)),
    "two targets of one arm": Kind("panda", ({"link": "panda_link4"}, {"link": "panda_hand"}), "position"),
    "floating and planar": Kind("floating", ({"link": "d", "offset": OFFSETS},)),
    "floating and ball": Kind("floating", ({"link": "d"}, {"link": "f"})),
    "floating, seen from a moving link": Kind("floating", ({"link": "d", "reference_link": "f"},)),
    "mimic, ball and prismatic": Kind("two trees", ({"link": "l_tool"}, {"link": "r_tool"})),
    "planar alone": Kind("locked base", ({"link": "d"},)),
    "ball locked": Kind("locked middle", ({"link": "f"},), "position"),
}


@cache
def kind_robot(name):
    floating = scene("floating").robot
    if name in ("panda", "dual"):
        return load_robot({"dual": "dual_panda"}.get(name, name), collision="ignore")
    if name == "two trees":
        return scene("two_trees").robot
    base = [0.3, -0.2, 0.5, *quaternion_exp(np.array([0.4, 1.0, -0.3]))]
    locked = {"locked base": {"base": base}, "locked middle": {"round": [0.0, 0.6, 0.0, 0.8], "lift": 0.1}}
    return floating.lock(locked[name]) if name in locked else floating


def seen_poses(robot, joint_q, target):
    """Positions and orientations of a target's frame as it is to be given, in float64."""
    links = [target["link"], target.get("reference_link", target["link"])]
    poses = robot.forward_kinematics(joint_q, links)
    position, turn = poses.positions[:, 0], poses.orientations_xyzw[:, 0]
    if "offset" in target:
        position = position + quaternion_rotate(turn, target["offset"][:, :3])
        turn = quaternion_multiply(turn, target["offset"][:, 3:])
    if "reference_link" in target:
        back = quaternion_conjugate(poses.orientations_xyzw[:, 1])
        position = quaternion_rotate(back, position - poses.positions[:, 1])
        turn = quaternion_multiply(back, turn)
    return position, turn


def weighted_errors(robot, joint_q, target, position, orientation):
    """Distance [m] and angle [rad] over the axes that have weight, [n] each."""
    mask = np.broadcast_to(target.get("row_weights", np.ones(6)), (len(joint_q), 6)) > 0.0
    at, turn = seen_poses(robot, joint_q, target)
    error = quaternion_multiply(turn, quaternion_conjugate(orientation))
    error *= np.where(error[:, 3:] < 0.0, -1.0, 1.0)
    distance = np.linalg.norm((at - position) * mask[:, :3], axis=1)
    chord = np.linalg.norm(2.0 * error[:, :3] * mask[:, 3:], axis=1)
    return distance, 2.0 * np.arcsin(np.minimum(0.5 * chord, 1.0))


def drawn(kind, seed=3):
    """The robot of a kind, and reachable positions and orientations of each of its targets."""
    robot = kind_robot(kind.robot)
    joint_q = robot.random_joint_q(np.random.default_rng(seed), COUNT)
    poses = [seen_poses(robot, joint_q, target) for target in kind.targets]
    return robot, [position for position, _ in poses], [turn for _, turn in poses]


def within_tolerances(robot, kind, joint_q, positions, orientations):
    within = np.ones(COUNT, dtype=bool)
    for target, position, orientation in zip(kind.targets, positions, orientations, strict=True):
        distance, angle = weighted_errors(robot, joint_q, target, position, orientation)
        within &= (distance <= POSITION) | (kind.given == "rotation")
        within &= (angle <= ORIENTATION) | (kind.given == "position")
    return within


def values_of(kind, positions, orientations):
    return positions if kind.given != "rotation" else None, orientations if kind.given != "position" else None


@pytest.mark.quick_cases("position", "weights of every problem")
@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_target_is_solved_as_the_staged_engine_does(name, monkeypatch):
    kind = KINDS[name]
    robot, positions, orientations = drawn(kind)
    values, targets = values_of(kind, positions, orientations), [Target(**target) for target in kind.targets]
    results = list(both_engines(robot, targets, values))
    if name in ("axes of some problems free", "planar alone"):
        use_threads(monkeypatch)
        results.append(by_engine("compiled", robot, targets, values))
    for result in (results[0], *results[2:]):
        within = within_tolerances(robot, kind, result.joint_q, positions, orientations)
        np.testing.assert_array_equal(result.success, within)
        assert within.mean() >= kind.least
        assert (result.iterations > 0).mean() > 0.9
        if kind.given != "both":
            free = result.position_error if kind.given == "rotation" else result.orientation_error
            assert np.isnan(free).all()


@pytest.mark.evidence
def test_a_posture_beside_a_target_is_weighed_alike(panda, panda_targets):
    def objectives():
        return [of_first_priority(IKObjectivePosture(panda.mid_joint_q, weight=1e-3))]

    compiled, staged = both_engines(panda, ["panda_hand"], panda_targets.targets, objectives)
    panda_targets.check_honest(compiled)
    assert compiled.success.mean() >= 0.95
    same = (compiled.seed_index == staged.seed_index) & compiled.success & staged.success
    assert same.sum() >= 100
    assert np.median(np.abs(compiled.cost[same] / staged.cost[same] - 1.0)) < 1e-4
    assert (staged.cost[same] > 1e-8).all()  # of the posture


@pytest.mark.evidence
def test_a_posture_of_ball_and_floating_joints_is_reached():
    robot = scene("floating").robot
    reference = robot.random_joint_q(np.random.default_rng(8), 40)
    assert np.ptp(reference, axis=0).min() > 0.1
    own = robot.dof_coordinate[robot.dof_coordinate >= 0]
    for result in both_engines(robot, (), (), lambda: [IKObjectivePosture(reference)], problem_count=40):
        assert result.success.all()
        np.testing.assert_allclose(result.joint_q[:, own], reference[:, own], atol=1e-4)
        for first in (3, 13):  # the same rotation up to the sign of its quaternion
            dot = (result.joint_q[:, first : first + 4] * reference[:, first : first + 4]).sum(axis=1)
            np.testing.assert_allclose(np.abs(dot), 1.0, atol=1e-6)


@pytest.mark.evidence
def test_looking_at_a_point_from_a_place(panda):
    problems = Reachable.draw(panda, ["panda_hand"], COUNT, random_seed=6)
    forward = np.tile([0.0, 0.0, 1.0], (COUNT, 1))
    points = problems.positions[:, 0] + 0.7 * quaternion_rotate(problems.orientations_xyzw[:, 0], forward)

    def bent(result):
        poses = panda.forward_kinematics(result.joint_q, ["panda_hand"])
        arm = points - poses.positions[:, 0]
        pointing = quaternion_rotate(poses.orientations_xyzw[:, 0], forward)
        return np.linalg.norm(pointing - arm / np.linalg.norm(arm, axis=1, keepdims=True), axis=1)

    compiled, staged = both_engines(
        panda,
        ["panda_hand"],
        (problems.positions,),
        lambda: [of_first_priority(IKObjectiveLookAt("panda_hand", points))],
    )
    reached = problems.errors(compiled.joint_q)[0][:, 0] <= POSITION
    np.testing.assert_array_equal(compiled.success, reached)
    assert reached.mean() >= 0.99
    assert (bent(compiled) < ORIENTATION).mean() >= 0.9
    assert ((bent(compiled) < ORIENTATION) == (bent(staged) < ORIENTATION)).mean() >= 0.95


def test_soft_limits_are_rows_of_the_island(panda, panda_targets):
    options = SolverOptions(seeds=SEEDS, joint_limits="soft")
    solvers = [cpu_solver(panda, ["panda_hand"], engine=engine, options=options) for engine in ("compiled", "staged")]
    compiled, staged = (solver.solve(*panda_targets.targets) for solver in solvers)
    require_same_successes(compiled, staged)
    assert compiled.success.mean() >= 0.95
    assert 0 < (~inside_limits(panda, compiled.joint_q)).sum() < 100  # a little outside, some of them


@pytest.mark.evidence
@pytest.mark.parametrize("name", ["seen from a link of the arm", "seen from the other arm"])
def test_answers_in_float64_are_finished(name):
    kind = KINDS[name]
    robot, positions, orientations = drawn(kind)
    options = SolverOptions(precision="float64")
    result = by_engine("compiled", robot, [Target(**kind.targets[0])], (positions, orientations), options=options)
    assert result.joint_q.dtype == np.float64
    errors = weighted_errors(robot, result.joint_q, kind.targets[0], positions[0], orientations[0])
    finished = np.maximum(*errors)[result.success] < FINISHED
    assert finished.mean() >= 0.99  # one that ends against a limit stays there
    assert result.success.mean() >= kind.least
