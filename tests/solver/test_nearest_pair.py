"""The verdict on the clearance of an answer: which pair is named, and planes that are almost level."""

import numpy as np
import pytest

from ik_service.robots import CollisionModel, HalfSpace, World, load_urdf
from tests.solver.conftest import cpu_solver

# A wagon that moves between two posts.
GANTRY = """<robot name="gantry"><link name="base"/><link name="left"/><link name="right"/><link name="beam"/>
  <link name="wagon"/>
  <joint name="on_left" type="fixed"><parent link="base"/><child link="left"/><origin xyz="0 0.5 0"/></joint>
  <joint name="on_right" type="fixed"><parent link="base"/><child link="right"/><origin xyz="0 -0.5 0"/></joint>
  <joint name="x" type="prismatic"><parent link="base"/><child link="beam"/><axis xyz="1 0 0"/>
    <limit lower="-10" upper="10" effort="1" velocity="1"/></joint>
  <joint name="y" type="prismatic"><parent link="beam"/><child link="wagon"/><axis xyz="0 1 0"/>
    <limit lower="-10" upper="10" effort="1" velocity="1"/></joint></robot>"""


def test_of_pairs_that_are_equally_near_the_first_is_named_alone_and_in_a_batch():
    robot = load_urdf(GANTRY)
    spheres = {name: [[0.0, 0.0, 0.0, 0.1]] for name in ("left", "right", "wagon")}
    robot = robot.with_collision_model(CollisionModel(spheres, [("left", "wagon"), ("right", "wagon")]))
    targets = np.array([[0.2, 0.0, 0.0], *[[0.2, -0.2, 0.0]] * 7])  # the first has both equally near
    solver = cpu_solver(robot, ["wagon"])
    batch = solver.solve(targets, initial_joint_q=targets[:, :2])
    alone = solver.solve(targets[:1], initial_joint_q=targets[:1, :2])
    assert alone.success.all()
    np.testing.assert_array_equal(batch.joint_q[0], alone.joint_q[0])
    np.testing.assert_array_equal(batch.closest[0], alone.closest[0])
    assert batch.closest[0].tolist() == robot.collision(alone.joint_q).closest[0].tolist()


@pytest.mark.evidence
def test_a_plane_that_is_almost_level_is_where_it_is():
    robot = load_urdf(GANTRY).with_collision_model(CollisionModel({"wagon": [[0.0, 0.0, 0.0, 0.1]]}, []))
    normal = np.array(HalfSpace((1.3e-6, 0.0, -1.0)).normal)
    world = World({"ceiling": HalfSpace(tuple(normal), float(-9.0 * normal[0]) - 0.1 + 1e-6)})  # 1 um too near
    result = cpu_solver(robot, ["wagon"]).solve([[-9.0, 0.0, 0.0]], world=world)
    assert result.clearance[0] == pytest.approx(-1e-6, abs=1e-8)
    assert not result.success[0]
