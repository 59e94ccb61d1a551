"""What is given as a constraint and is none is said in words that name it."""

import numpy as np
import pytest

from ik_service import IKSolver, load_robot
from ik_service.robots import CoordinateConstraint, LoopConstraint, VelocityConstraint
from objectives.errors import InputError


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
def test_it_is_named(make, message):
    with pytest.raises(InputError, match=message):
        make(load_robot("four_bar"))


def test_several_solutions_of_a_closed_mechanism_are_refused_by_name():
    solver = IKSolver(load_robot("four_bar"), ["coupler_point"], device="cpu")
    with pytest.raises(InputError, match=r"Option solutions is 2. Allowed for a robot with constraints: 1"):
        solver.solve([[0.4, 0.0, 0.3]], options={"solutions": 2})
