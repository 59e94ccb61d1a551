"""Pose targets: offsets, reference links, free axes, several links; and the errors of bad input."""

import numpy as np
import pytest

from ik_service import IKSolver, SolverOptions, Target
from objectives import IKObjectivePosition, InputError, UnknownNameError
from tests.solver.conftest import cpu_solver

pytestmark = pytest.mark.usefixtures("each_engine")


def test_one_problem_may_come_without_a_dimension_for_the_batch(panda):
    solver = cpu_solver(panda, ["panda_hand"])
    position, turn = [0.4, 0.1, 0.5], [1.0, 0.0, 0.0, 0.0]
    one, batch = solver.solve(position, turn), solver.solve([position], [turn])
    assert one.success.shape == (1,)
    assert one.success[0]
    assert one.joint_q.tobytes() == batch.joint_q.tobytes()
    with pytest.raises(InputError, match=r"have shape \[4\]\. Allowed: \[n, 1, 3\], \[n, 3\] or \[3\]"):
        solver.solve(np.zeros(4))
    two = cpu_solver(panda, ["panda_hand", "panda_link4"])
    with pytest.raises(InputError, match=r"have shape \[3\]\. Allowed: \[n, 2, 3\]\."):
        two.solve(np.zeros(3))


@pytest.mark.evidence_cases("auto")
def test_a_reference_link_moves_with_the_robot_and_targets_of_several_links_may_be_given_one_by_one(dual_panda):
    hands, turn = ["left_panda_hand", "right_panda_hand"], np.array([[1.0, 0.0, 0.0, 0.0]])
    result = cpu_solver(dual_panda, [Target(hands[0], reference_link=hands[1])]).solve([[0.0, 0.0, 0.2]], turn)
    left, right = dual_panda.forward_kinematics(result.joint_q, hands).positions[0]
    assert result.success.all()
    assert np.linalg.norm(left - right) == pytest.approx(0.2, abs=2e-3)
    place = np.array([[0.4, 0.5, 0.5]])
    result = cpu_solver(dual_panda, hands).solve([place, None], [None, turn])
    assert result.success[0]
    np.testing.assert_allclose(dual_panda.forward_kinematics(result.joint_q, hands).positions[:, 0], place, atol=1e-3)
    assert np.isnan(result.position_error[0]).tolist() == [False, True]
    assert np.isnan(result.orientation_error[0]).tolist() == [True, False]


def test_positions_or_orientations_alone_leave_the_other_nan(panda):
    solver = cpu_solver(panda, ["panda_hand"])
    position, orientation = solver.solve([[0.4, 0.1, 0.5]]), solver.solve(None, [[1.0, 0.0, 0.0, 0.0]])
    assert (position.success & orientation.success).all()
    assert np.isnan([position.orientation_error, orientation.position_error]).all()
    assert orientation.orientation_error[0, 0] < 1e-2


def test_a_target_on_a_static_link_is_judged_though_nothing_can_move_it(panda):
    solver = cpu_solver(panda, ["panda_link0"], options=SolverOptions(seeds=2))
    result = solver.solve([[0.0, 0.0, 0.0], [0.5, 0.0, 0.0]])
    assert result.success.tolist() == [True, False]
    assert result.position_error[1, 0] == pytest.approx(0.5)


UNIT, HIGH = [0.0, 0.0, 0.0, 1.0], [[0.4, 0.0, 0.5]]
BAD = {
    "nan": ({"positions": [[np.nan, 0, 0]]}, r"positions\[0, 0\] is nan"),
    "infinite": ({"positions": [[0, np.inf, 0]]}, r"positions\[0, 1\] is inf"),
    "zero quaternion": ({"orientations_xyzw": [[0, 0, 0, 0]]}, "length 0"),
    "long quaternion": ({"orientations_xyzw": [[0, 0, 0, 1.01]]}, "length 1.01"),
    "width": ({"positions": [[0, 0]]}, r"shape \[1, 2\]"),
    "vector": ({"positions": [0, 0]}, r"shape \[2\]"),
    "ragged": ({"positions": [[0, 0, 0], [0]]}, "not an array of numbers"),
    "overflow": ({"positions": [[1e39, 0, 0]]}, r"positions\[0, 0\] is 1e\+39"),
    "text": ({"positions": [["a", "b", "c"]]}, "not an array of numbers"),
    "counts": ({"positions": np.zeros((2, 3)), "orientations_xyzw": [UNIT] * 3}, r"\[2, 3\] problems"),
    "empty": ({"positions": np.zeros((0, 3))}, "empty"),
    "nothing": ({}, "how many problems"),
    "no values": ({"problem_count": 2}, "No target has positions"),
    "negative count": ({"problem_count": -1}, "problem_count is -1"),
    "start shape": (
        {"positions": np.zeros((2, 3)), "initial_joint_q": np.zeros((3, 7))},
        r"initial_joint_q has shape \[3, 7",
    ),
    "start nan": ({"positions": [[0.4, 0, 0.5]], "initial_joint_q": np.full(7, np.nan)}, "initial_joint_q"),
    "option": ({"positions": HIGH, "options": {"speed": 1}}, "'speed'"),
    "options type": ({"positions": HIGH, "options": [1]}, "options is"),
    "fixed in options": (
        {"positions": HIGH, "options": SolverOptions(candidates=2)},
        "'candidates' is fixed when the solver is made",
    ),
    "seeds": ({"positions": HIGH, "options": {"seeds": 0}}, "seeds is 0"),
    "tolerance": ({"positions": HIGH, "options": {"position_tolerance": -1.0}}, "position_tolerance is -1.0"),
    "fixed option": ({"positions": HIGH, "options": {"joint_limits": "off"}}, "fixed when the solver is made"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_and_the_solver_goes_on(panda, case):
    arguments, message = BAD[case]
    solver = cpu_solver(panda, ["panda_hand"])
    with pytest.raises(InputError, match=message):
        solver.solve(**arguments)
    assert solver.solve([[0.4, 0.1, 0.5]]).success[0]


CONSTRUCTION = {
    "link": ({"targets": ["panda_hnd"]}, UnknownNameError, "panda_hnd.*panda_hand"),
    "reference": ({"targets": [Target("panda_hand", reference_link="x")]}, UnknownNameError, "'x'"),
    "text": ({"targets": "panda_hand"}, InputError, "list of link names"),
    "number": ({"targets": [3]}, InputError, "A target is 3"),
    "nothing": ({}, InputError, "nothing to solve"),
    "none": ({"targets": None}, InputError, "targets is None"),
    "objective": ({"objectives": IKObjectivePosition("panda_hand", (0, 0, 0))}, InputError, "a list of objectives"),
    "options": ({"targets": ["panda_hand"], "options": {"seeds": 3}}, InputError, "SolverOptions"),
    "wxyz": ({"targets": ["panda_hand"], "wxyz": "yes"}, InputError, "wxyz is 'yes'"),
    "islands": ({"targets": ["panda_hand"], "islands": "no"}, InputError, "islands is 'no'"),
    "device": ({"targets": ["panda_hand"], "device": "tpu"}, InputError, "device is 'tpu'"),
    "engine": ({"targets": ["panda_hand"], "engine": "magic"}, InputError, "engine is 'magic'"),
    "threads": ({"targets": ["panda_hand"], "threads": 0}, InputError, "threads is 0"),
    "offset": ({"targets": [Target("panda_hand", offset=[0, 0, 0])]}, InputError, "offset"),
    "weights": ({"targets": [Target("panda_hand", row_weights=[1, 1])]}, InputError, "row_weights"),
}


@pytest.mark.parametrize("case", CONSTRUCTION)
def test_a_solver_that_cannot_be_made_says_why(panda, case):
    arguments, error, message = CONSTRUCTION[case]
    with pytest.raises(error, match=message):
        IKSolver(panda, **{"device": "cpu", **arguments})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_iterations", 0),
        ("random_seed", -1),
        ("candidates", 9),
        ("joint_limits", "maybe"),
        ("jacobian_mode", "magic"),
    ],
)
def test_options_out_of_range_are_refused(name, value):
    with pytest.raises(InputError, match=name):
        SolverOptions(**{name: value})


def test_a_robot_that_cannot_move_and_a_name_are_refused(panda):
    for robot, words in ((panda.activate([]), "no active DOF"), ("panda", r"robot is 'panda'.*load_robot")):
        with pytest.raises(InputError, match=words):
            cpu_solver(robot, ["panda_hand"])


def test_numbers_of_numpy_are_numbers_and_quaternions_nearly_unit_are_normalised(panda):
    options = SolverOptions(seeds=np.int64(4), position_tolerance=np.float32(1e-3))
    assert cpu_solver(panda, ["panda_hand"], options=options).solve(HIGH, problem_count=np.int64(1)).success[0]
    solver = cpu_solver(panda, ["panda_hand"])
    exact, near = (solver.solve(None, [np.multiply([1.0, 0, 0, 0], length)]) for length in (1.0, 1.0009))
    np.testing.assert_array_equal(exact.joint_q, near.joint_q)


def test_islands_of_several_problems_by_a_slice(panda, panda_targets):
    result = cpu_solver(panda, ["panda_hand"]).solve(panda_targets.positions[:4])
    assert [len(islands) for islands in result.islands[1:3]] == [1, 1]
    assert result.islands[-1] == result.islands[3]
    with pytest.raises(IndexError, match="no problem 4 among 4"):
        result.islands[4]
