"""Arrays that stay on the device: nothing of a solve passes through the host, and callers may record it in a graph."""

import numpy as np
import pytest
import warp as wp
from ik_service.solver.launches import recording

import ik_service
from ik_service.solver.lm.status import IKStatus
from objectives import IKObjectivePosture, InputError
from tests.solver.conftest import Reachable

GPU = "cuda:0"
COUNT = 20
COPIED = ("bytes_to_device", "bytes_to_host")


class OtherLibrary:
    """An array of another library, which gives its memory on the device away by DLPack alone."""

    def __init__(self, values):
        self._array = wp.array(values, device=GPU)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()

    def __dlpack__(self, **asked):
        return self._array.__dlpack__(**asked)


@pytest.fixture(scope="module")
def problems():
    return Reachable.draw(ik_service.load_robot("panda", collision="ignore"), ["panda_hand"], COUNT, random_seed=5)


def solver_of(problems):
    options = ik_service.SolverOptions(seeds=4)
    return ik_service.IKSolver(problems.robot, problems.links, device=GPU, options=options)


def on_gpu(problems, order=slice(None)):
    given = problems.positions[order, 0], problems.orientations_xyzw[order, 0]
    return [OtherLibrary(values.astype(np.float32)) for values in given]


def solved(problems, order=slice(None)):
    """What `solve` answers for the same float32 numbers."""
    given = problems.positions[order, 0], problems.orientations_xyzw[order, 0]
    return solver_of(problems).solve(*(values.astype(np.float32) for values in given))


def assert_same_columns(found, result):
    for name, column in found.items():
        assert str(column.device) == GPU
        np.testing.assert_array_equal(column.numpy(), getattr(result, name), err_msg=name)


@pytest.mark.usefixtures("schedule")
def test_the_columns_are_those_of_a_solve_by_the_host(problems, monkeypatch):
    monkeypatch.setattr(recording, "USES_MIN", 1)
    device_solver, given = solver_of(problems).on_device(), on_gpu(problems)
    result = solved(problems)
    assert result.success.any()
    for _ in range(3):
        assert_same_columns(device_solver.solve(*given), result)


def test_nothing_is_copied_to_or_from_the_host_and_nobody_waits_but_once(problems, device, monkeypatch):
    monkeypatch.setattr(recording, "USES_MIN", 2)
    device_solver, given = solver_of(problems).on_device(), on_gpu(problems)
    other = on_gpu(problems, slice(None, None, -1))
    for _ in range(2):  # launched: the host asks after every other wave whether there is another one
        device_solver.solve(*given)
    before = {name: device[name] for name in (*COPIED, "waits", "graphs")}
    for k in range(4):  # recorded, replayed
        out = device_solver.solve(*(given, other)[k % 2])
        assert device["waits"] == before["waits"] + k + 1
    assert device["graphs"] > before["graphs"]
    for name in COPIED:
        assert device[name] == before[name]
    assert_same_columns(out, solved(problems, slice(None, None, -1)))
    assert device["bytes_to_host"] > before["bytes_to_host"]  # by the comparison: the count counts


@pytest.mark.evidence
def test_a_solve_by_the_host_between_is_one_that_takes_the_numbers_along(problems, device):
    solver, given = solver_of(problems), on_gpu(problems)
    device_solver, result = solver.on_device(), solved(problems)
    device_solver.solve(*given)
    solver.solve(problems.positions[:3, 0], options={"seeds": 2})
    before = device["bytes_to_device"]
    assert_same_columns(device_solver.solve(*given), result)
    assert 0 < device["bytes_to_device"] - before < 1000  # options and the like


@pytest.mark.usefixtures("schedule")
def test_a_caller_records_solves_in_a_graph_of_their_own(problems):
    """Targets move by what was solved, solve after solve, without the host."""
    device_solver = solver_of(problems).on_device()
    positions = wp.array(problems.positions[:, 0].astype(np.float32), device=GPU)
    orientations = wp.array(problems.orientations_xyzw[:, 0].astype(np.float32), device=GPU)
    starts = wp.array(np.tile(problems.robot.mid_joint_q, (COUNT, 1)).astype(np.float32), device=GPU)
    asked = (positions, orientations)
    out = device_solver.solve(*asked, initial_joint_q=starts)
    with wp.ScopedCapture(device=GPU) as capture:
        device_solver.solve(*asked, initial_joint_q=starts, out=out)
        wp.copy(starts, out["joint_q"])
    for order in (slice(None), slice(None, None, -1)):
        positions.assign(problems.positions[order, 0].astype(np.float32))
        orientations.assign(problems.orientations_xyzw[order, 0].astype(np.float32))
        start = starts.numpy()
        wp.capture_launch(capture.graph)
        given = problems.positions[order, 0], problems.orientations_xyzw[order, 0]
        expected = solver_of(problems).solve(*(values.astype(np.float32) for values in given), initial_joint_q=start)
        assert_same_columns(out, expected)
        np.testing.assert_array_equal(starts.numpy(), expected.joint_q)


def test_what_a_graph_cannot_hold_is_an_error_while_it_is_recorded(problems):
    device_solver, given = solver_of(problems).on_device(), on_gpu(problems)
    arrays = [wp.from_dlpack(one) for one in given]
    out = device_solver.solve(*arrays)
    with wp.ScopedCapture(device=GPU):
        with pytest.raises(InputError, match="out is missing"):
            device_solver.solve(*arrays)
        with pytest.raises(InputError, match="Do so before recording"):
            device_solver.solve(*arrays, out=out, options={"random_seed": 3})
    assert_same_columns(device_solver.solve(*arrays), solved(problems))


@pytest.mark.usefixtures("schedule")
def test_a_faulty_number_ends_its_own_problem_alone(problems):
    given = problems.positions[:, 0].astype(np.float32), problems.orientations_xyzw[:, 0].astype(np.float32)
    given[0][4, 1] = np.nan
    found = solver_of(problems).on_device().solve(*(wp.array(values, device=GPU) for values in given))
    status, expected = found["status"].numpy(), solved(problems)
    others = np.arange(COUNT) != 4
    assert status[4] == IKStatus.INVALID
    np.testing.assert_array_equal(status[others], expected.status[others])
    np.testing.assert_array_equal(found["joint_q"].numpy()[others], expected.joint_q[others])


def test_arrays_of_the_host_are_refused(problems):
    device_solver = solver_of(problems).on_device()
    with pytest.raises(InputError, match=r"positions is on cpu\. Allowed: cuda:0"):
        device_solver.solve(problems.positions[:, 0])


@pytest.mark.usefixtures("schedule")
def test_arrays_that_come_again_are_one_graph_and_whatever_changes_counts(problems, device, monkeypatch):
    monkeypatch.setattr(recording, "USES_MIN", 1)
    solver, given, other = solver_of(problems), on_gpu(problems), on_gpu(problems, slice(None, None, -1))
    host, device_solver = solver_of(problems), solver.on_device()
    out = device_solver.solve(*given)

    def expected(options=None, order=slice(None)):
        numbers = problems.positions[order, 0], problems.orientations_xyzw[order, 0]
        return host.solve(*(values.astype(np.float32) for values in numbers), options=options)

    for _ in range(4):  # launched, recorded without the arrays, with them, replayed
        device_solver.solve(*given, out=out)
    before = {name: device[name] for name in ("launches", "graph_launches")}
    device_solver.solve(*given, out=out)
    assert device["launches"] == before["launches"]
    assert device["graph_launches"] == before["graph_launches"] + 1
    assert_same_columns(out, expected())
    few = {"max_iterations": 3, "position_tolerance": 1e-6}
    assert_same_columns(device_solver.solve(*given, out=out, options=few), expected(few))
    assert_same_columns(device_solver.solve(*other, out=out), expected(order=slice(None, None, -1)))
    twice = [wp.array(np.concatenate([one.numpy()] * 2), device=GPU) for one in map(wp.from_dlpack, given)]
    device_solver.solve(*twice)  # arrays of the solver grow
    out = device_solver.solve(*given, out=out)
    assert_same_columns(out, expected())
    assert not np.array_equal(out["joint_q"].numpy(), expected(few).joint_q)


@pytest.mark.evidence
@pytest.mark.parametrize("kind", ["an objective", "soft limits", "per problem"])
def test_rows_beside_targets_go_into_graphs_too(problems, device, monkeypatch, kind):
    monkeypatch.setattr(recording, "USES_MIN", 1)

    def solver():
        posture = IKObjectivePosture(problems.robot.mid_joint_q, weight=0.01)
        if kind == "per problem":
            posture.set_row_weights(np.linspace(0.5, 1.0, COUNT)[:, None] * np.ones((1, 7)))
        soft = kind == "soft limits"
        options = ik_service.SolverOptions(seeds=4, joint_limits="soft" if soft else "hard")
        further = [] if soft else [posture]
        return ik_service.IKSolver(problems.robot, problems.links, objectives=further, device=GPU, options=options)

    given, device_solver = on_gpu(problems), solver().on_device()
    numbers = problems.positions[:, 0], problems.orientations_xyzw[:, 0]
    expected = solver().solve(*(values.astype(np.float32) for values in numbers))
    out = device_solver.solve(*given)
    for _ in range(4):
        assert_same_columns(device_solver.solve(*given, out=out), expected)
    graphs = device["graph_launches"]
    device_solver.solve(*given, out=out)
    assert device["graph_launches"] == graphs + 1
    with wp.ScopedCapture(device=GPU) as capture:
        device_solver.solve(*given, out=out)
    out["joint_q"].zero_()
    wp.capture_launch(capture.graph)
    assert_same_columns(out, expected)


@pytest.mark.evidence
@pytest.mark.usefixtures("schedule")
def test_derivatives_stay_there_and_are_those_of_the_host(problems, device, monkeypatch):
    monkeypatch.setattr(recording, "USES_MIN", 1)
    solver, given, asked = solver_of(problems), on_gpu(problems), {"sensitivity": "target"}
    device_solver, found = solver.on_device(), {}
    for _ in range(2):
        found = device_solver.solve(*given, options=asked)
    before = {name: device[name] for name in COPIED}
    for _ in range(3):  # with the same arrays: launched, recorded, replayed
        device_solver.solve(*given, options=asked, out=found)
    for name in COPIED:
        assert device[name] == before[name]
    numbers = problems.positions[:, 0].astype(np.float32), problems.orientations_xyzw[:, 0].astype(np.float32)
    result = solver.solve(*numbers, options=asked)
    exists, by_targets = found["is_differentiable"].numpy(), found["joint_q_by_targets"].numpy()
    np.testing.assert_array_equal(found["joint_q"].numpy(), result.joint_q)
    np.testing.assert_array_equal(exists, result.success & result.is_differentiable)
    assert exists.mean() > 0.9
    np.testing.assert_allclose(by_targets[exists], result.joint_q_by_targets[exists], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(by_targets[~exists], 0.0)


@pytest.mark.evidence
def test_derivatives_of_plans_that_take_turns_read_no_memory_that_is_gone(problems, monkeypatch):
    monkeypatch.setattr(recording, "USES_MIN", 1)
    device_solver, asked = solver_of(problems).on_device(), {"sensitivity": "target"}
    sets = [on_gpu(problems), on_gpu(problems, slice(3)), [None, on_gpu(problems)[1]]]
    arrays = [[None if one is None else wp.from_dlpack(one) for one in given] for given in sets]
    kept = [device_solver.solve(*given, options=asked) for given in arrays]
    expected = [{name: column.numpy().copy() for name, column in out.items()} for out in kept]
    for _ in range(5):  # launched, recorded and replayed, the others between
        for given, out, before in zip(arrays, kept, expected, strict=True):
            out["joint_q_by_targets"].fill_(7.0)
            device_solver.solve(*given, options=asked, out=out)
            for name, column in out.items():
                np.testing.assert_array_equal(column.numpy(), before[name], err_msg=name)
