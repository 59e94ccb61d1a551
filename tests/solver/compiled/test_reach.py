"""Proofs by the length of a chain: for robots without a closed form, and for positions alone."""

import numpy as np
import pytest

from ik_service import SolverOptions, Target
from tests.solver.conftest import bare_robot, cpu_solver, use_threads

LINKS = {  # with a fixed base
    "panda_gripper": ["panda_rightfinger"],  # slides
    "dual_panda": ["left_panda_hand", "right_panda_hand"],
    "ur5e": ["tool0"],
    "allegro": ["link_3.0_tip", "link_15.0_tip"],
}
COUNT = 400
TOLERANCE = 1e-3


@pytest.mark.parametrize("name", LINKS)
def test_no_reachable_position_is_refused(name):
    robot, links, rng = bare_robot(name), LINKS[name], np.random.default_rng(1)
    tool = [0.1, -0.2, 0.3, 0.5, -0.5, 0.5, 0.5]
    lower = np.where(np.isfinite(robot.active_limit_lower), robot.active_limit_lower, -np.pi)
    upper = np.where(np.isfinite(robot.active_limit_upper), robot.active_limit_upper, np.pi)
    joint_q = robot.random_joint_q(rng, COUNT)
    ends = rng.integers(0, 2, (COUNT // 2, len(lower))) == 1  # straight chains are among these
    column = robot.dof_coordinate[robot.active_dof]
    joint_q[: COUNT // 2, column] = np.where(ends, lower, np.where(rng.random(ends.shape) < 0.5, upper, 0.0))
    joint_q = robot.complete_joint_q(joint_q)
    framed, tools = robot, []
    for k, link in enumerate(links):
        framed = framed.with_frame(f"tool{k}x", link, tool)
        tools.append(f"tool{k}x")
    positions = framed.forward_kinematics(joint_q, tools).positions
    away = positions / np.linalg.norm(positions, axis=2, keepdims=True)
    targets = [Target(link, offset=tool) for link in links]
    result = cpu_solver(robot, targets).solve(
        positions + 0.99 * TOLERANCE * away,
        None,
        options={"position_tolerance": TOLERANCE, "collision": "off", "seeds": 1, "max_iterations": 1},
    )
    assert (result.proof == 0).all()


@pytest.mark.parametrize("name", LINKS)
def test_a_position_further_away_than_the_chain_is_long_is_proven_to_be_out_of_reach(name):
    robot, links = bare_robot(name), LINKS[name]
    solver = cpu_solver(robot, links)
    far = np.full((1, len(links), 3), 4.0)
    result = solver.solve(far, None)
    assert (result.status_names, result.proof.tolist()) == (["unreachable"], [1])
    assert solver.solve(far, None, options={"solutions": 2}).proof.tolist() == [1]
    if len(links) > 1:  # one target far away is enough
        far[0, 0] = robot.forward_kinematics(robot.mid_joint_q[None], links[:1]).positions[0, 0]
        assert "unreachable" in solver.solve(far, None).status_names


def test_a_chain_that_may_slide_without_limits_proves_nothing():
    robot, far = bare_robot("panda_gripper"), np.full((1, 3), 4.0)
    options = SolverOptions(joint_limits="off", collision="off")
    assert cpu_solver(robot, ["panda_rightfinger"], options=options).solve(far, None).proof.tolist() == [0]
    floating = bare_robot("humanoid")
    assert cpu_solver(floating, ["left_grasp"]).solve(far, None).success.all()


def test_threads_give_the_proofs_of_packets(monkeypatch):
    robot, links = bare_robot("dual_panda"), LINKS["dual_panda"]
    positions = np.random.default_rng(2).uniform(-1.0, 1.0, (COUNT, 2, 3))
    packets = cpu_solver(robot, links).solve(positions, None)
    use_threads(monkeypatch)
    result = cpu_solver(robot, links).solve(positions, None)
    np.testing.assert_array_equal(result.proof, packets.proof)
    assert 0 < (packets.proof > 0).sum() < COUNT
