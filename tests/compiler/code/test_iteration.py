"""Laws of the native iteration: what is kept and what changes when trials are better, worse or not numbers."""

import itertools
from dataclasses import fields, replace

import numpy as np
import pytest

from ik_service.compiler import IterationSource, Lanes, LaneState, coordinate_names, error_outputs
from tests.compiler.conftest import lanes_name, through_native
from tests.compiler.island_cases import NAMES, island
from tests.compiler.reference_iteration import (
    DAMPING,
    NOT_EVALUATED,
    States,
    full_joint_q,
    held,
    program_of,
    reference_iteration,
    single,
)

COUNT = 8  # a multiple of every width
MANY = 1e6  # iterations that no test takes
LANES = [Lanes(8), Lanes(4, "float64"), Lanes(1)]
FLOOR2 = 1e-10  # a residual of 1e-5, a few times what float32 resolves
KEPT = ("q", "gradient", "lengths2", "errors", "norm2")
UNIT = {"float32": 2e-7, "float64": 4e-16}  # quaternions are normalised in every step


class Line:
    """The native line of an island, and lanes to run it on."""

    def __init__(self, name, lanes, damping=DAMPING):
        self.case, self.lanes = island(name), lanes
        self.program = program_of(self.case, lanes)
        self.source = IterationSource(self.program, lanes, damping)
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


def same(a, b, lanes=slice(None), names=None):
    for name in names if names is not None else [field.name for field in fields(States)]:
        np.testing.assert_array_equal(getattr(a, name)[lanes], getattr(b, name)[lanes], err_msg=name)


def taken(states, lanes):
    """Some of the lanes, or all in another order."""
    return States(**{field.name: getattr(states, field.name)[lanes] for field in fields(States)})


def test_a_trial_that_is_worse_changes_nothing_but_damping_steps_and_trial(line):
    before = line.about_to_fail()
    after, returned = line.iterate(before)
    same(after, before, names=(*KEPT, "inputs", "lower", "upper", "floor2"))
    np.testing.assert_array_equal(after.damping_factor, 4.0 * before.damping_factor)
    np.testing.assert_array_equal(after.steps, before.steps + 1.0)
    assert not returned.any()
    assert (after.trial != before.trial).any(axis=1).all()


@pytest.mark.parametrize(("gain", "factor"), [(0.0, 4.0), (0.5, 4.0), (2.0, 0.25)])
def test_a_trial_that_gains_next_to_nothing_is_kept_and_is_no_progress(line, gain, factor):
    evaluated, _ = line.iterate(line.lanes_at())
    before = replace(evaluated, trial=evaluated.q, norm2=evaluated.norm2 * (1.0 + gain * DAMPING.progress))
    after, _ = line.iterate(replace(before, damping_factor=np.full(COUNT, 64.0)))
    same(after, evaluated, names=KEPT)
    np.testing.assert_array_equal(after.damping_factor, 64.0 * factor)


def test_trials_in_vain_shorten_the_step_until_damping_is_hopeless(line):
    states, worse = line.about_to_fail(), line.lanes_at(seed=1).trial
    lengths, returned = [], np.array([False])
    while not returned.all():
        states, returned = line.iterate(replace(states, trial=worse))
        lengths.append(np.linalg.norm(states.trial - worse, axis=1).max())  # steps go on from the trial
    assert states.damping_factor.tolist() == [4.0**7] * COUNT  # the first power beyond ten thousand
    assert len(lengths) == 7
    assert all(b < a for a, b in itertools.pairwise(lengths))
    assert 0.0 < lengths[-1] < 0.1 * lengths[0]


def test_a_better_trial_is_kept_and_lowers_the_damping_to_one_at_least(line):
    damping_factor = np.resize([64.0, 8.0, 4.0, 2.0, 1.0], COUNT)
    before = line.lanes_at(damping_factor=damping_factor)
    states, _ = line.iterate(before)
    np.testing.assert_array_equal(states.q, before.trial)
    np.testing.assert_array_equal(states.damping_factor, np.maximum(0.25 * damping_factor, 1.0))
    assert 1e-3 < states.norm2.min() <= states.norm2.max() < NOT_EVALUATED
    for _ in range(30):
        states, _ = line.iterate(replace(states, norm2=np.full(COUNT, NOT_EVALUATED)))  # keeps everything
        assert (states.q != states.trial).any(axis=1).all()
    np.testing.assert_allclose(np.linalg.norm(states.q[:, :4], axis=1), 1.0, rtol=UNIT[line.lanes.precision])


@pytest.mark.evidence_cases("floating pose", "panda pose")
@pytest.mark.parametrize("name", ["panda pose", "floating pose", "two trees ball"])
def test_what_is_kept_is_the_best_of_all_that_was_tried(name):
    line = Line(name, Lanes(8))
    states, best, upwards = line.reachable(), np.full(COUNT, np.inf), 0
    place = states.q.copy()
    for _ in range(12):
        trial = states.trial
        fresh, _ = line.iterate(replace(states, norm2=np.full(COUNT, NOT_EVALUATED)))
        states, _ = line.iterate(states)
        better = fresh.norm2 < best
        upwards += (~better).sum()
        best, place = np.where(better, fresh.norm2, best), np.where(better[:, None], trial, place)
        np.testing.assert_array_equal(states.norm2, best)
        np.testing.assert_array_equal(states.q, place)
    assert upwards > 0


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
def test_lanes_do_not_see_each_other(lanes):
    line, order = Line("panda weighted pose of a tool", lanes), np.random.default_rng(3).permutation(COUNT)
    rng, states = np.random.default_rng(4), line.lanes_at(damping_factor=np.geomspace(1.0, 1e3, COUNT))
    inputs = states.inputs + rng.uniform(-0.01, 0.01, states.inputs.shape)  # targets, offsets, weights: all differ
    lower, upper = states.lower + rng.uniform(0.0, 0.3, (COUNT, 7)), states.upper - rng.uniform(0.0, 0.3, (COUNT, 7))
    states = single(replace(states, inputs=inputs, lower=lower, upper=upper))
    permuted = taken(states, order)
    for _ in range(3):
        states, permuted = line.iterate(states)[0], line.iterate(permuted)[0]
    same(permuted, taken(states, order))
    assert np.ptp(states.trial, axis=0).min() > 0.01


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


@pytest.mark.evidence_cases("floating pose", "locked middle pose", "panda pose")
@pytest.mark.parametrize("name", ["floating pose", "two trees ball", "locked middle pose", "panda pose"])
def test_iterations_lead_to_targets_within_reach(name):
    line = Line(name, Lanes(8))
    states, costs = line.reachable(), []
    for _ in range(60):
        states, _ = line.iterate(states)
        costs.append(states.norm2)
    assert (np.diff(costs, axis=0) <= 0.0).all()  # never upwards
    assert (states.norm2 < FLOOR2).sum() >= COUNT // 2  # to try other seeds is the solver's business
    joint_q = full_joint_q(line.case, line.program, states.q)
    rows = line.case.oracle.rows(joint_q)
    for k, one in enumerate(line.program.inputs):  # the oracle's targets are those of the table
        if one.field == "target_positions" and one.objective == 0:
            distance = rows[:, one.column] + line.case.data(line.program)[k] - states.inputs[:, k]
            assert np.abs(distance[states.norm2 < FLOOR2]).max() < 1e-4


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
    states, _ = line.iterate(line.lanes_at())
    backwards = slice(None, None, -1)
    same(line.iterate(taken(states, backwards))[0], taken(line.iterate(states)[0], backwards))


@pytest.mark.parametrize("name", NAMES)
def test_the_state_holds_every_number_once(name):
    program = island(name).program()
    at, dofs, coordinates = LaneState.of(program, 1), len(program.dofs), len(coordinate_names(program))
    names = [field.name for field in fields(LaneState)]
    starts = [getattr(at, name) for name in names]
    expected = dict.fromkeys(names[:-1], 0) | {"q": coordinates, "trial": coordinates, "gradient": dofs, "lengths2": 1}
    expected |= {"errors": len(error_outputs(program)), "norm2": 1, "damping_factor": 1, "steps": 1}
    expected |= {"lower": dofs, "upper": dofs, "inputs": len(program.inputs), "floor2": 1}
    assert starts[0] == 0
    assert dict(zip(names[:-1], np.diff(starts).tolist(), strict=True)) == expected
    for part, size in (("hessian", len(program.coupled)), ("pressure", dofs)):
        more = LaneState.of(program, 1, **{f"with_{part}": True})
        assert (getattr(more, part), more.lower - getattr(more, part)) == (getattr(at, part), size)
    apart = LaneState.of(program, 1, data_apart=True)
    assert replace(at, **dict.fromkeys(("upper", "inputs", "floor2", "size"), at.lower)) == apart
    assert coordinates == dofs + len(program.quaternions)


@pytest.mark.evidence
def test_precisions_agree():
    """The same lanes in both precisions take the same way, as far as float32 goes."""
    lanes, narrow = Lanes(4, "float64"), Line("floating two poses", Lanes(8))
    as_much = replace(DAMPING, least=DAMPING.least * narrow.lanes.rounding / lanes.rounding)
    wide = Line("floating two poses", lanes, as_much)
    a, b = (line.lanes_at(damping_factor=16.0) for line in (wide, narrow))
    expected, _ = reference_iteration(wide.case, wide.program, a, wide.source)
    for _ in range(3):
        a, b = wide.iterate(a)[0], narrow.iterate(b)[0]
        np.testing.assert_allclose(a.trial, b.trial, atol=1e-4)  # of float32 over three steps
    assert np.abs(a.q - expected.q).max() > 0.1
