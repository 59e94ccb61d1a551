"""Limits of one solve: narrower ranges, joints that stay and largest changes, problem by problem, as data."""

import numpy as np
import pytest

from ik_service import IKSolver, SolverOptions, Target, load_robot
from ik_service.kernels.kernel_loading import CachedModule
from ik_service.robots import load_urdf
from objectives import IKObjectivePosture, InputError, UnknownNameError
from tests.solver.conftest import EACH_ENGINE, STAGED_QUICK, Reachable, cpu_solver

COUNT = 60
ENGINES = ("compiled", "staged")
ENDLESS = """
<robot name="endless">
  <link name="base"/><link name="turn"/><link name="arm"/><link name="tip"/>
  <joint name="waist" type="continuous"><parent link="base"/><child link="turn"/><axis xyz="0 0 1"/></joint>
  <joint name="slide" type="prismatic"><parent link="turn"/><child link="arm"/><axis xyz="1 0 0"/>
    <limit lower="0.2" upper="1" effort="1" velocity="1"/></joint>
  <joint name="jaw" type="prismatic"><parent link="arm"/><child link="tip"/><axis xyz="0 0 1"/>
    <limit lower="-1" upper="1" effort="1" velocity="1"/><mimic joint="slide" multiplier="-0.5" offset="0.1"/></joint>
</robot>"""


@pytest.fixture(scope="module")
def reachable(panda):
    return Reachable.draw(panda, ["panda_hand"], COUNT)


@pytest.fixture(scope="module")
def solvers(panda):
    return {name: cpu_solver(panda, ["panda_hand"], engine=name) for name in ENGINES}


def solve(solver, given, **arguments):
    return solver.solve(*given.targets, **arguments)


def near(reachable, by=0.15):
    robot, shift = reachable.robot, np.random.default_rng(3).uniform(-by, by, reachable.joint_q.shape)
    return np.clip(reachable.joint_q + shift, robot.joint_limit_lower, robot.joint_limit_upper)


@EACH_ENGINE
def test_answers_are_within_the_limits_of_each_problem_exactly(solvers, reachable, engine):
    lower, upper = reachable.joint_q - 0.1, reachable.joint_q + 0.2
    found = solve(solvers[engine], reachable, joint_limits=(lower, upper))
    free = solve(solvers[engine], reachable)
    assert found.success.all()
    q = found.joint_q.astype(np.float64)
    assert ((q >= lower) & (q <= upper)).all()
    assert ((free.joint_q >= lower) & (free.joint_q <= upper)).all(axis=1).mean() < 0.1
    assert max(error.max() for error in reachable.errors(found.joint_q)) < 1e-2
    margin = np.minimum(found.joint_q - lower, upper - found.joint_q).min(axis=1)
    assert (found.limit_margin <= margin + 1e-6).all()


@EACH_ENGINE
def test_frozen_joints_stay_to_the_bit(solvers, panda, reachable, engine):
    start, stays = near(reachable), np.arange(COUNT) % 2 == 0
    start[:, 2] = reachable.joint_q[:, 2]
    rounded = start.astype(np.float32)
    some, third, every = (
        solve(solvers[engine], reachable, initial_joint_q=start, frozen=frozen)
        for frozen in ({"panda_joint3": stays}, ["panda_joint3"], np.ones((COUNT, 7), dtype=bool))
    )
    assert some.success.all()
    np.testing.assert_array_equal(some.joint_q[:, 2] == rounded[:, 2], stays)
    np.testing.assert_array_equal(third.joint_q[:, 2], rounded[:, 2])
    given = {"frozen": ["panda_joint3"], "joint_limits": {"panda_joint3": (2.7, 2.8)}}  # which holds nearly no start
    found = solve(solvers[engine], reachable, initial_joint_q=start, **given)
    np.testing.assert_array_equal(found.joint_q[:, 2], rounded[:, 2])
    inside = (start > panda.joint_limit_lower) & (start < panda.joint_limit_upper)  # limits are rounded inwards
    np.testing.assert_array_equal(every.joint_q[inside], rounded[inside])
    assert np.isnan(every.limit_margin).all()
    assert not every.active_limits.any()


def test_a_name_freezes_its_own_joint_and_none_that_begins_like_it():
    robot = load_urdf(ENDLESS.replace('"slide"', '"waist/slide"'))
    target = robot.forward_kinematics([[0.3, 0.8, -0.3]], ["tip"]).positions[:, 0]
    found = IKSolver(robot, ["tip"]).solve(target, initial_joint_q=[[0.1, 0.5, -0.15]], frozen=["waist"])
    waist, slide = (robot.coordinate_names.index(name) for name in ("waist", "waist/slide"))
    assert found.joint_q[0, waist] == np.float32(0.1)
    assert found.joint_q[0, slide] != np.float32(0.5)


def test_the_order_of_joints_changes_nothing(panda, solvers, reachable):
    start, frozen = near(reachable), np.zeros((COUNT, 7), dtype=bool)
    start[::3, 6] = reachable.joint_q[::3, 6]
    frozen[::3, 6] = True
    limits, own = (reachable.joint_q - 0.3, reachable.joint_q + 0.3), {"max_change": 0.25}
    given = {"joint_limits": limits, "frozen": frozen, "initial_joint_q": start}
    expected = solve(solvers["compiled"], reachable, **given, **own)
    turned = cpu_solver(panda, ["panda_hand"], joint_order=panda.joint_names[::-1])
    given = {
        "joint_limits": [one[:, ::-1] for one in limits],
        "frozen": frozen[:, ::-1],
        "initial_joint_q": start[:, ::-1],
    }
    assert solve(turned, reachable, **given, **own).joint_q[:, ::-1].tobytes() == expected.joint_q.tobytes()


@STAGED_QUICK
def test_joints_without_limits_and_followers_have_them_for_a_solve(engine):
    robot = load_urdf(ENDLESS)
    solver = cpu_solver(robot, ["arm"], engine=engine)
    place = [[0.6 * np.cos(5.0), 0.6 * np.sin(5.0), 0.0]]
    turned = solver.solve(place, joint_limits={"waist": (4.5, 5.5)})
    assert turned.success.all()
    assert turned.joint_q[0, 0] == pytest.approx(5.0, abs=2e-3)
    assert solver.solve(place).joint_q[0, 0] == pytest.approx(5.0 - 2.0 * np.pi, abs=2e-3)
    start = [[40.0, 0.6, -0.2]]
    near = solver.solve(place, initial_joint_q=start, max_change={"waist": 3.2})
    assert near.success.all()
    assert abs(near.joint_q[0, 0] - 40.0) <= 3.2
    for jaw, slide in (((-0.25, -0.15), (0.5, 0.7)), ((-0.1, 0.0), (0.2, 0.4))):
        found = solver.solve(place, joint_limits={"jaw": jaw})
        assert jaw[0] - 1e-6 <= found.joint_q[0, 2] <= jaw[1] + 1e-6
        assert slide[0] - 1e-6 <= found.joint_q[0, 1] <= slide[1] + 1e-6
        assert found.success.all() == (slide[1] > 0.6)


@EACH_ENGINE
def test_joints_that_no_target_moves_are_within_them_too(dual_panda, engine):
    solver = cpu_solver(dual_panda, ["left_panda_hand"], engine=engine)
    given = Reachable.draw(dual_panda, ["left_panda_hand"], 5)
    found = solve(solver, given, joint_limits={"right_panda_joint2": (0.5, 0.7)})
    assert found.success.all()
    assert (found.joint_q[:, solver.coordinate_names.index("right_panda_joint2")] == np.float32(0.5)).all()


@pytest.mark.evidence
def test_they_hold_without_targets_and_with_loops_closed(panda):
    low = panda.mid_joint_q[1] + 0.3
    solver = cpu_solver(panda, objectives=[IKObjectivePosture(panda.mid_joint_q)])
    found = solver.solve(problem_count=1, joint_limits={"panda_joint2": (low, 1.5)})
    assert found.success.all()
    assert found.joint_q[0, 1] == pytest.approx(low, abs=1e-6)
    robot = load_robot("four_bar")
    for engine in ENGINES:
        bar = cpu_solver(robot, objectives=[IKObjectivePosture(robot.mid_joint_q, weight=0.1)], engine=engine)
        closed = bar.solve(problem_count=1, joint_limits={robot.dof_names[0]: (0.4, 0.5)})
        assert 0.4 <= closed.joint_q[0, 0] <= 0.5
        assert np.abs(closed.constraint_error).max() < 1e-6


def test_nothing_is_compiled_for_them(panda, reachable, monkeypatch):
    solver = cpu_solver(panda, ["panda_hand"])
    solve(solver, reachable)
    codes = len(solver._core.engine.kernels._codes)
    monkeypatch.setattr(CachedModule, "compile", lambda _: pytest.fail("something was compiled"))
    start = near(reachable)
    solve(solver, reachable, joint_limits={"panda_joint1": (-1.0, 1.0)})
    solve(solver, reachable, initial_joint_q=start, max_change=0.3, frozen=["panda_joint7"])
    assert len(solver._core.engine.kernels._codes) == codes


START = {"initial_joint_q": np.zeros(7)}
WRONG = [
    ({"joint_limits": {"panda_joint1": (1.0, 0.0)}}, "not a lower and an upper limit"),
    ({"joint_limits": {"panda_joint1": (np.nan, 1.0)}}, "not a lower and an upper limit"),
    ({"joint_limits": {"panda_joint1": (5.0, 6.0)}}, "leaves no value of 'panda_joint1'"),
    ({"joint_limits": {"panda_joint1": (0.0, np.array([1.0] * (COUNT - 1) + [-3.0]))}}, "not a lower and an upper"),
    ({"joint_limits": {"panda_joint1": (np.inf, np.inf)}}, "not a lower and an upper limit"),
    ({"joint_limits": {"panda_joint1": (-np.inf, -np.inf)}}, "not a lower and an upper limit"),
    ({"joint_limits": {"panda_joint1": 1.0}}, "must be a pair"),
    ({"joint_limits": {"panda_joint1": ("a", "b")}}, "must be numbers"),
    ({"joint_limits": {"panda_joint1": (np.zeros(3), 1.0)}}, r"shape \[3\]"),
    ({"joint_limits": np.zeros((3, 7))}, "must be a pair"),
    ({"joint_limits": (np.zeros(6), np.ones(6))}, r"shape \[6\]. Allowed: \[7\]"),
    ({"max_change": 0.1}, "needs initial_joint_q"),
    ({"max_change": -0.1, **START}, "must not be negative"),
    ({"max_change": np.nan, **START}, "must not be negative"),
    ({"max_change": {"panda_joint1": True}, **START}, "must be numbers"),
    ({"max_change": 0.1, "joint_limits": {"panda_joint1": (1.0, 2.0)}, **START}, "max_change leaves no value"),
    ({"max_change": 0.1, "initial_joint_q": np.full(7, np.inf)}, r"initial_joint_q\[0\] is inf"),
    ({"frozen": ["panda_joint1"], "initial_joint_q": np.full((COUNT, 7), 1e10)}, r"initial_joint_q\[0, 0\] is 1"),
    ({"frozen": ["panda_joint1"]}, "needs initial_joint_q"),
    ({"frozen": "panda_joint1", **START}, "got one text: put it in a list"),
    ({"frozen": np.ones(7), **START}, "must be booleans"),
    ({"frozen": np.ones(6, dtype=bool), **START}, r"shape \[6\]"),
]


@pytest.mark.parametrize(("arguments", "said"), WRONG)
def test_what_is_wrong_is_said(solvers, reachable, arguments, said):
    with pytest.raises(InputError, match=said):
        solve(solvers["compiled"], reachable, **arguments)


def test_unknown_names_rotations_and_soft_limits_are_refused(panda, humanoid, solvers, reachable):
    for arguments in ({"joint_limits": {"elbow": (0, 1)}}, {"frozen": ["elbow"], **START}):
        with pytest.raises(UnknownNameError, match="'elbow' is not in robot 'panda'"):
            solve(solvers["compiled"], reachable, **arguments)
    solver, floating = cpu_solver(humanoid, ["head"]), humanoid.joint_names[0]
    for arguments, said in (
        ({"max_change": 0.1}, "rotations of ball and floating joints have no limits"),
        ({"frozen": [floating]}, rf"frozen cannot hold '{floating}/wx'.*robot.lock\({{'{floating}'"),
    ):
        with pytest.raises(InputError, match=said):
            solver.solve([[0.0, 0.0, 1.0]], initial_joint_q=humanoid.mid_joint_q, **arguments)
    off = cpu_solver(panda, ["panda_hand"], options=SolverOptions(joint_limits="off"))
    with pytest.raises(InputError, match="joint_limits='hard'"):
        solve(off, reachable, joint_limits={"panda_joint1": (0, 1)})


def test_a_joint_of_several_dofs_is_frozen_by_its_name():
    robot = load_urdf("""<robot name="cart"><link name="world"/><link name="base"/><link name="arm"/>
    <joint name="drive" type="planar"><parent link="world"/><child link="base"/><axis xyz="0 0 1"/></joint>
    <joint name="turn" type="continuous"><parent link="base"/><child link="arm"/><axis xyz="0 0 1"/></joint></robot>""")
    solver, start = cpu_solver(robot, [Target("arm", offset=(1, 0, 0, 0, 0, 0, 1))]), np.float32([0.1, -0.2, 0.3, 0.0])
    target = [[0.1 + np.cos(1.0), -0.2 + np.sin(1.0), 0.0]]
    result = solver.solve(target, initial_joint_q=start, frozen=["drive"])
    assert result.success.all()
    assert result.joint_q[0, :3].tolist() == start[:3].tolist()
    assert abs(result.joint_q[0, 3] - 0.7) < 0.01


@EACH_ENGINE
def test_the_nearest_minimum_comes_back_where_no_target_is_met(panda, reachable, engine):
    start, given = near(reachable), (1.5 * reachable.positions, None)
    target = Target("panda_hand", reference_link="panda_link0")  # no proof covers relative ones
    solver = cpu_solver(panda, [target], engine=engine)
    nearest = {"approximate": "nearest"}
    least, found, alone = (
        solver.solve(*given, initial_joint_q=start, options=options)
        for options in ({"approximate": None}, nearest, nearest | {"seeds": 1, "random_seed": 9})
    )
    failed = ~least.success
    assert failed.sum() > 20
    np.testing.assert_array_equal(found.success, least.success)
    assert found.joint_q[least.success].tobytes() == least.joint_q[least.success].tobytes()
    assert (found.seed_index[failed] == 0).all()
    assert (found.cost[failed] >= least.cost[failed] * (1.0 - 1e-6)).all()
    changes = [np.abs(one.joint_q - start).max(axis=1)[failed] for one in (least, found)]
    assert np.median(changes[1]) < 0.8 * np.median(changes[0])
    assert alone.joint_q[failed].tobytes() == found.joint_q[failed].tobytes()


BEYOND = 0.3


@pytest.fixture(scope="module")
def beyond(panda):
    """Starts of which the last joint is beyond its upper limit, and answers near them."""
    start = np.tile(panda.mid_joint_q, (COUNT, 1))
    start[:, 6] = panda.joint_limit_upper[6] + BEYOND * np.linspace(0.1, 1.0, COUNT)
    answer = start + np.random.default_rng(4).uniform(-0.1, 0.1, start.shape)
    answer[:, 6] = panda.joint_limit_upper[6] - 0.05
    poses = panda.forward_kinematics(answer, ["panda_hand"])
    return start, poses.positions[:, 0], poses.orientations_xyzw[:, 0]


@EACH_ENGINE
def test_changes_count_from_a_start_beyond_the_limits(solvers, panda, beyond, engine):
    start, *given = beyond
    found = solvers[engine].solve(*given, initial_joint_q=start, max_change=BEYOND + 0.1)
    assert found.success.mean() > 0.9
    assert np.abs(found.joint_q - start).max() <= BEYOND + 0.1 + 1e-6
    assert (found.joint_q <= panda.joint_limit_upper).all()
    with pytest.raises(InputError, match=r"max_change .* 'panda_joint7' .* in problems 27, .*, 34 and \d+ more\."):
        solvers[engine].solve(*given, initial_joint_q=start, max_change=0.5 * BEYOND)


def test_a_joint_that_starts_beyond_its_limits_cannot_stay_there(solvers, panda, beyond):
    start, *given = beyond
    solver = solvers["compiled"]
    with pytest.raises(InputError, match=r"frozen cannot hold 'panda_joint7': it starts at .* in problem 0"):
        solver.solve(*given, initial_joint_q=start, frozen=["panda_joint7"])
    still = solver.solve(*given, initial_joint_q=start, frozen={"panda_joint7": np.zeros(COUNT, bool)})
    assert still.success.all()
    rounded = np.clip(start, panda.joint_limit_lower, panda.joint_limit_upper).astype(np.float32)
    kept = solver.solve(*given, initial_joint_q=rounded, frozen=["panda_joint7"])  # float32 may be just beyond
    np.testing.assert_allclose(kept.joint_q[:, 6], panda.joint_limit_upper[6], atol=1e-6)
