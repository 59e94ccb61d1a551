"""Arrays that stay on the device: nothing of a solve passes through the host, and callers may record it in a graph."""

import numpy as np
import pytest
import warp as wp

import ik_service
from ik_service.solver import recording
from objectives import IKObjectivePosture, InputError
from tests.pretended_cuda.conftest import COUNT, GPU, evidence, solver_of
from tests.solver.conftest import assert_same_bytes

COPIED = ("bytes_to_device", "bytes_to_host")
BACK = slice(None, None, -1)


def numbers(panda, order=slice(None)):
    """Positions and orientations as arrays on the device have them."""
    return [one[order, 0].astype(np.float32) for one in (panda.positions, panda.orientations_xyzw)]


def on_gpu(panda, order=slice(None)):
    return [wp.array(values, device=GPU) for values in numbers(panda, order)]


def solved(panda, order=slice(None), **given):
    return solver_of(panda).solve(*numbers(panda, order), **given)


@pytest.fixture
def recorded_soon(monkeypatch):
    monkeypatch.setattr(recording, "USES_MIN", 1)


def assert_same_columns(found, result):
    for name, column in found.items():
        assert str(column.device) == GPU
        np.testing.assert_array_equal(column.numpy(), getattr(result, name), err_msg=name)


def test_nothing_is_copied_to_or_from_the_host_and_nobody_waits_but_once(panda, device, monkeypatch):
    monkeypatch.setattr(recording, "USES_MIN", 2)
    device_solver, given, other = solver_of(panda).on_device(), on_gpu(panda), on_gpu(panda, BACK)
    for _ in range(2):  # launched: the host asks after every other wave whether there is another one
        device_solver.solve(*given)
    before = {name: device[name] for name in (*COPIED, "waits", "graphs")}
    for k in range(4):  # recorded, replayed
        out = device_solver.solve(*(given, other)[k % 2])
        assert device["waits"] == before["waits"] + k + 1
    assert device["graphs"] > before["graphs"]
    assert [device[name] for name in COPIED] == [before[name] for name in COPIED]
    assert_same_columns(out, solved(panda, BACK))
    assert device["bytes_to_host"] > before["bytes_to_host"]  # by the comparison: the count counts


@pytest.mark.usefixtures("schedule")
def test_a_caller_records_solves_in_a_graph_of_their_own(panda):
    """Targets move by what was solved, solve after solve, without the host."""
    device_solver = solver_of(panda).on_device()
    asked = on_gpu(panda)
    starts = wp.array(np.tile(panda.robot.mid_joint_q, (COUNT, 1)).astype(np.float32), device=GPU)
    out = device_solver.solve(*asked, initial_joint_q=starts)
    with wp.ScopedCapture(device=GPU) as capture:
        device_solver.solve(*asked, initial_joint_q=starts, out=out)
        wp.copy(starts, out["joint_q"])
    for order in (slice(None), BACK):
        for array, values in zip(asked, numbers(panda, order), strict=True):
            array.assign(values)
        start = starts.numpy()
        wp.capture_launch(capture.graph)
        expected = solved(panda, order, initial_joint_q=start)
        assert_same_columns(out, expected)
        np.testing.assert_array_equal(starts.numpy(), expected.joint_q)


@pytest.mark.evidence
def test_a_solve_on_the_host_takes_arrays_of_the_device_and_gives_its_columns_there(panda):
    result = solver_of(panda).solve(*on_gpu(panda))
    assert_same_bytes(result, solved(panda))
    assert_same_columns(result.to_warp(), result)


def test_what_a_graph_cannot_hold_is_an_error_while_it_is_recorded(panda):
    device_solver, given = solver_of(panda).on_device(), on_gpu(panda)
    out = device_solver.solve(*given)
    with wp.ScopedCapture(device=GPU):
        with pytest.raises(InputError, match="out is missing"):
            device_solver.solve(*given)
        with pytest.raises(InputError, match="Do so before recording"):
            device_solver.solve(*given, out=out, options={"random_seed": 3})
    assert_same_columns(device_solver.solve(*given), solved(panda))


def test_arrays_of_the_host_are_refused(panda):
    device_solver = solver_of(panda).on_device()
    with pytest.raises(InputError, match=r"positions is on cpu\. Allowed: cuda:0"):
        device_solver.solve(panda.positions[:, 0])


def solver_with(panda, beside):
    """A solver with something beside its targets."""
    posture = IKObjectivePosture(panda.robot.mid_joint_q, weight=0.01)
    if beside == "rows per problem":
        posture.set_row_weights(np.linspace(0.5, 1.0, COUNT)[:, None] * np.ones((1, 7)))
    options = ik_service.SolverOptions(seeds=4, joint_limits="soft" if beside == "soft limits" else "hard")
    further = [posture] if beside in ("a posture", "rows per problem") else []
    solver = ik_service.IKSolver(panda.robot, panda.links, objectives=further, device=GPU, options=options)
    posture.set_reference(np.full(7, 0.1))  # exchanged where it is bound
    return solver


@pytest.mark.usefixtures("schedule", "recorded_soon")
@pytest.mark.parametrize("beside", ["nothing", *map(evidence, ("a posture", "soft limits", "rows per problem"))])
def test_arrays_that_come_again_are_one_graph_and_whatever_changes_counts(panda, device, beside):
    device_solver, given = solver_with(panda, beside).on_device(), on_gpu(panda)
    host, few = solver_with(panda, beside), {"max_iterations": 3, "position_tolerance": 1e-6}
    expected = host.solve(*numbers(panda))
    assert expected.success.any()
    out = device_solver.solve(*given)
    for _ in range(4):  # launched, recorded without the arrays, with them, replayed
        assert_same_columns(device_solver.solve(*given, out=out), expected)
    before = {name: device[name] for name in ("launches", "graph_launches")}
    device_solver.solve(*given, out=out)
    assert device["launches"] == before["launches"]
    assert device["graph_launches"] == before["graph_launches"] + 1
    assert_same_columns(out, expected)
    assert_same_columns(device_solver.solve(*given, out=out, options=few), host.solve(*numbers(panda), options=few))
    assert not np.array_equal(out["joint_q"].numpy(), expected.joint_q)
    if beside != "rows per problem":  # which are of problems in this order, and of so many
        assert_same_columns(device_solver.solve(*on_gpu(panda, BACK), out=out), host.solve(*numbers(panda, BACK)))
        device_solver.solve(*(wp.array(np.concatenate([one] * 2), device=GPU) for one in numbers(panda)))  # they grow
    assert_same_columns(device_solver.solve(*given, out=out), expected)


@pytest.mark.evidence
@pytest.mark.usefixtures("schedule", "recorded_soon")
def test_derivatives_stay_there_and_are_those_of_the_host(panda, device):
    """Plans take turns, and none reads memory that is gone."""
    device_solver, asked = solver_of(panda).on_device(), {"sensitivity": "target"}
    sets = [on_gpu(panda), on_gpu(panda, slice(3)), [None, on_gpu(panda)[1]]]
    kept = [device_solver.solve(*given, options=asked) for given in sets]
    expected = [{name: column.numpy().copy() for name, column in out.items()} for out in kept]
    before = [device[name] for name in COPIED]
    for _ in range(3):  # launched, recorded, replayed
        device_solver.solve(*sets[-1], options=asked, out=kept[-1])
    assert [device[name] for name in COPIED] == before
    for _ in range(5):  # with the others between
        for given, out in zip(sets, kept, strict=True):
            out["joint_q_by_targets"].fill_(7.0)
            device_solver.solve(*given, options=asked, out=out)
    for out, columns in zip(kept, expected, strict=True):
        for name, column in out.items():
            np.testing.assert_array_equal(column.numpy(), columns[name], err_msg=name)
    result, found = solved(panda, options=asked), expected[0]
    exists, by_targets = found["is_differentiable"], found["joint_q_by_targets"]
    np.testing.assert_array_equal(found["joint_q"], result.joint_q)
    np.testing.assert_array_equal(exists, result.success & result.is_differentiable)
    assert exists.mean() > 0.9
    np.testing.assert_allclose(by_targets[exists], result.joint_q_by_targets[exists], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(by_targets[~exists], 0.0)
