"""Limits of joints that close loops, on the host: closing within them, sweeps beyond them, and what is no limit."""

import dataclasses

import numpy as np
import pytest

from ik_service.constraints.results import ClosureStatus
from ik_service.robots import LoopConstraint
from objectives.errors import InputError
from tests.constraints.mechanisms import COUPLER, at, four_bar
from tests.objectives.loop_rows import LOOP_LIMITS, LOOP_SIZES

LOWER, UPPER = 0.8, 1.3
CLOSED = 1e-10
COUNT = 300


def bounded(limits=(LOWER, UPPER)):
    (pin,) = four_bar().loops
    return four_bar().with_loops([dataclasses.replace(pin, limits=limits)])


def starts(seed=0):
    return bounded().random_joint_q(np.random.default_rng(seed), COUNT)


def test_loops_close_within_the_limits():
    found = bounded().constraints.close(starts())
    assert found.closed.all()
    angle = four_bar().constraints.with_closing_joints(found.joint_q)[:, -1]
    assert angle.min() >= LOWER - CLOSED
    assert angle.max() <= UPPER + CLOSED
    assert found.constraint_error.max() <= CLOSED
    assert np.minimum(angle - LOWER, UPPER - angle).min() < 1e-9  # some end at a limit
    assert bounded().constraints.close(found.joint_q).joint_q.tobytes() == found.joint_q.tobytes()


@pytest.mark.evidence
def test_what_cannot_close_within_the_limits_says_that_they_block_it():
    plain = four_bar().constraints.close(starts(), frozen=["drive"], attempts=1)
    found = bounded().constraints.close(starts(), frozen=["drive"], solutions=4)
    assert found.joint_q[:, 0].tobytes() == plain.joint_q[:, 0].tobytes()
    blocked = found.status == ClosureStatus.BLOCKED_BY_LIMITS
    assert 10 < blocked.sum() < COUNT - 10
    assert (blocked | found.closed).all()
    assert found.constraint_error[blocked].min() > CLOSED
    modes = found.solutions[np.isfinite(found.solutions).all(axis=2)]
    driven = bounded().constraints.close(starts(), solutions=4)
    apart = np.abs(driven.solutions[:, 1:, 0] - driven.joint_q[:, None, 0])  # modes have the drive where it is
    assert np.nanmax(apart, initial=0.0) == 0.0
    angle = four_bar().constraints.with_closing_joints(modes)[:, -1]
    assert ((angle >= LOWER - CLOSED) & (angle <= UPPER + CLOSED)).all()


def test_loops_that_are_not_enabled_have_no_limits():
    off = np.zeros(1, dtype=bool)
    found = bounded().constraints.close(starts(), enabled=off)
    assert found.joint_q.tobytes() == four_bar().constraints.close(starts(), enabled=off).joint_q.tobytes()


@pytest.mark.evidence_cases("drive-values0")
@pytest.mark.parametrize(("joint", "values"), [("drive", (-3.0, 3.0)), ("pin", (0.7, 1.5))])
def test_sweeps_say_where_limits_are_passed(joint, values):
    path = bounded().constraints.sweep(joint, values, 0.1)
    plain = four_bar().constraints.sweep(joint, values, 0.1, joint_q=path.joint_q[0, 0])
    angle = path.closing_joint_q[0, :, 0]
    within = (angle >= LOWER - CLOSED) & (angle <= UPPER + CLOSED)
    assert plain.status.max() == ClosureStatus.CLOSED
    assert 2 < within.sum() < len(angle) - 2
    assert (path.constraint_error[0, ~within, 0] > CLOSED).all()
    assert ((path.status[0] == ClosureStatus.CLOSED) == within).all()
    assert (path.status[0, ~within] == ClosureStatus.BLOCKED_BY_LIMITS).all()


@pytest.mark.parametrize("turns", [-1, 0, 1])
def test_angles_count_up_to_whole_turns(turns):
    """Of a pin that is turned by nearly half a turn, so that its angle jumps within its range."""
    pin = dataclasses.replace(four_bar().loops[0], offset=at(COUPLER, angle=2.0))
    plain, ends = four_bar().with_loops([pin]), np.array([LOWER, UPPER]) + 2.0 + 2.0 * np.pi * turns
    found = four_bar().with_loops([dataclasses.replace(pin, limits=ends)]).constraints.close(starts())
    assert found.closed.all()
    angle = plain.constraints.with_closing_joints(found.joint_q)[:, -1]
    assert angle.min() < 0.0 < angle.max()
    assert np.abs((angle - ends.mean() + np.pi) % (2.0 * np.pi) - np.pi).max() <= 0.5 * (UPPER - LOWER) + CLOSED


def test_packings_and_what_drives_it_are_those_without_limits():
    limited, plain = bounded().constraints, four_bar().constraints
    closed = limited.close(starts()).joint_q
    assert limited.residual_count == plain.residual_count
    for method in ("error", "residual", "jacobian", "residual_jacobian"):
        assert getattr(limited, method)(closed).tobytes() == getattr(plain, method)(closed).tobytes()
    assert limited.partition(closed).independent == plain.partition(closed).independent


@pytest.mark.evidence
def test_a_robot_is_another_one_with_limits_and_the_same_without():
    assert bounded(None).content_hash == four_bar().content_hash
    assert bounded().content_hash != four_bar().content_hash
    assert bounded((0.0, 1.0)).content_hash != bounded((0.0, 1.1)).content_hash
    endless = bounded((-np.inf, np.inf))
    assert not endless.has_closing_limits
    found, same = (robot.constraints.close(starts()).joint_q for robot in (endless, four_bar()))
    assert found.tobytes() == same.tobytes()
    assert bounded().has_closing_limits


def loop(joint, limits):
    sizes = LOOP_SIZES.get(joint, {})
    return LoopConstraint("pin", joint, "coupler", "rocker", limits=limits, **sizes)


def test_limits_are_pairs_of_numbers():
    for joint, limits in LOOP_LIMITS.items():
        assert loop(joint, limits).limits == tuple(map(tuple, np.array(limits).reshape(-1, 2).tolist()))


@pytest.mark.parametrize(
    ("joint", "limits", "message"),
    [
        ("weld", (0.0, 1.0), "takes no limits"),
        ("spherical", (0.0, 1.0), "takes no limits"),
        ("revolute", (1.0, 0.0), "allowed: 1 pair of a lower and an upper limit"),
        ("revolute", (0.0, np.nan), "allowed: 1 pair"),
        ("revolute", 1.0, "allowed: 1 pair"),
        ("revolute", "far", "allowed: 1 pair"),
        ("revolute", ((0.0, 1.0), (0.0, 1.0)), "allowed: 1 pair"),
        ("revolute", (-np.inf, 2.0), "up to whole turns: give both, or none"),
        ("prismatic", (np.inf, np.inf), "allowed: 1 pair"),
        ("cylindrical", (0.0, 1.0), "allowed: 2 pairs"),
    ],
)
def test_limits_that_a_joint_cannot_have_are_refused(joint, limits, message):
    with pytest.raises(InputError, match=f"Loop 'pin': .*{message}"):
        loop(joint, limits)
