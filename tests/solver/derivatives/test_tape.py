"""Solves on a tape of Warp: gradients beside differences of other solves, and beside `Linearisation.vjp`."""

from functools import partial

import numpy as np
import pytest
import warp as wp
from warp.autograd import gradcheck

from ik_service import SolverOptions, Target, load_robot
from ik_service.tape import solve_on_tape
from objectives import InputError
from tests.solver.conftest import cpu_solver

COUNT = 6
float64_array = partial(wp.array, dtype=wp.float64, device="cpu")
STEP = 1e-5
TOOL = np.array([0.02, -0.01, 0.1, 0.0, 0.0, np.sin(0.2), np.cos(0.2)])


@wp.kernel
def weighted(values: wp.array2d[wp.float64], weights: wp.array2d[wp.float64], sum_out: wp.array[wp.float64]):
    i, k = wp.tid()
    wp.atomic_add(sum_out, 0, weights[i, k] * wp.sin(values[i, k]))


@pytest.fixture(scope="module")
def case():
    """A robot with as many joints as rows, its solver with a tool, starts beside answers, targets and weights."""
    robot, rng = load_robot("ur5e"), np.random.default_rng(0)
    start = rng.uniform(0.4, 1.2, (COUNT, 6))
    robot = robot.with_frame("tip", "tool0", TOOL)
    poses = robot.forward_kinematics(start, ["tip"])
    solver = cpu_solver(robot, targets=[Target("tool0", offset=TOOL)], options=SolverOptions(precision="float64"))
    return solver, start, poses.positions[:, 0], poses.orientations_xyzw[:, 0], rng.normal(size=(COUNT, 6))


def loss_of(case, positions, orientations, offset=TOOL):
    solver, start, *_, weights = case
    solver.set_target_data(0, offset=offset)
    result = solver.solve(positions, orientations, initial_joint_q=start)
    solver.set_target_data(0, offset=TOOL)
    assert result.success.all()
    return float((weights * np.sin(result.joint_q)).sum())


def on_tape(case, *arrays, offsets=None):
    solver, start, *_, weights = case
    tape, total = wp.Tape(), wp.zeros(1, dtype=wp.float64, device="cpu", requires_grad=True)
    given = float64_array(start)
    answer = solve_on_tape(tape, solver, *arrays, initial_joint_q=given, offsets=offsets)
    with tape:
        wp.launch(weighted, (COUNT, 6), [answer.joint_q, wp.array(weights, device="cpu")], [total], device="cpu")
    tape.backward(total)
    return tape, answer


def differences(case, values, loss):
    """Central differences of a loss by every number."""
    found = np.zeros(values.shape)
    for place in np.ndindex(values.shape):
        ends = []
        for by in (STEP, -STEP):
            moved = values.copy()
            moved[place] += by
            ends.append(loss(moved))
        found[place] = (ends[0] - ends[1]) / (2.0 * STEP)
    return found


@pytest.mark.evidence_cases("numbers")
@pytest.mark.parametrize("as_vectors", [False, True], ids=["numbers", "vectors"])
def test_gradients_are_those_of_other_solves(case, as_vectors):
    _, _, p, o, _ = case
    kinds = (wp.vec3d, wp.quatd) if as_vectors else (wp.float64, wp.float64)
    positions, orientations = (
        wp.array(one, dtype=kind, device="cpu", requires_grad=True) for one, kind in zip((p, o), kinds, strict=True)
    )
    _, answer = on_tape(case, positions, orientations)
    assert answer.success.all()
    assert answer.is_differentiable.all()
    of_positions = differences(case, p, lambda moved: loss_of(case, moved, o))
    np.testing.assert_allclose(positions.grad.numpy(), of_positions, rtol=1e-5, atol=1e-6)

    def turned(moved):
        return loss_of(case, p, moved / np.linalg.norm(moved, axis=1, keepdims=True))

    np.testing.assert_allclose(orientations.grad.numpy(), differences(case, o, turned), rtol=1e-5, atol=1e-6)


def test_warps_own_check_of_gradients_passes(case):
    """It calls the function within the block of a tape of its own, and without one for differences."""
    solver, start, p, o, _ = case
    given = float64_array(start[:2])
    turns = float64_array(o[:2])
    tapes = []

    def solved(positions):
        tapes.append(wp._src.context.runtime.tape)
        return solve_on_tape(tapes[-1] or wp.Tape(), solver, positions, turns, initial_joint_q=given).joint_q

    positions = float64_array(p[:2], requires_grad=True)
    bounds = {"eps": STEP, "atol": 1e-6, "rtol": 1e-5, "show_summary": False}
    assert gradcheck(solved, inputs=[positions], **bounds)
    assert {tape is None for tape in tapes} == {True, False}


def test_tool_frames_have_gradients(case):
    _, _, p, o, _ = case
    arrays = [float64_array(one) for one in (p, o)]
    tools = float64_array(TOOL, requires_grad=True)
    on_tape(case, *arrays, offsets=tools)
    # Tool frames are float32 on the device: so are differences by them.
    found = differences(case, TOOL[:3], lambda moved: loss_of(case, p, o, np.append(moved, TOOL[3:])))
    np.testing.assert_allclose(tools.grad.numpy()[:3], found, rtol=1e-3)


def test_gradients_add_up_and_are_zeroed(case):
    _, _, p, o, _ = case
    positions = float64_array(p, requires_grad=True)
    orientations = float64_array(o)
    tape, _ = on_tape(case, positions, orientations)
    once = positions.grad.numpy().copy()
    on_tape(case, positions, orientations)
    np.testing.assert_allclose(positions.grad.numpy(), 2.0 * once, rtol=1e-12)
    assert orientations.grad is None
    tape.zero()
    assert not positions.grad.numpy().any()


def test_what_is_no_array_of_warp_is_refused(case):
    with pytest.raises(InputError, match="positions must be an array of Warp, got ndarray"):
        solve_on_tape(wp.Tape(), case[0], case[2])
    numbers = wp.array(np.ones((2, 3), np.int32), device="cpu")
    with pytest.raises(InputError, match="positions is of type int32"):
        solve_on_tape(wp.Tape(), case[0], numbers)
    with pytest.raises(InputError, match="one, \\[n\\]"):
        solve_on_tape(wp.Tape(), case[0], wp.zeros((2, 2, 3), dtype=wp.float64, device="cpu"))
