"""Exported ticks that keep clear of a world: the bytes of the controller in Python, clearance too."""

import numpy as np
import pytest

from ik_service import IKStatus, load_robot
from ik_service.control import ControlLimits, IKController
from ik_service.export import export_controller
from tests.control.clearance.test_clearance_limit import MARGIN, cell, free_start, random_targets
from tests.export.c_controller import begin, compare, controller_in_c
from tests.export.c_library import loaded, run_example

pytestmark = pytest.mark.evidence  # each export compiles for ten seconds

LINK, ACCELERATION = "panda_hand", 10.0


def controller_of(robot, **limits):
    limits = ControlLimits(clearance=MARGIN, **limits)
    return IKController(robot, [LINK], limits=limits, world=cell(), posture=robot.mid_joint_q)


@pytest.fixture(scope="module")
def clear(tmp_path_factory):
    """A Panda among obstacles: exported, compiled and loaded."""
    robot, folder = load_robot("panda"), tmp_path_factory.mktemp("clear")
    export_controller(controller_of(robot), prefix="clear", tick_count=50).write(folder)
    return robot, folder, loaded("clear", folder)


@pytest.mark.parametrize("braking", [False, True])
def test_all_results_have_the_bytes_of_the_controller_in_python(clear, braking):
    robot, folder, library = clear
    theirs = controller_of(robot, acceleration=ACCELERATION) if braking else controller_of(robot)
    ours = controller_in_c(library, folder, "clear", theirs)
    begin(ours, theirs, free_start(robot, cell()))
    targets = np.repeat(random_targets(robot, [LINK], 6, seed=4)[:, None, 0], 300, axis=0)
    statuses, nearest = set(), np.inf
    for poses in targets:
        last = compare(ours, theirs, [{"targets": poses}])
        statuses.add(int(np.max(last["status"])))
        nearest = min(nearest, float(last["clearance"][0]))
    assert IKStatus.BLOCKED_BY_COLLISION in statuses
    assert MARGIN <= nearest < MARGIN + 0.005


def test_the_example_gives_the_same_bytes(clear):
    _, folder, _ = clear
    run_example(folder, "clear", "tick_example")
    assert "CLEAR_LIMIT_CLEARANCE = 6" in (folder / "clear_ik.h").read_text()
