"""Proofs refuse no target within the tolerances of a reachable one; most targets out of reach are refused."""

import numpy as np
import pytest

from ik_service.compiler.closed_form import ArmClass, ArmProofs
from ik_service.kinematics.manipulability import lever_length
from objectives.expression import evaluate
from tests.compiler.closed_form.arms import (
    JOINTS,
    NAMES,
    anywhere,
    configurations,
    disturbed,
    inputs_of,
    proofs_of,
    robot_of,
)

COUNT = 20_000
SEARCHED = (ArmClass.SEARCHED, ArmClass.SEVEN)
TOLERANCES = [(1e-3, 1e-2), (1e-5, 1e-4), (2e-2, 0.2)]
REFUSED_IN_A_BOX = {"spherical": 0.85, "parallel": 0.85, "ur5e": 0.6, "searched": 0.7, "seven": 0.6}  # of all targets


def refusals(proofs, values, *, searched):
    outputs = [proofs.shell, proofs.intervals] if not searched or "last_cosine" in values else [proofs.shell]
    return [np.broadcast_to(one, COUNT) > 0.0 for one in evaluate(outputs, values)]


def limits_of(robot, rng, narrowed):
    lower = np.where(np.isfinite(robot.active_limit_lower), robot.active_limit_lower, -np.pi)
    upper = np.where(np.isfinite(robot.active_limit_upper), robot.active_limit_upper, np.pi)
    share = 0.3 * narrowed * (upper - lower) * rng.random((2, len(lower)))
    return lower + share[0], upper - share[1]


@pytest.mark.parametrize("tolerances", TOLERANCES)
@pytest.mark.parametrize("narrowed", [0, 1])
@pytest.mark.parametrize("name", NAMES)
def test_no_reachable_target_is_refused(name, narrowed, tolerances):
    rng, (robot, link) = np.random.default_rng(7), robot_of(name)
    nominal, proofs = proofs_of(name)
    searched = nominal.kind in SEARCHED
    lower, upper = limits_of(robot, rng, narrowed)
    active = configurations(robot, COUNT, rng, lower, upper)
    joint_q = np.tile(robot.mid_joint_q, (COUNT, 1))
    joint_q[:, robot.dof_coordinate[robot.active_dof]] = active
    tool = np.array([0.1, -0.2, 0.3, 0.5, -0.5, 0.5, 0.5])
    poses = robot.with_frame("tool", link, tool).forward_kinematics(joint_q, ["tool"])
    targets = disturbed(poses.positions[:, 0], poses.orientations_xyzw[:, 0], rng, *tolerances)
    for spread in (1e-3, 0.05, 0.4) if searched else (None,):
        last = None
        if spread is not None:
            angle = active[:, nominal.arm.dofs[-1]] + spread * rng.uniform(-1.0, 1.0, COUNT)
            last = np.cos(angle), np.sin(angle), spread * 1.0001 + 1e-6
        values = inputs_of(nominal.arm, *targets, tolerances, lower, upper, tool, last)
        assert not any(one.any() for one in refusals(proofs, values, searched=searched))


@pytest.mark.parametrize("name", list(JOINTS))
def test_no_target_that_a_disturbed_arm_reaches_is_refused(name):
    rng, (robot, link) = np.random.default_rng(8), robot_of(name, 1e-3, 5e-4)
    nominal, proofs = proofs_of(name, 1e-3, 5e-4)
    lower, upper = limits_of(robot, rng, 0)
    joint_q = configurations(robot, COUNT, rng, lower, upper)
    poses = robot.forward_kinematics(joint_q, [link])
    targets = disturbed(poses.positions[:, 0], poses.orientations_xyzw[:, 0], rng, 1e-3, 1e-2)
    searched, last = nominal.kind in SEARCHED, None
    if searched:
        angle = joint_q[:, -1] + 0.01 * rng.uniform(-1.0, 1.0, COUNT)
        last = np.cos(angle), np.sin(angle), 0.01 * 1.0001 + 1e-6
    values = inputs_of(nominal.arm, *targets, (1e-3, 1e-2), lower, upper, last=last)
    assert not any(one.any() for one in refusals(proofs, values, searched=searched))


@pytest.mark.parametrize("name", list(REFUSED_IN_A_BOX))
def test_targets_out_of_reach_are_refused(name):
    rng, (robot, link) = np.random.default_rng(9), robot_of(name)
    nominal, proofs = proofs_of(name)
    values = inputs_of(nominal.arm, *anywhere(robot, link, rng, COUNT), (1e-3, 1e-2), *limits_of(robot, rng, 0))
    refused = refusals(proofs, values, searched=nominal.kind in SEARCHED)
    assert np.logical_or.reduce(refused).mean() > REFUSED_IN_A_BOX[name]


@pytest.mark.parametrize("name", NAMES)
def test_without_limits_and_with_nan_less_is_refused(name):
    rng, (robot, link) = np.random.default_rng(10), robot_of(name)
    nominal, proofs = proofs_of(name)
    positions, orientations_xyzw = anywhere(robot, link, rng, COUNT)
    free = np.full(robot.active_dof_count, np.inf)
    searched = nominal.kind in SEARCHED
    own = inputs_of(nominal.arm, positions, orientations_xyzw, (1e-3, 1e-2), *limits_of(robot, rng, 0))
    wide = inputs_of(nominal.arm, positions, orientations_xyzw, (1e-3, 1e-2), -free, free)
    refused = [refusals(proofs, values, searched=searched) for values in (own, wide)]
    assert all(np.all(a >= b) for a, b in zip(*refused, strict=True))
    nothing = refusals(proofs, own | {"target_x": np.full(COUNT, np.nan)}, searched=searched)
    assert not any(one.any() for one in nothing)


@pytest.mark.parametrize("name", NAMES)
def test_a_branch_holds_the_configuration_of_its_pose(name):
    """In float64 and without tolerances, for a given last joint where it is searched."""
    rng, (robot, link) = np.random.default_rng(12), robot_of(name)
    nominal, proofs = proofs_of(name)
    searched = nominal.kind in SEARCHED
    lower, upper = limits_of(robot, rng, 0)
    joint_q = np.tile(robot.mid_joint_q, (COUNT, 1))
    active = rng.uniform(lower, upper, (COUNT, len(lower)))
    joint_q[:, robot.dof_coordinate[robot.active_dof]] = active
    poses = robot.forward_kinematics(joint_q, [link])
    angles = active[:, list(nominal.arm.dofs)]
    last = (np.cos(angles[:, -1]), np.sin(angles[:, -1]), 0.0) if searched else None
    values = inputs_of(
        nominal.arm, poses.positions[:, 0], poses.orientations_xyzw[:, 0], (0.0, 0.0), lower, upper, last=last
    )
    holds = np.zeros(COUNT, bool)
    for branch in proofs.branches:
        refused, radius, margin, *centres = (
            np.broadcast_to(x, COUNT) for x in evaluate(proofs.numbers(branch), values)
        )
        gaps = np.stack(centres, axis=1) - angles[:, : len(centres)]
        is_own = (np.abs(gaps - 2 * np.pi * np.round(gaps / (2 * np.pi))) <= radius[:, None]).all(axis=1) & (
            refused <= 0.0
        )
        holds |= is_own
        # each angle is within the limits, or as far beyond as the interval is wide
        assert (margin[is_own] >= -radius[is_own] - 1e-3).all()
    assert holds.all()


def test_the_volume_of_a_branch_is_the_manipulability():
    robot, link = robot_of("seven")
    nominal, _ = proofs_of("seven")
    proofs, rng = ArmProofs(nominal, is_exact=True), np.random.default_rng(3)
    lower, upper = limits_of(robot, rng, 0)
    active = configurations(robot, 2000, rng, lower, upper)
    joint_q = np.tile(robot.mid_joint_q, (len(active), 1))
    joint_q[:, robot.dof_coordinate[robot.active_dof]] = active
    poses = robot.forward_kinematics(joint_q, [link])
    targets = poses.positions[:, 0], poses.orientations_xyzw[:, 0]
    values = inputs_of(nominal.arm, *targets, (0.0, 0.0), lower, upper)
    values["last_angle"] = active[:, nominal.arm.dofs[-1]]
    outputs = [number for one in proofs.branches for number in (proofs.volume(one), *proofs.expressions(*one.angles))]
    numbers = np.array(evaluate(outputs, values)).reshape(len(proofs.branches), 7, -1)
    gap = np.abs(np.sin(0.5 * (numbers[:, 1:] - active[:, nominal.arm.dofs[:-1]].T))).max(axis=1)
    own = numbers[gap.argmin(axis=0), 0, np.arange(len(active))]  # of the branch of the drawn configuration
    found = (gap.min(axis=0) < 1e-6) & (robot.manipulability(joint_q, link) > 1e-3)
    assert found.mean() > 0.5
    whole = own[found] / lever_length(robot, link) ** 3
    np.testing.assert_allclose(whole, robot.manipulability(joint_q[found], link), rtol=1e-4)
