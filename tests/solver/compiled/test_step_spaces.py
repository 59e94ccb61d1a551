"""What steps in the space of the rows, and floors in proportion to each entry, are for."""

import dataclasses

import numpy as np
import pytest

from ik_service import Target
from tests.solver.compiled.test_compiled import make, serial_chain
from tests.solver.conftest import Reachable, bare_robot

COUNT = 400
UNEVEN = [[1.0, 1.0, 1.0, 1e-3, 1e-3, 1e-3], [1e-3, 1.0, 1.0, 1.0, 1e-3, 1.0], [1e-3, 1e-3, 1e-3, 1.0, 1.0, 1.0]]
LIMBS = ["left_grasp", "right_grasp", "left_sole", "right_sole"]


def solved(problems, result):
    """The share of problems that are solved, by float64 kinematics on the host."""
    problems.check_honest(result)
    return result.success.mean()


@pytest.mark.parametrize("row_weights", UNEVEN)
@pytest.mark.parametrize(("name", "link"), [("panda", "panda_hand"), ("ur5e", "tool0")])
def test_light_rows_beside_heavy_ones_are_solved(name, link, row_weights):
    problems = Reachable.draw(bare_robot(name), [link], COUNT, random_seed=21)
    solver = make(problems.robot, [Target(link, row_weights=row_weights)], options=None)
    result = solver.solve(*problems.targets)
    assert solved(problems, result) >= 0.99


def test_light_hands_beside_heavy_feet_are_solved():
    problems = Reachable.draw(bare_robot("humanoid"), LIMBS, COUNT, random_seed=22)
    weights = [[0.01] * 6] * 2 + [[1.0] * 6] * 2
    targets = [Target(link, row_weights=own) for link, own in zip(LIMBS, weights, strict=True)]
    result = make(problems.robot, targets, options=None).solve(*problems.targets)
    assert solved(problems, result) >= 0.98


@pytest.mark.evidence
@pytest.mark.parametrize("dofs", [40, 100])
def test_long_chains_are_compiled(dofs):
    problems = Reachable.draw(serial_chain(dofs), [f"link{dofs}"], COUNT, random_seed=23)
    result = make(problems.robot, problems.links, engine="auto").solve(*problems.targets)
    assert result.engine == "compiled"
    assert solved(problems, result) >= 0.99


def test_an_arm_whose_joints_have_no_range_is_blocked_where_it_is():
    """No DOF is ever free: the system of the rows is zero but for the damping."""
    panda = bare_robot("panda")
    q = np.array(panda.mid_joint_q)
    fixed = dataclasses.replace(panda, joint_limit_lower=q, joint_limit_upper=q)
    far = panda.forward_kinematics(q[None] + 0.05, ["panda_hand"])
    result = make(fixed, ["panda_hand"]).solve(far.positions, far.orientations_xyzw)
    assert result.status_names == ["unreachable"]
    np.testing.assert_allclose(result.joint_q, q[None], atol=1e-6)
