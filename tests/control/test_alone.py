"""Robots of one controller: each has the bytes that it has alone, whatever its tasks and limits are."""

import numpy as np
import pytest

from ik_service import Target, load_robot
from ik_service.control import ControlLimits, IKController
from objectives import IKObjectivePosture
from tests.constraints.test_velocities_and_cams import cart
from tests.control.clearance.test_clearance_limit import cell, random_targets
from tests.control.conftest import LINK, pose_of
from tests.control.test_loops import LEFT, LIMITS, circle, held_object
from tests.control.test_priorities import HOME, POSTURE
from tests.control.test_priorities import circle as circle_of_panda
from tests.control.test_velocity_constraints import WHEELS


def of_postures():
    """Each has a posture and a weight of its own."""
    panda, count = load_robot("panda"), 5
    references = HOME + np.linspace(-1.0, 1.0, count)[:, None] * (POSTURE - HOME)
    weights = np.repeat(np.linspace(0.2, 1.0, count)[:, None], len(HOME), axis=1)
    poses = np.tile(circle_of_panda(panda, 200)[:, None, None], (1, count, 1, 1))

    def options(lines):
        return {"objectives": [IKObjectivePosture(references[lines], row_weights=weights[lines])]}

    return panda, lambda lines: [LINK], options, np.tile(HOME, (count, 1)), poses


def of_tolerances():
    panda, tolerance = load_robot("panda"), np.zeros((2, 6))
    tolerance[1] = [0.0, 0.0, 0.02, *np.radians([15.0] * 3)]
    poses = np.tile(pose_of(panda, POSTURE, LINK), (50, 2, 1, 1))
    return panda, lambda lines: [Target(LINK, tolerance=tolerance[lines])], {}, np.tile(HOME, (2, 1)), poses


def of_loops(limits):
    """One of them is asked for what no limits allow, so that its loop takes more to close."""
    robot, start = held_object()
    poses = np.repeat(circle(robot, start, 300)[:, None, None], 3, axis=1)
    poses[100:, 1, 0, 0] -= 0.3
    poses[:, 2, 0, 2] += 0.02
    return robot, lambda lines: [LEFT], LIMITS[limits], np.tile(start, (3, 1)), poses


def of_velocities():
    robot = cart()
    starts = robot.random_joint_q(np.random.default_rng(2), 11)
    poses = np.stack([pose_of(robot, one, "cart", [0.05, 0.02, 0.0])[None] for one in starts])
    limits = ControlLimits(velocity=WHEELS)
    return robot, lambda lines: ["cart"], {"limits": limits}, starts, np.tile(poses, (2, 1, 1, 1))


def of_saddles():
    """The first stands at a saddle."""
    robot, link, rng = load_robot("iiwa14", collision="ignore"), "iiwa_link_ee", np.random.default_rng(0)
    starts = np.vstack([np.zeros(7), rng.uniform(-0.5, 0.5, (3, 7))])
    poses = np.stack([pose_of(robot, one, link, [0.0, 0.0, -0.05])[None] for one in starts])
    return robot, lambda lines: [link], {}, starts, np.tile(poses, (200, 1, 1, 1))


def of_clearances():
    panda, world, limits = load_robot("panda"), cell(), ControlLimits(clearance=0.0, acceleration=10.0)
    starts = panda.random_free_joint_q(np.random.default_rng(1), 5, world)
    poses = np.tile(random_targets(panda, [LINK], 5, seed=7), (120, 1, 1, 1))
    return panda, lambda lines: [LINK], {"limits": limits, "world": world}, starts, poses


CASES = {  # robot, targets and options of some of its copies, and starts and poses of all
    "postures": of_postures,
    "tolerances": of_tolerances,
    "loops": lambda: of_loops("speed"),
    "loops, accelerations": lambda: of_loops("acceleration"),
    "velocities": of_velocities,
    "a saddle": of_saddles,
    "clearances": of_clearances,
}


@pytest.mark.evidence_cases("postures", "velocities", "clearances")
@pytest.mark.parametrize("case", CASES)
def test_no_robot_depends_on_who_is_beside_it(case):
    robot, targets, options, starts, poses = CASES[case]()

    def ticks(lines):
        given = options(lines) if callable(options) else options
        controller = IKController(robot, targets(lines), robots=len(lines), **given)
        controller.reset(starts[lines])
        results = [controller.step(pose[lines]).copy() for pose in poses]
        return [np.array([getattr(one, name) for one in results]) for name in ("joint_q", "status", "clearance")]

    together = ticks(list(range(len(starts))))
    assert np.ptp(together[0], axis=0).max() > 1e-3
    assert np.abs(np.diff(together[0][-1], axis=0)).max() > 1e-3
    for k in range(len(starts)):
        for all_of_them, own in zip(together, ticks([k]), strict=True):
            assert own[:, 0].tobytes() == all_of_them[:, k].tobytes()
