"""Exported ticks of a robot that closes a loop: the bytes of the controller in Python, whatever is asked for."""

import numpy as np
import pytest

from ik_service import IKStatus, load_robot
from ik_service.control import ControlLimits, IKController
from ik_service.export import export_controller
from ik_service.robots import LoopConstraint
from tests.constraints.test_velocities_and_cams import cart
from tests.control.conftest import pose_of
from tests.control.test_loops import NEAR, circle
from tests.export.c_controller import begin, compare, controller_in_c
from tests.export.c_library import loaded, run_example
from tests.solver.test_loops import HELD, LEFT, RIGHT

pytestmark = pytest.mark.evidence  # each export compiles for ten seconds

ACCELERATION = 15.0


@pytest.fixture(scope="module")
def holding(tmp_path_factory):
    """Two arms that hold one object and are drawn to a posture: exported, compiled and loaded."""
    robot = load_robot("dual_panda", collision="ignore").with_loops(
        [LoopConstraint("object", "weld", RIGHT, LEFT, reference_offset=HELD)]
    )
    folder = tmp_path_factory.mktemp("holding")
    export_controller(controller_of(robot), prefix="hold", tick_count=50).write(folder)
    return robot, folder, loaded("hold", folder)


def controller_of(robot, **options):
    return IKController(robot, [LEFT], posture=NEAR + 0.1, **options)


@pytest.mark.parametrize("braking", [False, True])
def test_all_results_have_the_bytes_of_the_controller_in_python(holding, braking):
    """The loop is open at first by what the start has been rounded; then come a circle and targets that jump."""
    robot, folder, library = holding
    theirs = controller_of(robot, limits=ControlLimits(acceleration=ACCELERATION) if braking else None)
    ours = controller_in_c(library, folder, "hold", theirs)
    begin(ours, theirs, NEAR)
    targets = np.concatenate([circle(robot, NEAR, 1000), np.repeat(jumps(robot), 200, axis=0)])[:, None]
    last = compare(ours, theirs, ({"targets": poses} for poses in targets))
    assert np.abs(last["joint_q"] - NEAR).max() > 0.05
    assert last["status"] != IKStatus.LOOP_OPEN


def jumps(robot):
    """Poses about that of the start, some of them out of reach."""
    poses = np.tile(pose_of(robot, NEAR, LEFT), (5, 1))
    poses[:, :3] += np.random.default_rng(2).uniform(-0.3, 0.3, (5, 3))
    return poses


def test_a_loop_that_is_open_is_open_in_c_too(holding):
    robot, folder, library = holding
    theirs = controller_of(robot, limits=ControlLimits(acceleration=ACCELERATION))
    ours = controller_in_c(library, folder, "hold", theirs)
    apart = NEAR.copy()
    apart[8] += 0.1
    begin(ours, theirs, apart)
    target = pose_of(robot, NEAR, LEFT)[None]
    assert compare(ours, theirs, [{"targets": target}])["status"] == IKStatus.LOOP_OPEN
    assert compare(ours, theirs, [{"targets": target}] * 300)["status"] == IKStatus.CONVERGED


def test_the_example_gives_the_same_bytes_and_settings_hold_no_data_of_loops(holding):
    _, folder, _ = holding
    run_example(folder, "hold", "tick_example")
    header = (folder / "hold_ik.h").read_text()
    assert "HOLD_LOOP_OPEN = 6" in header
    assert "tolerances[" not in header


def test_wheels_roll_in_c_as_they_do_in_python(tmp_path):
    robot = cart()
    export_controller(IKController(robot, ["cart"]), prefix="cart", tick_count=20).write(tmp_path)
    theirs = IKController(robot, ["cart"])
    ours = controller_in_c(loaded("cart", tmp_path), tmp_path, "cart", theirs)
    start = robot.random_joint_q(np.random.default_rng(3), 1)[0]
    begin(ours, theirs, start)
    pose = np.tile(pose_of(robot, start, "cart"), (100, 1))
    pose[:, :2] += np.linspace(0.0, 0.2, 100)[:, None]
    last = compare(ours, theirs, ({"targets": one} for one in pose[:, None]))
    assert np.abs(last["joint_q"] - start)[:, 3:].min() > 0.05
