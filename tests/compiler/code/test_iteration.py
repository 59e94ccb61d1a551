"""Laws of the native iteration: what is kept and what changes when trials are better, worse or not numbers."""

from dataclasses import fields, replace

import numpy as np
import pytest

from ik_service.compiler import IterationSource, Lanes
from tests.compiler.conftest import lanes_name, through_native
from tests.compiler.island_cases import island
from tests.compiler.reference_iteration import (
    DAMPING,
    NOT_EVALUATED,
    States,
    held,
    program_of,
    single,
)

COUNT = 8  # a multiple of every width
MANY = 1e6  # iterations that no test takes
LANES = [Lanes(8), Lanes(4, "float64"), Lanes(1)]
FLOOR2 = 1e-10  # a residual of 1e-5, a few times what float32 resolves
EVERYTHING = tuple(field.name for field in fields(States))
KEPT = ("q", "gradient", "lengths2", "errors", "norm2")
UNIT = {"float32": 2e-7, "float64": 4e-16}  # quaternions are normalised in every step


class Line:
    """The native line of an island, and lanes to run it on."""

    def __init__(self, name, lanes):
        self.case, self.lanes = island(name), lanes
        self.program = program_of(self.case, lanes)
        self.source = IterationSource(self.program, lanes, DAMPING)
        self.text = self.source.text()

    def lanes_at(self, seed=0, **numbers):
        joint_q = self.case.robot.random_joint_q(np.random.default_rng(seed), COUNT)
        return single(States.start(self.case, self.source, joint_q, **numbers))

    def iterate(self, states, iterations=MANY):
        places, returned = through_native(self.text, self.lanes, states.packed(), iterations)
        return States.unpacked(places, self.source), returned

    def about_to_fail(self):
        """Lanes that have been evaluated, with trials elsewhere, and a cost that these do not reach."""
        states, _ = self.iterate(self.lanes_at())
        return single(replace(states, trial=self.lanes_at(seed=1).trial, norm2=np.full(COUNT, 1e-3)))

    def reachable(self, seed=5):
        """Lanes with targets that some configurations of theirs reach."""
        states, robot = self.lanes_at(), self.case.robot
        goals = robot.random_joint_q(np.random.default_rng(seed), COUNT)
        inputs = states.inputs.copy()
        for k, one in enumerate(self.program.inputs):
            poses = robot.forward_kinematics(goals, [self.case.objectives[one.objective].link])
            values = {"target_positions": poses.positions, "target_orientations_xyzw": poses.orientations_xyzw}
            if one.field in values:
                inputs[:, k] = values[one.field][:, 0, one.column]
        return single(replace(states, inputs=inputs))


@pytest.fixture(params=LANES, ids=lanes_name)
def line(request):
    return Line("two trees ball", request.param)


def same(a, b, lanes=slice(None), names=EVERYTHING):
    for name in names:
        np.testing.assert_array_equal(getattr(a, name)[lanes], getattr(b, name)[lanes], err_msg=name)


@pytest.mark.parametrize(("gain", "factor"), [(0.0, 4.0), (0.5, 4.0), (2.0, 0.25)])
def test_a_trial_that_gains_next_to_nothing_is_kept_and_is_no_progress(line, gain, factor):
    evaluated, _ = line.iterate(line.lanes_at())
    before = replace(evaluated, trial=evaluated.q, norm2=evaluated.norm2 * (1.0 + gain * DAMPING.progress))
    after, _ = line.iterate(replace(before, damping_factor=np.full(COUNT, 64.0)))
    same(after, evaluated, names=KEPT)
    np.testing.assert_array_equal(after.damping_factor, 64.0 * factor)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_trial_that_is_no_number_is_not_kept_and_disturbs_no_other_lane(line, bad):
    before = replace(line.about_to_fail(), norm2=np.full(COUNT, 1e6))
    trial, others, ill = before.trial.copy(), [0, 2, 3, 4, 5, 7], [1, 6]
    trial[ill, [0, 4]] = bad  # of a quaternion, and of an angle
    clean, _ = line.iterate(before)
    after, returned = line.iterate(replace(before, trial=trial))
    same(after, clean, others)
    same(after, before, ill, names=KEPT)
    np.testing.assert_array_equal(after.damping_factor[ill], 4.0 * before.damping_factor[ill])
    assert np.isfinite(after.trial[others]).all()
    assert (after.norm2[others] < before.norm2[others]).all()
    assert not returned.any()


def test_quaternions_keep_their_length(line):
    states, _ = line.iterate(line.lanes_at())
    for _ in range(30):
        states, _ = line.iterate(replace(states, norm2=np.full(COUNT, NOT_EVALUATED)))  # keeps everything
        assert (states.q != states.trial).any(axis=1).all()
    np.testing.assert_allclose(np.linalg.norm(states.q[:, :4], axis=1), 1.0, rtol=UNIT[line.lanes.precision])


def test_nothing_is_kept_where_targets_are_no_numbers(line):
    states = line.lanes_at()
    states.inputs[3] = np.nan
    for _ in range(3):
        states, _ = line.iterate(states)
    assert states.norm2[3] == np.float32(NOT_EVALUATED)  # which the solver reports as invalid
    assert states.damping_factor[3] == 4.0**3
    assert (np.delete(states.norm2, 3) < 10.0).all()


FINISHED = {
    "nothing": ({}, False),
    "at the floor": ({"floor2": 1e9}, True),
    "exactly at the floor": ({"norm2": 1e-6, "floor2": 1e-6}, True),
    "above the floor": ({"norm2": 1e-6, "floor2": 9.99e-7}, False),
    "hopeless damping": ({"norm2": 1e-6, "damping_factor": 1e4}, True),
    "largest damping": ({"norm2": 1e-6, "damping_factor": 2.5e3}, False),
    "damping saved by progress": ({"damping_factor": 3e4}, False),
    "out of iterations": ({"steps": 19.0}, True),
    "one more iteration": ({"steps": 18.0}, False),
    "idle": ({"steps": -1e9, "floor2": -1.0}, False),
}


@pytest.mark.parametrize("why", FINISHED)
@pytest.mark.parametrize("lane", [0, 2, 7])
def test_it_tells_when_some_lane_has_finished(line, why, lane):
    (changes, over), states = FINISHED[why], line.lanes_at()
    for name, number in changes.items():
        getattr(states, name)[lane] = number
    after, returned = line.iterate(single(states), iterations=20.0)
    assert np.flatnonzero(returned).tolist() == [lane // line.lanes.width] * over
    assert after.norm2.min() > 9e-7


@pytest.mark.evidence
@pytest.mark.parametrize("lanes", LANES, ids=lanes_name)
def test_limits_hold_to_the_bit_and_held_dofs_stay(lanes):
    line = Line("gripper pose behind the follower", lanes)
    states, stayed = line.lanes_at(), 0
    for _ in range(6):
        before, (states, _) = states, line.iterate(states)
        assert (states.trial >= states.lower).all()
        assert (states.trial <= states.upper).all()
        better = states.norm2 < before.norm2  # so that its gradient is that of the last trial
        frozen = held(line.program, states, states.q, states.gradient) & better[:, None]
        np.testing.assert_array_equal(states.trial[frozen], before.trial[frozen])
        stayed += frozen.sum()
        assert (states.trial != before.trial).any()
    assert stayed > COUNT


@pytest.mark.evidence
@pytest.mark.parametrize("lanes", [Lanes(8), Lanes(1)], ids=lanes_name)
def test_rounding_makes_no_long_steps_where_dofs_are_to_spare(lanes):
    """The pivots of such DOFs are nothing but the damping and the rounding of J'J, which is about as large."""
    line, longest = Line("floating two poses", lanes), 0.0
    for seed in range(5):
        states = line.reachable(seed)
        for _ in range(30):
            states, _ = line.iterate(states)
        unevaluated = np.full(COUNT, NOT_EVALUATED)
        near = single(replace(states, trial=states.q, norm2=unevaluated, damping_factor=np.ones(COUNT)))
        after, _ = line.iterate(near)
        solved = after.norm2 < FLOOR2
        longest = max(longest, np.abs(after.trial - after.q)[solved].max())
    assert 0.0 < longest < 0.1, longest


def test_a_lane_gets_the_same_bytes_wherever_it_stands(line):
    """All inputs of the lanes differ; the lanes stand in another order."""
    rng, states = np.random.default_rng(4), line.lanes_at(damping_factor=np.geomspace(1.0, 1e3, COUNT))
    inputs = states.inputs + rng.uniform(-0.01, 0.01, states.inputs.shape)
    margins = rng.uniform(0.0, 0.3, (2, *states.lower.shape))
    states = single(replace(states, inputs=inputs, lower=states.lower + margins[0], upper=states.upper - margins[1]))
    order = rng.permutation(COUNT)
    permuted = States(**{name: getattr(states, name)[order] for name in EVERYTHING})
    for _ in range(3):
        states, permuted = line.iterate(states)[0], line.iterate(permuted)[0]
    for name in EVERYTHING:
        np.testing.assert_array_equal(getattr(permuted, name), getattr(states, name)[order], err_msg=name)
    assert np.ptp(states.trial, axis=0).min() > 0.0
