"""Rows of targets that no joint can move: they are judged like all others."""

import numpy as np
import pytest

from ik_service import IKSolver, Target, load_robot
from ik_service.control import ControlLimits, IKController
from ik_service.solver.lm.status import IKStatus
from objectives import IKObjectivePosture, InputError
from tests.control.conftest import TURNED, UPRIGHT, begun, gantry_text, last_of

PLACE = [0.3, 0.2, 0.1]
TICKS, DT = 300, 1e-2
EXACT = 1e-9  # m or rad: float64, and the way is a fraction of a metre


@pytest.fixture(scope="module")
def gantry():
    return load_robot(gantry_text())


def run(controller, targets, ticks=TICKS):
    controller.reset(np.zeros(4))
    return last_of(controller, ticks, np.array(targets), dt=DT)


def pose(position=PLACE, orientation=UPRIGHT):
    return [*position, *orientation]


@pytest.mark.evidence_cases("5.0")
@pytest.mark.parametrize("acceleration", [None, 5.0])
def test_an_orientation_that_no_joint_can_turn_is_judged(gantry, acceleration):
    controller = IKController(gantry, ["z_link"], robots=2, limits=ControlLimits(acceleration=acceleration))
    result = run(controller, [[pose()], [pose(orientation=TURNED)]])
    assert result.status.tolist() == [IKStatus.CONVERGED, IKStatus.STALLED]
    assert result.success.tolist() == [True, False]
    np.testing.assert_allclose(result.orientation_error[:, 0], [0.0, np.pi / 2], atol=EXACT)
    np.testing.assert_allclose(result.joint_q[:, :3], [PLACE, PLACE], atol=EXACT)  # what can be met is met


@pytest.mark.evidence_cases(
    "z_link-quaternion0", "z_link-quaternion1", "z_link-quaternion2", "z_link-quaternion3", "z_link-quaternion4"
)
@pytest.mark.parametrize(
    "quaternion", [[np.nan] * 4, [np.inf, 0.0, 0.0, 1.0], [0.0] * 4, [0.0, 0.0, 0.0, 5.0], [0.0, 0.0, 0.0, 1e300]]
)
@pytest.mark.parametrize("link", ["z_link", "w_link"])
def test_a_quaternion_that_is_none_is_invalid_whether_joints_can_turn_the_link_or_not(gantry, link, quaternion):
    controller = IKController(gantry, [link], robots=2)
    place = PLACE if link == "z_link" else [0.0, 0.0, 0.0]
    result = run(controller, [[pose(place)], [pose(place, quaternion)]])
    assert result.status.tolist() == [IKStatus.CONVERGED, IKStatus.INVALID]
    np.testing.assert_array_equal(result.joint_q[1], 0.0)
    after = run(controller, [[pose(place)], [pose(place)]])
    assert after.success.all()


@pytest.mark.evidence
def test_a_position_that_no_joint_can_move_is_judged(gantry):
    """Two sliders seen from the first one: nothing moves them in its direction, nor turns them."""
    controller = IKController(gantry, [Target("z_link", reference_link="x_link")])
    near, far = run(controller, pose([0.0, 0.2, 0.1])).copy(), run(controller, pose([0.5, 0.2, 0.1]))
    assert near.success.all()
    assert far.status.tolist() == [IKStatus.STALLED]
    assert far.position_error[0, 0] == pytest.approx(0.5, abs=EXACT)
    bad = run(controller, pose([0.0, 0.2, np.inf]))
    assert bad.status.tolist() == [IKStatus.INVALID]


@pytest.mark.evidence
def test_every_target_is_judged_beside_others(gantry):
    result = run(IKController(gantry, ["w_link", "z_link"]), [pose([0.0, 0.0, 0.0]), pose(orientation=TURNED)])
    assert result.island_status.tolist() == [[IKStatus.STALLED, IKStatus.CONVERGED]]  # in the order of the joints
    assert not result.success[0]
    np.testing.assert_allclose(result.orientation_error, [[0.0, np.pi / 2]], atol=EXACT)


@pytest.mark.evidence
@pytest.mark.parametrize(
    ("weights", "error"), [([1, 1, 1, 0, 0, 1], np.pi / 2), ([1, 1, 1, 1, 1, 0], 0.0), ([1, 1, 1, 0, 0, 0], np.nan)]
)
def test_rows_of_weight_0_are_free_and_no_others(gantry, weights, error):
    result = run(IKController(gantry, [Target("z_link", row_weights=weights)]), pose(orientation=TURNED))
    np.testing.assert_allclose(result.orientation_error, [[error]], atol=EXACT)
    assert result.success[0] == (not error > 0.0)


@pytest.mark.evidence
def test_a_path_is_judged_as_the_solver_judges_it(gantry):
    positions, orientations = np.tile(PLACE, (50, 1)), np.tile(TURNED, (50, 1))
    ticks = IKController(gantry, ["z_link"]).follow(positions, orientations, DT, start_joint_q=np.zeros(4))
    ahead = IKSolver(gantry, ["z_link"], device="cpu").follow(positions, orientations, DT)
    for path in (ticks, ahead):
        assert not path.success.any()
        np.testing.assert_allclose(path.orientation_error, np.pi / 2, atol=EXACT)


@pytest.mark.parametrize(
    ("targets", "options", "message"),
    [
        (["base"], {}, "anything to do with target 'base'"),
        (["w_link", "base"], {}, "anything to do with target 'base'"),
        ([Target("z_link", row_weights=[0, 0, 0, 1, 1, 1])], {}, "the rows of target 'z_link' that have weights"),
        ([Target("z_link", row_weights=[0] * 6)], {"damping_weight": 0.0}, "nothing to do"),
    ],
)
def test_a_target_of_which_no_joint_moves_a_row_is_refused(gantry, targets, options, message):
    with pytest.raises(InputError, match=message):
        IKController(gantry, targets, **options)


@pytest.mark.evidence
@pytest.mark.parametrize("acceleration", [None, 5.0])
def test_without_targets_a_minimum_at_position_limits_is_a_success(gantry, acceleration):
    """Sliders that are drawn beyond their ends: on the way speed holds them back, in the end nothing but these ends."""
    posture = IKObjectivePosture([1.2, -1.2, 0.1, 0.2])
    limits = ControlLimits(acceleration=acceleration)
    controller = begun(gantry, (), np.zeros(4), objectives=[posture], limits=limits)
    first, last = controller.step(dt=DT).copy(), last_of(controller, TICKS, dt=DT)
    if acceleration is None:
        assert first.status.tolist() == [IKStatus.BLOCKED_BY_LIMITS]
        assert not first.success[0]
        assert IKStatus.BLOCKED_BY_LIMITS in last.island_status
    assert last.success.tolist() == [True]
    np.testing.assert_allclose(last.joint_q, [[1.0, -1.0, 0.1, 0.2]], atol=1e-6)


@pytest.mark.evidence
def test_beside_a_target_a_minimum_at_limits_is_none(gantry):
    """The pivot is drawn beyond its end, in an island of its own."""
    posture = IKObjectivePosture([0.0, 0.0, 0.0, 1.2], joints=["w"])
    result = run(IKController(gantry, ["z_link"], objectives=[posture]), pose())
    assert sorted(result.island_status[0]) == [IKStatus.CONVERGED, IKStatus.BLOCKED_BY_LIMITS]
    assert not result.success[0]
