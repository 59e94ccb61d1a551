"""Limits of one call of an exported solver: the bytes of the solver in Python, a code for limits that leave nothing."""

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import ik_service
from ik_service import IKSolver, SolverOptions
from ik_service.solver.lm.status import IKStatus
from objectives import InputError
from tests.export.c_library import (
    BAD_ARGUMENT,
    BAD_LIMITS,
    BAD_NUMBER,
    LIMITS,
    OK,
    SMALL_WORKSPACE,
    CLibrary,
    Problems,
    Results,
    columns_of,
)

COUNT, DRAWN = 60, 1200
MIXED = """
<robot name="mixed">
  <link name="base"/><link name="turn"/><link name="mast"/><link name="arm"/><link name="tip"/><link name="pad"/>
  <joint name="waist" type="continuous"><parent link="base"/><child link="turn"/><axis xyz="0 0 1"/></joint>
  <joint name="lift" type="prismatic"><parent link="turn"/><child link="mast"/><axis xyz="0 0 1"/>
    <limit lower="0" upper="1" effort="1" velocity="1"/></joint>
  <joint name="slide" type="prismatic"><parent link="mast"/><child link="arm"/><axis xyz="1 0 0"/>
    <limit lower="0.2" upper="1" effort="1" velocity="1"/></joint>
  <joint name="jaw" type="prismatic"><parent link="arm"/><child link="tip"/><axis xyz="0 0 1"/>
    <limit lower="-.35" upper="1" effort="1" velocity="1"/><mimic joint="slide" multiplier="-0.5" offset="0.1"/></joint>
  <joint name="rest" type="prismatic"><parent link="tip"/><child link="pad"/><axis xyz="0 1 0"/>
    <limit lower="-1" upper="1" effort="1" velocity="1"/><mimic joint="slide" multiplier="0" offset="0.1"/></joint>
</robot>"""
"""A joint without limits, one that is to be locked, and followers of a third: down as it goes out, and at rest."""
ROBOTS = ["panda", *(pytest.param(name, marks=pytest.mark.evidence) for name in ("floating", "mixed", "delta"))]
KINDS = ["limits", "frozen", "max_change", "all"]


@dataclass(frozen=True)
class Case:
    """A solver, what was exported of it, and random problems; arrays of limits are by DOFs, as in Python."""

    solver: IKSolver
    library: CLibrary

    def problems(self):
        """Targets that configurations meet, with these; then every fifth target is put out of reach."""
        robot, links = self.solver.robot, [target.link for target in self.solver.targets]
        poses = robot.forward_kinematics(robot.random_joint_q(np.random.default_rng(5), DRAWN), links)
        solved = self.solver.solve(*poses)
        met = np.flatnonzero(solved.success)[:COUNT]
        assert len(met) == COUNT
        positions, orientations = (values[met] for values in poses)
        positions[1::5] += 3.0
        return (positions, orientations), solved.joint_q[met].astype(np.float64)

    def by_dofs(self, joint_q):
        """The coordinates that are DOFs, 0 for rotations of the base, and which are."""
        own = self.solver.robot.dof_coordinate >= 0
        return np.where(own, joint_q[..., np.maximum(self.solver.robot.dof_coordinate, 0)], 0.0), own

    def in_c(self, **asked):
        robot, found = self.solver.robot, dict[str, Any]()
        pair = asked.pop("joint_limits", None)
        arrays = {} if pair is None else dict(zip(("joint_limit_lower", "joint_limit_upper"), pair, strict=True))
        for name, values in (arrays | asked).items():
            lines, own = np.atleast_2d(values), robot.dof_coordinate >= 0
            nothing = {"joint_limit_lower": -np.inf, "frozen": 0}.get(name, np.inf)
            found[name] = np.full((len(lines), robot.joint_coord_count), nothing)
            found[name][:, robot.dof_coordinate[own]] = lines[:, own]
        return found

    def both(self, targets, start, options=None, **asked):
        lines = {name: tuple(map(_line, it)) if name == "joint_limits" else _line(it) for name, it in asked.items()}
        expected = self.solver.solve(*targets, initial_joint_q=start, options=options, **lines)
        limits = self.in_c(**asked) or None
        code, columns = self.library.solve(*targets, start, self.library.options(**(options or {})), limits=limits)
        assert code == OK
        return columns_of(expected), columns, expected

    def code(self, start, **limits):
        return self.library.solve(*self.problems()[0], start, limits=limits)[0]


def _line(values):
    return values[0] if len(values) == 1 else values


@pytest.fixture(scope="session")
def case(exported, tmp_path_factory):
    made: dict[str, Case] = {}

    def of(name, **options):
        key = f"{name}_{'_'.join(options.values())}"
        if key not in made and name in ("panda", "floating"):
            made[key] = Case(exported(name).solver, exported(name).linked)
        elif key not in made:
            robot, links = ik_service.load_robot("delta"), ["platform"]
            if name == "mixed":
                robot, links = ik_service.load_robot(MIXED, locked={"lift": 0.3}), ["pad"]
            solver = IKSolver(robot, links, device="cpu", engine="compiled", options=SolverOptions(**options))
            made[key] = Case(solver, CLibrary.of(solver, name, tmp_path_factory.mktemp(key), problem_count=10))
        return made[key]

    return of


def asked_of(case, kind, joint_q, lines):
    """Arguments of a kind that leave configurations [COUNT, DOFs] in reach, one line for all problems or one each."""
    random, robot = np.random.default_rng(6), case.solver.robot
    q, own = case.by_dofs(joint_q[:lines] if lines > 1 else joint_q[:1])
    below, above = random.uniform(0.05, 0.6, (2, *q.shape))
    below[:, ::3] = np.inf  # some joints are held from one side
    asked: dict[str, Any] = {}
    if kind in ("limits", "all"):
        asked["joint_limits"] = (np.where(own, q - below, -np.inf), np.where(own, q + above, np.inf))
    if kind in ("frozen", "all"):
        asked["frozen"] = own & (random.uniform(size=q.shape) < 0.3)
        asked["frozen"][:, np.argmax(own & (robot.dof_active >= 0))] = True
    if kind in ("max_change", "all"):
        asked["max_change"] = np.where(own, random.uniform(0.1, 0.8, q.shape), np.inf)
        asked["max_change"][:, 1::4] = np.inf
    return asked


@pytest.mark.parametrize("lines", [1, COUNT])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ROBOTS)
def test_all_columns_have_the_bytes_of_the_solver_in_python(case, name, kind, lines):
    one = case(name)
    targets, joint_q = one.problems()
    asked = asked_of(one, kind, joint_q, lines)
    away, robot = joint_q.copy(), one.solver.robot
    away[::2, 1::2] += 0.05
    if kind != "max_change":  # a joint that starts beyond its limits cannot stay there, but come back
        away = robot.clamp_joint_q(away)
    else:
        beyond = np.isfinite(robot.active_limit_upper) & (robot.dof_coordinate[robot.active_dof] >= 0)
        away[3, robot.dof_coordinate[robot.active_dof[beyond]]] = robot.active_limit_upper[beyond] + 0.09
    starts = [joint_q[0], away]
    chosen = {"limits": [None, *starts], "all": starts[:1] if lines == 1 else starts[1:]}
    for start in chosen.get(kind, starts):
        expected, columns, result = one.both(targets, start, **asked)
        assert columns == expected
        assert result.success.any()
        assert expected != columns_of(one.solver.solve(*targets, initial_joint_q=start))


@pytest.mark.parametrize("name", ROBOTS)
def test_without_limits_nothing_of_a_call_before_is_left(case, name):
    one = case(name)
    targets, joint_q = one.problems()
    before = one.both(targets, joint_q)[:2]
    assert before[0] == before[1]
    narrowed = one.both(targets, joint_q, **asked_of(one, "all", joint_q, COUNT))[:2]
    assert narrowed[0] == narrowed[1] != before[0]
    assert one.both(targets, joint_q)[:2] == before


def test_limits_between_which_no_float32_lies_are_kept_alike(case):
    one = case("panda")
    targets, joint_q = one.problems()
    lower = np.full(7, -np.inf)
    lower[2] = np.float64(np.float32(0.3)) + 1e-10
    upper = np.where(np.isfinite(lower), lower + 1e-10, np.inf)
    expected, columns, _ = one.both(targets, joint_q, joint_limits=(lower, upper))
    assert columns == expected


@pytest.mark.parametrize("name", ROBOTS)
@pytest.mark.parametrize("kind", [None, "max_change"])
def test_the_nearest_attempt_comes_back_where_no_target_is_met(case, name, kind):
    one = case(name)
    targets, joint_q = one.problems()
    targets[0][:] += 3.0
    asked = {} if kind is None else asked_of(one, kind, joint_q, COUNT)
    for start in [joint_q, joint_q[0], *([None] if kind is None else [])]:
        expected, columns, result = one.both(targets, start, {"seeds": 8, "approximate": "nearest"}, **asked)
        assert columns == expected
        if name != "floating":
            assert not result.success.any()
            assert (result.seed_index == 0).all()
            if not (result.status == IKStatus.UNREACHABLE).all():  # proven targets have one attempt in any case
                assert one.both(targets, start, {"seeds": 8}, **asked)[1] != columns


@pytest.mark.evidence
def test_the_nearest_attempt_may_be_the_default_of_an_export(case):
    one = case("mixed", approximate="nearest")
    targets, joint_q = one.problems()
    expected = columns_of(one.solver.solve(*targets, initial_joint_q=joint_q))
    assert one.library.solve(*targets, joint_q)[1] == expected
    assert case("mixed").library.solve(*targets, joint_q)[1] != expected


@pytest.mark.parametrize(
    ("name", "dof", "asked"),
    [
        ("panda", "panda_joint1", {"joint_limits": (0.2, 0.1)}),
        ("panda", "panda_joint1", {"joint_limits": (np.nan, 0.1)}),
        ("panda", "panda_joint1", {"joint_limits": (0.1, np.nan)}),
        ("panda", "panda_joint1", {"joint_limits": (3.0, 4.0)}),
        pytest.param("mixed", "waist", {"joint_limits": (np.inf, np.inf)}, marks=pytest.mark.evidence),
        pytest.param("mixed", "waist", {"joint_limits": (-np.inf, -1e10)}, marks=pytest.mark.evidence),
        ("panda", "panda_joint4", {"joint_limits": (-3.0, -2.0), "max_change": 0.1}),
        ("panda", "panda_joint4", {"max_change": -0.1}),
        ("panda", "panda_joint4", {"max_change": np.nan}),
        pytest.param("mixed", "jaw", {"joint_limits": (0.1, 0.2)}, marks=pytest.mark.evidence),
        pytest.param("mixed", "lift", {"joint_limits": (0.2, 0.1)}, marks=pytest.mark.evidence),
        pytest.param("floating", "floating_base:3", {"joint_limits": (-1.0, 1.0)}, marks=pytest.mark.evidence),
        pytest.param("floating", "floating_base:4", {"max_change": 0.5}, marks=pytest.mark.evidence),
        pytest.param("floating", "floating_base:5", {"frozen": True}, marks=pytest.mark.evidence),
    ],
)
def test_limits_that_leave_nothing_are_a_code_where_python_refuses_them(case, name, dof, asked):
    one = case(name)
    robot, start = one.solver.robot, one.solver.robot.mid_joint_q
    place = list(robot.dof_names).index(dof) if dof in robot.dof_names else int(dof[-1])
    nothing = {"joint_limits": (-np.inf, np.inf), "max_change": np.inf, "frozen": False}
    for lines in (1, COUNT):
        given: dict[str, Any] = {}
        for kind, value in asked.items():
            arrays = [np.full((lines, robot.joint_dof_count), one) for one in np.atleast_1d(nothing[kind])]
            for array, number in zip(arrays, np.atleast_1d(value), strict=True):
                array[-1, place] = number
            given[kind] = tuple(arrays) if len(arrays) == 2 else arrays[0]
        with pytest.raises(InputError):
            one.both(one.problems()[0], start, **given)
        limits = one.in_c(**given)
        if robot.dof_coordinate[place] < 0:  # in C that stands at a coordinate of the quaternion
            numbers = {"frozen": 1, "max_change": 0.5, "joint_limit_lower": -1, "joint_limit_upper": 1}
            for kind in limits:
                limits[kind][-1, place] = numbers[kind]
        assert one.code(start, **limits) == BAD_LIMITS
        assert one.code(start) == OK


@pytest.mark.parametrize(
    ("asked", "beyond", "is_refused"),
    [({"frozen": True}, 1e-8, False), ({"frozen": True}, 1e-3, True), ({"max_change": 0.2}, 0.3, True)],
)
def test_a_start_beyond_the_limits_leaves_nothing_alike(case, asked, beyond, is_refused):
    one = case("panda")
    start = one.solver.robot.mid_joint_q.copy()
    start[2] = one.solver.robot.joint_limit_lower[2] - beyond
    given = {kind: np.full(7, value) for kind, value in asked.items()}
    if is_refused:
        with pytest.raises(InputError, match="'panda_joint3'"):
            one.both(one.problems()[0], start, **given)
    assert one.code(start, **one.in_c(**given)) == (BAD_LIMITS if is_refused else OK)


@pytest.mark.evidence
def test_what_is_asked_of_joints_that_nothing_moves_changes_nothing(case):
    one = case("mixed")
    targets, joint_q = one.problems()
    lower, upper = np.full(5, -np.inf), np.full(5, np.inf)
    lower[1], upper[1] = 5.0, 6.0
    lower[4], upper[4] = -9.0, -8.0
    expected, columns, _ = one.both(targets, joint_q, joint_limits=(lower, upper))
    assert columns == expected
    assert columns["joint_q"] == one.library.solve(*targets, joint_q)[1]["joint_q"]


def test_counts_and_arrays_that_do_not_go_together_are_a_code(case):
    one = case("panda")
    (positions, orientations), joint_q = one.problems()
    size = one.library.limits_workspace_size(3)
    answers, workspace = np.zeros((3, 7), np.float32), np.zeros(size, np.uint8)
    arrays = {name: np.full((3, 7), number, LIMITS[name]) for name, number in zip(LIMITS, (-9, 9, 9, 0), strict=True)}

    def code(memory=size, **changes):
        problems = Problems(3, positions.ctypes.data, orientations.ctypes.data, joint_q.ctypes.data, 3)
        given = {name: array.ctypes.data for name, array in arrays.items()} | {"joint_limit_count": 3} | changes
        for name, value in given.items():
            setattr(problems, name, value)
        results = Results(joint_q=answers.ctypes.data)
        given = (ctypes.addressof(problems), None, ctypes.addressof(results), workspace.ctypes.data, memory)
        return one.library.solve_function(*given)

    nothing, small = dict.fromkeys(LIMITS), one.library.workspace_size(3)
    no_start = {"initial_joint_q_count": 0}
    assert code() == OK
    for right in (
        {"joint_limit_count": 1},
        {**nothing, "joint_limit_count": 0},
        {**no_start, "max_change": None, "frozen": None},
        {"memory": small, "joint_limit_count": 0},
    ):
        assert code(**right) == OK, right
    for wrong in (
        *({"joint_limit_count": count} for count in (-1, 2, 4)),
        {"joint_limit_lower": None},
        {"joint_limit_upper": None},
        nothing,
        no_start,
        {**no_start, "max_change": None},
    ):
        assert code(**wrong) == BAD_ARGUMENT, wrong
    for few in ({"memory": size - 1}, {"memory": small}, {"memory": small - 1, "joint_limit_count": 0}):
        assert code(**few) == SMALL_WORKSPACE, few
    for value in (np.nan, np.inf, -1e10):
        joint_q[2, 1] = value
        assert code() == BAD_NUMBER


@pytest.mark.evidence
def test_an_export_that_keeps_no_limits_takes_none(case):
    one = case("mixed", joint_limits="off")
    targets, joint_q = one.problems()
    assert one.library.solve(*targets, joint_q)[1] == columns_of(one.solver.solve(*targets, initial_joint_q=joint_q))
    assert one.code(joint_q, frozen=np.zeros(5)) == BAD_ARGUMENT


def test_launches_are_recorded_with_the_limits_of_the_robot_after_a_solve_with_others(panda):
    solver = IKSolver(panda.solver.robot, ["panda_hand"], device="cpu", engine="compiled")
    solver.solve(*panda.targets(COUNT), joint_limits={"panda_joint1": (0.1, 0.2)})
    recorded = solver.recorded().limits
    for found, end in zip(recorded.told, (solver.robot.joint_limit_lower, solver.robot.joint_limit_upper), strict=True):
        assert found.numpy().tolist() == [end.tolist()]
