"""What an exported controller says where it cannot do what it is asked: what the controller in Python says."""

import numpy as np
import pytest

from ik_service import IKStatus, load_robot
from ik_service.control import IKController
from ik_service.export import export_controller
from tests.control.conftest import TURNED, UPRIGHT, gantry_text
from tests.export.c_controller import begin, bytes_of, compare, controller_in_c
from tests.export.c_library import BAD_NUMBER, NOT_RESET, OK, loaded

PLACE = [0.3, 0.2, 0.1]


@pytest.fixture(scope="module")
def gantry(tmp_path_factory):
    """Three sliders, of which the last one has a target with an orientation."""
    folder = tmp_path_factory.mktemp("gantry")
    (folder / "gantry.urdf").write_text(gantry_text())
    controller = IKController(load_robot(folder / "gantry.urdf"), ["z_link"])
    export_controller(controller, prefix="gantry", tick_count=20).write(folder)
    return controller, controller_in_c(loaded("gantry", folder), folder, "gantry", controller)


@pytest.mark.parametrize(
    ("quaternion", "status"),
    [
        (UPRIGHT, IKStatus.CONVERGED),
        (TURNED, IKStatus.STALLED),
        ([np.nan] * 4, IKStatus.INVALID),
        ([0.0] * 4, IKStatus.INVALID),
        ([0.0, 0.0, 0.0, 5.0], IKStatus.INVALID),
    ],
)
def test_rows_that_no_joint_can_move_are_judged_in_c_as_in_python(gantry, quaternion, status):
    theirs, ours = gantry
    begin(ours, theirs, np.zeros(4))
    step = {"targets": [[*PLACE, *quaternion]], "dt": 1e-2}
    assert compare(ours, theirs, [step] * 60)["status"] == status


def test_a_first_tick_from_nowhere_commands_nothing(gantry):
    """It is a code of its own, INVALID for who reads the status alone, and not a command: nothing else is written."""
    theirs, ours = gantry
    target = [[*PLACE, *UPRIGHT]]
    assert ours.controller_init(ours.address, None) == OK
    codes = [ours.code(target), ours.code(target, joint_q=[np.nan, 0.0, 0.0, 0.0]), ours.code(joint_qd=np.zeros(4))]
    assert codes == [NOT_RESET, BAD_NUMBER, NOT_RESET]
    found = ours.written()
    assert found["status"] == IKStatus.INVALID
    assert (found["island_status"] == IKStatus.INVALID).all()
    assert ours.untouched("joint_q", "joint_qd", "position_error", "iterations")
    start = np.array([0.1, -0.1, 0.2, 0.3])
    first = ours.step(target, joint_q=start)
    theirs.reset(start)
    assert first == bytes_of(theirs.step(target, joint_q=start))
    assert ours.step(target) == bytes_of(theirs.step(target))
    assert ours.controller_init(ours.address, None) == OK
    assert ours.code(target) == NOT_RESET  # made anew, it knows nothing
    assert ours.reset() == OK
    assert ours.code(target) == OK
