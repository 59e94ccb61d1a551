"""What an exported solver answers: the bytes of the solver in Python, a code for bad input; it writes nothing else."""

import ctypes
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from ik_service import IKSolver, Target
from tests.export.c_library import BAD_ARGUMENT, BAD_NUMBER, OK, SMALL_WORKSPACE, WRONG_ABI, CLibrary, Problems, Results
from tests.export.conftest import OTHER_COUNT, PANDA_COUNT

ROBOTS = ["panda", *(pytest.param(name, marks=pytest.mark.evidence) for name in ("dual_panda", "floating"))]


@pytest.mark.parametrize("name", ROBOTS)
def test_all_columns_have_the_bytes_of_the_solver_in_python(exported, name):
    robot = exported(name)
    positions, orientations = robot.targets(PANDA_COUNT if name == "panda" else OTHER_COUNT)
    positions[::50] += 3.0  # out of reach, but for a free base
    expected = robot.solver.solve(positions, orientations)
    assert 0.9 < expected.success.mean() <= 1.0
    robot.linked.require(expected, positions, orientations)


@pytest.mark.parametrize("name", ROBOTS)
@pytest.mark.parametrize("lines", [1, 40])
def test_starts_and_options_mean_what_they_mean_in_python(exported, name, lines):
    robot = exported(name)
    positions, orientations = robot.targets(40, random_seed=2)
    start = robot.solver.robot.random_joint_q(np.random.default_rng(3), lines)
    start = start[0] if lines == 1 else start
    options = {"seeds": 3, "max_iterations": 15, "random_seed": 2**32 - 1}
    options |= {"position_tolerance": 1e-5, "orientation_tolerance": 2e-5}
    expected = robot.solver.solve(positions, orientations, initial_joint_q=start, options=options)
    columns = robot.linked.require(expected, positions, orientations, start, robot.linked.options(**options))
    assert columns != robot.linked.solve(positions, orientations)[1]


def test_targets_may_be_positions_alone(panda, tmp_path):
    positions, _ = panda.targets(300)
    expected = panda.solver.solve(positions)
    assert expected.success.all()
    assert np.isnan(expected.orientation_error).all()
    library = CLibrary.of(panda.solver, "reach", tmp_path, orientations=False, problem_count=50)
    library.require(expected, positions, np.full((1, 4), np.nan))  # not read


@pytest.mark.evidence
@pytest.mark.parametrize(
    "data",
    [
        {"offset": [0.01, 0.0, 0.1, 0.0, 0.0, 0.6, 0.8], "row_weights": [1, 1, 1, 0.3, 0.3, 0]},
        {"free": ["rz"], "tolerance": [0.0, 0.0, 0.02, 0.2, 0.2, 0.0]},
    ],
    ids=["tool and weights", "tolerances"],
)
def test_data_that_all_problems_have_go_with_it(panda, tmp_path, data):
    solver = IKSolver(panda.solver.robot, [Target("panda_hand", **data)], device="cpu")
    targets = panda.targets(300)
    expected = solver.solve(*targets)
    assert expected.success.mean() > 0.9
    CLibrary.of(solver, "tool", tmp_path, problem_count=50).require(expected, *targets)


def test_threads_do_not_disturb_each_other(panda):
    positions, orientations = panda.targets(2000)
    expected = panda.linked.solve(positions, orientations)
    with ThreadPoolExecutor(4) as executor:
        found = list(executor.map(lambda _: panda.linked.solve(positions, orientations), range(8)))
    assert all(one == expected for one in found)


def test_a_problem_alone_gives_what_it_gives_in_a_batch(panda):
    positions, orientations = panda.targets(50)
    together = np.frombuffer(panda.linked.solve(positions, orientations)[1]["joint_q"], np.float32).reshape(50, -1)
    for k in range(50):
        alone = panda.linked.solve(positions[k : k + 1], orientations[k : k + 1], shift=k % 64)
        assert alone[0] == OK
        assert alone[1]["joint_q"] == together[k].tobytes()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e10])
@pytest.mark.parametrize("which", range(3), ids=["positions", "orientations", "start"])
def test_a_number_that_is_not_allowed_is_a_code(panda, value, which):
    given = [*panda.targets(3), panda.solver.robot.mid_joint_q.copy()]
    given[which].flat[-1] = value
    assert panda.linked.solve(*given)[0] == BAD_NUMBER
    assert panda.linked.solve(*panda.targets(3))[0] == OK


@pytest.mark.evidence
def test_a_quaternion_that_is_not_of_unit_length_is_a_code(exported):
    robot = exported("floating")
    positions, orientations = robot.targets(3)
    for scale in (0.0, 1.01):
        assert robot.linked.solve(positions, scale * orientations)[0] == BAD_NUMBER
    start = robot.solver.robot.mid_joint_q.copy()
    assert robot.linked.solve(positions, orientations, start)[0] == OK
    start[3:7] = 0.0
    assert robot.linked.solve(positions, orientations, start)[0] == BAD_NUMBER


@pytest.mark.parametrize(
    ("name", "values", "code"),
    [
        ("abi", [1], WRONG_ABI),
        ("seeds", [0, 4097], BAD_ARGUMENT),
        ("max_iterations", [0, 10_001], BAD_ARGUMENT),
        ("position_tolerance", [0.0, np.nan], BAD_ARGUMENT),
        ("orientation_tolerance", [np.inf, -1.0], BAD_ARGUMENT),
        ("approximate_nearest", [-1, 2], BAD_ARGUMENT),
    ],
)
def test_an_option_that_is_not_allowed_is_a_code(panda, name, values, code):
    for value in values:
        options = panda.linked.options(**{name: value})
        assert panda.linked.solve(*panda.targets(1), options=options)[0] == code


def test_arguments_that_are_not_allowed_are_codes(panda):
    solve, size = panda.linked.solve_function, panda.linked.workspace_size(1)
    positions, orientations = panda.targets(1)
    joint_q, workspace = np.zeros(7, np.float32), np.zeros(size, np.uint8)
    given = {"count": 1, "positions": positions.ctypes.data, "orientations_xyzw": orientations.ctypes.data}

    def code(memory=workspace.ctypes.data, size=size, joint_q=joint_q.ctypes.data, **changes):
        problems, results = Problems(**{**given, **changes}), Results(joint_q=joint_q)
        return solve(ctypes.addressof(problems), None, ctypes.addressof(results), memory, size)

    assert code() == OK  # all further results may be NULL
    assert joint_q.any()
    assert code(count=0) == OK
    for wrong in (
        *({"count": count} for count in (-1, 2**31 - 1)),  # more than 2^31 attempts
        *({name: None} for name in ("positions", "orientations_xyzw", "joint_q")),
        *({"initial_joint_q_count": count} for count in (1, 2)),  # and no start
    ):
        assert code(**wrong) == BAD_ARGUMENT, wrong
    assert code(memory=None) == SMALL_WORKSPACE
    assert code(size=size - 1) == SMALL_WORKSPACE
    assert solve(None, None, None, workspace.ctypes.data, size) == BAD_ARGUMENT


@pytest.mark.evidence
def test_the_names_of_the_coordinates_are_those_of_the_robot(exported):
    robot = exported("floating")
    names = (ctypes.c_char_p * robot.linked.widths["COORDINATES"]).in_dll(
        robot.linked.linked, "floating_coordinate_names"
    )
    assert [name.decode() for name in names] == list(robot.solver.robot.coordinate_names)
