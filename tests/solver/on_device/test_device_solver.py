"""Arrays that stay on the device: the bytes of `solve`, faulty numbers that end their own problem alone, refusals."""

import numpy as np
import pytest
import warp as wp

from ik_service import EngineError, IKStatus, Target, load_robot
from ik_service.robots import Box, World
from objectives import IKObjectivePosture, InputError
from tests.solver.conftest import Reachable, cpu_solver

COUNT = 60
CPU = "cpu"
RECORDED = 4  # solves after which launches are replayed from a graph


def on_cpu(values, dtype=np.float64):
    return wp.array(np.ascontiguousarray(values, dtype), device=CPU)


def assert_same_columns(found, result, problems=slice(None)):
    expected = result.to_warp()
    assert set(found) == set(expected)
    for name, column in expected.items():
        assert found[name].dtype == column.dtype
        np.testing.assert_array_equal(found[name].numpy()[problems], column.numpy()[problems], err_msg=name)


@pytest.fixture
def targets(panda_targets):
    return panda_targets.positions[:COUNT, 0], panda_targets.orientations_xyzw[:COUNT, 0]


CASES = {
    "poses": {},
    "float32": {"dtype": np.float32},
    "positions alone": {"free": True},
    "one start": {"start": "one"},
    "a start each": {"start": "each"},
    "another order of joints": {"start": "each", "joint_order": True},
    "wxyz": {"wxyz": True},
    "answers in float64": {"options": {"precision": "float64"}},
    "few seeds": {"options": {"seeds": 1, "max_iterations": 5}},
}


@pytest.mark.parametrize("case", CASES)
def test_the_columns_are_those_of_a_solve_by_the_host(panda, targets, case):
    asked = CASES[case]
    dtype, options = asked.get("dtype", np.float64), asked.get("options")
    order = ["panda_joint7", *panda.joint_names[:6]] if "joint_order" in asked else None
    solver = cpu_solver(panda, ["panda_hand"], wxyz="wxyz" in asked, joint_order=order)
    positions, orientations = (values.astype(dtype) for values in targets)
    if "wxyz" in asked:
        orientations = orientations[:, [3, 0, 1, 2]]
    if "free" in asked:
        orientations = None
    start = panda.random_joint_q(np.random.default_rng(3), COUNT).astype(dtype)[:, solver._order.coordinates]
    start = {"one": start[0], "each": start}.get(asked.get("start"))
    result = solver.solve(positions, orientations, initial_joint_q=start, options=options)
    assert result.success.sum() > 0
    *given, first = (None if one is None else on_cpu(one, dtype) for one in (positions, orientations, start))
    device_solver = solver.on_device()
    for _ in range(RECORDED):
        assert_same_columns(device_solver.solve(*given, initial_joint_q=first, options=options), result)


def test_several_targets_come_as_one_array_or_as_a_list_and_need_not_be_contiguous(dual_panda):
    problems = Reachable.draw(dual_panda, ["left_panda_hand", "right_panda_hand"], COUNT)
    solver, (positions, orientations) = cpu_solver(dual_panda, problems.links), map(on_cpu, problems.targets)
    device_solver, result = solver.on_device(), solver.solve(*problems.targets)
    assert_same_columns(device_solver.solve(positions, orientations), result)
    turned = on_cpu(problems.positions.transpose(1, 2, 0)).transpose((2, 0, 1))
    assert not turned.is_contiguous
    assert_same_columns(device_solver.solve(turned, [orientations[:, 0], orientations[:, 1]]), result)
    one = solver.solve([problems.positions[:, 0], None], None)
    assert_same_columns(device_solver.solve([positions[:, 0], None], None), one)


def test_vectors_and_arrays_of_other_libraries_are_seen_as_lines_of_numbers(panda, targets):
    solver = cpu_solver(panda, ["panda_hand"])
    positions, orientations = (values.astype(np.float32) for values in targets)
    result = solver.solve(positions, orientations)
    vectors = wp.array(positions, dtype=wp.vec3, device=CPU), wp.array(orientations, dtype=wp.quat, device=CPU)
    assert_same_columns(solver.on_device().solve(*vectors), result)
    assert_same_columns(solver.on_device().solve(positions, orientations), result)  # NumPy has __dlpack__


def test_objectives_obstacles_and_their_changes_count(targets):
    robot = load_robot("panda")
    posture = IKObjectivePosture(robot.mid_joint_q, weight=0.1)
    solver = cpu_solver(robot, ["panda_hand"], objectives=[posture])
    device_solver, given = solver.on_device(), [on_cpu(values) for values in targets]
    wall = World({"wall": Box((0.1, 2.0, 2.0), (0.6, 0.0, 0.5, 0.0, 0.0, 0.0, 1.0))})
    results = [solver.solve(*targets, world=world) for world in (None, wall)]
    assert (results[0].status != results[1].status).any()
    for world, result in zip((None, wall), results, strict=True):
        assert_same_columns(device_solver.solve(*given, world=world), result)
    posture.set_reference(robot.mid_joint_q + 0.2)
    assert_same_columns(device_solver.solve(*given), solver.solve(*targets))


def test_solves_of_other_kinds_between_change_nothing(panda, targets):
    solver = cpu_solver(panda, ["panda_hand"], threads=2)
    device_solver = solver.on_device()
    given = [on_cpu(values) for values in targets]
    first = {name: column.numpy().copy() for name, column in device_solver.solve(*given).items()}
    solver.solve(targets[0][:7], options={"seeds": 2}, joint_limits={"panda_joint1": (-0.1, 0.1)})
    device_solver.solve(given[0][:3], options={"random_seed": 5})
    many = np.tile(targets[0], (20, 1)), np.tile(targets[1], (20, 1))
    device_solver.solve(*map(on_cpu, many))  # larger arrays, and parts for both threads
    for name, column in device_solver.solve(*given).items():
        np.testing.assert_array_equal(column.numpy(), first[name], err_msg=name)


PLACES = wp.zeros((4, 3), device=CPU)
SPOILT = {  # which of positions, orientations and starts, which of its numbers, and how, so that `solve` refuses all
    "not a number": (0, 1, np.nan),
    "infinite": (0, 1, np.inf),
    "too large": (0, 1, 2e9),
    "no unit quaternion": (1, slice(None), 0.55),
    "no quaternion": (1, slice(None), 0.0),
    "start": (2, 2, np.nan),
}


@pytest.mark.parametrize("kind", SPOILT)
def test_a_faulty_number_ends_its_own_problem_alone(panda, targets, kind):
    solver, given = cpu_solver(panda, ["panda_hand"]), [*targets, np.tile(panda.mid_joint_q, (COUNT, 1))]
    expected = solver.solve(*given[:2], initial_joint_q=given[2])
    array, place, value = SPOILT[kind]
    given[array] = given[array].copy()
    given[array][3, place] = value
    with pytest.raises(InputError):
        solver.solve(*given[:2], initial_joint_q=given[2])
    *spoilt, start = map(on_cpu, given)
    found = solver.on_device().solve(*spoilt, initial_joint_q=start)
    assert found["status"].numpy()[3] == IKStatus.INVALID
    assert not found["success"].numpy()[3]
    assert np.isfinite(found["joint_q"].numpy()).all()
    assert_same_columns(found, expected, np.arange(COUNT) != 3)


def test_columns_go_into_arrays_of_before(panda, targets):
    solver = cpu_solver(panda, ["panda_hand"])
    device_solver, given = solver.on_device(), [on_cpu(values) for values in targets]
    out = device_solver.solve(on_cpu(targets[0][::-1]), on_cpu(targets[1][::-1]))
    found = device_solver.solve(*given, out=out)
    assert all(found[name] is out[name] for name in out)
    assert_same_columns(out, solver.solve(*targets))
    short = device_solver.solve(given[0][:5], given[1][:5])
    with pytest.raises(InputError, match=r"out\['joint_q'\] is float32 \[5, 7\] on cpu. Allowed: contiguous float32"):
        device_solver.solve(*given, out=short)
    del out["status"]
    with pytest.raises(InputError, match="out lacks 'status'"):
        device_solver.solve(*given, out=out)


@pytest.mark.parametrize(
    ("given", "more", "words"),
    [
        (([[0.4, 0.1, 0.5]],), {}, r"positions\[0\] is not an array on a device"),
        (([None, None],), {}, "positions has 2 arrays"),
        ((wp.zeros((4, 3), dtype=wp.int32, device=CPU),), {}, "positions is of int32"),
        ((wp.zeros((4, 2), device=CPU),), {}, r"positions have shape \[4, 2\]"),
        ((wp.zeros((4, 2, 3), device=CPU),), {}, r"positions have shape \[4, 2, 3\]. Allowed: \[n, 1, 3\]"),
        ((wp.zeros((0, 3), device=CPU),), {}, "batch is empty"),
        ((wp.zeros((4, 3), device=CPU), wp.zeros((5, 4), device=CPU)), {}, r"hold \[4, 5\] problems"),
        ((None,), {}, "No target has positions"),
        ((PLACES,), {"options": {"solutions": 2}}, "Option solutions is 2. Allowed on a device: 1"),
        ((PLACES,), {"options": {"best_of": "nearest"}}, "Option best_of is 'nearest'"),
        ((PLACES,), {"options": {"deadline_s": 1.0}}, "Option deadline_s is 1.0"),
        (
            (PLACES,),
            {"initial_joint_q": wp.zeros((2, 7), device=CPU)},
            r"has shape \[2, 7\]. Allowed: \[7\] or \[4, 7\]",
        ),
    ],
)
def test_what_is_not_allowed_is_an_error(panda, given, more, words):
    with pytest.raises(InputError, match=words):
        cpu_solver(panda, ["panda_hand"]).on_device().solve(*given, **more)


def test_what_only_the_host_can_do_is_an_error(panda, targets):
    staged = cpu_solver(panda, ["panda_hand"], engine="staged")
    without = cpu_solver(panda, objectives=[IKObjectivePosture(panda.mid_joint_q)])
    for solver in (staged, without):
        with pytest.raises(EngineError, match="solvers of targets by the compiled engine"):
            solver.on_device()
    weights = np.where(np.arange(COUNT)[:, None] % 2, 1.0, [1.0, 1.0, 1.0, 0.0, 0.0, 0.0])
    uneven = cpu_solver(panda, [Target("panda_hand", row_weights=weights)])
    with pytest.raises(EngineError, match="only the host can tell"):
        uneven.on_device().solve(*map(on_cpu, targets))
