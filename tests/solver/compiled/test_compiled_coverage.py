"""The compiled engine on every robot and kind of problem that it covers: the staged engine's answers, judged apart."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from ik_service import SolverOptions, load_robot
from ik_service.robots import JointType
from tests.foreign_robots import EXAMPLE, installed
from tests.solver.conftest import POSITION, Reachable, bare_robot, cpu_solver, inside_limits

COUNT = 500  # problems per robot
DIFFERENT_AT_MOST = 0.002  # of all problems together, as the design has it
SEEDS = 16
QUICK = "panda", "ur5e", "iiwa14", "dual_panda"
SAME_SEEDS = 0.95  # of the islands
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


def by_engine(engine, robot, targets, values):
    solver = cpu_solver(robot, targets, engine=engine)
    result = solver.solve(*values, **first_start(robot), options={"seeds": SEEDS})
    assert solver.engine == result.engine == engine
    assert inside_limits(robot, result.joint_q).all()
    assert np.isfinite(result.joint_q).all()
    return result


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


def test_soft_limits_are_rows_of_the_island(panda, panda_targets):
    options = SolverOptions(seeds=SEEDS, joint_limits="soft")
    solvers = [cpu_solver(panda, ["panda_hand"], engine=engine, options=options) for engine in ("compiled", "staged")]
    compiled, staged = (solver.solve(*panda_targets.targets) for solver in solvers)
    require_same_successes(compiled, staged)
    assert compiled.success.mean() >= 0.95
    assert 0 < (~inside_limits(panda, compiled.joint_q)).sum() < 100  # a little outside, some of them
