"""What an exported controller commands: the bytes of the controller in Python, a code for bad settings."""

import ctypes

import numpy as np
import pytest

from benchmarks.problems.tick_paths import ACCELERATION
from ik_service import IKStatus, Target, load_robot
from ik_service.control import ControlLimits, IKController
from ik_service.errors import EngineError
from ik_service.export import export_controller, export_solver
from ik_service.export.tick_entry import example_ticks
from objectives import IKObjectiveLookAt, InputError
from tests.export.c_controller import RESULTS, Input, begin, bytes_of, compare, controller_in_c, settings_of
from tests.export.c_library import (
    BAD_ARGUMENT,
    BAD_NUMBER,
    C99,
    GUARD,
    OK,
    PROGRAMS,
    WARNINGS,
    WRONG_ABI,
    loaded,
    run,
    run_example,
)
from tests.export.conftest import TWO_ARMS

TICKS, RADIUS, ROUNDS = 10_000, 0.05, 3
HOME = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.8, 0.7])
ROBOTS = ["panda", *(pytest.param(name, marks=pytest.mark.evidence) for name in ("dual_panda", "floating"))]


def circle(robot, start, links, ticks):
    """Targets that begin where the links are, at rest, as arguments of ticks."""
    s = np.linspace(0.0, 1.0, ticks)
    turn = 2.0 * np.pi * ROUNDS * s**3 * (10.0 - 15.0 * s + 6.0 * s**2)
    poses = robot.forward_kinematics(start[None], links)
    targets = np.tile(np.concatenate([poses.positions[0], poses.orientations_xyzw[0]], axis=1), (ticks, 1, 1))
    targets[..., 0] += RADIUS * (np.cos(turn) - 1.0)[:, None]
    targets[..., 1] += RADIUS * np.sin(turn)[:, None]
    return [{"targets": poses} for poses in targets]


def start_of(exported):
    robot = exported.solver.robot
    arms = robot.joint_coord_count // HOME.size
    return np.tile(HOME, arms) if arms * HOME.size == robot.joint_coord_count else robot.mid_joint_q


@pytest.mark.evidence_cases("dual_panda-True", "floating-True")
@pytest.mark.parametrize("braking", [False, True])
@pytest.mark.parametrize("name", ROBOTS)
def test_all_results_have_the_bytes_of_the_controller_in_python(exported, name, braking):
    robot = exported(name)
    theirs, start = robot.controller, start_of(robot)
    if braking:
        theirs = IKController(
            theirs.robot,
            theirs.targets,
            posture=theirs.robot.mid_joint_q if name == "dual_panda" else None,
            limits=ControlLimits(acceleration=np.resize(ACCELERATION, theirs.robot.joint_dof_count)),
        )
    ours = robot.controller_in_c(theirs)
    begin(ours, theirs, start)
    ticks = TICKS if name != "floating" else TICKS // 10
    last = compare(ours, theirs, circle(theirs.robot, start, [target.link for target in theirs.targets], ticks))
    assert (last["status"] == IKStatus.CONVERGED).all()
    assert np.abs(last["joint_q"] - start).max() < 1.0  # somewhere near the start, by another branch or none
    assert last["sigma_min"].min() > 0.01


@pytest.mark.evidence
def test_settings_given_in_c_are_those_of_a_controller_in_python(exported):
    robot = exported("dual_panda")
    model, start = robot.solver.robot, start_of(robot)
    ours = robot.controller_in_c()
    theirs = IKController(
        model,
        robot.controller.targets,
        posture=model.mid_joint_q + 0.1,
        limits=ControlLimits(velocity=0.4, joint_step=3e-4, acceleration=5.0, position_margin=0.3),
        scale_direction=True,
        iterations=3,
        position_tolerance=1e-6,
        orientation_tolerance=2e-6,
    )
    recorded = theirs.recorded()
    for factor, name in enumerate(recorded.data, 2):
        if name.endswith("row_weights"):
            values = recorded.launches.numbers[name].numpy()
            values *= factor
    assert "posture" in recorded.data
    changes = settings_of(
        theirs, "limit_lower", "limit_upper", "velocity", "acceleration", "joint_step", *recorded.data
    )
    changes |= {"iterations": 3, "scale_direction": 1, "position_tolerance": 1e-6, "orientation_tolerance": 2e-6}
    assert ours.set(**changes) == OK
    theirs.reset(start, 0.01)
    assert ours.reset(start, np.full(model.joint_dof_count, 0.01)) == OK
    path = circle(model, start, [target.link for target in theirs.targets], 300)
    assert (compare(ours, theirs, path)["scaling"] < 1.0).any()
    assert ours.set() == OK  # back to those of the export
    begin(ours, robot.controller, start)
    compare(ours, robot.controller, path)


def test_where_the_robot_is_and_bad_numbers_mean_what_they_mean_in_python(exported):
    robot = exported("panda")
    ours, theirs, model = robot.controller_in_c(), robot.controller, robot.solver.robot
    begin(ours, theirs, HOME)
    random, far = np.random.default_rng(1), np.ones(7)
    far[3:] = 0.5
    bad = np.full(7, np.nan), np.array([np.inf, *HOME[1:]]), np.array([1e10, *HOME[1:]])
    path = circle(model, HOME, ["panda_hand"], 100)
    first = path[0]["targets"]

    def near(where, size):
        return where + random.normal(0, size, 7)

    steps = [{**step, "joint_q": near(HOME, 1e-3), "joint_qd": near(0.0, 1e-2), "dt": 2e-3} for step in path]
    steps += [path[0], *({"joint_q": q} for q in bad), *({"joint_qd": q} for q in bad)]
    steps += [{"targets": [q]} for q in (*bad, np.zeros(7), 1.1 * first[0])] + [{}, {"targets": far[None]}] * 3
    compare(ours, theirs, steps)
    begin(ours, theirs, HOME)
    invalid = compare(ours, theirs, [{"targets": first, "joint_q": bad[0]}])
    assert invalid["status"] == IKStatus.INVALID
    np.testing.assert_array_equal(invalid["joint_q"][0], HOME)
    assert compare(ours, theirs, [{"joint_q": HOME}])["status"] == IKStatus.CONVERGED


def test_a_tick_ends_by_its_deadline_or_two_iterations_later(panda, tmp_path):
    panda.export.write(tmp_path)
    run(["gcc", *C99, *WARNINGS, "-I.", str(PROGRAMS / "deadlines.c"), "panda_ik.c", "-c"], tmp_path)
    linked = ["deadlines.o", "panda_ik.o", "panda_io.o", "panda_islands.o", "panda_tick.o"]
    run(["gcc", *linked, "-lm", "-o", "deadlines"], tmp_path)
    rows = [[int(number) for number in line.split()] for line in run(["./deadlines"], tmp_path).splitlines()[2:]]
    given, taken, iterations, status = np.array(rows).T
    cut = given < 9
    np.testing.assert_array_equal(status[cut], IKStatus.DEADLINE)
    np.testing.assert_array_equal(iterations[cut], [2, 2, 3, 3, 4, 5, 6, 7, 8])  # one microsecond is for the answer
    assert (taken[given > 2] <= given[given > 2]).all()
    assert (taken[given <= 2] <= np.maximum(given[given <= 2] + 1, 2)).all()  # the second step might have been shorter
    assert status[-1] != IKStatus.DEADLINE
    assert iterations[-1] > 9


@pytest.fixture(scope="module")
def three_robots(tmp_path_factory):
    """Three robots of two arms at once: one arm has a target, of the other a joint is locked and nothing moves it."""
    folder = tmp_path_factory.mktemp("three_robots")
    (folder / "two_arms.urdf").write_text(TWO_ARMS + "</robot>")
    model = load_robot(folder / "two_arms.urdf").lock({"b_pitch": 0.3})
    target = Target("a_tip", offset=[0.0, 0.0, 0.1, 0.0, 0.0, 0.0, 1.0], row_weights=[1.0, 2.0, 1.0, 0.0, 0.0, 0.0])
    controller = IKController(model, [target], robots=3, damping_weight=0.0)
    export = export_controller(controller, prefix="arms", tick_count=20)
    export.write(folder)
    return controller, export, folder, loaded("arms", folder)


@pytest.mark.evidence
def test_several_robots_followers_and_joints_that_nothing_moves(three_robots):
    controller, export, folder, library = three_robots
    ours, model = controller_in_c(library, folder, "arms", controller), controller.robot
    random = np.random.default_rng(2)
    start = model.random_joint_q(random, 3)
    start[:, model.coordinate_names.index("b_pitch")] = [0.3, -0.2, 0.1]  # it is locked, for each robot where it is
    begin(ours, controller, start)
    poses = model.forward_kinematics(model.random_joint_q(random, 3), ["a_tip"])
    targets = np.concatenate([poses.positions, poses.orientations_xyzw], axis=-1)
    given = model.random_joint_q(random, 3)
    steps = [{"targets": targets}] * 30 + [{"joint_q": given}, {}] + [{"joint_q": given, "joint_qd": given}] * 3
    last = compare(ours, controller, steps)
    assert np.ptp(last["joint_q"], axis=0).max() > 0.01
    faulty = given.copy()
    faulty[0, model.coordinate_names.index("a_pitch")] = np.nan
    faulty[2, controller.recorded().unmoved_coordinates[0]] = np.inf
    last = compare(ours, controller, [{"joint_q": given}, {"joint_q": faulty}])
    assert ((last["status"] == IKStatus.INVALID) == [True, False, True]).all()
    assert np.isfinite(last["joint_q"]).all()
    controller.reset(given, 0.1)
    assert ours.reset(given, np.full((3, model.joint_dof_count), 0.1)) == OK
    last = compare(ours, controller, [{"targets": targets}])
    np.testing.assert_array_equal(last["joint_qd"][:, list(controller.recorded().unmoved_dofs)], 0.0)
    assert "target_0_offset" in controller.recorded().data
    assert {"arms_tick.o", "tick_example.c", "ticks.bin"} <= set(export.files)
    assert not {"arms_io.o", "example.c"} & set(export.files)
    run_example(folder, "arms", "tick_example")


@pytest.mark.evidence
def test_objectives_may_take_the_place_of_targets_and_change_their_data(tmp_path):
    (tmp_path / "two_arms.urdf").write_text(TWO_ARMS + "</robot>")
    model = load_robot(tmp_path / "two_arms.urdf")
    gaze = IKObjectiveLookAt("a_tip", np.array([0.6, 0.0, 0.0]), axis=[1.0, 0.0, 0.0])
    controller = IKController(model, objectives=[gaze])
    gaze.set_targets([0.8, 0.1, 0.2])
    export_controller(controller, prefix="gaze", tick_count=20).write(tmp_path)
    ours = controller_in_c(loaded("gaze", tmp_path), tmp_path, "gaze", controller)
    controller.reset(model.mid_joint_q)
    assert ours.reset() == OK
    seen = compare(ours, controller, [{}] * 50)["joint_q"]
    gaze.set_targets([0.7, 0.3, 0.1])
    assert ours.set(objective_0_target_points=[0.7, 0.3, 0.1]) == OK
    assert np.abs(compare(ours, controller, [{}] * 50)["joint_q"] - seen).max() > 0.01
    run_example(tmp_path, "gaze", "tick_example")


def test_a_copy_goes_on_as_the_controller_would(exported):
    robot = exported("panda")
    ours, other = robot.controller_in_c(), robot.controller_in_c()
    path = circle(robot.solver.robot, HOME, ["panda_hand"], 50)
    assert ours.reset(HOME) == OK
    for step in path[:20]:
        ours.step(**step)
    other.memory.bytes[:] = ours.memory.bytes
    expected = [ours.step(**step) for step in path[20:]]
    ours.memory.bytes[:] = GUARD
    assert [other.step(**step) for step in path[20:]] == expected


@pytest.mark.parametrize(
    ("name", "values", "code"),
    [
        ("abi", [1], WRONG_ABI),
        ("iterations", [-1, 2**31 - 1], BAD_ARGUMENT),
        ("scale_direction", [2], BAD_ARGUMENT),
        ("position_tolerance", [0.0, np.inf], BAD_ARGUMENT),
        ("orientation_tolerance", [np.nan], BAD_ARGUMENT),
        ("velocity", [-1.0, np.nan], BAD_ARGUMENT),
        ("acceleration", [0.0], BAD_ARGUMENT),
        ("joint_step", [np.nan], BAD_ARGUMENT),
        ("limit_lower", [10.0], BAD_ARGUMENT),
        ("limit_upper", [np.nan], BAD_ARGUMENT),
    ],
)
def test_settings_that_are_not_allowed_are_codes_and_change_nothing(exported, name, values, code):
    ours = exported("panda").controller_in_c()
    before = ours.memory.bytes.copy()
    for value in values:
        assert ours.set(**{name: value}) == code
        settings = ours.defaults(**{name: value})
        assert ours.controller_init(ours.address, ctypes.addressof(settings)) == code
    np.testing.assert_array_equal(ours.memory.bytes, before)


def test_arguments_that_are_not_allowed_are_codes(exported):
    ours = exported("panda").controller_in_c()
    target = np.array([0.4, 0.0, 0.5, 1.0, 0.0, 0.0, 0.0])
    assert ours.reset() == OK

    def code(address=ours.address, **changes):
        given = Input(**{"targets": target.ctypes.data, "dt": 1e-3, **changes})
        return ours.tick(address, ctypes.addressof(given), None)  # the result may be NULL

    assert code() == OK
    for dt in (0.0, 1e-170, 1e160, -1.0, np.nan, np.inf):
        assert code(dt=dt) == BAD_ARGUMENT
    assert code(address=None) == BAD_ARGUMENT
    never_made = np.zeros(len(ours.memory.bytes), np.uint8)
    assert code(address=never_made.ctypes.data) == BAD_ARGUMENT
    assert ours.tick(ours.address, None, None) == BAD_ARGUMENT
    assert ours.controller_set(ours.address, None) == BAD_ARGUMENT
    assert ours.controller_init(None, None) == BAD_ARGUMENT
    assert ours.controller_reset(None, None, None) == BAD_ARGUMENT
    for value in (np.nan, -np.inf, 1e10):
        assert ours.reset(np.full(7, value)) == BAD_NUMBER
        assert ours.reset(HOME, np.full(7, value)) == BAD_NUMBER
    assert ours.reset() == OK


@pytest.mark.evidence
def test_a_reset_makes_quaternions_unit_and_sets_followers(exported):
    robot = exported("floating")
    ours, theirs, model = robot.controller_in_c(), robot.controller, robot.solver.robot
    start = model.random_joint_q(np.random.default_rng(3), 1)[0]
    start[3:7] *= 2.0
    start[-1] = 0.7  # a follower
    begin(ours, theirs, start)
    nowhere = np.full((1, 7), np.nan)  # so that the command stays what it was
    found, expected = ours.values(ours.step(nowhere)), theirs.step(nowhere)
    np.testing.assert_allclose(found["joint_q"], expected.joint_q, atol=1e-15)
    start[3:7] = 0.0
    assert ours.reset(start) == BAD_NUMBER


@pytest.mark.parametrize("arguments", [{"wxyz": True}, {"joint_order": [f"panda_joint{k}" for k in range(7, 0, -1)]}])
def test_controllers_with_an_order_of_their_own_are_refused(panda, arguments):
    with pytest.raises(EngineError, match="own joint_order"):
        export_controller(IKController(panda.solver.robot, ["panda_hand"], **arguments))


def test_solver_and_controller_are_of_one_robot(panda):
    other = IKController(load_robot("panda", collision="ignore"), ["panda_hand"])
    with pytest.raises(InputError, match="different robots"):
        export_solver(panda.solver, controller=other)


def test_the_controller_goes_on_as_before_after_an_export(three_robots):
    controller = three_robots[0]
    controller.reset(controller.robot.mid_joint_q)
    before = controller.step().copy()
    controller.reset(controller.robot.mid_joint_q)
    example_ticks(controller, controller.recorded().launches.numbers, 5)
    after = controller.step()
    assert {name: getattr(after, name).tobytes() for name in RESULTS} == bytes_of(before)
