"""Equalities of MJCF files become loops and couplings, with MuJoCo's own residuals as the witness."""

import re
from pathlib import Path

import mujoco
import numpy as np
import pytest

from ik_service.mechanism.transforms import quaternion_conjugate, quaternion_multiply, transform_multiply
from ik_service.robots import RobotModel, load_robot
from tests.robots.readers.simulators.test_mjcf import _place, _written
from tests.solver.test_loops import pose_of

RESIDUAL = 1e-12
# A gripper as of an arm with a parallel linkage, a held object, a handle of the simulator, and what couples joints.
LINKAGE = """<mujoco model="gripper">
  <compiler angle="degree" eulerseq="zyx"/>
  <default>
    <joint axis="0 0 1" range="-120 120"/><equality solimp="0.9 0.95 0.001"/>
    <default class="pin"><equality solref="0.01 1"/></default>
    <default class="ball"><site pos="0.1 0.02 0.03" euler="10 20 30"/></default>
  </default>
  <worldbody>
    <site name="dock" pos="0.3 0.6 0.1" euler="40 0 20"/>
    <body name="base" pos="0.1 0.2 0.3" euler="30 0 10">
      <joint name="turn"/><geom size="0.1"/>
      <body name="knuckle" pos="0.1 0 0">
        <joint name="drive" ref="20"/><geom size="0.02"/>
        <body name="finger" pos="0 0.2 0" euler="15 0 0">
          <joint name="bend"/><joint name="twist" axis="0 1 0" pos="0 0.01 0"/><geom size="0.02"/>
          <site name="tip" class="ball"/>
        </body>
      </body>
      <body name="follower" pos="0.3 0 0">
        <joint name="second"/><geom size="0.02"/>
        <body name="rod" pos="0 0.1 0">
          <joint name="roll" type="ball" limited="false"/><geom size="0.02"/>
          <site name="rod_end" pos="0.05 0 0.01" euler="0 30 0"/>
          <body name="slider" pos="0 0.1 0.1">
            <joint name="slide" type="slide" range="-0.1 0.3" ref="0.05"/>
            <joint name="spin" ref="5"/><geom size="0.02"/>
          </body>
        </body>
      </body>
    </body>
    <body name="object" pos="0.2 0.5 0.4" euler="5 10 15"><freejoint name="flight"/><geom size="0.1"/></body>
    <body name="handle" mocap="true"/>
  </worldbody>
  <tendon>
    <fixed name="sum"><joint joint="turn" coef="0.5"/><joint joint="second" coef="-0.25"/></fixed>
    <fixed name="alone"><joint joint="slide" coef="2"/></fixed>
  </tendon>
  <equality>
    <connect name="pin" class="pin" body1="finger" body2="follower" anchor="0.02 0.1 0.03"/>
    <connect site1="tip" site2="rod_end"/>
    <weld name="held" body1="object" body2="slider" relpose="0.1 0.2 0.3 0.9 0.1 -0.3 0.2" anchor="0.01 0.02 0.05"
      torquescale="0.7"/>
    <weld name="grown" body1="finger" body2="rod"/>
    <weld name="docked" site1="tip" site2="dock" torquescale="2"/>
    <weld name="loose" body1="object" body2="rod" torquescale="0" anchor="0.3 0 0"/>
    <connect name="to_world" body1="rod" anchor="0.1 0.2 0.3"/>
    <weld name="dragged" body1="finger" body2="handle"/>
    <connect name="off" body1="knuckle" body2="rod" anchor="0 0 0" active="false"/>
    <joint name="gear" joint1="spin" joint2="drive" polycoef="0.1 -0.5 0 0 0"/>
    <tendon name="shared" tendon1="sum" polycoef="0.02 0 0 0 0"/>
    <tendon name="rail" tendon1="alone" polycoef="0.05 0 0 0 0"/>
  </equality>
</mujoco>
"""
JOINTS = dict.fromkeys(("pin", "equality_1", "loose", "to_world"), "spherical")
JOINTS |= dict.fromkeys(("held", "grown", "docked"), "weld")


@pytest.fixture
def linkage(tmp_path: Path) -> tuple[RobotModel, mujoco.MjModel]:
    path = _written(tmp_path, LINKAGE)
    return load_robot(path), mujoco.MjModel.from_xml_path(str(path))


def residuals(model: mujoco.MjModel, robot: RobotModel, joint_q: np.ndarray) -> dict[str, np.ndarray]:
    """MuJoCo's residuals of the equalities that are on, in one of our configurations."""
    data = _place(model, robot, joint_q)
    mujoco.mj_fwdPosition(model, data)
    rows = data.efc_type == int(mujoco.mjtConstraint.mjCNSTR_EQUALITY)
    ids = np.unique(data.efc_id[rows])
    return {model.equality(i).name or f"equality_{i}": data.efc_pos[rows & (data.efc_id == i)].copy() for i in ids}


def test_rows_of_loops_are_the_residuals_of_mujoco(linkage):
    robot, model = linkage
    assert {loop.name: loop.joint for loop in robot.loops} == JOINTS
    compared = 0
    for joint_q in robot.random_joint_q(np.random.default_rng(0), 20):
        theirs = residuals(model, robot, joint_q)
        for loop in robot.loops:
            frame, base = (
                transform_multiply(pose_of(robot, joint_q[None], link), np.array([offset]))[0]
                for link, offset in ((loop.link, loop.offset), (loop.reference_link, loop.reference_offset))
            )
            apart = frame[:3] - base[:3]
            assert np.linalg.norm(apart) > 1e-3
            np.testing.assert_allclose(theirs[loop.name][:3], apart, atol=RESIDUAL, rtol=0)
            if loop.joint == "weld":
                turn = quaternion_multiply(quaternion_conjugate(base[3:]), frame[3:])[:3]
                scale = {"held": 0.7, "docked": 2.0}.get(loop.name, 1.0)
                sign = np.sign(turn @ theirs[loop.name][3:])  # of the quaternion, which stands for the same turn
                np.testing.assert_allclose(theirs[loop.name][3:], sign * scale * turn, atol=RESIDUAL, rtol=0)
            compared += 1
    assert compared == 20 * len(JOINTS)


def test_couplings_meet_the_residuals_of_mujoco(linkage):
    robot, model = linkage
    assert {robot.dof_names[dof] for dof in robot.follower_dofs} == {"spin", "second"}
    assert set(robot.locked) == {"slide"}
    drawn = robot.random_joint_q(np.random.default_rng(1), 20)
    for joint_q in drawn:
        theirs = residuals(model, robot, joint_q)
        for name in ("gear", "shared", "rail"):
            np.testing.assert_allclose(theirs[name], 0.0, atol=RESIDUAL, rtol=0)
    assert np.ptp(drawn[:, robot.joint_q_start[robot.joint_index("second")]]) > 0.1


def test_handles_of_the_simulator_are_left_out_and_named_and_all_where_that_is_asked_for(linkage, tmp_path):
    told = "Equality 'dragged' (weld) is left out: body 'handle' stands wherever the simulator puts it."
    assert linkage[0].warnings == (told,)
    robot = load_robot(_written(tmp_path, LINKAGE), constraints="ignore")
    assert (robot.loops, robot.warnings, len(robot.follower_dofs), dict(robot.locked)) == ((), (), 0, {})


HINGE = '<body name="{0}"><joint name="{0}"/><geom size="0.1"/></body>'
BODIES = f"<worldbody>{''.join(map(HINGE.format, 'abcd'))}</worldbody>"
FIXED = '<fixed name="{}">{}</fixed>'
TENDONS = {
    name: "".join(f'<joint joint="{joint}" coef="{k + 1}"/>' for k, joint in enumerate(name))
    for name in ("a", "b", "cd", "abc")
}


def coupled(tmp_path: Path, equalities: str, bodies: str = BODIES) -> tuple[RobotModel, mujoco.MjModel]:
    tendons = "".join(FIXED.format(name, joints) for name, joints in TENDONS.items())
    path = _written(tmp_path, f"<mujoco>{bodies}<tendon>{tendons}</tendon><equality>{equalities}</equality></mujoco>")
    return load_robot(path), mujoco.MjModel.from_xml_path(str(path))


def joint(first: str, second: str | None, *polycoef: float) -> str:
    other = "" if second is None else f'joint2="{second}"'
    return f'<joint joint1="{first}" {other} polycoef="{" ".join(map(str, [*polycoef, 0, 0, 0, 0, 0][:5]))}"/>'


SYSTEMS = {
    "a chain": (joint("a", "b", 0.1, 2) + joint("b", "c", 0.2, 3), {"a", "b"}, set()),
    "a chain from below": (joint("b", "c", 0.2, 3) + joint("a", "b", 0.1, 2), {"a", "b"}, set()),
    "each other": (joint("a", "b", 0, 1) + joint("b", "a", 0, 1) + joint("a", "b", 0, 1), {"a"}, set()),
    "each other otherwise": (joint("a", "b", 0.1, 2) + joint("b", "a", 0, 1), {"a"}, {"b"}),
    "one follows two": (joint("a", "b", 0, 1) + joint("a", "c", 0.1, 2), {"a", "b"}, set()),
    "one follows and stays": (joint("a", "b", 0.1, 2) + joint("a", None, 0.5), {"a"}, {"b"}),
    "one stays and is followed": (joint("a", None, 0.5) + joint("b", "a", 0.1, 2), {"b"}, {"a"}),
    "one stays and follows": (joint("a", None, 0.5) + joint("a", "b", 0.1, 2), {"b"}, {"a"}),
    "the same twice": (joint("a", "b", 0.1, 2) * 2, {"a"}, set()),
    "two stay": (joint("a", None, 0.5) + joint("b", None, 0.25) + joint("a", "b", 0, 2), set(), {"a", "b"}),
    "a multiplier of 0": (joint("a", "b", 0.3, 0), {"a"}, set()),
    "two tendons": ('<tendon tendon1="a" tendon2="b" polycoef="0.1 2 0 0 0"/>', {"a"}, set()),
    "a tendon of two": ('<tendon tendon1="cd" polycoef="0.1 0 0 0 0"/>', {"d"}, set()),
    "a tendon of three, one held": (joint("b", None, 0.5) + '<tendon tendon1="abc"/>', {"c"}, {"b"}),
    "a tendon of three, two coupled": (joint("b", "a", 0, 2) + '<tendon tendon1="abc"/>', {"b", "c"}, set()),
    "a tendon of one": ('<tendon tendon1="a" polycoef="0.1 0 0 0 0"/>', set(), {"a"}),
}


@pytest.mark.parametrize("case", SYSTEMS)
def test_linear_equalities_are_solved_together(tmp_path, case):
    equalities, followers, held = SYSTEMS[case]
    robot, model = coupled(tmp_path, equalities)
    assert robot.warnings == ()
    assert ({robot.dof_names[dof] for dof in robot.follower_dofs}, set(robot.locked)) == (followers, held)
    for joint_q in robot.complete_joint_q(robot.random_joint_q(np.random.default_rng(0), 5)):
        found = residuals(model, robot, joint_q)
        assert found
        for rows in found.values():
            np.testing.assert_allclose(rows, 0.0, atol=RESIDUAL, rtol=0)


def test_a_coupling_that_is_not_linear_is_read_as_a_constraint(tmp_path):
    bodies = BODIES.replace('"a"/><geom', '"a" ref="20"/><geom').replace('"b"/><geom', '"b" ref="-15"/><geom')
    robot, model = coupled(tmp_path, joint("a", "b", 0.1, 0.5, -0.3, 0.2, 0.05), bodies)
    (one,) = robot.coordinate_constraints
    assert (one.joint, one.reference_joint, robot.warnings) == ("a", "b", ())
    drawn = robot.random_joint_q(np.random.default_rng(0), 20)
    q, other = (drawn[:, robot.coordinate_names.index(name)] for name in one.joints)
    own = q - np.polynomial.Polynomial(one.coefficients)(other)
    theirs = [residuals(model, robot, joint_q)["equality_0"][0] for joint_q in drawn]
    np.testing.assert_allclose(own, theirs, atol=RESIDUAL, rtol=0)
    assert np.abs(own).min() > 1e-3
    assert load_robot(tmp_path / "arm.xml", constraints="ignore").constraint_names == ()


LIMITED = BODIES.replace('"a"/><geom', '"a" range="0 10"/><geom').replace('"b"/><geom', '"b" range="20 30"/><geom')
SITES = BODIES.replace("<geom", '<site name="p"/><geom', 1).replace("</worldbody>", '<site name="q"/></worldbody>')
SITES += '<tendon><spatial name="path"><site site="p"/><site site="q"/></spatial></tendon>'
LEFT_OUT = {
    "contradicting": (BODIES, joint("a", "b", 1, 1), r"Equality 'odd' \(joint\) is left out: it contradicts"),
    "held elsewhere": (LIMITED, joint("a", None, 1), "value 1 is outside the limits"),
    "apart by limits": (LIMITED, joint("a", "b", 0, 1), "limits of the joints leave it no value"),
    "out of proportion": (BODIES, joint("c", "b", 0, 1e9), "multiplier 1e\\+09 or offset 0 is out of proportion"),
    "three joints": (BODIES, '<tendon tendon1="abc"/>', "it couples 3 joints"),
    "nonlinear tendons": (BODIES, '<tendon tendon1="a" tendon2="b" polycoef="0 0 1 0 0"/>', "only linear couplings"),
    "a path in space": (SITES, '<tendon tendon1="path"/>', "tendon 'path' is not a sum of joints"),
}


@pytest.mark.parametrize("case", LEFT_OUT)
def test_an_equality_that_cannot_be_read_is_left_out_and_named(tmp_path, case):
    bodies, odd, words = LEFT_OUT[case]
    first = joint("a", "b", 0, 1) if case == "contradicting" else joint("c", "d", 0.1, 2)
    robot, _ = coupled(tmp_path, first + odd.replace(" ", ' name="odd" ', 1), bodies)
    (warning,) = robot.warnings
    assert re.search(words, warning)
    assert len(robot.follower_dofs) == 1
