"""Clearance of what a robot carries, as a limit of a controller: judged in every tick on the host, in float64."""

import numpy as np
import pytest

from ik_service.control import ControlLimits, IKController
from ik_service.robots import AttachedObject
from objectives import InputError
from tests.control.clearance.test_clearance_limit import MARGIN, cell, random_targets, ticks
from tests.control.conftest import HOME, LINK, begun, pose_of

SIDE = (-0.15, -0.05, 0.05, 0.15)
PLATE = AttachedObject(LINK, [[x, y, 0.16, 0.04] for x in SIDE for y in SIDE])


@pytest.mark.evidence_cases("speeds")
@pytest.mark.parametrize("more", [{}, {"acceleration": 10.0}], ids=["speeds", "accelerations"])
def test_what_a_hand_carries_is_no_nearer_than_the_clearance(panda, more):
    world, held = cell(), {"plate": PLATE}
    controller = IKController(panda, [LINK], limits=ControlLimits(clearance=MARGIN, **more), world=world)
    drawn = panda.random_joint_q(np.random.default_rng(0), 500)
    start = drawn[np.argmax(panda.collision(drawn, world, attached=held).clearance)]
    targets = random_targets(panda, [LINK], 6, seed=4)
    controller.reset(start)
    empty = panda.collision(ticks(controller, targets, 600)["joint_q"], world, attached=held).clearance
    assert empty.min() < 0.0  # nothing is attached yet
    controller.set_world(world, held)
    controller.reset(start)
    found = ticks(controller, targets, 600)
    check = panda.collision(found["joint_q"], world, attached=held)
    assert check.clearance.min() >= MARGIN
    near = check.clearance < MARGIN + 0.005
    assert any("plate" in pair for pair, is_near in zip(check.closest_pairs, near, strict=True) if is_near)
    seen = found["clearance"] < MARGIN + 0.1
    np.testing.assert_allclose(found["clearance"][seen], check.clearance[seen], atol=1e-5)
    controller.set_world(world)
    controller.reset(start)
    again = panda.collision(ticks(controller, targets, 600)["joint_q"], world, attached=held).clearance
    np.testing.assert_array_equal(again, empty)


@pytest.mark.evidence
def test_what_cannot_be_kept_off_what_is_carried_is_named(panda):
    controller = begun(panda, [LINK], HOME, limits=ControlLimits(clearance=MARGIN))
    before = controller.step(pose_of(panda, HOME, LINK)).copy()
    ball, others = [[0.0, 0.0, 0.0, 0.5]], {*panda.link_names} - {"panda_link4"}
    with pytest.raises(InputError, match=r"'panda_link4' and 'ball' are at most .* AttachedObject\(touches"):
        controller.set_world(None, {"ball": AttachedObject(LINK, ball, others)})
    controller.set_world(None, {"ball": AttachedObject(LINK, ball, panda.link_names)})
    controller.set_world(None)
    controller.reset(HOME)
    after = controller.step(pose_of(panda, HOME, LINK))
    np.testing.assert_array_equal(after.joint_q, before.joint_q)
    with pytest.raises(InputError, match="checks no clearance"):
        IKController(panda, [LINK]).set_world(None, {"plate": PLATE})
