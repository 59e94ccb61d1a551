"""Paths tick by tick: what steps would give, within all limits."""

import numpy as np
import pytest

from benchmarks.problems.tick_paths import ACCELERATION, LINK, panda_paths
from ik_service import IKSolver, load_robot
from ik_service.control import ControlLimits, IKController
from objectives import InputError
from tests.control.conftest import follow

DT = 0.01
SLACK = 0.9e-3  # of the length of quaternions; 1e-3 is allowed
PATHS = panda_paths(load_robot("panda"), 1000)


def poses_of(path):
    return path.poses[:, :3], path.poses[:, 3:]


def test_a_path_is_the_ticks_that_steps_would_make(panda):
    path = PATHS["figure of eight"]
    result = IKController(panda, [LINK]).follow(*poses_of(path), DT, start_joint_q=path.joint_q)
    steps = follow(IKController(panda, [LINK]), path.joint_q, path.poses, DT)
    np.testing.assert_array_equal(result.joint_q, steps.joint_q)
    np.testing.assert_array_equal(result.position_error, steps.position_error)
    np.testing.assert_allclose(result.joint_qd, steps.joint_qd, atol=1e-9)
    assert result.success.all()
    assert result.within_limits.all()
    np.testing.assert_allclose(result.joint_qdd[1:], np.diff(steps.joint_qd, axis=0) / DT, atol=1e-6)


def test_quaternions_a_little_off_unit_length_are_those_that_steps_would_take(panda):
    """They are taken to unit length once, whichever way they come."""
    path = PATHS["circle"]
    poses = path.poses[:300].copy()
    poses[:, 3:] *= 1.0 + np.random.default_rng(4).uniform(-SLACK, SLACK, (300, 1))
    result = IKController(panda, [LINK]).follow(poses[:, :3], poses[:, 3:], DT, start_joint_q=path.joint_q)
    steps = follow(IKController(panda, [LINK]), path.joint_q, poses, DT)
    np.testing.assert_array_equal(result.joint_q, steps.joint_q)
    np.testing.assert_array_equal(result.orientation_error, steps.orientation_error)


@pytest.mark.parametrize("name", ["beyond the edge and back", "into a joint limit and back"])
def test_limits_hold_where_the_path_does_not_keep_to_them(panda, name):
    path = PATHS[name]
    controller = IKController(panda, [LINK], limits=ControlLimits(acceleration=ACCELERATION))
    result = controller.follow(*poses_of(path), DT, start_joint_q=path.joint_q)
    assert not result.success.all()
    assert not result.over_velocity.any()
    assert not result.over_acceleration.any()
    assert ((result.joint_q >= panda.joint_limit_lower) & (result.joint_q <= panda.joint_limit_upper)).all()


@pytest.mark.evidence
def test_the_solver_looks_ahead_and_the_ticks_do_not(panda):
    """A path that leads the arm into a joint limit, unless it begins elsewhere."""
    path = PATHS["into a joint limit and back"]
    ticks = IKController(panda, [LINK]).follow(*poses_of(path), DT, start_joint_q=path.joint_q)
    unchecked = {"collision": "off"}  # as the ticks
    ahead = IKSolver(panda, [LINK], device="cpu").follow(*poses_of(path), DT, options=unchecked)
    assert ticks.success.all()
    assert ahead.success.all()
    assert ahead.largest_joint_change < 0.5 * ticks.largest_joint_change
    assert ahead.within_limits.all()
    assert [name for name in vars(ahead) if type(getattr(ahead, name)) is not type(getattr(ticks, name))] == []


def test_a_path_goes_on_where_the_controller_is(panda):
    path = PATHS["circle"]
    whole = IKController(panda, [LINK]).follow(*poses_of(path), DT, start_joint_q=path.joint_q)
    controller = IKController(panda, [LINK])
    controller.reset(path.joint_q)
    positions, orientations = poses_of(path)
    halves = [controller.follow(positions[part], orientations[part], DT) for part in (slice(500), slice(500, None))]
    np.testing.assert_array_equal(np.concatenate([half.joint_q for half in halves]), whole.joint_q)
    np.testing.assert_allclose(halves[1].joint_qd[0], whole.joint_qd[500], atol=1e-12)


def test_orders_of_joints_and_quaternions_are_the_callers(panda):
    path = PATHS["circle"]
    positions, orientations = (array[:50] for array in poses_of(path))
    mine = IKController(panda, [LINK]).follow(positions, orientations, DT, start_joint_q=path.joint_q)
    controller = IKController(panda, [LINK], joint_order=panda.joint_names[::-1], wxyz=True)
    result = controller.follow(positions, orientations[:, [3, 0, 1, 2]], DT, start_joint_q=path.joint_q[::-1])
    for name in ("joint_q", "joint_qd", "over_velocity"):
        np.testing.assert_array_equal(getattr(result, name)[:, ::-1], getattr(mine, name))
    assert result.coordinate_names == panda.joint_names[::-1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dt": 0.0}, "dt is 0"),
        ({"orientations_xyzw": None}, "lacks positions or orientations_xyzw"),
        ({"positions": np.full((2, 3), np.nan)}, "is nan"),
        ({"positions": np.zeros((3, 3))}, "must agree"),
        ({"start_joint_q": np.zeros(3)}, "joint_q has shape"),
        ({"robots": 2}, "has 2 robots"),
    ],
)
def test_bad_input_is_refused(panda, arguments, message):
    given = {"positions": np.zeros((2, 3)), "orientations_xyzw": np.tile([0.0, 0.0, 0.0, 1.0], (2, 1)), "dt": DT}
    given |= arguments
    with pytest.raises(InputError, match=message):
        IKController(panda, [LINK], robots=given.pop("robots", 1)).follow(**given)
