"""MuJoCo as a second witness: its residuals where loops are closed, and its Jacobian for velocities and ranks."""

import mujoco
import numpy as np
import pytest

from ik_service.robots import load_robot
from tests.robots.readers.simulators.test_mjcf import _place, _written

ARMS = """<mujoco model="arms">
  <compiler angle="radian"/>
  <worldbody>
    <body name="left"><joint name="l1" axis="0 0 1"/><geom size="0.02"/>
      <body name="left_2" pos="0.3 0 0.1" euler="0.2 0 0"><joint name="l2" axis="0 1 0.3"/><geom size="0.02"/>
        <body name="left_3" pos="0.3 0 0"><joint name="l3" axis="0 1 0"/><joint name="l4" axis="1 0 0"/>
          <geom size="0.02"/></body></body></body>
    <body name="right" pos="0.4 0.3 0" euler="0 0.3 0"><joint name="r1" axis="0 0 1"/><geom size="0.02"/>
      <body name="right_2" pos="0.3 0 0.1"><joint name="r2" axis="0.2 1 0"/><geom size="0.02"/>
        <body name="right_3" pos="0 0.3 0"><joint name="r3" axis="0 0 1"/><joint name="r4" type="slide" axis="0 1 0"/>
          <geom size="0.02"/></body></body></body>
  </worldbody>
  <equality>{}</equality>
</mujoco>"""
TIPS = '<connect name="tips" body1="left_3" body2="right_3" anchor="0.2 0.05 0"/>'
EQUALITIES = {
    "connect": TIPS,
    "weld": '<weld name="tips" body1="left_3" body2="right_3" relpose="0.2 0.1 0.1 1 0 0 0"/>',
    "both": f'{TIPS}<connect name="wall" body1="left_2" body2="world" anchor="0.1 0 0"/>',
}


@pytest.mark.parametrize("kind", EQUALITIES)
def test_closed_configurations_and_feasible_velocities_are_those_of_mujoco(kind, tmp_path):
    path = _written(tmp_path, ARMS.format(EQUALITIES[kind]))
    robot, model = load_robot(path), mujoco.MjModel.from_xml_path(str(path))
    constraints = robot.constraints
    rng = np.random.default_rng(0)
    found = constraints.close(robot.random_joint_q(rng, 10))
    assert found.closed.mean() >= 0.9
    velocity = constraints.velocity(found.joint_q, rng.standard_normal((10, robot.joint_dof_count))).joint_qd
    rank = constraints.partition(found.joint_q).rank
    order = [robot.joint_index(model.joint(joint).name) for joint in range(model.njnt)]
    for k in np.flatnonzero(found.closed):
        data = _place(model, robot, found.joint_q[k])
        mujoco.mj_forward(model, data)
        assert data.nefc == data.ne == constraints.residual_count
        np.testing.assert_allclose(data.efc_pos, 0.0, atol=1e-9)
        jacobian = data.efc_J.reshape(data.nefc, model.nv)
        np.testing.assert_allclose(jacobian @ velocity[k, order], 0.0, atol=1e-7)
        assert np.linalg.matrix_rank(jacobian, tol=1e-9) == rank[k]
    assert np.abs(velocity).max() > 0.1
