"""One iteration of the generated line equals one written in NumPy, from equal states, at every width and precision."""

from dataclasses import fields, replace
from itertools import islice

import numpy as np
import pytest

from ik_service.compiler import IterationSource, Lanes
from tests.compiler.conftest import through_native
from tests.compiler.island_cases import island
from tests.compiler.reference_iteration import DAMPING, States, finished, held, program_of, reference_iteration, single

WIDE = Lanes(4, "float64")
COUNT = 24  # lanes: random, near a limit, on limits
ITERATIONS = 5  # the last ones close to a solution, where steps are rejected too
EXACT = 1e-9  # the agreement that the design asks of one step in float64
SINGLE = 5e-5  # float32 rounding times the condition of well damped systems, up to a few hundreds
CASES = [
    "panda weighted pose of a tool",
    "panda three targets and posture",
    "panda axis, line and posture",
    "panda limits",
    "panda functions",
    "floating choices and pose",
    "locked panda pose and posture",
    "gripper pose behind the follower",
    "dual relative",
    "followers pose and posture",
    "two trees follower",
    "two trees ball",
    "two trees centre of mass",
    "two trees relative",
    "floating two poses",
    "floating relative",
    "floating posture of the base",
    "locked base pose and posture",
    "locked middle pose",
]


def starts(case, program):
    """Configurations: a third random, a third with limits within reach of a step, a third with DOFs on a limit."""
    robot, rng = case.robot, np.random.default_rng(6)
    q = robot.random_joint_q(rng, COUNT)
    third = COUNT // 3
    for a in range(robot.active_dof_count):
        c, ends = robot.dof_coordinate[robot.active_dof[a]], (robot.active_limit_lower[a], robot.active_limit_upper[a])
        for i in range(third, COUNT):
            end = ends[rng.integers(2)]
            if c >= 0 and np.isfinite(end) and rng.random() < 0.6:
                inwards = 0.01 if end == ends[0] else -0.01
                q[i, c] = end + (inwards if i < 2 * third else 0.0)
    return robot.complete_joint_q(q)


def iterate(source, states):
    """States after one iteration of the native line, and what it returned for every group of lanes."""
    places, returned = through_native(source.text(), source.lanes, states.packed(), float(ITERATIONS))
    return States.unpacked(places, source), returned


def agree(got, expected, tolerance):
    """Compare all that a lane remembers; the numbers are of about 1, but for those of lanes not evaluated yet."""
    for field in fields(States):
        a, b = getattr(got, field.name), getattr(expected, field.name)
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, err_msg=field.name)


@pytest.mark.quick_cases(
    "locked panda pose and posture", "followers pose and posture", "two trees follower", "two trees ball"
)
@pytest.mark.parametrize("name", CASES)
def test_iterations_in_float64_equal_numpy(name):
    case = island(name)
    program = program_of(case, WIDE)
    source = IterationSource(program, WIDE, DAMPING)
    damping_factor = np.resize([1.0, 4.0, 64.0, 1e3, 1.0], COUNT)
    states = States.start(case, source, starts(case, program), damping_factor)
    assert states.packed().shape[1] == source.state.size
    first = states
    better, worse, frozen = 0, 0, 0
    for k in range(ITERATIONS):
        if k == ITERATIONS - 1:  # what was tried at first is worse by now
            states = replace(states, trial=np.where(np.arange(COUNT)[:, None] % 3 == 0, first.trial, states.trial))
        expected, steps = reference_iteration(case, program, states, source)
        got, returned = iterate(source, states)
        agree(got, expected, EXACT)
        np.testing.assert_array_equal(returned, finished(expected, DAMPING, ITERATIONS).reshape(-1, 4).any(axis=1))
        assert np.abs(steps).max() > 1e-3
        better += (got.norm2 < states.norm2).sum()
        worse += (got.norm2 == states.norm2).sum()
        frozen += held(program, got, got.q, got.gradient).sum()
        states = got
    assert better > COUNT * (ITERATIONS - 2)  # most are
    assert worse > COUNT // 4  # and the others go on from trials that are worse
    assert returned.all()
    assert frozen > 0 or "limits" in name  # that penalty pulls inwards


def iterated(name, lanes, damping_factor, tolerance, rounded=lambda states: states, damping=DAMPING):
    """Iterate some lanes as NumPy does; gives the program, states before and after, steps, and what was returned."""
    case = island(name)
    program = program_of(case, lanes)
    source = IterationSource(program, lanes, damping)
    states = rounded(States.start(case, source, starts(case, program), damping_factor))
    while True:
        expected, steps = reference_iteration(case, program, states, source)
        got, returned = iterate(source, states)
        agree(got, expected, tolerance)
        yield program, got, steps, returned, expected
        states = got


FLOAT32 = ["panda weighted pose of a tool", "gripper pose behind the follower", "two trees ball", "floating two poses"]


@pytest.mark.quick_cases("panda weighted pose of a tool-8", "two trees ball-8", "two trees ball-1")
@pytest.mark.parametrize("width", [8, 1])
@pytest.mark.parametrize("name", FLOAT32)
def test_iterations_in_float32_equal_numpy(name, width):
    """Two of them: later the damping is small, and the systems as ill-conditioned as float32 bears."""
    found, frozen = iterated(name, Lanes(width), np.resize([1.0, 16.0], COUNT), SINGLE, single), []
    for program, got, *_ in islice(found, 2):
        assert np.abs(got.trial - got.q).max() > 0.1
        frozen.append(held(program, got, got.q, got.gradient).sum())
    assert frozen[1] > 0


@pytest.mark.evidence_cases("panda pose")
@pytest.mark.parametrize("name", ["panda pose", "two trees ball"])
def test_one_lane_in_float64_equals_numpy(name):
    for _, _, _, returned, expected in islice(iterated(name, Lanes(1, "float64"), 1.0, EXACT), 2):
        np.testing.assert_array_equal(returned, finished(expected, DAMPING, ITERATIONS))


def test_a_step_of_more_than_half_a_turn_is_cut_to_that():
    longest, undamped = 0.0, replace(DAMPING, share=1e-9)
    for program, _, steps, *_ in islice(iterated("two trees ball", WIDE, 1.0, EXACT, damping=undamped), 3):
        k = program.dofs.index(program.quaternions[0])
        longest = max(longest, np.linalg.norm(steps[:, k : k + 3], axis=1).max())
    assert longest > np.pi
