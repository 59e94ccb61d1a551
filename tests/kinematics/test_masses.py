"""Masses and centres of mass: by hand, against Pinocchio and MuJoCo, and in robots made from others."""

import mujoco
import numpy as np
import pinocchio as pin
import pytest

import ik_service
from ik_service.mechanism.transforms import quaternion_exp, quaternion_multiply
from ik_service.robots import load_robot, load_urdf
from objectives import InputError
from tests.foreign_robots import CASES, Witness, load_foreign
from tests.robots.readers.simulators.test_mjcf import _place

TIGHT = 1e-12  # [m] of float64 sums over some tens of bodies a few metres away
CONFIGURATIONS = 4
INERTIAL = '<inertial><origin xyz="{}" rpy="0.3 0 1"/><mass value="{}"/></inertial>'
ARM = f"""<robot name="arm">
  <link name="base">{INERTIAL.format("0 0 0.1", 4)}</link>
  <link name="upper">{INERTIAL.format("0.5 0 0", 2)}</link>
  <link name="tool">{INERTIAL.format("0 0.2 0", 1)}</link>
  <link name="fore"/>
  <link name="tip"><inertial><mass value="1"/></inertial></link>
  <joint name="shoulder" type="continuous"><parent link="base"/><child link="upper"/><axis xyz="0 0 1"/></joint>
  <joint name="mount" type="fixed"><parent link="upper"/><child link="tool"/><origin xyz="1 0 0"/></joint>
  <joint name="elbow" type="continuous"><parent link="tool"/><child link="fore"/><axis xyz="0 0 1"/></joint>
  <joint name="end" type="fixed"><parent link="fore"/><child link="tip"/><origin xyz="0.5 0 0"/></joint>
</robot>"""


@pytest.fixture
def arm():
    return load_urdf(ARM)


class TestByHand:
    def test_links_have_the_masses_of_the_file(self, arm):
        masses = {"base": 4.0, "upper": 2.0, "tool": 1.0, "fore": 0.0, "tip": 1.0}
        assert dict(zip(arm.link_names, arm.link_mass.tolist(), strict=True)) == masses
        assert arm.link_com[arm.link_index("tool")].tolist() == [0.0, 0.2, 0.0]

    def test_what_is_fixed_to_a_body_counts_into_it(self, arm):
        static, upper, fore = arm.body_masses
        assert (static.body, static.mass, static.com) == (-1, 4.0, (0.0, 0.0, 0.1))
        assert (upper.body, upper.mass) == (0, 3.0)
        np.testing.assert_allclose(upper.com, [2.0 / 3.0, 0.2 / 3.0, 0.0], atol=TIGHT)
        assert (fore.body, fore.mass, fore.com) == (1, 1.0, (0.5, 0.0, 0.0))

    def test_the_centre_of_all_of_it(self, arm):
        straight, bent = arm.center_of_mass([[0.0, 0.0], [np.pi / 2.0, np.pi / 2.0]])
        np.testing.assert_allclose(straight, [(2 * 0.5 + 1.0 + 1.5) / 8.0, 0.2 / 8.0, 0.4 / 8.0], atol=TIGHT)
        np.testing.assert_allclose(bent, [(-0.2 - 0.5) / 8.0, (2 * 0.5 + 1.0 + 1.0) / 8.0, 0.4 / 8.0], atol=TIGHT)

    def test_a_robot_without_masses_says_so_and_a_mass_of_zero_is_none(self):
        panda = ik_service.load_robot("panda")
        assert panda.body_masses == ()
        with pytest.raises(InputError, match="Robot 'panda' has no masses"):
            panda.center_of_mass(panda.mid_joint_q)
        robot = load_urdf(ARM.replace('value="2"', 'value="0"'))
        assert [one.mass for one in robot.body_masses] == [4.0, 1.0, 1.0]


class TestParts:
    def test_locks_frames_and_floating_bases_keep_masses(self, arm):
        locked, q = arm.lock({"shoulder": 0.4}), np.array([0.4, -0.7])
        assert (locked.center_of_mass(q) == arm.center_of_mass(q)).all()
        framed = arm.with_frame("tcp", "tip", [0.1, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
        assert framed.body_masses == arm.body_masses
        floating = load_urdf(ARM, floating_base=True)
        assert [(one.body, one.mass) for one in floating.body_masses] == [(0, 4.0), (1, 3.0), (2, 1.0)]

    def test_a_part_has_the_masses_of_its_links(self, arm):
        part = arm.subrobot("upper")  # upper and tool are its base now
        static, fore = part.body_masses
        assert (static.body, static.mass) == (-1, 3.0)
        np.testing.assert_allclose(static.com, [2.0 / 3.0, 0.2 / 3.0, 0.0], atol=TIGHT)
        assert (fore.body, fore.mass) == (0, 1.0)
        cut = arm.subrobot("base", stop_at=["upper"])  # the tool is on the same body and left out
        assert [one.mass for one in cut.body_masses] == [4.0, 2.0]


@pytest.mark.parametrize(("distribution", "ending", "floating"), CASES)
def test_the_centre_of_mass_is_that_of_pinocchio(distribution, ending, floating):
    robot, theirs = load_foreign(distribution, ending, floating)
    witness = Witness(robot, theirs)
    drawn = robot.random_joint_q(np.random.default_rng(8), CONFIGURATIONS)
    joint_q = robot.clamp_joint_q(np.clip(drawn, -np.pi, np.pi))
    masses = np.array([inertia.mass for inertia in theirs.inertias])
    assert masses.sum() > 0.1
    assert abs(robot.link_mass.sum() - masses.sum()) < TIGHT * masses.sum()
    static = theirs.inertias[0]  # which they leave out of the centre
    for row, centre in enumerate(robot.center_of_mass(joint_q)):
        witness.place(joint_q[row])
        expected = pin.centerOfMass(theirs, witness.data, pin.KinematicLevel.POSITION) * masses[1:].sum()
        if static.mass > 0.0:
            expected = expected + static.mass * static.lever
        np.testing.assert_allclose(centre, expected / masses.sum(), rtol=0.0, atol=TIGHT)


MJCF = """<mujoco>
  <worldbody>
    <geom type="box" size="1 1 0.1"/>
    <body name="stand" pos="0.2 0 0.3"><inertial pos="0 0.1 0" mass="3" diaginertia="1 1 1"/>
      <body name="arm" pos="0 0 0.4" euler="20 0 10">
        <joint name="first" axis="0 1 0" pos="0.1 0 0"/><joint name="second" axis="1 0 0"/>
        <geom type="capsule" fromto="0 0 0 0.5 0 0.1" size="0.05" density="700"/>
        <body name="ball" pos="0.5 0 0.1"><joint name="round" type="ball" pos="0 0 0.05"/>
          <geom type="sphere" size="0.08" pos="0 0 0.1" mass="0.7"/><site name="mark" pos="0 0 0.2"/></body>
      </body>
    </body>
    <body name="flying"><freejoint name="free"/><geom type="sphere" size="0.1" mass="2" pos="0.1 0.2 0"/></body>
  </worldbody>
</mujoco>"""


def test_the_centre_of_mass_of_an_mjcf_file_is_that_of_mujoco(tmp_path):
    path = tmp_path / "robot.xml"
    path.write_text(MJCF)
    robot, model = load_robot(path), mujoco.MjModel.from_xml_path(str(path))
    for joint_q in robot.random_joint_q(np.random.default_rng(1), CONFIGURATIONS):
        data = _place(model, robot, joint_q)
        mujoco.mj_comPos(model, data)
        np.testing.assert_allclose(robot.center_of_mass(joint_q)[0], data.subtree_com[0], atol=TIGHT)
    assert abs(robot.link_mass.sum() - model.body_mass.sum()) < TIGHT
    assert len(robot.body_masses) == 4


def test_the_centre_of_mass_moves_with_a_floating_base():
    robot = load_urdf(ARM, floating_base=True)
    turn = quaternion_exp(np.array([0.4, 1.0, -0.3]))
    still = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.3, -0.5])
    moved = np.array([0.2, -0.1, 0.5, *turn, 0.3, -0.5])
    (before,), (after,) = robot.center_of_mass(still), robot.center_of_mass(moved)
    spun = quaternion_multiply(quaternion_multiply(turn, np.array([*before, 0.0])), turn * [-1.0, -1.0, -1.0, 1.0])
    np.testing.assert_allclose(after, spun[:3] + np.array([0.2, -0.1, 0.5]), atol=TIGHT)
