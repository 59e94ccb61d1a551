"""Signatures of islands: equal where programs are, and without data."""

import dataclasses

import numpy as np
import pytest

from ik_service import load_robot
from ik_service.compiler import FLOAT64_ERROR, IslandSignature, Lanes, build_program, level_numbers, statements
from objectives import IKObjectivePose, IKObjectivePosition


def signature(robot, *, link="panda_hand", weight=1.0, kind=IKObjectivePose, rows=range(3), dofs=None, **options):
    objective = kind(link, np.zeros(3), *([[0.0, 0.0, 0.0, 1.0]] if kind is IKObjectivePose else []), weight=weight)
    objective.bind_model(model := robot.on_device("cpu"))
    dofs = range(robot.active_dof_count) if dofs is None else dofs
    return IslandSignature.of(robot, model, [objective], [0], dofs, rows, [0], **options)


def text(program):
    outputs = [program.norm2, *program.gradient, *(entry for row in program.hessian for entry in row)]
    return statements(Lanes(1), outputs, {})


def test_a_robot_loaded_anew_has_equal_signatures_and_programs():
    one, other = signature(load_robot("panda", collision="ignore")), signature(load_robot("panda", collision="ignore"))
    assert one == other
    assert hash(one) == hash(other)
    assert text(build_program(one)) == text(build_program(other))


@pytest.mark.parametrize(
    "change",
    [
        {"weight": 2.0},
        {"link": "panda_link5"},
        {"kind": IKObjectivePosition},
        {"rows": range(6)},
        {"dofs": range(6)},
        {"half_angle_error": FLOAT64_ERROR},
        {"goal_count": 1},
        {"limit_turns": True},
        {"judged": [5]},
    ],
)
def test_signatures_see_all_that_a_program_is_made_from(change):
    robot = load_robot("panda", collision="ignore")
    assert signature(robot) != signature(robot, **change)


def test_signatures_see_the_robot_and_elements_may_be_stated_in_lists():
    robot = load_robot("panda", collision="ignore")
    longer = robot.joint_X_p + np.eye(1, 7) * 1e-3
    assert signature(robot) != signature(dataclasses.replace(robot, joint_X_p=longer))
    assert signature(robot, dofs=range(6)) != signature(robot.lock({"panda_joint7": 0.5}))
    assert signature(robot, kind=Listed) == signature(robot, kind=IKObjectivePosition)


@pytest.mark.parametrize(
    ("own", "numbers"),
    [
        ([True, True, True, True], [0, 1, 1, 2]),
        ([True, False, True, True], [0, 1, 1]),
        ([False, True, True, True], [0, 0, 1]),
        ([False, False, True, True], [0, 0]),
    ],
)
def test_constraints_come_before_all_rows_and_priority_1_after_targets(own, numbers):
    is_constraint, is_target, _priority_0, is_secondary = np.eye(4, dtype=bool)
    assert level_numbers(is_constraint, is_target, is_secondary, np.array(own))[own].tolist() == numbers


class Listed(IKObjectivePosition):
    def stated_elements(self, model):
        found = super().stated_elements(model)
        return [(group, [dataclasses.replace(e, frames=list(e.frames)) for e in some]) for group, some in found]
