"""Reasons in numbers for targets that are proven to be out of reach."""

import re

import numpy as np
import pytest

from ik_service import SolverOptions, Target
from ik_service.solver.given.batch import Batch
from ik_service.solver.lm.status import IKStatus
from ik_service.solver.verdict.advice import advice
from ik_service.solver.verdict.unreachable import why_unreachable
from tests.solver.conftest import bare_robot, cpu_solver

LINKS = {"ur5e": "tool0", "panda": "panda_hand", "iiwa14": "iiwa_link_ee"}
MOVED, JOINT = (
    re.compile(r"by at least (\d+) mm"),
    re.compile(r"Joint '(.+)' would need (?:about )?(\S+) rad; .* (\S+) rad"),
)


def reasons(robot, link, positions, orientations, offset=None):
    batch = Batch.of([positions], [orientations])
    return [why_unreachable(robot, Target(link, offset=offset), batch, 0, p) for p in range(len(positions))]


@pytest.mark.parametrize("name", LINKS)
def test_a_target_is_out_of_reach_by_no_more_than_it_was_moved(name):
    robot, link, rng = bare_robot(name), LINKS[name], np.random.default_rng(3)
    poses = robot.forward_kinematics(robot.random_joint_q(rng, 50), [link])
    away = poses.positions[:, 0] / np.linalg.norm(poses.positions[:, 0], axis=1, keepdims=True)
    moved = poses.positions[:, 0] + 1.7 * away
    found = [MOVED.search(said) for said in reasons(robot, link, moved, poses.orientations_xyzw[:, 0])]
    told = np.array([int(one[1]) for one in found])
    assert (told <= 1700).all()
    assert told.mean() > 1000


@pytest.mark.parametrize("name", LINKS)
def test_a_joint_that_may_turn_to_the_named_angle_meets_the_pose(name):
    robot, link, rng = bare_robot(name), LINKS[name], np.random.default_rng(4)
    joint_q = robot.random_joint_q(rng, 80)
    poses = robot.forward_kinematics(joint_q, [link])
    positions, orientations = poses.positions[:, 0], poses.orientations_xyzw[:, 0]
    solver = cpu_solver(robot, [link])
    result = solver.solve(positions, orientations, joint_limits={robot.dof_names[1]: (0.4, 0.5)})
    batch, named = Batch.of([positions], [orientations])._replace(limits=result.limits), 0
    for p in np.flatnonzero(result.proof > 0):
        said = why_unreachable(robot, Target(link), batch, 0, int(p))
        if said and (found := JOINT.search(said)):
            joint, angle, limit = found[1], float(found[2]), float(found[3])
            k = robot.dof_names.index(joint)
            assert abs(limit - np.array([result.limits.lower[0, k], result.limits.upper[0, k]])).min() < 0.01
            lower, upper = robot.active_limit_lower[k], robot.active_limit_upper[k]
            if lower < angle < upper:  # of the robot, wider than those of the solve
                wider = {joint: (max(lower, angle - 0.02), min(upper, angle + 0.02))}
                again = solver.solve(positions[p], orientations[p], joint_limits=wider)
                named += int(again.success[0])
                assert again.success[0] or again.proof[0] == 0
    assert named >= 5


def test_numbers_are_told_with_the_advice():
    robot = bare_robot("ur5e")
    result = cpu_solver(robot, ["tool0"]).solve([1.5, 0.0, 0.5], [0.0, 0.0, 0.0, 1.0])
    batch = Batch.of([np.array([[1.5, 0.0, 0.5]])], [np.array([[0.0, 0.0, 0.0, 1.0]])])
    options = SolverOptions()
    said = advice(robot, [Target("tool0")], options, result, result.islands, problem=0, batch=batch)
    assert MOVED.search(said)
    assert said.endswith(IKStatus.UNREACHABLE.advice)


def said_of(targets, joint_q, limits):
    """Advice on the poses of a ur5e in a configuration, for targets and limits by joint."""
    robot = bare_robot("ur5e")
    poses = robot.forward_kinematics(joint_q[None], [target.link for target in targets])
    positions, orientations = list(poses.positions.swapaxes(0, 1)), list(poses.orientations_xyzw.swapaxes(0, 1))
    positions[1:] = [one + 5.0 for one in positions[1:]]
    result = cpu_solver(robot, targets).solve(positions, orientations, joint_limits=limits)
    batch = Batch.of(positions, orientations)._replace(limits=result.limits)
    assert result.status_names == ["unreachable"]
    return advice(robot, targets, SolverOptions(), result, result.islands, problem=0, batch=batch)


def test_no_joint_is_named_where_a_singular_wrist_leaves_its_angle_open():
    limits = {"shoulder_pan_joint": (-0.2, 0.2), "wrist_3_joint": (-0.1, 0.1)}
    straight = np.array([0.5, -1.2, 1.0, 0.3, 0.0, 0.8])
    assert "would need" not in said_of([Target("tool0")], straight, limits)
    bent = np.array([0.5, -1.2, 1.0, 0.3, 0.7, 0.8])
    assert "would need" in said_of([Target("tool0")], bent, limits)


@pytest.mark.parametrize("freedom", [{"free": ["rx", "ry", "rz"]}, {"row_weights": [1, 1, 1, 0, 0, 0]}, {}])
def test_a_target_with_open_rows_or_met_is_not_blamed_for_another_one(freedom):
    targets = [Target("tool0", **freedom), Target("forearm_link")]
    said = said_of(targets, np.array([0.1, -1.2, 1.0, 0.3, 0.7, 0.05]), {"wrist_2_joint": (0.6, 0.8)})
    assert "would need" not in said
    assert "tool0' is out of reach" not in said
