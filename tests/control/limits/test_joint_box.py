"""The interval of a joint: limits one by one, their precedence, and that whoever keeps to it can always stop."""

import functools
import typing

import numpy as np
import pytest
import warp as wp
from hypothesis import given, settings
from hypothesis import strategies as st

from ik_service.compiler import Lanes
from ik_service.control.limits import KINDS, LimitKind
from ik_service.control.tick.packet_text import PacketText, fragments

INF = np.inf
LANES = (Lanes(1, "float64"), Lanes(4, "float64"))
NUMBERS = 8
FAST = {"acceleration": 10.0, "qd": 1.0}


@functools.cache
@typing.no_type_check
def kernels(lanes):
    """Kernels that find a line's interval and its braking move, with the same numbers in all lanes."""
    own = [*PacketText(lanes, KINDS, {}).arithmetic(), *fragments("braking_move", "joint_box")]
    head = "\n".join(["", "{", *own, f"const double* const n = numbers.data + {NUMBERS} * line;", ""])
    box_body = f"""{head}
    const Box box = joint_box(zero + n[0], zero + n[1], n[2], n[3], n[4], n[5], n[6], n[7]);
    U* const out = (U*)ends.data + 4 * line;
    out[0] = box.below; out[1] = box.above; out[2] = box.kind_below; out[3] = box.kind_above;
    }}
    """
    brake_body = f"{head}((U*)ends.data)[line] = braking_move(zero + n[0], n[1], n[2]);\n}}\n"

    @wp.func_native(box_body)
    def find_box(numbers: wp.array[wp.float64], ends: wp.array[wp.float64], line: int): ...

    @wp.func_native(brake_body)
    def find_move(numbers: wp.array[wp.float64], ends: wp.array[wp.float64], line: int): ...

    @wp.kernel(module="unique", enable_backward=False)
    def box_kernel(numbers: wp.array[wp.float64], ends: wp.array[wp.float64]):
        find_box(numbers, ends, wp.tid())

    @wp.kernel(module="unique", enable_backward=False)
    def brake_kernel(numbers: wp.array[wp.float64], ends: wp.array[wp.float64]):
        find_move(numbers, ends, wp.tid())

    return box_kernel, brake_kernel


def found_by(which, lines, places):
    """Return what a kernel finds, [lines, places], the same in all lanes and at all widths."""
    lines = np.atleast_2d(lines).astype(np.float64)
    padded = np.zeros((len(lines), NUMBERS))
    padded[:, : lines.shape[1]] = lines
    answers = []
    for lanes in LANES:
        ends = wp.zeros(len(lines) * places * lanes.width, dtype=wp.float64, device="cpu")
        given = wp.array(padded.ravel(), dtype=wp.float64, device="cpu")
        wp.launch(kernels(lanes)[which], len(lines), [given, ends], device="cpu")
        answers += list(np.moveaxis(ends.numpy().reshape(len(lines), places, lanes.width), -1, 0))
    for answer in answers[1:]:
        np.testing.assert_array_equal(answer, answers[0])
    return answers[0]


def box(q=0.0, qd=0.0, dt=0.01, lower=-1.0, upper=1.0, velocity=INF, acceleration=INF, joint_step=INF):
    lines = np.stack(np.broadcast_arrays(q, qd, dt, lower, upper, velocity, acceleration, joint_step), axis=-1)
    found = found_by(0, lines, 4)
    return found[:, :2], found[:, 2:].astype(int)


def brake(room, acceleration, dt):
    return found_by(1, np.stack(np.broadcast_arrays(room, acceleration, dt), axis=-1), 1)[:, 0]


@pytest.mark.parametrize(
    ("given_limits", "ends", "kinds"),
    [
        ({}, (-1.0, 1.0), (LimitKind.POSITION, LimitKind.POSITION)),
        ({"velocity": 2.0}, (-0.02, 0.02), (LimitKind.VELOCITY, LimitKind.VELOCITY)),
        ({"velocity": 2.0, "joint_step": 0.01}, (-0.01, 0.01), (LimitKind.JOINT_STEP, LimitKind.JOINT_STEP)),
        ({"velocity": 2.0, "q": 0.99}, (0.97, 1.0), (LimitKind.VELOCITY, LimitKind.POSITION)),
        ({"acceleration": 10.0}, (-0.001, 0.001), (LimitKind.ACCELERATION, LimitKind.ACCELERATION)),
        (FAST, (0.009, 0.011), (LimitKind.ACCELERATION, LimitKind.ACCELERATION)),
        # At speed, but too near to the limit to go on like this.
        ({**FAST, "q": 0.96, "velocity": 1.0}, None, (LimitKind.ACCELERATION, LimitKind.BRAKING)),
        # Outside the limits: it may stay or come back.
        ({"q": 1.2, "velocity": 1.0}, (1.19, 1.2), (LimitKind.VELOCITY, LimitKind.POSITION)),
        ({"q": -1.2, "velocity": 1.0}, (-1.2, -1.19), (LimitKind.POSITION, LimitKind.VELOCITY)),
        # Faster than allowed: speed before acceleration.
        ({"qd": 3.0, "velocity": 1.0, "acceleration": 10.0}, (0.01, 0.01), None),
        # No time left to brake: the position limit before acceleration.
        ({"qd": 3.0, "q": 1.0, "acceleration": 10.0}, (1.0, 1.0), None),
    ],
)
def test_limits_and_their_precedence(given_limits, ends, kinds):
    found, found_kinds = box(**given_limits)
    if ends is not None:
        np.testing.assert_allclose(found[0], ends, rtol=1e-12)
    if kinds is not None:
        assert [LimitKind(k) for k in found_kinds[0]] == list(kinds)


def test_braking_is_counted_in_ticks():
    """By hand, in units of a dt^2: after a move of u follow u - 1, u - 2 ... until the joint stands."""
    rooms = np.array([0.0, 0.5, 1.0, 2.0, 3.0, 6.0, 10.0])
    np.testing.assert_allclose(brake(rooms, 1.0, 1.0), [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0])
    assert brake(0.3, INF, 0.1)[0] == 0.3
    assert brake(INF, 2.0, 0.1)[0] == INF


@pytest.mark.evidence
@settings(max_examples=60)
@given(
    q=st.floats(-1.0, 1.0),
    dt=st.floats(1e-4, 0.1),
    velocity=st.floats(0.01, 50.0),
    acceleration=st.floats(0.1, 1000.0),
    seed=st.integers(0, 2**32 - 1),
)
def test_whoever_keeps_to_the_interval_can_always_stop(q, dt, velocity, acceleration, seed):
    """200 ticks of a joint that goes to an end of its interval, or anywhere in it."""
    rng = np.random.default_rng(seed)
    qd, slack = 0.0, 1e-9
    for _ in range(200):
        (below, above), _ = (found[0] for found in box(q, qd, dt, -1.0, 1.0, velocity, acceleration))
        assert below <= above
        choice = rng.integers(3)
        goal = (below, above, rng.uniform(below, above))[choice]
        speed = (goal - q) / dt
        assert -1.0 <= goal <= 1.0
        assert abs(speed) <= velocity * (1.0 + slack) + 1e-15 / dt
        assert abs(speed - qd) <= acceleration * dt * (1.0 + slack) + 1e-14 / dt
        q, qd = goal, speed


@settings(max_examples=200)
@given(
    st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=2),
    st.floats(1e-4, 1.0),
    st.floats(0.0, 1e3),
    st.floats(1e-3, 1e4),
)
def test_the_interval_is_never_empty(state, dt, velocity, acceleration):
    q, qd = state
    ends, _ = box(q, qd, dt, -1.0, 1.0, velocity, acceleration, 0.5)
    assert ends[0, 0] <= ends[0, 1]
    assert ends[0, 0] >= min(q, -1.0)
    assert ends[0, 1] <= max(q, 1.0)
