"""Names of constraints, their rows in both packings, their links, and what is refused."""

import dataclasses

import numpy as np
import pytest

from ik_service import IKSolver, load_robot
from ik_service.errors import InputError
from ik_service.robots import CoordinateConstraint, LoopConstraint, VelocityConstraint
from objectives.errors import UnknownNameError
from objectives.tasks.loop import LOOP_GROUPS
from tests.constraints.mechanisms import SEEN_CLOSED, at, branches, four_bar


@pytest.fixture(scope="module")
def constraints():
    return branches(closed_at=branches().mid_joint_q).constraints


def test_rows_are_counted_by_the_joints_of_the_loops(constraints):
    assert constraints.error_count == 6 * len(constraints) == 6 * len(SEEN_CLOSED)
    assert constraints.residual_count == sum(LOOP_GROUPS[one.joint].row_count for one in constraints)
    free = sum(6 - LOOP_GROUPS[one.joint].row_count for one in constraints)
    assert len(constraints.dof_names) == free
    assert load_robot("panda").constraints.residual_count == load_robot("panda").constraints.error_count == 0


@pytest.mark.parametrize("packing", ["error", "residual"])
def test_every_row_is_found_again_by_its_name(constraints, packing):
    count = getattr(constraints, f"{packing}_count")
    row_at, rows = (getattr(constraints, f"{packing}_row{end}") for end in ("_at", "s"))
    places = [row_at(k) for k in range(count)]
    assert len(set(places)) == count
    for k, place in enumerate(places):
        own = rows(place.constraint)
        assert own.start <= k < own.stop
    starts = [rows(name).start for name in constraints.names()]
    assert starts == sorted(starts)
    with pytest.raises(InputError, match=f"Row {count} is not among the rows of constraints: 0 to {count - 1}"):
        row_at(count)


def test_enabling_changes_no_row(constraints):
    names = list(constraints.names())
    mask = constraints.enabled(names[::2])
    assert constraints.names(enabled=mask) == tuple(names[::2])
    assert constraints.names(enabled=~mask) == tuple(names[1::2])
    assert constraints.names(enabled=constraints.enabled(names[::-1])) == tuple(names)
    assert constraints.names(kind="helical") == ("helical_loop",)
    joint_q = constraints.robot.random_joint_q(np.random.default_rng(0), 1)
    assert constraints.close(joint_q, enabled=mask, attempts=1).residual.shape == (1, constraints.residual_count)


def test_constraints_are_found_by_name_and_by_link(constraints):
    assert constraints["weld_loop"].joint == "weld"
    assert [one.name for one in constraints] == list(constraints.names())
    with pytest.raises(UnknownNameError, match="Did you mean 'weld_loop'"):
        constraints["weld_lop"]
    with pytest.raises(UnknownNameError, match="Constraint 'pin' is not in the robot"):
        constraints.error_rows("pin")
    assert constraints.of_link("hand") == constraints.names()
    assert constraints.of_link("tail", kind="planar") == ("planar_loop",)
    assert constraints.of_link("arm") == ()
    with pytest.raises(UnknownNameError, match="Link 'finger' is not in robot"):
        constraints.of_link("finger")


@pytest.mark.parametrize(
    "robot", [branches(["revolute"]), branches(["revolute"], world=True), four_bar(), load_robot("stewart")]
)
def test_links_of_a_loop_are_those_that_its_rows_move(robot):
    constraints = robot.constraints
    name = constraints.names()[0]
    joint_q = robot.random_joint_q(np.random.default_rng(5), 4)
    used = (np.abs(constraints.residual_jacobian(joint_q)[:, constraints.residual_rows(name)]) > 1e-9).any(axis=(0, 1))
    moving = [robot.link_names[np.argmax(robot.link_body == k)] for k in range(robot.joint_count)]
    joints = {robot.dof_at(int(dof)).joint for dof in np.flatnonzero(used)}
    assert set(constraints.loop_links(name)) == {moving[robot.joint_index(joint)] for joint in joints}
    assert len(joints) > 1


def test_columns_are_the_dofs_of_the_tree_and_then_of_closing_joints():
    robot = branches(["planar", "spherical"])
    constraints = robot.constraints
    tree = robot.joint_dof_count
    assert constraints.jacobian(robot.mid_joint_q).shape == (1, 12, tree + 6)
    assert constraints.coordinate_at(0) == robot.dof_at(0)
    assert [constraints.coordinate_at(tree + k).name for k in range(6)] == list(constraints.dof_names)
    place = constraints.coordinate_at(tree + 2)
    assert (place.joint, place.component) == ("planar_loop", "angle")
    assert constraints.coordinate_names[-4:] == tuple(f"spherical_loop/q{axis}" for axis in "xyzw")
    assert constraints.with_closing_joints(robot.mid_joint_q).shape == (1, robot.joint_coord_count + 7)
    with pytest.raises(InputError, match=f"Column {tree + 6} is not among"):
        constraints.coordinate_at(tree + 6)


SEEN = {"helical": [0.9 + 2.0 * np.pi], "planar": [0.2, -0.1, 1.4], "universal": [0.8, -0.5]}


def test_closing_joints_have_coordinates_of_their_own():
    closed_at = branches().random_joint_q(np.random.default_rng(3), 1)
    for joint in SEEN_CLOSED:
        constraints = branches([joint], closed_at=closed_at).constraints
        assert np.abs(constraints.error(closed_at)).max() < 1e-12, joint
        if joint in SEEN:
            coordinates = constraints.with_closing_joints(closed_at)[0, closed_at.shape[1] :]
            np.testing.assert_allclose(coordinates, SEEN[joint], atol=1e-9)


def test_closing_joints_are_called_as_in_results():
    robot = branches([joint for joint in SEEN_CLOSED if joint not in ("point_on_line", "point_in_plane", "distance")])
    assert robot.constraints.coordinate_names == robot.closing_coordinate_names
    taken = four_bar().with_loops([dataclasses.replace(four_bar().loops[0], name="drive")])
    assert taken.constraints.coordinate_names == ("drive'",)
    assert taken.lock({"drive": 0.0}).constraints.close(taken.mid_joint_q).closed.all()


def test_what_no_loop_can_be_is_refused():
    robot = four_bar()
    pin = robot.loops[0]
    again = LoopConstraint("again", "revolute", "coupler", "rocker", pin.offset, pin.reference_offset)
    turned = LoopConstraint("again", "revolute", "rocker", "coupler", pin.reference_offset, pin.offset)
    for twin in (again, turned):
        with pytest.raises(InputError, match="'pin' and 'again' join the same frames by the same joint"):
            robot.with_loops([pin, twin])
    other = LoopConstraint("other", "spherical", "coupler", "rocker", pin.offset, pin.reference_offset)
    assert robot.with_loops([pin, other]).constraints.names() == ("pin", "other")
    for joint, reference, offset, words in (
        ("weld", "coupler", at(0.1), "joins link 'coupler' to itself"),
        ("revolute", "rocker", (0.0,) * 7, "quaternion of offset has length 0"),
        ("revolute", "rocker", (np.nan, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0), "seven finite numbers"),
    ):
        with pytest.raises(InputError, match=words):
            LoopConstraint("pin", joint, "coupler", reference, offset)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda c, q: c.close(q, frozen="drive"), "frozen must be a list of names"),
        (lambda c, q: c.close(q, frozen=["drives"]), "joint 'drives' is not in robot 'four_bar'. Did you mean 'drive'"),
        (lambda c, q: c.close(q[:, :2]), "joint_q has shape"),
        (lambda c, q: c.close(q * np.nan), "must be finite"),
        (lambda c, q: c.close(q, solutions=0), "solutions is 0"),
        (lambda c, q: c.close(q, enabled=[1.0]), r"enabled is an array of float64 of shape \[1\]"),
        (lambda c, q: c.close(q, enabled=[True, False]), r"Allowed: booleans of shape \[1\]"),
        (lambda c, q: c.enabled("pin"), "must be a list of names"),
        (lambda c, q: c.velocity(q, np.ones((3, 3))), "joint_q has 2 lines and joint_qd 3"),
        (lambda c, q: c.partition(q, ["drive", "swing"]), "independent names 2 DOFs that can move. Allowed: 1"),
        (lambda c, q: c.sweep("drive", (0.0, 1.0), 0.0), "a step above 0"),
        (lambda c, q: c.sweep("drive", (0.0, 1.0), 1e-9), "Allowed: 100000"),
        (lambda c, q: c.sweep("crank", (0.0, 1.0), 0.1), "Joint 'crank' is not in robot"),
        (lambda c, q: c.sweep("drive", (0.0, 1.0), 0.1, component="x"), "has no component 'x'"),
        (lambda c, q: c.sweep("drive", (0.0, 1e6), 5e5), "Allowed: 100000"),  # whose steps are gone in too many parts
        (
            lambda c, q: branches(["weld"]).constraints.sweep("shoulder", (0.0, 1.0), 0.1),
            "coordinates are a quaternion",
        ),
    ],
)
def test_wrong_input_is_refused_before_any_step(call, words):
    robot = four_bar()
    with pytest.raises(InputError, match=words):
        call(robot.constraints, robot.random_joint_q(np.random.default_rng(0), 2))


def test_a_robot_says_what_closes_it():
    assert repr(four_bar().constraints) == "<ConstraintSet: pin; 6 error rows, 5 residual rows>"
    assert repr(load_robot("panda").constraints) == "<ConstraintSet: none; 0 error rows, 0 residual rows>"
    assert len(load_robot("delta").constraints) == 3


def loop(**changes):
    return LoopConstraint(**{"name": "pin", "joint": "revolute", "link": "a", "reference_link": "b", **changes})


def rolling(**changes):
    return VelocityConstraint("roll", "rolling", "wheel", **{"radius": 0.1, **changes})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda robot: loop(offset=None), "Loop 'pin': offset is None. Allowed: a list of numbers"),
        (lambda robot: loop(offset="a"), "Loop 'pin': offset is 'a'"),
        (lambda robot: loop(joint="helical", pitch="a"), "Loop 'pin': pitch is 'a'. Allowed: a number"),
        (lambda robot: loop(joint=["weld"]), "Loop 'pin': joint is"),
        (lambda robot: CoordinateConstraint("cam", "a", "b", "ab"), "Constraint 'cam': coefficients is 'ab'"),
        (lambda robot: CoordinateConstraint("cam", "a", "b", 1.0), "Constraint 'cam': coefficients is 1.0"),
        (lambda robot: rolling(radius="r"), "Constraint 'roll': radius is 'r'. Allowed: a number"),
        (lambda robot: robot.with_loops(loop()), "Allowed: a list of LoopConstraint"),
        (lambda robot: robot.with_loops(["pin"]), "Allowed: a list of LoopConstraint"),
        (lambda robot: robot.with_coordinate_constraints(["cam"]), "Allowed: a list of CoordinateConstraint"),
        (lambda robot: robot.with_velocity_constraints(rolling()), "Allowed: a list of VelocityConstraint"),
        (lambda robot: robot.constraints.partition(np.zeros((0, 3))), "no configuration"),
        (lambda robot: robot.constraints.velocity(robot.mid_joint_q, [1.0, 2.0]), r"joint_qd has shape \[2\]"),
        (lambda robot: robot.constraints.velocity(robot.mid_joint_q, [np.inf, 0, 0]), r"joint_qd\[0, 0\] is inf"),
    ],
)
def test_what_is_given_and_is_no_constraint_is_named(make, message):
    with pytest.raises(InputError, match=message):
        make(load_robot("four_bar"))


def test_several_solutions_of_a_closed_mechanism_are_refused_by_name():
    solver = IKSolver(load_robot("four_bar"), ["coupler_point"], device="cpu")
    with pytest.raises(InputError, match=r"Option solutions is 2. Allowed for a robot with constraints: 1"):
        solver.solve([[0.4, 0.0, 0.3]], options={"solutions": 2})
