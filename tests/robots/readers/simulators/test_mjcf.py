"""MJCF files, with MuJoCo as the witness of where their bodies and sites stand."""

import sys
from pathlib import Path

import mujoco
import numpy as np
import pytest

from ik_service.errors import RobotFileError
from ik_service.robots import JointType, RobotModel, load_robot
from objectives.errors import InputError

TOLERANCE = 1e-12

ARM = """<mujoco model="arm">
  <compiler angle="degree" eulerseq="zyx"/>
  <default><default class="finger"><joint type="slide" axis="0 1 0" range="0 0.04"/></default></default>
  <worldbody>
    <site name="floor" pos="0.5 0 0" euler="10 20 30"/>
    <body name="base" pos="0 0 0.3" euler="90 0 0">
      <body name="gimbal" pos="0.1 0.2 0.3" quat="0.9 0.1 -0.3 0.2">
        <joint name="yaw" axis="0 0 1" pos="0 0.05 0" range="-90 90" ref="20"/>
        <joint name="pitch" axis="0 1 1" pos="0.02 0 0.1"/>
        <joint name="lift" type="slide" axis="1 0 1" range="-0.2 0.3" ref="0.1"/>
        <geom size="0.1"/>
        <site name="eye" pos="0.1 0 0" euler="0 45 0"/>
        <body name="wrist" pos="0 0 0.4">
          <joint name="wrist" type="ball" pos="0 0 -0.05"/>
          <geom size="0.1"/>
          <body pos="0 0.02 0.1">
            <joint name="finger" class="finger" actuatorfrclimited="true" actuatorfrcrange="-20 20"/>
            <geom size="0.01"/>
          </body>
          <body name="finger" pos="0 -0.02 0.1" euler="180 0 0">
            <joint class="finger"/>
            <geom size="0.01"/>
            <site name="finger"/>
          </body>
        </body>
      </body>
    </body>
    <body name="drone" pos="1 2 3" euler="5 10 15">
      <freejoint name="flight"/><geom size="0.1"/>
      <body name="rotor" pos="0.3 0 0"><joint name="spin" axis="0 0 1" pos="0.01 0 0"/><geom size="0.01"/></body>
    </body>
    <body name="handle" mocap="true"/>
  </worldbody>
  <equality>
    <joint joint1="joint_5" joint2="finger" polycoef="0.005 0.5 0 0 0"/>
    <joint joint1="lift" joint2="yaw" polycoef="0.01 0.1 0 0 0"/>
    <joint joint1="pitch" polycoef="0.4 0 0 0 0"/>
    <weld body1="wrist" body2="handle"/>
    <joint joint1="spin" joint2="yaw" polycoef="0 3 0 0 0" active="false"/>
  </equality>
</mujoco>
"""


def _written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "arm.xml"
    path.write_text(text)
    return path


@pytest.fixture
def arm(tmp_path: Path) -> tuple[RobotModel, mujoco.MjModel]:
    # joint_5 has no name of its own; equalities need one to be written down
    path = _written(tmp_path, ARM.replace('<joint class="finger"/>', '<joint name="joint_5" class="finger"/>'))
    return load_robot(path), mujoco.MjModel.from_xml_path(str(path))


def _place(model: mujoco.MjModel, robot: RobotModel, joint_q: np.ndarray) -> mujoco.MjData:
    """Put MuJoCo into one of our configurations."""
    data = mujoco.MjData(model)
    for joint in range(model.njnt):
        ours = robot.joint_index(model.joint(joint).name)
        q = joint_q[robot.joint_q_start[ours] : robot.joint_q_start[ours + 1]].copy()
        if len(q) > 1:
            q[-4:] = np.roll(q[-4:], 1)  # w first there
        data.qpos[model.jnt_qposadr[joint] : model.jnt_qposadr[joint] + len(q)] = q
    mujoco.mj_kinematics(model, data)
    return data


def test_bodies_and_sites_stand_where_mujoco_puts_them(arm: tuple[RobotModel, mujoco.MjModel]) -> None:
    robot, model = arm
    compared = 0
    for joint_q in robot.random_joint_q(np.random.default_rng(0), 10):
        data = _place(model, robot, joint_q)
        for kind, count, positions, rotations in (
            ("body", model.nbody, data.xpos, data.xmat),
            ("site", model.nsite, data.site_xpos, data.site_xmat),
        ):
            for index in range(count):
                name = getattr(model, kind)(index).name or f"{kind}_{index}"
                link = f"{name}_site" if (kind, name) == ("site", "finger") else name
                poses = robot.forward_kinematics(joint_q, [link])
                theirs = np.zeros(4)
                mujoco.mju_mat2Quat(theirs, rotations[index])
                cosine = abs(float(poses.orientations_xyzw[0, 0] @ np.roll(theirs, -1)))
                assert np.abs(poses.positions[0, 0] - positions[index]).max() < TOLERANCE, link
                assert cosine == pytest.approx(1.0, abs=TOLERANCE), link
                compared += 1
    assert compared == 10 * (model.nbody + model.nsite) == 10 * (9 + 3)


def test_joints_keep_their_types_limits_and_efforts(arm: tuple[RobotModel, mujoco.MjModel]) -> None:
    robot, _ = arm
    kinds = {"REVOLUTE": {"yaw"}, "CONTINUOUS": {"pitch", "spin"}, "PRISMATIC": {"lift", "finger", "joint_5"}}
    kinds |= {"BALL": {"wrist"}, "FLOATING": {"flight"}}
    for name, kind in zip(robot.joint_names, robot.joint_type, strict=True):
        assert name in kinds[JointType(kind).name]
    assert len(robot.joint_names) == 8
    yaw, finger = robot.dof_names.index("yaw"), robot.dof_names.index("finger")
    assert robot.joint_limit_upper[yaw] == pytest.approx(np.pi / 2)
    assert (robot.joint_effort_limit[finger], robot.joint_effort_limit[yaw]) == (20.0, np.inf)


def test_linear_equalities_become_couplings(arm: tuple[RobotModel, mujoco.MjModel]) -> None:
    robot, model = arm
    for joint_q in robot.random_joint_q(np.random.default_rng(0), 5):
        data = _place(model, robot, joint_q)
        q = {model.joint(j).name: data.qpos[model.jnt_qposadr[j]] for j in range(model.njnt)}
        start = {model.joint(j).name: model.qpos0[model.jnt_qposadr[j]] for j in range(model.njnt)}
        assert q["joint_5"] == pytest.approx(0.005 + 0.5 * q["finger"])
        assert q["lift"] - start["lift"] == pytest.approx(0.01 + 0.1 * (q["yaw"] - start["yaw"]))
        assert q["pitch"] == pytest.approx(0.4)
    assert dict(robot.locked) == {"pitch": (0.4,)}
    moving = {robot.dof_names[dof] for dof in robot.active_dof}
    assert {"yaw", "finger", "spin"} <= moving
    assert not {"lift", "joint_5", "pitch"} & moving


def test_objects_without_names_are_numbered(tmp_path: Path) -> None:
    body = '<body><joint axis="0 0 1"/><geom size="0.1"/><body pos="1 0 0"><joint/><geom size="0.1"/></body></body>'
    robot = load_robot(_written(tmp_path, f"<mujoco><worldbody>{body}</worldbody></mujoco>"))
    assert (robot.joint_names, robot.link_names) == (("joint_0", "joint_1"), ("world", "body_1", "body_2"))
    assert robot.name == "arm"


BAD = {
    "no mjcf": ('<robot name="r"><link name="a"/></robot>', "<robot>: the outermost element must be <mujoco>"),
    "not xml": ("mujoco", "'arm.xml' is not well-formed XML"),
    "unknown element": (
        "<mujoco><worldbody><lump/></worldbody></mujoco>",
        "MuJoCo cannot compile 'arm.xml': (?s:.*)'lump'",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_represented_is_refused(tmp_path: Path, case: str) -> None:
    text, words = BAD[case]
    with pytest.raises(RobotFileError, match=words):
        load_robot(_written(tmp_path, text))


def test_a_range_of_a_ball_joint_is_named_and_not_kept(tmp_path: Path) -> None:
    neck = '<mujoco><worldbody><body><joint name="neck" type="ball" {}/><geom size="0.1"/></body></worldbody></mujoco>'
    limited, free = (load_robot(_written(tmp_path, neck.format(limit))) for limit in ('range="0 1"', ""))
    assert limited.warnings == ("Joint 'neck' turns without limits: the range of a ball joint is not kept.",)
    assert free.warnings == ()
    assert limited.content_hash == free.content_hash


def test_an_mjcf_file_may_be_called_so_and_begin_with_blank_lines(tmp_path: Path) -> None:
    body = '<body name="upper"><joint name="shoulder" range="-60 60"/><geom size="0.1"/></body>'
    text = f"<mujoco><worldbody>{body}</worldbody></mujoco>"
    expected = load_robot(_written(tmp_path, text))
    for name in ("arm.mjcf", "arm.MJCF", "blank.xml"):
        (tmp_path / name).write_text(f'\n\n<?xml version="1.0"?>\n{text}' if name == "blank.xml" else text)
        assert load_robot(tmp_path / name).content_hash == expected.content_hash
    assert load_robot(f'\n\n<?xml version="1.0"?>\n{text}').content_hash == expected.content_hash


def test_without_mujoco_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(InputError, match=r"pip install '\.\[mujoco\]'"):
        load_robot(_written(tmp_path, ARM))
